/** Profiles managed through doors, in SpeakMCP's terms. */
import { describe, expect, test } from "vitest";
import { modelOf, say } from "../support.ts";
import { openApp, place } from "./support.ts";

const user = "home/.config/rotunda/rotunda.json";

describe("S13 S14 S15 S31 S56", () => {
  test("made, shown, chosen, changed, removed; each lasts and is in force at once", async () => {
    const here = place();
    const app = await openApp(here);
    const { managedProfiles: profiles } = app;
    expect(await profiles.current()).toMatchObject({ id: "general", isDefault: true, managed: false });
    const before = Date.now();
    const made = await profiles.create({ name: "Código Review!", guidelines: "Be kind.", systemPrompt: "You review." });
    expect(made).toMatchObject({
      id: "codigo-review",
      name: "Código Review!",
      isDefault: false,
      managed: true,
      guidelines: "Be kind.",
      systemPrompt: "You review.",
    });
    expect(made.createdAt).toBeGreaterThanOrEqual(before);
    // No MCP server until it is said which.
    expect((await app.profile(made.id)).servers).toEqual([]);
    expect((await profiles.create({ name: "código review!" })).id).toBe("codigo-review-2");
    await expect(profiles.switch("CÓDIGO REVIEW!")).rejects.toMatchObject({ code: "profile_not_found" });
    expect(await profiles.switch(made.id)).toMatchObject({ id: made.id });
    expect((await app.profile()).instructions).toBe("You review.");
    const changed = await profiles.update(made.id, { name: "Reviewer", guidelines: "", systemPrompt: null });
    expect(changed).toMatchObject({ id: made.id, name: "Reviewer", guidelines: "", createdAt: made.createdAt });
    expect(changed.systemPrompt).toContain("capable assistant");
    const again = await openApp(here);
    expect(await again.managedProfiles.current()).toMatchObject({ id: made.id, name: "Reviewer" });
    expect((await again.managedProfiles.list()).map(({ id }) => id)).toEqual([
      "general",
      "explore",
      "plan",
      "execute",
      "codigo-review",
      "codigo-review-2",
    ]);
    await profiles.remove(made.id);
    expect(await profiles.current()).toMatchObject({ id: "general" });
    await expect(profiles.get(made.id)).rejects.toMatchObject({ code: "profile_not_found" });
  });

  test("default profiles and those of files are not changed through a door", async () => {
    const here = place();
    here.put(user, { profiles: { mine: { description: "of a file" } } });
    const { managedProfiles: profiles } = await openApp(here);
    await expect(profiles.update("general", { name: "x" })).rejects.toMatchObject({
      code: "usage",
      message: "Cannot update default profiles",
    });
    await expect(profiles.remove("plan")).rejects.toMatchObject({ message: "Cannot delete default profiles" });
    await expect(profiles.update("mine", { guidelines: "x" })).rejects.toThrow(/stands in a configuration file/);
    await expect(profiles.create({ name: "  " })).rejects.toMatchObject({ code: "usage" });
  });

  test("where the environment says the profile, switching says so and changes nothing for it", async () => {
    const here = place({ ROTUNDA_PROFILE: "explore" });
    const { managedProfiles: profiles } = await openApp(here);
    await expect(profiles.switch("plan")).rejects.toThrow(/the environment says that explore/);
    expect(await profiles.current()).toMatchObject({ id: "explore" });
  });

  test("the HTTP doors' own profile is the current one, and is what a switch changes", async () => {
    const here = place();
    here.put(user, { server: { profile: "plan" } });
    const app = await openApp(here);
    expect(await app.managedProfiles.current()).toMatchObject({ id: "plan" });
    await app.managedProfiles.switch("execute");
    expect(app.config.server.profile).toBe("execute");
    expect(await app.managedProfiles.current()).toMatchObject({ id: "execute" });
  });

  test("guidelines are told to the model behind the instructions, also behind a caller's own", async () => {
    const here = place();
    const model = modelOf([say("ok")]);
    const app = await openApp(here, [model]);
    await app.managedProfiles.create({ name: "kind", guidelines: "Always be kind.", systemPrompt: "You are a test." });
    for (const instructions of [undefined, "Caller's own."]) {
      const { id } = await app.engine.start({
        input: "hi",
        profile: "kind",
        workspace: here.workspace,
        door: "test",
        ...(instructions !== undefined && { settings: { instructions } }),
      });
      await app.engine.wait(id);
    }
    const said = model.requests.map((request) => request.instructions);
    expect(said[0]).toMatch(/^You are a test\.\n\nAlways be kind\./);
    expect(said[1]).toMatch(/^Caller's own\.\n\nAlways be kind\./);
  });

  test("what a profile may use, in SpeakMCP's words and back", async () => {
    const here = place();
    const { managedProfiles: profiles, profile } = await openApp(here);
    const mcpServerConfig = { disabledServers: ["git*hub"], disabledTools: ["files:write_file"] };
    const modelConfig = { mcpToolsProviderId: "groq", mcpToolsGroqModel: "llama-9" };
    const { id } = await profiles.create({ name: "p", mcpServerConfig, modelConfig });
    expect(await profile(id)).toMatchObject({
      servers: ["!git\\*hub"],
      tools: ["!files:write_file"],
      model: "groq/llama-9",
    });
    expect((await profiles.export(id)).profile).toMatchObject({ mcpServerConfig, modelConfig });
    await profiles.update(id, {
      mcpServerConfig: { allServersDisabledByDefault: true, enabledServers: ["a"], disabledTools: [] },
      modelConfig: null,
    });
    const now = await profile(id);
    expect(now.servers).toEqual(["a"]);
    expect(now.tools).toBeUndefined();
    expect(now.model).toBeUndefined();
  });
});

describe("export and import (S31)", () => {
  const servers = {
    files: {
      command: "node",
      args: ["server.js", "--token", "token-secret-1"],
      env: { KEY: "env-secret-1" },
    },
    docs: { url: "https://docs.example.com/mcp", headers: { Authorization: "Bearer header-secret" } },
  };

  test("an export holds no secret, and is taken elsewhere", async () => {
    const here = place();
    here.put(user, { mcpServers: servers });
    const app = await openApp(here);
    await app.managedProfiles.create({
      name: "Mine",
      guidelines: "g",
      systemPrompt: "s",
      config: { servers: ["*"], maxTurns: 3 },
    });
    const exported = await app.managedProfiles.export("mine");
    expect(exported.profile).toMatchObject({ version: 1, name: "Mine", guidelines: "g", systemPrompt: "s" });
    expect(Object.keys(exported.profile.mcpServers ?? {})).toEqual(["files", "docs"]);
    expect(JSON.stringify(exported)).not.toMatch(/secret/);
    const there = place();
    const other = await openApp(there);
    const plain = JSON.parse(JSON.stringify(exported.profile));
    const taken = await other.managedProfiles.import(plain, { admin: false });
    expect(taken.skippedServers).toEqual(["files", "docs"]);
    expect(taken.profile).toMatchObject({ id: "mine", name: "Mine", guidelines: "g", systemPrompt: "s" });
    expect((await other.profile("mine")).limits.turns).toBe(3);
    expect(other.config.servers).toEqual([]);
    const admin = await other.managedProfiles.import(plain, { admin: true });
    expect(admin).toMatchObject({ profile: { id: "mine-2" }, skippedServers: [] });
    expect(other.config.servers).toMatchObject([
      { name: "files", command: "node", disabled: true },
      { name: "docs", transport: "http", disabled: true },
    ]);
  });

  test("without admin an import loosens nothing", async () => {
    const here = place();
    const { managedProfiles: profiles, profile } = await openApp(here);
    const rotunda = {
      mode: "auto",
      permissions: { allow: ["*"], deny: ["bash"] },
      adminTools: ["*"],
      tools: ["read", "kill_all_agents"],
      limits: { turns: 9_999 },
    };
    const { id } = (await profiles.import({ version: 1, name: "x", rotunda }, { admin: false })).profile;
    const made = await profile(id);
    expect(made.mode).toBeUndefined();
    expect(made.adminTools).toBeUndefined();
    expect(made.tools).toEqual(["read"]);
    expect(made.permissions).toEqual({ allow: [], ask: [], deny: ["bash"] });
    expect(made.limits.turns).toBe(20);
  });

  test.each([
    ["no object", "x"],
    ["another version", { version: 2, name: "x" }],
    ["no name", { version: 1 }],
    ["text that is none", { version: 1, name: "x", guidelines: 7 }],
    ["a wrong key of ours", { version: 1, name: "x", rotunda: { maxTurns: "many" } }],
  ])("%s is refused and nothing is kept", async (_what, value) => {
    const here = place();
    const { managedProfiles: profiles } = await openApp(here);
    await expect(profiles.import(value, { admin: true })).rejects.toThrow();
    expect(await profiles.list()).toHaveLength(4);
  });
});
