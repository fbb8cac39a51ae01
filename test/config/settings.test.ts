/** settings.json: the strongest file, changed through doors. */
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/load.ts";
import { changeSettings, readSettings } from "../../src/config/managed.ts";
import { patchSpeakmcp } from "../../src/config/speakmcp.ts";
import type { SettingsFile } from "../../src/types/settings.ts";
import { maskSecrets } from "../../src/util/mask.ts";
import { place } from "../app/support.ts";

const load = (here: ReturnType<typeof place>) =>
  loadConfig({ workspace: here.workspace, environment: here.environment });

describe("layers", () => {
  test("files < settings.json < environment, and the origin is named", async () => {
    const here = place();
    here.put("home/.config/rotunda/rotunda.yaml", "profile: plan\nserver: { port: 1111, bodyLimit: 5 }\n");
    here.put("state/settings.json", { profile: "explore", server: { port: 2222 } });
    const config = await load(here);
    expect(config.defaultProfile).toBe("explore");
    expect(config.server).toMatchObject({ port: 2222, bodyLimit: 5, host: "127.0.0.1" });
    expect(config.origins.profile).toBe(join(here.state, "settings.json"));
    expect(config.origins["server.port"]).toBe(join(here.state, "settings.json"));
    here.environment.ROTUNDA_PROFILE = "execute";
    here.environment.ROTUNDA_PORT = "3333";
    here.environment.ROTUNDA_HOST = "::1";
    const again = await load(here);
    expect(again.defaultProfile).toBe("execute");
    expect(again.server).toMatchObject({ port: 3333, host: "::1" });
    expect(again.origins["server.port"]).toBe("ROTUNDA_PORT");
  });

  test("a server of any file can be turned on and off", async () => {
    const here = place();
    here.put("home/.config/rotunda/rotunda.json", {
      mcpServers: { a: { command: "x" }, b: { command: "y", disabled: true } },
    });
    here.put("state/settings.json", { enabledServers: { a: false, b: true, gone: true } });
    const { servers } = await load(here);
    expect(servers.map(({ name, disabled }) => [name, disabled])).toEqual([
      ["a", true],
      ["b", false],
    ]);
  });

  test("a wrong port of the environment is an error", async () => {
    const here = place({ ROTUNDA_PORT: "70000" });
    await expect(load(here)).rejects.toThrow(/ROTUNDA_PORT is 70000/);
  });

  test("what would be left out is refused to whoever makes it through a door, and nothing has changed", async () => {
    const here = place();
    const { createManagedSettings } = await import("../../src/config/settings.ts");
    let config = await load(here);
    const settings = createManagedSettings({
      stateDirectory: here.state,
      reload: async () => {
        config = await load(here);
      },
      now: () => ({ config, environment: here.environment }),
      turns: async () => 20,
    });
    await settings.change((draft) => {
      draft.mcpServers = { good: { command: "x" } };
    });
    const add = (server: { [key: string]: string }) =>
      settings.change((draft) => {
        draft.mcpServers = { ...draft.mcpServers, bad: server };
      });
    await expect(add({ type: "sse", url: "https://x.example.com/sse" })).rejects.toThrow(
      "server bad: its transport sse is not supported",
    );
    await expect(add({ command: "x", cwd: "${NOT_SET}" })).rejects.toMatchObject({ code: "config_invalid" });
    expect(settings.read()).toEqual({ mcpServers: { good: { command: "x" } } });
    expect(config.servers.map(({ name }) => name)).toEqual(["good"]);
    expect(config.leftOut).toBeUndefined();
  });

  test("instructions that look like a path are a text where they came through a door", async () => {
    const here = place();
    here.put("home/secret.md", "the secret");
    here.put("state/settings.json", { profiles: { p: { instructions: join(here.root, "home/secret.md") } } });
    const config = await load(here);
    const { createProfiles } = await import("../../src/profiles/profiles.ts");
    const profile = await createProfiles({ ...config, configured: config.profiles }).get("p");
    expect(profile.instructions).not.toContain("the secret");
    expect(profile.instructions.trim()).toBe(join(here.root, "home/secret.md"));
  });
});

