/**
 * Circuit: how often a failing server may be started again.
 *
 * Invariant: between two unasked starts lies a delay that doubles from one second to one minute; after five
 * failures in a row calls wait for it too, instead of starting a process each.
 */

const OPEN_AFTER = 5;
const FIRST_DELAY = 1000;
const LONGEST_DELAY = 60_000;

export class Circuit {
  #failures = 0;
  #retryAt = 0;

  /** Records a failure; `flood` opens the circuit at once and for the longest delay. */
  fail(now: number, flood = false): void {
    this.#failures = flood ? Math.max(this.#failures + 1, OPEN_AFTER) : this.#failures + 1;
    const delay = flood ? LONGEST_DELAY : Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** (this.#failures - 1));
    this.#retryAt = now + delay;
  }

  /** A call was answered: the server works. */
  succeed(): void {
    this.#failures = 0;
    this.#retryAt = 0;
  }

  /** Whether the server may be started without a call that needs it. */
  mayStart(now: number): boolean {
    return now >= this.#retryAt;
  }

  /** Milliseconds until it may be started without a call that needs it. */
  waitFor(now: number): number {
    return Math.max(0, this.#retryAt - now);
  }

  /** Milliseconds for which calls are refused; 0 where they may try. */
  refusedFor(now: number): number {
    return this.#failures < OPEN_AFTER ? 0 : Math.max(0, this.#retryAt - now);
  }
}
