import { afterEach, describe, expect, it } from "vitest";
import { createModelRegistry, type ModelRegistry, type ModelRegistryOptions } from "../../src/models/registry.ts";
import { createScriptedModel } from "../../src/testing/scripted-model.ts";
import { startUpstream, type Upstream } from "../../src/testing/upstream.ts";
import type { ModelConfig } from "../../src/types/config.ts";
import { ask, closeBenches, quickTimes, request } from "./helpers.ts";

const open: (ModelRegistry | Upstream)[] = [];
afterEach(async () => {
  await closeBenches();
  await Promise.all(open.splice(0).map((one) => one.close()));
});

function registry(options: Partial<ModelRegistryOptions> = {}): ModelRegistry {
  const made = createModelRegistry({
    configs: [],
    environment: {},
    probeLocal: false,
    times: quickTimes(),
    ...options,
  });
  open.push(made);
  return made;
}

async function upstream(...given: Parameters<typeof startUpstream>): Promise<Upstream> {
  const made = await startUpstream(...given);
  open.push(made);
  return made;
}

const config = (id: string, baseUrl: string, more: Partial<ModelConfig> = {}): ModelConfig => ({
  id,
  baseUrl,
  model: `${id}-model`,
  origin: "config",
  ...more,
});

describe("the default", () => {
  it("is the first configured, then the first key's, then the first local server's, then the demo", async () => {
    const server = await upstream([{ text: "local" }], { models: ["nomic-embed-text", "qwen3"] });
    const environment = { GROQ_API_KEY: "gsk-1234567", OLLAMA_HOST: new URL(server.url).host };
    const configs = [config("mine", server.url)];
    expect((await registry({ configs, environment, probeLocal: true }).get()).id).toBe("mine");
    expect((await registry({ environment, probeLocal: true }).get()).id).toBe("groq/openai/gpt-oss-120b");
    const found = await registry({ environment: { OLLAMA_HOST: environment.OLLAMA_HOST }, probeLocal: true }).get();
    expect(found.id).toBe("ollama/qwen3");
    expect((await ask(found)).text).toBe("local");
    const none = await registry({ probeLocal: true, localServers: [] }).get();
    expect(none).toMatchObject({ id: "demo", demo: true });
  });

  it("is a library's model where one was registered", async () => {
    const made = registry({ configs: [config("mine", "http://127.0.0.1:9/v1")] });
    const own = createScriptedModel(["hi"], { id: "own" });
    made.register(own);
    expect(await made.get()).toBe(own);
    expect((await made.list()).map(({ id, origin, default: first }) => [id, origin, first])).toEqual([
      ["own", "library", true],
      ["mine", "config", false],
      ["demo", "demo", false],
    ]);
  });

  it("N9 is DeepSeek at Fireworks where only that key is found", async () => {
    const made = registry({ environment: { FIREWORKS_API_KEY: "fw-1234567" } });
    expect((await made.get()).key).toBe(
      "https://api.fireworks.ai/inference/v1|accounts/fireworks/models/deepseek-v3p1",
    );
  });

  it("of a base URL without a model is the first model that the endpoint lists", async () => {
    const server = await upstream([{ text: "x" }], { models: ["house-model"] });
    const made = registry({ environment: { OPENAI_API_BASE_URL: server.url, OPENAI_API_KEY: "sk-1234567" } });
    expect((await made.get()).id).toBe("openai/house-model");
    const named = registry({ environment: { OPENAI_BASE_URL: server.url, OPENAI_MODEL: "chosen" } });
    expect((await named.get()).key).toBe(`${server.url}|chosen`);
  });
});

describe("names", () => {
  const environment = {
    OPENAI_API_KEY: "sk-1234567",
    ANTHROPIC_API_KEY: "ak-1234567",
    OPENROUTER_API_KEY: "or-1234567",
  };

  it.each([
    ["openai/gpt-4o", "https://api.openai.com/v1|gpt-4o"],
    ["gpt-4o", "https://api.openai.com/v1|gpt-4o"],
    ["claude-opus-4-1", "https://api.anthropic.com/v1|claude-opus-4-1"],
    ["anthropic/claude-opus-4-1", "https://api.anthropic.com/v1|claude-opus-4-1"],
    ["openrouter/auto", "https://openrouter.ai/api/v1|openrouter/auto"],
    ["openrouter/z-ai/glm-5", "https://openrouter.ai/api/v1|z-ai/glm-5"],
    ["z-ai/glm-5", "https://openrouter.ai/api/v1|z-ai/glm-5"],
  ])("%s means %s", async (name, key) => {
    expect((await registry({ environment }).get(name)).key).toBe(key);
  });

  it("a configured id or model name comes first, and gives the same object each time", async () => {
    const made = registry({ environment, configs: [config("fast", "http://127.0.0.1:9/v1", { model: "gpt-4o" })] });
    const fast = await made.get("fast");
    expect(fast.key).toBe("http://127.0.0.1:9/v1|gpt-4o");
    expect(await made.get("gpt-4o")).toBe(fast);
    expect(await made.get("fast")).toBe(fast);
    expect(await made.get("demo")).toBe(await made.get("demo"));
  });

  it("an unknown name is an error that lists what there is", async () => {
    const made = registry({ configs: [config("fast", "http://127.0.0.1:9/v1")], environment });
    await expect(made.get("fasst")).rejects.toMatchObject({
      code: "model_not_found",
      message: expect.stringContaining("fast, openai/"),
    });
    await expect(registry().get("anything")).rejects.toMatchObject({
      code: "model_not_found",
      remedy: expect.stringContaining("OPENAI_API_KEY"),
    });
  });
});

