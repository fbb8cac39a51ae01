/**
 * Set aside: a run that could not be written any more.
 *
 * Invariant: nothing stays "in progress" that nobody runs. When there is room again, one that somebody waited for at
 * the end of a connection ends `incomplete`, as after a crash, and any other goes on.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Engine } from "../types/engine.ts";
import { toRotundaError } from "../types/error.ts";
import type { Run } from "./run.ts";

/** Milliseconds before the first try, and between two at most. */
const SOON = 1_000;
const SELDOM = 30_000;

function isStorage(error: unknown): boolean {
  const { code } = toRotundaError(error);
  return code === "storage_full" || code === "storage_failed";
}

/** Never rejects. Resolves when the response is somebody's again, or the engine stops. */
export async function takeUpLater(
  { node: { id, caller, settings }, failure, approver }: Run,
  engine: Pick<Engine, "interrupt" | "resume">,
  isStopping: () => boolean,
): Promise<void> {
  // A sub-agent goes on with its caller.
  if (caller !== null || !failure || !isStorage(failure)) return;
  for (let pause = SOON; ; pause = Math.min(2 * pause, SELDOM)) {
    await sleep(pause, undefined, { ref: false });
    if (isStopping()) return;
    try {
      if (settings.foreground) await engine.interrupt(id);
      else await engine.resume(id, approver);
      return;
    } catch (error) {
      if (!isStorage(error)) return;
    }
  }
}
