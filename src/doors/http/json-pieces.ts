/**
 * Long JSON, parsed in pieces: small neighbours together, what is longer than a piece part by part.
 *
 * Invariant: what it accepts and what it gives is what `parseText` would of the whole; between two pieces the event
 * loop runs. It is told where the big values begin and end, which holds only for valid JSON: every slice is parsed
 * by `JSON.parse` with what must stand around it, so that a wrong outline ends in a refusal and never in a wrong value.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Json, JsonObject } from "../../types/json.ts";
import { cleanText, isEscaped, malformed, PIECE, parseText, put } from "./json-text.ts";

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** `big`: beginning → end of every list, object and text that is longer than a piece. Throws `usage` (400). */
export async function parsePieces(bytes: Buffer, big: ReadonlyMap<number, number>): Promise<Json> {
  const parser = new Pieces(bytes, big);
  const start = parser.skip(0);
  const end = big.get(start);
  // Longer than a piece and no text, list or object: it is blank, or a number as long as a book.
  if (end === undefined || parser.skip(end) < bytes.length) throw malformed();
  return parser.value(start, end);
}

function isBlank(byte: number | undefined): boolean {
  return byte === 32 || byte === 10 || byte === 13 || byte === 9;
}

type Container = Json[] | JsonObject;

class Pieces {
  readonly #bytes: Buffer;
  readonly #big: ReadonlyMap<number, number>;
  #done = 0;

  constructor(bytes: Buffer, big: ReadonlyMap<number, number>) {
    this.#bytes = bytes;
    this.#big = big;
  }

  /** The next position that is not blank. */
  skip(from: number): number {
    let at = from;
    while (isBlank(this.#bytes[at])) at++;
    if (at - from > PIECE) throw malformed();
    return at;
  }

  /** The last position before `from` that is not blank. */
  #back(from: number): number {
    let at = from - 1;
    while (isBlank(this.#bytes[at])) at--;
    return at;
  }

  #text(start: number, end: number): string {
    return this.#bytes.toString("utf8", start, end);
  }

  /** Lets others run once enough was done. */
  async #rest(done: number): Promise<void> {
    this.#done += done;
    if (this.#done < PIECE) return;
    this.#done = 0;
    await nextTurn();
  }

  /** A value that is longer than a piece. */
  async value(start: number, end: number): Promise<Json> {
    const first = this.#bytes[start];
    if (first === QUOTE) return this.#longText(start + 1, end - 1);
    if (this.#bytes[end - 1] !== (first === OPEN_LIST ? CLOSE_LIST : CLOSE_OBJECT)) throw malformed();
    const container: Container = first === OPEN_LIST ? [] : {};
    await this.#members(start + 1, end - 1, container);
    return container;
  }

  /** The inside of a text, in slices that never cut an escape or a character. */
  async #longText(from: number, to: number): Promise<string> {
    const parts: string[] = [];
    for (let at = from; at < to; ) {
      const end = at + PIECE >= to ? to : this.#cut(at, at + PIECE);
      parts.push(textOf(this.#text(at, end)));
      await this.#rest(end - at);
      at = end;
    }
    // Two escapes that make one character may stand in two slices: the whole is cleaned, not its parts.
    return cleanText(parts.join(""));
  }

  /** The last position up to `wish` at which the text that goes on since `from` can be cut. */
  #cut(from: number, wish: number): number {
    const bytes = this.#bytes;
    let cut = wish;
    // The longest escape has six bytes. The first of a run of backslashes always begins one.
    const before = bytes.subarray(wish - 6, wish).lastIndexOf(BACKSLASH);
    if (before !== -1) {
      const last = wish - 6 + before;
      cut = last;
      while (cut > from && bytes[cut - 1] === BACKSLASH) cut--;
      // A run as long as the slice: two and two belong together.
      if (cut === from) cut += Math.floor((last - from) / 2) * 2;
    }
    while (((bytes[cut] ?? 0) & 0xc0) === 0x80) cut--;
    return cut;
  }

  async #members(from: number, to: number, into: Container): Promise<void> {
    const bytes = this.#bytes;
    let batch = from;
    let separated = false;
    for (let at = from; at < to; ) {
      const byte = bytes[at];
      const end = this.#big.get(at);
      if (end !== undefined) {
        const name = await this.#before(batch, at, into);
        const value = await this.value(at, end);
        if (Array.isArray(into)) into.push(value);
        else put(into, name, value);
        at = this.skip(end);
        separated = at < to;
        if (separated && bytes[at++] !== COMMA) throw malformed();
        batch = at;
      } else if (byte === COMMA && at - batch >= PIECE / 4) {
        await this.#batch(batch, at, into);
        separated = true;
        batch = ++at;
      } else at = this.#past(at, to);
      // Small values have commas between them: this is none.
      if (at - batch > 3 * PIECE) throw malformed();
    }
    if (this.skip(batch) < to) await this.#batch(batch, to, into);
    else if (separated) throw malformed();
  }

  /** Past a byte, or past a whole small text, list or object. */
  #past(from: number, to: number): number {
    const bytes = this.#bytes;
    let depth = 0;
    let at = from;
    do {
      const byte = bytes[at];
      if (byte === QUOTE) at = this.#pastText(at, to);
      else {
        if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth++;
        else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth--;
        at++;
      }
    } while (depth > 0 && at < to);
    return at;
  }

  #pastText(from: number, to: number): number {
    const bytes = this.#bytes;
    let quote = bytes.indexOf(QUOTE, from + 1);
    while (quote !== -1 && quote < to && isEscaped(bytes, quote, from)) quote = bytes.indexOf(QUOTE, quote + 1);
    return quote === -1 || quote >= to ? to : quote + 1;
  }

  /** Parses the small members before a big one; gives its name ("" in a list). */
  async #before(batch: number, at: number, into: Container): Promise<string> {
    const last = this.#back(at);
    if (Array.isArray(into)) {
      if (last < batch) return "";
      if (this.#bytes[last] !== COMMA) throw malformed();
      await this.#batch(batch, last, into);
      return "";
    }
    if (last < batch || this.#bytes[last] !== COLON) throw malformed();
    const name = this.#nameBefore(last, batch);
    // With a stand-in for the big value, so that it has its place among the names.
    const members = parseText(`{${this.#text(batch, last)}:0}`) as JsonObject;
    for (const [key, value] of Object.entries(members)) put(into, key, value ?? null);
    await this.#rest(last - batch);
    return name;
  }

  /** The name that ends before a colon. */
  #nameBefore(colon: number, from: number): string {
    const bytes = this.#bytes;
    const close = this.#back(colon);
    let open = close - 1;
    while (open >= from && (bytes[open] !== QUOTE || isEscaped(bytes, open, from))) open--;
    const name = open < from ? null : parseText(this.#text(open, close + 1));
    if (typeof name !== "string") throw malformed();
    return name;
  }

  /** Small members that stand between two commas or the ends. */
  async #batch(from: number, to: number, into: Container): Promise<void> {
    if (this.skip(from) >= to) throw malformed();
    const text = this.#text(from, to);
    if (Array.isArray(into)) for (const value of parseText(`[${text}]`) as Json[]) into.push(value);
    else for (const [key, value] of Object.entries(parseText(`{${text}}`) as JsonObject)) put(into, key, value ?? null);
    await this.#rest(to - from);
  }
}

function textOf(inside: string): string {
  try {
    return JSON.parse(`"${inside}"`) as string;
  } catch {
    throw malformed();
  }
}
