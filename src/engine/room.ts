/**
 * Room: how many of this process's runs count against what it runs at once.
 *
 * Invariant: what only stands behind another response takes no room from it; else what stands behind could keep that
 * one from ever going on.
 */
import type { Runner } from "../types/runner.ts";
import type { Run } from "./run.ts";

export class Room {
  readonly #runs: ReadonlyMap<string, Run>;
  readonly #runner: Runner | undefined;
  readonly #standing = new Set<Run>();

  constructor(runs: ReadonlyMap<string, Run>, runner: Runner | undefined) {
    this.#runs = runs;
    this.#runner = runner;
  }

  /** Runs that need it. */
  get taken(): number {
    return this.#runs.size - this.#standing.size;
  }

  /** It waits for its turn: another one may have its place. */
  stands(run: Run): void {
    if (this.#standing.has(run)) return;
    this.#standing.add(run);
    this.#runner?.left(run.node, this.taken);
  }

  /** It has its turn. */
  goes(run: Run): void {
    this.#standing.delete(run);
  }
}
