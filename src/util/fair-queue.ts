/**
 * FairQueue: ids in groups; groups take turns, and within one it is the order of coming.
 *
 * Invariant: what is in it is in it once.
 */
export class FairQueue {
  /** In the order in which they have their turn. */
  readonly #groups = new Map<string, string[]>();
  readonly #groupOf = new Map<string, string>();

  get size(): number {
    return this.#groupOf.size;
  }

  has(id: string): boolean {
    return this.#groupOf.has(id);
  }

  add(id: string, group: string): void {
    if (this.#groupOf.has(id)) return;
    this.#groupOf.set(id, group);
    const ids = this.#groups.get(group);
    if (ids) ids.push(id);
    else this.#groups.set(group, [id]);
  }

  next(): string | undefined {
    for (const [group, ids] of this.#groups) {
      this.#groups.delete(group);
      const id = ids.shift();
      // To the end of the line.
      if (ids.length > 0) this.#groups.set(group, ids);
      if (id === undefined) continue;
      this.#groupOf.delete(id);
      return id;
    }
    return undefined;
  }
}