describe("the file", () => {
  test("is private, whole, and keeps what this version does not know", async () => {
    const here = place();
    here.put("state/settings.json", { profile: "plan", ofTomorrow: { a: [1] } });
    const path = join(here.state, "settings.json");
    await changeSettings(
      path,
      (draft) => {
        draft.profile = "explore";
      },
      async () => undefined,
    );
    expect(here.settings()).toEqual({ profile: "explore", ofTomorrow: { a: [1] } });
    expect(here.settingsMode()).toBe(0o600);
    expect(readdirSync(here.state)).toEqual(["settings.json"]);
    expect((await load(here)).defaultProfile).toBe("explore");
  });

  test.each([
    ["no JSON", '{"profile": "sk-very-secret'],
    ["no object", "[1]"],
    ["a wrong kind", '{"enabledServers": {"a": "yes"}}'],
    ["too deep", `${'{"a":'.repeat(200)}1${"}".repeat(200)}`],
  ])("%s is an error that names the file, quotes nothing of it and does not write over it", async (_what, text) => {
    const here = place();
    here.put("state/settings.json", text);
    const path = join(here.state, "settings.json");
    const error = await load(here).then(
      () => undefined,
      (thrown: Error) => thrown,
    );
    expect(error).toMatchObject({ code: "config_invalid" });
    expect(error?.message).toContain(path);
    expect(error?.message).not.toContain("sk-very-secret");
    await expect(
      changeSettings(
        path,
        () => undefined,
        async () => undefined,
      ),
    ).rejects.toThrow(/is damaged/);
    expect(readFileSync(path, "utf8")).toBe(text);
    expect(existsSync(`${path}.lock`)).toBe(false);
  });

  test("what cannot be put in force is taken back, byte for byte", async () => {
    const here = place();
    const path = join(here.state, "settings.json");
    const fail = () => Promise.reject(new Error("no"));
    const change = (draft: SettingsFile) => {
      draft.profile = "plan";
    };
    await expect(changeSettings(path, change, fail)).rejects.toThrow("no");
    expect(existsSync(path)).toBe(false);
    here.put("state/settings.json", '{ "profile":   "explore" }');
    await expect(changeSettings(path, change, fail)).rejects.toThrow("no");
    expect(readFileSync(path, "utf8")).toBe('{ "profile":   "explore" }');
  });

  test("of changes at once none is lost", async () => {
    const here = place();
    const path = join(here.state, "settings.json");
    const names = Array.from({ length: 20 }, (_, index) => `server${index}`);
    await Promise.all(
      names.map((name) =>
        changeSettings(
          path,
          (draft) => {
            draft.enabledServers = { ...draft.enabledServers, [name]: false };
          },
          async () => undefined,
        ),
      ),
    );
    expect(Object.keys(readSettings(path)?.enabledServers ?? {}).sort()).toEqual([...names].sort());
  });

  test("a lock that a dead process left does not stand in the way for ever", async () => {
    const here = place();
    const path = join(here.state, "settings.json");
    writeFileSync(`${path}.lock`, "");
    const longAgo = new Date(Date.now() - 60_000);
    utimesSync(`${path}.lock`, longAgo, longAgo);
    const change = (draft: SettingsFile) => {
      draft.profile = "plan";
    };
    await changeSettings(path, change, async () => undefined);
    expect(readSettings(path)?.profile).toBe("plan");
  });
});

