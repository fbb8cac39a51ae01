/**
 * Events: the durable facts of a run, in the types of the Responses stream.
 *
 * Invariant: one gap-free `sequence_number` per response, from 0; no event is seen by anyone before it
 * is committed. The `response` snapshot that the Responses wire adds to some events is made by the door.
 */
import type { ErrorCode } from "./error.ts";
import type { ContentPart, Item, ReasoningText } from "./item.ts";
import type { EndedStatus } from "./response.ts";

interface At {
  sequence_number: number;
}

interface InItem extends At {
  output_index: number;
  item_id: string;
}

export interface ResponseStateEvent extends At {
  type: "response.created" | "response.queued" | "response.in_progress";
}

export interface OutputItemEvent extends At {
  type: "response.output_item.added" | "response.output_item.done";
  output_index: number;
  item: Item;
}

export interface ContentPartEvent extends InItem {
  type: "response.content_part.added" | "response.content_part.done";
  content_index: number;
  part: ContentPart | ReasoningText;
}

export type DeltaType =
  | "response.output_text.delta"
  | "response.refusal.delta"
  | "response.reasoning_text.delta"
  | "response.function_call_arguments.delta"
  | "response.mcp_call_arguments.delta";

export interface DeltaEvent extends InItem {
  type: DeltaType;
  content_index: number;
  delta: string;
}

export interface TextDoneEvent extends InItem {
  type: "response.output_text.done" | "response.refusal.done" | "response.reasoning_text.done";
  content_index: number;
  text: string;
}

export interface ArgumentsDoneEvent extends InItem {
  type: "response.function_call_arguments.done" | "response.mcp_call_arguments.done";
  arguments: string;
  /** Of a function. */
  name?: string;
}

export interface CallStateEvent extends InItem {
  type: "response.mcp_call.in_progress" | "response.mcp_call.completed" | "response.mcp_call.failed";
}

/** Why it fails: right before `response.failed` (Open Responses, "Errors"). */
export interface ErrorEvent extends At {
  type: "error";
  code: ErrorCode;
  message: string;
}

/** Terminal: the last event of every response. A cancelled response ends with `response.incomplete`. */
export interface EndEvent extends At {
  type: "response.completed" | "response.failed" | "response.incomplete";
  status: EndedStatus;
}

export type RunEvent =
  | ResponseStateEvent
  | OutputItemEvent
  | ContentPartEvent
  | DeltaEvent
  | TextDoneEvent
  | ArgumentsDoneEvent
  | CallStateEvent
  | ErrorEvent
  | EndEvent;

type WithoutSequence<E> = E extends At ? Omit<E, "sequence_number"> : never;

/** An event before it has its place. */
export type NewEvent = WithoutSequence<RunEvent>;

/** Passing news about a run (a retry, a tool's progress, a hub state): told as it happens, never stored. */
export interface Notice {
  responseId: string | null;
  level: "debug" | "info" | "warn" | "error";
  /** What it is about, for filters: "llm", "tools", "mcp", "engine", "config". */
  topic: "llm" | "tools" | "mcp" | "engine" | "config";
  text: string;
  /** Id of the `mcp_call` item that it is about. */
  itemId?: string;
  /** Of the run, where it is traced. */
  traceId?: string;
}

export type Notify = (notice: Notice) => void;

export function isEnd(event: RunEvent): event is EndEvent {
  return (
    event.type === "response.completed" || event.type === "response.failed" || event.type === "response.incomplete"
  );
}
