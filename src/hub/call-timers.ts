/**
 * Call timers: the time that each call of a session may take, which stands still while a person is asked.
 *
 * Invariant: a timer fires at most once, and never after it was stopped; pauses nest.
 */

interface Timer {
  controller: AbortController;
  /** Milliseconds that are left, as of `since`. */
  left: number;
  since: number;
  timeout: NodeJS.Timeout | undefined;
}

export class CallTimers {
  readonly #timers = new Set<Timer>();
  #pauses = 0;

  /** A signal that is aborted after so many milliseconds without the pauses, what ends the timer, and what begins it anew. */
  start(milliseconds: number): { signal: AbortSignal; stop(): void; restart(): void } {
    const timer: Timer = { controller: new AbortController(), left: milliseconds, since: 0, timeout: undefined };
    this.#timers.add(timer);
    if (this.#pauses === 0) this.#run(timer);
    const stop = () => {
      clearTimeout(timer.timeout);
      this.#timers.delete(timer);
    };
    const restart = () => {
      if (!this.#timers.has(timer)) return;
      clearTimeout(timer.timeout);
      timer.left = milliseconds;
      if (this.#pauses === 0) this.#run(timer);
    };
    return { signal: timer.controller.signal, stop, restart };
  }

  /** Until the promise is settled nobody's time runs. */
  async whileAsking<T>(asking: Promise<T>): Promise<T> {
    if (this.#pauses++ === 0) for (const timer of this.#timers) this.#halt(timer);
    try {
      return await asking;
    } finally {
      if (--this.#pauses === 0) for (const timer of this.#timers) this.#run(timer);
    }
  }

  #run(timer: Timer): void {
    timer.since = performance.now();
    timer.timeout = setTimeout(() => {
      this.#timers.delete(timer);
      timer.controller.abort("Request timed out");
    }, timer.left);
  }

  #halt(timer: Timer): void {
    clearTimeout(timer.timeout);
    timer.left = Math.max(0, timer.left - (performance.now() - timer.since));
  }
}
