/**
 * A lock between processes: a file whose text names who holds it.
 *
 * Invariant: at most one process holds it; one that has died, or has held it for longer than `age`, holds nothing.
 */
import { randomBytes } from "node:crypto";
import { linkSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { newProcessName, processState } from "./process-name.ts";

/** Milliseconds. */
const PAUSE = 25;

export interface LockOptions {
  /** Milliseconds to wait for it. */
  patience: number;
  /** Milliseconds after which whoever holds it is thought to hang. */
  age: number;
}

/** Waits until nobody else holds it; returns the release. Throws where that takes longer than the patience. */
export async function lockFile(path: string, { patience, age }: LockOptions): Promise<() => void> {
  const name = newProcessName();
  const giveUp = Date.now() + patience;
  const draft = aside(path);
  await writeFile(draft, name, { mode: 0o600 });
  try {
    while (!linked(draft, path)) {
      if (isAbandoned(path, age)) takeAway(path, age);
      else if (Date.now() > giveUp) throw new Error(`another process holds ${path}`);
      else await sleep(PAUSE);
    }
  } finally {
    rmSync(draft, { force: true });
  }
  return () => {
    if (holder(path) === name) rmSync(path, { force: true });
  };
}

/** A link and not a new file: whoever reads it finds a whole name in it. */
function linked(draft: string, path: string): boolean {
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return false;
  }
}

/** A name beside it that nobody else has. */
export function aside(path: string): string {
  return `${path}.${process.pid}.${randomBytes(4).toString("hex")}.tmp`;
}

function holder(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function isAbandoned(path: string, age: number): boolean {
  const made = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
  if (made === undefined) return false;
  return processState(holder(path) ?? "") === "dead" || Date.now() - made > age;
}

/** Two may find it abandoned, and the second one must not take the lock that the first one has made since. */
function takeAway(path: string, age: number): void {
  const away = aside(path);
  try {
    renameSync(path, away);
  } catch {
    return;
  }
  if (!isAbandoned(away, age)) linked(away, path);
  rmSync(away, { force: true });
}
