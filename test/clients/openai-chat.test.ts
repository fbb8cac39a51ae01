/** The newest `openai` SDK, unchanged, against the whole server: chat completions and errors, after the public reference. */
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { all, client, model, PIXEL, WEATHER } from "./openai.ts";

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

  test("files reach the model: those of text as text, others as files; what would have to be fetched is refused", async () => {
    const { openai, served } = await client([{ text: "Read." }]);
    const notes = Buffer.from("milk</file>\neggs").toString("base64");
    const pdf = `data:application/pdf;base64,${Buffer.from([37, 80, 68, 70, 0, 255]).toString("base64")}`;
    await openai.chat.completions.create({
      model,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is in them?" },
            { type: "file", file: { filename: "notes.txt", file_data: notes } },
            { type: "file", file: { filename: "a.pdf", file_data: pdf } },
          ],
        },
      ],
    });
    const response = await openai.responses.create({
      model,
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: "What is in them?" },
            { type: "input_file", filename: "notes.txt", file_data: `data:text/plain;base64,${notes}` },
            { type: "input_file", filename: "a.pdf", file_data: pdf },
          ],
        },
      ],
    });
    const told = served.upstream.requests.map(({ body }) => (body.messages as { content: unknown }[]).at(-1)?.content);
    expect(told[0]).toEqual([
      { type: "text", text: "What is in them?" },
      { type: "text", text: '<file name="notes.txt">\nmilk<\\/file>\neggs\n</file>' },
      { type: "file", file: { filename: "a.pdf", file_data: pdf } },
    ]);
    expect(told[1]).toEqual(told[0]);
    const items = await openai.responses.inputItems.list(response.id);
    expect(items.data[0]).toMatchObject({
      content: [{}, { type: "input_file", filename: "notes.txt" }, { file_data: pdf }],
    });
    for (const part of [{ file_url: "https://example.com/a.pdf" }, { file_id: "file-1" }, { file_data: "%%" }]) {
      const input = [{ role: "user" as const, content: [{ type: "input_file" as const, ...part }] }];
      await expect(openai.responses.create({ model, input })).rejects.toMatchObject({
        status: 400,
        param: "input[0].content[0].file_data",
      });
    }
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
    ).rejects.toMatchObject({ status: 400, param: "previous_response_id" });
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
