/** Bodies as they go out, and what is learned from what an endpoint refuses. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { createChatCompletionsModel } from "../../src/models/chat-completions.ts";
import { RequestRenderer } from "../../src/models/chat-completions-request.ts";
import { HttpClient } from "../../src/models/http.ts";
import type { ModelConfig } from "../../src/types/config.ts";
import type { JsonObject } from "../../src/types/json.ts";
import type { ModelRequest } from "../../src/types/model.ts";
import { ask, bench, called, closeBenches, node, output, request, sentMessages, user } from "./helpers.ts";

afterEach(closeBenches);
afterEach(() => vi.restoreAllMocks());

const tools = [
  { name: "read", description: "Reads.", input: { type: "object", properties: { path: { type: "string" } } } },
];
const ok = { text: "fine" };

function body(config: Partial<ModelConfig> = {}, asked: Partial<ModelRequest> = {}, host = "example.com"): JsonObject {
  const whole: ModelConfig = { id: "m", baseUrl: `https://${host}/v1`, model: "big", origin: "config", ...config };
  return JSON.parse(new RequestRenderer(whole, "key", host).render(request(undefined, asked))) as JsonObject;
}

describe("a body", () => {
  it("is small where little was asked", () => {
    expect(body()).toEqual({
      model: "big",
      stream: true,
      stream_options: { include_usage: true },
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "hello" },
      ],
    });
  });

  it("carries tools, choice, limits, reasoning and further fields", () => {
    const config = {
      temperature: 0.2,
      maxOutputTokens: 100,
      reasoning: { enabled: true },
      body: { top_p: 0.5, messages: "no", user: "u" },
    };
    const asked = { tools, toolChoice: { name: "read" }, parallelToolCalls: false, temperature: 0.9 };
    expect(body(config, asked)).toMatchObject({
      temperature: 0.9,
      max_tokens: 100,
      reasoning: { enabled: true },
      top_p: 0.5,
      user: "u",
      tool_choice: { type: "function", function: { name: "read" } },
      parallel_tool_calls: false,
      tools: [{ type: "function", function: { name: "read", description: "Reads.", parameters: tools[0]?.input } }],
      messages: [{ role: "system" }, { role: "user" }],
    });
    expect(body({ reasoning: "high" })).toMatchObject({ reasoning_effort: "high" });
    expect(body({}, { tools, toolChoice: "none" })).toMatchObject({ tool_choice: "none" });
    expect(body({}, { tools })).not.toHaveProperty("tool_choice");
    expect(body({}, { toolChoice: "required", parallelToolCalls: false })).not.toHaveProperty("tool_choice");
  });

  it("knows what OpenAI and OpenRouter want", () => {
    expect(body({}, { maxOutputTokens: 5 }, "api.openai.com")).toMatchObject({
      max_completion_tokens: 5,
      prompt_cache_key: "resp_root",
      stream_options: { include_usage: true, include_obfuscation: false },
    });
    expect(body({}, {}, "openrouter.ai")).toMatchObject({ usage: { include: true } });
  });

  it("serialises a list of tools once", () => {
    const renderer = new RequestRenderer({ id: "m", baseUrl: "", model: "m", origin: "config" }, "k", "h");
    const asked = request(undefined, {
      tools: Array.from({ length: 50 }, (_, at) => ({ ...tools[0], name: `t${at}` }) as never),
    });
    const first = renderer.render(asked);
    const stringify = vi.spyOn(JSON, "stringify");
    expect(renderer.render(asked)).toBe(first);
    expect(stringify.mock.calls.some(([value]) => Array.isArray(value))).toBe(false);
  });
});

describe("learning", () => {
  it.each(["stream_options", "parallel_tool_calls", "temperature"])(
    "an endpoint that refuses %s is asked without it, and never again with it",
    async (field) => {
      const { model, upstream } = await bench([ok], { retries: 0 }, { refuseFields: [field] });
      const asked = request(undefined, { tools, parallelToolCalls: false, temperature: 1 });
      expect((await ask(model, asked)).text).toBe("fine");
      expect(upstream.requests).toHaveLength(2);
      expect((await ask(model, asked)).text).toBe("fine");
      expect(upstream.requests).toHaveLength(3);
    },
  );

  it("several refused fields are dropped one after the other", async () => {
    const { model, upstream } = await bench(
      [ok],
      { retries: 0 },
      { refuseFields: ["stream_options", "parallel_tool_calls", "temperature"] },
    );
    const asked = request(undefined, { tools, parallelToolCalls: false, temperature: 1 });
    expect((await ask(model, asked)).text).toBe("fine");
    expect(upstream.requests).toHaveLength(4);
  });

  it("a refusal that is not about a field is not answered by asking again", async () => {
    const { model, upstream } = await bench([
      { status: 400, body: { error: { message: "temperature must be at most 2", param: null } } },
    ]);
    await ask(model, request(undefined, { temperature: 3 }));
    expect(upstream.requests).toHaveLength(1);
  });

  it("max_tokens becomes max_completion_tokens where it is asked for, once", async () => {
    const { model, upstream } = await bench(
      ({ body: sent }) =>
        "max_tokens" in sent
          ? {
              status: 400,
              body: {
                error: {
                  message:
                    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                  param: "max_tokens",
                },
              },
            }
          : ok,
      { maxOutputTokens: 9 },
    );
    expect((await ask(model)).text).toBe("fine");
    expect(upstream.requests[1]?.body).toMatchObject({ max_completion_tokens: 9 });
    await ask(model);
    expect(upstream.requests).toHaveLength(3);
  });

  it("an endpoint that demands reasoning_content gets the neutral text, one that refuses it gets none", async () => {
    const history = (key: string) => [
      node([
        user("go"),
        output(1, {
          type: "reasoning",
          id: "rs_1",
          status: "completed",
          summary: [],
          content: [{ type: "reasoning_text", text: "thought" }],
        }),
        called(1, "read", "{}", "seen", { model: key, raw: { reasoning: "mine" }, finish: "tool_calls" }),
      ]),
    ];
    const demands = await bench(({ body: sent }) =>
      (sent.messages as JsonObject[])[2]?.reasoning_content === undefined
        ? {
            status: 400,
            body: {
              error: {
                message: "Missing `reasoning_content` field in the assistant message at message index 2",
                param: null,
              },
            },
          }
        : ok,
    );
    expect((await ask(demands.model, request(history("other")))).text).toBe("fine");
    expect(sentMessages(demands.upstream)[2]).toMatchObject({ reasoning_content: "thought" });
    const refuses = await bench(({ body: sent }) =>
      (sent.messages as JsonObject[])[2]?.reasoning === undefined
        ? ok
        : {
            status: 400,
            body: { error: { message: "'messages.2' : property 'reasoning' is unsupported", param: null } },
          },
    );
    expect((await ask(refuses.model, request(history(refuses.model.key)))).text).toBe("fine");
    expect(refuses.upstream.requests).toHaveLength(2);
  });

  it("an endpoint that wants short call ids gets them", async () => {
    const { model } = await bench(({ body: sent }) =>
      /^[A-Za-z0-9]{9}$/.test(String((sent.messages as JsonObject[])[3]?.tool_call_id))
        ? ok
        : {
            status: 400,
            body: { error: { message: "Tool call id was call_12345 but must be a-z, A-Z, 0-9, with a length of 9." } },
          },
    );
    expect(
      (await ask(model, request([node([user("go"), called(1, "read", "{}", "x", { callId: "call_12345" })])]))).text,
    ).toBe("fine");
  });
});

describe("what goes over the wire", () => {
  it("key, headers and query, and base URLs of every form", async () => {
    const { upstream } = await bench([ok]);
    const http = new HttpClient();
    const config = { id: "m", model: "m", origin: "config", apiKey: "sk-1234567890" } as const;
    const more = { headers: { "API-Key": "", "X-Team": "blue" }, query: { "api-version": "2026-01" } };
    for (const [baseUrl, extra] of [
      [upstream.url, {}],
      [`${upstream.url}/`, more],
      [`${upstream.url}/chat/completions`, { headers: { Authorization: "Token abc" } }],
    ] as const)
      expect((await ask(createChatCompletionsModel({ ...config, ...extra, baseUrl }, { http }))).text).toBe("fine");
    const [plain, azure, own] = upstream.requests;
    expect(plain?.path).toBe("/v1/chat/completions");
    expect(plain?.headers).toMatchObject({ authorization: "Bearer sk-1234567890", "content-type": "application/json" });
    expect(azure?.path).toBe("/v1/chat/completions?api-version=2026-01");
    expect(azure?.headers).toMatchObject({ "api-key": "sk-1234567890", "x-team": "blue" });
    expect(own?.headers.authorization).toBe("Token abc");
    await http.close();
  });

  it("a base URL that is none is a configuration error, and a key that no header can carry an error without the key", async () => {
    const http = new HttpClient();
    const make = (baseUrl: string, apiKey?: string) =>
      createChatCompletionsModel(
        { id: "m", baseUrl, model: "m", origin: "config", ...(apiKey ? { apiKey } : {}) },
        { http },
      );
    expect(() => make("api.example.com")).toThrow(expect.objectContaining({ code: "config_invalid" }));
    const { error } = await ask(make("http://127.0.0.1:9/v1", "sk-line\nbreak-secret"));
    expect(error?.code).toBe("upstream_auth");
    expect(error?.message).not.toContain("secret");
    await http.close();
  });

  it("the key of the model names endpoint and model", async () => {
    const { model, upstream } = await bench([ok]);
    expect(model.key).toBe(`${upstream.url}|test-model`);
  });
});
