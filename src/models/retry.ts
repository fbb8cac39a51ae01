/**
 * When a model call is made again, and when it is not.
 *
 * Invariant: nothing is repeated once anything of an answer was yielded; no wait reaches beyond the deadline
 * of the call; a cancel ends a wait at once. What the endpoint says about waiting is honoured exactly.
 */
import { cancelledError, UpstreamError } from "./upstream-error.ts";

/** Time and chance, replaced in tests. Milliseconds; `random` is in [0, 1). */
export interface RetryTimes {
  now(): number;
  random(): number;
  /** Rejects as soon as the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export const realTimes: RetryTimes = {
  now: Date.now,
  random: Math.random,
  sleep: (milliseconds, signal) =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(cancelledError());
      const timer = setTimeout(() => {
        signal.removeEventListener("abort", stop);
        resolve();
      }, milliseconds);
      function stop(): void {
        clearTimeout(timer);
        reject(cancelledError());
      }
      signal.addEventListener("abort", stop, { once: true });
    }),
};

const FIRST_WAIT = 300;
const LONGEST_WAIT = 30_000;

/** Milliseconds before the retry with this number, from 1: doubling, give or take a quarter. */
export function backoff(number: number, random: () => number): number {
  const wait = Math.min(FIRST_WAIT * 2 ** (number - 1), LONGEST_WAIT);
  return Math.round(wait * (0.75 + random() / 2));
}

const THRESHOLD = 5;
const FIRST_PAUSE = 5_000;
const LONGEST_PAUSE = 60_000;

/**
 * Circuit breaker of one model at one endpoint. After five overloads in a row (429 without a time to wait,
 * 5xx) nobody asks for five seconds, then one call tries; each further failure doubles the pause, up to a
 * minute. Other models, also of the same endpoint, have their own.
 */
export class CircuitBreaker {
  #failures = 0;
  #pause = 0;
  #until = 0;
  #trying = false;

  get failures(): number {
    return this.#failures;
  }

  /** Milliseconds until somebody may ask; 0: this caller may, and counts as the one that tries. */
  enter(now: number): number {
    if (this.#pause === 0) return 0;
    if (now < this.#until) return this.#until - now;
    this.#until = now + this.#pause;
    this.#trying = true;
    return 0;
  }

  succeeded(): void {
    this.#failures = 0;
    this.#pause = 0;
  }

  failed(now: number): void {
    this.#failures++;
    if (this.#failures < THRESHOLD) return;
    // Calls that were under way when it opened say nothing new.
    if (this.#pause > 0 && !this.#trying) return;
    this.#trying = false;
    this.#pause = this.#pause === 0 ? FIRST_PAUSE : Math.min(this.#pause * 2, LONGEST_PAUSE);
    this.#until = now + this.#pause;
  }
}

export interface RetryOptions {
  /** Attempts after the first. */
  retries: number;
  /** Milliseconds since the epoch. */
  deadline: number;
  signal: AbortSignal;
  times: RetryTimes;
  breaker: CircuitBreaker;
  /** For messages. */
  host: string;
  onRetry?: ((text: string) => void) | undefined;
}

/**
 * Runs `attempt` until it resolves or may not be repeated; rejects with the last `UpstreamError`. An attempt
 * that had yielded something rejects with `partial`.
 */
export async function withRetries(attempt: () => Promise<void>, options: RetryOptions): Promise<void> {
  const { breaker, times } = options;
  const blocked = breaker.enter(times.now());
  if (blocked > 0) throw pausedError(blocked, options);
  for (let number = 1; ; number++) {
    let failure: UpstreamError;
    try {
      await attempt();
      breaker.succeeded();
      return;
    } catch (thrown) {
      if (!(thrown instanceof UpstreamError)) throw thrown;
      failure = thrown;
    }
    note(failure, options);
    if (!failure.repeatable || failure.partial || number > options.retries) throw failure;
    await pause(failure, number, options);
  }
}

/** Tells the breaker: only what says that the endpoint is overloaded counts against it. */
function note(failure: UpstreamError, { breaker, times }: RetryOptions): void {
  const overloaded = failure.code === "upstream_failed" || failure.code === "upstream_rate_limited";
  if (!overloaded) {
    if (failure.status !== undefined) breaker.succeeded();
  } else if (failure.repeatable && failure.retryAfter === undefined) breaker.failed(times.now());
}

async function pause(failure: UpstreamError, number: number, options: RetryOptions): Promise<void> {
  const { times, retries } = options;
  const wait = failure.retryAfter ?? backoff(number, times.random);
  refuseLateWait(wait, failure, options);
  options.onRetry?.(`${failure.message}; trying again in ${seconds(wait)} (retry ${number} of ${retries})`);
  await times.sleep(wait, options.signal);
  for (;;) {
    const blocked = options.breaker.enter(times.now());
    if (blocked === 0) return;
    // Others have found it broken as well: whoever waits for this answer learns it now.
    if (failure.code === "upstream_failed") throw failure;
    refuseLateWait(blocked, failure, options);
    await times.sleep(blocked, options.signal);
  }
}

/** A wait that would end after the deadline is not begun. */
function refuseLateWait(wait: number, failure: UpstreamError, { times, deadline, host }: RetryOptions): void {
  if (times.now() + wait < deadline) return;
  const why = failure.retryAfter === undefined ? "the next attempt" : `${host} asks to wait ${seconds(wait)}, which`;
  throw withMessage(failure, `${failure.message} (${why} is beyond the deadline)`);
}

function pausedError(blocked: number, { breaker, host }: RetryOptions): UpstreamError {
  return new UpstreamError(
    "upstream_failed",
    `${host} has failed ${breaker.failures} times in a row and is left alone for another ${seconds(blocked)}`,
    { remedy: "Wait, or use another model." },
  );
}

function withMessage(failure: UpstreamError, message: string): UpstreamError {
  const { code, status, cause, remedy } = failure;
  return new UpstreamError(code, message, {
    cause,
    ...(status === undefined ? {} : { status }),
    ...(remedy === undefined ? {} : { remedy }),
  });
}

function seconds(milliseconds: number): string {
  return `${Math.round(milliseconds / 100) / 10} s`;
}
