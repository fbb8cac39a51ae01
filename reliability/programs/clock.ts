/**
 * Loaded before a program (`--import`): its wall clock is wrong by as many milliseconds as a file says, from moment to
 * moment. The monotonic clock is left alone, as a person who sets the time leaves it.
 */
import { readFileSync } from "node:fs";

const path = process.env.RELIABILITY_CLOCK ?? "";
const RealDate = Date;
const now = Date.now.bind(Date);
let offset = 0;

function look(): void {
  try {
    offset = Number(readFileSync(path, "utf8")) || 0;
  } catch {
    // Nobody has set it yet.
  }
}

look();
setInterval(look, 10).unref();

class WrongDate extends RealDate {
  constructor(...given: unknown[]) {
    super(...((given.length === 0 ? [now() + offset] : given) as [number]));
  }

  static override now(): number {
    return now() + offset;
  }
}

globalThis.Date = WrongDate as DateConstructor;
