/**
 * The Responses door against the Open Responses specification: the cases of its own compliance suite, and every event
 * of every kind of stream that we make, by the contract in test/fixtures/open-responses.
 */
import { describe, expect, test } from "vitest";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import {
  compaction,
  errorBody,
  item,
  response,
  standardResponse,
  type WireEvent,
} from "../fixtures/open-responses/contract.ts";
import { problemsOf } from "../fixtures/open-responses/order.ts";
import { eventsOf, inCluster, type Served, serve, type WireResponse } from "./served.ts";

const model = "test-model";
const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const weather = {
  type: "function",
  name: "get_weather",
  description: "The weather at a place",
  parameters: { type: "object", properties: { location: { type: "string" } }, required: ["location"] },
};
const user = (content: unknown) => ({ type: "message", role: "user", content });

/** Creates a response and holds it, and what can be read of it later, to the schema. */
async function create(served: Served, json: object): Promise<WireResponse> {
  const made = await served.respond({ model, ...json });
  response.parse(made);
  expect(await (await served.fetch(`/v1/responses/${made.id}`)).json()).toEqual(made);
  return made;
}

/** The events of a stream, after the frames and their order were held to the specification. */
async function stream(served: Served, json: object): Promise<WireEvent[]> {
  const answer = await served.fetch("/v1/responses", { json: { model, stream: true, ...json } });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toMatch(/^text\/event-stream/);
  const frames = await eventsOf(answer);
  expect(frames.pop()).toEqual({ event: undefined, data: "[DONE]" });
  const events = frames.map((frame) => frame.data as WireEvent);
  expect(frames.map((frame) => frame.event)).toEqual(events.map((event) => event.type));
  expect(problemsOf(events)).toEqual([]);
  return events;
}

const types = (events: readonly WireEvent[]) => events.map((event) => event.type);

describe("the cases of the compliance suite", () => {
  test("a text response: only what the specification itself defines", async () => {
    const served = await serve([{ text: "Hello you there" }]);
    const made = await create(served, { input: [user("Say hello in three words.")] });
    standardResponse.parse(made);
    expect(made.status).toBe("completed");
    expect(made.output).toHaveLength(1);
  });

  test("a streamed response", async () => {
    const served = await serve([{ text: ["1", " 2", " 3"] }]);
    const events = await stream(served, { input: [user("Count.")] });
    // Whoever leaves it to a worker says so.
    expect(types(events).filter((type) => !(inCluster && type === "response.queued"))).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      ...Array.from({ length: 3 }, () => "response.output_text.delta"),
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    standardResponse.parse(events.at(-1)?.response);
  });

  test("a system message in the input", async () => {
    const served = await serve([{ text: "Ahoy." }]);
    const input = [{ type: "message", role: "system", content: "You are a pirate." }, user("Say hello.")];
    expect((await create(served, { input })).status).toBe("completed");
    expect(JSON.stringify(served.upstream.requests[0]?.body)).toContain("You are a pirate.");
  });

  test("a function call, whole", async () => {
    const served = await serve([{ calls: [{ name: "get_weather", arguments: { location: "Rome" } }] }]);
    const made = await create(served, { input: [user("Weather?")], tools: [weather] });
    standardResponse.parse(made);
    expect(made.output.map((one) => one.type)).toContain("function_call");
  });

  test("a function call, streamed", async () => {
    const served = await serve([{ calls: [{ name: "get_weather", arguments: ['{"loca', 'tion":"Rome"}'] }] }]);
    const events = await stream(served, { input: [user("Weather?")], tools: [weather] });
    const kinds = types(events);
    expect(kinds).toContain("response.function_call_arguments.delta");
    expect(kinds).toContain("response.function_call_arguments.done");
    const added = events.find((event) => event.type === "response.output_item.added");
    expect(added?.item).toMatchObject({ type: "function_call", name: "get_weather", status: "in_progress" });
    standardResponse.parse(events.at(-1)?.response);
  });

  test("a function's output goes back, by previous_response_id and by the whole history", async () => {
    const served = await serve(({ body }) =>
      JSON.stringify(body.messages).includes("64 degrees")
        ? { text: "It is 64 degrees." }
        : { calls: [{ name: "get_weather", arguments: { location: "Rome" } }] },
    );
    const tool_choice = { type: "function", name: "get_weather" };
    const first = await create(served, { input: "Weather?", tools: [weather], tool_choice });
    const call = first.output.at(-1);
    const output = { type: "function_call_output", call_id: call?.call_id, output: "64 degrees and clear" };
    const second = await create(served, { previous_response_id: first.id, input: [output], tools: [weather] });
    expect(second.output.at(-1)?.content[0]?.text).toContain("64");
    const third = await create(served, { input: [user("Weather?"), ...first.output, output], tools: [weather] });
    expect(third.output.at(-1)?.content[0]?.text).toContain("64");
    expect(served.upstream.refusals).toEqual([]);
  });

  test("an image in the input, which can be listed as the schema has it", async () => {
    const served = await serve([{ text: "A pixel." }]);
    const input = [
      user([
        { type: "input_text", text: "What is it?" },
        { type: "input_image", image_url: PIXEL },
      ]),
    ];
    const made = await create(served, { input });
    const { data } = (await (await served.fetch(`/v1/responses/${made.id}/input_items`)).json()) as { data: unknown[] };
    expect(data).toHaveLength(1);
    item.parse(data[0]);
  });

  test("a history in the input, with the phases of its messages", async () => {
    const served = await serve([{ text: "Alice." }]);
    const assistant = (phase: string, content: string) => ({ type: "message", role: "assistant", phase, content });
    const input = [
      user("My name is Alice."),
      assistant("commentary", "I note the name."),
      assistant("final_answer", "Hello Alice."),
      user("What is my name?"),
    ];
    expect((await create(served, { input })).status).toBe("completed");
    expect(JSON.stringify(served.upstream.requests[0]?.body.messages)).toContain("Hello Alice.");
  });

  test("previous_response_id: its input, its output, then the new input, in this order", async () => {
    const served = await serve([{ text: "OK" }, { text: "papaya" }]);
    const first = await create(served, { input: "Remember: papaya." });
    const second = await create(served, { previous_response_id: first.id, input: "Which word?" });
    standardResponse.parse(second);
    expect(second.previous_response_id).toBe(first.id);
    const messages = served.upstream.requests[1]?.body.messages as { role: string; content: string }[];
    expect(messages.slice(-3).map((one) => one.content)).toEqual(["Remember: papaya.", "OK", "Which word?"]);
  });

  test("compaction, and its output as the base of another response; without a model it is refused", async () => {
    const served = await serve([{ text: "Launch on Tuesday." }, { text: "Tuesday." }]);
    const input = [user("We launch on Tuesday."), { type: "message", role: "assistant", content: "Understood." }];
    const answer = await served.fetch("/v1/responses/compact", { json: { model, prompt_cache_key: "k", input } });
    const made = (await answer.json()) as { output: { type: string }[] };
    compaction.parse(made);
    expect(made.output.map((one) => one.type)).toContain("compaction");
    const next = await create(served, { input: [...made.output, user("When?")] });
    expect(next.output[0]?.content[0]?.text).toBe("Tuesday.");
    const told = JSON.stringify(served.upstream.requests[1]?.body.messages);
    expect(told).toContain("Launch on Tuesday.");
    const refused = await served.fetch("/v1/responses/compact", { json: { input } });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ error: { type: "invalid_request_error", param: "model" } });
  });
});