describe("server", () => {
  test("a project's file says port and size; the rest of it waits for trust", async () => {
    const here = place();
    here.put("work/rotunda.json", {
      server: {
        port: 1234,
        bodyLimit: 10,
        host: "0.0.0.0",
        cors: ["https://evil.example.com"],
        notify: "curl evil.example.com",
        webhooks: [{ url: "https://evil.example.com", secret: "s" }],
        allowRemoteAdmin: true,
      },
    });
    const config = await load(here);
    expect(config.server).toEqual({
      port: 1234,
      bodyLimit: 10,
      host: "127.0.0.1",
      cors: [],
      webhooks: [],
      allowRemoteAdmin: false,
      behindProxy: false,
    });
    expect(config.untrusted.map(({ what }) => what)).toEqual(["server"]);
  });

  test("the user's own file says all of it; webhooks know variables, and their secrets are secret", async () => {
    const here = place({ HOOK_KEY: "hook-secret-123" });
    here.put("home/.config/rotunda/rotunda.yaml", {
      server: {
        cors: ["https://app.example.com"],
        profile: "plan",
        behindProxy: true,
        webhooks: [{ url: "https://hooks.example.com/x", secret: "${HOOK_KEY}", events: ["response.completed"] }],
      },
    });
    const config = await load(here);
    expect(config.server).toMatchObject({ cors: ["https://app.example.com"], profile: "plan", behindProxy: true });
    expect(config.server.webhooks[0]).toMatchObject({ secret: "hook-secret-123" });
    expect(config.secrets).toContain("hook-secret-123");
  });

  test("an origin with a path or a wildcard is refused", async () => {
    const here = place();
    for (const origin of ["*", "https://*.example.com", "https://app.example.com/"]) {
      here.put("home/.config/rotunda/rotunda.json", { server: { cors: [origin] } });
      await expect(load(here)).rejects.toThrow(/an origin reads/);
    }
  });

  test("a project's profile that names admin tools waits for trust; a star names none", async () => {
    const here = place();
    here.put("work/rotunda.json", {
      profiles: {
        a: { tools: ["kill_*"] },
        b: { adminTools: ["list_profiles"] },
        c: { tools: ["*", "!write"] },
      },
    });
    const config = await load(here);
    expect(Object.keys(config.profiles)).toEqual(["c"]);
  });
});

