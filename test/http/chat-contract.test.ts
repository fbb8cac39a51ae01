/** Chat completions by the letter of the public reference: chunks, legacy functions, tool choices, refusals. */
import { describe, expect, test } from "vitest";
import { errorBody } from "../fixtures/open-responses/contract.ts";
import { eventsOf, serve } from "./served.ts";

const model = "test-model";
const messages = [{ role: "user", content: "Weather in Rome?" }];
const weather = { name: "weather", description: "The weather", parameters: { type: "object", properties: {} } };
const call = { id: "call_1", name: "weather", arguments: ['{"ci', 'ty":"Rome"}'] };

interface Chunk {
  id: string;
  object: string;
  usage?: unknown;
  choices: { index: number; delta: Record<string, unknown>; finish_reason: string | null }[];
}

async function chunksOf(answer: Response): Promise<Chunk[]> {
  const events = await eventsOf(answer);
  expect(events.pop()).toEqual({ event: undefined, data: "[DONE]" });
  expect(events.every((event) => event.event === undefined)).toBe(true);
  return events.map((event) => event.data as Chunk);
}

describe("what would change the answer and cannot be done is a 400 that names it", () => {
  test.each([
    ["n", { n: 2 }],
    ["logprobs", { logprobs: true }],
    ["top_logprobs", { top_logprobs: 2 }],
    ["modalities", { modalities: ["text", "audio"], audio: { voice: "alloy", format: "wav" } }],
    ["logit_bias", { logit_bias: { "50256": -100 } }],
    ["moderation", { moderation: { model: "omni-moderation-latest" } }],
    ["metadata", { metadata: Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`k${at}`, "v"])) }],
    ["response_format.type", { response_format: { type: "xml" } }],
    ["tool_choice", { tool_choice: { type: "function", function: { name: "nobody" } } }],
    ["tool_choice", { tool_choice: "sometimes" }],
    ["tools", { tools: [1, 2].map(() => ({ type: "function", function: weather })) }],
    [
      "messages[0].content[0].type",
      { messages: [{ role: "user", content: [{ type: "input_audio", input_audio: {} }] }] },
    ],
    [
      "messages[0].content[0].file.file_data",
      { messages: [{ role: "user", content: [{ type: "file", file: { file_id: "f" } }] }] },
    ],
  ])("%s", async (param, more) => {
    const served = await serve([{ text: "x" }]);
    for (const stream of [false, true]) {
      const answer = await served.fetch("/v1/chat/completions", { json: { model, messages, stream, ...more } });
      expect(answer.status).toBe(400);
      expect(errorBody.parse(await answer.json()).error).toMatchObject({ type: "invalid_request_error", param });
    }
    expect(served.upstream.requests).toEqual([]);
  });

  test("what asks for nothing else than there is, and hints, are let pass", async () => {
    const served = await serve([{ text: "x" }]);
    const hints = {
      n: 1,
      logprobs: false,
      top_logprobs: 0,
      modalities: ["text"],
      logit_bias: {},
      service_tier: "flex",
      verbosity: "low",
      prediction: { type: "content", content: "x" },
      prompt_cache_key: "k",
      safety_identifier: "s",
    };
    const answer = await served.fetch("/v1/chat/completions", { json: { model, messages, ...hints } });
    expect(answer.status).toBe(200);
  });
});

describe("chunks", () => {
  test("G6 the role first, indexes of calls, one finish_reason, usage in a chunk without choices", async () => {
    const served = await serve([
      { reasoning: "hm", text: "Both.", calls: [call, { ...call, id: "call_2" }], interleave: true },
    ]);
    const tools = [{ type: "function", function: weather }];
    const json = { model, messages, tools, stream: true, stream_options: { include_usage: true } };
    const chunks = await chunksOf(await served.fetch("/v1/chat/completions", { json }));
    expect(new Set(chunks.map((chunk) => `${chunk.object} ${chunk.id}`)).size).toBe(1);
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: "assistant", content: "", refusal: null });
    const usage = chunks.pop();
    expect(usage).toMatchObject({ choices: [], usage: { total_tokens: 15 } });
    expect(chunks.every((chunk) => chunk.usage === null)).toBe(true);
    expect(chunks.filter((chunk) => chunk.choices[0]?.finish_reason !== null)).toEqual([chunks.at(-1)]);
    expect(chunks.at(-1)?.choices[0]).toMatchObject({ delta: {}, finish_reason: "tool_calls" });
    const made = new Map<number, { id?: string; text: string }>();
    for (const chunk of chunks) {
      const parts = (chunk.choices[0]?.delta.tool_calls ?? []) as {
        index: number;
        id?: string;
        type?: string;
        function: { name?: string; arguments: string };
      }[];
      for (const part of parts) {
        const known = made.get(part.index);
        if (!known) expect(part).toMatchObject({ type: "function", function: { name: "weather", arguments: "" } });
        made.set(part.index, {
          ...(part.id && { id: part.id }),
          ...known,
          text: (known?.text ?? "") + part.function.arguments,
        });
      }
    }
    expect([...made]).toEqual([
      [0, { id: "call_1", text: '{"city":"Rome"}' }],
      [1, { id: "call_2", text: '{"city":"Rome"}' }],
    ]);
  });

  test("a refusal comes as one, whole and streamed", async () => {
    const served = await serve([{ refusal: "I will not." }]);
    const whole = await served.fetch("/v1/chat/completions", { json: { model, messages } });
    expect(await whole.json()).toMatchObject({
      choices: [{ message: { refusal: "I will not." }, finish_reason: "stop" }],
    });
    const chunks = await chunksOf(
      await served.fetch("/v1/chat/completions", { json: { model, messages, stream: true } }),
    );
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.refusal ?? "").join("")).toBe("I will not.");
  });
});

