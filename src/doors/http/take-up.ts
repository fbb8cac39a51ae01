/**
 * Take up: what a process that is gone has left behind goes on in this one.
 *
 * Invariant: a response that somebody waited for at the end of a connection ends `incomplete`, any other goes on; one
 * that has brought a server down three times is left alone, so that the server starts (faults P1, P13).
 */
import type { App } from "../../types/app.ts";
import { toRotundaError } from "../../types/error.ts";
import type { ResponseNode } from "../../types/response.ts";
import { once } from "../../util/once.ts";
import { parked } from "../../util/parked.ts";
import { isHeld } from "../../util/process-name.ts";
import { clearStandIns } from "../../util/sandbox-guards.ts";

export interface TakeUpOptions {
  app: App;
  /** The app of the response's own directory. */
  appFor(workspace: string, configuration?: string): Promise<App>;
  tell(text: string): void;
  /** Hears of each response that goes on, and of the app that runs it. */
  resumed?(node: ResponseNode, app: App): void;
}

export interface TakenUp {
  resumed: number;
  interrupted: number;
  /** Left as they are. */
  failed: number;
}

const MOST_RESTARTS = 3;
/** Milliseconds that a response which has ended has to let in what stands behind it. */
const MOMENT = 5_000;

export async function takeUp(options: TakeUpOptions): Promise<TakenUp> {
  const { store } = options.app;
  const open = await store.list({ status: ["queued", "in_progress", "waiting"], limit: 100_000 });
  // Oldest first: a queued response finds its parent going on. Sub-agents go on with their callers.
  const result = await takeUpNodes(
    options,
    open.reverse().filter(({ caller }) => caller === null),
  );
  await eraseLeftovers(options.app);
  return result;
}

/** Of these, those that nobody has. Oldest first. */
export async function takeUpNodes(options: TakeUpOptions, nodes: readonly ResponseNode[]): Promise<TakenUp> {
  const { app, tell } = options;
  const result: TakenUp = { resumed: 0, interrupted: 0, failed: 0 };
  const isIdle = once(async () => Object.values((await app.queue?.depth()) ?? {}).every((count) => count === 0));
  for (const node of nodes) {
    const lease = await app.store.leaseOf(node.id);
    if (isHeld(lease)) continue;
    // Whoever had it is gone, perhaps in the midst of a command.
    if (lease) clearStandIns(node.workspace);
    // It is in the queue already, or goes there when it is answered.
    if (app.queue && !lease && node.status !== "in_progress" && !(await isLost(app, node, isIdle))) continue;
    try {
      await takeUpOne(options, node, lease !== undefined, result);
    } catch (error) {
      // Another server was quicker.
      if (toRotundaError(error).code === "owned_elsewhere") continue;
      result.failed++;
      tell(`response ${node.id} cannot be gone on with: ${app.redact(toRotundaError(error).message)}`);
    }
  }
  return result;
}

/**
 * Whether nothing in the queue would ever run it: whoever ran what it stood behind was killed before it could put it in.
 * Where something waits in the queue, it may be this one.
 */
async function isLost({ store }: App, node: ResponseNode, isIdle: () => Promise<boolean>): Promise<boolean> {
  if (node.status !== "queued" || node.previousResponseId === null) return false;
  const parent = await store.node(node.previousResponseId);
  if (parent && (parent.endedAt === null || Date.now() - parent.endedAt < MOMENT)) return false;
  return isIdle();
}

async function takeUpOne(
  { app, appFor, tell, resumed }: TakeUpOptions,
  node: ResponseNode,
  crashed: boolean,
  result: TakenUp,
): Promise<void> {
  const often = crashed && node.restarts >= MOST_RESTARTS;
  if (often) tell(`response ${node.id} was running at ${node.restarts} crashes in a row: it is ended`);
  if (often || (node.settings.foreground && node.status !== "waiting")) {
    await app.engine.interrupt(node.id);
    result.interrupted++;
    return;
  }
  const own = await appFor(node.workspace, node.settings.configuration);
  await own.engine.resume(node.id, parked);
  result.resumed++;
  resumed?.(node, own);
}

/** What was not to be stored, and whose server ended between its end and its erasure. */
async function eraseLeftovers(app: App): Promise<void> {
  for (const node of await app.store.list({ limit: 200 })) {
    if (node.endedAt !== null && node.settings.store === false) await app.engine.delete(node.id);
  }
}
