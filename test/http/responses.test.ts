import { describe, expect, test } from "vitest";
import { eventsOf, serve, twoDoors, type WireResponse } from "./served.ts";

describe("POST /v1/responses", () => {
  test("a text in, a response out, and it can be read again", async () => {
    const served = await serve([{ text: ["Hel", "lo"] }]);
    const answer = await served.fetch("/v1/responses", { json: { model: "test-model", input: "Hi" } });
    expect(answer.status).toBe(200);
    const response = (await answer.json()) as WireResponse;
    expect(response).toMatchObject({
      object: "response",
      status: "completed",
      model: "test-model",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello" }] }],
      usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
    });
    const again = await served.fetch(`/v1/responses/${response.id}`);
    expect(await again.json()).toEqual(response);
  });

  test("the stream is the log: in order, without gaps, ended by [DONE]; a replay is the same bytes", async () => {
    const served = await serve([{ reasoning: ["hm"], text: ["Hel", "lo"] }]);
    const answer = await served.fetch("/v1/responses", { json: { model: "test-model", input: "Hi", stream: true } });
    expect(answer.headers.get("content-type")).toMatch(/^text\/event-stream/);
    const events = await eventsOf(answer);
    expect(events.at(-1)?.data).toBe("[DONE]");
    const data = events.slice(0, -1).map((one) => one.data as { sequence_number: number; type: string });
    expect(data.map((one) => one.sequence_number)).toEqual(data.map((_, index) => index));
    expect(events.slice(0, -1).map((one) => one.event)).toEqual(data.map((one) => one.type));
    const { id } = (data[0] as unknown as { response: { id: string } }).response;
    for (const after of [-1, 3, data.length - 1]) {
      const rest = await eventsOf(
        await served.fetch(`/v1/responses/${id}?stream=true${after < 0 ? "" : `&starting_after=${after}`}`),
      );
      expect(rest.slice(0, -1).map((one) => one.data)).toEqual(data.slice(after + 1));
    }
  });

  test("a function of the client comes back as function_call, and its output goes on", async () => {
    const served = await serve([{ calls: [{ name: "weather", arguments: { city: "Rome" } }] }, { text: "Sunny." }]);
    const tools = [{ type: "function", name: "weather", parameters: { type: "object", properties: {} } }];
    const first = await served.respond({ model: "test-model", input: "Weather?", tools });
    expect(first.status).toBe("completed");
    const call = first.output.at(-1);
    expect(call).toMatchObject({ type: "function_call", name: "weather", arguments: '{"city":"Rome"}' });
    const second = await served.respond({
      model: "test-model",
      previous_response_id: first.id,
      tools,
      input: [{ type: "function_call_output", call_id: call?.call_id, output: "sun" }],
    });
    expect(second.output[0]?.content[0]?.text).toBe("Sunny.");
    expect(second.previous_response_id).toBe(first.id);
  });

  test("a call that needs a person returns, and the answer in a child carries it out once", async () => {
    const served = await serve([
      { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "hello" } }] },
      { text: "Written." },
    ]);
    const first = await served.respond({ model: "test-model", input: "Write a.txt" });
    const request = first.output.at(-1);
    expect(first.status).toBe("completed");
    expect(request).toMatchObject({ type: "mcp_approval_request", name: "write", server_label: "rotunda" });
    const answer = {
      model: "test-model",
      previous_response_id: first.id,
      input: [{ type: "mcp_approval_response", approval_request_id: request?.id, approve: true }],
    };
    const second = await served.respond(answer);
    expect(second.output).toMatchObject([
      { type: "mcp_call", name: "write", status: "completed" },
      { type: "message", content: [{ text: "Written." }] },
    ]);
    const again = await served.fetch("/v1/responses", { json: answer });
    expect(again.status).toBe(409);
  });
});

test("POST /v1/chat/completions, whole and streamed", async () => {
  const served = await serve([{ text: ["Hel", "lo"] }]);
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Hi" },
  ];
  const whole = await served.fetch("/v1/chat/completions", { json: { model: "test-model", messages } });
  expect(await whole.json()).toMatchObject({
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: "Hello" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  });
  const streamed = await served.fetch("/v1/chat/completions", {
    json: { model: "test-model", messages, stream: true, stream_options: { include_usage: true } },
  });
  const events = await eventsOf(streamed);
  expect(events.at(-1)?.data).toBe("[DONE]");
  const chunks = events.slice(0, -1).map((one) => one.data as { choices: { delta: { content?: string } }[] });
  expect(chunks.map((one) => one.choices[0]?.delta.content ?? "").join("")).toBe("Hello");
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 15 } });
});

test("who speaks to a model gets the endpoint's own defaults, who speaks to an agent gets the agent's", async () => {
  const served = await serve([{ text: "x" }]);
  await served.respond({ model: "test-model", input: "Hi" });
  expect(served.upstream.requests[0]?.body).not.toHaveProperty("max_tokens");
  expect(served.upstream.requests[0]?.body).not.toHaveProperty("temperature");
  await served.respond({ model: "profile/general", input: "Hi" });
  expect(served.upstream.requests[1]?.body).toHaveProperty("max_tokens");
});

test.skipIf(twoDoors)("/metrics counts the tokens and the money of what ended, each response once", async () => {
  const usage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12, cost: 0.25 };
  const served = await serve(() => ({ text: "ok", usage }));
  await served.respond({ model: "test-model", input: "one" });
  await served.fetch("/v1/chat/completions", {
    json: { model: "test-model", messages: [{ role: "user", content: "two" }] },
  });
  const text = await (await served.fetch("/metrics")).text();
  expect(text).toContain('rotunda_tokens_total{kind="input"} 14\n');
  expect(text).toContain('rotunda_tokens_total{kind="output"} 10\n');
  expect(text).toContain("rotunda_cost_dollars_total 0.5\n");
  expect(text).toContain('rotunda_responses_total{status="completed"} 2\n');
  expect(text).toContain('rotunda_open_responses{status="queued"} 0\n');
});
