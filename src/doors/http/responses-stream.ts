/**
 * The Responses stream: events of the log as frames of server-sent events.
 *
 * Invariant: one event of the log is one frame with `event` = `type` and the log's number; the same event gives the
 * same bytes however often and wherever it is read (Open Responses, "Streaming"); `[DONE]` comes after the last event
 * and never without it.
 */

import type { App } from "../../types/app.ts";
import { isEnd, type RunEvent } from "../../types/event.ts";
import type { JsonObject } from "../../types/json.ts";
import type { RunSettings } from "../../types/response.ts";
import { customInput, hasCustomTools, InputReader } from "./custom-tools.ts";
import { begunObject, errorObject, responseObject } from "./responses-object.ts";
import { outputItem, type ReasoningWish, reasoningWish } from "./wire-items.ts";

const DONE = "data: [DONE]\n\n";
/** Characters that are put together at once. */
const MANY = 32_768;

export interface ResponseStream {
  app: App;
  id: string;
  /** Number of the last event that is known; -1: none. */
  after: number;
  /** Done before the last event is told. */
  atEnd: () => Promise<void>;
}

/** Ends without `[DONE]` where the run leaves this process. */
export async function* responseFrames(
  { app, id, after, atEnd }: ResponseStream,
  signal: AbortSignal,
): AsyncIterable<string> {
  const settings = (await app.store.node(id))?.settings ?? {};
  const translation = new Translation(app, id, settings);
  // What a piece of a custom tool's text says depends on the pieces before it.
  const from = hasCustomTools(settings) ? -1 : after;
  for await (const group of app.engine.watch(id, from, signal).groups()) {
    let text = "";
    for (const event of group) {
      let frame = event.sequence_number <= after ? translation.pass(event) : translation.frame(event);
      if (frame instanceof Promise) frame = await frame;
      if (isEnd(event)) {
        if (text !== "") yield text;
        await atEnd();
        yield (frame ?? "") + DONE;
        return;
      }
      text += frame ?? "";
      if (text.length < MANY) continue;
      yield text;
      text = "";
    }
    if (text !== "") yield text;
  }
  // Whoever knows the last event already is told that there is no more; one that left this process has no end yet.
  if (!signal.aborted && (await app.store.node(id))?.endedAt) yield DONE;
}

type Delta = Extract<RunEvent, { delta: string }>;
type PartEvent = Extract<RunEvent, { part: unknown }>;

class Translation {
  readonly #app: App;
  readonly #id: string;
  readonly #wish: ReasoningWish;
  /** Calls of custom tools, by output index. */
  readonly #custom = new Map<number, InputReader>();

  constructor(app: App, id: string, settings: RunSettings) {
    this.#app = app;
    this.#id = id;
    this.#wish = reasoningWish(settings);
  }

  /** The client knows it already. */
  pass(event: RunEvent): undefined {
    this.#note(event);
    if ("delta" in event) this.#custom.get(event.output_index)?.add(event.delta);
  }

  /** At once for what comes often. */
  frame(event: RunEvent): string | Promise<string> {
    if ("delta" in event) return this.#delta(event);
    this.#note(event);
    return this.#frame(event);
  }

  async #frame(event: Exclude<RunEvent, Delta>): Promise<string> {
    const data = await this.#data(event);
    return `event: ${data.type as string}\ndata: ${JSON.stringify(data)}\n\n`;
  }

  #note(event: RunEvent): void {
    if (event.type !== "response.output_item.added") return;
    if (event.item.type === "function_call" && event.item.custom)
      this.#custom.set(event.output_index, new InputReader());
  }

  /** By far the most frequent event: put together by hand. */
  #delta({ type: kind, sequence_number, item_id, output_index, content_index, delta }: Delta): string {
    const reader = kind === "response.function_call_arguments.delta" ? this.#custom.get(output_index) : undefined;
    const summary = kind === "response.reasoning_text.delta" && this.#wish.summary;
    const type = reader
      ? "response.custom_tool_call_input.delta"
      : summary
        ? "response.reasoning_summary_text.delta"
        : kind;
    const place = `{"type":"${type}","sequence_number":${sequence_number},"item_id":"${item_id}","output_index":${output_index}`;
    const part = kind.endsWith("arguments.delta") ? "" : `,"${summary ? "summary" : "content"}_index":${content_index}`;
    const rest = type === "response.output_text.delta" ? ',"logprobs":[]}' : "}";
    const text = JSON.stringify(reader ? reader.add(delta) : delta);
    return `event: ${type}\ndata: ${place}${part},"delta":${text}${rest}\n\n`;
  }

  /** The event as the wire has it. */
  async #data(event: Exclude<RunEvent, Delta>): Promise<JsonObject> {
    switch (event.type) {
      case "response.created":
      case "response.queued":
      case "response.in_progress":
      case "response.completed":
      case "response.failed":
      case "response.incomplete":
        return { type: event.type, sequence_number: event.sequence_number, response: await this.#snapshot(event) };
      case "response.output_item.added":
      case "response.output_item.done":
        return { ...event, item: outputItem(event.item, this.#wish) };
      case "response.content_part.added":
      case "response.content_part.done":
        return this.#part(event);
      case "response.output_text.done":
        return { ...event, logprobs: [] };
      case "response.refusal.done": {
        const { text, ...rest } = event;
        return { ...rest, refusal: text };
      }
      case "response.reasoning_text.done":
        return this.#wish.summary ? asSummary(event, "response.reasoning_summary_text.done") : { ...event };
      case "response.function_call_arguments.done": {
        if (!this.#custom.has(event.output_index)) return { ...event };
        const { arguments: written, name: _name, ...rest } = event;
        return { ...rest, type: "response.custom_tool_call_input.done", input: customInput(written) };
      }
      case "error": {
        // Flat as the reference has it, and nested as OpenAI's own server sends it.
        return { ...event, param: null, error: errorObject(event) };
      }
      default:
        return { ...event };
    }
  }

  #part(event: PartEvent): JsonObject {
    if (!this.#wish.summary || event.part.type !== "reasoning_text") return { ...event } as unknown as JsonObject;
    const type = event.type.replace("content_part", "reasoning_summary_part");
    return { ...asSummary(event, type), part: { type: "summary_text", text: event.part.text } };
  }

  async #snapshot(event: RunEvent): Promise<JsonObject> {
    const response = await this.#app.engine.get(this.#id);
    if (isEnd(event)) return responseObject(response);
    const inBackground = event.type === "response.created" && response.settings.wire?.background === true;
    return begunObject(response, inBackground || event.type === "response.queued" ? "queued" : "in_progress");
  }
}

/** The event of a reasoning's text as one of its summary. */
function asSummary(event: { content_index: number }, type: string): JsonObject {
  const { content_index: summary_index, ...rest } = event;
  return { ...rest, type, summary_index };
}
