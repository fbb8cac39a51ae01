/** Tools with free text: a function to the model, a custom tool to the client, in both of OpenAI's APIs. */
import { createOpenAI } from "@ai-sdk/openai";
import { stepCountIs, streamText } from "ai";
import fc from "fast-check";
import type OpenAI from "openai";
import type { ResponseStreamEvent } from "openai/resources/responses/responses";
import { describe, expect, test } from "vitest";
import { customArguments, customInput, InputReader } from "../../src/doors/http/custom-tools.ts";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { problemsOf } from "../fixtures/open-responses/order.ts";
import { eventsOf } from "../http/served.ts";
import { all, client, model } from "./openai.ts";

const PATCH = '*** Begin "Patch"\n+ë 😀\\\n*** End';
const written = JSON.stringify({ input: PATCH });
/** The model's arguments, cut in the middle of escapes too. */
const pieces = (size: number) =>
  Array.from({ length: Math.ceil(written.length / size) }, (_, at) => written.slice(at * size, (at + 1) * size));
const calls = (name = "apply_patch", size = 3) => [{ id: "call_1", name, arguments: pieces(size) }];
const script: UpstreamScript = [{ calls: calls() }, { text: "Applied." }];
const patch: OpenAI.Responses.CustomTool = {
  type: "custom",
  name: "apply_patch",
  description: "Changes files.",
  format: { type: "grammar", syntax: "lark", definition: 'start: "x"' },
};

test("the text comes out of the arguments however they are cut", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary" }),
      fc.boolean(),
      fc.array(fc.nat(7), { minLength: 1 }),
      (text, ascii, sizes) => {
        let whole = JSON.stringify({ input: text });
        if (ascii)
          whole = whole.replaceAll(/[^ -~]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
        const reader = new InputReader();
        let told = "";
        for (let at = 0, turn = 0; at < whole.length; turn++) {
          const size = (sizes[turn % sizes.length] ?? 0) + 1;
          told += reader.add(whole.slice(at, at + size));
          at += size;
        }
        expect(told).toBe(text);
        expect(customInput(whole)).toBe(text);
        expect(customInput(customArguments(text))).toBe(text);
      },
    ),
  );
});

test("arguments that are not in the form are told as they are", () => {
  for (const strange of ["*** Begin", '"a text"', "[1]"]) {
    const reader = new InputReader();
    expect([...strange].map((one) => reader.add(one)).join("")).toBe(strange);
    expect(customInput(strange)).toBe(strange);
  }
  expect(customInput('{"other":1}')).toBe('{"other":1}');
});

