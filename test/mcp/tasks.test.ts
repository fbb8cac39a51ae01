/** The tasks extension: a response is a task, durable before anybody hears of it. */
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { type Server, startServer } from "../http/process.ts";
import { later, temporaryFolder } from "../support.ts";

const VERSION = "2026-07-28";
const FOLLOWS = { extensions: { "io.modelcontextprotocol/tasks": {} } };

// biome-ignore lint/suspicious/noExplicitAny: whatever is on the wire
type Wire = any;

async function request(
  server: Server,
  method: string,
  params: Record<string, unknown>,
  capabilities: object = FOLLOWS,
) {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
  const answer = await fetch(`${server.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${server.token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": VERSION,
      "mcp-method": method,
      "mcp-name": String(params.name ?? params.taskId ?? ""),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }),
  });
  return (await answer.json()) as Wire;
}

async function ended(server: Server, taskId: string): Promise<Wire> {
  for (let tries = 0; tries < 400; tries++) {
    const { result } = await request(server, "tasks/get", { taskId });
    if (result.status === "completed" || result.status === "cancelled") return result;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error("the task does not end");
}

const ask = (prompt: string) => ({ name: "ask", arguments: { prompt } });

test("a call becomes a task, and its result is the call's", async () => {
  const upstream = await startUpstream(() => ({ text: "an answer" }));
  later(() => upstream.close());
  const server = await startServer(temporaryFolder(), upstream.url);
  const { result: task } = await request(server, "tools/call", ask("one"));
  expect(task).toMatchObject({
    resultType: "task",
    taskId: expect.stringMatching(/^resp_/),
    ttlMs: expect.any(Number),
  });
  const done = await ended(server, task.taskId);
  expect(done).toMatchObject({ status: "completed", result: { structuredContent: { result: "an answer" } } });
  expect(done.result.content[0].text).toBe(`an answer\n\nResponse ID: ${task.taskId}`);
  const { error } = await request(server, "tasks/get", { taskId: "resp_nothing" });
  expect(error.code).toBe(-32_602);
  const plain = await request(server, "tools/call", ask("two"), {});
  expect(plain.result).toMatchObject({ resultType: "complete" });
  const refused = await request(server, "tasks/get", { taskId: task.taskId }, {});
  expect(refused.error.code).toBe(-32_021);
});

test("a task survives the server, kill -9 and all", async () => {
  let calls = 0;
  const upstream = await startUpstream(async () => {
    if (++calls === 1) await new Promise((resolve) => setTimeout(resolve, 60_000).unref());
    return { text: "after all" };
  });
  later(() => upstream.close());
  const folder = temporaryFolder();
  const first = await startServer(folder, upstream.url);
  const { result: task } = await request(first, "tools/call", ask("one"));
  while (calls === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  await first.stop("SIGKILL");
  const second = await startServer(folder, upstream.url);
  expect(await ended(second, task.taskId)).toMatchObject({ result: { structuredContent: { result: "after all" } } });
});

test("a question to a person is one to the task's client; a task is cancelled", async () => {
  const upstream = await startUpstream(({ body }) => {
    const last = (body.messages as Wire[]).at(-1);
    if (last.role === "tool") return { text: `tool said: ${last.content}` };
    return { calls: [{ name: "write", arguments: { file_path: "made.txt", content: "hello" } }] };
  });
  later(() => upstream.close());
  const server = await startServer(temporaryFolder(), upstream.url);
  const parked = async () => {
    const { result } = await request(server, "tools/call", ask("write"));
    for (;;) {
      const { result: task } = await request(server, "tasks/get", { taskId: result.taskId });
      if (task.status === "input_required") return task;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  };
  const task = await parked();
  const [[key, question]] = Object.entries(task.inputRequests) as [[string, Wire]];
  expect(question).toMatchObject({
    method: "elicitation/create",
    params: { message: expect.stringContaining("write") },
  });
  const inputResponses = { [key]: { action: "accept", content: { decision: "allow once" } } };
  expect((await request(server, "tasks/update", { taskId: task.taskId, inputResponses })).result).toMatchObject({
    resultType: "complete",
  });
  expect((await ended(server, task.taskId)).result.content[0].text).toContain("Successfully wrote 5 bytes");
  const other = await parked();
  await request(server, "tasks/cancel", { taskId: other.taskId });
  expect(await ended(server, other.taskId)).toMatchObject({ status: "cancelled" });
});
