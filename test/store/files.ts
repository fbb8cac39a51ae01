/** What stands in a store's files, seen from outside. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";

/** Names of the database's files that hold a text. */
export function filesWith(folder: string, text: string): string[] {
  const names = readdirSync(folder).filter((name) => name.startsWith("rotunda.db"));
  return names.filter((name) => readFileSync(join(folder, name)).includes(text));
}

/** Until the write-ahead log is empty; the store does it by itself about a second after an erasure. */
export async function untilTruncated(folder: string): Promise<void> {
  for (let waited = 0; waited < 20_000; waited += 50) {
    if (statSync(join(folder, "rotunda.db-wal"), { throwIfNoEntry: false })?.size === 0) return;
    // The note that it was done is the one small commit that may stand in it again.
    if (waited > 1_500 && dueErasures(folder) === 0) return;
    await sleep(50);
  }
  throw new Error("the write-ahead log was not cut");
}

export function dueErasures(folder: string): number {
  const raw = new DatabaseSync(join(folder, "rotunda.db"), { readOnly: true });
  try {
    return Number(raw.prepare("SELECT done - truncated AS due FROM erasure").get()?.due);
  } finally {
    raw.close();
  }
}
