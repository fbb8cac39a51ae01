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

test("usage has every number that the contract requires, in each form", async () => {
  const served = await serve([{ text: "OK" }]);
  const made = (await served.respond({ input: "Hi" })) as unknown as { usage: object };
  const usage = { input_tokens: 10, input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 } };
  expect(made.usage).toMatchObject(usage);
  const stream = await served.fetch("/v1/responses", { json: { input: "Hi", stream: true } });
  expect((await eventsOf(stream)).at(-2)).toMatchObject({ data: { response: { usage } } });
  const compacted = await served.fetch("/v1/responses/compact", { json: { model: "test-model", input: "Hi" } });
  expect(await compacted.json()).toMatchObject({ usage });
});

test("the end of a function's arguments names it, live and read again", async () => {
  const served = await serve([twoCalls]);
  const stream = await served.fetch("/v1/responses", { json: { input: "Look.", tools: [look], stream: true } });
  const live = await eventsOf(stream);
  const ends = live.filter(({ event }) => event === "response.function_call_arguments.done");
  expect(ends).toMatchObject([{ data: { name: "look", arguments: "{}" } }, { data: { name: "look" } }]);
  const { response } = (live[0]?.data ?? {}) as { response: { id: string } };
  const again = await eventsOf(await served.fetch(`/v1/responses/${response.id}?stream=true`));
  expect(again).toEqual(live);
});

test("no character of an event ends a line for clients that split as Python does", async () => {
  const said = "a\u2028b\u2029c\u0085d";
  const served = await serve(() => ({ text: said }));
  const chat = { messages: [{ role: "user", content: said }], stream: true };
  for (const [path, json] of [
    ["/v1/chat/completions", chat],
    ["/v1/responses", { input: said, stream: true }],
  ] as const) {
    const text = await (await served.fetch(path, { json })).text();
    expect(text).not.toMatch(/[\u0085\u2028\u2029]/);
    expect(text).toContain("a\\u2028b\\u2029c\\u0085d");
    const events = text.split("\n").filter((line) => line.startsWith("data: {"));
    expect(events.some((line) => JSON.stringify(JSON.parse(line.slice(6))).includes(said))).toBe(true);
  }
});

test("system messages at the beginning take the place of the default profile's words, in both dialects", async () => {
  const config = { profiles: { general: { instructions: "WORDS OF THE PROFILE" } } };
  const served = await serve(() => ({ text: "OK" }), { config });
  const system = async (path: string, json: object) => {
    const answer = await served.fetch(path, { json });
    expect(answer.status).toBe(200);
    const told = messagesOf(served, served.upstream.requests.length - 1)[0]?.content;
    return { told: String(told), id: ((await answer.json()) as { id: string }).id };
  };
  const messages = [
    { role: "system", content: "MINE" },
    { role: "user", content: "Hi" },
  ];
  const chat = await system("/v1/chat/completions", { messages });
  const first = await system("/v1/responses", { input: messages });
  const next = await system("/v1/responses", { input: "And?", previous_response_id: first.id });
  for (const { told } of [chat, first, next]) {
    expect(told).toContain("MINE");
    expect(told).not.toContain("WORDS OF THE PROFILE");
  }
  const agent = await system("/v1/responses", { model: "profile/general", input: messages });
  expect(agent.told).toMatch(/WORDS OF THE PROFILE[\s\S]*MINE/);
  const without = await system("/v1/responses", { input: "Hi" });
  expect(without.told).toContain("WORDS OF THE PROFILE");
});

test("an output needs its call, whatever it goes on from", async () => {
  const served = await serve(() => ({ text: "OK" }));
  const conversation = ((await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string }).id;
  const output = { type: "function_call_output", call_id: "call_1", output: "x" };
  const call = { type: "function_call", call_id: "call_1", name: "look", arguments: "{}" };
  const status = async (json: object) => (await served.fetch("/v1/responses", { json })).status;
  expect(await status({ input: [output] })).toBe(400);
  expect(await status({ input: [output], conversation })).toBe(400);
  expect(await status({ input: [{ ...call, type: "local_shell_call", action: {} }, output] })).toBe(200);
  expect(await status({ input: [call, output] })).toBe(200);
  expect(await status({ input: [call], conversation })).toBe(200);
  expect(await status({ input: [output], conversation })).toBe(200);
});

test("a conversation of chat completions keeps its system message, sent along again or not", async () => {
  const config = { profiles: { general: { instructions: "WORDS OF THE PROFILE" } } };
  const served = await serve(() => ({ text: "OK" }), { config });
  const system = { role: "system", content: "MINE" };
  const ask = async (messages: object[], more: object = {}) => {
    const json = { messages, conversation_id: "talk", ...more };
    expect((await served.fetch("/v1/chat/completions", { json })).status).toBe(200);
    const told = messagesOf(served, served.upstream.requests.length - 1);
    return { system: String(told[0]?.content), count: told.length };
  };
  const first = [system, { role: "user", content: "One" }];
  const whole = [...first, { role: "assistant", content: "OK" }, { role: "user", content: "Two" }];
  const three = { role: "user", content: "Three" };
  for (const [index, messages] of [first, whole, [three]].entries()) {
    const told = await ask(messages);
    expect(told.system).toContain("MINE");
    expect(told.system).not.toContain("WORDS OF THE PROFILE");
    expect(told.count).toBe(2 + 2 * index);
  }
  const changed = await ask([{ ...system, content: "OTHER" }, ...whole.slice(1)]);
  expect(changed.system).toContain("OTHER");
  expect(changed.system).not.toContain("MINE");
  expect((await ask([three], { model: "profile/general" })).system).toContain("WORDS OF THE PROFILE");
});
