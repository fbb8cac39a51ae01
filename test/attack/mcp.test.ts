/** Attacks on the MCP door: what a token may reach there, and what it learns of what is not its own. */
import { describe, expect, test } from "vitest";
import { createMcpEndpoints } from "../../src/doors/mcp/endpoints.ts";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import type { App } from "../../src/types/app.ts";
import type { McpEndpoints } from "../../src/types/mcp.ts";
import { type Served, serve } from "../http/served.ts";
import { later } from "../support.ts";

// biome-ignore lint/suspicious/noExplicitAny: whatever is on the wire
type Wire = any;

async function withMcp(script: UpstreamScript, config: object = {}, behindProxy = false): Promise<Served> {
  let app: App | undefined;
  let endpoints: McpEndpoints | undefined;
  const mcp = async () => {
    if (!app) throw new Error("asked too early");
    endpoints ??= createMcpEndpoints({ app, version: "1" });
    return endpoints;
  };
  const served = await serve(script, { config, door: { mcp, behindProxy } });
  app = served.app;
  later(() => endpoints?.close());
  return served;
}

const ACCEPT = { accept: "application/json, text/event-stream" };
const clientInfo = { name: "raw", version: "1" };

async function rpc(served: Served, json: object, token?: string, headers: Record<string, string> = {}) {
  const given = { json: { jsonrpc: "2.0", id: 1, ...json }, headers: { ...ACCEPT, ...headers } };
  const answer = await served.fetch("/mcp", token === undefined ? given : { ...given, token });
  const text = await answer.text();
  const data = /^data: (.*)$/m.exec(text)?.[1] ?? text;
  let body: Wire = text;
  try {
    body = JSON.parse(data);
  } catch {
    // Not JSON: the test looks at the text.
  }
  return { status: answer.status, body, headers: answer.headers };
}

const call = (served: Served, name: string, args: object, token?: string, headers = {}) =>
  rpc(served, { method: "tools/call", params: { name, arguments: args } }, token, headers);

const says = ({ body }: { body: Wire }): string => body.result?.content?.[0]?.text ?? JSON.stringify(body);
const idOf = (answer: { body: Wire }): string => answer.body.result.structuredContent.responseId;

const ok: UpstreamScript = () => ({ text: "a secret answer" });

describe("another owner's", () => {
  test("responses and conversations are like unknown ones, for every tool", async () => {
    const served = await withMcp(ok);
    const other = await served.newToken({ scopes: ["chat", "responses:read", "responses:write", "approve"] });
    const asked = await call(served, "ask", { prompt: "mine" });
    const { responseId: id, conversationId } = asked.body.result.structuredContent;
    const unknown = (text: string) => text.replaceAll(id, "X").replaceAll(conversationId, "X");
    for (const [name, key] of [
      ["ask_status", "taskId"],
      ["ask_wait", "taskId"],
      ["ask_cancel", "taskId"],
    ] as const) {
      const theirs = says(await call(served, name, { [key]: id }, other));
      const nobodys = says(await call(served, name, { [key]: "resp_nothing" }, other));
      expect(unknown(theirs)).toBe(nobodys.replaceAll("resp_nothing", "X"));
      expect(theirs).not.toContain("secret");
    }
    const from = await call(served, "ask", { prompt: "x", previousResponseId: id }, other);
    expect(from.body.result.isError).toBe(true);
    const chat = await call(served, "chat", { message: "x", conversationId }, other);
    expect(says(chat)).toBe(`Error: Conversation not found: ${conversationId}`);
    expect(says(await call(served, "conversation_history", { conversationId }, other))).not.toContain("secret");
    expect(says(await call(served, "list_responses", {}, other))).toBe("No responses");
    const read = await rpc(served, { method: "resources/read", params: { uri: `rotunda://responses/${id}` } }, other);
    expect(read.body.error).toBeDefined();
    const listed = await rpc(served, { method: "resources/list" }, other);
    expect(listed.body.result.resources).toEqual([]);
  });

  test("session opens nothing, nor does one that was forged", async () => {
    const served = await withMcp(ok);
    const other = await served.newToken();
    const capabilities = { elicitation: {} };
    const params = { protocolVersion: "2025-11-25", capabilities, clientInfo };
    const begun = await rpc(served, { method: "initialize", params });
    const session = begun.headers.get("mcp-session-id") ?? "";
    expect(session).toMatch(/^[\x21-\x7e]+$/);
    const list = { method: "tools/list" };
    expect((await rpc(served, list, undefined, { "mcp-session-id": session })).status).toBe(200);
    expect((await rpc(served, list, other, { "mcp-session-id": session })).status).toBe(404);
    const [facts = "", signature = ""] = session.split(".");
    const forged = Buffer.from(Buffer.from(facts, "base64url").toString().replace('"local"', '"other"'));
    for (const id of [`${forged.toString("base64url")}.${signature}`, facts, ".", "x".repeat(5_000)]) {
      expect((await rpc(served, list, undefined, { "mcp-session-id": id })).status).toBe(404);
    }
  });
});

