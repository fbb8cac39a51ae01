/** Admin tools (S50): who is offered them, and what they do. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { adminToolNames } from "../../src/types/tool.ts";
import { hostileScript } from "../hub/support.ts";
import { callOf, modelOf, say } from "../support.ts";
import { type OpenedApp, openApp, place } from "./support.ts";

const user = "home/.config/rotunda/rotunda.json";

async function call(app: OpenedApp, name: string, input = {}) {
  const result = await app.engine.call(name, input, { workspace: app.workspace, by: "test" });
  return { ...result, json: result.text.startsWith("{") ? (JSON.parse(result.text) as Record<string, unknown>) : {} };
}

describe("offered", () => {
  test("to nobody but a profile that names them, never to a sub-agent; a program can list and call them", async () => {
    const here = place();
    here.put(user, {
      profiles: {
        stars: { tools: ["*"] },
        named: { tools: ["read", "list_*", "kill_all_agents"] },
        besides: { adminTools: ["*_profile*"] },
      },
    });
    const model = modelOf([callOf(["task", { agent_type: "named", task: "x", description: "y" }]), say("done")]);
    const app = await openApp(here, [model]);
    const admin = async (profile?: string) =>
      (await app.engine.tools(profile)).filter((tool) => tool.admin).map((tool) => tool.name);
    expect(await admin()).toEqual([...adminToolNames]);
    expect(await admin("general")).toEqual([]);
    expect(await admin("stars")).toEqual([]);
    expect(await admin("named")).toEqual(["list_mcp_servers", "list_profiles", "kill_all_agents"]);
    expect(await admin("besides")).toEqual(["list_profiles", "switch_profile", "get_current_profile"]);
    expect((await app.engine.tools("named")).map((tool) => tool.name)).toContain("read");
    const { workspace } = here;
    const { id } = await app.engine.start({ input: "go", workspace, door: "test", settings: { mode: "auto" } });
    await app.engine.wait(id);
    const offered = model.requests.map((request) => request.tools.map((tool) => tool.name));
    expect(offered.length).toBeGreaterThan(1);
    for (const names of offered) expect(names.filter((name) => adminToolNames.some((one) => one === name))).toEqual([]);
  });

  test("SpeakMCP's names for them are understood", async () => {
    const app = await openApp(place());
    for (const name of ["list_profiles", "speakmcp-settings:list_profiles", "rotunda:list_profiles"]) {
      expect((await call(app, name)).json.count).toBe(4);
    }
  });
});

describe("what they do", () => {
  test("servers are listed and toggled", async () => {
    const here = place();
    here.put(user, { mcpServers: { a: { command: process.execPath, args: [hostileScript, '{"mode":"none"}'] } } });
    const app = await openApp(here);
    expect((await call(app, "list_mcp_servers")).json).toMatchObject({
      count: 1,
      servers: [{ name: "a", enabled: true, connected: false }],
    });
    expect((await call(app, "toggle_mcp_server", { serverName: "a" })).json).toEqual({
      success: true,
      server: "a",
      enabled: false,
    });
    expect(app.config.servers[0]?.disabled).toBe(true);
    expect(here.settings()).toEqual({ enabledServers: { a: false } });
    const wrong = await call(app, "toggle_mcp_server", { serverName: "x" });
    expect(wrong).toMatchObject({ isError: true, text: expect.stringContaining("Server 'x' not found") });
  });

  test("profiles are shown and switched, settings are masked", async () => {
    const here = place({ OPENAI_API_KEY: "sk-environment-0123456789" });
    const app = await openApp(here);
    expect((await call(app, "switch_profile", { profileIdOrName: "plan" })).json).toMatchObject({
      success: true,
      profile: { id: "plan", isDefault: true },
    });
    expect((await call(app, "get_current_profile")).json).toMatchObject({ id: "plan" });
    expect((await call(app, "list_profiles")).json).toMatchObject({ currentProfileId: "plan", count: 4 });
    const settings = await call(app, "get_settings");
    expect(settings.json).toMatchObject({ openaiApiKey: "****6789" });
    expect(settings.text).not.toContain("sk-environment");
  });

  test("execute_command answers both outputs and the exit code, and rules about bash hold for it", async () => {
    const here = place();
    here.put(user, { permissions: { deny: ["bash(rm *)"], allow: ["bash(echo *)"] } });
    const app = await openApp(here);
    expect((await call(app, "execute_command", { command: "echo out; echo it\\'s err >&2" })).json).toEqual({
      success: true,
      command: "echo out; echo it\\'s err >&2",
      stdout: "out\n",
      stderr: "it's err\n",
      exitCode: 0,
    });
    const failed = await call(app, "execute_command", { command: "printf x; exit 3" });
    expect(failed).toMatchObject({ isError: true });
    expect(failed.json).toMatchObject({ success: false, stdout: "x", stderr: "", exitCode: 3 });
    const late = await call(app, "execute_command", { command: "echo begun; sleep 30", timeout: 700 });
    expect(late.json).toMatchObject({ success: false, error: expect.stringContaining("timed out") });
    await expect(call(app, "execute_command", { command: "rm -rf ." })).rejects.toMatchObject({ code: "denied" });
    const judged = app.engine.judge("execute_command", { command: "echo x" }, { workspace: here.workspace });
    expect(await judged).toMatchObject({ effect: "allow", why: expect.stringContaining("rule allow: bash(echo *)") });
  });

  test("execute_command sees no state directory", async () => {
    const here = place();
    const app = await openApp(here);
    if ((await app.sandboxLevel()) === "none") return;
    await app.settings.patchSpeakmcp({ openaiApiKey: "sk-kept-0123456789" });
    const { json } = await call(app, "execute_command", { command: `cat ${join(here.state, "settings.json")}` });
    expect(JSON.stringify(json)).not.toContain("sk-kept");
    expect(json.success).toBe(false);
  });

  test("kill_all_agents ends what runs, also the one that calls it", async () => {
    const here = place();
    here.put(user, { profiles: { admin: { adminTools: ["kill_all_agents"], mode: "auto" } } });
    const forever = async function* (_request: unknown, signal: AbortSignal) {
      await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(new Error("cut"))));
      yield* say("never");
    };
    const model = modelOf([forever, callOf(["kill_all_agents", {}]), say("late")]);
    const app = await openApp(here, [model]);
    const { workspace } = here;
    const first = await app.engine.start({ input: "hang", workspace, door: "test" });
    while (model.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    const second = await app.engine.start({ input: "kill", profile: "admin", workspace, door: "test" });
    expect((await app.engine.wait(first.id)).status).toBe("cancelled");
    expect((await app.engine.wait(second.id)).status).toBe("cancelled");
    expect((await call(app, "kill_all_agents")).json).toMatchObject({ success: true, ended: 0 });
  });
});
