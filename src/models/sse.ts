/**
 * Server-sent events, read from bytes as they come.
 *
 * Invariant: the events are the same wherever the bytes were split, within characters and line ends too.
 * No line is held that is longer than the given limit.
 */

/** One event: its joined `data` lines, and its `event` name ("" for none). */
export type OnEvent = (data: string, name: string) => void;

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const SPACE = 32;
const COLON = 58;

/** A line, or the data of one event, went over the limit. Nothing more can be read after it. */
export class LineTooLong extends Error {
  constructor(limit: number) {
    super(`an event of the stream is longer than ${limit} bytes`);
    this.name = "LineTooLong";
  }
}

/**
 * A push reader: `push` gives the events that are complete with this chunk, in order, before it returns.
 * Comments, `id` and `retry` are read over. Throws `LineTooLong`.
 */
export class EventStreamReader {
  readonly #onEvent: OnEvent;
  readonly #limit: number;
  /** Bytes of the line that has not ended. */
  #rest: Buffer[] = [];
  #restLength = 0;
  #atStart = true;
  /** The last chunk ended in CR: an LF that follows belongs to the same line end. */
  #skipLineFeed = false;
  #data: string | undefined;
  #name = "";

  constructor(onEvent: OnEvent, limit: number) {
    this.#onEvent = onEvent;
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    let bytes = chunk;
    if (this.#skipLineFeed && bytes.length > 0) {
      if (bytes[0] === LINE_FEED) bytes = bytes.subarray(1);
      this.#skipLineFeed = false;
    }
    // A line end is never a part of a longer character, so what ends with one can be decoded as a whole.
    const lineFeed = bytes.lastIndexOf(LINE_FEED);
    const carriageReturn = bytes.indexOf(CARRIAGE_RETURN);
    const end = carriageReturn < 0 ? lineFeed : Math.max(lineFeed, bytes.lastIndexOf(CARRIAGE_RETURN));
    if (end < 0) {
      this.#keep(bytes);
      return;
    }
    const lines = bytes.subarray(0, end + 1);
    let text: string;
    if (this.#restLength === 0) text = lines.toString("utf8");
    else {
      this.#rest.push(lines);
      text = Buffer.concat(this.#rest).toString("utf8");
      this.#rest = [];
      this.#restLength = 0;
    }
    if (end + 1 < bytes.length) this.#keep(bytes.subarray(end + 1));
    else this.#skipLineFeed = bytes[end] === CARRIAGE_RETURN;
    if (carriageReturn >= 0) text = text.replaceAll("\r\n", "\n").replaceAll("\r", "\n");
    this.#readLines(text);
  }

  /** The bytes have ended: gives the event that lacks only its blank line. */
  end(): void {
    if (this.#restLength > 0) {
      const text = Buffer.concat(this.#rest).toString("utf8");
      this.#rest = [];
      this.#restLength = 0;
      this.#readLines(`${text}\n`);
    }
    this.#dispatch();
  }

  #keep(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#restLength += bytes.length;
    if (this.#restLength > this.#limit) {
      this.#rest = [];
      throw new LineTooLong(this.#limit);
    }
    this.#rest.push(bytes);
  }

  /** Text of whole lines, each ended by LF. */
  #readLines(text: string): void {
    let from = 0;
    if (this.#atStart) {
      this.#atStart = false;
      if (text.charCodeAt(0) === 0xfeff) from = 1;
    }
    while (from < text.length) {
      const end = text.indexOf("\n", from);
      if (end === from) this.#dispatch();
      else if (text.startsWith("data:", from)) {
        const start = text.charCodeAt(from + 5) === SPACE ? from + 6 : from + 5;
        this.#addData(text.slice(start, end));
      } else if (text.charCodeAt(from) !== COLON) this.#readField(text.slice(from, end));
      from = end + 1;
    }
  }

  #addData(line: string): void {
    if (this.#data === undefined) this.#data = line;
    else {
      if (this.#data.length + line.length > this.#limit) throw new LineTooLong(this.#limit);
      this.#data = `${this.#data}\n${line}`;
    }
  }

  #readField(line: string): void {
    if (line === "data") this.#addData("");
    else if (line === "event") this.#name = "";
    else if (line.startsWith("event:")) this.#name = line.slice(line.charCodeAt(6) === SPACE ? 7 : 6);
  }

  #dispatch(): void {
    const data = this.#data;
    const name = this.#name;
    this.#data = undefined;
    this.#name = "";
    if (data !== undefined) this.#onEvent(data, name);
  }
}
