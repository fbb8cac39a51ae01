/** What can be changed while the app runs. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { HubView } from "../../src/types/app.ts";
import { hostileScript, readLines, until } from "../hub/support.ts";
import { callOf, later, modelOf, say, toolOf } from "../support.ts";
import { type OpenedApp, openApp, type Place, place } from "./support.ts";

function server(here: Place, name: string, options: object = { mode: "none" }) {
  const journal = join(here.root, `${name}.journal`);
  const entry = { command: process.execPath, args: [hostileScript, JSON.stringify({ journal, ...options })] };
  return { entry, journal: () => readLines(journal) };
}

const started = (journal: string[]) => journal.filter((line) => line.startsWith("start ")).length;

async function hubOf(app: OpenedApp): Promise<HubView> {
  const hub = await app.hub();
  if (!hub) throw new Error("no hub");
  return hub;
}

const names = async (app: OpenedApp) =>
  (await app.engine.tools()).filter((tool) => tool.server !== "rotunda").map((tool) => tool.name);

const user = "home/.config/rotunda/rotunda.json";

describe("reload", () => {
  test("rules, profiles, hooks and models of the files are in force for what begins afterwards", async () => {
    const here = place();
    const app = await openApp(here, []);
    const judged = () => app.engine.judge("bash", { command: "git push" }, { workspace: here.workspace });
    expect((await judged()).effect).not.toBe("deny");
    await expect(app.profile("reviewer")).rejects.toMatchObject({ code: "profile_not_found" });
    const before = app.config;
    here.put(user, {
      permissions: { deny: ["bash(git push *)"] },
      profiles: { reviewer: { instructions: "Review.", guidelines: "Be kind.", onApproval: "return" } },
      models: [{ id: "mine", baseUrl: "http://127.0.0.1:9/v1", apiKey: "key-to-be-hidden" }],
      hooks: { beforeToolCall: ["true"] },
      toolOutputLimit: 100,
    });
    await app.reload();
    expect((await judged()).effect).toBe("deny");
    expect(await app.profile("reviewer")).toMatchObject({ guidelines: "Be kind.", onApproval: "return" });
    expect(app.profiles().map((profile) => profile.name)).toContain("reviewer");
    expect((await app.models())[0]).toMatchObject({ id: "mine", default: true });
    expect(app.redact("key-to-be-hidden")).toBe("***");
    expect(app.config).not.toBe(before);
    expect(app.config.toolOutputLimit).toBe(100);
    expect(app.config.hooks.beforeToolCall).toHaveLength(1);
    here.put(user, {});
    await app.reload();
    expect((await judged()).effect).not.toBe("deny");
    // A call that runs may still hold it.
    expect(app.redact("key-to-be-hidden")).toBe("***");
  });

  test("an error in the files leaves everything as it was", async () => {
    const here = place();
    here.put(user, { permissions: { deny: ["bash"] }, profile: "plan" });
    const app = await openApp(here);
    for (const wrong of [{ modles: [] }, { profile: "nobody" }, { mcpServers: { rotunda: { command: "x" } } }]) {
      here.put(user, wrong);
      await expect(app.reload()).rejects.toThrow();
      expect(app.config.permissions.deny).toEqual(["bash"]);
      expect((await app.profile()).name).toBe("plan");
    }
  });

  test("a turn that runs ends with the parts that it began with", async () => {
    const here = place();
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const model = modelOf([
      async function* () {
        await held;
        yield* callOf(["todo_like", {}]);
      },
      say("done"),
    ]);
    const app = await openApp(here, [model]);
    const { id } = await app.engine.start({ input: "go", workspace: here.workspace, door: "test" });
    here.put(user, { models: [{ id: "other", baseUrl: "http://127.0.0.1:9/v1" }], profile: "plan" });
    await app.reload();
    release();
    const ended = await app.engine.wait(id);
    expect(ended).toMatchObject({ status: "completed", model: "scripted", profile: "general" });
    const next = await app.engine.start({ input: "go", workspace: here.workspace, door: "test" });
    expect(next.profile).toBe("plan");
    await app.engine.wait(next.id);
  });

  test("warnings that are new are told", async () => {
    const here = place();
    const app = await openApp(here);
    here.put("work/.mcp.json", { mcpServers: { x: { command: "true" } } });
    await app.reload();
    await app.reload();
    expect(app.notices.filter(({ text }) => text.includes("MCP server x is left out"))).toHaveLength(1);
  });
});

describe("MCP servers", () => {
  test("added, changed, removed: the one that did not change keeps its process", async () => {
    const here = place();
    const [a, b, c] = [server(here, "a"), server(here, "b"), server(here, "c")];
    here.put(user, { mcpServers: { a: a.entry, b: b.entry } });
    const app = await openApp(here);
    expect(await names(app)).toEqual(expect.arrayContaining(["a__echo", "b__echo"]));
    here.put(user, { mcpServers: { a: a.entry, b: { ...b.entry, timeout: 7 }, c: c.entry } });
    await app.reload();
    expect(await names(app)).toEqual(expect.arrayContaining(["a__echo", "b__echo", "c__echo"]));
    const { workspace } = here;
    for (const name of ["a__echo", "b__echo", "c__echo"]) {
      expect((await app.engine.call(name, { text: name }, { workspace, by: "test" })).text).toBe(name);
    }
    expect([started(a.journal()), started(b.journal()), started(c.journal())]).toEqual([1, 2, 1]);
    here.put(user, {});
    await app.reload();
    expect(await names(app)).toEqual([]);
    await expect(app.engine.call("a__echo", {}, { workspace, by: "test" })).rejects.toThrow(/no tool/);
  });

  test("the first server can come with a reload", async () => {
    const here = place();
    const app = await openApp(here);
    expect(await app.hub()).toBeUndefined();
    expect(await names(app)).toEqual([]);
    here.put(user, { mcpServers: { a: server(here, "a").entry } });
    await app.reload();
    expect(await names(app)).toContain("a__echo");
  });

  test("promise 22: a toggle holds at once for the next listing and lasts", async () => {
    const here = place();
    here.put(user, { mcpServers: { a: server(here, "a").entry } });
    const app = await openApp(here);
    expect(await names(app)).toContain("a__echo");
    const hub = await hubOf(app);
    await hub.setEnabled("a", false);
    expect(await names(app)).toEqual([]);
    expect(hub.servers()[0]).toMatchObject({ state: "disabled", enabled: false, connected: false });
    expect(here.settings()).toEqual({ enabledServers: { a: false } });
    const restarted = await openApp(here);
    expect(await names(restarted)).toEqual([]);
    // All of its servers are off, and yet they can be seen and turned on.
    await (await hubOf(restarted)).setEnabled("a", true);
    expect(await names(restarted)).toContain("a__echo");
    await expect(hub.setEnabled("nobody", true)).rejects.toMatchObject({ code: "not_found" });
    expect(here.settings()).toEqual({ enabledServers: { a: true } });
  });

  test("a call under way is not cut by a toggle, a change or a removal", async () => {
    for (const after of ["removed", "off", "changed"]) {
      const here = place();
      // It never answers: what ends the call is its own time, or whoever cuts it.
      const a = server(here, "a", { mode: "hang" });
      const entry = { ...a.entry, timeout: 2 };
      here.put(user, { mcpServers: { a: entry } });
      const app = await openApp(here);
      const { workspace } = here;
      await names(app);
      const calling = app.engine.call("a__echo", {}, { workspace, by: "test" });
      await until(() => a.journal().some((line) => line.startsWith("call echo")));
      const changed = {
        removed: {},
        off: { a: { ...entry, disabled: true } },
        changed: { a: { ...entry, retry: "safe" } },
      };
      here.put(user, { mcpServers: changed[after as keyof typeof changed] });
      await app.reload();
      expect((await names(app)).length > 0).toBe(after === "changed");
      expect((await calling).text).toMatch(/timed out after 2 s/);
      await until(() => a.journal().includes("stdin ended"));
    }
  });
});

describe("settings", () => {
  test("a change that cannot be put in force is taken back from the file", async () => {
    const here = place();
    const app = await openApp(here);
    await app.settings.change((draft) => {
      draft.profile = "plan";
    });
    expect((await app.profile()).name).toBe("plan");
    await expect(
      app.settings.change((draft) => {
        draft.profile = "nobody";
      }),
    ).rejects.toMatchObject({ code: "profile_not_found" });
    expect((await app.profile()).name).toBe("plan");
    expect(here.settings()).toEqual({ profile: "plan" });
    expect(here.settingsMode()).toBe(0o600);
  });

  test("S18 S19: SpeakMCP's keys are shown with the values in force, masked, and set", async () => {
    const here = place({ OPENAI_API_KEY: "sk-environment-0123456789" });
    const app = await openApp(here, []);
    expect(await app.settings.speakmcp()).toMatchObject({
      mcpMaxIterations: 20,
      openaiApiKey: "****6789",
      mcpRequireApprovalBeforeToolCall: false,
    });
    const taken = await app.settings.patchSpeakmcp({
      mcpMaxIterations: 7,
      mcpRequireApprovalBeforeToolCall: true,
      mcpDisabledTools: ["speakmcp-settings:execute_command", "bash"],
      groqApiKey: "groq-key-0123456789",
    });
    expect(taken).toHaveLength(4);
    expect((await app.profile()).limits.turns).toBe(7);
    expect((await app.engine.judge("read", {}, { workspace: here.workspace })).effect).toBe("ask");
    const offered = (await app.engine.tools()).map((tool) => tool.name);
    expect(offered).not.toContain("bash");
    expect(offered).not.toContain("execute_command");
    expect(await app.settings.speakmcp()).toMatchObject({
      mcpMaxIterations: 7,
      mcpRequireApprovalBeforeToolCall: true,
      groqApiKey: "****6789",
    });
    expect(JSON.stringify(app.settings.masked())).not.toContain("groq-key");
    expect(JSON.stringify(here.settings())).not.toContain("sk-environment");
    expect(app.redact("groq-key-0123456789")).toBe("***");
  });

  test("without a way to load it anew, a reload re-applies what is in force", async () => {
    const here = place();
    const { createApp } = await import("../../src/app.ts");
    const { loadConfig } = await import("../../src/config/load.ts");
    const { workspace, environment } = here;
    const config = await loadConfig({ workspace, environment });
    const tool = toolOf("own_tool", async () => ({ text: "x" }));
    const app = await createApp({ config, workspace, environment, stateDirectory: here.state, tools: [tool] });
    later(() => app.close());
    here.put(user, { profile: "plan" });
    await app.reload();
    expect((await app.profile()).name).toBe("general");
    expect((await app.engine.tools()).map(({ name }) => name)).toContain("own_tool");
    expect(app).toMatchObject({ workspace, stateDirectory: here.state });
  });
});
