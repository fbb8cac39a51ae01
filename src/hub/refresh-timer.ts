/**
 * Refresh timer: how often a list that is said to have changed is read again.
 *
 * Invariant: a storm of announcements costs one reading per delay, and the delay doubles while it lasts; the last
 * announcement is never lost.
 */
import type { HubClock } from "./hub-types.ts";

/** Milliseconds. */
const FIRST_DELAY = 250;
const SLOWEST_DELAY = 30_000;

export class RefreshTimer {
  readonly #clock: HubClock;
  readonly #refresh: () => Promise<void>;
  #timer: NodeJS.Timeout | undefined;
  #delay = FIRST_DELAY;
  #refreshedAt = 0;
  #stopped = false;

  constructor(clock: HubClock, refresh: () => Promise<void>) {
    this.#clock = clock;
    this.#refresh = refresh;
  }

  announce(): void {
    if (this.#timer || this.#stopped) return;
    const quiet = this.#clock.now() - this.#refreshedAt > 2 * this.#delay;
    this.#delay = quiet ? FIRST_DELAY : Math.min(SLOWEST_DELAY, this.#delay * 2);
    this.#timer = setTimeout(() => {
      this.#refreshedAt = this.#clock.now();
      void this.#refresh().finally(() => {
        this.#timer = undefined;
      });
    }, this.#delay).unref();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }
}
