/**
 * A scripted model endpoint on loopback that speaks the true chat-completions wire, with every fault that
 * a real one has: wrong statuses, hangs, resets, cut streams, split characters, hostile sizes.
 *
 * Invariant: it is stricter than real endpoints. A body that any of them would refuse is answered 400, so a
 * client that passes here passes there.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject } from "../types/json.ts";
import { findProblem, parseObject } from "./request-problem.ts";

/** One tool call of an answer. */
export interface UpstreamCall {
  /** Default `call_<n>`, counted over the server's life. `""` leaves it out, as some endpoints do. */
  id?: string;
  name: string;
  /** Text as it goes over the wire; an array is sent fragment by fragment; an object is serialised. */
  arguments: string | string[] | JsonObject;
  /** Further fields of the first fragment (`extra_content` with a signature, …). */
  extra?: JsonObject;
}

/** What goes wrong at a place of the answer. "hang": silence, socket open; "reset": TCP reset; "end": a clean end. */
export type UpstreamBreak = "hang" | "reset" | "end";

/** A well-formed answer, streamed or as one body, as the request asked. */
export interface AnswerStep {
  /** Deltas, each in its own event. */
  text?: string | readonly string[];
  refusal?: string;
  reasoning?: string | readonly string[];
  /** Default `reasoning_content`. */
  reasoningField?: "reasoning_content" | "reasoning" | "thinking";
  /** Each is sent verbatim as the one member of `reasoning_details` of its own event. */
  reasoningDetails?: readonly JsonObject[];
  calls?: readonly UpstreamCall[];
  /** The fragments of the calls alternate instead of following each other. */
  interleave?: boolean;
  /** Default: `tool_calls` if there are calls, else `stop`; null: never said. */
  finish?: string | null;
  /** Default: 10 in, 5 out. null: none. */
  usage?: JsonObject | null;
  /** Send `[DONE]`. Default true. */
  done?: boolean;
  /** Milliseconds before the headers. */
  latency?: number;
  /** Milliseconds before each event. */
  delay?: number;
  /** Cut the wire into pieces of this many bytes, whatever they split. */
  pieces?: number;
  /** Answer with one JSON body although a stream was asked for. */
  json?: boolean;
  /** Verbatim event data, before the finish: `{}` or broken JSON. */
  events?: readonly string[];
  /** Happens in place of the finish. */
  break?: UpstreamBreak;
  headers?: Record<string, string>;
}

/** Any HTTP answer, verbatim. A number in `write` waits that many milliseconds. */
export interface RawStep {
  status?: number;
  headers?: Record<string, string>;
  body?: string | JsonObject;
  write?: readonly (string | Uint8Array | number)[];
  latency?: number;
  break?: UpstreamBreak;
}

/** Any of the above, or no answer at all: silence, or a reset, before the headers. */
export type UpstreamStep = AnswerStep | RawStep | { silent: "hang" | "reset" };

export interface UpstreamRequest {
  method: string;
  path: string;
  headers: Record<string, string | string[] | undefined>;
  /** The parsed body; `{}` for none. */
  body: JsonObject;
  /** Length of the body in bytes. */
  size: number;
  /** Milliseconds since the epoch. */
  time: number;
  /** Number of the client's connection, from 1: equal numbers mean a reused connection. */
  connection: number;
  /** Settles when the client has gone or the answer is complete. True: it went before the end. */
  gone: Promise<boolean>;
}

/** Steps in order, the last one repeating; or a function of each request. */
export type UpstreamScript =
  | readonly UpstreamStep[]
  | ((request: UpstreamRequest, number: number) => UpstreamStep | Promise<UpstreamStep>);

export interface UpstreamOptions {
  /** What `GET /models` and `/api/tags` list. Default `["test-model"]`. */
  models?: readonly string[];
  /** Refuse requests whose `Authorization` is not `Bearer <key>`. */
  key?: string;
  /** Answer 400 to any body with one of these fields. */
  refuseFields?: readonly string[];
  /**
   * For benchmarks: chooses a whole answer, made before by `serialiseAnswer`, from the raw body. Nothing is
   * checked or recorded.
   */
  fast?: (body: Buffer) => Buffer;
}

export interface Upstream {
  /** Base URL, up to and including `/v1`. */
  url: string;
  /** Every completion request so far, refused ones included. */
  requests: UpstreamRequest[];
  /** Why requests were answered 400, in order. */
  refusals: string[];
  close(): Promise<void>;
}

