/**
 * The file of `rotunda export`: JSON Lines, one response or row a line, what it stands on before it.
 *
 *   {"rotunda":"export","version":1,"at":"2026-01-01T00:00:00.000Z","of":"everything"}
 *   {"digest":"…","response":{…}}            as types/copy.ts has it
 *   {"digest":"…","table":"conversations","row":{…}}
 *   {"digest":"…","end":{"lines":2,"responses":1}}
 *
 * Invariant: a line's digest is the SHA-256 (hexadecimal) over the digest of the line before it and the bytes behind its
 * own (for the first one: over the header's), so that a byte that was changed, a line that is missing and an end that was
 * cut off are found at that line, and nothing behind it is taken. Neither side holds more than one line.
 */
import { createHash } from "node:crypto";
import { type CopiedTable, copiedTables, type RecordCopy, type ResponseCopy } from "../../types/copy.ts";
import { RotundaError } from "../../types/error.ts";
import { isJsonObject, type JsonObject } from "../../types/json.ts";
import type { Page } from "./copy-source.ts";

export const BEGINNING = '{"rotunda":"export"';
const VERSION = 1;
const OPENING = '{"digest":"';
/** Bytes before what the digest is taken of: the opening, 64 digits, a quotation mark and a comma. */
const BEFORE = OPENING.length + 64 + 2;
/** Bytes of a line: what fits into one text. */
const LONGEST = 500_000_000;

/** `bytes`: its length. */
export type Line = { bytes: number } & ({ response: ResponseCopy } | { table: CopiedTable; row: RecordCopy });

function digestOf(before: string, rest: string | Buffer): string {
  return createHash("sha256").update(before).update(rest).digest("hex");
}

// ---- writing

export class CopyWriter {
  readonly #write: (text: string) => Promise<void>;
  #digest = "";
  #lines = 0;
  #responses = 0;

  constructor(write: (text: string) => Promise<void>) {
    this.#write = write;
  }

  async begin(about: { of: string; id?: string }): Promise<void> {
    const header = JSON.stringify({ rotunda: "export", version: VERSION, at: new Date().toISOString(), ...about });
    this.#digest = digestOf("", header);
    await this.#write(`${header}\n`);
  }

  async page(page: Page): Promise<void> {
    const lines: object[] =
      "responses" in page
        ? page.responses.map((response) => ({ response }))
        : page.rows.map((row) => ({ table: page.table, row }));
    this.#lines += lines.length;
    if ("responses" in page) this.#responses += lines.length;
    await this.#write(lines.map((line) => this.#line(line)).join(""));
  }

  /** Resolves with the last digest: it stands for the whole file. */
  async end(): Promise<string> {
    await this.#write(this.#line({ end: { lines: this.#lines, responses: this.#responses } }));
    return this.#digest;
  }

  #line(value: object): string {
    const rest = JSON.stringify(value).slice(1);
    this.#digest = digestOf(this.#digest, rest);
    return `${OPENING}${this.#digest}",${rest}\n`;
  }
}

// ---- reading

function damaged(what: string): RotundaError {
  return new RotundaError("storage_damaged", what, {
    remedy:
      "What stands before it was taken over, and is whole; nothing after it was. Export anew, or copy the file again.",
  });
}

/** The lines of a file that fit their digests. Throws `storage_damaged` at the first that does not, `usage`. */
export async function* readCopy(chunks: AsyncIterable<Buffer>): AsyncGenerator<Line> {
  let number = 0;
  let digest = "";
  let responses = 0;
  let isOver = false;
  for await (const bytes of linesOf(chunks)) {
    number++;
    if (isOver) throw damaged(`line ${number} stands behind the end of the export`);
    if (number === 1) {
      checkHeader(bytes);
      digest = digestOf("", bytes);
      continue;
    }
    const rest = bytes.subarray(BEFORE);
    const next = digestOf(digest, rest);
    const opening = `${OPENING}${next}",`;
    if (bytes.subarray(0, BEFORE).toString("latin1") !== opening) throw damaged(changed(number, bytes));
    digest = next;
    const value = objectOf(`{${rest.toString("utf8")}`, number);
    if (isJsonObject(value.end)) {
      isOver = value.end.lines === number - 2 && value.end.responses === responses;
      if (!isOver) throw damaged(`line ${number} counts other lines than there are`);
    } else {
      if ("response" in value) responses++;
      yield lineOf(value, number, bytes.length);
    }
  }
  if (!isOver) throw damaged(`the export is cut off: its last line is missing behind line ${number}`);
}

function checkHeader(bytes: Buffer): void {
  const header = objectOf(bytes.subarray(0, 10_000).toString("utf8"), 1);
  if (header.rotunda !== "export") throw new RotundaError("usage", "this is no file that rotunda export wrote");
  if (header.version === VERSION) return;
  throw new RotundaError("usage", "this export was written by a newer Rotunda", { remedy: "Upgrade this one." });
}

/** Which response it is, as far as it can still be read. */
function changed(number: number, bytes: Buffer): string {
  const [, id] = /"id":"((?:resp|conv)_\w{1,60})"/.exec(bytes.subarray(0, 1_000).toString("latin1")) ?? [];
  const what = id === undefined ? "" : ` (${id})`;
  return `line ${number}${what} is not what was written: it does not fit its digest`;
}

function objectOf(text: string, number: number): JsonObject {
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonObject(value)) return value;
  } catch {
    // Told below.
  }
  throw damaged(`line ${number} is no JSON object`);
}

/** What is in it is checked by whoever pastes it. */
function lineOf(value: JsonObject, number: number, bytes: number): Line {
  const { response, table, row } = value;
  if (isJsonObject(response)) return { bytes, response: response as unknown as ResponseCopy };
  const known = copiedTables.find((one) => one === table);
  if (known && isJsonObject(row)) return { bytes, table: known, row: row as RecordCopy };
  throw damaged(`line ${number} is neither a response nor a row`);
}

async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let parts: Buffer[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    let from = 0;
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      parts.push(chunk.subarray(from, at));
      yield Buffer.concat(parts);
      parts = [];
      size = 0;
      from = at + 1;
    }
    parts.push(chunk.subarray(from));
    size += chunk.length - from;
    if (size > LONGEST) throw new RotundaError("usage", "a line is longer than 500 MB: this is no export");
  }
  if (size > 0) yield Buffer.concat(parts);
}
