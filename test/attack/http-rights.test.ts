/** Attacks on the HTTP doors: what a token may reach, and what it learns of what is not its own. */
import { existsSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Scope } from "../../src/types/token.ts";
import { newId } from "../../src/util/ids.ts";
import { type Served, serve } from "../http/served.ts";
import { temporaryFolder } from "../support.ts";

const answers = () => ({ text: "ok" });

async function read(response: Response): Promise<{ status: number; body: Record<string, unknown> }> {
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

describe("admin over a network", () => {
  const afar = { "x-forwarded-for": "203.0.113.7" };
  const scopes: Scope[] = ["tools:call", "admin", "approve", "chat", "responses:read", "responses:write"];
  const call = (served: Served, token: string, path: string, json: object) =>
    served.fetch(path, { token, json, headers: afar });

  test("its tools are neither listed nor called, in neither dialect", async () => {
    const served = await serve(answers, { door: { behindProxy: true } });
    const token = await served.newToken({ scopes });
    const flag = join(served.workspace, "done");
    const command = { command: `touch ${flag}` };
    const first = await call(served, token, "/mcp/tools/call", { name: "execute_command", arguments: command });
    const second = await call(served, token, "/tool/rotunda__execute_command", { args: command });
    expect([first.status, second.status]).toEqual([403, 403]);
    expect(existsSync(flag)).toBe(false);
    const listed = await call(served, token, "/mcp/tools/list", {});
    expect(await listed.text()).not.toContain("execute_command");
  });

  test("the operator's flag opens them, for steering settings as well", async () => {
    const served = await serve(answers, { door: { behindProxy: true, allowRemoteAdmin: true } });
    const token = await served.newToken({ scopes: [...scopes, "settings"] });
    const called = await call(served, token, "/mcp/tools/call", { name: "list_mcp_servers", arguments: {} });
    expect(called.status).toBe(200);
    const json = { openaiBaseUrl: "http://127.0.0.1:9/v1" };
    const patched = await served.fetch("/v1/settings", { token, json, method: "PATCH", headers: afar });
    expect(patched.status).toBe(200);
  });

  test("an answer for always is refused, and the emergency stop ends one's own runs only", async () => {
    const script = (request: { body: object }) =>
      JSON.stringify(request.body).includes("slow")
        ? ({ silent: "hang" } as const)
        : { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] };
    const served = await serve(script, { door: { behindProxy: true } });
    const token = await served.newToken({ scopes });
    const asked = await served.respond({ model: "test-model", input: "Write" }, token);
    const answer = { approvalId: asked.output.at(-1)?.id, approved: true, scope: "always" };
    expect((await call(served, token, "/v1/tool-approval", answer)).status).toBe(403);
    const others = await served.respond({ model: "test-model", input: "slow", background: true });
    expect((await call(served, token, "/v1/emergency-stop", {})).status).toBe(200);
    expect((await served.app.store.node(others.id))?.endedAt).toBeNull();
  });
});

describe("a token that is limited to profiles", () => {
  const config = { profiles: { hidden: { instructions: "the hidden prompt" } }, profile: "hidden" };

  test("is not shown the others' names and prompts", async () => {
    const served = await serve(answers, { config });
    const token = await served.newToken({ profiles: ["explore"] });
    const list = await read(await served.fetch("/v1/profiles", { token }));
    expect((list.body.profiles as { id: string }[]).map(({ id }) => id)).toEqual(["explore"]);
    const current = await served.fetch("/v1/profiles/current", { token });
    expect(current.status).toBe(403);
    expect(await current.text()).not.toContain("hidden prompt");
    const whole = await served.newToken({});
    expect((await read(await served.fetch("/v1/profiles/current", { token: whole }))).body.id).toBe("hidden");
  });

  test("learns the same of one that there is and of one that there is not, whatever way it asks", async () => {
    const served = await serve(answers, { config });
    const token = await served.newToken({ profiles: ["explore"] });
    const ask = async (path: string, json: object, headers: Record<string, string> = {}) =>
      read(await served.fetch(path, { token, json, headers }));
    for (const path of [
      "/v1/responses",
      "/v1/chat/completions",
      "/v1/responses/input_tokens",
      "/v1/responses/compact",
    ]) {
      const input = path.includes("chat") ? { messages: [{ role: "user", content: "x" }] } : { input: "x" };
      const there = await ask(path, { ...input, model: "profile/hidden" });
      expect(there.status).toBe(403);
      expect(await ask(path, { ...input, model: "profile/nothing" })).toEqual(there);
      expect(await ask(path, { ...input, model: "test-model" }, { "x-rotunda-profile": "hidden" })).toEqual(there);
    }
    expect((await served.fetch("/v1/models/profile/hidden", { token })).status).toBe(404);
    expect((await ask("/v1/responses", { input: "x", model: "profile/explore" })).status).toBe(200);
  });
});

test("a place in somebody else's list of conversations is none", async () => {
  const served = await serve(answers);
  const [mine, theirs] = [await served.newToken(), await served.newToken()];
  await served.fetch("/v1/conversations", { token: mine, json: {} });
  const other = await read(await served.fetch("/v1/conversations", { token: theirs, json: {} }));
  const after = async (id: unknown) => (await served.fetch(`/v1/conversations?after=${id}`, { token: mine })).text();
  expect(await after(other.body.id)).toBe(await after(newId("conv")));
});

