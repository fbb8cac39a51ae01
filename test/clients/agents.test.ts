/** OpenAI's agents, unchanged, with what their users do: conversations, handoffs, hosted servers, approvals. */
import { Agent, tool as agentTool, handoff, hostedMcpTool, OpenAIProvider, Runner } from "@openai/agents";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { serve } from "../http/served.ts";

const model = "test-model";

async function start(script: UpstreamScript, useResponses = true) {
  const served = await serve(script);
  const openai = new OpenAI({ baseURL: `${served.url}/v1`, apiKey: served.token });
  const runner = new Runner({
    modelProvider: new OpenAIProvider({ openAIClient: openai, useResponses }),
    tracingDisabled: true,
  });
  return { served, openai, runner };
}

const weather = agentTool({
  name: "weather",
  description: "The weather of a city",
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `${city}: sun`,
});

interface Told {
  role: string;
  content: string | null;
}
const contents = (messages: unknown) => (messages as Told[]).slice(1).map((one) => one.content);

describe("over responses", () => {
  test("a conversation of the server's: each turn sends only what is new", async () => {
    const { served, openai, runner } = await start([
      { text: "Hello Ada." },
      { calls: [{ name: "weather", arguments: { city: "Rome" } }] },
      { text: "Sunny, Ada." },
    ]);
    const agent = new Agent({ name: "Helper", instructions: "Help.", model, tools: [weather] });
    const { id: conversationId } = await openai.conversations.create();
    await runner.run(agent, "I am Ada.", { conversationId });
    const second = await runner.run(agent, "The weather in Rome?", { conversationId });
    expect(second.finalOutput).toBe("Sunny, Ada.");
    expect(contents(served.upstream.requests[2]?.body.messages)).toEqual([
      "I am Ada.",
      "Hello Ada.",
      "The weather in Rome?",
      null,
      "Rome: sun",
    ]);
    expect(served.upstream.refusals).toEqual([]);
  });

  test("previousResponseId", async () => {
    const { served, runner } = await start([{ text: "Hello Ada." }, { text: "Ada." }]);
    const agent = new Agent({ name: "Helper", instructions: "Help.", model });
    const first = await runner.run(agent, "I am Ada.");
    const second = await runner.run(agent, "Who am I?", { previousResponseId: first.lastResponseId ?? "" });
    expect(second.finalOutput).toBe("Ada.");
    expect(contents(served.upstream.requests[1]?.body.messages)).toEqual(["I am Ada.", "Hello Ada.", "Who am I?"]);
  });

  test("a history that the client keeps, with reasoning and calls in it", async () => {
    const { served, runner } = await start([
      { reasoning: "hm", text: "I look.", calls: [{ name: "weather", arguments: { city: "Rome" } }] },
      { text: "Sunny." },
      { text: "Bring a hat." },
    ]);
    const agent = new Agent({ name: "Helper", instructions: "Help.", model, tools: [weather] });
    const first = await runner.run(agent, "Weather?");
    const second = await runner.run(agent, [...first.history, { role: "user", content: "And?" }]);
    expect(second.finalOutput).toBe("Bring a hat.");
    expect(contents(served.upstream.requests[2]?.body.messages)).toEqual([
      "Weather?",
      "I look.",
      "Rome: sun",
      "Sunny.",
      "And?",
    ]);
    expect(served.upstream.refusals).toEqual([]);
  });

  test.each([false, true])("a call that needs a person is an interruption; approved: %s", async (approved) => {
    const { served, runner } = await start([
      { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] },
      { text: "Done." },
    ]);
    const hosted = hostedMcpTool({
      serverLabel: "rotunda",
      serverUrl: "https://example.com",
      requireApproval: "always",
    });
    const agent = new Agent({ name: "Writer", instructions: "Write.", model, tools: [hosted] });
    const first = await runner.run(agent, "Write a.txt");
    const [interruption] = first.interruptions;
    if (!interruption) throw new Error("no interruption");
    if (approved) first.state.approve(interruption);
    else first.state.reject(interruption);
    const second = await runner.run(agent, first.state);
    expect(second.finalOutput).toBe("Done.");
    const nodes = await served.app.store.list({});
    const output = (await served.app.engine.get(nodes[0]?.id ?? "")).output;
    expect(output[0]).toMatchObject({ type: "mcp_call", status: approved ? "completed" : "failed" });
    expect(nodes).toHaveLength(2);
    expect(served.upstream.requests).toHaveLength(2);
  });
});

describe.each([true, false])("over responses: %s (else chat completions)", (useResponses) => {
  test("a handoff to another agent", async () => {
    const { served, runner } = await start(
      [{ calls: [{ name: "transfer_to_Italian", arguments: {} }] }, { text: "Ciao." }],
      useResponses,
    );
    const italian = new Agent({ name: "Italian", instructions: "Speak Italian.", model });
    const agent = new Agent({ name: "Desk", instructions: "Hand over.", model, handoffs: [handoff(italian)] });
    const result = await runner.run(agent, "Ciao?");
    expect(result.finalOutput).toBe("Ciao.");
    expect(result.lastAgent?.name).toBe("Italian");
    expect(JSON.stringify(served.upstream.requests[1]?.body)).toContain("Speak Italian.");
    expect(served.upstream.refusals).toEqual([]);
  });

  test("structured output", async () => {
    const { runner } = await start([{ text: '{"degrees":21}' }], useResponses);
    const agent = new Agent({ name: "A", instructions: "x", model, outputType: z.object({ degrees: z.number() }) });
    expect((await runner.run(agent, "Weather")).finalOutput).toEqual({ degrees: 21 });
  });
});

test("a hosted server of another label does not break a request, and gets no calls", async () => {
  const { served, runner } = await start([{ text: "Hello." }]);
  const hosted = hostedMcpTool({ serverLabel: "deepwiki", serverUrl: "https://example.com/mcp" });
  const agent = new Agent({ name: "Helper", instructions: "Help.", model, tools: [hosted] });
  expect((await runner.run(agent, "Hi")).finalOutput).toBe("Hello.");
  expect(JSON.stringify(served.upstream.requests[0]?.body.tools)).not.toContain("deepwiki");
});
