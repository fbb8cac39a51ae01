/**
 * Logs: the last lines of one server: what it wrote to stderr, what of its stdout was no message, how its state changed.
 *
 * Invariant: at most 500 lines of 2,000 characters whatever it prints, and a flood costs a bounded time for each chunk;
 * lines leave only through a redactor.
 */
import type { HubLogLine } from "../types/app.ts";
import { visible } from "../util/text.ts";

const MAX_LINES = 500;
const MAX_LENGTH = 2_000;
/** Lines of stdout that were no messages: so many a second are shown. */
const SKIPPED_A_SECOND = 20;

export class ServerLog {
  #lines: HubLogLine[] = [];
  /** The unfinished last line of stderr. */
  #rest: Buffer = Buffer.alloc(0);
  #skippedSince = 0;
  #skipped = 0;

  add(at: number, text: string): void {
    this.#push(at, text.slice(0, MAX_LENGTH));
  }

  /** A piece of stderr. */
  addOutput(at: number, piece: Buffer): void {
    const whole = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    const end = whole.lastIndexOf(10);
    // What is longer than a line may be is cut at its end, so only its beginning is kept.
    this.#rest = Buffer.from(whole.subarray(end + 1, end + 1 + 4 * MAX_LENGTH));
    const fresh: string[] = [];
    // Backwards: of a flood only the lines that will be kept are ever looked at.
    for (let last = end; last >= 0 && fresh.length < MAX_LINES; ) {
      const start = last === 0 ? -1 : whole.lastIndexOf(10, last - 1);
      const line = whole.toString("utf8", start + 1, Math.min(last, start + 1 + 4 * MAX_LENGTH)).trimEnd();
      if (line !== "") fresh.push(line.slice(0, MAX_LENGTH));
      last = start;
    }
    for (const line of fresh.reverse()) this.#push(at, line);
  }

  /** A line of stdout that was no message. */
  addSkipped(at: number, line: Buffer): void {
    if (at - this.#skippedSince >= 1_000) {
      this.#skippedSince = at;
      this.#skipped = 0;
    }
    if (++this.#skipped > SKIPPED_A_SECOND) return;
    this.#push(at, `stdout, no message: ${line.toString("utf8", 0, 400).trimEnd()}`);
  }

  /** Oldest first, with invisible characters shown. */
  read(redact: (text: string) => string): HubLogLine[] {
    const rest = this.#rest.toString("utf8").trim();
    const last = this.#lines.at(-1);
    const kept = this.#lines.slice(-MAX_LINES);
    const lines = rest === "" ? kept : [...kept, { at: last?.at ?? 0, text: rest.slice(0, MAX_LENGTH) }];
    return lines.map(({ at, text }) => ({ at, text: redact(visible(text)) }));
  }

  clear(): void {
    this.#lines = [];
    this.#rest = Buffer.alloc(0);
  }

  #push(at: number, text: string): void {
    this.#lines.push({ at, text });
    if (this.#lines.length >= 2 * MAX_LINES) this.#lines = this.#lines.slice(-MAX_LINES);
  }
}
