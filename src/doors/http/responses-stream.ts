/**
 * The Responses stream: events of the log as frames of server-sent events.
 *
 * Invariant: one event is one frame with `event` = `type`; the same event gives the same bytes however often and
 * wherever it is read (Open Responses, "Streaming"); `[DONE]` comes after the last event and never without it.
 */

import type { App } from "../../types/app.ts";
import { isEnd, type RunEvent } from "../../types/event.ts";
import type { JsonObject } from "../../types/json.ts";
import { begunObject, responseObject } from "./responses-object.ts";
import { wireItem } from "./wire-items.ts";

const DONE = "data: [DONE]\n\n";

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
  for await (const event of app.engine.watch(id, after, signal)) {
    const written = "delta" in event ? deltaText(event) : JSON.stringify(await wireEvent(app, id, event));
    const ends = isEnd(event);
    if (ends) await atEnd();
    yield `event: ${event.type}\ndata: ${written}\n\n`;
    if (ends) {
      yield DONE;
      return;
    }
  }
  // Whoever knows the last event already is told that there is no more; one that left this process has no end yet.
  if (!signal.aborted && (await app.store.node(id))?.endedAt) yield DONE;
}

type Delta = Extract<RunEvent, { delta: string }>;

/** By far the most frequent event: put together by hand. */
function deltaText({ type, sequence_number, item_id, output_index, content_index, delta }: Delta): string {
  const place = `{"type":"${type}","sequence_number":${sequence_number},"item_id":"${item_id}","output_index":${output_index}`;
  const part = type.endsWith("arguments.delta") ? "" : `,"content_index":${content_index}`;
  const rest = type === "response.output_text.delta" ? ',"logprobs":[]}' : "}";
  return `${place}${part},"delta":${JSON.stringify(delta)}${rest}`;
}

/** The event as the wire has it. */
async function wireEvent(app: App, id: string, event: RunEvent): Promise<JsonObject> {
  switch (event.type) {
    case "response.created":
    case "response.queued":
    case "response.in_progress":
    case "response.completed":
    case "response.failed":
    case "response.incomplete":
      return { type: event.type, sequence_number: event.sequence_number, response: await snapshot(app, id, event) };
    case "response.output_item.added":
    case "response.output_item.done":
      return { ...event, item: wireItem(event.item) };
    case "response.output_text.done":
      return { ...event, logprobs: [] };
    case "error": {
      // Flat as the reference has it, and nested as OpenAI's own server sends it.
      const { code, message } = event;
      return { ...event, param: null, error: { type: "server_error", code, message, param: null } };
    }
    default:
      return event as unknown as JsonObject;
  }
}

async function snapshot(app: App, id: string, event: RunEvent): Promise<JsonObject> {
  const response = await app.engine.get(id);
  if (isEnd(event)) return responseObject(response);
  const inBackground = event.type === "response.created" && response.settings.wire?.background === true;
  return begunObject(response, inBackground || event.type === "response.queued" ? "queued" : "in_progress");
}
