/** SpeakMCP's clients, unchanged: models, profiles, settings, MCP servers, tools. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { serve, twoDoors } from "./served.ts";
import { ask, say, withServer } from "./speakmcp.ts";

describe("models, profiles, settings", () => {
  test("S12 models", async () => {
    const served = await serve([{ text: "x" }]);
    expect((await ask(served, "/v1/models")).body).toMatchObject({
      object: "list",
      data: expect.arrayContaining([expect.objectContaining({ id: "test-model", object: "model" })]),
    });
  });

  test("S13 S14 S15 profiles are listed, read, switched; what is wrong is said in SpeakMCP's words", async () => {
    const served = await serve([{ text: "x" }]);
    const list = await ask(served, "/v1/profiles");
    expect(list.body).toMatchObject({ currentProfileId: "general" });
    expect((list.body.profiles as object[])[0]).toHaveProperty("isDefault");
    const switched = await ask(served, "/v1/profiles/current", { json: { profileId: "explore" } });
    expect(switched.body).toMatchObject({ success: true, profile: { id: "explore", isDefault: true } });
    expect((await ask(served, "/v1/profiles/current")).body).toMatchObject({ id: "explore" });
    await ask(served, "/v1/chat/completions", { json: { messages: say("Hi") } });
    const offered = served.upstream.requests[0]?.body.tools as { function: { name: string } }[];
    expect(offered.map((tool) => tool.function.name)).not.toContain("write");
    expect(await ask(served, "/v1/profiles/current", { json: {} })).toMatchObject({
      status: 400,
      body: { error: "Missing or invalid profileId" },
    });
    expect((await ask(served, "/v1/profiles/current", { json: { profileId: "nobody" } })).status).toBe(404);
  });

  test("S31 S56 a profile: created without servers, changed, exported, imported, deleted; built-in ones stay", async () => {
    const served = await serve([{ text: "x" }], withServer());
    const made = await ask(served, "/v1/profiles", {
      json: { name: "Helper", systemPrompt: "Help.", guidelines: "Short." },
    });
    expect(made.status).toBe(201);
    const id = made.body.id;
    expect(made.body).toMatchObject({ name: "Helper", systemPrompt: "Help.", guidelines: "Short.", isDefault: false });
    await ask(served, "/v1/chat/completions", { json: { messages: say("Hi"), model: `profile/${id}` } });
    const body = JSON.stringify(served.upstream.requests[0]?.body);
    expect(body).toContain("Help.");
    expect(body).toContain("Short.");
    expect(body).not.toContain("echo__");
    await ask(served, `/v1/profiles/${id}`, { json: { systemPrompt: "Help more." }, method: "PATCH" });
    const exported = await ask(served, `/v1/profiles/${id}/export`);
    expect(exported.body).toMatchObject({ profile: { version: 1, name: "Helper", systemPrompt: "Help more." } });
    const imported = await ask(served, "/v1/profiles/import", { json: exported.body });
    expect(imported.status).toBe(201);
    expect(imported.body.id).not.toBe(id);
    expect((await ask(served, `/v1/profiles/${id}`, { method: "DELETE" })).body).toMatchObject({ success: true });
    const change = await ask(served, "/v1/profiles/general", { json: { name: "Mine" }, method: "PATCH" });
    expect(change.body).toEqual({ error: "Cannot update default profiles" });
    const removal = await ask(served, "/v1/profiles/general", { method: "DELETE" });
    expect(removal.body).toEqual({ error: "Cannot delete default profiles" });
  });

  test("S18 S19 B26 settings: masked, changed at once, kept; nothing of the environment is written", async () => {
    const served = await serve([{ text: "x" }]);
    const before = await ask(served, "/v1/settings");
    expect(before.body).toHaveProperty("mcpMaxIterations");
    const json = { mcpMaxIterations: 3, openaiApiKey: "sk-live-abcdefghijklmnop" };
    const patched = await ask(served, "/v1/settings", { json, method: "PATCH" });
    expect(patched.body).toMatchObject({ success: true, updated: expect.arrayContaining(["mcpMaxIterations"]) });
    const after = await ask(served, "/v1/settings");
    expect(after.body).toMatchObject({ mcpMaxIterations: 3 });
    expect(JSON.stringify(after.body)).not.toContain("abcdefghijklmnop");
    for (const wrong of [{}, { nonsense: 1 }, { mcpMaxIterations: 101 }]) {
      const refused = await ask(served, "/v1/settings", { json: wrong, method: "PATCH" });
      expect(refused).toMatchObject({ status: 400, body: { error: "No valid settings to update" } });
    }
  });

  test.skipIf(twoDoors)("B17 S6 with mcpRequireApprovalBeforeToolCall every call asks", async () => {
    const served = await serve([{ calls: [{ name: "glob", arguments: { pattern: "*" } }] }, { text: "x" }]);
    await ask(served, "/v1/settings", { json: { mcpRequireApprovalBeforeToolCall: true }, method: "PATCH" });
    const response = await served.respond({ model: "test-model", input: "Look" });
    expect(response.output.at(-1)?.type).toBe("mcp_approval_request");
  });
});

describe("MCP servers and tools", () => {
  test("S16 S17 S34 B22 B23 listed, toggled at once and for good, restarted, tested, with logs", async () => {
    const served = await serve([{ text: "x" }], withServer());
    const tested = await ask(served, "/v1/mcp/servers/echo/test", { method: "POST" });
    expect(tested.body).toMatchObject({ success: true, server: "echo" });
    expect((await ask(served, "/v1/mcp/servers")).body.servers).toMatchObject([{ name: "echo", connected: true }]);
    const names = async () =>
      ((await ask(served, "/mcp/tools/list", { method: "POST" })).body.tools as { name: string }[]).map(
        (one) => one.name,
      );
    expect((await names()).some((name) => name.startsWith("echo:"))).toBe(true);
    const off = await ask(served, "/v1/mcp/servers/echo/toggle", { json: { enabled: false } });
    expect(off.body).toEqual({ success: true, server: "echo", enabled: false });
    expect((await names()).some((name) => name.startsWith("echo:"))).toBe(false);
    await served.stop();
    const again = await serve([{ text: "x" }], { ...withServer(), folder: served.folder, endpoint: served.upstream });
    expect((await ask(again, "/v1/mcp/servers")).body.servers).toMatchObject([{ name: "echo", enabled: false }]);
    await ask(again, "/v1/mcp/servers/echo/toggle", { json: { enabled: true } });
    expect((await ask(again, "/v1/mcp/servers/echo/restart", { method: "POST" })).body).toMatchObject({
      success: true,
    });
    const logs = await ask(again, "/v1/mcp/servers/echo/logs");
    expect(logs.body).toMatchObject({ server: "echo", logs: expect.any(Array) });
    expect((await ask(again, "/v1/mcp/servers/echo/logs/clear", { method: "POST" })).body).toMatchObject({
      success: true,
    });
    expect((await ask(again, "/v1/mcp/servers/echo/stop", { method: "POST" })).body).toMatchObject({ success: true });
    expect(await ask(again, "/v1/mcp/servers/nobody/toggle", { json: { enabled: true } })).toEqual({
      status: 404,
      body: { error: "Server 'nobody' not found" },
    });
    expect(await ask(again, "/v1/mcp/servers/echo/toggle", { json: {} })).toEqual({
      status: 400,
      body: { error: "Missing or invalid 'enabled' boolean" },
    });
  });

  test("S24 S25 S50 S51 B24 all tools are listed and called, built-in ones and those of servers", async () => {
    const served = await serve([{ text: "x" }], withServer());
    const { body } = await ask(served, "/mcp/tools/list", { method: "POST" });
    const tools = body.tools as { name: string; description: string; inputSchema: object }[];
    const names = tools.map((one) => one.name);
    expect(names).toEqual(
      expect.arrayContaining([
        "list_mcp_servers",
        "toggle_mcp_server",
        "list_profiles",
        "switch_profile",
        "get_current_profile",
        "get_settings",
        "execute_command",
        "kill_all_agents",
        "read",
        "bash",
      ]),
    );
    expect(tools.every((one) => typeof one.inputSchema === "object")).toBe(true);
    const call = (name: string, args: object = {}) =>
      ask(served, "/mcp/tools/call", { json: { name, arguments: args } });
    for (const name of ["list_mcp_servers", "speakmcp-settings:list_mcp_servers"]) {
      const listed = await call(name);
      expect(listed.body).toMatchObject({ isError: false });
      expect(JSON.stringify(listed.body)).toContain("echo");
    }
    const run = await call("execute_command", { command: "echo hello" });
    expect(JSON.stringify(run.body)).toContain("hello");
    const own = names.find((name) => name.startsWith("echo:"));
    expect((await call(own ?? "none", { text: "hi" })).status).toBe(200);
    expect(await call("echo:nothing")).toMatchObject({
      status: 404,
      body: { error: expect.stringContaining("nothing") },
    });
    // No model is offered them.
    await ask(served, "/v1/chat/completions", { json: { messages: say("Hi") } });
    expect(JSON.stringify(served.upstream.requests[0]?.body.tools)).not.toContain("kill_all_agents");
  });

  test("S23 B27 the emergency stop ends everything within a second; servers stay up", async () => {
    const served = await serve([{ silent: "hang" }], withServer());
    await ask(served, "/v1/mcp/servers/echo/test", { method: "POST" });
    const ids = [];
    for (let run = 0; run < 3; run++)
      ids.push((await served.respond({ model: "test-model", input: "Hi", background: true })).id);
    const began = performance.now();
    const stopped = await ask(served, "/v1/emergency-stop", { method: "POST" });
    expect(stopped.body).toEqual({
      success: true,
      message: "Emergency stop executed",
      processesKilled: 3,
      processesRemaining: 0,
    });
    expect(performance.now() - began).toBeLessThan(1_000);
    for (const id of ids) expect((await served.app.store.node(id))?.status).toBe("cancelled");
    expect((await ask(served, "/v1/mcp/servers")).body.servers).toMatchObject([{ connected: true }]);
  });

  test("S36 elicitations and samplings that wait", async () => {
    const asking = join(import.meta.dirname, "../fixtures/mcp/asking.ts");
    const served = await serve([{ text: "x" }], {
      config: { mcpServers: { asking: { command: process.execPath, args: [asking, "both"] } } },
    });
    expect((await ask(served, "/v1/sampling/pending")).body).toEqual({ pending: [] });
    expect((await ask(served, "/v1/elicitation/pending")).body).toMatchObject({ elicitations: [] });
  });
});
