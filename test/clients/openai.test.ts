/** The newest `openai` SDK, unchanged, against the whole server: a matrix written from OpenAI's public reference. */
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { type Served, type ServedOptions, serve } from "../http/served.ts";

const model = "test-model";
const WEATHER = {
  name: "weather",
  description: "The weather of a city",
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
};
const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async function client(script: UpstreamScript, options?: ServedOptions): Promise<{ openai: OpenAI; served: Served }> {
  const served = await serve(script, options);
  return { served, openai: new OpenAI({ baseURL: `${served.url}/v1`, apiKey: served.token }) };
}

async function all<T>(events: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const event of events) list.push(event);
  return list;
}

describe("chat completions", () => {
  test("an answer, with usage; the whole array of messages reaches the model in its order", async () => {
    const { openai, served } = await client([{ text: "Hello" }]);
    const completion = await openai.chat.completions.create({
      model,
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "One" },
        { role: "assistant", content: "Two" },
        { role: "user", content: "Three" },
      ],
    });
    expect(completion.choices[0]?.message.content).toBe("Hello");
    expect(completion.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 });
    const messages = served.upstream.requests[0]?.body.messages as { role: string; content: string }[];
    expect(messages[0]).toMatchObject({ role: "system" });
    expect(messages[0]?.content).toContain("Be brief.");
    expect(messages.slice(1)).toEqual([
      { role: "user", content: "One" },
      { role: "assistant", content: "Two" },
      { role: "user", content: "Three" },
    ]);
  });

  test("a stream of the model's own deltas, with usage at its end", async () => {
    const { openai } = await client([{ text: ["Hel", "lo", " there"] }]);
    const stream = await openai.chat.completions.create({
      model,
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await all(stream);
    expect(chunks[0]?.choices[0]?.delta.role).toBe("assistant");
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").filter((text) => text !== "")).toEqual([
      "Hel",
      "lo",
      " there",
    ]);
    expect(chunks.filter((chunk) => chunk.choices[0]?.finish_reason)).toHaveLength(1);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 15 } });
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
  });

  test("a tool of the client, there and back", async () => {
    const { openai, served } = await client([
      { calls: [{ name: "weather", arguments: ['{"ci', 'ty":"Rome"}'] }] },
      { text: "Sunny." },
    ]);
    const tools = [{ type: "function" as const, function: WEATHER }];
    const asked = [{ role: "user" as const, content: "Weather in Rome?" }];
    const first = await openai.chat.completions.create({ model, messages: asked, tools });
    const message = first.choices[0]?.message;
    expect(first.choices[0]?.finish_reason).toBe("tool_calls");
    const [call] = message?.tool_calls ?? [];
    expect(call).toMatchObject({ type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } });
    if (!message) throw new Error("no message");
    const second = await openai.chat.completions.create({
      model,
      tools,
      messages: [...asked, message, { role: "tool", tool_call_id: call?.id ?? "", content: "sun" }],
    });
    expect(second.choices[0]?.message.content).toBe("Sunny.");
    expect(served.upstream.refusals).toEqual([]);
    expect(JSON.stringify(served.upstream.requests[1]?.body.messages)).toContain('"role":"tool"');
  });

  test("a streamed tool call keeps its fragments; the SDK's runner goes round", async () => {
    const { openai } = await client([
      { calls: [{ name: "weather", arguments: ['{"ci', 'ty":"Rome"}'] }] },
      { text: "Sunny." },
    ]);
    const runner = openai.chat.completions.runTools({
      model,
      stream: true,
      messages: [{ role: "user", content: "Weather in Rome?" }],
      tools: [
        {
          type: "function",
          function: {
            ...WEATHER,
            parse: JSON.parse,
            function: async (input: { city: string }) => `${input.city}: sun`,
          },
        },
      ],
    });
    expect(await runner.finalContent()).toBe("Sunny.");
  });

  test("tools of the server run inside, and the answer is one", async () => {
    const { openai, served } = await client([
      { calls: [{ name: "glob", arguments: { pattern: "*" } }] },
      { text: "Nothing there." },
    ]);
    const completion = await openai.chat.completions.create({ model, messages: [{ role: "user", content: "Look" }] });
    expect(completion.choices[0]).toMatchObject({ finish_reason: "stop", message: { content: "Nothing there." } });
    expect(served.upstream.requests).toHaveLength(2);
  });

  test("a tool of the client beside one of the server: the server's runs, the client's comes back", async () => {
    const { openai } = await client([
      {
        calls: [
          { name: "glob", arguments: { pattern: "*" } },
          { name: "weather", arguments: { city: "Rome" } },
        ],
      },
    ]);
    const completion = await openai.chat.completions.create({
      model,
      messages: [{ role: "user", content: "Both" }],
      tools: [{ type: "function", function: WEATHER }],
    });
    expect(completion.choices[0]?.finish_reason).toBe("tool_calls");
    expect(completion.choices[0]?.message.tool_calls).toHaveLength(1);
  });

  test("structured output: the schema reaches the model, the SDK parses the answer", async () => {
    const { openai, served } = await client([{ text: '{"city":"Rome","degrees":21}' }]);
    const shape = z.object({ city: z.string(), degrees: z.number() });
    const completion = await openai.chat.completions.parse({
      model,
      messages: [{ role: "user", content: "Weather" }],
      response_format: zodResponseFormat(shape, "weather"),
    });
    expect(completion.choices[0]?.message.parsed).toEqual({ city: "Rome", degrees: 21 });
    expect(served.upstream.requests[0]?.body.response_format).toMatchObject({
      type: "json_schema",
      json_schema: { name: "weather", strict: true },
    });
  });

  test("an image reaches the model", async () => {
    const { openai, served } = await client([{ text: "A pixel." }]);
    await openai.chat.completions.create({
      model,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is it?" },
            { type: "image_url", image_url: { url: PIXEL, detail: "low" } },
          ],
        },
      ],
    });
    expect(JSON.stringify(served.upstream.requests[0]?.body.messages)).toContain(PIXEL);
  });

  test("sampling, limits and effort reach the model", async () => {
    const { openai, served } = await client([{ text: "x" }]);
    await openai.chat.completions.create({
      model,
      messages: [{ role: "user", content: "Hi" }],
      temperature: 0.3,
      top_p: 0.9,
      stop: ["END"],
      seed: 7,
      presence_penalty: 0.5,
      frequency_penalty: -0.5,
      max_completion_tokens: 123,
      reasoning_effort: "low",
    });
    expect(served.upstream.requests[0]?.body).toMatchObject({
      temperature: 0.3,
      top_p: 0.9,
      stop: ["END"],
      seed: 7,
      presence_penalty: 0.5,
      frequency_penalty: -0.5,
      max_tokens: 123,
      reasoning_effort: "low",
    });
  });

  test.each([
    [{ text: "cut", finish: "length" }, "length"],
    [{ text: "no", finish: "content_filter" }, "content_filter"],
    [{ refusal: "I will not." }, "stop"],
  ] as const)("finish reasons: %j", async (step, reason) => {
    const { openai } = await client([step]);
    const completion = await openai.chat.completions.create({ model, messages: [{ role: "user", content: "Hi" }] });
    expect(completion.choices[0]?.finish_reason).toBe(reason);
  });
});

