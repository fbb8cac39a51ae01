/**
 * The local runner: background responses beyond what one process runs at once stay on disk, and begin as others end.
 *
 * Invariant: in memory there is an id for each of them and nothing else; conversations take turns. Whatever it has not
 * begun when the process ends is taken up by the next one.
 */
import type { ResponseNode } from "../types/response.ts";
import type { Runner } from "../types/runner.ts";
import { FairQueue } from "../util/fair-queue.ts";

export interface LocalRunnerOptions {
  /** Responses that run at once. */
  limit: number;
  /** Runs one here. Rejects where another process has it, or it has ended. */
  run(id: string): Promise<unknown>;
}

export function createLocalRunner({ limit, run }: LocalRunnerOptions): Runner {
  const waiting = new FairQueue();
  const beginning = new Set<string>();
  let closed = false;

  const fill = (running: number): void => {
    while (!closed && running + beginning.size < limit) {
      const id = waiting.next();
      if (id === undefined) return;
      beginning.add(id);
      run(id)
        // Cancelled in the meantime, or another process was quicker.
        .catch(() => undefined)
        .finally(() => beginning.delete(id));
    }
  };
  const add = (node: ResponseNode) => waiting.add(node.id, node.conversationId ?? node.id);

  return {
    // Whoever waits at the end of a connection is held back there, by the limits of its token.
    takes: ({ settings }, running) => settings.foreground !== true && running + beginning.size >= limit,
    keeps: ({ id }) => waiting.has(id) || beginning.has(id),
    created: add,
    submit: async (node) => add(node),
    left: (_node, running) => fill(running),
    close: async () => {
      closed = true;
    },
  };
}
