/** Limits of a token: what it may use in a day, runs at once, streams, requests; over every route, and over restarts. */
import { expect, test } from "vitest";
import { Upkeep } from "../../src/doors/http/upkeep.ts";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { type Scope, scopes } from "../../src/types/token.ts";
import { begin, nodeOf } from "../store/support.ts";
import { later, temporaryStore } from "../support.ts";
import { inCluster, type Served, serve } from "./served.ts";

const SLOW = { timeout: 60_000 };
const all = [...scopes] as Scope[];

interface WireError {
  error: { message: string; type: string; code: string };
}

const ask = (served: Served, token: string, more: object = {}, path = "/v1/responses") =>
  served.fetch(path, { token, json: { model: "test-model", input: "hi", ...more } });

async function refusal(answer: Response): Promise<{ status: number; message: string; retryAfter: number }> {
  const { error } = (await answer.json()) as WireError;
  return {
    status: answer.status,
    message: error?.message ?? "",
    retryAfter: Number(answer.headers.get("retry-after")),
  };
}

async function background(served: Served, token: string): Promise<string> {
  const answer = await ask(served, token, { background: true });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { id: string }).id;
}

function secondsToMidnight(): number {
  const now = new Date();
  return (Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + 1) - now.getTime()) / 1_000;
}

test(
  "tokens of a day: counted over every door, whatever becomes of the responses, and over a restart",
  SLOW,
  async () => {
    // Each turn uses 15.
    const first = await serve([{ text: "hello" }]);
    const token = await first.newToken({ limits: { tokensPerDay: 60 } });
    const other = await first.newToken({ limits: { tokensPerDay: 60 } });
    const kept = (await (await ask(first, token)).json()) as { id: string };
    const messages = [{ role: "user", content: "hi" }];
    expect((await ask(first, token, { messages }, "/v1/chat/completions")).status).toBe(200);
    // What was not to be stored, and what was deleted, was used all the same.
    expect((await ask(first, token, { store: false })).status).toBe(200);
    await first.fetch(`/v1/responses/${kept.id}`, { method: "DELETE", token });
    expect((await ask(first, token)).status).toBe(200);
    for (const path of ["/v1/responses", "/v1/chat/completions", "/chat"]) {
      const answer = await ask(first, token, { messages, message: "hi", stream: true }, path);
      expect(answer.headers.get("x-should-retry")).toBe("false");
      expect(answer.status).toBe(429);
      const after = Number(answer.headers.get("retry-after"));
      expect(Math.abs(after - secondsToMidnight())).toBeLessThan(60);
      expect(await answer.text()).toContain("60 tokens a day");
    }
    // It may still look at what it has, and nobody else is held up.
    expect((await first.fetch("/v1/responses", { token })).status).toBe(200);
    expect((await ask(first, other)).status).toBe(200);
    expect(await first.app.store.usedOn("local", Date.now())).toEqual({ tokens: 0, cost: 0 });
    await first.stop();
    const second = await serve([{ text: "hello" }], { folder: first.folder, endpoint: first.upstream });
    expect((await ask(second, token)).status).toBe(429);
    expect((await ask(second, other)).status).toBe(200);
  },
);

test("cost of a day", SLOW, async () => {
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, cost: 0.25 };
  const served = await serve([{ text: "hello", usage }]);
  const token = await served.newToken({ limits: { costPerDay: 0.5 } });
  expect([(await ask(served, token)).status, (await ask(served, token)).status]).toEqual([200, 200]);
  expect(await refusal(await ask(served, token))).toMatchObject({
    status: 429,
    message: expect.stringContaining("$0.5 a day"),
  });
});

