/**
 * The oracle: what must be true of a database and of the files of effects, given the clients' history.
 *
 * Invariant: it reads the database as another process does, when nothing runs any more, and every hash on the way; what
 * must be there it knows from the clients, what was done from the files.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { isEnd } from "../src/types/event.ts";
import type { Store, StoredResponse } from "../src/types/store.ts";
import { type PartDatabase, partDatabase } from "./database.ts";
import type { History } from "./history.ts";
import { linesOf, type Place } from "./server.ts";

/** Faults of everything that is stored, and of everything that was promised. */
export async function judge(place: Place, history: History, database?: PartDatabase): Promise<string[]> {
  const { address, open } = database ?? (await partDatabase("sqlite"));
  const faults = [...history.faults];
  if (address === undefined) faults.push(...pagesOf(place));
  const store = await open(place);
  try {
    await judgeStore(place, history, store, faults);
  } finally {
    await store.close();
  }
  return faults;
}

function pagesOf(place: Place): string[] {
  const raw = new DatabaseSync(place.database, { readOnly: true });
  const [{ integrity_check: integrity } = {}] = raw.prepare("PRAGMA integrity_check").all();
  raw.close();
  return integrity === "ok" ? [] : [`integrity_check: ${String(integrity)}`];
}

async function judgeStore(place: Place, history: History, store: Store, faults: string[]): Promise<void> {
  const ids = (await store.list({ limit: 1_000_000 })).map(({ id }) => id);
  const known = new Set(ids);
  for (const id of history.acknowledged) if (!known.has(id)) faults.push(`acknowledged and lost: ${id}`);
  const effects = new Map([
    ["mcp", countsOf(linesOf(join(place.workspace, "mcp-effects.log")))],
    ["bash", countsOf(linesOf(join(place.workspace, "effects.log")))],
  ]);
  for (const [by, counts] of effects) {
    for (const [line, count] of counts) if (count > 1) faults.push(`done ${count} times by ${by}: ${line}`);
  }
  for (const id of ids) await judgeResponse(id, store, faults);
  for (const { line, by, responseId } of history.effects) {
    const stored = await store.get(responseId);
    const count = effects.get(by)?.get(line) ?? 0;
    if (stored && isReported(stored, line) && count !== 1) faults.push(`reported as done and not done: ${line}`);
  }
}

function countsOf(lines: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of lines) counts.set(line, (counts.get(line) ?? 0) + 1);
  return counts;
}

function isReported({ entries }: StoredResponse, line: string): boolean {
  return entries.some(
    ({ item }) => item.type === "mcp_call" && item.status === "completed" && item.arguments.includes(`${line}"`),
  );
}

async function judgeResponse(id: string, store: Store, faults: string[]): Promise<void> {
  try {
    const stored = await store.get(id);
    if (!stored) return;
    const { node } = stored;
    if (node.endedAt === null) faults.push(`${id} has not ended: ${node.status}`);
    const events = await store.events(id, -1, 1_000_000);
    const gap = events.findIndex((event, index) => event.sequence_number !== index);
    if (gap !== -1) faults.push(`${id} has a gap in its log at ${gap}`);
    if (node.endedAt !== null && events.filter(isEnd).length !== 1)
      faults.push(`${id} has ${events.filter(isEnd).length} ends`);
    if (node.endedAt !== null && node.hash === null) faults.push(`${id} has no hash`);
    const { incompleteReason: reason } = node;
    if (node.status === "incomplete" && reason !== "interrupted") faults.push(`${id} was ended early: ${reason}`);
    if (node.status === "failed") faults.push(`${id} failed: ${JSON.stringify(node.error)}`);
    const added = events.filter(({ type }) => type === "response.output_item.added").length;
    const done = events.filter(({ type }) => type === "response.output_item.done").length;
    if (node.endedAt !== null && added !== done) faults.push(`${id}: ${added} items begun, ${done} ended`);
  } catch (error) {
    faults.push(`${id} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}
