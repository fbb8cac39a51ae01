/**
 * Failure memory: how a server failed lately, remembered for the next process beside its list of tools.
 *
 * Format: `<stateDir>/hub/<key of the manifest>.failed.json`, mode 0600: `{at, why, waited, took}`.
 * Invariant: it is a help and no more: what cannot be read or written, and what is older than ten minutes, counts as
 * absent. The file is read at most once, and not where nobody asks.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Milliseconds for which a failure says something about now. */
const KEPT = 10 * 60_000;

export interface RememberedFailure {
  /** Milliseconds since the epoch. */
  at: number;
  /** Without secrets. */
  why: string;
  /** Seconds for which an answer was waited for in vain; absent where it failed by itself. */
  waited?: number;
  /** Seconds until it failed by itself; absent where that was soon. */
  took?: number;
}

export type FailureTimes = Pick<RememberedFailure, "waited" | "took">;

export class FailureMemory {
  readonly #directory: string;
  readonly #path: string;
  readonly #now: () => number;
  readonly #keeps: boolean;
  #failure: RememberedFailure | null | undefined;

  /** `keeps`: false for what is only read, never written. */
  constructor(directory: string, key: string, keeps: boolean, now: () => number) {
    this.#directory = directory;
    this.#path = join(directory, `${key}.failed.json`);
    this.#keeps = keeps;
    this.#now = now;
  }

  /** The last failure, if it is not long ago and nothing has worked since. */
  get recent(): RememberedFailure | undefined {
    this.#failure ??= this.#read() ?? null;
    const age = this.#failure === null ? KEPT : this.#now() - this.#failure.at;
    return this.#failure !== null && age >= 0 && age < KEPT ? this.#failure : undefined;
  }

  #read(): RememberedFailure | undefined {
    try {
      const read = JSON.parse(readFileSync(this.#path, "utf8")) as Partial<RememberedFailure> | null;
      const { at, why, waited, took } = read ?? {};
      if (typeof at !== "number" || typeof why !== "string") return undefined;
      const times = { ...(typeof waited === "number" && { waited }), ...(typeof took === "number" && { took }) };
      return { at, why, ...times };
    } catch {
      return undefined;
    }
  }

  note(why: string, times: FailureTimes = {}): void {
    const failure = { at: this.#now(), why, ...times };
    this.#failure = failure;
    if (!this.#keeps) return;
    try {
      mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
      writeFileSync(this.#path, JSON.stringify(failure), { mode: 0o600 });
    } catch {
      // Found out anew next time.
    }
  }

  forget(): void {
    this.#failure = null;
    if (!this.#keeps) return;
    try {
      rmSync(this.#path, { force: true });
    } catch {
      // It is soon too old.
    }
  }
}