describe("every kind of stream is a true one", () => {
  const glob = { name: "glob", arguments: { pattern: "*" } };
  const cases: [string, UpstreamScript, object][] = [
    ["reasoning before the text", [{ reasoning: ["let", " me"], text: "Yes" }], {}],
    ["reasoning as a summary", [{ reasoning: ["let", " me"], text: "Yes" }], { reasoning: { summary: "auto" } }],
    ["reasoning that is sealed", [{ reasoning: "hm", text: "Yes" }], { include: ["reasoning.encrypted_content"] }],
    ["a refusal", [{ refusal: "I will not." }], {}],
    ["an empty answer, twice", [{ text: "" }], {}],
    [
      "several calls at once",
      [{ text: "I look.", calls: [glob, { ...glob, id: "c2" }], interleave: true }, { text: "x" }],
      {},
    ],
    ["a call with broken arguments", [{ calls: [{ name: "glob", arguments: '{"pat' }] }, { text: "x" }], {}],
    ["a call that needs a person", [{ calls: [{ name: "write", arguments: { file_path: "a", content: "b" } }] }], {}],
    ["a text that was cut by its length", [{ text: ["cut", " off"], finish: "length" }], {}],
    ["a text that was filtered", [{ text: "no", finish: "content_filter" }], {}],
    [
      "a function call that was cut by its length",
      [{ calls: [{ name: "get_weather", arguments: '{"loc' }], finish: "length" }],
      { tools: [weather] },
    ],
    ["a wire that broke in the text", [{ text: ["Hel", "lo"], break: "reset" }], {}],
    [
      "a wire that broke in a function call",
      [{ calls: [{ name: "get_weather", arguments: ['{"loc', "at"] }], break: "reset" }],
      { tools: [weather] },
    ],
    ["an upstream that refuses", [{ status: 400, body: { error: { message: "broken" } } }], {}],
    ["in the background", [{ text: "Hi" }], { background: true }],
    ["without a store", [{ text: "Hi" }], { store: false }],
    [
      "with structured output",
      [{ text: "{}" }],
      { text: { format: { type: "json_schema", name: "a", schema: { type: "object" } } } },
    ],
    ["with tools of other types beside functions", [{ text: "x" }], { tools: [{ type: "web_search" }, weather] }],
  ];
  test.each(cases)("%s", async (_, script, more) => {
    const served = await serve(script);
    await stream(served, { input: "Hi", ...more });
  });

  test("an approval that is carried out in the next response", async () => {
    const served = await serve([
      { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "b" } }] },
      { text: "Written." },
    ]);
    const first = await create(served, { input: "Write" });
    const request = first.output.at(-1);
    item.parse(request);
    const approve = { type: "mcp_approval_response", approval_request_id: request?.id, approve: true };
    const events = await stream(served, { previous_response_id: first.id, input: [approve] });
    expect(types(events)).toContain("response.mcp_call.completed");
  });

  test("what a cut or a limit left of a function call is incomplete: nobody carries it out", async () => {
    for (const end of [{ finish: "length" }, { break: "reset" as const }]) {
      const served = await serve([{ calls: [{ name: "get_weather", arguments: ['{"loc', '"'] }], ...end }]);
      const events = await stream(served, { input: "Weather?", tools: [weather] });
      const done = events.find((event) => event.type === "response.output_item.done");
      expect(done?.item).toMatchObject({ type: "function_call", status: "incomplete" });
      expect(events.at(-1)).toMatchObject({ type: "response.incomplete", response: { status: "incomplete" } });
    }
  });

  test("a failure is told by error, right before response.failed, with the same reason", async () => {
    const served = await serve([{ status: 400, body: { error: { message: "broken" } } }]);
    const events = await stream(served, { input: "Hi" });
    expect(types(events).slice(-2)).toEqual(["error", "response.failed"]);
    const [error, failed] = events.slice(-2) as [WireEvent, WireEvent & { response: { error: unknown } }];
    expect(error.error).toMatchObject({ code: "upstream_bad_request" });
    expect(failed.response.error).toMatchObject({ code: "upstream_bad_request", message: error.message });
  });
});

