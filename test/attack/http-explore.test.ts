import { expect, test } from "vitest";
import { serve } from "../http/served.ts";
import { appendFileSync } from "node:fs";
const log = (...a: unknown[]) => appendFileSync("/tmp/explore.log", a.map((x) => typeof x === "string" ? x : JSON.stringify(x)).join(" ").slice(0, 1500) + "\n");
const NEW = ["chat", "responses:read", "responses:write", "tools:call"] as const;

test("compact self approval", async () => {
  const served = await serve([
    { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "hello" } }] },
    { text: "Written." },
  ]);
  const token = await served.newToken({ scopes: [...NEW] });
  const first = await served.respond({ model: "test-model", input: "Write a.txt" }, token);
  const request = first.output.at(-1);
  const a = await served.fetch("/v1/responses/compact", { token, json: { model: "test-model", previous_response_id: first.id, input: [{ type: "mcp_approval_response", approval_request_id: request?.id, approve: true }] } });
  log("COMPACT", a.status, await a.text());
  log("approvals", await served.app.store.approval(request?.id ?? ""));
  const { existsSync } = await import("node:fs");
  log("file", existsSync(served.workspace + "/a.txt"));
});

test("remote admin", async () => {
  const served = await serve([{ text: "x" }], { door: { behindProxy: true } });
  const token = await served.newToken({ scopes: ["tools:call", "admin", "approve", "chat", "responses:write", "responses:read"] });
  for (const [path, json] of [["/mcp/tools/call", { name: "kill_all_agents", arguments: {} }], ["/tool/rotunda__execute_command", { args: { command: "id" } }], ["/v1/emergency-stop", {}], ["/mcp/tools/list", {}]] as const) {
    const a = await served.fetch(path, { token, json, headers: { "x-forwarded-for": "8.8.8.8" } });
    log("REMOTE", path, a.status, (await a.text()).slice(0, 200));
  }
});

test("cursors", async () => {
  const served = await serve(() => ({ text: "x" }));
  const [one, two] = [await served.newToken(), await served.newToken()];
  const a1 = await served.respond({ model: "test-model", input: "mine" }, one);
  const f = await served.respond({ model: "test-model", input: "foreign" }, two);
  const unknown = f.id.slice(0, -6) + "zzzzzz";
  for (const id of [f.id, unknown]) {
    const r = await served.fetch(`/v1/responses?after=${id}`, { token: one });
    log("LIST", r.status, ((await r.json()) as { data: unknown[] }).data.length);
  }
  await served.fetch("/v1/conversations", { token: one, json: {} });
  const fc = (await (await served.fetch("/v1/conversations", { token: two, json: {} })).json()) as { id: string };
  for (const id of [fc.id, fc.id.slice(0, -6) + "zzzzzz"]) {
    const r = await served.fetch(`/v1/conversations?after=${id}`, { token: one });
    log("LISTC", r.status, ((await r.json()) as { data: unknown[] }).data.length);
  }
  void a1;
});

test("idempotency keeps deleted", async () => {
  const served = await serve(() => ({ text: "the secret answer" }));
  const first = await served.respond({ model: "test-model", input: "x" });
  const h = { "idempotency-key": "k1" };
  const c = await served.fetch(`/v1/responses/${first.id}/cancel`, { method: "POST", headers: h });
  log("CANCEL", c.status, (await c.text()).includes("secret answer"));
  await served.fetch(`/v1/responses/${first.id}`, { method: "DELETE" });
  const c2 = await served.fetch(`/v1/responses/${first.id}/cancel`, { method: "POST", headers: h });
  log("CANCEL2", c2.status, (await c2.text()).slice(0, 100));
  const n = await served.fetch(`/chat`, { json: { message: "hi" }, headers: { "idempotency-key": "k2" } });
  const nj = (await n.json()) as { response_id: string };
  await served.fetch(`/v1/responses/${nj.response_id}`, { method: "DELETE" });
  const n2 = await served.fetch(`/chat`, { json: { message: "hi" }, headers: { "idempotency-key": "k2" } });
  log("CHAT2", n2.status, await n2.text());
});

test("local goes on with a token's conversation", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const one = await served.newToken();
  const c = (await (await served.fetch("/v1/conversations", { token: one, json: {} })).json()) as { id: string };
  const r1 = await served.respond({ model: "test-model", input: "mine", conversation: c.id }, one);
  const r2 = await served.respond({ model: "test-model", input: "local's", conversation: c.id });
  const again = await served.fetch("/v1/responses", { token: one, json: { model: "test-model", input: "mine 2", conversation: c.id } });
  log("TOKEN AFTER LOCAL", again.status, await again.text());
  const g = await served.fetch(`/v1/conversations/${c.id}`, { token: one });
  log("GET", g.status, await g.text());
  void r1; void r2;
});

