/** Cancel all: the emergency stop. Invariant: a sub-agent is cancelled by its caller. */
import type { Engine } from "../types/engine.ts";
import type { Owner } from "../types/response.ts";
import type { Store } from "../types/store.ts";

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
  return outcomes.filter((outcome) => outcome.status === "fulfilled").length;
}
