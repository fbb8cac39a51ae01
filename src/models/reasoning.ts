/**
 * Reasoning in the dialects of chat completions, collected while an answer streams.
 *
 * Invariant: what an endpoint sent is kept verbatim, so that it can be sent back unchanged; the readable text
 * of it is told once, however many fields carry it.
 */
import type { Json, JsonObject } from "../types/json.ts";

const textFields = ["reasoning_content", "reasoning", "thinking"] as const;
const listFields = ["reasoning_details", "thinking_blocks"] as const;

/** Fields of a fragment that are pieces of one longer text; every other field is whole. */
const growing = new Set(["text", "summary", "thinking", "data"]);

/** One delta (or whole message) may carry any of these. */
export interface ReasoningDelta {
  reasoning_content?: unknown;
  reasoning?: unknown;
  thinking?: unknown;
  reasoning_details?: unknown;
  thinking_blocks?: unknown;
}

export function hasReasoning(delta: ReasoningDelta): boolean {
  return (
    delta.reasoning_content != null ||
    delta.reasoning != null ||
    delta.thinking != null ||
    delta.reasoning_details != null ||
    delta.thinking_blocks != null
  );
}

export class ReasoningCollector {
  /** Characters kept so far. */
  size = 0;
  readonly #texts = new Map<string, string>();
  readonly #lists = new Map<string, JsonObject[]>();

  /** Takes a delta in; gives what of it a person can read, "" for nothing new. */
  add(delta: ReasoningDelta): string {
    let readable = "";
    for (const field of textFields) {
      const piece = delta[field];
      if (typeof piece !== "string" || piece === "") continue;
      // The field that speaks first is the one that is told; others say the same again.
      if (this.#texts.size === 0 || this.#texts.keys().next().value === field) readable = piece;
      this.size += piece.length;
      this.#texts.set(field, (this.#texts.get(field) ?? "") + piece);
    }
    for (const field of listFields) {
      const fragments = delta[field];
      if (!Array.isArray(fragments)) continue;
      const text = this.#addFragments(field, fragments);
      if (this.#texts.size === 0) readable += text;
    }
    return readable;
  }

  #addFragments(field: string, fragments: unknown[]): string {
    let list = this.#lists.get(field);
    if (!list) {
      list = [];
      this.#lists.set(field, list);
    }
    let readable = "";
    for (const fragment of fragments) {
      if (typeof fragment !== "object" || fragment === null || Array.isArray(fragment)) continue;
      const piece = fragment as JsonObject;
      const known = findEarlier(list, piece);
      if (known) this.size += merge(known, piece);
      else {
        list.push({ ...piece });
        this.size += JSON.stringify(piece).length;
      }
      readable += readableOf(piece);
    }
    return readable;
  }

  /** Everything that was sent, in the shape that goes back; undefined: nothing was. */
  result(): JsonObject | undefined {
    const entries: [string, Json][] = [...this.#texts];
    for (const [field, list] of this.#lists) if (list.length > 0) entries.push([field, list]);
    return entries.length === 0 ? undefined : Object.fromEntries(entries);
  }
}

/** The fragment that this one goes on with: same index and type, and no other id. */
function findEarlier(list: JsonObject[], piece: JsonObject): JsonObject | undefined {
  // Bounded: a hostile endpoint may send a new index with every fragment.
  const last = Math.max(0, list.length - 64);
  for (let at = list.length - 1; at >= last; at--) {
    const earlier = list[at];
    if (!earlier) continue;
    const same = earlier.type === piece.type && earlier.index === piece.index;
    const sameId = earlier.id == null || piece.id == null || earlier.id === piece.id;
    if (same && sameId && (piece.index != null || isTextual(piece))) return earlier;
    // Without an index only the fragment right before can be meant.
    if (piece.index === undefined) return undefined;
  }
  return undefined;
}

function isTextual(piece: JsonObject): boolean {
  return typeof piece.text === "string" || typeof piece.summary === "string" || typeof piece.thinking === "string";
}

/** Gives the number of characters that were added. */
function merge(earlier: JsonObject, piece: JsonObject): number {
  let added = 0;
  for (const [field, value] of Object.entries(piece)) {
    const before = earlier[field];
    if (growing.has(field) && typeof before === "string" && typeof value === "string") {
      earlier[field] = before + value;
      added += value.length;
    } else if (value !== null && value !== undefined && value !== "") earlier[field] = value;
    else if (!(field in earlier)) earlier[field] = value;
  }
  return added;
}

function readableOf(piece: JsonObject): string {
  for (const field of ["text", "summary", "thinking"]) {
    const value = piece[field];
    if (typeof value === "string") return value;
  }
  return "";
}
