/** Trees, searches, usage and news over HTTP. */
import { expect, test } from "vitest";
import { openPage } from "./page-client.ts";
import { type Served, serve } from "./served.ts";

interface WireTree {
  root: string | null;
  current: string | null;
  truncated: boolean;
  nodes: Record<string, unknown>[];
}

const get = async <T>(served: Served, path: string, token?: string): Promise<T> => {
  const answer = await served.fetch(path, token === undefined ? {} : { token });
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
  return (await answer.json()) as T;
};

const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110, cost: 0.01 };

test("W4 the tree over HTTP: branches, a sub-agent with its cost, what waits, a conversation's place", async () => {
  const served = await serve([
    { text: "first", usage },
    { text: "left", usage },
    {
      calls: [{ name: "task", arguments: { description: "look", task: "look around", agent_type: "explore" } }],
      usage,
    },
    { text: "seen", usage },
    { text: "right", usage },
    { calls: [{ name: "write", arguments: { path: "a.txt", content: "x" } }], usage },
  ]);
  const made = async () =>
    ((await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string }).id;
  const [conversation, empty] = [await made(), await made()];
  const first = await served.respond({ model: "test-model", input: "one", conversation });
  const left = await served.respond({ model: "test-model", input: "two", previous_response_id: first.id });
  const right = await served.respond({ model: "test-model", input: "delegate", previous_response_id: first.id });
  const waiting = await served.respond({
    model: "test-model",
    input: "write",
    previous_response_id: left.id,
    background: true,
  });
  await expect.poll(async () => (await served.app.store.node(waiting.id))?.status).toBe("waiting");
  const tree = await get<WireTree>(served, `/v1/tree?response=${right.id}`);
  expect(tree).toMatchObject({ object: "tree", root: first.id, current: right.id, truncated: false });
  const byId = new Map(tree.nodes.map((node) => [node.id, node]));
  expect([...byId.keys()].slice(0, 3)).toEqual([first.id, left.id, right.id]);
  expect(byId.get(first.id)).toMatchObject({ prompt: "one", answer: "first", cost: 0.01, waits_for: null });
  expect(byId.get(first.id)).not.toHaveProperty("tree_cost");
  expect(byId.get(waiting.id)).toMatchObject({
    status: "waiting",
    waits_for: "approval",
    previous_response_id: left.id,
  });
  const agent = tree.nodes.find((node) => node.caller !== null);
  expect(agent).toMatchObject({ caller: { response_id: right.id }, profile: "explore", answer: "seen" });
  expect(byId.get(right.id)?.tree_cost).toBeCloseTo(0.03, 6);
  // From the sub-agent it is the same picture.
  expect((await get<WireTree>(served, `/v1/tree?response=${String(agent?.id)}`)).nodes).toEqual(tree.nodes);
  const there = await get<WireTree>(served, `/v1/tree?conversation=${conversation}`);
  expect(there.nodes.map(({ id }) => id)).toEqual(tree.nodes.map(({ id }) => id));
  expect((await get<WireTree>(served, `/v1/tree?response=${first.id}&limit=2`)).truncated).toBe(true);
  expect(await get(served, `/v1/tree?conversation=${empty}`)).toMatchObject({
    root: null,
    current: null,
    nodes: [],
  });
});

test("W3 W4 search and usage over HTTP show each token its own, and the local one everything", async () => {
  const served = await serve([
    { text: "the heron stands in the reeds", usage },
    { text: "a heron of hers", usage },
  ]);
  const alice = await served.newToken({ scopes: ["responses:read", "responses:write"] });
  const bob = await served.newToken({ scopes: ["responses:read"] });
  const mine = await served.respond({ model: "test-model", input: "Tell me of the Heron" });
  const hers = await served.respond({ model: "test-model", input: "mine, please" }, alice);
  interface Found {
    data: { response_id: string; role: string; excerpt: string; item_id: string }[];
    next: string | null;
  }
  const all = await get<Found>(served, "/v1/search?q=HERON");
  expect(all.data.map(({ response_id, role }) => [response_id, role])).toEqual([
    [hers.id, "assistant"],
    [mine.id, "assistant"],
    [mine.id, "user"],
  ]);
  const page = await get<Found>(served, "/v1/search?q=heron&limit=2");
  expect(page.data).toEqual(all.data.slice(0, 2));
  const rest = await get<Found>(served, `/v1/search?q=heron&limit=2&before=${page.next}`);
  expect([rest.data, rest.next]).toEqual([all.data.slice(2), null]);
  expect((await get<Found>(served, "/v1/search?q=heron", alice)).data.map((one) => one.response_id)).toEqual([hers.id]);
  expect((await get<Found>(served, "/v1/search?q=heron", bob)).data).toEqual([]);
  for (const token of [alice, bob]) {
    for (const id of [mine.id, "resp_00000000000000000000000000"]) {
      expect((await served.fetch(`/v1/tree?response=${id}`, { token })).status).toBe(404);
    }
  }
  interface Rows {
    rows: { day?: string; model?: string; responses: number; input_tokens: number; cost: number }[];
  }
  const today = new Date().toISOString().slice(0, 10);
  expect((await get<Rows>(served, "/v1/usage?by=day")).rows).toEqual([
    { day: expect.stringMatching(/^\d{4}-\d\d-\d\d$/), responses: 2, input_tokens: 200, output_tokens: 20, cost: 0.02 },
  ]);
  expect((await get<Rows>(served, "/v1/usage?days=1&by=model,profile", alice)).rows).toMatchObject([
    { model: "test-model", profile: "general", responses: 1, cost: 0.01 },
  ]);
  expect((await get<Rows>(served, "/v1/usage", bob)).rows).toEqual([]);
  expect(today).toBeTruthy();
  for (const path of [
    "/v1/tree",
    `/v1/tree?response=${mine.id}&conversation=x`,
    `/v1/tree?response=${mine.id}&limit=0`,
    "/v1/search",
    "/v1/search?q=%20",
    `/v1/search?q=${"a+".repeat(9)}`,
    "/v1/search?q=x&limit=1000",
    "/v1/search?q=x&before=resp_1",
    "/v1/usage?days=0",
    "/v1/usage?by=owner",
    "/v1/usage?days=1e3",
  ]) {
    expect((await served.fetch(path)).status, path).toBe(400);
  }
  const without = await served.newToken({ scopes: ["chat"] });
  for (const path of ["/v1/tree?response=x", "/v1/search?q=x", "/v1/usage", "/rotunda/news"]) {
    expect((await served.fetch(path, { token: without })).status, path).toBe(403);
  }
});

