/**
 * A scripted Anthropic Messages endpoint on loopback: streams the true wire, so that real agents that speak it run
 * offline.
 *
 * Invariant: it answers in the order of its script, and refuses what the real endpoint would: a tool result without
 * its call, a call without its result.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import type { JsonObject } from "../types/json.ts";

export interface AnthropicStep {
  /** Deltas, each in its own event. */
  text?: string | readonly string[];
  thinking?: string;
  calls?: readonly { name: string; input: JsonObject }[];
  /** Default: `tool_use` if there are calls, else `end_turn`. */
  stop?: string;
  /** Milliseconds before each event. */
  delay?: number;
  /** The stream stays open and silent in place of its end. */
  hang?: boolean;
  /** An error instead of an answer. */
  status?: number;
  error?: string;
}

export interface AnthropicRequest {
  body: JsonObject;
  headers: IncomingMessage["headers"];
  /** Everything that was said, as text: for looking up words. */
  text: string;
}

/** Steps in order, the last one repeating; or a function of each request. */
export type AnthropicScript =
  | readonly AnthropicStep[]
  | ((request: AnthropicRequest, number: number) => AnthropicStep | Promise<AnthropicStep>);

export interface AnthropicUpstream {
  /** What ANTHROPIC_BASE_URL takes. */
  url: string;
  /** Every request for a message so far. */
  requests: AnthropicRequest[];
  /** Why requests were answered 400. */
  refusals: string[];
  close(): Promise<void>;
}

export async function startAnthropicUpstream(script: AnthropicScript): Promise<AnthropicUpstream> {
  const requests: AnthropicRequest[] = [];
  const refusals: string[] = [];
  const server = createServer((incoming, response) => {
    handle(incoming, response).catch(() => incoming.socket.destroy());
  });

  async function handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on("error", () => undefined);
    const raw = (await buffer(incoming)).toString("utf8");
    const [path = ""] = (incoming.url ?? "").split("?");
    if (incoming.method !== "POST" || !path.startsWith("/v1/messages")) return sendError(response, 404, "no such path");
    const body = JSON.parse(raw) as JsonObject;
    if (path.endsWith("/count_tokens")) return sendJson(response, 200, { input_tokens: Math.ceil(raw.length / 4) });
    const request: AnthropicRequest = { body, headers: incoming.headers, text: JSON.stringify(body.messages) };
    requests.push(request);
    const problem = problemOf(body);
    if (problem !== null) {
      refusals.push(problem);
      return sendError(response, 400, problem);
    }
    const number = requests.length - 1;
    const step =
      typeof script === "function" ? await script(request, number) : script[Math.min(number, script.length - 1)];
    await play(step ?? {}, body, response);
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    refusals,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Why a body is unacceptable, or null. */
function problemOf(body: JsonObject): string | null {
  if (typeof body.model !== "string") return "model: field required";
  if (typeof body.max_tokens !== "number") return "max_tokens: field required";
  if (!Array.isArray(body.messages) || body.messages.length === 0) return "messages: at least one message is required";
  let open = new Set<string>();
  for (const message of body.messages as JsonObject[]) {
    const blocks = Array.isArray(message.content) ? (message.content as JsonObject[]) : [];
    if (message.role === "assistant") {
      if (open.size > 0) return `tool_use ids without tool_result: ${[...open].join(", ")}`;
      open = new Set(blocks.filter(({ type }) => type === "tool_use").map(({ id }) => String(id)));
    } else if (message.role === "user") {
      for (const { type, tool_use_id: id } of blocks) {
        if (type === "tool_result" && !open.delete(String(id))) return `unexpected tool_use_id ${id}`;
      }
      if (open.size > 0) return `tool_use ids without tool_result: ${[...open].join(", ")}`;
    }
  }
  return open.size > 0 ? `tool_use ids without tool_result: ${[...open].join(", ")}` : null;
}

let messages = 0;
let calls = 0;

function eventsOf(step: AnthropicStep, model: string): JsonObject[] {
  const usage = { input_tokens: 10, cache_creation_input_tokens: 0, cache_read_input_tokens: 4, output_tokens: 1 };
  const base = { id: `msg_test${++messages}`, type: "message", role: "assistant", model, content: [] };
  const message = { ...base, stop_reason: null, stop_sequence: null, usage };
  const events: JsonObject[] = [{ type: "message_start", message }];
  let index = 0;
  const block = (content_block: JsonObject, deltas: JsonObject[]) => {
    events.push({ type: "content_block_start", index, content_block });
    for (const delta of deltas) events.push({ type: "content_block_delta", index, delta });
    events.push({ type: "content_block_stop", index });
    index++;
  };
  if (step.thinking !== undefined) {
    const thinking = { type: "thinking_delta", thinking: step.thinking };
    block({ type: "thinking", thinking: "", signature: "" }, [
      thinking,
      { type: "signature_delta", signature: "c2ln" },
    ]);
  }
  if (step.text !== undefined) {
    const pieces = typeof step.text === "string" ? [step.text] : step.text;
    const deltas = pieces.map((text) => ({ type: "text_delta", text }));
    block({ type: "text", text: "" }, deltas);
  }
  for (const { name, input } of step.calls ?? []) {
    const json = { type: "input_json_delta", partial_json: JSON.stringify(input) };
    block({ type: "tool_use", id: `toolu_test${++calls}`, name, input: {} }, [json]);
  }
  const stop_reason = step.stop ?? (step.calls?.length ? "tool_use" : "end_turn");
  if (!step.hang) {
    events.push({ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } });
    events.push({ type: "message_stop" });
  }
  return events;
}

async function play(step: AnthropicStep, body: JsonObject, response: ServerResponse): Promise<void> {
  if (step.status !== undefined) return sendError(response, step.status, step.error ?? "scripted");
  const events = eventsOf(step, String(body.model));
  if (body.stream !== true) return sendError(response, 400, "only streams are scripted");
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const event of events) {
    if (step.delay) await sleep(step.delay);
    if (response.destroyed) return;
    response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  }
  if (!step.hang) response.end();
}

function sendError(response: ServerResponse, status: number, message: string): void {
  sendJson(response, status, { type: "error", error: { type: "invalid_request_error", message } });
}

function sendJson(response: ServerResponse, status: number, body: JsonObject): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
