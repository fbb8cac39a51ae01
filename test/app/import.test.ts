/** rotunda import: what other programs left becomes ours. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createSetUp } from "../../src/config/set-up.ts";
import type { CommandContext } from "../../src/doors/cli/context.ts";
import { type ImportFlags, importFrom } from "../../src/doors/cli/import.ts";
import type { MessageItem } from "../../src/types/item.ts";
import { collect, modelOf, say } from "../support.ts";
import { type OpenedApp, openApp, type Place, place } from "./support.ts";

async function run(here: Place, app: OpenedApp, path: string, flags: ImportFlags = {}) {
  const told = { out: "", err: "" };
  const context = {
    setUp: async () => createSetUp(here),
    app: async () => app,
    streams: {
      out: (text: string) => {
        told.out += text;
      },
      err: (text: string) => {
        told.err += text;
      },
    },
  } as unknown as CommandContext;
  const code = await importFrom(context, join(here.root, path), flags);
  return { ...told, code, json: flags.json ? (JSON.parse(told.out) as Record<string, string[]>) : {} };
}

const speakmcp = {
  mcpToolsProviderId: "groq",
  mcpToolsGroqModel: "llama-9",
  groqApiKey: "groq-secret-0123456789",
  openaiApiKey: "sk-of-the-environment-01",
  mcpMaxIterations: 12,
  mcpContextTargetRatio: 0.6,
  mcpRuntimeDisabledServers: ["docs"],
  remoteServerApiKey: "remote-secret-0123456789",
  remoteServerPort: 3210,
  shortcut: "hold-ctrl",
  modelPresets: [
    { id: "p1", name: "My Preset", baseUrl: "http://127.0.0.1:9/v1", apiKey: "preset-$ecret-key", mcpToolsModel: "m" },
  ],
  mcpConfig: {
    mcpServers: {
      files: { command: "node", args: ["server.js", "$HOME"], env: { KEY: "file-secret-012345" }, timeout: 15_000 },
      docs: { transport: "streamableHttp", url: "https://docs.example.com/mcp", oauth: { clientId: "x" } },
      old: { transport: "websocket", url: "wss://old.example.com" },
    },
  },
};

const profiles = {
  profiles: [
    { id: "default", name: "Default", isDefault: true, guidelines: "", createdAt: 1, updatedAt: 1 },
    {
      id: "p-1",
      name: "Code Reviewer",
      guidelines: "Be strict.",
      systemPrompt: "You review.",
      createdAt: 1_700_000_000_000,
      updatedAt: 1_700_000_000_001,
      mcpServerConfig: { allServersDisabledByDefault: true, enabledServers: ["files"] },
      modelConfig: { mcpToolsProviderId: "groq", mcpToolsGroqModel: "llama-8" },
      skillsConfig: { enabledSkills: ["x"] },
    },
  ],
  currentProfileId: "p-1",
};

const T = 1_700_000_000_000;
const conversation = {
  id: "conv_1700000000000_abc",
  title: "About files",
  createdAt: T,
  updatedAt: T + 60_000,
  messages: [
    { id: "m1", role: "user", content: "List my files", timestamp: T },
    {
      id: "m2",
      role: "assistant",
      content: "I look.",
      timestamp: T + 2_000,
      toolCalls: [
        { name: "files:list", arguments: { path: "." } },
        { name: "files:count", arguments: {} },
      ],
    },
    {
      id: "m3",
      role: "tool",
      content: "[files:list] a.txt",
      timestamp: T + 3_000,
      toolResults: [
        { success: true, content: "a.txt" },
        { success: false, content: "", error: "no such tool" },
      ],
    },
    { id: "m4", role: "assistant", content: "There is a.txt.", timestamp: T + 4_000 },
    { id: "m5", role: "user", content: "Thanks", timestamp: T + 50_000 },
    { id: "m6", role: "assistant", content: "You are welcome.", timestamp: T + 60_000 },
  ],
};

function prepare(variables: NodeJS.ProcessEnv = {}): Place {
  const here = place(variables);
  here.put("old/config.json", speakmcp);
  here.put("old/profiles.json", profiles);
  here.put("old/conversations/index.json", []);
  here.put(`old/conversations/${conversation.id}.json`, conversation);
  here.put("old/conversations/broken.json", "{");
  here.put("old/oauth-tokens.json", {});
  return here;
}

describe("SpeakMCP", () => {
  test("S4 S5 S6: settings, servers and profiles; what is left out is told; no secret is", async () => {
    const here = prepare({ OPENAI_API_KEY: "sk-of-the-environment-01" });
    const app = await openApp(here, []);
    const { out, err, code } = await run(here, app, "old");
    expect(code).toBe(0);
    expect(out).not.toMatch(/secret|ecret-key|sk-of-the/);
    for (const line of [
      "+ mcpMaxIterations",
      "+ mcpContextTargetRatio: kept, but it does nothing here",
      "- openaiApiKey: the environment has it already",
      "- remoteServerApiKey: make a token instead",
      "+ remoteServerPort",
      "- shortcut: nothing here corresponds",
      "+ model preset My Preset: model my-preset",
      "+ MCP server files",
      "- MCP server docs: the tokens of its login: rotunda hub login makes new ones",
      "- MCP server old: its transport websocket is not supported",
      "+ profile Code Reviewer: called code-reviewer",
      "- profile Code Reviewer: its skills",
      "- conversation broken.json: it cannot be read",
      "- oauth-tokens.json: sign in again",
    ]) {
      expect(out).toContain(line);
    }
    expect(err).toContain("SpeakMCP: 1 conversation imported");
    expect(here.settingsMode()).toBe(0o600);
    expect(JSON.stringify(here.settings())).not.toContain("sk-of-the-environment");
    const { config } = app;
    expect(config.models.map(({ id, apiKey }) => [id, apiKey])).toEqual([
      ["groq/llama-9", "groq-secret-0123456789"],
      ["my-preset", "preset-$ecret-key"],
      ["groq/llama-8", "groq-secret-0123456789"],
    ]);
    expect(config.servers).toMatchObject([
      { name: "files", args: ["server.js", "$HOME"], env: { KEY: "file-secret-012345" }, timeout: 15, disabled: false },
      { name: "docs", transport: "http", disabled: true },
    ]);
    expect(config.server.port).toBe(3210);
    expect(await app.managedProfiles.current()).toMatchObject({
      id: "code-reviewer",
      name: "Code Reviewer",
      guidelines: "Be strict.",
      systemPrompt: "You review.",
      createdAt: T,
    });
    expect(await app.profile()).toMatchObject({ servers: ["files"], model: "groq/llama-8", limits: { turns: 12 } });
  });

  test("S20 S21 S22: a conversation becomes responses with calls, and goes on", async () => {
    const here = prepare();
    const model = modelOf([say("Still here.")]);
    const app = await openApp(here, [model]);
    await run(here, app, "old/conversations");
    const [found, ...others] = await app.store.conversations({ limit: 10 });
    expect(others).toEqual([]);
    expect(found).toMatchObject({
      title: "About files",
      metadata: { importedFrom: conversation.id },
      createdAt: T,
      updatedAt: T + 60_000,
    });
    const path = await app.store.path(found?.head ?? "");
    expect(path).toHaveLength(2);
    const [first, second] = await Promise.all(path.map(({ node }) => app.engine.get(node.id)));
    expect(first).toMatchObject({ status: "completed", createdAt: T, endedAt: T + 4_000, turns: 2, door: "import" });
    expect(first?.hash).toMatch(/^[0-9a-f]{64}$/);
    expect(first?.output).toMatchObject([
      { type: "message", role: "assistant", content: [{ text: "I look." }] },
      { type: "mcp_call", server_label: "files", name: "list", status: "completed", output: "a.txt", error: null },
      { type: "mcp_call", server_label: "files", name: "count", status: "failed", error: "no such tool" },
      { type: "message", content: [{ text: "There is a.txt." }] },
    ]);
    expect(second?.previousResponseId).toBe(first?.id);
    // The log tells the same as the items.
    const events = await collect(app.engine.watch(first?.id ?? ""));
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_event, index) => index));
    expect(events.at(-1)).toMatchObject({ type: "response.completed", status: "completed" });
    const deltas = events.flatMap((event) => (event.type === "response.output_text.delta" ? [event.delta] : []));
    expect(deltas).toEqual(["I look.", "There is a.txt."]);
    const next = await app.engine.start({
      input: "And now?",
      conversation: found?.id ?? "",
      workspace: here.workspace,
      door: "test",
    });
    expect((await app.engine.wait(next.id)).status).toBe("completed");
    const said = model.requests[0]?.history.flatMap(({ entries }) => entries.map(({ item }) => item.type));
    expect(said).toEqual(["message", "message", "mcp_call", "mcp_call", "message", "message", "message", "message"]);
  });

  test("again: nothing comes twice, and what was changed since stays", async () => {
    const here = prepare();
    const app = await openApp(here);
    await run(here, app, "old");
    await app.settings.patchSpeakmcp({ mcpMaxIterations: 44 });
    const before = here.settings();
    const again = await run(here, app, "old", { json: true });
    expect(here.settings()).toEqual(before);
    expect(again.json).toMatchObject({ conversations: 0, known: 1, settingsChanged: false });
    expect(again.json.left).toContain("speakmcp.mcpMaxIterations: there already, and stays as it is");
    expect(await app.store.conversations({ limit: 10 })).toHaveLength(1);
    expect(await app.store.list({ limit: 10 })).toHaveLength(2);
  });

  test("--dry-run writes nothing", async () => {
    const here = prepare();
    const app = await openApp(here);
    const { json, err } = await run(here, app, "old", { json: true, dryRun: true });
    expect(json).toMatchObject({ source: "SpeakMCP", dryRun: true, conversations: 1 });
    expect(err).toBe("");
    expect(existsSync(join(here.state, "settings.json"))).toBe(false);
    expect(await app.store.list({ limit: 10 })).toEqual([]);
  });
});

describe("promise 18: the old history that was appended again", () => {
  type Said = { role: string; content: string; timestamp?: number };
  const user = (content: string, timestamp: number): Said => ({ role: "user", content, timestamp });
  const assistant = (content: string, timestamp: number): Said => ({ role: "assistant", content, timestamp });

  async function imported(messages: Said[]) {
    const here = place();
    const app = await openApp(here);
    here.put("c.json", { id: "conv_x", title: "x", createdAt: T, updatedAt: T, messages });
    const { out } = await run(here, app, "c.json");
    const [found] = await app.store.conversations({ limit: 1 });
    const items = (await app.store.path(found?.head ?? "")).flatMap(({ entries }) => entries.map(({ item }) => item));
    const texts = items.map((item) => {
      const [part] = (item as MessageItem).content;
      return part && "text" in part ? part.text : "";
    });
    return { texts, out };
  }

  /** What SpeakMCP's server left on disk after these turns. */
  function asSpeakmcpWrote(turns: [question: string, answer: string][]): Said[] {
    const disk: Said[] = [];
    let now = T;
    for (const [question, answer] of turns) {
      const history = [...disk];
      now += 5_000;
      if (disk.length === 0) disk.push(user(question, now));
      for (const old of [...history, assistant(answer, 0)]) {
        if (old.role === "user" && old.content === question) continue;
        now += 3;
        disk.push({ ...old, timestamp: now });
      }
    }
    return disk;
  }

  test("ten turns are ten answers again", async () => {
    const turns = Array.from({ length: 10 }, (_, index): [string, string] => [`q${index}`, `a${index}`]);
    const disk = asSpeakmcpWrote(turns);
    expect(disk.length).toBeGreaterThan(1_000);
    const { texts, out } = await imported(disk);
    expect(texts).toEqual(["q0", ...turns.map(([, answer]) => answer)]);
    expect(out).toContain(`${disk.length - 11} messages were copies`);
  });

  test("a question that was asked before is recognised by what its copy leaves out", async () => {
    const { texts } = await imported(
      asSpeakmcpWrote([
        ["q", "a0"],
        ["q", "a1"],
      ]),
    );
    // One message is no history that could be told from an answer that was given twice.
    expect(texts).toEqual(["q", "a0", "a0", "a1"]);
    const more = await imported(
      asSpeakmcpWrote([
        ["q", "a0"],
        ["other", "a1"],
        ["q", "a2"],
      ]),
    );
    expect(more.texts.at(-1)).toBe("a2");
    expect(more.texts.filter((text) => text === "a2")).toHaveLength(1);
  });

  test("a person who says the same twice is believed", async () => {
    const twice = [
      user("hello", T),
      assistant("hi", T + 900),
      user("hello", T + 5_000),
      assistant("hi", T + 5_900),
      assistant("more", T + 6_000),
    ];
    expect((await imported(twice)).texts).toEqual(["hello", "hi", "hello", "hi", "more"]);
    const untimed = twice.map(({ role, content }) => ({ role, content }));
    expect((await imported(untimed)).texts).toHaveLength(5);
    const noAnswer = [user("a", T), assistant("b", T + 1), user("a", T + 2), assistant("b", T + 3)];
    expect((await imported(noAnswer)).texts).toHaveLength(4);
  });
});