interface News {
  type: string;
  id?: string;
  status?: string;
}

/** Hears news until it is stopped; its events so far. */
async function hear(answer: Response): Promise<{ events: News[]; stop: () => Promise<void>; ended: Promise<void> }> {
  expect(answer.headers.get("content-type")).toContain("text/event-stream");
  const events: News[] = [];
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  const read = async () => {
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const line = block.split("\n").find((one) => one.startsWith("data: "));
        if (line) events.push(JSON.parse(line.slice(6)) as News);
      }
    }
  };
  const ended = read().catch(() => undefined);
  await expect.poll(() => events.length).toBeGreaterThan(0);
  expect(events[0]).toMatchObject({ type: "hello" });
  return { events, ended, stop: () => reader.cancel() };
}

test("W1 news reaches every open page, of this process and of another, and nobody hears of what is somebody else's", async () => {
  const call = { calls: [{ name: "write", arguments: { path: "a.txt", content: "x" } }] };
  const served = await serve([{ text: "hello", usage }, call, { text: "written" }]);
  const alice = await served.newToken({ name: "alice", scopes: ["responses:read", "responses:write"] });
  const page = await openPage(served);
  const first = await hear(await page.fetch("/rotunda/news"));
  const second = await hear(await page.fetch("/rotunda/news"));
  const hers = await hear(await served.fetch("/rotunda/news", { token: alice }));
  const made = (await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string };
  const { id } = await served.respond({ model: "test-model", input: "hi", conversation: made.id });
  const ended = { type: "response", id, status: "completed" };
  for (const { events } of [first, second]) {
    await expect.poll(() => events).toContainEqual(ended);
    await expect.poll(() => events).toContainEqual({ type: "conversation", id: made.id });
  }
  const asking = await served.respond({ model: "test-model", input: "write", background: true });
  await expect.poll(() => first.events).toContainEqual({ type: "approval", id: expect.any(String), status: "pending" });
  await expect.poll(() => first.events).toContainEqual({ type: "response", id: asking.id, status: "waiting" });
  const { id: approvalId } = first.events.find(({ type }) => type === "approval") ?? {};
  await page.fetch("/v1/tool-approval", { json: { approvalId, approved: true } });
  await expect.poll(() => second.events).toContainEqual({ type: "approval", id: approvalId, status: "allowed" });
  await expect.poll(() => second.events).toContainEqual({ type: "response", id: asking.id, status: "completed" });
  // Somebody else deletes and stops it, by another connection to the database.
  await served.app.store.delete(id);
  await expect.poll(() => first.events).toContainEqual({ type: "response", id, status: "deleted" });
  await served.app.reload();
  await expect.poll(() => first.events).toContainEqual({ type: "settings" });
  expect(hers.events.filter(({ type }) => type !== "settings").slice(1)).toEqual([]);
  // Signing out ends the page's streams, and nobody else's.
  await page.fetch("/rotunda/session", { method: "DELETE" });
  await Promise.all([first.ended, second.ended]);
  await hers.stop();
});

test("an image of 4 MB and a text file come in through the page, and neither is in the way of a search", async () => {
  const served = await serve([{ text: "a lighthouse" }]);
  const page = await openPage(served);
  expect(page.session.body_limit).toBeGreaterThan(6_000_000);
  const image_url = `data:image/png;base64,${Buffer.alloc(4_000_000, 7).toString("base64")}`;
  const content = [
    { type: "input_image", image_url },
    { type: "input_text", text: "notes.txt:\nwhat stands in the file" },
    { type: "input_text", text: "What is this?" },
  ];
  const made = await page.fetch("/v1/responses", { json: { model: "test-model", input: [{ role: "user", content }] } });
  expect(made.status).toBe(200);
  const { id } = (await made.json()) as { id: string };
  const tree = await get<WireTree>(served, `/v1/tree?response=${id}`);
  expect(tree.nodes).toMatchObject([{ prompt: "notes.txt: what stands in the file", answer: "a lighthouse" }]);
  const found = await get<{ data: { role: string }[] }>(served, "/v1/search?q=lighthouse");
  expect(found.data).toMatchObject([{ role: "assistant" }]);
  expect(JSON.stringify(await get(served, "/v1/search?q=stands&all=true"))).not.toContain("base64");
});
