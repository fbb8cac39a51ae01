/**
 * The wire: one JSON message a line, over stdin and stdout.
 *
 * Invariant: a line that cannot be read is answered by an error and costs nothing but itself; a line is never kept in
 * memory beyond the limit; whole lines are written, so no two messages ever mix.
 */
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import type { AnyMessage, Stream } from "@agentclientprotocol/sdk/unstable";

const NEWLINE = 0x0a;

/** Bytes of one line: a prompt with several large images. */
export const MAXIMUM_LINE = 64 * 1024 * 1024;

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;

/** The connection that the protocol's library speaks over. Its readable side ends with `input`. */
export function jsonLines(input: Readable, output: Writable, limit = MAXIMUM_LINE): Stream {
  const send = (message: object) => writeLine(output, `${JSON.stringify(message)}\n`);
  const refuse = (code: number, message: string) => send({ jsonrpc: "2.0", id: null, error: { code, message } });
  // Whoever no longer reads our answers has gone: nothing more is to be asked for.
  output.on("error", () => input.destroy());
  async function* messages(): AsyncGenerator<AnyMessage> {
    for await (const line of linesOf(input, limit)) {
      if (line === undefined) {
        await refuse(INVALID_REQUEST, `Invalid request: the line is longer than ${limit} bytes`);
        continue;
      }
      const text = line.toString("utf8").trim();
      if (text === "") continue;
      const message = parse(text);
      if (message === undefined) await refuse(PARSE_ERROR, "Parse error: the line is no JSON");
      else if (isObject(message)) yield message as AnyMessage;
      else await refuse(INVALID_REQUEST, "Invalid request: a message is one JSON object");
    }
  }
  return { readable: ReadableStream.from(messages()), writable: new WritableStream({ write: send }) };
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function writeLine(output: Writable, line: string): Promise<void> {
  if (output.destroyed || output.writableEnded) throw new Error("nobody reads the answers any more");
  if (!output.write(line)) await once(output, "drain");
}

/** The lines of a stream of bytes, without their ends; undefined for one beyond the limit. */
async function* linesOf(input: Readable, limit: number): AsyncGenerator<Buffer | undefined> {
  let pending: Buffer[] = [];
  let size = 0;
  for await (const chunk of endingQuietly(input)) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const piece = chunk.subarray(start, end);
      yield size + piece.length > limit ? undefined : Buffer.concat([...pending, piece]);
      pending = [];
      size = 0;
      start = end + 1;
    }
    const rest = chunk.subarray(start);
    size += rest.length;
    if (size > limit) pending = [];
    else if (rest.length > 0) pending.push(rest);
  }
  if (size > 0) yield size > limit ? undefined : Buffer.concat(pending);
}

/** A pipe that breaks has ended. */
async function* endingQuietly(input: Readable): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of input) yield chunk as Buffer;
  } catch {
    // The client is gone, or we have ended the connection ourselves.
  }
}
