/**
 * Run queued: what a worker does with one job.
 *
 * Invariant: a response that has brought workers down three times is ended and not tried again (faults P13); one whose
 * turn has not come is left, because the end of what it stands behind puts it into the queue again.
 */
import type { App } from "../types/app.ts";
import { RotundaError, toRotundaError } from "../types/error.ts";
import type { ResponseNode } from "../types/response.ts";
import type { Store } from "../types/store.ts";
import { mayHaveSkippedItsTurn } from "../util/turns.ts";

const MOST_RESTARTS = 3;

export interface RunQueuedOptions {
  app: App;
  /** The app of the response's own directory. */
  appFor(node: ResponseNode): Promise<App>;
  tell(text: string): void;
}

/** Whether something above it has not ended; that may be further up, where what is in between never had its turn. */
async function standsBehind(store: Store, node: ResponseNode): Promise<boolean> {
  for (let id = node.previousResponseId; id !== null; ) {
    const above: ResponseNode | undefined = await store.node(id);
    if (!above) return false;
    if (above.endedAt === null) return true;
    id = mayHaveSkippedItsTurn(above) ? above.previousResponseId : null;
  }
  return false;
}

/** Resolves when it has left this process; rejects where somebody shall try again later. */
export async function runQueued({ app, appFor, tell }: RunQueuedOptions, id: string, last: boolean): Promise<void> {
  const node = await app.store.node(id);
  if (!node || node.endedAt !== null) return;
  if (node.status === "queued" && (await standsBehind(app.store, node))) return;
  if (node.restarts >= MOST_RESTARTS && (await app.store.leaseOf(id)) !== undefined) {
    tell(`response ${id} was running at ${node.restarts} crashes in a row: it is ended`);
    return app.engine.interrupt(id);
  }
  try {
    const own = await appFor(node);
    const before = node.status === "in_progress" ? await app.store.leaseOf(id) : undefined;
    await own.engine.run(id);
    if (node.status === "in_progress" && (await app.store.leaseOf(id))?.process !== before?.process) {
      tell(
        `response ${id} goes on here: ${before ? "the process that ran it is gone" : "a process that ended left it"}`,
      );
    }
    const now = await own.engine.wait(id);
    if (now.endedAt === null && now.status !== "waiting") throw new RotundaError("shutting_down", "this worker ends");
  } catch (thrown) {
    const error = toRotundaError(thrown);
    if (error.code === "response_ended" || error.code === "not_found") return;
    // Whoever has it has a job of its own for it, or is found out by its lease.
    if (error.code === "owned_elsewhere") return;
    if (last && error.code !== "shutting_down") {
      tell(`response ${id} cannot be run: ${app.redact(error.message)}`);
      return app.engine.interrupt(id);
    }
    throw error;
  }
}
