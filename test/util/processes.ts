/** What tests need to see which processes live. */
import { randomInt } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";

/** A length of sleep that nobody else uses, so that its processes can be found. */
export function uniqueSeconds(): string {
  return `${randomInt(2000, 9000)}.${randomInt(1_000_000, 9_999_999)}`;
}

/** Ids of the living processes with this argument in their command line, shells that mention it included. */
export function carriers(argument: string): number[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return [];
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(argument) ? [Number(pid)] : [];
    } catch {
      return [];
    }
  });
}

/** Waits until `condition` holds; false after `milliseconds`. */
export async function eventually(condition: () => boolean, milliseconds = 10_000): Promise<boolean> {
  const until = Date.now() + milliseconds;
  while (!condition()) {
    if (Date.now() > until) return false;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return true;
}