describe("errors are errors", () => {
  test("a wrong key is 401, an unknown model 404, a bad request 400", async () => {
    const { openai, served } = await client([{ text: "x" }]);
    const stranger = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: "rtd_wrong", maxRetries: 0 });
    await expect(stranger.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    const messages = [{ role: "user" as const, content: "Hi" }];
    await expect(openai.chat.completions.create({ model: "nope", messages })).rejects.toMatchObject({
      status: 404,
      code: "model_not_found",
    });
    await expect(openai.responses.create({ model: "nope", input: "Hi" })).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(openai.models.retrieve("nope")).rejects.toMatchObject({ status: 404 });
    await expect(openai.chat.completions.create({ model, messages: [] })).rejects.toBeInstanceOf(
      OpenAI.BadRequestError,
    );
    await expect(
      openai.responses.create({ model, input: "Hi", previous_response_id: "resp_nope" }),
    ).rejects.toMatchObject({ status: 404, param: "previous_response_id" });
  });

  test.each([
    [500, 502],
    [401, 502],
    [400, 502],
    [404, 502],
  ])(
    "an upstream %i is a %i, whole and streamed, and the SDK does not post the turn again",
    async (given, expected) => {
      const { openai, served } = await client([{ status: given, body: { error: { message: "broken" } } }], {
        config: undefined as never,
      });
      const messages = [{ role: "user" as const, content: "Hi" }];
      const began = performance.now();
      await expect(openai.chat.completions.create({ model, messages })).rejects.toMatchObject({ status: expected });
      expect(performance.now() - began).toBeLessThan(10_000);
      const once = served.upstream.requests.length;
      expect(once).toBeLessThanOrEqual(4);
      await expect(openai.chat.completions.create({ model, messages, stream: true })).rejects.toMatchObject({
        status: expected,
      });
      expect(await served.app.store.list({})).toHaveLength(2);
    },
  );

  test("a model that fails makes a response that has failed, which is a 200 of its own contract", async () => {
    const { openai } = await client([{ status: 400, body: { error: { message: "broken" } } }]);
    const response = await openai.responses.create({ model, input: "Hi" });
    expect(response.status).toBe("failed");
    expect(response.error?.message).toContain("broken");
  });

  test("an answer that is cut in the middle is an error of the stream, not an end", async () => {
    const { openai } = await client([{ text: ["Hel", "lo"], break: "reset" }]);
    const stream = await openai.chat.completions.create({
      model,
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
    });
    await expect(all(stream)).rejects.toBeInstanceOf(OpenAI.APIError);
  });
});

