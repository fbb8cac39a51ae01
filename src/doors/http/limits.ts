/**
 * Limits: requests a second, runs at once and use in a day, per identity.
 *
 * Invariant: counted in memory, for this process; a token that is over its limit costs the others nothing.
 */
import type { Owner, ResponseNode } from "../../types/response.ts";
import { DoorError } from "./errors.ts";
import type { Identity } from "./identity.ts";

/** What an owner has used since midnight (UTC): tokens, and US dollars where an endpoint said what it costs. */
export type UsageToday = (owner: Owner) => Promise<{ tokens: number; cost: number }>;

interface Bucket {
  /** Requests that may come at once. */
  left: number;
  /** Milliseconds of the monotonic clock. */
  at: number;
}

/** Milliseconds for which a day's use is believed. */
const USE_KNOWN = 2_000;

export class Limits {
  readonly #buckets = new Map<Owner, Bucket>();
  readonly #runs = new Map<Owner, number>();
  readonly #use = new Map<Owner, { at: number; value: ReturnType<UsageToday> }>();
  readonly #usageToday: UsageToday | undefined;
  readonly #ended: (node: ResponseNode) => void;

  /** `ended` hears of each response that ends here, once. */
  constructor(usageToday?: UsageToday, ended: (node: ResponseNode) => void = () => undefined) {
    this.#usageToday = usageToday;
    this.#ended = ended;
  }

  /** Runs that have not ended, of everybody. */
  get running(): number {
    let sum = 0;
    for (const count of this.#runs.values()) sum += count;
    return sum;
  }

  /** Counts one request. Throws `rate_limited`. Bursts of up to one second's requests pass. */
  countRequest({ owner, limits }: Identity): void {
    const rate = limits.requestsPerSecond;
    if (rate === Number.POSITIVE_INFINITY) return;
    const now = performance.now();
    const most = Math.max(1, rate);
    let bucket = this.#buckets.get(owner);
    if (!bucket) {
      bucket = { left: most, at: now };
      this.#buckets.set(owner, bucket);
    }
    bucket.left = Math.min(most, bucket.left + ((now - bucket.at) / 1_000) * rate);
    bucket.at = now;
    if (bucket.left < 1) {
      throw new DoorError("rate_limited", `This token may make ${rate} requests a second.`, {
        retryAfter: rate > 0 ? (1 - bucket.left) / rate : 60,
      });
    }
    bucket.left--;
  }

  /** One more run; call what it resolves with, and with what came of it, when it has ended. Throws `rate_limited`. */
  async acquireRun({ owner, limits }: Identity): Promise<Release> {
    // Taken before the day's use is asked for, so that two requests at one moment cannot both be the last one.
    const release = this.#takeRun(owner, limits.concurrentRuns);
    try {
      if (Number.isFinite(limits.tokensPerDay) || Number.isFinite(limits.costPerDay)) {
        const { tokens, cost } = await this.#usedToday(owner);
        if (tokens >= limits.tokensPerDay) throw overDay(`${limits.tokensPerDay} tokens`);
        if (cost >= limits.costPerDay) throw overDay(`$${limits.costPerDay}`);
      }
    } catch (error) {
      release();
      throw error;
    }
    return release;
  }

  /** Counts a run that nobody asks leave for: one that goes on after a restart, or after an answer. */
  holdRun(owner: Owner, ended: Promise<unknown>): void {
    const release = this.#takeRun(owner, Number.POSITIVE_INFINITY);
    ended.then(release, release);
  }

  #takeRun(owner: Owner, most: number): Release {
    const running = this.#runs.get(owner) ?? 0;
    if (running >= most) {
      throw new DoorError("rate_limited", `This token may have ${most} runs at once.`, { retryAfter: 1 });
    }
    this.#runs.set(owner, running + 1);
    let released = false;
    return (outcome) => {
      if (released) return;
      released = true;
      if (isEnded(outcome)) this.#ended(outcome);
      // What it has used counts for the very next one.
      this.#use.delete(owner);
      const left = (this.#runs.get(owner) ?? 1) - 1;
      if (left > 0) this.#runs.set(owner, left);
      else this.#runs.delete(owner);
    };
  }

  #usedToday(owner: Owner): ReturnType<UsageToday> {
    if (!this.#usageToday) return Promise.resolve({ tokens: 0, cost: 0 });
    const now = performance.now();
    const known = this.#use.get(owner);
    if (known && now - known.at < USE_KNOWN) return known.value;
    const value = this.#usageToday(owner);
    this.#use.set(owner, { at: now, value });
    return value;
  }
}

/** `outcome`: the response, or why there is none. */
export type Release = (outcome?: unknown) => void;

function isEnded(outcome: unknown): outcome is ResponseNode {
  return (
    typeof outcome === "object" && outcome !== null && "usage" in outcome && "endedAt" in outcome && !!outcome.endedAt
  );
}

function overDay(what: string): DoorError {
  const now = new Date();
  const midnight = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + 1);
  return new DoorError("rate_limited", `This token may use ${what} a day, and has; it can go on at 00:00 UTC.`, {
    retryAfter: (midnight - now.getTime()) / 1_000,
    // An SDK would try again within seconds.
    headers: { "x-should-retry": "false" },
  });
}