/** Starts the endpoint on a free loopback port. */
export async function startUpstream(script: UpstreamScript, options: UpstreamOptions = {}): Promise<Upstream> {
  const requests: UpstreamRequest[] = [];
  const refusals: string[] = [];
  const connections = new WeakMap<object, number>();
  let connectionCount = 0;
  const server = createServer((incoming, response) => {
    const connection = connections.get(incoming.socket) ?? 0;
    handle(incoming, response, connection).catch(() => incoming.socket.destroy());
  });
  server.on("connection", (socket) => connections.set(socket, ++connectionCount));
  server.on("clientError", (_, socket) => socket.destroy());
  server.keepAliveTimeout = 60_000;

  async function handle(incoming: IncomingMessage, response: ServerResponse, connection: number): Promise<void> {
    response.on("error", () => {});
    const raw = await buffer(incoming);
    if (options.fast && incoming.method === "POST") {
      response.writeHead(200, { "content-type": "text/event-stream" }).end(options.fast(raw));
      return;
    }
    const path = incoming.url ?? "/";
    if (incoming.method === "GET") return sendModels(response, path, options.models ?? ["test-model"]);
    const gone = new Promise<boolean>((resolve) => response.on("close", () => resolve(!response.writableFinished)));
    const { method = "", headers } = incoming;
    const parsed = parseObject(raw);
    const body = parsed ?? {};
    const request = { method, path, headers, body, size: raw.length, time: Date.now(), connection, gone };
    requests.push(request);
    if (options.key !== undefined && headers.authorization !== `Bearer ${options.key}`)
      return sendError(response, 401, `Incorrect API key provided: ${headers.authorization}`, "invalid_api_key");
    const unwanted = options.refuseFields?.find((field) => field in body);
    const problem = parsed ? findProblem(body) : "the body is not a JSON object";
    const refusal = unwanted ? `Unrecognized request argument supplied: ${unwanted}` : problem;
    if (refusal !== null) {
      refusals.push(refusal);
      return sendError(response, 400, refusal, null);
    }
    const number = requests.length - 1;
    const step =
      typeof script === "function" ? await script(request, number) : script[Math.min(number, script.length - 1)];
    await play(step ?? {}, request, response);
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${port}/v1`, requests, refusals, close };
}

/** The whole event stream of an answer as one buffer, for `UpstreamOptions.fast`. */
export function serialiseAnswer(step: AnswerStep, model = "test-model"): Buffer {
  return Buffer.from(renderEvents(step, model, true).join(""));
}

let callCount = 0;

function fragmentsOf(call: UpstreamCall, index: number): JsonObject[] {
  const { name, extra } = call;
  const id = call.id ?? `call_${++callCount}`;
  const text = typeof call.arguments === "string" ? [call.arguments] : call.arguments;
  const pieces = Array.isArray(text) ? (text as string[]) : [JSON.stringify(text)];
  const first = { index, ...(id === "" ? {} : { id }), type: "function", ...extra };
  return pieces.map((piece, number) =>
    number === 0 ? { ...first, function: { name, arguments: piece } } : { index, function: { arguments: piece } },
  );
}

function callDeltas(step: AnswerStep): JsonObject[] {
  const lists = (step.calls ?? []).map(fragmentsOf);
  const longest = Math.max(0, ...lists.map((list) => list.length));
  const turns = Array.from({ length: longest }, (_, at) => lists.map((list) => list[at]));
  return (step.interleave ? turns : lists).flat().flatMap((fragment) => (fragment ? { tool_calls: [fragment] } : []));
}

function deltasOf(step: AnswerStep): JsonObject[] {
  const list = (value: string | readonly string[] | undefined) => (typeof value === "string" ? [value] : (value ?? []));
  const field = step.reasoningField ?? "reasoning_content";
  return [
    { role: "assistant", content: "" },
    ...list(step.reasoning).map((piece) => ({ [field]: piece })),
    ...(step.reasoningDetails ?? []).map((detail) => ({ reasoning_details: [detail] })),
    ...list(step.text).map((content) => ({ content })),
    ...(step.refusal === undefined ? [] : [{ refusal: step.refusal }]),
    ...callDeltas(step),
  ];
}

const defaultUsage: JsonObject = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

function renderEvents(step: AnswerStep, model: string, withUsage: boolean): string[] {
  const base = { id: "chatcmpl-test", object: "chat.completion.chunk", created: 1_700_000_000, model };
  const event = (data: JsonObject) => `data: ${JSON.stringify({ ...base, ...data })}\n\n`;
  const choice = (delta: JsonObject, finish: string | null) =>
    event({ choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }] });
  const events = deltasOf(step).map((delta) => choice(delta, null));
  for (const data of step.events ?? []) events.push(`data: ${data}\n\n`);
  if (step.break !== undefined) return events;
  const { finish = step.calls?.length ? "tool_calls" : "stop" } = step;
  if (finish !== null) events.push(choice({}, finish));
  if (withUsage && step.usage !== null) events.push(event({ choices: [], usage: step.usage ?? defaultUsage }));
  if (step.done !== false) events.push("data: [DONE]\n\n");
  return events;
}

function renderWhole(step: AnswerStep, model: string): JsonObject {
  const message: JsonObject = { role: "assistant", content: null };
  for (const [key, value] of deltasOf({ ...step, calls: [] })
    .slice(1)
    .flatMap((delta) => Object.entries(delta))) {
    if (typeof value === "string") message[key] = `${message[key] ?? ""}${value}`;
    else message[key] = [...((message[key] ?? []) as []), ...(value as [])];
  }
  const whole = (given: UpstreamCall["arguments"]) => (Array.isArray(given) ? given.join("") : given);
  const calls = step.calls?.flatMap((call, index) => fragmentsOf({ ...call, arguments: whole(call.arguments) }, index));
  if (calls?.length) message.tool_calls = calls;
  const choices = [{ index: 0, message, finish_reason: step.finish ?? (calls?.length ? "tool_calls" : "stop") }];
  const head = { id: "chatcmpl-test", object: "chat.completion", created: 1_700_000_000, model };
  return { ...head, choices, usage: step.usage ?? defaultUsage };
}

async function play(step: UpstreamStep, request: UpstreamRequest, response: ServerResponse): Promise<void> {
  if ("silent" in step) return finishWith(step.silent, response);
  if (step.latency) await sleep(step.latency);
  if (isRaw(step)) return playRaw(step, response);
  const model = String(request.body.model);
  if (step.json || request.body.stream !== true) return sendJson(response, 200, renderWhole(step, model), step.headers);
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache", ...step.headers });
  const withUsage = (request.body.stream_options as JsonObject | undefined)?.include_usage === true;
  const events = renderEvents(step, model, withUsage);
  const whole = Buffer.from(step.pieces ? events.join("") : "");
  const size = step.pieces ?? 1;
  const cut = Array.from({ length: Math.ceil(whole.length / size) }, (_, at) =>
    whole.subarray(at * size, (at + 1) * size),
  );
  for (const piece of step.pieces ? cut : events.map((event) => Buffer.from(event))) {
    if (step.delay) await sleep(step.delay);
    if (!(await write(response, piece))) return;
    // Pieces of a wire that is to be split must not be joined again by the kernel.
    if (step.pieces) await sleep(1);
  }
  finishWith(step.break ?? "end", response);
}

const isRaw = (step: AnswerStep | RawStep): step is RawStep => "status" in step || "body" in step || "write" in step;

async function playRaw(step: RawStep, response: ServerResponse): Promise<void> {
  const type = typeof step.body === "object" ? "application/json" : "text/event-stream";
  response.writeHead(step.status ?? 200, { "content-type": type, ...step.headers });
  response.flushHeaders();
  if (step.body !== undefined)
    await write(response, Buffer.from(typeof step.body === "string" ? step.body : JSON.stringify(step.body)));
  for (const piece of step.write ?? []) {
    if (typeof piece === "number") await sleep(piece);
    else if (!(await write(response, Buffer.from(piece as Uint8Array)))) return;
  }
  finishWith(step.break ?? "end", response);
}

/** Writes with back-pressure. False: the client has gone. */
async function write(response: ServerResponse, piece: Buffer): Promise<boolean> {
  if (response.destroyed) return false;
  if (!response.write(piece)) {
    const control = new AbortController();
    await Promise.race(["drain", "close"].map((name) => once(response, name, { signal: control.signal })));
    control.abort();
  }
  return !response.destroyed;
}

function finishWith(end: UpstreamBreak, response: ServerResponse): void {
  if (end === "end") response.end();
  // Without the turn of the loop, what was written last would be lost with the connection.
  else if (end === "reset") setTimeout(() => response.socket?.resetAndDestroy(), 5);
}

function sendModels(response: ServerResponse, path: string, models: readonly string[]): void {
  const data = models.map((id) => ({ id, object: "model", owned_by: "test" }));
  if (!path.endsWith("/models") && !path.endsWith("/api/tags")) sendError(response, 404, "no such path", null);
  else sendJson(response, 200, { object: "list", data, models: models.map((name) => ({ name })) });
}

function sendError(response: ServerResponse, status: number, message: string, code: string | null): void {
  sendJson(response, status, { error: { message, type: "invalid_request_error", param: null, code } });
}

function sendJson(response: ServerResponse, status: number, body: JsonObject, headers?: Record<string, string>): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}
