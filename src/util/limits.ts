/**
 * JSON from outside, bounded.
 *
 * Invariant: nothing deeper than `MAX_DEPTH` or longer than the given size enters the system, so that no
 * later `JSON.stringify` or recursion can overflow the stack.
 */
import type { Json } from "../types/json.ts";

export const MAX_DEPTH = 100;

/** Depth of JSON text, counted without parsing it; stops counting above `limit`. */
export function jsonDepth(text: string, limit = MAX_DEPTH): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (inString) {
      if (code === 92) i++;
      else if (code === 34) inString = false;
    } else if (code === 34) inString = true;
    else if (code === 123 || code === 91) {
      depth++;
      if (depth > deepest) {
        deepest = depth;
        if (deepest > limit) return deepest;
      }
    } else if (code === 125 || code === 93) depth--;
  }
  return deepest;
}

/** Parses JSON text within bounds. Throws `SyntaxError` on bad text and `RangeError` beyond the bounds. */
export function parseBounded(text: string, maxLength: number): Json {
  if (text.length > maxLength)
    throw new RangeError(`JSON of ${text.length} characters is over the limit of ${maxLength}`);
  if (jsonDepth(text) > MAX_DEPTH) throw new RangeError(`JSON is nested deeper than ${MAX_DEPTH}`);
  return JSON.parse(text) as Json;
}
