/**
 * The client of the measurements: asks over bare sockets, many at a time, and reads what comes: every token must be
 * the next one, and every `sequence_number`.
 *
 * Invariant: as cheap as a client can be, since it runs on the cores of what is measured.
 */
import { connect, type Socket } from "node:net";
import type { Load, Loaded } from "./messages.ts";

const NUMBER = '"sequence_number":';
/** The text of a token, in either dialect's events. */
const TOKENS = [`"content":"w`, `"delta":"w`] as const;

interface Reading {
  head: string | null;
  /** Bytes of a body of known length that are still to come; -1: chunked. */
  left: number;
  tail: string;
  rest: string;
  token: number;
  sequence: number;
}

function bytesOf({ url, path, token, body }: Load): string {
  const text = JSON.stringify(body);
  return [
    `POST ${path} HTTP/1.1`,
    `host: ${new URL(url).host}`,
    "content-type: application/json",
    `authorization: Bearer ${token}`,
    `content-length: ${Buffer.byteLength(text)}`,
    "",
    text,
  ].join("\r\n");
}

class Client {
  readonly #load: Load;
  readonly #request: string;
  readonly #loaded: Loaded = { wall: 0, failures: 0, times: [], tokens: 0, gaps: 0 };
  #left: number;

  constructor(load: Load) {
    this.#load = load;
    this.#request = bytesOf(load);
    this.#left = load.count;
  }

  async run(): Promise<Loaded> {
    const began = performance.now();
    await Promise.all(Array.from({ length: this.#load.flight }, () => this.#connection()));
    this.#loaded.wall = performance.now() - began;
    return this.#loaded;
  }

  async #connection(): Promise<void> {
    const { hostname, port } = new URL(this.#load.url);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    socket.setEncoding("latin1");
    while (this.#left-- > 0) {
      const began = performance.now();
      const whole = await this.#ask(socket).catch(() => false);
      this.#loaded.times.push(performance.now() - began);
      if (!whole) this.#loaded.failures++;
      if (socket.destroyed) break;
    }
    socket.destroy();
  }

  /** True: answered with 200, and whole. */
  #ask(socket: Socket): Promise<boolean> {
    return new Promise((resolve) => {
      const reading: Reading = { head: null, left: -1, tail: "", rest: "", token: 0, sequence: 0 };
      const done = (whole: boolean) => {
        socket.off("data", onData).off("close", onClose).off("error", onClose);
        resolve(whole && reading.head?.startsWith("HTTP/1.1 200 ") === true);
      };
      const onClose = () => done(false);
      const onData = (text: string) => {
        if (this.#read(reading, text)) done(true);
      };
      socket.on("data", onData).on("close", onClose).on("error", onClose);
      socket.write(this.#request);
    });
  }

  /** True: the answer is whole. */
  #read(reading: Reading, given: string): boolean {
    let text = given;
    if (reading.head === null) {
      reading.rest += text;
      const end = reading.rest.indexOf("\r\n\r\n");
      if (end < 0) return false;
      reading.head = reading.rest.slice(0, end);
      text = reading.rest.slice(end + 4);
      reading.rest = "";
      const length = /\r\ncontent-length: *(\d+)/i.exec(reading.head)?.[1];
      if (length !== undefined) reading.left = Number(length);
    }
    this.#readEvents(reading, text);
    if (reading.left >= 0) {
      reading.left -= text.length;
      return reading.left <= 0;
    }
    reading.tail = text.length >= 7 ? text.slice(-7) : (reading.tail + text).slice(-7);
    return reading.tail === "\r\n0\r\n\r\n";
  }

  #readEvents(reading: Reading, text: string): void {
    const all = reading.rest === "" ? text : reading.rest + text;
    let from = 0;
    for (let end = all.indexOf("\n\n"); end >= 0; end = all.indexOf("\n\n", from)) {
      this.#readEvent(reading, all, from, end);
      from = end + 2;
    }
    reading.rest = all.slice(from);
  }

  #readEvent(reading: Reading, all: string, from: number, end: number): void {
    const event = all.slice(from, end);
    const number = event.indexOf(NUMBER);
    if (number >= 0 && Number.parseInt(event.slice(number + NUMBER.length), 10) !== reading.sequence++) {
      this.#loaded.gaps++;
    }
    for (const mark of TOKENS) {
      const token = event.indexOf(mark);
      if (token < 0) continue;
      if (Number.parseInt(event.slice(token + mark.length), 10) !== reading.token++) this.#loaded.gaps++;
      this.#loaded.tokens++;
    }
  }
}

process.on("message", async (load: Load) => {
  process.send?.(await new Client(load).run());
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
