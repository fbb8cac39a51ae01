/** Configuration: found, expanded, merged, trusted. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { type LoadedConfig, loadConfig } from "../../src/config/load.ts";
import { createSetUp } from "../../src/config/set-up.ts";
import { temporaryFolder } from "../support.ts";

interface Place {
  workspace: string;
  environment: NodeJS.ProcessEnv;
  put(path: string, content: string | object): void;
  load(flags?: Parameters<typeof loadConfig>[0]["flags"]): Promise<LoadedConfig>;
  trust(): Promise<void>;
}

function place(variables: NodeJS.ProcessEnv = {}): Place {
  const root = temporaryFolder();
  const workspace = join(root, "work");
  const environment = { HOME: join(root, "home"), ROTUNDA_HOME: join(root, "state"), ...variables };
  mkdirSync(workspace, { recursive: true });
  return {
    workspace,
    environment,
    put(path, content) {
      const full = join(root, path);
      mkdirSync(dirname(full), { recursive: true });
      writeFileSync(full, typeof content === "string" ? content : JSON.stringify(content));
    },
    load: (flags = {}) => loadConfig({ workspace, environment, flags }),
    async trust() {
      const setUp = createSetUp({ workspace, environment });
      setUp.trust(await setUp.untrusted());
    },
  };
}

const MODEL = 'models:\n  - { id: main, baseUrl: http://127.0.0.1:9/v1, apiKey: "${MY_KEY}", modelName: big }\n';

describe("rotunda.yaml", () => {
  test("P11 models with variables; the project's file beats the user's", async () => {
    const here = place({ MY_KEY: "key-from-environment" });
    here.put("work/rotunda.yaml", MODEL);
    here.put(
      "home/.config/rotunda/rotunda.yaml",
      "models:\n  - { id: other, baseUrl: https://api.example.com/v1 }\n  - { id: main, baseUrl: https://weaker.example.com/v1 }\n",
    );
    const config = await here.load();
    expect(config.models).toMatchObject([
      { id: "main", baseUrl: "http://127.0.0.1:9/v1", apiKey: "key-from-environment", model: "big" },
      { id: "other", model: "other" },
    ]);
    expect(config.secrets).toContain("key-from-environment");
    expect(config.origins["models.main"]).toBe(join(here.workspace, "rotunda.yaml"));
  });

  test("P13 an unset variable leaves out its entry alone, and names it and the key; a default helps", async () => {
    const here = place();
    here.put("work/rotunda.yaml", `${MODEL}  - { id: other, baseUrl: http://127.0.0.1:9/v1 }\n`);
    const config = await here.load();
    expect(config.models.map(({ id }) => id)).toEqual(["other"]);
    const why = config.leftOut?.[0]?.why ?? "";
    expect(why).toMatch(/^the variable MY_KEY in models\[0\]\.apiKey of \/.*\/work\/rotunda\.yaml is not set$/);
    const remedy = "Set MY_KEY, or give a default: ${MY_KEY:-…}";
    expect(config.warnings).toEqual([`model main is left out: ${why}. ${remedy}.`]);
    expect(config.leftOut).toEqual([{ kind: "model", name: "main", why, remedy, isDefault: true }]);
    // What is no entry among others stays an error: another database is not a smaller one.
    here.put("home/.config/rotunda/rotunda.yaml", "database: postgres://u:${DB_PASSWORD}@h/d\n");
    await expect(here.load()).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringMatching(/^Environment variable not found: DB_PASSWORD \(.*rotunda\.yaml, key database\)$/),
    });
    here.put("home/.config/rotunda/rotunda.yaml", "{}\n");
    here.put("work/rotunda.yaml", MODEL.replace("${MY_KEY}", "${MY_KEY:-fallback$$}"));
    expect((await here.load()).models[0]?.apiKey).toBe("fallback$");
  });

  test("which left-out model would be the default: nobody else takes its place unasked", async () => {
    const here = place();
    const isDefault = async (flags = {}) => (await here.load(flags)).leftOut?.map((one) => one.isDefault === true);
    here.put("work/rotunda.yaml", `${MODEL}  - { id: other, baseUrl: http://127.0.0.1:9/v1 }\n`);
    expect(await isDefault()).toEqual([true]);
    expect(await isDefault({ apiBaseUrl: "http://127.0.0.1:9/v1" })).toEqual([false]);
    here.environment.ROTUNDA_MODEL = "other";
    expect(await isDefault()).toEqual([false]);
    delete here.environment.ROTUNDA_MODEL;
    here.put("work/rotunda.yaml", `models:\n  - { id: other, baseUrl: http://127.0.0.1:9/v1 }\n${MODEL.slice(8)}`);
    expect(await isDefault()).toEqual([false]);
    here.environment.ROTUNDA_MODEL = "main";
    expect(await isDefault()).toEqual([true]);
    here.put("home/.config/rotunda/rotunda.yaml", "models: [{ id: main, baseUrl: http://127.0.0.1:8/v1 }]\n");
    expect(await isDefault()).toEqual([]);
  });

  test("a server over SSE, and one with an unset variable: left out, each with its way out; the others stay", async () => {
    const here = place();
    here.put("home/.config/rotunda/rotunda.json", {
      mcpServers: {
        old: { type: "sse", url: "https://mcp.example.com/sse" },
        off: { type: "sse", url: "https://mcp.example.com/sse", disabled: true },
        bare: { command: "x", env: { TOKEN: "${NOT_SET}" } },
        good: { command: "x" },
      },
    });
    const { servers, warnings, leftOut } = await here.load();
    expect(servers.map(({ name }) => name)).toEqual(["good"]);
    expect(warnings).toEqual([
      expect.stringMatching(
        /^MCP server old is left out: its transport sse is not supported\. .*Streamable HTTP address/,
      ),
      expect.stringMatching(
        /^MCP server bare is left out: the variable NOT_SET in mcpServers\.bare\.env\.TOKEN of .* is not set/,
      ),
    ]);
    expect(leftOut?.map(({ kind, name }) => `${kind} ${name}`)).toEqual(["server old", "server off", "server bare"]);
  });

  test("an unknown key and a broken file are errors that name the place", async () => {
    const here = place();
    here.put("work/rotunda.yaml", "modles: []\n");
    await expect(here.load()).rejects.toThrow(
      /rotunda\.yaml:1: there is no key modles at the top: did you mean models\?/,
    );
    here.put("work/rotunda.yaml", "models: [\n");
    await expect(here.load()).rejects.toThrow(/rotunda\.yaml:1:9: this \[ is not closed$/);
  });

  test("JSONC with comments and trailing commas", async () => {
    const here = place();
    here.put(
      "work/rotunda.jsonc",
      '{ // the url holds //\n "models": [{"id":"m","baseUrl":"http://127.0.0.1:1/v1",},], /* x */ }',
    );
    expect((await here.load()).models[0]?.baseUrl).toBe("http://127.0.0.1:1/v1");
  });
});

