/**
 * The commit clock for a database at the other end of a connection: what is written in one tick shares one
 * transaction, and while one transaction is under way the next one gathers (see clock.ts for the rules).
 *
 * Invariant: of two writes with one key the second is not begun before the first has been settled, unless both are in
 * one transaction, in their order. Once a write of the log has failed, no write of the same key that came before the
 * failure was known is made.
 */

export interface Write {
  /** Undefined: in any order with any other. */
  readonly key: string | undefined;
  /** Writes of one kind share transactions. */
  readonly kind: "log" | "records";
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Milliseconds that deltas may wait for company. */
const TICK = 25;

export class LaneClock<W extends Write> {
  #queue: W[] = [];
  readonly #busyKeys = new Set<string>();
  #lanesFree: number;
  #timer: NodeJS.Timeout | null = null;
  #immediate: NodeJS.Immediate | null = null;
  #last = 0;
  /** Something is due that found no lane, or whose key was busy. */
  #due = false;
  #idle: PromiseWithResolvers<void> | null = null;
  readonly #lanes: number;
  readonly #commit: (writes: readonly W[]) => Promise<void>;

  /** `commit` settles every write that it is given, and never rejects; what it does before it first waits, it does in this tick. */
  constructor(lanes: number, commit: (writes: readonly W[]) => Promise<void>) {
    this.#lanes = lanes;
    this.#lanesFree = lanes;
    this.#commit = commit;
  }

  write(write: W, now: boolean): void {
    this.#queue.push(write);
    if (now) this.hurry();
    else this.#schedule();
  }

  /** Commits in this tick what has been handed in. */
  hurry(): void {
    if (this.#immediate || this.#queue.length === 0) return;
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#immediate = setImmediate(() => this.flush());
  }

  #schedule(): void {
    if (this.#immediate || this.#timer) return;
    const wait = this.#last + TICK - performance.now();
    if (wait <= 0) this.hurry();
    else this.#timer = setTimeout(() => this.flush(), wait);
  }

  /** Begins now to commit what has been handed in. */
  flush(): void {
    if (this.#immediate) clearImmediate(this.#immediate);
    if (this.#timer) clearTimeout(this.#timer);
    this.#immediate = null;
    this.#timer = null;
    this.#last = performance.now();
    while (this.#lanesFree > 0) {
      const work = this.#take();
      if (work.length === 0) break;
      void this.#run(work);
    }
    this.#due = this.#queue.length > 0;
  }

  /** All that can be written now of the kind that comes first, in order. */
  #take(): W[] {
    const taken: W[] = [];
    const left: W[] = [];
    const blocked = new Set<string>(this.#busyKeys);
    for (const write of this.#queue) {
      const { key, kind } = write;
      const waits = (key !== undefined && blocked.has(key)) || (taken[0] !== undefined && taken[0].kind !== kind);
      if (!waits) taken.push(write);
      else {
        left.push(write);
        if (key !== undefined) blocked.add(key);
      }
    }
    if (taken.length > 0) this.#queue = left;
    return taken;
  }

  async #run(work: readonly W[]): Promise<void> {
    const keys = new Set(work.flatMap(({ key }) => (key === undefined ? [] : [key])));
    for (const key of keys) this.#busyKeys.add(key);
    this.#lanesFree--;
    await this.#commit(work);
    this.#lanesFree++;
    for (const key of keys) this.#busyKeys.delete(key);
    if (this.#due) this.flush();
    if (this.#isIdle()) {
      this.#idle?.resolve();
      this.#idle = null;
    }
  }

  /** Takes out of the queue what must not be written after something before it was not. */
  withdraw(isBehind: (write: W) => boolean, error: Error): void {
    const behind = this.#queue.filter(isBehind);
    if (behind.length === 0) return;
    this.#queue = this.#queue.filter((write) => !behind.includes(write));
    for (const write of behind) write.reject(error);
  }

  #isIdle(): boolean {
    return this.#queue.length === 0 && this.#lanesFree === this.#lanes;
  }

  /** Resolves when nothing is waiting or under way. */
  async drain(): Promise<void> {
    if (this.#isIdle()) return;
    this.#idle ??= Promise.withResolvers();
    this.flush();
    await this.#idle.promise;
  }
}
