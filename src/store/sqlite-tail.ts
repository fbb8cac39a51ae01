/**
 * The tail: deltas of many responses that were committed together, in one row instead of one row for each of them.
 *
 * Invariant: what of a response stands in the tail goes on, without a gap, where its rows in `events` end; the
 * process that wrote it holds the same in memory, as committed, no more and no less. Whatever else is written of that
 * response takes it along into `events`; so does time. A row whose deltas are all in `events` is deleted.
 *
 * A row's `body` is JSON: [[number, first, records], …] (records: see codec.ts); `writer` is the process's name.
 */
import { RotundaError } from "../types/error.ts";
import type { RunEvent } from "../types/event.ts";
import { newProcessName } from "../util/process-name.ts";
import { addRecords, type EventRecord } from "./codec.ts";
import { PLACES } from "./rows.ts";
import type { SqliteDatabase, TransactionListener } from "./sqlite-database.ts";
import { TailIndex } from "./sqlite-tail-index.ts";

/** A run of consecutive deltas of one response. */
export interface Piece {
  first: number;
  /** Of events. */
  count: number;
  records: EventRecord[];
}

/** What is in the tail and not in `events`, of a response that this process runs. */
interface Pending extends Piece {
  fence: number;
  /** Key of the oldest row that holds something of it. */
  key: number;
  /** Milliseconds of the monotonic clock. */
  since: number;
}

interface Staged {
  fence: number;
  events: readonly RunEvent[];
}

const CROWD = 8;
const AGE = 4_000;
/** Milliseconds between two looks at what is old. */
const SWEEP = 1_000;

export class Tail implements TransactionListener {
  readonly #db: SqliteDatabase;
  readonly #writer = newProcessName();
  readonly #index: TailIndex;
  readonly #crowd: number;
  readonly #age: number;
  /** By the response's number; the one that is there longest comes first. */
  readonly #pending = new Map<number, Pending>();
  /** Of the transaction under way. */
  readonly #staged = new Map<number, Staged>();
  readonly #taken = new Set<number>();
  #effects: (() => void)[] = [];
  /** Rows of this process may be there. */
  #hasRows = false;
  /** Rows of a process that is gone may be there that nobody needs. */
  #hasOthers = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(db: SqliteDatabase, { crowd = CROWD, age = AGE }: { crowd?: number | undefined; age?: number | undefined }) {
    this.#db = db;
    this.#index = new TailIndex(db, this.#writer);
    this.#crowd = crowd;
    this.#age = age;
    db.listener = this;
  }

  // ---- inside a transaction

  /** Events of a response, after what the tail has of it. */
  put(number: number, events: readonly RunEvent[]): void {
    const before = this.#take(number);
    const first = before?.first ?? events[0]?.sequence_number;
    if (first === undefined) return;
    const records = addRecords([], events);
    this.#insert(number, first, (before?.count ?? 0) + events.length, before ? [...before.records, ...records] : records);
  }

  /** Deltas, and nothing else: where many come together they share a row. */
  stage(number: number, fence: number, events: readonly RunEvent[]): void {
    const known = this.#staged.get(number);
    this.#staged.set(number, { fence, events: known ? [...known.events, ...events] : events });
  }

  /** What the tail has of a response goes to `events`, whoever wrote it: before it changes hands. */
  settle(number: number): void {
    const next = lastEvent(this.#db, number) + 1;
    const own = this.#pending.get(number);
    // What another process has meanwhile taken over is no longer ours to write.
    if (own && own.first !== next && !this.#taken.has(number)) this.#forget(number);
    if (this.#pending.has(number) || this.#staged.has(number)) {
      this.put(number, []);
      return;
    }
    const { count, records } = this.#index.from(number, next);
    if (count === 0) return;
    this.#insert(number, next, count, records);
    this.#effects.push(() => {
      this.#hasOthers = true;
      this.#arm();
    });
  }

  /** Another process has the response now. */
  #forget(number: number): void {
    this.#taken.add(number);
    this.#effects.push(() => void this.#pending.delete(number));
  }

  /** What is pending and staged of a response; it counts as written. */
  #take(number: number): Piece | undefined {
    const pending = this.#taken.has(number) ? undefined : this.#pending.get(number);
    const staged = this.#staged.get(number);
    if (pending) this.#forget(number);
    if (!staged) return pending;
    this.#staged.delete(number);
    const records = addRecords([], staged.events);
    const { length } = staged.events;
    if (!pending) return { first: staged.events[0]?.sequence_number ?? 0, count: length, records };
    return { first: pending.first, count: pending.count + length, records: [...pending.records, ...records] };
  }

  #insert(number: number, first: number, count: number, records: readonly EventRecord[]): void {
    const last = first + count - 1;
    if (last >= PLACES) throw new RotundaError("limit_reached", "a response can have no more events");
    const sql = "INSERT INTO events (key, last, body) VALUES (?, ?, ?)";
    this.#db.run(sql, number * PLACES + first, last, JSON.stringify(records));
  }

  beforeCommit(): void {
    if (this.#staged.size === 0) return;
    if (this.#staged.size < this.#crowd) {
      for (const number of [...this.#staged.keys()]) this.put(number, []);
      return;
    }
    const pieces: [number, number, EventRecord[]][] = [];
    for (const [number, { events }] of this.#staged) {
      pieces.push([number, events[0]?.sequence_number ?? 0, addRecords([], events)]);
    }
    const sql = "INSERT INTO tail (writer, body) VALUES (?, ?) RETURNING key";
    const row = this.#db.one<{ key: number }>(sql, this.#writer, JSON.stringify(pieces));
    this.#effects.push(() => this.#keep(row?.key ?? 0));
  }

  /** The staged deltas are on disk, in this row. */
  #keep(key: number): void {
    const since = performance.now();
    for (const [number, { fence, events }] of this.#staged) {
      const pending = this.#pending.get(number);
      if (pending) {
        addRecords(pending.records, events);
        pending.count += events.length;
      } else {
        const first = events[0]?.sequence_number ?? 0;
        this.#pending.set(number, { first, count: events.length, records: addRecords([], events), fence, key, since });
      }
    }
    this.#hasRows = true;
    this.#arm();
  }

  committed(): void {
    const effects = this.#effects;
    this.undone();
    for (const effect of effects) effect();
  }

  undone(): void {
    this.#effects = [];
    this.#taken.clear();
    this.#staged.clear();
  }
