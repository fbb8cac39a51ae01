/**
 * Codec: how a run of events is written as one row, and read back.
 *
 * Invariant: `decode(encode(events), entries)` equals `events`, once the items that they speak of have
 * their final form. What an item holds (its text, its arguments) is not written a second time: the
 * events that repeat it are markers, filled in from the items on reading.
 *
 * Format: a JSON array of records, each a JSON array that begins with a letter.
 *   S name                        response.created, queued, in_progress
 *   A index item                  output_item.added, the item as it was then
 *   D index                       output_item.done
 *   P index content type          content_part.added
 *   Q index content               content_part.done
 *   t f r c m  index content text…  deltas in a row: one event for each text
 *   T F R index content           text done, refusal done, reasoning done
 *   C M index                     arguments done
 *   X index state                 mcp_call in_progress, completed, failed
 *   E type status                 the end
 */
import { type ErrorCode, RotundaError } from "../types/error.ts";
import type { DeltaType, NewEvent, RunEvent } from "../types/event.ts";
import type { ContentPart, Item, ReasoningText } from "../types/item.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { EndedStatus } from "../types/response.ts";

/** One record of the format. */
export type EventRecord = Json[];

const deltaLetters: Record<DeltaType, string> = {
  "response.output_text.delta": "t",
  "response.refusal.delta": "f",
  "response.reasoning_text.delta": "r",
  "response.function_call_arguments.delta": "c",
  "response.mcp_call_arguments.delta": "m",
};

const letterDeltas = new Map<string, DeltaType>(
  Object.entries(deltaLetters).map(([type, letter]) => [letter, type as DeltaType]),
);

const textDone = {
  T: "response.output_text.done",
  F: "response.refusal.done",
  R: "response.reasoning_text.done",
} as const;

const doneLetters: Record<string, string> = {
  "response.output_text.done": "T",
  "response.refusal.done": "F",
  "response.reasoning_text.done": "R",
  "response.function_call_arguments.done": "C",
  "response.mcp_call_arguments.done": "M",
};

/** Events in a row as the text of one database row. */
export function encodeEvents(events: readonly RunEvent[]): string {
  return JSON.stringify(addRecords([], events));
}

/** Adds events to the records of those before them. A delta joins the last record where it goes on with it. */
export function addRecords(records: EventRecord[], events: readonly RunEvent[]): EventRecord[] {
  let last = records.at(-1);
  for (const event of events) {
    if ("delta" in event) {
      const { output_index, content_index, delta } = event;
      const letter = deltaLetters[event.type];
      if (last && last[0] === letter && last[1] === output_index && last[2] === content_index) {
        last.push(delta);
        continue;
      }
      last = [letter, output_index, content_index, delta];
    } else last = encodeOne(event);
    records.push(last);
  }
  return records;
}

function encodeOne(event: Exclude<RunEvent, { delta: string }>): EventRecord {
  switch (event.type) {
    case "response.created":
    case "response.queued":
    case "response.in_progress":
      return ["S", event.type.slice("response.".length)];
    case "response.output_item.added":
      return ["A", event.output_index, event.item as unknown as JsonObject];
    case "response.output_item.done":
      return ["D", event.output_index];
    case "response.content_part.added":
      return ["P", event.output_index, event.content_index, event.part.type];
    case "response.content_part.done":
      return ["Q", event.output_index, event.content_index];
    case "response.output_text.done":
    case "response.refusal.done":
    case "response.reasoning_text.done":
      return [doneLetters[event.type] ?? "", event.output_index, event.content_index];
    case "response.function_call_arguments.done":
    case "response.mcp_call_arguments.done":
      return [doneLetters[event.type] ?? "", event.output_index];
    case "response.mcp_call.in_progress":
    case "response.mcp_call.completed":
    case "response.mcp_call.failed":
      return ["X", event.output_index, event.type.slice("response.mcp_call.".length)];
    case "error":
      return ["!", event.code, event.message];
    default:
      return ["E", event.type.slice("response.".length), event.status];
  }
}

