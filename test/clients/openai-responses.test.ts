/** The newest `openai` SDK, unchanged, against the whole server: Responses, conversations, models. */
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { inCluster } from "../http/served.ts";
import { all, client, model, PIXEL, WEATHER } from "./openai.ts";

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
      // Whoever leaves it to a worker says so.
      if (!(inCluster && event.type === "response.queued")) types.push(event.type);
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
