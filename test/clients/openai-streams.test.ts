/** The `openai` SDK's helpers for streams: its own accumulator over every kind of item, and cut streams that go on. */
import type OpenAI from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { describe, expect, test } from "vitest";
import { all, client, model, WEATHER } from "./openai.ts";

const weather = { type: "function" as const, strict: true, ...WEATHER };

describe("responses.stream()", () => {
  test("reasoning, text, calls of the server and of the client: the sum of the events is the response", async () => {
    const { openai } = await client([
      { reasoning: ["let", " me"], text: "I look.", calls: [{ name: "glob", arguments: ['{"pat', 'tern":"*"}'] }] },
      { reasoning: "now", calls: [{ name: "weather", arguments: ['{"ci', 'ty":"Rome"}'] }] },
    ]);
    const stream = openai.responses.stream({ model, input: "Both", tools: [weather] });
    const events: ResponseStreamEvent[] = [];
    for await (const event of stream as AsyncIterable<ResponseStreamEvent>) events.push(event);
    const final = await stream.finalResponse();
    const kinds = final.output.map((item) => item.type);
    expect(kinds).toEqual(["reasoning", "message", "mcp_call", "reasoning", "function_call"]);
    const done = events.flatMap((event) => (event.type === "response.output_item.done" ? [event.item] : []));
    expect(new Set(done.map((item) => item.id))).toEqual(new Set(final.output.map((item) => item.id)));
    expect(await openai.responses.retrieve(final.id)).toMatchObject({ output: JSON.parse(JSON.stringify(done)) });
  });

  test("a refusal", async () => {
    const { openai } = await client([{ refusal: "I will not." }]);
    const final = await openai.responses.stream({ model, input: "Hi" }).finalResponse();
    expect(final.output[0]).toMatchObject({ content: [{ type: "refusal", refusal: "I will not." }] });
  });

  test("reasoning that was asked for as a summary", async () => {
    const { openai } = await client([{ reasoning: ["let", " me"], text: "Yes" }]);
    const final = await openai.responses.stream({ model, input: "Hi", reasoning: { summary: "auto" } }).finalResponse();
    expect(final.output[0]).toMatchObject({ type: "reasoning", summary: [{ type: "summary_text", text: "let me" }] });
    expect(final.reasoning).toMatchObject({ summary: "auto" });
  });

  test("taken up again by its id, from a number on", async () => {
    const { openai } = await client([{ text: ["one", " two", " three"] }]);
    const first = await openai.responses.create({ model, input: "Hi", background: true, stream: true });
    const events = await all(first);
    const [created] = events;
    if (created?.type !== "response.created") throw new Error("no response.created");
    const again = openai.responses.stream({ response_id: created.response.id, starting_after: 4 });
    const rest: ResponseStreamEvent[] = [];
    for await (const event of again as AsyncIterable<ResponseStreamEvent>) rest.push(event);
    expect(rest.map((event) => event.sequence_number)).toEqual(events.slice(5).map((event) => event.sequence_number));
    expect((await again.finalResponse()).output_text).toBe("one two three");
  });
});

test("background and streamed, cut in the middle, gone on with where it was cut", async () => {
  const text = Array.from({ length: 30 }, (_, at) => `${at} `);
  const { openai } = await client([{ text, delay: 10 }]);
  const stream = await openai.responses.create({ model, input: "Count", background: true, stream: true });
  const seen: ResponseStreamEvent[] = [];
  let id = "";
  for await (const event of stream) {
    seen.push(event);
    if (event.type === "response.created") id = event.response.id;
    if (seen.length === 10) break;
  }
  const last = seen.at(-1)?.sequence_number ?? 0;
  seen.push(...(await all(await openai.responses.retrieve(id, { stream: true, starting_after: last }))));
  expect(seen.map((event) => event.sequence_number)).toEqual(seen.map((_, at) => at));
  const whole = seen.flatMap((event) => (event.type === "response.output_text.delta" ? [event.delta] : [])).join("");
  expect(whole).toBe(text.join(""));
});

test("a response that fails in its stream is an error of the SDK, with its code", async () => {
  const { openai } = await client([{ status: 400, body: { error: { message: "broken" } } }]);
  const stream = await openai.responses.create({ model, input: "Hi", stream: true });
  await expect(all(stream)).rejects.toMatchObject({ code: "upstream_bad_request" });
});

test("lists: order and pages of input items and of a conversation's", async () => {
  const { openai } = await client([{ text: "x" }]);
  const input: OpenAI.Responses.ResponseInputItem[] = Array.from({ length: 25 }, (_, at) => ({
    role: "user",
    content: `${at}`,
  }));
  const made = await openai.responses.create({ model, input });
  const texts = (items: { type: string }[]) =>
    items.map((item) => ((item as { content?: { text: string }[] }).content ?? [])[0]?.text);
  const numbers = input.map((_, at) => `${at}`);
  expect(texts(await all(openai.responses.inputItems.list(made.id, { order: "asc", limit: 10 })))).toEqual(numbers);
  expect(texts(await all(openai.responses.inputItems.list(made.id, { limit: 7 })))).toEqual(numbers.toReversed());
  const conversation = await openai.conversations.create({ items: input as never });
  expect(texts(await all(openai.conversations.items.list(conversation.id, { order: "asc", limit: 9 })))).toEqual(
    numbers,
  );
  const count = await openai.responses.inputTokens.count({ model, conversation: conversation.id, input: "x" });
  const alone = await openai.responses.inputTokens.count({ model, input: "x" });
  expect(count.input_tokens).toBeGreaterThan(alone.input_tokens + 25);
});
