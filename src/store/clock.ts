/**
 * The commit clock: one for the process. What is written in one tick shares one transaction and one fsync.
 *
 * Invariant: writes are applied in the order in which they came; a write's promise settles only after the
 * transaction that holds it was committed. A write that fails takes no other with it.
 */
import { RotundaError } from "../types/error.ts";

/** What the clock needs of a database. Each call may throw the driver's error. */
export interface Transactions {
  /** False: somebody else is writing, try again. */
  begin(): boolean;
  commit(): void;
  rollback(): void;
  /**
   * Called after a rollback. True: what of the transaction is on disk is not known before the database is opened anew,
   * so none of its writes may be tried again.
   */
  isDoubtful?(error: unknown): boolean;
  /** A driver's error as one of ours. */
  explain(error: unknown): RotundaError;
}

interface Write {
  apply: () => unknown;
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

/** Milliseconds that deltas may wait for company. */
const TICK = 25;
/** Milliseconds after which a database that is always busy is an error. */
const BUSY_LIMIT = 30_000;

export class CommitClock {
  #queue: Write[] = [];
  #timer: NodeJS.Timeout | null = null;
  #immediate: NodeJS.Immediate | null = null;
  #last = 0;
  #busySince = 0;
  /** Writes at the head of the queue that get a transaction of their own. */
  #alone = 0;
  readonly #transactions: Transactions;
  /** Called before and after each commit, in tests that kill the process there. */
  readonly #probe: ((moment: "before" | "after") => void) | undefined;

  constructor(transactions: Transactions, probe?: (moment: "before" | "after") => void) {
    this.#transactions = transactions;
    this.#probe = probe;
  }

  /** Hands a write in. `apply` only runs statements: it may be run again alone if the shared transaction fails. */
  write<T>(apply: () => T, now: boolean): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ apply, resolve: resolve as (value: unknown) => void, reject });
      if (now) this.hurry();
      else this.#schedule();
    });
  }

  /** Commits in this tick what has been handed in. */
  hurry(): void {
    if (this.#immediate || this.#queue.length === 0 || this.#busySince !== 0) return;
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#immediate = setImmediate(() => this.flush());
  }

  #schedule(): void {
    if (this.#immediate || this.#timer || this.#busySince !== 0) return;
    const wait = this.#last + TICK - performance.now();
    if (wait <= 0) this.hurry();
    else this.#timer = setTimeout(() => this.flush(), wait);
  }

  /** Commits now, in this call. */
  flush(): void {
    if (this.#immediate) clearImmediate(this.#immediate);
    if (this.#timer) clearTimeout(this.#timer);
    this.#immediate = null;
    this.#timer = null;
    if (this.#queue.length === 0) return;
    try {
      if (!this.#transactions.begin()) {
        this.#waitForTurn();
        return;
      }
    } catch (error) {
      this.#busySince = 0;
      this.#rejectAll(this.#queue.splice(0), error);
      return;
    }
    this.#busySince = 0;
    const work = this.#alone > 0 ? this.#queue.splice(0, 1) : this.#queue.splice(0);
    if (this.#alone > 0) this.#alone--;
    this.#commit(work);
    this.#last = performance.now();
    this.hurry();
  }

  #waitForTurn(): void {
    const now = performance.now();
    if (this.#busySince === 0) this.#busySince = now;
    if (now - this.#busySince > BUSY_LIMIT) {
      this.#busySince = 0;
      this.#rejectAll(
        this.#queue.splice(0),
        new RotundaError("storage_failed", "the database was locked by another process for 30 s"),
      );
      return;
    }
    // Not sooner and not at a fixed beat: several waiting processes must not meet again and again.
    this.#timer = setTimeout(() => this.flush(), 2 + Math.random() * 10);
  }

  #commit(work: Write[]): void {
    const results: unknown[] = [];
    const refused = new Map<number, Error>();
    try {
      for (const [index, write] of work.entries()) {
        try {
          results.push(write.apply());
        } catch (error) {
          // Our own refusals come before the write's first statement, so the rest of the transaction is untouched. What
          // is damaged or cannot be read is met anywhere.
          if (!(error instanceof RotundaError) || error.code.startsWith("storage_")) throw error;
          refused.set(index, error);
          results.push(undefined);
        }
      }
      this.#probe?.("before");
      this.#transactions.commit();
      this.#probe?.("after");
    } catch (error) {
      this.#undo(work, error);
      return;
    }
    for (const [index, write] of work.entries()) {
      const error = refused.get(index);
      if (error) write.reject(error);
      else write.resolve(results[index]);
    }
  }

  /** The shared transaction failed: each write alone, so that only the guilty one is refused. */
  #undo(work: Write[], error: unknown): void {
    try {
      this.#transactions.rollback();
    } catch {
      // SQLite has already rolled back by itself after some errors (full disk, I/O).
    }
    if (this.#transactions.isDoubtful?.(error) || work.length === 1) {
      this.#rejectAll(work, error);
      return;
    }
    this.#queue.unshift(...work);
    this.#alone = work.length;
  }

  #rejectAll(work: Write[], error: unknown): void {
    const explained = this.#transactions.explain(error);
    for (const write of work) write.reject(explained);
  }
}
