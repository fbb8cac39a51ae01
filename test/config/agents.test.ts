/** `agents:` of the configuration: read, known by their ids, and trusted before they start anything. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { loadConfig } from "../../src/config/load.ts";
import { createSetUp } from "../../src/config/set-up.ts";
import { temporaryFolder } from "../support.ts";

function place(variables: NodeJS.ProcessEnv = {}) {
  const root = temporaryFolder();
  const workspace = join(root, "work");
  mkdirSync(workspace, { recursive: true });
  const environment = { HOME: join(root, "home"), ROTUNDA_HOME: join(root, "state"), ...variables };
  return {
    root,
    workspace,
    put(path: string, content: object) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), JSON.stringify(content));
    },
    load: () => loadConfig({ workspace, environment }),
    setUp: () => createSetUp({ workspace, environment }),
  };
}

const USER = "home/.config/rotunda/rotunda.yaml";

test("known agents need no command; others do; relative paths start at the file", async () => {
  const here = place({ GOOSE_KEY: "secret-of-goose" });
  here.put(USER, {
    agents: {
      "claude-code": { model: "opus", maxConcurrent: 2 },
      opencode: {},
      mine: { protocol: "claude-code", command: "./bin/claude" },
      goose: { command: "goose", args: ["acp"], env: { API_KEY: "${GOOSE_KEY}" }, cwd: "sub" },
    },
  });
  const { agents, secrets } = await here.load();
  const folder = join(here.root, "home/.config/rotunda");
  expect(agents).toEqual([
    { id: "claude-code", protocol: "claude-code", command: "claude", model: "opus", maxConcurrent: 2 },
    { id: "opencode", protocol: "acp", command: "opencode", args: ["acp"] },
    { id: "mine", protocol: "claude-code", command: join(folder, "bin/claude") },
    {
      id: "goose",
      protocol: "acp",
      command: "goose",
      args: ["acp"],
      env: { API_KEY: "secret-of-goose" },
      cwd: join(folder, "sub"),
    },
  ]);
  expect(secrets).toContain("secret-of-goose");
  here.put(USER, { agents: { goose: {} } });
  await expect(here.load()).rejects.toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining("command"),
  });
});

test("a project's agent needs trust, and again when it changes", async () => {
  const here = place();
  here.put("work/rotunda.yaml", { agents: { evil: { command: "/bin/evil" } } });
  expect((await here.load()).agents).toBeUndefined();
  const waiting = await here.setUp().untrusted();
  expect(waiting).toMatchObject([{ what: "agent evil", content: { command: "/bin/evil" } }]);
  here.setUp().trust(waiting);
  expect((await here.load()).agents).toMatchObject([{ id: "evil" }]);
  here.put("work/rotunda.yaml", { agents: { evil: { command: "/bin/evil", args: ["--more"] } } });
  const { agents, warnings } = await here.load();
  expect(agents).toBeUndefined();
  expect(warnings.join("\n")).toContain("agent evil is left out until you trust it");
});

test("a project cannot have permissions skipped by itself, and nobody by the agent's mode", async () => {
  const here = place();
  here.put("work/rotunda.yaml", { profiles: { free: { description: "x", skipAgentPermissions: true } } });
  expect((await here.load()).profiles).not.toHaveProperty("free");
  here.put("work/rotunda.yaml", {});
  here.put(USER, { agents: { "claude-code": { permissionMode: "bypassPermissions" } } });
  await expect(here.load()).rejects.toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining("skipAgentPermissions"),
  });
});
