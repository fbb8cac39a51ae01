/** Whether a log says what the items say. Invariant: a log whose pieces do not fit its items is damaged, and never given. */
import type { RunEvent } from "../types/event.ts";
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