describe("responses", () => {
  test("a text, instructions, metadata; read again; its input items; deleted", async () => {
    const { openai, served } = await client([{ text: "Hello" }]);
    const made = await openai.responses.create({
      model,
      input: "Hi",
      instructions: "Be brief.",
      metadata: { ticket: "42" },
      temperature: 0.5,
      max_output_tokens: 200,
    });
    expect(made).toMatchObject({
      output_text: "Hello",
      status: "completed",
      metadata: { ticket: "42" },
      instructions: "Be brief.",
      temperature: 0.5,
      max_output_tokens: 200,
      store: true,
      truncation: "disabled",
    });
    expect(JSON.stringify(served.upstream.requests[0]?.body)).toContain("Be brief.");
    expect((await openai.responses.retrieve(made.id)).output_text).toBe("Hello");
    const items = await openai.responses.inputItems.list(made.id);
    expect(items.data).toMatchObject([
      { type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] },
    ]);
    await openai.responses.delete(made.id);
    await expect(openai.responses.retrieve(made.id)).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  });

  test("every event in order; the SDK's own accumulator agrees with the end", async () => {
    const { openai } = await client([{ reasoning: ["let", " me"], text: ["Hel", "lo"] }]);
    const stream = openai.responses.stream({ model, input: "Hi" });
    const types: string[] = [];
    const numbers: number[] = [];
    for await (const event of stream as AsyncIterable<ResponseStreamEvent>) {
      types.push(event.type);
      numbers.push(event.sequence_number);
    }
    expect(numbers).toEqual(numbers.map((_, index) => index));
    expect(types).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.reasoning_text.delta",
      "response.reasoning_text.delta",
      "response.reasoning_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    const final = await stream.finalResponse();
    expect(final.output_text).toBe("Hello");
    expect(final.output).toHaveLength(2);
  });

  test("a function of the client, streamed; its output goes on over previous_response_id", async () => {
    const { openai, served } = await client([
      { calls: [{ name: "weather", arguments: ['{"ci', 'ty":"Rome"}'] }] },
      { text: "Sunny." },
    ]);
    const tools = [{ type: "function" as const, strict: true, ...WEATHER }];
    const stream = openai.responses.stream({ model, input: "Weather?", tools });
    const first = await stream.finalResponse();
    const call = first.output.find((item) => item.type === "function_call");
    expect(call).toMatchObject({ name: "weather", arguments: '{"city":"Rome"}', status: "completed" });
    const second = await openai.responses.create({
      model,
      tools,
      previous_response_id: first.id,
      input: [{ type: "function_call_output", call_id: call?.call_id ?? "", output: "sun" }],
    });
    expect(second.output_text).toBe("Sunny.");
    expect(served.upstream.requests[0]?.body.tools).toEqual(
      expect.arrayContaining([expect.objectContaining({ function: expect.objectContaining({ strict: true }) })]),
    );
  });

  test("structured output is parsed", async () => {
    const { openai } = await client([{ text: '{"degrees":21}' }]);
    const response = await openai.responses.parse({
      model,
      input: "Weather",
      text: { format: zodTextFormat(z.object({ degrees: z.number() }), "weather") },
    });
    expect(response.output_parsed).toEqual({ degrees: 21 });
  });

  test("images, and a conversation sent along by the client itself", async () => {
    const { openai, served } = await client([{ text: "A pixel." }]);
    await openai.responses.create({
      model,
      store: false,
      input: [
        { role: "developer", content: "Look well." },
        { role: "user", content: "Hello" },
        { role: "assistant", content: "Hi" },
        {
          role: "user",
          content: [
            { type: "input_text", text: "What is it?" },
            { type: "input_image", image_url: PIXEL, detail: "auto" },
          ],
        },
      ],
    });
    expect(JSON.stringify(served.upstream.requests[0]?.body.messages)).toContain(PIXEL);
    expect(await served.app.store.list({})).toEqual([]);
  });

  test("previous_response_id over a switch of models; instructions are not inherited", async () => {
    const { openai, served } = await client([{ reasoning: "private", text: "One" }, { text: "Two" }]);
    const first = await openai.responses.create({ model, input: "1", instructions: "Speak Latin." });
    const second = await openai.responses.create({ model: "other-model", input: "2", previous_response_id: first.id });
    expect(second).toMatchObject({ output_text: "Two", previous_response_id: first.id, model: "other-model" });
    const body = served.upstream.requests[1]?.body;
    expect(body?.model).toBe("other-model");
    expect(JSON.stringify(body)).not.toContain("Speak Latin.");
    expect(JSON.stringify(body)).toContain("One");
  });

  test("background: accepted, polled to its end, cancelled", async () => {
    const { openai } = await client([{ text: ["a", "b", "c"], delay: 100 }]);
    let response = await openai.responses.create({ model, input: "Hi", background: true });
    expect(["queued", "in_progress"]).toContain(response.status);
    while (response.status === "queued" || response.status === "in_progress") {
      await new Promise((resolve) => setTimeout(resolve, 50));
      response = await openai.responses.retrieve(response.id);
    }
    expect(response.output_text).toBe("abc");
    const slow = await openai.responses.create({ model, input: "Hi", background: true });
    const cancelled = await openai.responses.cancel(slow.id);
    expect(cancelled.status).toBe("cancelled");
    expect((await openai.responses.cancel(slow.id)).status).toBe("cancelled");
  });

  test("a stream can be read again from every event on", async () => {
    const { openai } = await client([
      { calls: [{ name: "glob", arguments: { pattern: "*" } }] },
      { text: ["one", " two", " three"] },
    ]);
    const stream = await openai.responses.create({ model, input: "Hi", background: true, stream: true });
    const events = await all(stream);
    const [created] = events;
    if (created?.type !== "response.created") throw new Error("no response.created");
    for (let after = 0; after < events.length; after++) {
      const again = await openai.responses.retrieve(created.response.id, { stream: true, starting_after: after });
      expect(await all(again)).toEqual(events.slice(after + 1));
    }
  });

  test("a call that needs a person: approved in the next response, or denied", async () => {
    const { openai } = await client([
      { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] },
      { text: "Written." },
    ]);
    const first = await openai.responses.create({ model, input: "Write" });
    const asked = first.output.at(-1);
    if (asked?.type !== "mcp_approval_request") throw new Error(`got ${asked?.type}`);
    expect(asked).toMatchObject({ server_label: "rotunda", name: "write" });
    const second = await openai.responses.create({
      model,
      previous_response_id: first.id,
      input: [{ type: "mcp_approval_response", approval_request_id: asked.id, approve: true }],
    });
    expect(second.output[0]).toMatchObject({ type: "mcp_call", status: "completed" });
    expect(second.output_text).toBe("Written.");
  });

  test("tools of other vendors do not break a request; nested ones are flattened and mapped back", async () => {
    const { openai, served } = await client([{ calls: [{ name: "shop__buy", arguments: "{}" }] }]);
    const response = await openai.responses.create({
      model,
      input: "Buy",
      tools: [
        { type: "web_search" },
        {
          type: "namespace",
          name: "shop",
          description: "A shop",
          tools: [{ type: "function", name: "buy", parameters: { type: "object", properties: {} } }],
        },
        { type: "custom", name: "free" },
      ],
    });
    expect(response.output.at(-1)).toMatchObject({ type: "function_call", name: "buy", namespace: "shop" });
    expect(response.tools).toHaveLength(3);
    expect(served.upstream.refusals).toEqual([]);
  });

  test("allowed_tools is enforced; a forced function is forced", async () => {
    const { openai, served } = await client([{ text: "x" }]);
    const tools = [
      { type: "function" as const, strict: false, ...WEATHER },
      { type: "function" as const, strict: false, ...WEATHER, name: "other" },
    ];
    const allowed = { type: "allowed_tools" as const, mode: "auto" as const };
    await openai.responses.create({
      model,
      input: "Hi",
      tools,
      tool_choice: { ...allowed, tools: [{ type: "function", name: "other" }] },
    });
    const offered = served.upstream.requests[0]?.body.tools as { function: { name: string } }[];
    expect(offered.map((tool) => tool.function.name)).toEqual(["other"]);
    await openai.responses.create({ model, input: "Hi", tools, tool_choice: { type: "function", name: "weather" } });
    expect(served.upstream.requests[1]?.body.tool_choice).toMatchObject({ function: { name: "weather" } });
    await openai.responses.create({ model, input: "Hi", tools, tool_choice: "none" });
    expect(served.upstream.requests[2]?.body.tools).toBeUndefined();
  });

  test("input_tokens and compact", async () => {
    const { openai } = await client([{ text: "They greeted each other." }, { text: "Yes." }]);
    const count = await openai.responses.inputTokens.count({ model, input: "Hello there" });
    expect(count.input_tokens).toBeGreaterThan(2);
    const compacted = await openai.responses.compact({
      model,
      input: [
        { role: "user", content: "Hello" },
        { role: "assistant", content: "Hi" },
      ],
    });
    expect(compacted.output.map((item) => item.type)).toEqual(["message", "compaction"]);
    const next = await openai.responses.create({
      model,
      input: [...(compacted.output as OpenAI.Responses.ResponseInputItem[]), { role: "user", content: "Did they?" }],
    });
    expect(next.output_text).toBe("Yes.");
  });

  test("an idempotency key: one response, whoever repeats it", async () => {
    const { openai, served } = await client([{ text: "Hello" }]);
    const headers = { "Idempotency-Key": "once" };
    const body = { model, input: "Hi" };
    const [one, two] = await Promise.all([
      openai.responses.create(body, { headers }),
      openai.responses.create(body, { headers }),
    ]);
    expect(two.id).toBe(one.id);
    expect(served.upstream.requests).toHaveLength(1);
    await expect(openai.responses.create({ ...body, input: "Other" }, { headers })).rejects.toMatchObject({
      status: 422,
    });
  });
});

