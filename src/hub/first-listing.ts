/**
 * First listing: how long a run waits for the tools of a server of which nothing is known, and what is said of it.
 *
 * Invariant: nobody waits in silence for more than about two seconds; each thing is said once in a process; a server that
 * was waited for in vain a moment ago is not waited for again, unless by whoever wants it and no other.
 */
import type { ServerConfig } from "../types/config.ts";
import type { FailureMemory, RememberedFailure } from "./failure-memory.ts";
import { settledWithin } from "./failures.ts";
import type { HubClock } from "./hub-types.ts";

/** Milliseconds. */
const SILENCE = 2_000;
/** Seconds. */
const PATIENCE = 10;
/** Milliseconds in which what failed by itself will hardly have been mended. */
const SOON = 2 * 60_000;

export interface FirstListingParts {
  config: ServerConfig;
  clock: HubClock;
  memory: FailureMemory;
  say(text: string): void;
  /** The text with the server's last words, without secrets. */
  explain(text: string): string;
}

export class FirstListing {
  readonly #parts: FirstListingParts;
  #told = false;
  #late: string | undefined;

  constructor(parts: FirstListingParts) {
    this.#parts = parts;
  }

  /** What was said when runs began to go on without it. */
  get late(): string | undefined {
    return this.#late;
  }

  /**
   * Resolves when the opening has ended, or `startTimeout` after `openedAt`; never rejects. `only`: nothing but this server
   * is wanted.
   */
  async wait(
    opening: Promise<unknown>,
    openedAt: number,
    signal: AbortSignal | undefined,
    only: boolean,
  ): Promise<void> {
    const { config, clock, memory, say, explain } = this.#parts;
    const { name, startTimeout = PATIENCE } = config;
    const limit = startTimeout * 1000 - (clock.now() - openedAt);
    if (limit <= 0) return;
    const before = memory.recent;
    const how = before && !only ? this.#inVain(before, startTimeout) : undefined;
    if (before && how !== undefined) {
      const seconds = Math.max(1, Math.round((clock.now() - before.at) / 1000));
      const ago = seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} minutes`;
      this.#goOn(`${how} ${ago} ago and is started in the background`);
      return;
    }
    let settled = false;
    const end = () => {
      settled = true;
    };
    opening.then(end, end);
    const early = Math.min(limit, SILENCE);
    await settledWithin(opening, early, clock, signal);
    if (settled || signal?.aborted) return;
    if (limit > early) {
      if (!this.#told) say(`waiting for MCP server ${name} …`);
      this.#told = true;
      await settledWithin(opening, limit - early, clock, signal);
      if (settled || signal?.aborted) return;
    }
    if (this.#late === undefined)
      memory.note(explain(`it did not answer within ${startTimeout} s`), { waited: startTimeout });
    this.#goOn(`has not answered within ${startTimeout} s`);
  }

  /** How it failed where waiting for it was of no use lately, and would be of none now. */
  #inVain({ at, waited = 0, took }: RememberedFailure, startTimeout: number): string | undefined {
    if (waited >= startTimeout) return "did not answer in time";
    return took !== undefined && this.#parts.clock.now() - at < SOON ? "failed" : undefined;
  }

  #goOn(why: string): void {
    if (this.#late !== undefined) return;
    const { config, say, explain } = this.#parts;
    this.#late = explain(why);
    const way = `rotunda hub test ${config.name} waits for it and says more`;
    say(`MCP server ${config.name} ${this.#late}. Its tools are left out until it has answered: ${way}`);
  }
}
