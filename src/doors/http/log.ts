/**
 * Log: one JSON object a line, to stderr.
 *
 * Invariant: a reader of stderr who is slow or gone never holds up a request: lines wait in memory, are written in
 * the background, and beyond a bound are counted and left out.
 */
import { write, writeSync } from "node:fs";

const MOST_WAITING = 1_048_576;
/** Milliseconds for which lines are gathered. */
const GATHER = 100;

export interface Log {
  /** One line, without its end. */
  line(text: string): void;
  /** Writes what waits, as far as it goes at once. */
  close(): void;
}

export function createLog(descriptor = 2): Log {
  let waiting = "";
  let leftOut = 0;
  let busy = false;
  let timer: NodeJS.Timeout | undefined;

  const later = (milliseconds: number) => {
    timer ??= setTimeout(flush, milliseconds).unref();
  };
  const flush = () => {
    timer = undefined;
    if (busy || waiting === "") return;
    busy = true;
    const bytes = Buffer.from(waiting);
    waiting = "";
    writeOn(bytes, 0);
  };
  const writeOn = (bytes: Buffer, from: number) => {
    write(descriptor, bytes, from, bytes.length - from, null, (error, written) => {
      // A pipe that is full says "again"; one that nobody reads any more loses what is left.
      if (error?.code === "EAGAIN") setTimeout(() => writeOn(bytes, from), GATHER).unref();
      else if (!error && from + written < bytes.length) writeOn(bytes, from + written);
      else {
        busy = false;
        if (leftOut > 0) {
          waiting = `${JSON.stringify({ level: "warn", left_out: leftOut })}\n${waiting}`;
          leftOut = 0;
        }
        if (waiting !== "") later(GATHER);
      }
    });
  };
  return {
    line(text) {
      if (waiting.length > MOST_WAITING) leftOut++;
      else waiting += `${text}\n`;
      later(GATHER);
    },
    close() {
      clearTimeout(timer);
      try {
        if (!busy && waiting !== "") writeSync(descriptor, waiting);
      } catch {
        // Nobody reads it.
      }
      waiting = "";
    },
  };
}
