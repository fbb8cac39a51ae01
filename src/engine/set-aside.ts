/**
 * Set aside: a run that could not be written any more.
 *
 * Invariant: nothing stays "in progress" that nobody runs. When there is room again, one that somebody waited for at
 * the end of a connection ends `incomplete`, as after a crash, one that was cancelled meanwhile ends so, and any other
 * goes on.
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

export class SetAside {
  readonly #runs = new Map<string, Run>();

  /** One that waits for room: who stops it wishes that it does not go on then. */
  of(id: string): Run | undefined {
    return this.#runs.get(id);
  }

  /** Never rejects. Resolves when the response is somebody's again, or the engine stops. */
  async takeUpLater(
    run: Run,
    engine: Pick<Engine, "cancel" | "interrupt" | "resume">,
    isStopping: () => boolean,
  ): Promise<void> {
    const { node, failure } = run;
    // A sub-agent goes on with its caller.
    if (node.caller !== null || !failure || !isStorage(failure)) return;
    this.#runs.set(node.id, run);
    for (let pause = SOON; ; pause = Math.min(2 * pause, SELDOM)) {
      await sleep(pause, undefined, { ref: false });
      if (isStopping()) break;
      try {
        await goOn(run, engine);
        break;
      } catch (error) {
        if (!isStorage(error)) break;
      }
    }
    this.#runs.delete(node.id);
  }
}

async function goOn(
  { node: { id, settings }, approver, stopped }: Run,
  engine: Pick<Engine, "cancel" | "interrupt" | "resume">,
): Promise<void> {
  if (stopped?.status === "cancelled") await engine.cancel(id, stopped.error?.message ?? "cancelled");
  else if (settings.foreground) await engine.interrupt(id);
  else await engine.resume(id, approver);
}