describe("responses", () => {
  test("offered to the model as a function, called with a text, answered, and listed as what it was", async () => {
    const { openai, served } = await client(script);
    const first = await openai.responses.create({ model, input: "Patch", tools: [patch] });
    const offered = served.upstream.requests[0]?.body.tools as { function: { name: string; description: string } }[];
    const tool = offered.find((one) => one.function.name === "apply_patch");
    expect(tool?.function.description).toContain(
      'Changes files.\n\nThe input must follow this grammar (lark):\nstart: "x"',
    );
    expect(first.tools).toEqual([patch]);
    const call = first.output.at(-1);
    if (call?.type !== "custom_tool_call") throw new Error(`got ${call?.type}`);
    expect(call).toEqual({
      type: "custom_tool_call",
      id: call.id,
      call_id: "call_1",
      name: "apply_patch",
      input: PATCH,
      status: "completed",
    });
    const output = { type: "custom_tool_call_output" as const, call_id: call.call_id, output: "Done" };
    const second = await openai.responses.create({
      model,
      previous_response_id: first.id,
      tools: [patch],
      input: [output],
    });
    expect(second.output_text).toBe("Applied.");
    const messages = served.upstream.requests[1]?.body.messages as unknown[];
    expect(messages.slice(-2)).toMatchObject([
      { role: "assistant", tool_calls: [{ id: "call_1", function: { name: "apply_patch", arguments: written } }] },
      { role: "tool", tool_call_id: "call_1", content: "Done" },
    ]);
    expect((await openai.responses.inputItems.list(second.id)).data).toMatchObject([output]);
    expect(served.upstream.refusals).toEqual([]);
  });

  test("sent again by a client that keeps its history itself", async () => {
    const { openai, served } = await client([{ text: "Applied." }]);
    const made = await openai.responses.create({
      model,
      store: false,
      tools: [patch],
      input: [
        { role: "user", content: "Patch" },
        { type: "custom_tool_call", call_id: "call_1", name: "apply_patch", input: PATCH },
        { type: "custom_tool_call_output", call_id: "call_1", output: "Done" },
      ],
    });
    expect(made.output_text).toBe("Applied.");
    expect(JSON.stringify(served.upstream.requests[0]?.body.messages)).toContain(JSON.stringify(written).slice(1, -1));
    expect(served.upstream.refusals).toEqual([]);
  });

  test.each([1, 2, 5, 1_000])(
    "streamed in pieces of %i: true events, the SDK's own sum, and a replay from any of them",
    async (size) => {
      const { openai, served } = await client([{ reasoning: "hm", text: "Now.", calls: calls("apply_patch", size) }]);
      const stream = openai.responses.stream({ model, input: "Patch", tools: [patch] });
      const seen: ResponseStreamEvent[] = [];
      for await (const event of stream as AsyncIterable<ResponseStreamEvent>) seen.push(event);
      const final = await stream.finalResponse();
      expect(final.output.at(-1)).toMatchObject({ type: "custom_tool_call", input: PATCH });
      const deltas = seen.filter((event) => event.type === "response.custom_tool_call_input.delta");
      expect(deltas).toHaveLength(Math.ceil(written.length / size));
      expect(seen.some((event) => event.type.startsWith("response.function_call_arguments"))).toBe(false);
      const read = async (after: number) => {
        const from = after < 0 ? "" : `&starting_after=${after}`;
        const events = await eventsOf(await served.fetch(`/v1/responses/${final.id}?stream=true${from}`));
        return events.slice(0, -1).map((event) => event.data);
      };
      const whole = await read(-1);
      expect(problemsOf(whole as never)).toEqual([]);
      for (let after = 0; after < whole.length; after += 3) expect(await read(after)).toEqual(whole.slice(after + 1));
    },
  );

  test("forced, allowed, nested in a namespace", async () => {
    const { openai, served } = await client([{ calls: calls("code__apply_patch") }, { text: "x" }]);
    const nested = { type: "namespace" as const, name: "code", description: "", tools: [patch] };
    const tool_choice = { type: "custom" as const, name: "apply_patch" };
    const made = await openai.responses.create({ model, input: "Patch", tools: [nested], tool_choice });
    expect(served.upstream.requests[0]?.body.tool_choice).toMatchObject({ function: { name: "code__apply_patch" } });
    expect(made.output.at(-1)).toMatchObject({
      type: "custom_tool_call",
      namespace: "code",
      name: "apply_patch",
      input: PATCH,
    });
    expect(made.tool_choice).toEqual(tool_choice);
    await openai.responses.create({
      model,
      input: "Patch",
      tools: [patch, { ...patch, name: "other" }],
      tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "custom", name: "other" }] },
    });
    const offered = served.upstream.requests[1]?.body.tools as { function: { name: string } }[];
    expect(offered.map((one) => one.function.name)).toEqual(["other"]);
    await expect(
      openai.responses.create({ model, input: "x", tools: [patch], tool_choice: { type: "custom", name: "no" } }),
    ).rejects.toMatchObject({ status: 400, param: "tool_choice" });
  });

  test("the AI SDK runs one", async () => {
    const { served } = await client(script);
    const openai = createOpenAI({ baseURL: `${served.url}/v1`, apiKey: served.token });
    const given: string[] = [];
    const tools = {
      apply_patch: {
        ...openai.tools.customTool({ description: "Changes files.", format: { type: "text" } }),
        execute: async (input: unknown) => {
          given.push(String(input));
          return "Done";
        },
      },
    };
    const result = streamText({ model: openai.responses(model), prompt: "Patch", tools, stopWhen: stepCountIs(3) });
    expect(await result.text).toBe("Applied.");
    expect(given).toEqual([PATCH]);
  });
});

describe("chat completions", () => {
  const tools: OpenAI.Chat.ChatCompletionTool[] = [
    { type: "custom", custom: { name: "apply_patch", description: "Changes files." } },
  ];
  const asked = [{ role: "user" as const, content: "Patch" }];

  test("whole, and back again", async () => {
    const { openai, served } = await client(script);
    const first = await openai.chat.completions.create({
      model,
      messages: asked,
      tools,
      tool_choice: { type: "custom", custom: { name: "apply_patch" } },
    });
    expect(served.upstream.requests[0]?.body.tool_choice).toMatchObject({ function: { name: "apply_patch" } });
    const message = first.choices[0]?.message;
    if (!message) throw new Error("no message");
    expect(first.choices[0]?.finish_reason).toBe("tool_calls");
    expect(message.tool_calls).toEqual([
      { id: "call_1", type: "custom", custom: { name: "apply_patch", input: PATCH } },
    ]);
    const messages = [...asked, message, { role: "tool" as const, tool_call_id: "call_1", content: "Done" }];
    const second = await openai.chat.completions.create({ model, tools, messages });
    expect(second.choices[0]?.message.content).toBe("Applied.");
    expect(JSON.stringify(served.upstream.requests[1]?.body.messages)).toContain(JSON.stringify(written).slice(1, -1));
    expect(served.upstream.refusals).toEqual([]);
  });

  test("streamed", async () => {
    const { openai } = await client(script);
    const chunks = await all(await openai.chat.completions.create({ model, messages: asked, tools, stream: true }));
    type Call = { index: number; id?: string; type?: string; custom?: { name?: string; input: string } };
    const parts = chunks.flatMap((chunk) => (chunk.choices[0]?.delta.tool_calls ?? []) as unknown as Call[]);
    expect(parts[0]).toEqual({ index: 0, id: "call_1", type: "custom", custom: { name: "apply_patch", input: "" } });
    expect(parts.map((part) => part.custom?.input).join("")).toBe(PATCH);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe("tool_calls");
  });
});
