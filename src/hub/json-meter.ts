/**
 * Json meter: depth and number of parts of JSON text, counted on its bytes as they arrive.
 *
 * Invariant: what passes these bounds can be parsed, walked and written again within a turn of the event loop
 * and without a stack overflow; the count costs no memory and is spread over the chunks.
 */

/** Of one message. A part is an object, a list, or one more entry of either. */
const MESSAGE_LIMITS = { depth: 1000, parts: 100_000 } as const;

const [QUOTE, COMMA, OPEN_LIST, BACKSLASH, CLOSE_LIST, OPEN, CLOSE] = [34, 44, 91, 92, 93, 123, 125] as const;

export class JsonMeter {
  #depth = 0;
  #deepest = 0;
  #parts = 0;
  #inText = false;
  #escaped = false;

  /** Counts the bytes of `chunk` from `start` up to `end`. */
  feed(chunk: Uint8Array, start = 0, end = chunk.length): void {
    let inText = this.#inText;
    let escaped = this.#escaped;
    for (let at = start; at < end; at++) {
      const byte = chunk[at];
      if (inText) {
        if (escaped) escaped = false;
        else if (byte === BACKSLASH) escaped = true;
        else if (byte === QUOTE) inText = false;
      } else if (byte === QUOTE) inText = true;
      else if (byte === COMMA) this.#parts++;
      else if (byte === OPEN || byte === OPEN_LIST) {
        this.#parts++;
        if (++this.#depth > this.#deepest) this.#deepest = this.#depth;
      } else if (byte === CLOSE || byte === CLOSE_LIST) this.#depth--;
    }
    this.#inText = inText;
    this.#escaped = escaped;
  }

  /** What is over the bounds, for a message; undefined while nothing is. */
  get excess(): string | undefined {
    if (this.#deepest > MESSAGE_LIMITS.depth) return `is nested deeper than ${MESSAGE_LIMITS.depth}`;
    if (this.#parts > MESSAGE_LIMITS.parts) return `has more than ${MESSAGE_LIMITS.parts} parts`;
    return undefined;
  }

  reset(): void {
    this.#depth = 0;
    this.#deepest = 0;
    this.#parts = 0;
    this.#inText = false;
    this.#escaped = false;
  }
}