describe("trust", () => {
  const servers = { mcpServers: { files: { command: "node", args: ["server.js"] } } };

  test("a project's server is left out in one line until it is trusted, and again when it changes", async () => {
    const here = place();
    here.put("work/.mcp.json", servers);
    const before = await here.load();
    expect(before.servers).toEqual([]);
    expect(before.warnings).toEqual([
      expect.stringContaining("MCP server files is left out until you trust it: rotunda trust"),
    ]);
    await here.trust();
    expect((await here.load()).servers).toMatchObject([{ name: "files", command: "node", args: ["server.js"] }]);
    here.put("work/.mcp.json", { mcpServers: { files: { command: "node", args: ["evil.js"] } } });
    expect((await here.load()).servers).toEqual([]);
  });

  test("--config, ROTUNDA_CONFIG and the user's own file are trusted", async () => {
    const here = place();
    here.put("work/named.json", servers);
    here.put("home/.config/rotunda/rotunda.json", { mcpServers: { own: { command: "true" } } });
    expect((await here.load({ config: "named.json" })).servers).toMatchObject([{ name: "files" }]);
    here.environment.ROTUNDA_CONFIG = join(here.workspace, "named.json");
    expect((await here.load()).servers).toMatchObject([{ name: "files" }]);
    delete here.environment.ROTUNDA_CONFIG;
    expect((await here.load()).servers).toMatchObject([{ name: "own" }]);
  });

  test("what tightens counts at once; hooks, remote models, allow rules and looser modes do not", async () => {
    const here = place();
    here.put("work/rotunda.yaml", {
      models: [{ id: "m", baseUrl: "https://api.example.com/v1" }],
      hooks: { beforeToolCall: ["./hook.sh"] },
      permissions: { mode: "auto", allow: ["bash"], deny: ["read(.env)"] },
      sandbox: { level: "none" },
    });
    const config = await here.load();
    expect(config.models).toEqual([]);
    expect(config.hooks).toEqual({});
    expect(config.permissions).toEqual({ mode: "ask", allow: [], ask: [], deny: ["read(.env)"] });
    expect(config.sandbox.level).toBe("auto");
    expect(config.untrusted.map((item) => item.what)).toEqual([
      "model m",
      "hook beforeToolCall",
      "permissions",
      "sandbox",
    ]);
    await here.trust();
    const after = await here.load();
    expect(after.permissions).toMatchObject({ mode: "auto", allow: ["bash"] });
    expect(after.hooks.beforeToolCall).toEqual([{ command: "./hook.sh" }]);
  });

  test("an address in a project's .env needs trust; a key does not", async () => {
    const here = place();
    here.put("work/.env", "FIREWORKS_API_KEY=fw-key-123456\nOPENAI_BASE_URL=https://evil.example.com/v1\n");
    const config = await here.load();
    expect(config.environment.FIREWORKS_API_KEY).toBe("fw-key-123456");
    expect(config.environment.OPENAI_BASE_URL).toBeUndefined();
    expect(config.secrets).toContain("fw-key-123456");
  });
});

