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
import type { SqliteDatabase } from "./sqlite-database.ts";
import { lastEvent, parseRow, rowsOfOthers, TailIndex } from "./sqlite-tail-index.ts";

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
/** Responses that one look moves at most. */
const PORTION = 500;

export class Tail {
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
  #inUse = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(
    db: SqliteDatabase,
    { crowd = CROWD, age = AGE }: { crowd?: number | undefined; age?: number | undefined },
  ) {
    this.#db = db;
    this.#index = new TailIndex(db, this.#writer);
    this.#crowd = crowd;
    this.#age = age;
  }

  // ---- inside a transaction

  /** Events of a response, after what the tail has of it. */
  put(number: number, events: readonly RunEvent[]): void {
    const before = this.#take(number);
    const first = before?.first ?? events[0]?.sequence_number;
    if (first === undefined) return;
    const records = addRecords([], events);
    this.#insert(
      number,
      first,
      (before?.count ?? 0) + events.length,
      before ? [...before.records, ...records] : records,
    );
  }

  /** Deltas, and nothing else: where many come together they share a row. */
  stage(number: number, fence: number, events: readonly RunEvent[]): void {
    const last = events.at(-1)?.sequence_number ?? 0;
    if (last >= PLACES) throw new RotundaError("limit_reached", "a response can have no more events");
    const known = this.#staged.get(number);
    this.#staged.set(number, { fence, events: known ? [...known.events, ...events] : events });
  }

  /** What the tail has of a response goes to `events`, whoever wrote it: before it changes hands. */
  settle(number: number): void {
    const next = lastEvent(this.#db, number) + 1;
    const own = this.#taken.has(number) ? undefined : this.#pending.get(number);
    // What another process has meanwhile taken over is no longer ours to write.
    const isOld = own !== undefined && own.first !== next;
    if (isOld) this.#forget(number);
    if ((own && !isOld) || this.#staged.has(number)) {
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
    const sql = "INSERT INTO tail (writer, body) VALUES (?, ?)";
    const key = this.#db.insert(sql, this.#writer, JSON.stringify(pieces));
    this.#effects.push(() => this.#keep(key));
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
    // What a process has left behind that died when all its responses had ended goes with the first look.
    if (!this.#inUse) this.#hasOthers = true;
    this.#inUse = true;
    this.#hasRows = true;
    this.#arm();
  }

  committed(): void {
    for (const effect of this.#effects) effect();
    this.undone();
  }

  undone(): void {
    this.#effects = [];
    this.#taken.clear();
    this.#staged.clear();
  }

  // ---- reads

  /** What the tail has of an open response, whoever wrote it. `next` is the number after the last event in `events`. */
  read(number: number, next: () => number): Piece | undefined {
    const own = this.#pending.get(number);
    if (!own && this.isEmpty()) return undefined;
    const first = next();
    // Where another process has taken it over, what we have of it is old, and in `events`.
    if (own?.first === first) return own;
    const { count, records } = this.#index.from(number, first);
    return count === 0 ? undefined : { first, count, records };
  }

  // ---- what is old

  #arm(): void {
    if (this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#db
        .write(() => this.#sweep(), false)
        .catch(() => undefined)
        .then(() => {
          if (this.#db.isOpen && (this.#hasRows || this.#hasOthers)) this.#arm();
        })
        .catch(() => undefined);
    }, SWEEP);
    this.#timer.unref();
  }

  #sweep(): void {
    const old = performance.now() - this.#age;
    let left = PORTION;
    for (const [number, { since }] of this.#pending) {
      if (since > old || left-- === 0) break;
      this.#move(number);
    }
    this.#purge();
    if (this.#hasOthers) this.#strip();
  }

  /** Everything that can leaves the tail. Inside a transaction. */
  clear(): void {
    for (const number of this.#pending.keys()) this.#move(number);
    this.#purge();
    this.#strip();
  }

  #move(number: number): void {
    const pending = this.#taken.has(number) ? undefined : this.#pending.get(number);
    if (!pending) return;
    const ours = "SELECT 1 FROM responses WHERE number = ? AND fence = ? AND ended_at IS NULL";
    if (this.#db.one(ours, number, pending.fence)) this.put(number, []);
    else this.#forget(number);
  }

  /** Rows of this process that hold nothing but what is in `events`. */
  #purge(): void {
    if (!this.#hasRows) return;
    for (const [number, { key }] of this.#pending) {
      if (this.#taken.has(number)) continue;
      this.#db.run("DELETE FROM tail WHERE key < ? AND writer = ?", key, this.#writer);
      return;
    }
    this.#db.run("DELETE FROM tail WHERE writer = ?", this.#writer);
    this.#effects.push(() => {
      this.#hasRows = false;
    });
  }

  /** Takes from other processes' rows what is in `events` too, or has ended: they do not miss it. */
  #strip(): void {
    const ends = new Map<number, number>();
    const endOf = (number: number): number => {
      let end = ends.get(number);
      if (end === undefined) {
        const open = this.#db.one("SELECT 1 FROM responses WHERE number = ? AND ended_at IS NULL", number);
        end = open ? lastEvent(this.#db, number) : Number.POSITIVE_INFINITY;
        ends.set(number, end);
      }
      return end;
    };
    for (const { key, body } of rowsOfOthers(this.#db, 0, this.#writer)) {
      const pieces = parseRow(body);
      const needed = pieces.filter(([number, first]) => first > endOf(number));
      if (needed.length === 0) this.#db.run("DELETE FROM tail WHERE key = ?", key);
      else if (needed.length < pieces.length) {
        this.#db.run("UPDATE tail SET body = ? WHERE key = ?", JSON.stringify(needed), key);
      }
    }
    this.#effects.push(() => {
      this.#hasOthers = false;
    });
  }

  isEmpty(): boolean {
    return this.#db.one("SELECT 1 FROM tail LIMIT 1") === undefined;
  }

  /** Before the database is closed. What a lock keeps from leaving is found by whoever claims its responses. */
  close(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#db.flush();
    for (let tries = 0; tries < 10 && (this.#hasRows || this.#hasOthers); tries++) {
      this.#db.write(() => this.clear()).catch(() => undefined);
      this.#db.flush();
    }
    if (this.#timer) clearTimeout(this.#timer);
  }
}