describe("conversations and models", () => {
  test("a conversation: created, spoken in, listed, changed, deleted", async () => {
    const { openai } = await client([{ text: "Hello" }, { text: "Again" }]);
    const conversation = await openai.conversations.create({
      metadata: { topic: "demo" },
      items: [{ type: "message", role: "user", content: "My name is Ada." }],
    });
    expect(conversation).toMatchObject({ object: "conversation", metadata: { topic: "demo" } });
    await openai.responses.create({ model, conversation: conversation.id, input: "Hi" });
    await openai.responses.create({ model, conversation: conversation.id, input: "And?" });
    const items = await all(await openai.conversations.items.list(conversation.id, { order: "asc" }));
    const texts = items.map((item) =>
      item.type === "message" ? (item.content[0] as { text: string }).text : item.type,
    );
    expect(texts).toEqual(["My name is Ada.", "Hi", "Hello", "And?", "Again"]);
    const first = items[0];
    if (first?.type !== "message") throw new Error("no message");
    expect(await openai.conversations.items.retrieve(first.id, { conversation_id: conversation.id })).toMatchObject({
      id: first.id,
    });
    await openai.conversations.items.delete(first.id, { conversation_id: conversation.id });
    expect((await all(await openai.conversations.items.list(conversation.id))).length).toBe(4);
    const changed = await openai.conversations.update(conversation.id, { metadata: { topic: "other" } });
    expect(changed.metadata).toEqual({ topic: "other" });
    expect(await openai.conversations.delete(conversation.id)).toMatchObject({ deleted: true });
    await expect(openai.conversations.retrieve(conversation.id)).rejects.toMatchObject({ status: 404 });
  });

  test("models, and agents as models", async () => {
    const { openai, served } = await client([{ text: "I look." }]);
    const ids = (await all(openai.models.list())).map((one) => one.id);
    expect(ids).toEqual(expect.arrayContaining(["test-model", "other-model", "profile/general", "profile/explore"]));
    expect((await openai.models.retrieve("test-model")).object).toBe("model");
    const completion = await openai.chat.completions.create({
      model: "profile/explore",
      messages: [{ role: "user", content: "Look" }],
    });
    expect(completion).toMatchObject({ model: "profile/explore", choices: [{ message: { content: "I look." } }] });
    const offered = served.upstream.requests[0]?.body.tools as { function: { name: string } }[];
    expect(offered.map((tool) => tool.function.name)).not.toContain("write");
  });
});
