/** The AI SDK with both of its OpenAI providers, and OpenAI's agents, unchanged, against the whole server. */
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent, tool as agentTool, OpenAIProvider, Runner } from "@openai/agents";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { type Served, serve } from "../http/served.ts";

const id = "test-model";

type Provider = "openai-compatible" | "openai responses" | "openai chat";

function modelOf(served: Served, provider: Provider) {
  const settings = { baseURL: `${served.url}/v1`, apiKey: served.token };
  if (provider === "openai-compatible")
    return createOpenAICompatible({
      ...settings,
      name: "rotunda",
      includeUsage: true,
      supportsStructuredOutputs: true,
    })(id);
  const openai = createOpenAI(settings);
  return provider === "openai chat" ? openai.chat(id) : openai.responses(id);
}

const weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `${city}: sun`,
});

const weatherSteps: UpstreamScript = [
  { calls: [{ name: "weather", arguments: ['{"ci', 'ty":"Rome"}'] }] },
  { text: ["Sun", "ny."] },
];

describe.each(["openai-compatible", "openai responses", "openai chat"] as const)("ai with %s", (provider) => {
  test("generateText, with usage", async () => {
    const served = await serve([{ text: "Hello" }]);
    const { text, usage, finishReason } = await generateText({ model: modelOf(served, provider), prompt: "Hi" });
    expect(text).toBe("Hello");
    expect(finishReason).toBe("stop");
    expect(usage.totalTokens).toBe(15);
  });

  test("streamText: the model's own deltas, no warning, no error", async () => {
    const served = await serve([{ reasoning: "hm", text: ["Hel", "lo"] }]);
    const result = streamText({ model: modelOf(served, provider), prompt: "Hi", onError: () => undefined });
    const parts: string[] = [];
    const errors: unknown[] = [];
    for await (const part of result.fullStream) {
      if (part.type === "text-delta") parts.push(part.text);
      if (part.type === "error") errors.push(part.error);
    }
    expect(errors).toEqual([]);
    expect(parts).toEqual(["Hel", "lo"]);
    expect((await result.usage).totalTokens).toBe(15);
  });

  test.each(["whole", "streamed"])("a tool of the client goes round, %s", async (how) => {
    const served = await serve(weatherSteps);
    const options = {
      model: modelOf(served, provider),
      prompt: "Weather in Rome?",
      tools: { weather },
      stopWhen: stepCountIs(3),
    };
    const text = how === "whole" ? (await generateText(options)).text : await streamText(options).text;
    expect(text).toBe("Sunny.");
    expect(served.upstream.requests).toHaveLength(2);
    expect(JSON.stringify(served.upstream.requests[1]?.body.messages)).toContain("Rome: sun");
    expect(served.upstream.refusals).toEqual([]);
  });

  test("a tool of the server runs inside; the client sees one answer", async () => {
    const served = await serve([{ calls: [{ name: "glob", arguments: { pattern: "*" } }] }, { text: "Nothing." }]);
    const result = streamText({ model: modelOf(served, provider), prompt: "Look" });
    expect(await result.text).toBe("Nothing.");
  });

  test("structured output", async () => {
    const served = await serve([{ text: '{"degrees":21}' }]);
    const { output } = await generateText({
      model: modelOf(served, provider),
      prompt: "Weather",
      output: Output.object({ schema: z.object({ degrees: z.number() }) }),
    });
    expect(output).toEqual({ degrees: 21 });
  });

  test("an image", async () => {
    const served = await serve([{ text: "A pixel." }]);
    const image = Buffer.from(
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
      "base64",
    );
    const content = [
      { type: "text" as const, text: "What?" },
      { type: "file" as const, mediaType: "image/png", data: image },
    ];
    await generateText({ model: modelOf(served, provider), messages: [{ role: "user", content }] });
    expect(JSON.stringify(served.upstream.requests[0]?.body.messages)).toContain("data:image/png;base64,");
  });

  test("an error of the model is an error of the SDK", async () => {
    const served = await serve([{ status: 400, body: { error: { message: "broken" } } }]);
    const failing = generateText({ model: modelOf(served, provider), prompt: "Hi", maxRetries: 0 });
    await expect(failing).rejects.toThrow(/broken/);
  });
});

describe.each(["responses", "chat_completions"] as const)("@openai/agents over %s", (api) => {
  test("an agent with a tool of its own", async () => {
    const served = await serve(weatherSteps);
    const client = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: served.token });
    const runner = new Runner({
      modelProvider: new OpenAIProvider({ openAIClient: client, useResponses: api === "responses" }),
      tracingDisabled: true,
    });
    const agent = new Agent({
      name: "Weather",
      instructions: "Tell the weather.",
      model: id,
      tools: [
        agentTool({
          name: "weather",
          description: "The weather of a city",
          parameters: z.object({ city: z.string() }),
          execute: async ({ city }) => `${city}: sun`,
        }),
      ],
    });
    const result = await runner.run(agent, "Weather in Rome?");
    expect(result.finalOutput).toBe("Sunny.");
    expect(JSON.stringify(served.upstream.requests[0]?.body)).toContain("Tell the weather.");
  });

  test("streamed", async () => {
    const served = await serve([{ text: ["Hel", "lo"] }]);
    const client = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: served.token });
    const runner = new Runner({
      modelProvider: new OpenAIProvider({ openAIClient: client, useResponses: api === "responses" }),
      tracingDisabled: true,
    });
    const agent = new Agent({ name: "Greeter", instructions: "Greet.", model: id });
    const result = await runner.run(agent, "Hi", { stream: true });
    let text = "";
    for await (const piece of result.toTextStream()) text += piece;
    await result.completed;
    expect(text).toBe("Hello");
  });
});
