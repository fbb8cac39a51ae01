/** Under way: work that somebody may have to wait for. Invariant: it is in here for as long as it is not settled. */

export class UnderWay {
  readonly #all = new Set<Promise<unknown>>();

  /** The work itself, noted until it is settled. */
  async track<T>(work: Promise<T>): Promise<T> {
    this.#all.add(work);
    try {
      return await work;
    } finally {
      this.#all.delete(work);
    }
  }

  /** Resolves when what is under way now is settled; never rejects. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#all);
  }
}