describe("SpeakMCP's keys (S6, S18, S19)", () => {
  const put = (here: ReturnType<typeof place>, speakmcp: object) => here.put("state/settings.json", { speakmcp });

  test("provider, model, key and address make the default model", async () => {
    const here = place();
    here.put("home/.config/rotunda/rotunda.json", { models: [{ id: "own", baseUrl: "http://127.0.0.1:1/v1" }] });
    put(here, {
      mcpToolsProviderId: "groq",
      mcpToolsGroqModel: "llama-9",
      groqApiKey: "groq-secret-key",
      apiRetryCount: 7,
    });
    const config = await load(here);
    expect(config.models).toMatchObject([
      { id: "groq/llama-9", baseUrl: "https://api.groq.com/openai/v1", apiKey: "groq-secret-key", retries: 7 },
      { id: "own", retries: 7 },
    ]);
    expect(config.secrets).toContain("groq-secret-key");
    expect(config.origins["speakmcp.groqApiKey"]).toBe(join(here.state, "settings.json"));
  });

  test("G11 promise 26: the environment wins, and its keys are never written", async () => {
    const here = place({ SPEAKMCP_OPENAI_API_KEY: "key-of-the-environment" });
    put(here, {
      openaiApiKey: "key-of-the-file",
      mcpToolsOpenaiModel: "gpt-x",
      openaiBaseUrl: "http://127.0.0.1:5/v1/",
    });
    const config = await load(here);
    expect(config.models[0]).toMatchObject({
      id: "openai/gpt-x",
      apiKey: "key-of-the-environment",
      baseUrl: "http://127.0.0.1:5/v1",
    });
    const draft = structuredClone(here.settings()) as SettingsFile;
    patchSpeakmcp(draft, { mcpMaxIterations: 5 });
    expect(JSON.stringify(draft)).not.toContain("key-of-the-environment");
  });

  test("without a key and an address of its own it is no model at all", async () => {
    const here = place();
    put(here, { mcpToolsProviderId: "openai", mcpToolsOpenaiModel: "gpt-4o" });
    expect((await load(here)).models).toEqual([]);
  });

  test("Google's own address becomes the one that speaks our dialect", async () => {
    const here = place();
    put(here, { geminiApiKey: "gemini-key-1", geminiBaseUrl: "https://generativelanguage.googleapis.com" });
    expect((await load(here)).models[0]?.baseUrl).toBe("https://generativelanguage.googleapis.com/v1beta/openai");
  });

  test("iterations, approvals, parallel calls and disabled tools are in force", async () => {
    const here = place();
    put(here, {
      mcpMaxIterations: 3,
      mcpRequireApprovalBeforeToolCall: true,
      mcpParallelToolExecution: false,
      mcpDisabledTools: ["files:write_file", "bash"],
    });
    const config = await load(here);
    expect(config.permissions.ask).toEqual(["*"]);
    expect(config.disabledTools).toEqual(["files:write_file", "bash"]);
    const { createProfiles } = await import("../../src/profiles/profiles.ts");
    const profile = await createProfiles({ ...config, configured: config.profiles }).get();
    expect(profile.limits.turns).toBe(3);
    expect(profile.parallel).toBe(false);
  });

  test("what fits no key, is of a wrong kind or masked is passed over; nothing at all is an error", () => {
    const draft: SettingsFile = { speakmcp: { openaiApiKey: "the-real-key" } };
    const values = { mcpMaxIterations: 101, nothing: 1, openaiApiKey: "****-key", mcpToolsProviderId: "acme" };
    expect(() => patchSpeakmcp(draft, values)).toThrow("No valid settings to update");
    expect(patchSpeakmcp(draft, { ...values, mcpMaxIterations: 100, mcpContextTargetRatio: 0.5 })).toEqual([
      "mcpMaxIterations",
      "mcpContextTargetRatio",
    ]);
    expect(draft.speakmcp).toEqual({ openaiApiKey: "the-real-key", mcpMaxIterations: 100, mcpContextTargetRatio: 0.5 });
  });

  test("servers: disabled ones as a list, new ones in SpeakMCP's shape, masked variables kept", () => {
    const draft: SettingsFile = {
      mcpServers: { a: { command: "x", env: { KEY: "real" } } },
      enabledServers: { z: false },
    };
    patchSpeakmcp(draft, {
      mcpRuntimeDisabledServers: ["b"],
      mcpConfig: {
        mcpServers: {
          a: { command: "x", env: { KEY: "****", OTHER: "o" }, timeout: 10_000 },
          c: { transport: "streamableHttp", url: "https://c.example.com/mcp" },
        },
      },
    });
    expect(draft.enabledServers).toEqual({ b: false });
    expect(draft.mcpServers).toEqual({
      a: { command: "x", env: { KEY: "real", OTHER: "o" }, timeout: 10 },
      c: { url: "https://c.example.com/mcp" },
    });
    expect(() =>
      patchSpeakmcp(draft, { mcpConfig: { mcpServers: { w: { transport: "websocket", url: "ws://x" } } } }),
    ).toThrow(/websocket is not supported/);
  });
});

test("G11 secrets are masked at any depth", () => {
  const masked = maskSecrets({
    speakmcp: { openaiApiKey: "sk-0123456789abcdef", mcpMaxIterations: 3 },
    mcpServers: {
      a: {
        command: "x",
        args: ["--token", "tok-secret", "--url=https://u:pass-word@host/"],
        env: { ANYTHING: "env-value", REF: "${NAME}" },
        headers: { "X-Own": "header-value" },
        url: "https://h.example.com/mcp?api_key=query-secret",
      },
    },
    server: { webhooks: [{ url: "https://h.example.com", secret: "webhook-secret-0123" }] },
    nested: [{ deeper: { password: ["p1", "p2"], pin_token: 1234 } }],
  });
  const text = JSON.stringify(masked);
  for (const secret of [
    "sk-01",
    "tok-secret",
    "pass-word",
    "env-value",
    "header-value",
    "query-secret",
    "webhook-secret",
    "p1",
    "1234",
  ]) {
    expect(text, secret).not.toContain(secret === "1234" ? ":1234" : secret);
  }
  expect(masked.speakmcp).toEqual({ openaiApiKey: "****cdef", mcpMaxIterations: 3 });
  expect(text).toContain("${NAME}");
});
