/** `/v1/responses` over a WebSocket: what the Open Responses specification asks of it, and what goes wrong. */
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import WebSocket from "ws";
import { later } from "../support.ts";
import { type Served, serve, type WireResponse } from "./served.ts";

const model = "test-model";

interface Event {
  type: string;
  status?: number;
  sequence_number?: number;
  stream_id?: string;
  delta?: string;
  error?: { code: string; type: string; message: string; param: string | null };
  response?: WireResponse;
}

interface Client {
  socket: WebSocket;
  events: Event[];
  send(message: object): void;
  /** The events until the response, or the error, that ends a turn. */
  turn(message: object): Promise<Event[]>;
  /** The code with which it was closed. */
  closed: Promise<number>;
}

const isLast = ({ type }: Event) => type === "error" || /^response\.(completed|failed|incomplete)$/.test(type);

async function connect(served: Served, headers: Record<string, string> = {}, path = "/v1/responses"): Promise<Client> {
  const url = `${served.url.replace("http", "ws")}${path}`;
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${served.token}`, ...headers } });
  later(() => socket.terminate());
  const events: Event[] = [];
  const arrived = new EventTarget();
  socket.on("message", (data) => {
    events.push(JSON.parse(String(data)) as Event);
    arrived.dispatchEvent(new globalThis.Event("event"));
  });
  const closed = once(socket, "close").then(([code]) => code as number);
  await once(socket, "open");
  const send = (message: object) => socket.send(JSON.stringify(message));
  return {
    socket,
    events,
    closed,
    send,
    async turn(message) {
      const from = events.length;
      send(message);
      for (;;) {
        const end = events.findIndex((event, index) => index >= from && isLast(event));
        if (end !== -1) return events.slice(from, end + 1);
        await once(arrived, "event");
      }
    },
  };
}

/** The answer to a handshake that was refused. */
async function refused(served: Served, headers: Record<string, string>): Promise<{ status: number; code: string }> {
  const socket = new WebSocket(`${served.url.replace("http", "ws")}/v1/responses`, { headers });
  const [, response] = (await once(socket, "unexpected-response")) as [unknown, NodeJS.ReadableStream];
  let text = "";
  for await (const chunk of response) text += String(chunk);
  const { error } = JSON.parse(text) as { error: { code: string } };
  return { status: (response as unknown as { statusCode: number }).statusCode, code: error.code };
}

const create = (input: unknown, more: object = {}) => ({ type: "response.create", model, input, ...more });

function answerOf(events: Event[]): WireResponse {
  const response = events.at(-1)?.response;
  if (!response) throw new Error(`no response: ${JSON.stringify(events.at(-1))}`);
  return response;
}

describe("WebSocket", () => {
  test("G24 a response over a WebSocket has the events of its stream, and is stored", async () => {
    const served = await serve([{ text: ["One", " two"] }]);
    const { turn } = await connect(served);
    const events = await turn(create([{ type: "message", role: "user", content: "Count." }]));
    const response = answerOf(events);
    expect(response).toMatchObject({ status: "completed", output: [{ content: [{ text: "One two" }] }] });
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    const stream = await served.fetch(`/v1/responses/${response.id}?stream=true`);
    const frames = (await stream.text()).split("\n\n").filter((frame) => frame.startsWith("event: "));
    expect(frames.map((frame) => JSON.parse(frame.slice(frame.indexOf("\ndata: ") + 7)))).toEqual(events);
  });

  test("turns of one connection come one after the other, whatever was sent at once", async () => {
    const served = await serve(({ body }) => ({
      text: JSON.stringify(body.messages).includes("number one") ? "1" : "2",
    }));
    const client = await connect(served);
    client.send(create("number one"));
    const second = client.turn(create("number two"));
    await second;
    await expect.poll(() => client.events.filter(isLast).length).toBe(2);
    const ends = client.events.filter(isLast).map(({ response }) => response?.output[0]?.content[0]?.text);
    expect(ends).toEqual(["1", "2"]);
    const firstEnd = client.events.findIndex(isLast);
    expect(client.events[firstEnd + 1]?.type).toBe("response.created");
  });

  test("what is not stored can be gone on from on its connection only, and is erased with it", async () => {
    const asked: string[] = [];
    const served = await serve(({ body }) => {
      asked.push(JSON.stringify(body.messages));
      return { text: "OK" };
    });
    const client = await connect(served);
    const first = answerOf(await client.turn(create("The word is cobalt.", { store: false })));
    const more = { store: false, previous_response_id: first.id };
    const other = await connect(served);
    const [missed] = await other.turn(create("And?", more));
    expect(missed).toMatchObject({ type: "error", status: 400, error: { code: "previous_response_not_found" } });
    expect((await served.fetch(`/v1/responses/${first.id}`)).status).toBe(404);
    const second = answerOf(await client.turn(create("Which word?", more)));
    expect(second).toMatchObject({ status: "completed", previous_response_id: first.id });
    expect(asked.at(-1)).toContain("cobalt");
    // The same connection goes on from the last one only.
    const [stale] = await client.turn(create("And now?", more));
    expect(stale).toMatchObject({ type: "error", error: { code: "previous_response_not_found" } });
    client.socket.close();
    await client.closed;
    await expect.poll(async () => (await served.app.store.get(second.id))?.entries.length ?? 0).toBe(0);
    expect((await served.app.store.get(first.id))?.entries.length ?? 0).toBe(0);
    const again = await connect(served);
    const [gone] = await again.turn(create("Go on", { store: false, previous_response_id: second.id }));
    expect(gone?.error?.code).toBe("previous_response_not_found");
    expect(answerOf(await again.turn(create("Anew", { store: false }))).status).toBe("completed");
  });

  test("a failed try to go on gives up what was held; a call that was never made has no output", async () => {
    const served = await serve(() => ({ text: "OK" }));
    const { turn } = await connect(served);
    const { id } = answerOf(await turn(create("ember", { store: false })));
    const output = [{ type: "function_call_output", call_id: "call_none", output: "nothing" }];
    const [failed] = await turn(create(output, { store: false, previous_response_id: id }));
    expect(failed).toMatchObject({ type: "error", status: 400, error: { param: "input" } });
    const [stale] = await turn(create("Go on", { store: false, previous_response_id: id }));
    expect(stale?.error?.code).toBe("previous_response_not_found");
  });

  test("an endpoint that fails: the events of a failed response, and the next turn is a turn of its own", async () => {
    const served = await serve([{ status: 400, body: { error: { message: "no such thing" } } }, { text: "OK" }]);
    const client = await connect(served);
    client.send(create("fails", { store: false }));
    await expect
      .poll(() => client.events.some(({ type }) => type === "response.failed"), { timeout: 10_000 })
      .toBe(true);
    expect(answerOf(await client.turn(create("works"))).status).toBe("completed");
  });

  test("tools of the client: the call, its output, the answer", async () => {
    const served = await serve([{ calls: [{ name: "get_weather", arguments: { city: "Paris" } }] }, { text: "Sunny" }]);
    const { turn } = await connect(served);
    const tools = [{ type: "function", name: "get_weather", parameters: { type: "object", properties: {} } }];
    const asked = answerOf(await turn(create("Weather?", { tools, store: false })));
    expect(asked.output[0]).toMatchObject({ type: "function_call", name: "get_weather" });
    const output = [{ type: "function_call_output", call_id: asked.output[0]?.call_id, output: "22" }];
    const told = answerOf(await turn(create(output, { tools, store: false, previous_response_id: asked.id })));
    expect(told.output[0]?.content[0]?.text).toBe("Sunny");
  });

  test("generate: false prepares what a later turn goes on from, and asks no model", async () => {
    const served = await serve([{ text: "cobalt" }]);
    const { turn } = await connect(served);
    const warm = answerOf(await turn(create("The word is cobalt.", { generate: false, store: false })));
    expect(warm).toMatchObject({ status: "completed", output: [] });
    expect(served.upstream.requests).toHaveLength(0);
    const told = answerOf(await turn(create("Which?", { previous_response_id: warm.id, store: false })));
    expect(told.output[0]?.content[0]?.text).toBe("cobalt");
    expect(JSON.stringify(served.upstream.requests[0]?.body)).toContain("The word is cobalt.");
  });

  test("streams of one connection run beside each other, and their events say whose they are", async () => {
    const served = await serve(({ body }) => {
      const slow = JSON.stringify(body.messages).includes("slow");
      return { text: Array.from({ length: slow ? 40 : 2 }, (_, at) => `${at} `), delay: 20 };
    });
    const client = await connect(served);
    client.send(create("slow", { stream_id: "a" }));
    client.send(create("quick", { stream_id: "b" }));
    await expect.poll(() => client.events.filter(isLast).length, { timeout: 20_000 }).toBe(2);
    expect(client.events.filter(isLast).map(({ stream_id }) => stream_id)).toEqual(["b", "a"]);
    expect(client.events.every(({ stream_id }) => stream_id === "a" || stream_id === "b")).toBe(true);
  });

  test("what is no message, or cannot be done here, is an error, and the connection goes on", async () => {
    const served = await serve([{ text: "OK" }]);
    const client = await connect(served);
    const errors: [string, number, string | null][] = [];
    const wrong = [
      "{",
      "[]",
      JSON.stringify({ type: "session.update" }),
      JSON.stringify(create("x", { background: true })),
      JSON.stringify(create("x", { model: "no-such-model" })),
      JSON.stringify(create("x", { temperature: 9 })),
      JSON.stringify(create([])),
    ];
    for (const text of wrong) {
      const from = client.events.length;
      client.socket.send(text);
      await expect.poll(() => client.events.length).toBe(from + 1);
      const { error, status } = client.events[from] ?? {};
      errors.push([error?.type ?? "", status ?? 0, error?.param ?? null]);
    }
    expect(errors.map(([, status]) => status)).toEqual([400, 400, 400, 400, 404, 400, 400]);
    expect(errors.map(([, , param]) => param).slice(2, 6)).toEqual(["type", "background", "model", "temperature"]);
    client.socket.send(Buffer.from("binary"));
    await expect.poll(() => client.events.length).toBe(wrong.length + 1);
    expect(answerOf(await client.turn(create("x", { stream: true, stream_options: {} }))).status).toBe("completed");
  });

  test("K13 a handshake without a token, of a foreign page or another host is refused as any request is", async () => {
    const served = await serve([]);
    const authorization = `Bearer ${served.token}`;
    expect(await refused(served, {})).toEqual({ status: 401, code: "invalid_api_key" });
    expect(await refused(served, { authorization, host: "evil.example" })).toMatchObject({ code: "host_not_allowed" });
    expect(await refused(served, { authorization, origin: "https://evil.example" })).toMatchObject({ status: 403 });
    const reader = await served.newToken({ scopes: ["responses:read"] });
    expect(await refused(served, { authorization: `Bearer ${reader}` })).toMatchObject({ code: "insufficient_scope" });
    // Where there is no WebSocket, and for other protocols, the wish for one is passed over.
    for (const [path, upgrade] of [
      ["/v1/models", "websocket"],
      ["/v1/responses", "h2c"],
    ] as const) {
      const headers = { authorization, connection: "upgrade", upgrade };
      const plain = request(`${served.url}${path}`, { headers }).end();
      const [answer] = (await once(plain, "response")) as [IncomingMessage];
      expect(answer.statusCode).toBe(200);
      answer.resume();
    }
  });

  test("whose client has gone is cancelled; whose token is taken back is closed", async () => {
    const served = await serve(() => ({ text: Array.from({ length: 500 }, (_, at) => `${at} `), delay: 20 }));
    const client = await connect(served);
    client.send(create("Talk"));
    await expect.poll(() => client.events.some(({ delta }) => delta !== undefined)).toBe(true);
    const id = client.events.find(({ response }) => response)?.response?.id ?? "";
    client.socket.terminate();
    await expect.poll(async () => (await served.app.store.node(id))?.status, { timeout: 10_000 }).toBe("cancelled");

    const text = await served.newToken();
    const named = await connect(served, { authorization: `Bearer ${text}` });
    const [token] = await served.app.store.tokens();
    if (token) await served.app.store.saveToken({ ...token, revokedAt: Date.now() });
    expect(await named.closed).toBe(1008);
  });

  test("another owner's responses are as unknown as those that do not exist", async () => {
    const served = await serve(() => ({ text: "OK" }));
    const mine = await served.respond({ model, input: "Mine" });
    const { turn } = await connect(served, { authorization: `Bearer ${await served.newToken()}` });
    const [foreign] = await turn(create("And?", { previous_response_id: mine.id }));
    const unknown = mine.id.replace(/....$/, "zzzz");
    const [none] = await turn(create("And?", { previous_response_id: unknown }));
    const without = (event: Event | undefined) =>
      JSON.stringify(event).replaceAll(mine.id, "ID").replaceAll(unknown, "ID");
    expect(without(foreign)).toBe(without(none));
    expect(foreign?.error?.code).toBe("previous_response_not_found");
  });

  test("a server that ends lets the turn come to its end, and closes the connection as going away", async () => {
    const served = await serve(() => ({ text: Array.from({ length: 30 }, (_, at) => `${at} `), delay: 20 }));
    const [idle, busy] = [await connect(served), await connect(served)];
    const turn = busy.turn(create("Talk"));
    await sleep(200);
    const stopped = served.door.close({ seconds: 5 });
    expect(await idle.closed).toBe(1001);
    expect(answerOf(await turn).status).toBe("completed");
    expect(await busy.closed).toBe(1001);
    await stopped;
  });

  test("a connection is open for its time: the turn that runs comes to its end, and the client is told why", async () => {
    const script = () => ({ text: Array.from({ length: 30 }, (_, at) => `${at} `), delay: 50 });
    const served = await serve(script, { door: { socketLife: 500 } });
    const [idle, busy] = [await connect(served), await connect(served)];
    const turn = await busy.turn(create("Talk"));
    expect(answerOf(turn).status).toBe("completed");
    for (const { closed, events } of [idle, busy]) {
      expect(await closed).toBe(1001);
      expect(events.at(-1)?.error?.code).toBe("websocket_connection_limit_reached");
    }
  });

  test("a handshake that is none is a clear error; a long life is not counted as a slow answer", async () => {
    const lines: string[] = [];
    const served = await serve([], { door: { accessLog: true, log: (line) => lines.push(line) } });
    const headers = { authorization: `Bearer ${served.token}`, connection: "upgrade", upgrade: "websocket" };
    const plain = request(`${served.url}/v1/responses`, { headers }).end();
    const [answer] = (await once(plain, "response")) as [IncomingMessage];
    let text = "";
    for await (const chunk of answer) text += String(chunk);
    expect(answer.statusCode).toBe(400);
    expect(answer.headers["sec-websocket-version"]).toBe("13");
    expect((JSON.parse(text) as Event).error?.message).toContain("Sec-WebSocket-Key");
    const client = await connect(served);
    await sleep(1_500);
    client.socket.close();
    const logged = () => lines.map((line) => JSON.parse(line) as { status?: number; ms: number });
    await expect.poll(() => logged().map(({ status }) => status)).toEqual([400, 101]);
    expect(logged()[1]?.ms).toBeGreaterThan(1_400);
    const metrics = await (await served.fetch("/metrics")).text();
    const [, sum = "none"] = /request_duration_seconds_sum\{[^}]*\(none\)[^}]*\} (\S+)/.exec(metrics) ?? [];
    expect(Number(sum)).toBeLessThan(1);
  });

  test("what is too long closes the connection, and nothing else", async () => {
    const served = await serve([{ text: "OK" }], { door: { bodyLimit: 100_000 } });
    const [big, other] = [await connect(served), await connect(served)];
    big.send(create("x".repeat(200_000)));
    expect(await big.closed).toBe(1009);
    expect(answerOf(await other.turn(create("x".repeat(50_000)))).status).toBe("completed");
  });
});
