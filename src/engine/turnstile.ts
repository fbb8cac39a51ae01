/**
 * Turnstile: who goes next where something can be used by a few at once.
 *
 * Invariant: of those that wait for one thing, conversations take turns, and within one it is the order of coming; only
 * the first in line tries, so that a crowd costs no more than one.
 */

interface Waiter {
  group: string;
  go: () => void;
}

export class Turnstile {
  readonly #lines = new Map<string, Waiter[]>();
  /** The group that went last, by line. */
  readonly #last = new Map<string, string>();

  /** Whether somebody stands in the line for it: then it is not for a newcomer to try. */
  isCrowded(key: string): boolean {
    return this.#lines.has(key);
  }

  /**
   * Waits in the line for `key` until it is the first. Resolves with what it must call when it has what it waited for,
   * or no longer wants it. An aborted signal ends the wait as well.
   */
  async enter(key: string, group: string, signal: AbortSignal): Promise<() => void> {
    const line = this.#lines.get(key);
    if (!line) {
      this.#lines.set(key, []);
      return this.#leaver(key, group);
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { group, go: resolve };
    line.push(waiter);
    let called = true;
    const onAbort = () => {
      const at = line.indexOf(waiter);
      if (at < 0) return;
      line.splice(at, 1);
      called = false;
      resolve();
    };
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    await promise;
    signal.removeEventListener("abort", onAbort);
    return called ? this.#leaver(key, group) : () => undefined;
  }

  #leaver(key: string, group: string): () => void {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#last.set(key, group);
      const line = this.#lines.get(key) ?? [];
      if (line.length === 0) {
        this.#lines.delete(key);
        this.#last.delete(key);
        return;
      }
      line.splice(nextIn(line, this.#last.get(key)), 1)[0]?.go();
    };
  }
}

/** The first of another group than the last one; groups that came earlier go earlier. */
function nextIn(line: readonly Waiter[], last: string | undefined): number {
  return Math.max(
    0,
    line.findIndex(({ group }) => group !== last),
  );
}
