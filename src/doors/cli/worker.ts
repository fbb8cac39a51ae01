/**
 * `rotunda worker`: runs responses that servers accept.
 *
 * Invariant: stdout has one line, and has it when work is taken. The first SIGTERM or SIGINT takes no more and lets what
 * runs come to its end; what has not ended then goes on in another worker.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { counted } from "../../util/text.ts";
import type { AppFlags } from "./app-flags.ts";
import type { CommandContext } from "./context.ts";
import { stopSignal } from "./stop-signal.ts";

export interface WorkerOptions extends AppFlags {
  concurrency: number;
  profiles?: string[];
  healthPort?: number;
  healthHost: string;
}

/** Seconds from the first signal to the end, whatever still runs; of them those that runs have. */
const TO_THE_END = 10;
const TO_FINISH = 8;

export async function worker(context: CommandContext, options: WorkerOptions): Promise<number> {
  const stop = stopSignal(TO_THE_END);
  const app = await context.app({ ...options, queued: true });
  const { concurrency, profiles, healthPort: port, healthHost: host } = options;
  const work = await context.work(app, {
    concurrency,
    ...(profiles && { profiles }),
    ...(port !== undefined && { health: { host, port } }),
  });
  if (work.healthAddress) context.streams.err(`its health: ${work.healthAddress}/readyz\n`);
  const which = profiles ? ` of ${profiles.join(", ")}` : "";
  context.streams.out(`Rotunda worker runs up to ${counted(concurrency, "response")}${which} at once\n`);
  await stop.first;
  await Promise.race([work.drain(), sleep(TO_FINISH * 1_000, undefined, { ref: false })]);
  return 0;
}