describe("the five systems' files", () => {
  test("N10 mcp-servers.json, with the env that notion-open-agent dropped", async () => {
    const here = place();
    here.put("work/mcp-servers.json", { servers: { notion: { command: "npx", args: ["-y", "x"], env: { A: "b" } } } });
    await here.trust();
    expect((await here.load()).servers).toMatchObject([{ name: "notion", command: "npx", env: { A: "b" } }]);
  });

  test("N11 system-prompt.txt is honoured", async () => {
    const here = place();
    here.put("work/system-prompt.txt", "You speak in rhymes.\n\n");
    expect((await here.load()).systemPrompt).toBe("You speak in rhymes.");
  });

  test("N8 .env gives variables that are not set", async () => {
    const here = place({ OPENAI_API_KEY: "from-process" });
    here.put("work/.env", "OPENAI_API_KEY=from-file\nGROQ_API_KEY=groq-key\n");
    const { environment } = await here.load();
    expect(environment).toMatchObject({ OPENAI_API_KEY: "from-process", GROQ_API_KEY: "groq-key" });
  });

  test("F15 F16 F17 finta.yaml from Finta's places: servers, env only expanded there, confirmations", async () => {
    const here = place({ TOKEN: "secret-token" });
    const file = {
      mcp: {
        servers: [
          {
            name: "github",
            transport: "stdio",
            command: "npx",
            args: ["$NOT_EXPANDED"],
            env: { T: "${TOKEN}", U: "$UNSET" },
          },
          { name: "off", transport: "stdio", command: "x", disabled: true },
        ],
      },
      hooks: { bash_confirm: true, tool_confirm: ["write"] },
    };
    here.put("work/configs/finta.yaml", file);
    here.put("home/.config/finta/finta.yaml", { mcp: { servers: [{ name: "unused", command: "x" }] } });
    await here.trust();
    const config = await here.load();
    expect(config.servers).toMatchObject([
      { name: "github", args: ["$NOT_EXPANDED"], env: { T: "secret-token", U: "" } },
      { name: "off", disabled: true },
    ]);
    expect(config.servers.map((server) => server.name)).not.toContain("unused");
    expect(config.permissions.ask).toEqual(["bash", "write"]);
  });

  test("VS Code's `servers`, remote servers and disabled ones", async () => {
    const here = place();
    here.put("home/.config/rotunda/rotunda.json", {
      mcpServers: {
        docs: { type: "http", url: "https://docs.example.com/mcp", headers: { Authorization: "Bearer abcdefgh" } },
        off: { command: "x", disabled: true },
      },
    });
    const config = await here.load();
    expect(config.servers).toMatchObject([
      { name: "docs", transport: "http" },
      { name: "off", disabled: true },
    ]);
    expect(config.secrets).toContain("abcdefgh");
  });
});

test("F2 --api-base-url and --api-key make a model, or change the one that --model names", async () => {
  const here = place({ MY_KEY: "configured-key" });
  const flags = { apiBaseUrl: "http://127.0.0.1:7/v1", apiKey: "flag-key", model: "gpt-x" };
  expect((await here.load(flags)).models).toMatchObject([
    { id: "gpt-x", model: "gpt-x", baseUrl: "http://127.0.0.1:7/v1", apiKey: "flag-key" },
  ]);
  here.put("work/rotunda.yaml", MODEL);
  expect((await here.load({ apiKey: "flag-key", model: "main" })).models).toMatchObject([
    { id: "main", model: "big", baseUrl: "http://127.0.0.1:9/v1", apiKey: "flag-key" },
  ]);
});

test.each([
  ["an expression", { cron: "99 7 * * 1-5" }, '"99 7 * * 1-5" (UTC) is no schedule'],
  ["a time zone", { cron: "@daily", timezone: "Europe/Pariss" }, 'the time zone "Europe/Pariss" is unknown'],
])("%s that is none is refused with the name of its schedule", async (_, wrong, why) => {
  const here = place();
  const good = { name: "good", cron: "30 0 7 * * *", timezone: "Europe/Paris", input: "hello" };
  here.put("work/rotunda.json", { schedules: [good] });
  await here.trust();
  expect((await here.load()).schedules).toEqual([good]);
  here.put("work/rotunda.json", { schedules: [good, { name: "brief", input: "hello", ...wrong }] });
  await expect(here.load()).rejects.toMatchObject({
    code: "config_invalid",
    message: expect.stringMatching(/rotunda\.json: schedule brief: /),
  });
  await expect(here.load()).rejects.toMatchObject({ message: expect.stringContaining(why) });
});