describe("other programs", () => {
  test("P11 G18: Polybrain's models, with references kept and dollar signs meant", async () => {
    const here = place({ MY_KEY: "key-of-the-environment" });
    here.put(
      ".polybrain.yaml",
      "httpPort: 32701\ntruncateLimit: 500\nmodels:\n  - { id: a, modelName: big, baseUrl: http://127.0.0.1:9/v1, apiKey: '${MY_KEY}', provider: openrouter }\n  - { id: b, modelName: small, baseUrl: http://127.0.0.1:9/v1, apiKey: 'pa$$word$x' }\n  - { id: c, modelName: x, baseUrl: http://127.0.0.1:9/v1, apiKey: '${NOT_SET}' }\n  - { modelName: y }\n",
    );
    const app = await openApp(here, []);
    const { out } = await run(here, app, ".polybrain.yaml");
    expect(app.config.models).toMatchObject([
      { id: "a", model: "big", apiKey: "key-of-the-environment", provider: "openrouter" },
      { id: "b", model: "small", apiKey: "pa$$word$x" },
    ]);
    expect(app.config.server.port).toBe(32_701);
    expect(JSON.stringify(here.settings())).not.toContain("key-of-the-environment");
    expect(out).toContain("- model c: set NOT_SET first");
    expect(out).toContain("- model y: it has no id");
    expect(out).toContain("- truncateLimit:");
  });

  test("F15 F17: Finta's servers and confirmations", async () => {
    const here = place({ TOKEN: "token-1234567" });
    here.put("finta.yaml", {
      mcp: {
        servers: [{ name: "gh", transport: "stdio", command: "npx", args: ["$X"], env: { A: "$TOKEN", B: "${NO}" } }],
      },
      hooks: { bash_confirm: true, tool_confirm: ["write"] },
    });
    const app = await openApp(here);
    await run(here, app, "finta.yaml");
    expect(app.config.servers).toMatchObject([{ name: "gh", args: ["$X"], env: { A: "token-1234567", B: "" } }]);
    expect(app.config.permissions.ask).toEqual(["bash", "write"]);
    await run(here, app, "finta.yaml");
    expect(app.config.permissions.ask).toEqual(["bash", "write"]);
  });

  test("G18 Claude Desktop, Cursor, VS Code and notion-open-agent: a folder of their files", async () => {
    const here = place({ TOKEN: "token-1234567" });
    here.put("app/claude_desktop_config.json", { mcpServers: { files: { command: "npx", args: ["-y", "x"] } } });
    here.put("app/.cursor/mcp.json", {
      mcpServers: { docs: { url: "https://d.example.com", headers: { A: "${env:TOKEN}" } } },
    });
    here.put("app/.vscode/mcp.json", { servers: { asks: { command: "x", env: { K: "${input:key}" } } } });
    here.put("app/mcp-servers.json", { servers: { files: { command: "other" }, notion: { command: "npx" } } });
    const app = await openApp(here);
    const { out } = await run(here, app, "app");
    expect(app.config.servers.map(({ name }) => name).sort()).toEqual(["docs", "files", "notion"]);
    expect(app.config.servers.find(({ name }) => name === "docs")?.headers).toEqual({ A: "token-1234567" });
    expect(out).toContain("- MCP server asks: it asks its editor for values");
    expect(out).toMatch(/- MCP server files of .*claude_desktop_config\.json: an earlier file has one of this name/);
  });

  test("what is nothing of the kind is refused", async () => {
    const here = place();
    here.put("x.json", { a: 1 });
    here.put("empty/readme.txt", "x");
    const app = await openApp(here);
    for (const path of ["x.json", "empty", "nowhere"]) {
      await expect(run(here, app, path)).rejects.toMatchObject({ code: "usage" });
    }
  });
});