describe("servers on this machine", () => {
  it("only what lists models counts, and silence is not waited for", async () => {
    const server = await upstream([], { models: ["m1"] });
    const empty = await upstream([], { models: [] });
    const { createServer } = await import("node:net");
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await new Promise((resolve) => silent.once("listening", resolve));
    const localServers = [
      { name: "silent", baseUrl: `http://127.0.0.1:${(silent.address() as { port: number }).port}/v1` },
      { name: "nobody", baseUrl: "http://127.0.0.1:9/v1" },
      { name: "empty", baseUrl: empty.url },
      { name: "good", baseUrl: server.url },
    ];
    const made = registry({ probeLocal: true, localServers });
    const listed = await made.list();
    expect(listed.map(({ id, origin }) => [id, origin])).toEqual([
      ["good/m1", "local"],
      ["demo", "demo"],
    ]);
    expect((await made.get("m1")).key).toBe(`${server.url}|m1`);
    silent.close();
  });
});

describe("fallbacks", () => {
  it("S53 U11 another model answers when the first is out of reach, and its data stays its own", async () => {
    const down = await upstream([{ status: 500, body: "down" }]);
    const up = await upstream([{ text: "from the second", reasoning: "hm" }]);
    const configs = [config("first", down.url, { fallback: "second", retries: 1 }), config("second", up.url)];
    const model = await registry({ configs }).get();
    const told: string[] = [];
    const { text, finish } = await ask(model, request(undefined, { onRetry: (line) => told.push(line) }));
    expect(text).toBe("from the second");
    expect(down.requests).toHaveLength(2);
    expect(told.at(-1)).toContain('asking model "second" instead of "first"');
    expect(finish?.raw).toEqual({ from: `${up.url}|second-model`, raw: { reasoning_content: "hm" } });
    expect(model).toMatchObject({ id: "first", key: `${down.url}|first-model` });
  });

  it("is not asked once something was said, nor for what is no matter of reach", async () => {
    const cut = await upstream([{ text: "half", break: "reset" }]);
    const bad = await upstream([{ status: 400, body: "no" }]);
    const up = await upstream([{ text: "x" }]);
    const configs = [
      config("cut", cut.url, { fallback: "up" }),
      config("bad", bad.url, { fallback: "up" }),
      config("up", up.url),
    ];
    const made = registry({ configs });
    expect((await ask(await made.get("cut"))).error).toMatchObject({ code: "upstream_cut", partial: true });
    expect((await ask(await made.get("bad"))).error?.code).toBe("upstream_bad_request");
    expect(up.requests).toHaveLength(0);
  });

  it("a circle and an unknown fallback are errors before any call", async () => {
    const configs = [
      config("a", "http://127.0.0.1:9/v1", { fallback: "b" }),
      config("b", "http://127.0.0.1:9/v1", { fallback: "a" }),
      config("c", "http://127.0.0.1:9/v1", { fallback: "zzz" }),
    ];
    await expect(registry({ configs }).get("a")).rejects.toMatchObject({ code: "config_invalid" });
    await expect(registry({ configs }).get("c")).rejects.toMatchObject({ code: "model_not_found" });
  });
});

it("U4 a refused key at one model leaves the others alone", async () => {
  const locked = await upstream([{ text: "x" }], { key: "right-key-123" });
  const free = await upstream([{ text: "free" }]);
  const made = registry({
    configs: [config("locked", locked.url, { apiKey: "wrong-key-456" }), config("free", free.url)],
  });
  const { error } = await ask(await made.get("locked"));
  expect(error?.code).toBe("upstream_auth");
  expect(error?.message).not.toContain("wrong-key-456");
  expect((await ask(await made.get("free"))).text).toBe("free");
});