test("whoever holds the machine goes on from a token's conversation without taking it along", async () => {
  const served = await serve(answers);
  const token = await served.newToken();
  const made = await read(await served.fetch("/v1/conversations", { token, json: {} }));
  const conversation = String(made.body.id);
  const first = await served.respond({ model: "test-model", input: "mine", conversation }, token);
  await served.respond({ model: "test-model", input: "private to the machine", conversation });
  await served.respond({ model: "test-model", input: "private too", previous_response_id: first.id });
  const seen = await served.fetch(`/v1/conversations/${conversation}`, { token });
  expect(await seen.text()).not.toContain("private");
  const next = await served.respond({ model: "test-model", input: "mine again", conversation }, token);
  expect(next.previous_response_id).toBe(first.id);
});

test("an answer to an approval that is only put down in a conversation is refused", async () => {
  const served = await serve(answers);
  const items = [{ type: "mcp_approval_response", approval_request_id: newId("mcpr"), approve: true }];
  expect((await served.fetch("/v1/conversations", { json: { items } })).status).toBe(400);
  const made = await read(await served.fetch("/v1/conversations", { json: {} }));
  expect((await served.fetch(`/v1/conversations/${made.body.id}/items`, { json: { items } })).status).toBe(400);
});

test("what was deleted is not told again by the answer that a key has kept", async () => {
  const served = await serve(() => ({ text: "the private answer" }));
  const again = async (path: string, headers: object, json?: object) =>
    served.fetch(path, { method: "POST", ...(json && { json }), headers: headers as Record<string, string> });
  const { id } = await served.respond({ model: "test-model", input: "x" });
  const path = `/v1/responses/${id}/cancel`;
  const headers = { "idempotency-key": "one" };
  expect(await (await again(path, headers)).text()).toContain("the private answer");
  const branch = { title: "copy" };
  const made = await read(await served.fetch("/v1/conversations", { json: {} }));
  const conversation = String(made.body.id);
  const turn = await served.respond({ model: "test-model", input: "y", conversation });
  const branching = `/v1/conversations/${conversation}/branch`;
  const key = { "idempotency-key": "two" };
  expect(await (await again(branching, key, branch)).text()).toContain("the private answer");
  for (const one of [id, turn.id]) await served.fetch(`/v1/responses/${one}`, { method: "DELETE" });
  for (const repeated of [await again(path, headers), await again(branching, key, branch)]) {
    expect(repeated.status).toBe(404);
    expect(await repeated.text()).not.toContain("the private answer");
  }
});

test("names of profiles that there are not are not kept, nor repeated at length", async () => {
  const served = await serve(answers);
  const long = "x".repeat(1_000_000);
  for (const model of [`profile/${long}`, "profile/__proto__", "profile/constructor"]) {
    const answer = await served.fetch("/v1/responses", { json: { model, input: "x" } });
    expect([400, 404]).toContain(answer.status);
    expect((await answer.text()).length).toBeLessThan(1_000);
  }
});

test("objects where texts are expected, and settings that cannot be, are the client's mistake", async () => {
  const served = await serve(answers);
  // JSON can make an object that no text can be made of.
  const odd = { toString: 1, valueOf: 1 };
  const cases: [path: string, body: object][] = [
    ["/v1/conversations", { messages: [{ role: "tool", content: "", toolResults: [{ content: odd }] }] }],
    ["/v1/conversations", { messages: [{ role: "assistant", content: "", toolCalls: [{ name: odd }] }] }],
    [
      "/v1/profiles",
      { name: "a", mcpServerConfig: { enabledServers: [odd] }, modelConfig: { mcpToolsProviderId: odd } },
    ],
    ["/v1/profiles/import", { profile: { version: 1, name: "b", rotunda: { tools: [odd], mode: odd } } }],
    ["/v1/profiles/import", { profile: { version: 1, name: "c", rotunda: { limits: { turns: "x" } } } }],
    ["/mcp/tools/call", { name: "read", arguments: { file_path: odd } }],
    ["/mcp/tools/call", { name: "toggle_mcp_server", arguments: { server: odd } }],
  ];
  for (const [path, json] of cases) {
    const answer = await served.fetch(path, { json });
    expect(answer.status, `${path} ${await answer.text()}`).toBeLessThan(500);
  }
});

test("a workspace that holds the state folder does not hand out the token, nor let settings be written", async () => {
  const folder = temporaryFolder();
  const served = await serve(answers, { folder, app: { workspace: folder } });
  symlinkSync(join(folder, "state"), join(folder, "link"));
  const token = await served.newToken({ scopes: ["tools:call", "approve"] });
  const call = async (name: string, args: object) =>
    (await served.fetch("/mcp/tools/call", { token, json: { name, arguments: args } })).text();
  const before = readFileSync(join(folder, "state", "token"), "utf8");
  for (const at of ["state", "link", join(folder, "state"), "workspace/../state"]) {
    expect(await call("read", { files: [{ file_path: `${at}/token` }] })).not.toContain(served.token);
    expect(await call("grep", { pattern: served.token.slice(0, 20), path: at })).not.toContain(served.token);
    const text = await call("write", { file_path: `${at}/settings.json`, content: "{}" });
    expect(text).toContain('"isError":true');
    await call("write", { file_path: `${at}/token`, content: "0".repeat(64) });
  }
  expect(await call("bash", { command: "cat state/token link/token" })).not.toContain(served.token);
  expect(readFileSync(join(folder, "state", "token"), "utf8")).toBe(before);
  expect(existsSync(join(folder, "state", "settings.json"))).toBe(false);
  expect(await call("read", { files: [{ file_path: "rotunda.yaml" }] })).toContain("test-model");
});