describe("what is refused, and how", () => {
  test.each([
    ["nothing at all", {}, "input"],
    [
      "a type of part that nobody knows",
      { input: [user([{ type: "input_smell", smell: "x" }])] },
      "input[0].content[0].type",
    ],
    [
      "a conversation beside a previous response",
      { input: "x", conversation: "conv_x", previous_response_id: "resp_x" },
      "previous_response_id",
    ],
    ["background without a store", { input: "x", background: true, store: false }, "background"],
    ["a temperature of 3", { input: "x", temperature: 3 }, "temperature"],
    ["a truncation that nobody knows", { input: "x", truncation: "some" }, "truncation"],
    [
      "a function that is not among the tools",
      { input: "x", tool_choice: { type: "function", name: "no" } },
      "tool_choice",
    ],
    [
      "a forced tool of a type that we do not have",
      { input: "x", tools: [{ type: "file_search" }], tool_choice: { type: "file_search" } },
      "tool_choice",
    ],
    ["log probabilities", { input: "x", include: ["message.output_text.logprobs"] }, "include"],
    ["the most likely tokens", { input: "x", top_logprobs: 3 }, "top_logprobs"],
    ["a moderation that is not made", { input: "x", moderation: { model: "omni-moderation-latest" } }, "moderation"],
    ["a stored prompt", { input: "x", prompt: { id: "pmpt_1" } }, "prompt"],
  ])("%s", async (_, json, param) => {
    const served = await serve([{ text: "x" }]);
    const answer = await served.fetch("/v1/responses", { json: { model, ...json } });
    expect(answer.status).toBe(400);
    expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
    const body = errorBody.parse(await answer.json());
    expect(body.error).toMatchObject({ type: "invalid_request_error", param });
    expect(served.upstream.requests).toEqual([]);
  });

  test("truncation: disabled fails instead of leaving something out", async () => {
    const served = await serve([
      { status: 400, body: { error: { message: "maximum context length exceeded", code: "context_length_exceeded" } } },
    ]);
    const made = await create(served, { input: "long", truncation: "disabled" });
    expect(made).toMatchObject({ status: "failed", error: { code: "context_length_exceeded" } });
  });

  test("allowed_tools is enforced, also where the model calls something else all the same", async () => {
    const other = { ...weather, name: "send_email" };
    const served = await serve([{ calls: [{ name: "send_email", arguments: {} }] }, { text: "Then not." }]);
    const tool_choice = { type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "get_weather" }] };
    const made = await create(served, { input: "x", tools: [weather, other], tool_choice });
    expect(made.output.filter((one) => one.type === "function_call")).toEqual([]);
    expect(made).toMatchObject({ tool_choice, tools: [{ name: "get_weather" }, { name: "send_email" }] });
  });

  test("tools come back as the schema has them, whatever stands beside them", async () => {
    const served = await serve([{ text: "x" }]);
    const made = await create(served, { input: "x", tools: [{ type: "web_search" }, weather], service_tier: "flex" });
    expect(made).toMatchObject({ tools: [{ type: "web_search" }, { ...weather, strict: false }] });
    // The tier that was really used.
    expect(made).toMatchObject({ service_tier: "default" });
  });
});
