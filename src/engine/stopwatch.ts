/**
 * Stopwatch: the time that a response has really run, and the limit on it.
 *
 * Invariant: time spent waiting for a person, or between two processes, does not count; several questions
 * at the same time are one wait. What somebody does to the wall clock is nothing to it.
 */

/** setTimeout takes no more. */
const LONGEST = 2 ** 31 - 1;

export class Stopwatch {
  #ran: number;
  #since: number | null;
  #pauses = 0;
  #limit = Number.POSITIVE_INFINITY;
  #onLimit: () => void = () => undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `ran`: milliseconds that it had run before. */
  constructor(ran: number) {
    this.#ran = ran;
    this.#since = performance.now();
  }

  /** Whole milliseconds. */
  spent(): number {
    return Math.round(this.#ran + (this.#since === null ? 0 : performance.now() - this.#since));
  }

  pause(): void {
    if (this.#pauses++ > 0 || this.#since === null) return;
    this.#ran = this.spent();
    this.#since = null;
    clearTimeout(this.#timer);
  }

  /** Ends one pause; the watch runs again when all have ended. */
  resume(): void {
    if (--this.#pauses > 0) return;
    this.#since = performance.now();
    this.#arm();
  }

  /** Calls `onLimit` once when `milliseconds` have been spent. */
  limit(milliseconds: number, onLimit: () => void): void {
    this.#limit = milliseconds;
    this.#onLimit = onLimit;
    this.#arm();
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#since === null || this.#limit === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => this.#onLimit(), Math.min(Math.max(0, this.#limit - this.spent()), LONGEST));
  }

  /** No timer is left. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#limit = Number.POSITIVE_INFINITY;
  }
}
