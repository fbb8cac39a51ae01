/**
 * Watch: one reader of a response's events.
 *
 * Invariant: from the event after the one that the reader knows, every event comes once, in the order of its number,
 * and none before it is committed. What is known at one moment comes as one group.
 */
import type { EventStream } from "../types/engine.ts";
import { isEnd, type RunEvent } from "../types/event.ts";
import type { Store } from "../types/store.ts";
import type { Run } from "./run.ts";

export interface WatchParts {
  store: Store;
  /** Undefined: this process does not run it. */
  runOf(id: string): Run | undefined;
  /** Whether any process runs it. */
  lives(id: string): Promise<boolean>;
  /** Resolves when another process may have written something of a response. */
  change(id: string, signal?: AbortSignal): Promise<void>;
  /** The engine stops: what other processes run is no longer followed. */
  stopping(): boolean;
}

/** Events that are read from the store at once. */
const PAGE = 500;

type Group = IteratorResult<readonly RunEvent[], undefined>;

export class Watch implements EventStream {
  readonly #parts: WatchParts;
  readonly #id: string;
  readonly #after: number;
  readonly #signal: AbortSignal | undefined;

  constructor(parts: WatchParts, id: string, after: number, signal: AbortSignal | undefined) {
    this.#parts = parts;
    this.#id = id;
    this.#after = after;
    this.#signal = signal;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<RunEvent> {
    for await (const group of this.groups()) for (const event of group) yield event;
  }

  groups(): AsyncIterableIterator<readonly RunEvent[], undefined> {
    return new Groups(this.#parts, this.#id, this.#after, this.#signal);
  }
}

class Groups implements AsyncIterableIterator<readonly RunEvent[], undefined> {
  readonly #parts: WatchParts;
  readonly #id: string;
  readonly #signal: AbortSignal | undefined;
  /** Number of the last event that was given. */
  #cursor: number;
  #state: "new" | "open" | "over" = "new";

  constructor(parts: WatchParts, id: string, after: number, signal: AbortSignal | undefined) {
    this.#parts = parts;
    this.#id = id;
    this.#cursor = after;
    this.#signal = signal;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** The signal was aborted: whoever waits for news looks again. */
  handleEvent(): void {
    this.#parts.runOf(this.#id)?.wake();
  }

  async next(): Promise<Group> {
    if (this.#state === "over" || (this.#state === "open" && this.#signal?.aborted)) return this.#end();
    if (this.#state === "new") this.#signal?.addEventListener("abort", this, { once: true });
    this.#state = "open";
    try {
      return await this.#next();
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  return(): Promise<Group> {
    return Promise.resolve(this.#end());
  }

  #end(): Group {
    this.#state = "over";
    this.#signal?.removeEventListener("abort", this);
    return { value: undefined, done: true };
  }

  async #next(): Promise<Group> {
    const { store } = this.#parts;
    for (;;) {
      const run = this.#parts.runOf(this.#id);
      const events = run?.after(this.#cursor) ?? (await store.events(this.#id, this.#cursor, PAGE));
      const last = events.at(-1);
      if (last) {
        this.#cursor = last.sequence_number;
        if (isEnd(last)) this.#end();
        return { value: events, done: false };
      }
      if (this.#signal?.aborted || (!run && this.#parts.stopping())) return this.#end();
      if (run) {
        if (this.#parts.runOf(this.#id)) await run.changed();
        if (run.failure) throw run.failure;
      } else if (!(await this.#parts.lives(this.#id))) {
        // It waits for a person, or its process is gone: what is stored has been told.
        if ((await store.events(this.#id, this.#cursor, 1)).length === 0) return this.#end();
      } else await this.#parts.change(this.#id, this.#signal);
    }
  }
}