describe("a token without the right", () => {
  test("to chat, to name a directory, to skip questions, or to use a profile, is refused", async () => {
    const served = await withMcp(ok, {}, true);
    const reads = await served.newToken({ scopes: ["responses:read"] });
    expect((await call(served, "ask", { prompt: "x" }, reads)).status).toBe(403);
    const chats = await served.newToken({ scopes: ["chat"] });
    for (const args of [
      { prompt: "x", workingDirectory: "/" },
      { prompt: "x", permissionMode: "bypassPermissions" },
      { prompt: "x", permissionMode: "acceptEdits" },
    ]) {
      expect((await call(served, "ask", args, chats)).body.result.isError).toBe(true);
    }
    const admin = await served.newToken({ scopes: ["chat", "admin", "approve"] });
    const afar = { "x-forwarded-for": "203.0.113.7" };
    const bypass = await call(served, "ask", { prompt: "x", permissionMode: "bypassPermissions" }, admin, afar);
    expect(bypass.body.result.isError).toBe(true);
    const bound = await served.newToken({ profiles: ["plan"] });
    expect(says(await call(served, "ask", { prompt: "x", modelId: "profile/execute" }, bound))).toContain(
      "may not use",
    );
    expect(says(await call(served, "ask", { prompt: "x" }, bound))).toContain("may not use");
    expect((await call(served, "ask", { prompt: "x", modelId: "plan" }, bound)).body.result.isError).toBeUndefined();
    const { result } = (await rpc(served, { method: "prompts/list" }, bound)).body;
    expect(result.prompts.map(({ name }: { name: string }) => name)).toEqual(["plan"]);
  });

  test("to approve is not asked, and cannot answer", async () => {
    const served = await withMcp(() => ({ calls: [{ name: "write", arguments: { file_path: "a", content: "b" } }] }));
    const chats = await served.newToken({ scopes: ["chat", "responses:write"] });
    const params = { protocolVersion: "2025-11-25", capabilities: { elicitation: {} }, clientInfo };
    const begun = await rpc(served, { method: "initialize", params }, chats);
    const session = { "mcp-session-id": begun.headers.get("mcp-session-id") ?? "" };
    await rpc(served, { method: "notifications/initialized", id: undefined }, chats, session);
    const asked = await call(served, "ask", { prompt: "x" }, chats, session);
    expect(asked.body.result.structuredContent.status).toBe("waiting");
  });
});

describe("what a client sends", () => {
  test("one key starts one response; with another question it is refused", async () => {
    const served = await withMcp(ok);
    const first = await call(served, "ask", { prompt: "x", idempotencyKey: "k" });
    const second = await call(served, "ask", { prompt: "x", idempotencyKey: "k" });
    expect(idOf(second)).toBe(idOf(first));
    const third = await call(served, "ask", { prompt: "y", idempotencyKey: "k" });
    expect(third.body.result.isError).toBe(true);
  });

  test.each([
    ["an empty list", "[]"],
    ["null", "null"],
    ["a number", "7"],
    ["an unknown version of JSON-RPC", '{"jsonrpc":"1.0","id":1,"method":"tools/list"}'],
    ["no method", '{"jsonrpc":"2.0","id":1}'],
    ["a method of no kind", '{"jsonrpc":"2.0","id":1,"method":7}'],
    ["depth", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":${"[".repeat(20_000)}${"]".repeat(20_000)}}`],
    ["a response that nobody waits for", '{"jsonrpc":"2.0","id":99,"result":{}}'],
    ["an answer to no question", '{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"x"}}'],
    ["a broken escape", '{"jsonrpc":"2.0","id":1,"method":"\\ud800"}'],
    [
      "a prototype",
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"__proto__","arguments":{"__proto__":{}}}}',
    ],
    [
      "a claim without its fields",
      '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}',
    ],
  ])("%s ends in an answer, and the next request is served", async (_what, text) => {
    const served = await withMcp(ok);
    const answer = await served.fetch("/mcp", {
      method: "POST",
      body: text,
      headers: { ...ACCEPT, "content-type": "application/json" },
    });
    expect(answer.status).toBeLessThan(500);
    await answer.text();
    expect((await rpc(served, { method: "tools/list" })).status).toBe(200);
  });

  test("a revoked token's session is gone", async () => {
    const served = await withMcp(ok);
    const token = await served.newToken();
    const params = { protocolVersion: "2025-11-25", capabilities: { sampling: {} }, clientInfo };
    const begun = await rpc(served, { method: "initialize", params }, token);
    const session = { "mcp-session-id": begun.headers.get("mcp-session-id") ?? "" };
    for (const one of await served.app.store.tokens())
      await served.app.store.saveToken({ ...one, revokedAt: Date.now() });
    expect((await rpc(served, { method: "tools/list" }, token, session)).status).toBe(401);
  });

  test("two thousand sessions leave room for the next one, and the first still works", async () => {
    const served = await withMcp(ok);
    const params = { protocolVersion: "2025-11-25", capabilities: { sampling: {} }, clientInfo };
    const begin = async () => (await rpc(served, { method: "initialize", params })).headers.get("mcp-session-id") ?? "";
    const first = await begin();
    for (let made = 0; made < 2_000; made += 50) await Promise.all(Array.from({ length: 50 }, begin));
    const session = { "mcp-session-id": first };
    expect((await rpc(served, { method: "tools/list" }, undefined, session)).status).toBe(200);
  });
});
