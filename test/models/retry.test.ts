import { expect, it } from "vitest";
import { backoff, CircuitBreaker, type RetryTimes, realTimes, withRetries } from "../../src/models/retry.ts";
import { readRetryAfter, UpstreamError } from "../../src/models/upstream-error.ts";

/** A clock that moves only by sleeping. */
function fakeTimes(): RetryTimes & { clock: number; waits: number[] } {
  const times = {
    clock: 1_000_000,
    waits: [] as number[],
    now: () => times.clock,
    random: () => 0.5,
    sleep: async (milliseconds: number) => {
      times.waits.push(milliseconds);
      times.clock += milliseconds;
    },
  };
  return times;
}

const overloaded = (more: object = {}) =>
  new UpstreamError("upstream_failed", "h answered 500", { status: 500, repeatable: true, ...more });

function options(times: RetryTimes, more: object = {}) {
  return {
    retries: 3,
    deadline: Number.POSITIVE_INFINITY,
    signal: new AbortController().signal,
    times,
    breaker: new CircuitBreaker(),
    host: "h",
    ...more,
  };
}

/** An attempt that fails with each error in turn, then succeeds. */
function failing(...errors: UpstreamError[]): { run: () => Promise<void>; count: () => number } {
  let count = 0;
  return {
    run: async () => {
      const error = errors[count++];
      if (error) throw error;
    },
    count: () => count,
  };
}

it("U10 waits longer each time, give or take a quarter, up to half a minute", () => {
  expect([1, 2, 3, 4].map((number) => backoff(number, () => 0.5))).toEqual([300, 600, 1_200, 2_400]);
  expect(backoff(1, () => 0)).toBe(225);
  expect(backoff(1, () => 0.999)).toBeLessThanOrEqual(375);
  expect(backoff(20, () => 0.5)).toBe(30_000);
});

it("U11 makes as many attempts as configured, and the first one at once", async () => {
  const times = fakeTimes();
  const attempt = failing(overloaded(), overloaded(), overloaded(), overloaded());
  await expect(withRetries(attempt.run, options(times))).rejects.toMatchObject({ code: "upstream_failed" });
  expect(attempt.count()).toBe(4);
  expect(times.waits).toEqual([300, 600, 1_200]);
});

it("U16 repeats nothing of which something was yielded, and nothing that is not repeatable", async () => {
  for (const error of [
    overloaded({ partial: true }),
    new UpstreamError("upstream_bad_request", "no", { status: 400 }),
  ]) {
    const attempt = failing(error);
    await expect(withRetries(attempt.run, options(fakeTimes()))).rejects.toBe(error);
    expect(attempt.count()).toBe(1);
  }
});

it("U9 begins no wait that would end after the deadline", async () => {
  const times = fakeTimes();
  const attempt = failing(overloaded(), overloaded());
  const failed = withRetries(attempt.run, options(times, { deadline: times.clock + 800 }));
  await expect(failed).rejects.toThrow(/the next attempt is beyond the deadline/);
  expect(attempt.count()).toBe(2);
  expect(times.waits).toEqual([300]);
});

it("U9 reads every form of retry-after", () => {
  const now = Date.UTC(2026, 0, 1);
  expect(readRetryAfter({ "retry-after": "3" }, now)).toBe(3_000);
  expect(readRetryAfter({ "retry-after": "0.5" }, now)).toBe(500);
  expect(readRetryAfter({ "retry-after": "Thu, 01 Jan 2026 00:00:09 GMT" }, now)).toBe(9_000);
  expect(readRetryAfter({ "retry-after": "Thu, 01 Jan 2020 00:00:09 GMT" }, now)).toBe(0);
  expect(readRetryAfter({ "retry-after-ms": "250", "retry-after": "3" }, now)).toBe(250);
  expect(readRetryAfter({ "retry-after": "soon" }, now)).toBeUndefined();
  expect(readRetryAfter({ "retry-after": "-1" }, now)).toBeUndefined();
  expect(readRetryAfter({}, now)).toBeUndefined();
});

it("U10 the breaker opens after five overloads in a row, lets one try, and closes on success", async () => {
  const times = fakeTimes();
  const breaker = new CircuitBreaker();
  for (let number = 0; number < 5; number++) breaker.failed(times.clock);
  const blocked = failing();
  await expect(withRetries(blocked.run, options(times, { breaker }))).rejects.toThrow(/failed 5 times in a row/);
  expect(blocked.count()).toBe(0);
  times.clock += 5_000;
  expect(breaker.enter(times.clock)).toBe(0);
  expect(breaker.enter(times.clock)).toBe(5_000);
  breaker.failed(times.clock);
  expect(breaker.enter(times.clock + 9_999)).toBe(1);
  expect(breaker.enter(times.clock + 10_000)).toBe(0);
  breaker.succeeded();
  expect(breaker.enter(times.clock + 10_000)).toBe(0);
  expect(breaker.enter(times.clock + 10_000)).toBe(0);
});

it("U10 calls that were under way when the breaker opened do not lengthen its pause", () => {
  const breaker = new CircuitBreaker();
  for (let number = 0; number < 64; number++) breaker.failed(1_000);
  expect(breaker.enter(1_000)).toBe(5_000);
});

it("U10 a call that retries learns at once that others have found the endpoint broken", async () => {
  const times = fakeTimes();
  const breaker = new CircuitBreaker();
  for (let number = 0; number < 4; number++) breaker.failed(times.clock);
  const attempt = failing(overloaded());
  await expect(withRetries(attempt.run, options(times, { breaker }))).rejects.toThrow("h answered 500");
  expect(attempt.count()).toBe(1);
});

it("U10 a call that was limited waits until the breaker lets somebody try", async () => {
  const times = fakeTimes();
  const breaker = new CircuitBreaker();
  for (let number = 0; number < 4; number++) breaker.failed(times.clock);
  const limited = new UpstreamError("upstream_rate_limited", "429", { status: 429, repeatable: true });
  await withRetries(failing(limited).run, options(times, { breaker }));
  expect(times.waits.reduce((sum, wait) => sum + wait, 0)).toBe(5_000);
  expect(breaker.failures).toBe(0);
});

it("U9 a limit that says how long to wait does not open the breaker", async () => {
  const times = fakeTimes();
  const breaker = new CircuitBreaker();
  const limited = () =>
    new UpstreamError("upstream_rate_limited", "429", { status: 429, repeatable: true, retryAfter: 2_000 });
  await withRetries(failing(...Array.from({ length: 9 }, limited)).run, options(times, { breaker, retries: 9 }));
  expect(times.waits).toEqual(Array.from({ length: 9 }, () => 2_000));
});

it("a cancel ends a wait at once", async () => {
  const control = new AbortController();
  const waiting = realTimes.sleep(60_000, control.signal);
  control.abort();
  await expect(waiting).rejects.toMatchObject({ code: "cancelled" });
  await expect(realTimes.sleep(60_000, control.signal)).rejects.toMatchObject({ code: "cancelled" });
});