test("strings", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const bad = { toString: 1, valueOf: 1 };
  const cases: [string, unknown][] = [
    ["/v1/conversations", { messages: [{ role: "tool", content: "", toolResults: [{ content: bad }] }] }],
    ["/v1/conversations", { messages: [{ role: "assistant", content: "", toolCalls: [{ name: bad }] }] }],
    ["/v1/conversations", { messages: [null] }],
    ["/v1/conversations", { messages: [{ role: "assistant", content: "", toolCalls: [null] }] }],
    ["/v1/chat/completions", { messages: [{ role: "function", name: bad, content: "x" }] }],
    ["/v1/chat/completions", { messages: [{ role: "user", content: "x" }], tool_choice: { type: "allowed_tools", allowed_tools: { tools: [null] } } }],
    ["/v1/chat/completions", { messages: [{ role: "user", content: "x" }], tool_choice: { type: "allowed_tools", allowed_tools: { tools: [{ type: bad }] } } }],
    ["/v1/chat/completions", { messages: [{ role: "user", content: "x" }], tool_choice: { type: "__proto__" } }],
    ["/v1/chat/completions", { messages: [{ role: "user", content: "x" }], tool_choice: { type: "function", function: { name: bad } } }],
    ["/v1/responses", { input: "x", tool_choice: { type: "allowed_tools", tools: [null] } }],
    ["/v1/responses", { input: "x", tool_choice: { type: "function", name: bad } }],
    ["/v1/responses", { input: "x", tool_choice: { type: "mcp", server_label: bad } }],
    ["/v1/responses", { input: "x", tools: [{ type: "namespace", name: bad, tools: [null] }] }],
    ["/v1/responses", { input: "x", tools: [{ type: "namespace", name: "x", tools: [{ type: "function", name: bad }] }] }],
    ["/v1/responses", { input: "x", tools: [{ type: "function", name: "a", parameters: bad }] }],
    ["/v1/responses", { input: "x", tools: [{ type: "custom", name: "a", format: bad }] }],
    ["/v1/responses", { input: "x", text: { format: { type: "json_schema", name: "a", schema: bad, description: "x" } } }],
    ["/v1/responses", { input: [{ type: "mcp_call", name: "x", arguments: "{}", error: bad }] }],
    ["/v1/responses", { input: [{ type: "custom_tool_call", name: "x", call_id: "a", input: bad }] }],
    ["/v1/responses", { input: [{ type: "function_call_output", call_id: "a", output: bad }] }],
    ["/v1/responses", { input: [{ type: "reasoning", content: [bad, null], summary: [null] }] }],
    ["/v1/responses", { input: [{ role: "user", content: [{ type: bad }] }] }],
    ["/v1/responses", { input: "x", reasoning: { effort: "__proto__" } }],
    ["/v1/responses", { input: "x", model: "__proto__" }],
    ["/v1/responses", { input: "x", model: "profile/__proto__" }],
    ["/v1/responses", { input: "x", model: "profile/constructor" }],
    ["/v1/responses", { input: "x", model: "constructor" }],
    ["/v1/responses", { input: "x", model: "openai/" }],
    ["/v1/responses", { input: "x", metadata: JSON.parse('{"__proto__":"a","constructor":"b"}') }],
    ["/v1/profiles", { name: "__proto__" }],
    ["/v1/profiles", { name: "constructor" }],
    ["/v1/profiles", { name: "x", mcpServerConfig: { enabledServers: [bad], disabledTools: [bad], allServersDisabledByDefault: bad } }],
    ["/v1/profiles", { name: "x", modelConfig: { mcpToolsProviderId: bad, mcpToolsOpenaiModel: bad } }],
    ["/v1/profiles/import", { profile: { version: 1, name: "z", rotunda: { tools: [bad], permissions: bad, mode: bad } } }],
    ["/v1/profiles/import", { profile: { version: 1, name: "z2", rotunda: { tools: bad, permissions: { ask: bad } } } }],
    ["/v1/profiles/import", { profile: { version: 1, name: "z3", mcpServers: { __proto__: bad, x: bad } } }],
    ["/v1/profiles/import", { profile: { version: 1, name: "z4", rotunda: JSON.parse('{"__proto__":{"mode":"auto"},"limits":{"turns":"x"}}') } }],
    ["/v1/mcp/servers", { name: "__proto__", config: { command: "true" } }],
    ["/v1/mcp/servers", { name: "constructor", config: { command: "true" } }],
    ["/v1/mcp/servers", { name: "a\u202eb", config: { command: "true" } }],
    ["/mcp/tools/call", { name: "read", arguments: { file_path: bad } }],
    ["/mcp/tools/call", { name: "bash", arguments: { command: bad } }],
    ["/mcp/tools/call", { name: "grep", arguments: { pattern: bad } }],
    ["/mcp/tools/call", { name: "task", arguments: { task: "x", profile: bad } }],
    ["/mcp/tools/call", { name: "toggle_mcp_server", arguments: { server: bad } }],
    ["/mcp/tools/call", { name: "switch_profile", arguments: { profile: bad, profileId: bad, profileIdOrName: bad } }],
    ["/mcp/tools/call", { name: "get_settings", arguments: bad }],
    ["/mcp/tools/call", { name: "execute_command", arguments: { command: bad } }],
    ["/chat", { message: "x", history: [null] }],
    ["/chat", { message: "x", history: [{ role: "function", name: bad }] }],
    ["/chat", { message: "x", history: [{ role: bad }] }],
    ["/chat", { message: "x", conversation: bad }],
    ["/v1/responses/input_tokens", { input: "x", conversation: { id: "a\0b" } }],
    ["/v1/responses/input_tokens", { input: "x", previous_response_id: "../x" }],
    ["/v1/responses/compact", { input: "x", previous_response_id: "../x" }],
    ["/v1/responses", { input: "x", conversation: "x".repeat(10000) }],
  ];
  for (const [path, json] of cases) {
    const a = await served.fetch(path, { json });
    const t = await a.text();
    log(a.status >= 500 ? "!!" : "  ", a.status, path, JSON.stringify(json).slice(0, 150), a.status >= 300 ? t.slice(0, 160) : "");
  }
  for (const [path, json] of [["/v1/settings", { mcpRuntimeDisabledServers: ["__proto__"], openaiApiKey: bad }], ["/v1/settings", { mcpConfig: { mcpServers: { __proto__: { command: "x" }, y: bad } } }], ["/v1/settings", { mcpConfig: { mcpServers: JSON.parse('{"__proto__":{"command":"x"}}') } }], ["/v1/settings", JSON.parse('{"__proto__":{"x":1},"constructor":1}')]] as const) {
    const a = await served.fetch(path, { json, method: "PATCH" });
    log(a.status >= 500 ? "!!" : "  ", a.status, path, JSON.stringify(json), (await a.text()).slice(0, 160));
  }
  const m = await served.fetch("/v1/responses", { json: { input: "x", metadata: JSON.parse('{"__proto__":"a","constructor":"b"}') } });
  log("META", JSON.stringify(((await m.json()) as { metadata: unknown }).metadata));
}, 60_000);

