/** The newest `openai` SDK and OpenAI's agents, unchanged, over a WebSocket. */
import { Agent, tool as agentTool, OpenAIProvider, Runner } from "@openai/agents";
import type { ResponsesServerEvent } from "openai/resources/responses/responses";
import { ResponsesWS } from "openai/resources/responses/ws";
import { expect, test } from "vitest";
import { z } from "zod";
import { serve } from "../http/served.ts";
import { later } from "../support.ts";
import { client, model } from "./openai.ts";

test("G24 the SDK's socket: turns that go on from each other, and an error that it understands", async () => {
  const { openai, served } = await client(({ body }) => ({
    text: JSON.stringify(body.messages).includes("cobalt") ? "It is cobalt." : "Which?",
  }));
  const socket = new ResponsesWS(openai);
  later(() => socket.close());
  const faults: string[] = [];
  socket.on("event", (event) => {
    if (event.type === "error") faults.push(("error" in event ? event.error.code : event.code) ?? "");
  });
  socket.on("error", () => undefined);
  const turn = async (more: object): Promise<Extract<ResponsesServerEvent, { type: "response.completed" }>> => {
    const ended = new Promise<Extract<ResponsesServerEvent, { type: "response.completed" }>>((resolve) => {
      socket.on("response.completed", resolve);
    });
    socket.send({ type: "response.create", model, store: false, ...more });
    return ended;
  };
  let said = "";
  socket.on("response.output_text.delta", ({ delta }) => {
    said += delta;
  });
  const { response } = await turn({ input: "The word is cobalt." });
  expect(said).toBe("It is cobalt.");
  const next = await turn({ input: "Which word?", previous_response_id: response.id });
  expect(next.response.previous_response_id).toBe(response.id);
  socket.send({ type: "response.create", model, input: "x", previous_response_id: response.id });
  await expect.poll(() => faults).toEqual(["previous_response_not_found"]);
  expect(served.upstream.requests).toHaveLength(2);
});

test("the agents: a tool's call and its answer over one connection", async () => {
  const served = await serve([{ calls: [{ name: "weather", arguments: { city: "Rome" } }] }, { text: "Sunny." }]);
  const modelProvider = new OpenAIProvider({
    apiKey: served.token,
    baseURL: `${served.url}/v1`,
    useResponses: true,
    useResponsesWebSocket: true,
    websocketBaseURL: `${served.url.replace("http", "ws")}/v1`,
  });
  later(() => modelProvider.close());
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const weather = agentTool({
    name: "weather",
    description: "The weather of a city",
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => `${city}: sun`,
  });
  const agent = new Agent({ name: "Guide", instructions: "Be brief.", model, tools: [weather] });
  const result = await runner.run(agent, "How is the weather in Rome?");
  expect(result.finalOutput).toBe("Sunny.");
  expect(JSON.stringify(served.upstream.requests[1]?.body)).toContain("Rome: sun");
});
