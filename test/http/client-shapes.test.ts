/** What clients beside OpenAI's own send and read: shapes that the contract has and that are easily lost. */
import { expect, test } from "vitest";
import { eventsOf, type Served, serve } from "./served.ts";

const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const OTHER = PIXEL.replace("iVBORw0", "iVBORw1");
const look = { type: "function", name: "look", parameters: { type: "object", properties: {} } };
const chatLook = { type: "function", function: { name: "look", parameters: look.parameters } };
const twoCalls = {
  calls: [
    { name: "look", arguments: {} },
    { name: "look", arguments: {} },
  ],
};
const image = (image_url: string) => ({ type: "input_image", image_url, detail: "auto" });

/** What the model was told. */
function messagesOf({ upstream }: Served, request: number): { role: string; content: unknown }[] {
  return upstream.requests[request]?.body.messages as { role: string; content: string }[];
}

test("an image in the result of a client's tool reaches the model, behind all results", async () => {
  const served = await serve([twoCalls, { text: "Two pixels." }]);
  const first = await served.respond({ input: "Look twice.", tools: [look] });
  const results = first.output.map(({ call_id }, index) => ({
    type: "function_call_output",
    call_id,
    output: [{ type: "input_text", text: `shot ${index}` }, image(index === 0 ? PIXEL : OTHER)],
  }));
  const second = await served.respond({ previous_response_id: first.id, input: results, tools: [look] });
  expect(second.output.at(-1)?.content[0]?.text).toBe("Two pixels.");
  const messages = messagesOf(served, 1);
  expect(messages.slice(-3)).toMatchObject([
    { role: "tool", content: "shot 0\n[image]" },
    { role: "tool", content: "shot 1\n[image]" },
    {
      role: "user",
      content: [
        { type: "text", text: expect.stringContaining("results above") },
        { type: "image_url", image_url: { url: PIXEL } },
        { type: "image_url", image_url: { url: OTHER } },
      ],
    },
  ]);
  expect(served.upstream.refusals).toEqual([]);
});

test("what is said after such a result comes after its image; a conversation's items keep both", async () => {
  const served = await serve([{ text: "Seen." }]);
  const input = [
    { role: "user", content: "Look." },
    { type: "function_call", call_id: "call_1", name: "look", arguments: "{}" },
    { type: "function_call_output", call_id: "call_1", output: [image(PIXEL)] },
    { role: "user", content: "And now?" },
  ];
  const made = await served.respond({ input });
  const messages = messagesOf(served, 0);
  const last = JSON.stringify(messages.at(-1));
  expect(last.indexOf(PIXEL)).toBeGreaterThan(0);
  expect(last.indexOf("And now?")).toBeGreaterThan(last.indexOf(PIXEL));
  const listed = await served.fetch(`/v1/responses/${made.id}/input_items?order=asc`);
  const { data } = (await listed.json()) as { data: { type: string }[] };
  expect(data.map(({ type }) => type)).toEqual([
    "message",
    "function_call",
    "function_call_output",
    "message",
    "message",
  ]);
});

test("chat completions: an image in a tool message reaches the model too", async () => {
  const served = await serve([{ text: "A pixel." }]);
  const call = { id: "call_1", type: "function", function: { name: "look", arguments: "{}" } };
  const answer = await served.fetch("/v1/chat/completions", {
    json: {
      messages: [
        { role: "user", content: "Look." },
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "call_1", content: [{ type: "image_url", image_url: { url: PIXEL } }] },
      ],
      tools: [chatLook],
    },
  });
  expect(answer.status).toBe(200);
  const messages = messagesOf(served, 0);
  expect(messages.slice(-2)).toMatchObject([{ role: "tool", content: "[image]" }, { role: "user" }]);
  expect(JSON.stringify(messages.at(-1))).toContain(PIXEL);
});

test("a refusal has no content beside it, as in the reference", async () => {
  const served = await serve([{ refusal: "I will not." }]);
  const answer = await served.fetch("/v1/chat/completions", { json: { messages: [{ role: "user", content: "Do." }] } });
  const { choices } = (await answer.json()) as { choices: { message: unknown }[] };
  expect(choices[0]?.message).toMatchObject({ content: null, refusal: "I will not." });
});

test("a previous response that is not there is a 400, as in the reference", async () => {
  const served = await serve([{ text: "OK" }]);
  const answer = await served.fetch("/v1/responses", { json: { input: "Hi", previous_response_id: "resp_nowhere" } });
  expect(answer.status).toBe(400);
  expect(await answer.json()).toMatchObject({
    error: { code: "previous_response_not_found", param: "previous_response_id", type: "invalid_request_error" },
  });
});

test("whoever forgot the /v1 of the base URL, or wrote it twice, is told", async () => {
  const served = await serve([{ text: "OK" }]);
  for (const path of ["/chat/completions", "/responses", "/v1/v1/models"]) {
    const answer = await served.fetch(path, path.endsWith("models") ? {} : { json: { input: "Hi" } });
    expect(answer.status).toBe(404);
    expect(await answer.text()).toContain("/v1");
  }
  const other = await served.fetch("/v1/embeddings", { json: { input: "Hi" } });
  expect(await other.text()).toContain("There is nothing at this path.");
});

test("an answer that its endpoint has cut says why, so that no client takes it for the whole", async () => {
  const served = await serve([{ text: ["One, ", "two, "], break: "reset" }]);
  const error = { code: "upstream_cut", type: "server_error" };
  const made = await served.respond({ input: "Count." });
  expect(made).toMatchObject({ status: "incomplete", incomplete_details: { reason: "stream_cut" }, error });
  expect(made.output[0]?.content[0]?.text).toBe("One, two, ");
  const stream = await served.fetch("/v1/responses", { json: { input: "Count.", stream: true } });
  const last = (await eventsOf(stream)).at(-2);
  expect(last).toMatchObject({ event: "response.incomplete", data: { response: { error } } });
});