test("what runs counts as far as it is known, sub-agents too", SLOW, async () => {
  const script: UpstreamScript = ({ body }, number) => {
    if (number === 0)
      return { calls: [{ name: "task", arguments: { agent_type: "general", description: "d", task: "sub" } }] };
    const messages = body.messages as { role: string }[];
    return messages.some(({ role }) => role === "tool") ? { silent: "hang" } : { text: "found" };
  };
  const served = await serve(script);
  const token = await served.newToken({ limits: { tokensPerDay: 1_000 } });
  const id = await background(served, token);
  const owner = (await served.app.store.node(id))?.owner ?? "";
  await expect.poll(() => served.upstream.requests.length, { timeout: 10_000 }).toBe(3);
  // The first call of the outermost response, which runs; the sub-agent, which has ended.
  await expect.poll(() => served.app.store.usedOn(owner, Date.now())).toEqual({ tokens: 30, cost: 0 });
  await served.app.engine.cancel(id, "enough");
  expect(await served.app.store.usedOn(owner, Date.now())).toEqual({ tokens: 30, cost: 0 });
});

test("days are those of UTC, and of the response's end", async () => {
  const store = await temporaryStore();
  const midnight = Date.UTC(2026, 1, 3);
  const usage = (total: number, cost?: number) => ({
    ...nodeOf().usage,
    total_tokens: total,
    ...(cost !== undefined && { cost }),
  });
  for (const [endedAt, tokens] of [
    [midnight - 1, 5],
    [midnight, 7],
    [midnight + 1_000, 11],
  ] as const) {
    const { node } = await begin(store, { owner: "tok", createdAt: midnight - 10_000 });
    const batch = { fence: 1, sealed: false, events: [], entries: [], outputs: [], approvals: [], audits: [] };
    const change = { status: "completed" as const, endedAt, usage: usage(tokens, tokens / 10) };
    await store.append({ ...batch, responseId: node.id, node: change }, true);
  }
  expect(await store.usedOn("tok", midnight - 1)).toEqual({ tokens: 5, cost: 0.5 });
  expect(await store.usedOn("tok", midnight)).toEqual({ tokens: 18, cost: expect.closeTo(1.8) });
  expect(await store.usedOn("tok", midnight + 86_400_000)).toEqual({ tokens: 0, cost: 0 });
  expect(await store.usedOn("another", midnight)).toEqual({ tokens: 0, cost: 0 });
});

const waits: UpstreamScript = ({ body }) =>
  (body.messages as { role: string }[]).some(({ role }) => role === "tool")
    ? { text: "done" }
    : { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] };

// With a queue, what waits for a person has left all processes, and does not count.
test.skipIf(inCluster)(
  "runs at once: those that wait for a person and those in the queue count, until they have ended; over a restart too",
  SLOW,
  async () => {
    const first = await serve(waits);
    const token = await first.newToken({ scopes: all, limits: { concurrentRuns: 2 } });
    const waiting = await background(first, token);
    await expect.poll(async () => (await first.app.store.node(waiting))?.status).toBe("waiting");
    const queued = await ask(first, token, { background: true, previous_response_id: waiting });
    expect([queued.status, ((await queued.json()) as { status: string }).status]).toEqual([200, "queued"]);
    expect(await refusal(await ask(first, token))).toMatchObject({
      status: 429,
      message: "This token may have 2 runs at once.",
    });
    expect((await ask(first, await first.newToken())).status).toBe(200);
    await first.stop();

    const second = await serve(waits, { folder: first.folder, endpoint: first.upstream });
    const upkeep = new Upkeep(second.door.services);
    later(() => upkeep.close());
    await upkeep.prepare();
    expect(await upkeep.start(() => undefined)).toMatchObject({ resumed: 2 });
    expect((await ask(second, token, { background: true })).status).toBe(429);
    const [{ id = "" } = {}] = await second.app.store.approvals({ status: "pending", responseId: waiting });
    const answer = await second.fetch("/v1/tool-approval", { token, json: { approvalId: id, approved: false } });
    expect(answer.status).toBe(200);
    // The first one ends, and with it the one that waited behind it: both places are free.
    await expect.poll(async () => (await second.app.store.node(waiting))?.status).toBe("completed");
    for (const _place of [1, 2])
      await expect.poll(async () => (await ask(second, token, { background: true })).status).toBe(200);
    expect((await ask(second, token, { background: true })).status).toBe(429);
  },
);

