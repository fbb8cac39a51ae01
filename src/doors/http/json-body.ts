/**
 * JSON bodies: bytes → value, within bounds and without holding the event loop.
 *
 * Invariant: nothing is parsed before its depth and its number of values are known to be within the limits; a long
 * body is parsed in pieces, and other work goes on between two of them. The value is the one that `JSON.parse`
 * gives, but for what no database and no encoder can keep: NUL and lone surrogates become U+FFFD.
 */
import { isUtf8 } from "node:buffer";
import { setImmediate as nextTurn } from "node:timers/promises";
import { RotundaError } from "../../types/error.ts";
import type { Json } from "../../types/json.ts";
import { MAX_DEPTH } from "../../util/limits.ts";
import { isEscaped, malformed, PIECE, parseText } from "./json-text.ts";

const QUOTE = 34;
const COMMA = 44;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/**
 * Values (texts, numbers, lists, objects …) of one body at most: ten thousand messages. A schema that refuses every one
 * of them takes two microseconds for each, and nothing else runs meanwhile.
 */
export const MAX_VALUES = 50_000;

/** Parses a body. Throws `usage` (400) on what is no JSON and `body_too_large` on too many values. */
export async function parseJsonBody(bytes: Buffer): Promise<Json> {
  if (bytes.length === 0) throw malformed("The body is empty, and JSON was expected.");
  // A vector instruction's work: some milliseconds for the longest body that is taken.
  if (!isUtf8(bytes)) throw malformed("The body is not valid UTF-8.");
  const outline = new Outline(bytes);
  if (bytes.length <= PIECE) {
    outline.scan(bytes.length);
    return parseText(bytes.toString("utf8"));
  }
  for (let at = 0; at < bytes.length; at += 4 * PIECE) {
    outline.scan(Math.min(at + 4 * PIECE, bytes.length));
    await nextTurn();
  }
  const { parsePieces } = await import("./json-pieces.ts");
  return parsePieces(bytes, outline.big);
}

/** Where the lists, objects and texts that are longer than a piece begin and end. */
class Outline {
  /** Beginning → end (the position behind it). */
  readonly big = new Map<number, number>();
  readonly #bytes: Buffer;
  readonly #open: number[] = [];
  #at = 0;
  #values = 1;
  #texts = 0;
  /** Where the text that is being read began; -1 outside of texts. */
  #text = -1;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Goes on to a position. Throws beyond the limits. */
  scan(end: number): void {
    const bytes = this.#bytes;
    while (this.#at < end) {
      if (this.#text !== -1) this.#scanText(end);
      else if (bytes[this.#at] === QUOTE) this.#begin();
      else this.#scanStructure(end);
    }
  }

  #begin(): void {
    // Every value and every name may be one. More than that are no JSON, or too much of it.
    if (++this.#texts > 2 * MAX_VALUES) throw tooMany();
    this.#text = this.#at++;
  }

  /** To the next text. */
  #scanStructure(end: number): void {
    const bytes = this.#bytes;
    let at = this.#at;
    for (; at < end; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) break;
      if (byte === COMMA) this.#count();
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) this.#enter(at);
      else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) this.#leave(at);
    }
    this.#at = at;
  }

  /** To the end of this text, by the search that the machine does best: for a single byte. */
  #scanText(end: number): void {
    const bytes = this.#bytes;
    const start = this.#text;
    let quote = bytes.indexOf(QUOTE, this.#at);
    while (quote !== -1 && quote < end && isEscaped(bytes, quote, start)) quote = bytes.indexOf(QUOTE, quote + 1);
    if (quote === -1 || quote >= end) {
      this.#at = end;
      return;
    }
    if (quote - start > PIECE) this.big.set(start, quote + 1);
    this.#text = -1;
    this.#at = quote + 1;
  }

  #count(): void {
    if (++this.#values > MAX_VALUES) throw tooMany();
  }

  #enter(at: number): void {
    this.#count();
    if (this.#open.push(at) > MAX_DEPTH) throw malformed(`The body is nested deeper than ${MAX_DEPTH}.`);
  }

  #leave(at: number): void {
    const start = this.#open.pop();
    if (start === undefined) throw malformed();
    if (at - start > PIECE) this.big.set(start, at + 1);
  }
}

function tooMany(): RotundaError {
  return new RotundaError("body_too_large", `The body has more than ${MAX_VALUES} values.`);
}
