/** Cancel all: the emergency stop. Invariant: a sub-agent is cancelled by its caller. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Engine } from "../types/engine.ts";
import type { Owner } from "../types/response.ts";
import type { Store } from "../types/store.ts";

/** Milliseconds. */
const PATIENCE = 800;

/** Of one owner, or of all. Resolves with how many were ended. */
export async function cancelAll(
  engine: Engine,
  store: Store,
  reason: string,
  owner: Owner | undefined,
): Promise<number> {
  const status = ["queued", "in_progress", "waiting"] as const;
  const open = await store.list({ status, limit: 100_000, ...(owner !== undefined && { owner }) });
  const ids = new Set(open.map((node) => node.id));
  const outer = open.filter((node) => node.caller === null || !ids.has(node.caller.responseId));
  const outcomes = await Promise.allSettled(outer.map((node) => engine.cancel(node.id, reason)));
  // What another process runs is told to stop, and has the rest of a second for it.
  const ended = Promise.allSettled(outer.map((node) => engine.wait(node.id)));
  await Promise.race([ended, sleep(PATIENCE, undefined, { ref: false })]);
  return outcomes.filter((outcome) => outcome.status === "fulfilled").length;
}