test("going on by hand and after an answer counts as a run", SLOW, async () => {
  const script: UpstreamScript = (request, number) =>
    number === 0
      ? waits0
      : (request.body.messages as { role: string }[]).length > 0
        ? { silent: "hang" }
        : { text: "" };
  const waits0 = { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] };
  const served = await serve(script, { oneDoor: true });
  const token = await served.newToken({ scopes: all, limits: { concurrentRuns: 1 } });
  // It returns for approval: it has ended, and its place is free. The answer starts its child, which takes it.
  const returned = (await (await ask(served, token)).json()) as { output: { id: string; type: string }[] };
  const approvalId = returned.output.find(({ type }) => type === "mcp_approval_request")?.id;
  const answer = await served.fetch("/v1/tool-approval", { token, json: { approvalId, approved: true } });
  const { responseId } = (await answer.json()) as { responseId: string };
  expect((await ask(served, token, { background: true })).status).toBe(429);
  await served.app.engine.cancel(responseId, "enough");
  await expect.poll(async () => (await ask(served, token, { background: true })).status).toBe(200);
});

test("K18 hundreds of streams of one token: those beyond its limit are 429, and others are served", SLOW, async () => {
  const served = await serve([{ silent: "hang" }], { oneDoor: true });
  const greedy = await served.newToken({ limits: { streams: 20 } });
  const id = await background(served, greedy);
  const controller = new AbortController();
  later(() => controller.abort());
  // An answer that nobody holds any more is closed by the garbage collector.
  const held: Response[] = [];
  const open = async (token: string) => {
    const answer = await served.fetch(`/v1/responses/${id}?stream=true`, { token, signal: controller.signal });
    held.push(answer);
    return answer.status;
  };
  const statuses = await Promise.all(Array.from({ length: 400 }, () => open(greedy)));
  expect(statuses.filter((status) => status === 200)).toHaveLength(20);
  expect(statuses.filter((status) => status === 429)).toHaveLength(380);
  // No other kind of stream gets past it, and nothing is started for one that cannot be had.
  const before = (await served.app.store.list({ limit: 1_000 })).length;
  const messages = [{ role: "user", content: "hi" }];
  expect((await ask(served, greedy, { stream: true })).status).toBe(429);
  expect((await ask(served, greedy, { stream: true, messages }, "/v1/chat/completions")).status).toBe(429);
  expect((await served.app.store.list({ limit: 1_000 })).length).toBe(before);
  expect(await open(served.token)).toBe(200);
  expect((await served.fetch("/v1/responses", { token: greedy })).status).toBe(200);
  expect(held).toHaveLength(401);
  controller.abort();
  await expect.poll(() => served.door.services.streams.count).toBe(0);
  const again = new AbortController();
  const last = await served.fetch(`/v1/responses/${id}?stream=true`, { token: greedy, signal: again.signal });
  expect(last.status).toBe(200);
  again.abort();
});

test("requests a second hold on every route there is, and on none that is open", SLOW, async () => {
  const served = await serve([{ text: "hello" }], { oneDoor: true });
  const token = await served.newToken({ scopes: all, limits: { requestsPerSecond: 0.001 } });
  expect((await served.fetch("/v1/models", { token })).status).toBe(200);
  for (const { method, path, scope } of served.door.services.routes) {
    const place = path.replace(/:\w+/g, "resp_00000000000000000000000000");
    const body = method === "GET" || method === "DELETE" ? {} : { json: {}, method };
    const answer = await served.fetch(place, { method, token, ...body });
    expect([method, path, answer.status === 429]).toEqual([method, path, scope !== null]);
    if (scope !== null) expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(1);
    await answer.body?.cancel();
  }
  expect((await served.fetch("/no/such/path", { token })).status).toBe(429);
  expect((await served.fetch("/v1/models")).status).toBe(200);
});