test("race of conversation writes", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const c = (await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string };
  const item = (n: number) => ({ items: [{ role: "user", content: `item ${n}` }] });
  const s = await Promise.all([0, 1, 2, 3, 4, 5].map((n) => served.fetch(`/v1/conversations/${c.id}/items`, { json: item(n) }).then((r) => r.status)));
  const list = (await (await served.fetch(`/v1/conversations/${c.id}/items?limit=100`)).json()) as { data: unknown[] };
  log("ADDITEMS", s, list.data.length);
  // update against turns
  const d = (await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string };
  for (let n = 0; n < 20; n++) {
    await Promise.all([
      served.fetch("/v1/responses", { json: { model: "test-model", input: `turn ${n}`, conversation: d.id } }),
      served.fetch(`/v1/conversations/${d.id}`, { json: { metadata: { n: String(n) } } }),
      served.fetch(`/v1/conversations/${d.id}`, { json: { metadata: { n: String(n) } } }),
    ]);
  }
  const after = (await (await served.fetch(`/v1/conversations/${d.id}/items?limit=100`)).json()) as { data: unknown[] };
  log("UPDATE RACE", after.data.length, "of 40");
  // turns & additems
  const e = (await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string };
  const st = await Promise.all([0, 1, 2, 3].flatMap((n) => [served.fetch("/v1/responses", { json: { model: "test-model", input: `turn ${n}`, conversation: e.id } }).then((r) => r.status), served.fetch(`/v1/conversations/${e.id}/items`, { json: item(n) }).then((r) => r.status)]));
  const l2 = (await (await served.fetch(`/v1/conversations/${e.id}/items?limit=100`)).json()) as { data: unknown[] };
  log("MIXED", st, l2.data.length);
}, 60_000);

test("refused requests begin conversations", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const r = await served.fetch("/v1/chat/completions", { json: { messages: [{ role: "nobody" }], conversation_id: "abc" } });
  log("REFUSED", r.status, (await served.app.store.conversations({ limit: 10 })).length);
});

test("starting after", async () => {
  const served = await serve(() => ({ text: ["a", "b"] }));
  const f = await served.respond({ model: "test-model", input: "x" });
  for (const n of ["", "NaN", "-1", "1e3", "0x5", "1.5", "9007199254740991", "9007199254740992", "8388608", "16777216", " 3", "%200", "null", "5&starting_after=1", "999"]) {
    const r = await served.fetch(`/v1/responses/${f.id}?stream=true&starting_after=${n}`);
    const t = await r.text();
    log("AFTER", n, r.status, t.length, t.slice(0, 60).replaceAll("\n", "|"), t.slice(-20).replaceAll("\n", "|"));
  }
}, 30_000);

test("profiles names leak", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const big = "x".repeat(20_000_000);
  for (let n = 0; n < 3; n++) {
    const r = await served.fetch("/v1/responses", { json: { model: `profile/${n}${big}`, input: "x" } });
    log("PROFILE", r.status, (await r.text()).length);
    const q = await served.fetch("/v1/responses", { json: { model: `${n}${big}`, input: "x" } });
    log("MODEL", q.status, (await q.text()).length);
  }
}, 60_000);
