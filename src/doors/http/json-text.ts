/** What both ways of parsing a body, at once and in pieces, need. */
import { RotundaError } from "../../types/error.ts";
import type { Json, JsonObject } from "../../types/json.ts";

/** Bytes that are parsed at once. */
export const PIECE = 524_288;

const BACKSLASH = 92;

export function malformed(message = "The body is not valid JSON."): RotundaError {
  return new RotundaError("usage", message);
}

/** Whether the byte is the end of an escape of a text that begins at `start`: an odd number of backslashes before it. */
export function isEscaped(bytes: Buffer, at: number, start: number): boolean {
  let first = at;
  while (first > start && bytes[first - 1] === BACKSLASH) first--;
  return (at - first) % 2 === 1;
}

/** Escapes of what is replaced: NUL, and surrogates (of which pairs are in order). */
const REPLACED = /\\u(?:0000|[dD][89a-fA-F])/;

/** Parses text that has passed the limits. */
export function parseText(text: string): Json {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    // The parser's own words quote the body, and a body may hold a secret.
    throw malformed();
  }
  return REPLACED.test(text) ? clean(value) : value;
}

function clean(value: Json): Json {
  if (typeof value === "string") return cleanText(value);
  if (Array.isArray(value)) return value.map(clean);
  if (value === null || typeof value !== "object") return value;
  const copy: JsonObject = {};
  for (const [key, inner] of Object.entries(value)) put(copy, cleanText(key), clean(inner ?? null));
  return copy;
}

export function cleanText(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}

/** As `JSON.parse` does it: `__proto__` is a key like any other. */
export function put(target: JsonObject, key: string, value: Json): void {
  if (key !== "__proto__") target[key] = value;
  else Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}
