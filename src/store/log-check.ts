/** Whether a log says what the items say. Invariant: a log whose pieces do not fit its items is damaged, and never given. */
import { isEnd, type RunEvent } from "../types/event.ts";
import type { Item } from "../types/item.ts";
import { decodeEvents } from "./codec.ts";
import { damaged } from "./rows.ts";

/** The pieces of a text in the log must make up the text of the item, which the hash vouches for. */
export class TextCheck {
  readonly #responseId: string;
  readonly #texts = new Map<string, string>();

  constructor(responseId: string) {
    this.#responseId = responseId;
  }

  see(event: RunEvent): void {
    if (event.type === "response.content_part.added") {
      this.#texts.set(`${event.output_index} ${event.content_index}`, "");
      return;
    }
    if (!("content_index" in event) || !("delta" in event || "text" in event)) return;
    const key = `${event.output_index} ${event.content_index}`;
    const text = this.#texts.get(key);
    // Known from its beginning, or not at all: a reader may come in the middle.
    if (text === undefined) return;
    if ("delta" in event) this.#texts.set(key, text + event.delta);
    else if (text !== event.text) throw damaged(this.#responseId, "its log does not say what its items say");
  }
}

/** A row of the log. */
interface LogRow {
  first: number;
  last: number;
  body: string;
}

/** Why a log is not what can have been stored; undefined: it is. `items` by their output index. */
export function logFaultOf(
  stored: Iterable<LogRow>,
  items: readonly (Item | undefined)[],
  ended: boolean,
): string | undefined {
  let next = 0;
  const told = new Map<string, string>();
  let last: RunEvent | undefined;
  try {
    for (const { first, last: end, body } of stored) {
      if (first !== next) return `its log has a gap at ${next}`;
      const events = decodeEvents(first, body, (index) => items[index]);
      next = first + events.length;
      if (end !== next - 1) return `its log does not hold as many events at ${first} as it says`;
      last = events.at(-1) ?? last;
      for (const event of events) {
        if (!("delta" in event)) continue;
        const key = `${event.output_index} ${event.content_index} ${event.type}`;
        told.set(key, (told.get(key) ?? "") + event.delta);
      }
    }
  } catch (error) {
    return `its log cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (!ended) return undefined;
  if (!last || !isEnd(last)) return "its log has no end";
  for (const [key, text] of told) {
    const [index = "", content = "", type = ""] = key.split(" ");
    const whole = textIn(items[Number(index)], Number(content), type);
    if (whole !== undefined && whole !== text) return `its log does not say what item ${index} says`;
  }
  return undefined;
}

/** The text that the deltas of a type make up. Undefined: nothing to compare with. */
function textIn(item: Item | undefined, content: number, type: string): string | undefined {
  if (!item) return undefined;
  if (type.endsWith("arguments.delta")) return "arguments" in item ? item.arguments : undefined;
  if (item.type === "reasoning") return item.content[content]?.text;
  const part = item.type === "message" ? item.content[content] : undefined;
  if (!part) return undefined;
  return part.type === "refusal" ? part.refusal : "text" in part ? part.text : undefined;
}
