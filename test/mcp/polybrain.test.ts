/** What Polybrain's users have: its files and variables, its HTTP contract, its promises. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { loadConfig } from "../../src/config/load.ts";
import { startUpstream } from "../../src/testing/upstream.ts";
import { type Server, startServer } from "../http/process.ts";
import { later, temporaryFolder } from "../support.ts";
import { call, connectHttp } from "./support.ts";

const FILE = `httpPort: 32701
truncateLimit: 20
models:
  - id: fast
    modelName: gpt-fast
    baseUrl: https://one.example/v1
    apiKey: \${THE_KEY}
  - id: deep
    modelName: vendor/deep
    baseUrl: https://two.example/v1
    apiKey: pa$$word
    provider: openrouter
`;

function load(files: Record<string, string>, variables: NodeJS.ProcessEnv = {}) {
  const root = temporaryFolder();
  const workspace = join(root, "work");
  mkdirSync(workspace);
  for (const [path, text] of Object.entries(files)) writeFileSync(join(root, path), text);
  const environment: NodeJS.ProcessEnv = {
    HOME: root,
    ROTUNDA_HOME: join(root, "state"),
    THE_KEY: "sk-from-variable",
    ...variables,
  };
  if (environment.POLYBRAIN_CONFIG_PATH)
    environment.POLYBRAIN_CONFIG_PATH = join(root, environment.POLYBRAIN_CONFIG_PATH);
  return loadConfig({ workspace, environment });
}

describe("Polybrain's configuration", () => {
  test("P11: the file in the home directory is read unchanged", async () => {
    const { models, server, compaction } = await load({ ".polybrain.yaml": FILE });
    expect(compaction).toEqual({ strategy: "first-last", at: 0.8, keep: 0.25, messages: 20 });
    expect(models).toMatchObject([
      {
        id: "fast",
        model: "gpt-fast",
        baseUrl: "https://one.example/v1",
        apiKey: "sk-from-variable",
        provider: "openai",
      },
      { id: "deep", model: "vendor/deep", apiKey: "pa$$word", provider: "openrouter" },
    ]);
    expect(server.port).toBe(32_701);
  });

  test("P7 P12: the variable wins over Polybrain's file, our own file over both", async () => {
    const variables = { POLYBRAIN_TRUNCATE_LIMIT: "30" };
    const theirs = await load({ ".polybrain.yaml": FILE }, variables);
    expect(theirs.compaction).toMatchObject({ strategy: "first-last", messages: 30 });
    const ours = { ".polybrain.yaml": FILE, "work/rotunda.yaml": "compaction: { strategy: summary, at: 0.7 }" };
    expect((await load(ours, variables)).compaction).toMatchObject({ strategy: "summary", at: 0.7 });
    await expect(load({}, { POLYBRAIN_TRUNCATE_LIMIT: "many" })).rejects.toMatchObject({ code: "config_invalid" });
    expect((await load({})).compaction).toBeUndefined();
  });

  test("P11: POLYBRAIN_CONFIG_PATH comes first, and then nothing else of its kind is read", async () => {
    const other = "models: [{ id: other, modelName: m, baseUrl: https://three.example/v1 }]";
    const { models } = await load(
      { ".polybrain.yaml": FILE, "other.yaml": other },
      { POLYBRAIN_CONFIG_PATH: "other.yaml" },
    );
    expect(models.map(({ id }) => id)).toEqual(["other"]);
  });

  test("P11: a file of the project waits to be trusted", async () => {
    const { models, untrusted } = await load({ "work/.polybrain.yaml": FILE });
    expect(models).toEqual([]);
    expect(untrusted.length).toBeGreaterThan(0);
  });

  test("P12: three variables name the default model, and the port has one too", async () => {
    const variables = {
      POLYBRAIN_BASE_URL: "https://four.example/v1",
      POLYBRAIN_API_KEY: "sk-four",
      POLYBRAIN_MODEL_NAME: "four",
      POLYBRAIN_HTTP_PORT: "4444",
    };
    const { models, server } = await load({ ".polybrain.yaml": FILE }, variables);
    expect(models.map(({ id }) => id)).toEqual(["four", "fast", "deep"]);
    expect(server.port).toBe(4_444);
  });

  test.each([
    ["models: [{ modelName: m, baseUrl: https://x.example }]", "Model must have 'id' field"],
    ["models: [{ id: m, modelName: m }]", "Model must have 'baseUrl' field"],
    [
      "models: [{ id: m, modelName: m, baseUrl: https://x.example, provider: x }]",
      "Invalid provider 'x'. Must be 'openai' or 'openrouter'",
    ],
  ])("P13: what is wrong is said: %s", async (text, message) => {
    await expect(load({ ".polybrain.yaml": text })).rejects.toThrow(message);
  });

  test("P13 a model whose variable is not set is left out, and it says so; the others answer", async () => {
    const text = `models:
  - { id: m, modelName: m, baseUrl: https://x.example, apiKey: '\${NOT_SET_AT_ALL}' }
  - { id: n, modelName: n, baseUrl: https://y.example }
`;
    const { models, warnings, leftOut } = await load({ ".polybrain.yaml": text });
    expect(models.map(({ id }) => id)).toEqual(["n"]);
    expect(warnings.join()).toContain("model m is left out: the variable NOT_SET_AT_ALL");
    // What was meant for it goes to no other.
    expect(leftOut).toMatchObject([{ kind: "model", name: "m", isDefault: true }]);
  });
});

const echo = ({ body }: { body: unknown }) => ({ text: `heard ${(body as { messages: unknown[] }).messages.length}` });

async function serving(answer: Parameters<typeof startUpstream>[0] = echo) {
  const upstream = await startUpstream(answer);
  later(() => upstream.close());
  return { server: await startServer(temporaryFolder(), upstream.url), upstream };
}

function post({ url, token }: Server, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...headers,
    },
    body: typeof body === "string" ? body : JSON.stringify({ jsonrpc: "2.0", ...(body as object) }),
  });
}

const clientInfo = { name: "raw", version: "1" };
const initialize = {
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo },
};
const ask = (id: number) => ({ id, method: "tools/call", params: { name: "chat", arguments: { message: `m${id}` } } });

describe("the HTTP contract", () => {
  test("P9: JSON answers, no session, calls without a handshake, and clear refusals", async () => {
    const { server } = await serving();
    const begun = await post(server, initialize);
    expect(begun.headers.get("content-type")).toContain("application/json");
    expect(begun.headers.get("mcp-session-id")).toBeNull();
    expect(await begun.json()).toMatchObject({
      result: { protocolVersion: "2025-06-18", serverInfo: { name: "rotunda" } },
    });
    expect((await post(server, { method: "notifications/initialized" })).status).toBe(202);
    const answered = await post(server, ask(2));
    expect(answered.headers.get("content-type")).toContain("application/json");
    const { result } = (await answered.json()) as { result: { content: { text: string }[] } };
    expect(JSON.parse(result.content[0]?.text ?? "")).toMatchObject({ modelId: "test-model", response: "heard 1" });
    for (const method of ["GET", "DELETE"]) {
      const refused = await fetch(`${server.url}/mcp`, {
        method,
        headers: { authorization: `Bearer ${server.token}` },
      });
      expect(refused.status).toBe(405);
      expect(await refused.json()).toMatchObject({ jsonrpc: "2.0", error: { code: -32_000 } });
    }
    for (const accept of ["application/json", "text/html"]) {
      const refused = await post(server, ask(3), { accept });
      expect(refused.status).toBe(406);
      expect(await refused.json()).toMatchObject({ error: { code: -32_000 } });
    }
    const bad = await post(server, "{");
    expect(bad.status).toBe(400);
    expect(await bad.json()).toMatchObject({ jsonrpc: "2.0", error: { code: -32_700 } });
    expect(await (await fetch(`${server.url}/health`)).json()).toMatchObject({ status: "ok" });
    expect((await post(server, initialize, { origin: "https://evil.example" })).status).toBe(403);
    expect((await post(server, initialize, { authorization: "Bearer wrong" })).status).toBe(401);
    expect((await post(server, initialize, { "content-type": "text/plain" })).status).toBe(415);
  });

  test.each([
    ["2024-11-05", "2024-11-05"],
    ["2025-03-26", "2025-03-26"],
    ["2025-06-18", "2025-06-18"],
    ["2025-11-25", "2025-11-25"],
    ["1999-01-01", "2025-11-25"],
  ])("a client of %s gets %s", async (asked, given) => {
    const { server } = await serving();
    const params = { ...initialize.params, protocolVersion: asked };
    expect(await (await post(server, { ...initialize, params })).json()).toMatchObject({
      result: { protocolVersion: given },
    });
  });

  test("P5 B4 G12: ids are long and never collide; P7 B5 G14: a message of 2 MB passes", async () => {
    const { server } = await serving();
    const client = await connectHttp(server.url, { token: server.token });
    const said = await call(client, "chat", { message: "x".repeat(2_000_000) });
    expect(said.isError).toBe(false);
    expect(JSON.parse(said.text).conversationId).toMatch(/^conv_\w{20,}$/);
  });

  test.each([16, 256])("B1 G9: %i clients at once are all served, while one model hangs", async (count) => {
    const { server } = await serving(async ({ body }) => {
      if (JSON.stringify(body).includes("hang")) await new Promise((resolve) => setTimeout(resolve, 600_000).unref());
      return echo({ body });
    });
    const hanging = await connectHttp(server.url, { era: "legacy", token: server.token });
    call(hanging, "ask", { prompt: "hang" }).catch(() => undefined);
    const answers = await Promise.all(Array.from({ length: count }, (_, index) => post(server, ask(index + 10))));
    expect(answers.map(({ status }) => status)).toEqual(Array(count).fill(200));
    const ids = await Promise.all(
      answers.map(async (one) => ((await one.json()) as { id: number; result: unknown }).id),
    );
    expect(ids).toEqual(Array.from({ length: count }, (_, index) => index + 10));
    expect((await post(server, { id: 1, method: "tools/list" })).status).toBe(200);
  });

  test("B6: when the model fails, the next message does not follow a stray one", async () => {
    let fails = true;
    const { server, upstream } = await serving(({ body }) => {
      if (fails) return { status: 400, body: { error: { message: "no" } } };
      return echo({ body });
    });
    const client = await connectHttp(server.url, { token: server.token });
    fails = false;
    const first = JSON.parse((await call(client, "chat", { message: "one" })).text);
    fails = true;
    expect((await call(client, "chat", { message: "two", conversationId: first.conversationId })).isError).toBe(true);
    fails = false;
    await call(client, "chat", { message: "three", conversationId: first.conversationId });
    const { messages } = (upstream.requests.at(-1)?.body ?? {}) as { messages: { role: string; content: string }[] };
    expect(messages.map(({ role, content }) => [role, content])).toEqual([
      ["user", "one"],
      ["assistant", "heard 1"],
      ["user", "three"],
    ]);
  });

  test("P8: reasoning is asked for in the endpoint's way, and returned", async () => {
    const upstream = await startUpstream(() => ({ reasoning: "hm", text: "so" }));
    later(() => upstream.close());
    const model = { id: "thinker", baseUrl: upstream.url, apiKey: "sk-x0123456789", provider: "openai" };
    const server = await startServer(temporaryFolder(), upstream.url, { models: [model] });
    const client = await connectHttp(server.url, { token: server.token });
    const said = JSON.parse((await call(client, "chat", { message: "why", reasoning: true })).text);
    expect(said).toMatchObject({ response: "so", reasoning: "hm", modelId: "thinker" });
    expect(upstream.requests[0]?.body).toMatchObject({ reasoning: { enabled: true } });
  });

  test("C11 C12: the bridge's later names, where they are asked for", async () => {
    const upstream = await startUpstream(echo);
    later(() => upstream.close());
    const server = await startServer(temporaryFolder(), upstream.url, { mcp: { oldNames: true } });
    const client = await connectHttp(server.url, { token: server.token });
    const started = await call(client, "start", { message: "one" });
    const taskId = /task ID: (\S+)/.exec(started.text)?.[1] ?? "";
    expect((await call(client, "ask_wait", { taskId })).text).toMatch(/^heard 2\n/);
    expect((await call(client, "status", { taskId })).text).toContain("Status: completed");
    expect((await call(client, "query", { prompt: "two", sessionId: taskId })).text).toMatch(/^heard 4\n/);
  });
});
