/** Attacks that succeeded once, on answers, lists, titles and odd bodies. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Scope } from "../../src/types/token.ts";
import { newId } from "../../src/util/ids.ts";
import { serve } from "../http/served.ts";

const usual: Scope[] = ["chat", "responses:read", "responses:write", "tools:call"];

test("without the scope approve no route settles an approval: compact neither", async () => {
  const served = await serve([
    { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "hello" } }] },
    { text: "done" },
  ]);
  const token = await served.newToken({ scopes: usual });
  const first = await served.respond({ model: "test-model", input: "Write a.txt" }, token);
  const approval = first.output.at(-1)?.id ?? "";
  const input = [{ type: "mcp_approval_response", approval_request_id: approval, approve: true }];
  const json = { model: "test-model", previous_response_id: first.id, input };
  const answer = await served.fetch("/v1/responses/compact", { token, json });
  expect(answer.status).toBe(403);
  expect((await served.app.store.approval(approval))?.status).toBe("pending");
  // And then the person says no.
  await served.fetch("/v1/tool-approval", { json: { approvalId: approval, approved: false } });
  for (const node of await served.app.store.list({})) await served.app.engine.wait(node.id);
  expect(existsSync(join(served.workspace, "a.txt"))).toBe(false);
});

test("a place in somebody else's list of responses is none", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const [mine, theirs] = [await served.newToken(), await served.newToken()];
  await served.respond({ model: "test-model", input: "mine" }, mine);
  const { id } = await served.respond({ model: "test-model", input: "theirs" }, theirs);
  const after = async (one: string) => (await served.fetch(`/v1/responses?after=${one}`, { token: mine })).text();
  expect(await after(id)).toBe(await after(newId("resp")));
});

test("a title or metadata that is set while a turn runs does not take the turn out of its conversation", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const made = (await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string };
  const path = `/v1/conversations/${made.id}`;
  for (let turn = 0; turn < 10; turn++) {
    await Promise.all([
      served.respond({ model: "test-model", input: `turn ${turn}`, conversation: made.id }),
      served.fetch(path, { json: { metadata: { turn: String(turn) } } }),
      served.fetch(path, { json: { title: `title ${turn}` } }),
    ]);
  }
  const list = (await (await served.fetch(`${path}/items?limit=100`)).json()) as { data: unknown[] };
  expect(list.data).toHaveLength(20);
});

test("what is queued behind a response that was cancelled in the queue waits for those above, and all can be read", async () => {
  const gate = Promise.withResolvers<void>();
  const served = await serve(async ({ body }) => {
    if (JSON.stringify(body).includes("go slowly") && !JSON.stringify(body).includes("at last")) await gate.promise;
    return { text: "at last" };
  });
  const make = async (input: string, previous?: string) => {
    const json = { model: "test-model", background: true, input };
    return (await served.respond({ ...json, ...(previous !== undefined && { previous_response_id: previous }) })).id;
  };
  const first = await make("go slowly");
  const second = await make("second", first);
  const third = await make("third", second);
  await served.fetch(`/v1/responses/${second}/cancel`, { method: "POST" });
  const fourth = await make("fourth", second);
  await new Promise((resolve) => setTimeout(resolve, 600));
  for (const id of [third, fourth]) expect((await served.app.store.node(id))?.status).toBe("queued");
  gate.resolve();
  for (const id of [first, third, fourth]) expect((await served.app.engine.wait(id)).status).toBe("completed");
  for (const id of [first, second, third, fourth]) {
    expect((await served.fetch(`/v1/responses/${id}`)).status).toBe(200);
  }
  expect(await served.app.store.path(third)).toHaveLength(3);
  // The prompt of the third holds the whole answer of the first.
  const prompt = served.upstream.requests.find(({ body }) => JSON.stringify(body).includes("third"));
  expect(JSON.stringify(prompt?.body)).toContain("at last");
});

test("objects where texts are expected are the client's mistake, in tool choices and old messages as well", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const odd = { toString: 1, valueOf: 1 };
  const messages = [{ role: "user", content: "x" }];
  const choice = (tools: unknown[]) => ({ type: "allowed_tools", tools });
  const cases: [path: string, body: object][] = [
    ["/v1/chat/completions", { messages: [{ role: "function", name: odd, content: "x" }] }],
    ["/v1/chat/completions", { messages, tool_choice: { type: "allowed_tools", allowed_tools: { tools: [null] } } }],
    [
      "/v1/chat/completions",
      { messages, tool_choice: { type: "allowed_tools", allowed_tools: { tools: [{ type: odd }] } } },
    ],
    ["/v1/responses", { input: "x", tool_choice: choice([null]) }],
    ["/v1/responses", { input: "x", tool_choice: { type: "mcp", server_label: odd } }],
    ["/chat", { message: "x", history: [{ role: "function", name: odd }] }],
  ];
  for (const [path, json] of cases) {
    const answer = await served.fetch(path, { json });
    expect(answer.status, `${path} ${JSON.stringify(json)} ${await answer.text()}`).toBeLessThan(500);
  }
});

test("a refused request begins no conversation", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const json = { messages: [{ role: "nobody" }], conversation_id: "refused" };
  expect((await served.fetch("/v1/chat/completions", { json })).status).toBe(400);
  expect(await served.app.store.conversations({ limit: 10 })).toEqual([]);
});

test("the same answer to an approval with the same key is the same response, not a conflict", async () => {
  const served = await serve([
    { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "hello" } }] },
    { text: "done" },
  ]);
  const first = await served.respond({ model: "test-model", input: "Write", background: true });
  const pending = () => served.app.store.approvals({ status: "pending" });
  await expect.poll(async () => (await pending()).length).toBe(1);
  const [asked] = await pending();
  const input = [{ type: "mcp_approval_response", approval_request_id: asked?.id, approve: true }];
  const json = { model: "test-model", previous_response_id: first.id, input };
  const headers = { "idempotency-key": "once" };
  expect((await served.fetch("/v1/responses", { json, headers })).status).toBe(200);
  await served.app.engine.wait(first.id);
  expect((await served.fetch("/v1/responses", { json, headers })).status).toBe(200);
});

test("a list of responses does not repeat what could be megabytes for each", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const instructions = "x".repeat(900_000);
  for (let number = 0; number < 5; number++) await served.respond({ model: "test-model", input: "x", instructions });
  expect((await (await served.fetch("/v1/responses?limit=100")).text()).length).toBeLessThan(100_000);
});