describe("legacy functions", () => {
  const functions = [weather];

  test("asked in the old words, answered in them, and a result goes back by its name", async () => {
    const served = await serve([{ calls: [call] }, { text: "Sunny." }]);
    const json = { model, messages, functions, function_call: { name: "weather" } };
    const first = (await (await served.fetch("/v1/chat/completions", { json })).json()) as {
      choices: { message: { tool_calls?: unknown }; finish_reason: string }[];
    };
    expect(served.upstream.requests[0]?.body).toMatchObject({ tool_choice: { function: { name: "weather" } } });
    const [choice] = first.choices;
    expect(choice).toMatchObject({
      finish_reason: "function_call",
      message: { content: null, function_call: { name: "weather", arguments: '{"city":"Rome"}' } },
    });
    expect(choice?.message.tool_calls).toBeUndefined();
    const result = { role: "function", name: "weather", content: "sun" };
    const again = { model, functions, messages: [...messages, choice?.message, result] };
    const second = await served.fetch("/v1/chat/completions", { json: again });
    expect(await second.json()).toMatchObject({ choices: [{ message: { content: "Sunny." }, finish_reason: "stop" }] });
    const told = served.upstream.requests[1]?.body.messages as { role: string }[];
    expect(told.slice(1).map((one) => one.role)).toEqual(["user", "assistant", "tool"]);
    expect(served.upstream.refusals).toEqual([]);
  });

  test("streamed: one call in function_call", async () => {
    const served = await serve([{ calls: [call, { ...call, id: "call_2" }] }]);
    const json = { model, messages, functions, stream: true };
    const chunks = await chunksOf(await served.fetch("/v1/chat/completions", { json }));
    const parts = chunks.flatMap((chunk) => (chunk.choices[0]?.delta.function_call ?? []) as { arguments: string }[]);
    expect(parts[0]).toEqual({ name: "weather", arguments: "" });
    expect(parts.map((part) => part.arguments).join("")).toBe('{"city":"Rome"}');
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe("function_call");
  });

  test("function_call none offers nothing", async () => {
    const served = await serve([{ text: "x" }]);
    await served.fetch("/v1/chat/completions", { json: { model, messages, functions, function_call: "none" } });
    expect(served.upstream.requests[0]?.body.tools).toBeUndefined();
  });
});

test("allowed_tools in the form of chat completions", async () => {
  const served = await serve([{ text: "x" }]);
  const tools = ["weather", "other"].map((name) => ({ type: "function", function: { ...weather, name } }));
  const allowed_tools = { mode: "required", tools: [{ type: "function", function: { name: "other" } }] };
  const tool_choice = { type: "allowed_tools", allowed_tools };
  const answer = await served.fetch("/v1/chat/completions", { json: { model, messages, tools, tool_choice } });
  expect(answer.status).toBe(200);
  const body = served.upstream.requests[0]?.body as { tools: { function: { name: string } }[]; tool_choice: string };
  expect(body.tools.map((one) => one.function.name)).toEqual(["other"]);
  expect(body.tool_choice).toBe("required");
});

test("max_tokens and max_completion_tokens are one limit; the newer name wins; what it cuts says length", async () => {
  const served = await serve([{ text: "cut", finish: "length" }]);
  const ask = async (more: object) =>
    (await served.fetch("/v1/chat/completions", { json: { model, messages, ...more } })).json();
  expect(await ask({ max_tokens: 50 })).toMatchObject({ choices: [{ finish_reason: "length" }] });
  await ask({ max_tokens: 50, max_completion_tokens: 60 });
  expect(served.upstream.requests.map((one) => one.body.max_tokens)).toEqual([50, 60]);
});

test.each([
  [
    "/v1/chat/completions",
    { messages, tool_choice: { type: "allowed_tools", allowed_tools: { tools: [null, 5, {}] } } },
  ],
  ["/v1/responses", { input: "x", tool_choice: { type: "allowed_tools", tools: [null, 5, { type: "mcp" }] } }],
  ["/v1/responses", { input: "x", tools: [{ type: "namespace", name: "a", tools: [null, { type: "custom" }] }] }],
  ["/v1/responses", { input: [{ type: "mcp_approval_response", approval_request_id: 5 }] }],
  ["/v1/responses", { input: [{ type: "item_reference", id: "mcpr_" }] }],
])("nonsense is never a fault of ours: %s %j", async (path, more) => {
  const served = await serve([{ text: "x" }]);
  const answer = await served.fetch(path, { json: { model, ...more } });
  expect(answer.status).toBeLessThan(500);
});
