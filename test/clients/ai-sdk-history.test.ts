/** The AI SDK's Responses provider over several turns: references to stored items, sealed reasoning without a store, approvals. */
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, type ModelMessage, stepCountIs, streamText, tool } from "ai";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { serve } from "../http/served.ts";

const id = "test-model";
const weather = tool({
  description: "The weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `${city}: sun`,
});

async function client(script: UpstreamScript) {
  const served = await serve(script);
  return { served, openai: createOpenAI({ baseURL: `${served.url}/v1`, apiKey: served.token }) };
}

interface Told {
  role: string;
  content: string | null;
}

describe.each([true, false])("store: %s", (store) => {
  test("reasoning, a tool of the client and a second question: everything said reaches the model, in its order", async () => {
    const { served, openai } = await client([
      { reasoning: "I need the weather.", text: "I look.", calls: [{ name: "weather", arguments: { city: "Rome" } }] },
      { reasoning: "Sun is good.", text: "Sunny." },
      { text: "Bring a hat." },
    ]);
    const providerOptions = {
      openai: {
        store,
        reasoningSummary: "auto",
        forceReasoning: true,
        ...(!store && { include: ["reasoning.encrypted_content"] }),
      },
    };
    const model = openai.responses(id);
    const messages: ModelMessage[] = [{ role: "user", content: "Weather in Rome?" }];
    const shared = { model, providerOptions, tools: { weather }, stopWhen: stepCountIs(3) };
    const first = streamText({ ...shared, messages });
    expect(await first.text).toBe("Sunny.");
    expect(await first.reasoningText).toBe("Sun is good.");
    expect(await first.warnings).toEqual([]);
    messages.push(...(await first.responseMessages), { role: "user", content: "What should I bring?" });
    const second = await generateText({ ...shared, messages });
    expect(second.text).toBe("Bring a hat.");
    expect(second.warnings ?? []).toEqual([]);
    const told = served.upstream.requests[2]?.body.messages as unknown as Told[];
    expect(told.slice(1).map((one) => one.role)).toEqual(["user", "assistant", "tool", "assistant", "user"]);
    expect(told.slice(-2).map((one) => one.content)).toEqual(["Sunny.", "What should I bring?"]);
    expect(served.upstream.refusals).toEqual([]);
    expect(await served.app.store.list({})).toHaveLength(store ? 3 : 0);
  });
});

test("sealed reasoning comes back as what it was", async () => {
  const { served, openai } = await client([{ reasoning: "I need it.", text: "One." }, { text: "Two." }]);
  const providerOptions = { openai: { store: false, forceReasoning: true, include: ["reasoning.encrypted_content"] } };
  const messages: ModelMessage[] = [{ role: "user", content: "1?" }];
  const first = await generateText({ model: openai.responses(id), providerOptions, messages });
  const bodies: string[] = [];
  const watched = createOpenAI({
    baseURL: `${served.url}/v1`,
    apiKey: served.token,
    fetch: (url, init) => {
      bodies.push(String(init?.body));
      return fetch(url, init);
    },
  });
  messages.push(...first.response.messages, { role: "user", content: "2?" });
  await generateText({ model: watched.responses(id), providerOptions, messages });
  const sent = (JSON.parse(bodies[0] ?? "{}") as { input: { type?: string; encrypted_content?: string }[] }).input;
  const sealed = sent.find((item) => item.type === "reasoning")?.encrypted_content;
  expect(Buffer.from(sealed ?? "", "base64").toString()).toContain("I need it.");
  expect(served.upstream.refusals).toEqual([]);
});

test("a call that needs a person: asked through the SDK, approved, carried out once", async () => {
  const { served, openai } = await client([
    { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] },
    { text: "Written." },
    { text: "Again." },
  ]);
  const model = openai.responses(id);
  const tools = { mcp: openai.tools.mcp({ serverLabel: "rotunda", serverUrl: "https://example.com/mcp" }) };
  const messages: ModelMessage[] = [{ role: "user", content: "Write a.txt" }];
  const first = await generateText({ model, tools, messages });
  const request = first.content.find((part) => part.type === "tool-approval-request");
  if (request?.type !== "tool-approval-request") throw new Error("no request");
  messages.push(...first.response.messages, {
    role: "tool",
    content: [{ type: "tool-approval-response", approvalId: request.approvalId, approved: true }],
  });
  const second = await generateText({ model, tools, messages });
  expect(second.text).toBe("Written.");
  expect((await served.app.store.list({})).map((node) => node.status)).toEqual(["completed", "completed"]);
  messages.push(...second.response.messages, { role: "user", content: "And now?" });
  expect((await generateText({ model, tools, messages })).text).toBe("Again.");
  expect(served.upstream.requests).toHaveLength(3);
});

test("a reference to an item of another owner is answered like an unknown one", async () => {
  const { served } = await client([{ text: "secret" }]);
  const [mine, theirs] = [await served.newToken(), await served.newToken()];
  const made = await served.respond({ model: id, input: "Hi" }, mine);
  const ask = async (item: string, token: string) => {
    const input = [
      { type: "item_reference", id: item },
      { role: "user", content: "x" },
    ];
    const answer = await served.fetch("/v1/responses", { json: { model: id, input }, token });
    return { status: answer.status, text: (await answer.text()).replaceAll(item, "ITEM") };
  };
  const item = made.output[0]?.id ?? "";
  const other = await ask(item, theirs);
  expect(other).toEqual(await ask(`msg_${"0".repeat(26)}`, theirs));
  expect(other.status).toBe(404);
  expect((await ask(item, mine)).status).toBe(200);
});