/** Reads a row back into events. `itemAt` gives the item at an output index in its present form. */
export function decodeEvents(first: number, body: string, itemAt: (index: number) => Item | undefined): RunEvent[] {
  return decodeRecords(first, JSON.parse(body) as EventRecord[], itemAt);
}

export function decodeRecords(
  first: number,
  records: readonly EventRecord[],
  itemAt: (index: number) => Item | undefined,
): RunEvent[] {
  const events: RunEvent[] = [];
  // An item that was never ended has no entry: it is known from the record that began it.
  const begun = new Map<number, Item>();
  const itemOf = (index: number) => itemAt(index) ?? begun.get(index);
  let sequence = first;
  for (const record of records) {
    if (record[0] === "A") begun.set(record[1] as number, record[2] as unknown as Item);
    for (const event of decodeOne(record, itemOf)) {
      events.push({ ...event, sequence_number: sequence++ } as RunEvent);
    }
  }
  return events;
}

function decodeOne(record: EventRecord, itemAt: (index: number) => Item | undefined): NewEvent[] {
  const letter = record[0] as string;
  if (letter === "S") return [{ type: `response.${record[1] as string}` as "response.created" }];
  if (letter === "E") {
    return [{ type: `response.${record[1] as string}` as "response.completed", status: record[2] as EndedStatus }];
  }
  if (letter === "!") return [{ type: "error", code: record[1] as ErrorCode, message: record[2] as string }];
  const output_index = record[1] as number;
  if (letter === "A") {
    return [{ type: "response.output_item.added", output_index, item: record[2] as unknown as Item }];
  }
  const item = itemAt(output_index);
  if (!item) throw new RotundaError("storage_damaged", `an event speaks of item ${output_index}, which is not stored`);
  const at = { output_index, item_id: item.id };
  const content_index = typeof record[2] === "number" ? record[2] : 0;
  const delta = letterDeltas.get(letter);
  if (delta) return record.slice(3).map((text) => ({ type: delta, ...at, content_index, delta: text as string }));
  switch (letter) {
    case "D":
      return [{ type: "response.output_item.done", output_index, item }];
    case "P":
      return [{ type: "response.content_part.added", ...at, content_index, part: emptyPart(record[3] as string) }];
    case "Q":
      return [{ type: "response.content_part.done", ...at, content_index, part: partOf(item, content_index) }];
    case "T":
    case "F":
    case "R":
      return [{ type: textDone[letter], ...at, content_index, text: textOf(item, content_index) }];
    case "C":
      return [
        {
          type: "response.function_call_arguments.done",
          ...at,
          ...(item.type === "function_call" && { name: item.name }),
          arguments: argumentsOf(item),
        },
      ];
    case "M":
      return [{ type: "response.mcp_call_arguments.done", ...at, arguments: argumentsOf(item) }];
    case "X":
      return [{ type: `response.mcp_call.${record[2] as string}` as "response.mcp_call.completed", ...at }];
    default:
      throw new RotundaError("storage_damaged", `unknown event letter ${JSON.stringify(letter)}`);
  }
}

/** A content part before anything was written into it. */
function emptyPart(type: string): ContentPart | ReasoningText {
  if (type === "reasoning_text") return { type: "reasoning_text", text: "" };
  return type === "refusal" ? { type: "refusal", refusal: "" } : { type: "output_text", text: "", annotations: [] };
}

function partOf(item: Item, index: number): ContentPart | ReasoningText {
  const part = item.type === "message" || item.type === "reasoning" ? item.content[index] : undefined;
  return part ?? emptyPart(item.type === "reasoning" ? "reasoning_text" : "output_text");
}

function textOf(item: Item, index: number): string {
  if (item.type === "reasoning") return item.content[index]?.text ?? "";
  const part = partOf(item, index);
  return part.type === "refusal" ? part.refusal : "text" in part ? part.text : "";
}

function argumentsOf(item: Item): string {
  return "arguments" in item ? item.arguments : "";
}
