/**
 * What other processes have in the tail, by response, for those that read along.
 *
 * Invariant: rows are read once, in the order of their keys, which is that of their commits; a piece is given only
 * where it goes on, without a gap, from what the reader has.
 */
import type { EventRecord } from "./codec.ts";
import { PLACES } from "./rows.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

/** Of a row: the response's number, the first event's, and the deltas. */
export type RowPiece = [number: number, first: number, records: EventRecord[]];

interface IndexedPiece {
  key: number;
  first: number;
  records: EventRecord[];
}

export function parseRow(body: string): RowPiece[] {
  return JSON.parse(body) as RowPiece[];
}

export function rowsOfOthers(db: SqliteDatabase, after: number, writer: string): { key: number; body: string }[] {
  return db.all("SELECT key, body FROM tail WHERE key > ? AND writer <> ? ORDER BY key", after, writer);
}

/** Number of the last event of a response in `events`; -1: none. */
export function lastEvent(db: SqliteDatabase, number: number): number {
  const sql = "SELECT last FROM events WHERE key BETWEEN ? AND ? ORDER BY key DESC LIMIT 1";
  return db.one<{ last: number }>(sql, number * PLACES, number * PLACES + PLACES - 1)?.last ?? -1;
}

/** How many events these are; every text of a record of deltas is one. */
export function countOf(records: readonly EventRecord[]): number {
  return records.reduce((sum, record) => sum + record.length - 3, 0);
}

export class TailIndex {
  readonly #db: SqliteDatabase;
  readonly #writer: string;
  readonly #pieces = new Map<number, IndexedPiece[]>();
  /** Keys: the newest that was read, the oldest that is kept. */
  #newest = 0;
  #oldest = 0;

  constructor(db: SqliteDatabase, writer: string) {
    this.#db = db;
    this.#writer = writer;
  }

  /** The deltas of a response from event `next` on. */
  from(number: number, next: number): { count: number; records: EventRecord[] } {
    this.#refresh();
    const records: EventRecord[] = [];
    let count = 0;
    for (const piece of this.#pieces.get(number) ?? []) {
      if (piece.first < next + count) continue;
      if (piece.first > next + count) break;
      records.push(...piece.records);
      count += countOf(piece.records);
    }
    return { count, records };
  }

  #refresh(): void {
    const oldest = this.#db.one<{ key: number | null }>("SELECT min(key) AS key FROM tail")?.key;
    if (oldest === null || oldest === undefined) {
      this.#pieces.clear();
      return;
    }
    if (oldest > this.#oldest) this.#drop(oldest);
    for (const { key, body } of rowsOfOthers(this.#db, this.#newest, this.#writer)) {
      this.#newest = key;
      for (const [number, first, records] of parseRow(body)) {
        const pieces = this.#pieces.get(number);
        if (pieces) pieces.push({ key, first, records });
        else this.#pieces.set(number, [{ key, first, records }]);
      }
    }
  }

  #drop(oldest: number): void {
    this.#oldest = oldest;
    for (const [number, pieces] of this.#pieces) {
      const kept = pieces.filter(({ key }) => key >= oldest);
      if (kept.length === 0) this.#pieces.delete(number);
      else if (kept.length < pieces.length) this.#pieces.set(number, kept);
    }
  }
}
