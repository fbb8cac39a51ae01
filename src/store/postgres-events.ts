/**
 * The log of a response on Postgres, read.
 *
 * Invariant: what is given goes on without a gap from the event that the reader has. Readers follow a run from other
 * processes, one read for each commit: so what was said of an item when it began is remembered, and its final form is
 * read only where an event repeats it.
 */
import { RotundaError } from "../types/error.ts";
import type { RunEvent } from "../types/event.ts";
import type { Item } from "../types/item.ts";
import { decodeRecords, type EventRecord } from "./codec.ts";
import { TextCheck } from "./log-check.ts";
import type { PostgresDatabase } from "./postgres-database.ts";
import { damaged, entryOf } from "./rows.ts";

interface LogRow {
  number: number;
  first: number;
  last: number;
  body: string;
}

/** Items that were begun and are remembered, at most. */
const REMEMBERED = 2_000;

/** Records that repeat what the item holds; of all others its id is enough. */
const REPEATING = new Set(["D", "Q", "T", "F", "R", "C", "M"]);
const WITHOUT_ITEM = new Set(["S", "E", "!", "A"]);

export class EventLog {
  readonly #db: PostgresDatabase;
  /** Items as they were when they began, by number and index. */
  readonly #begun = new Map<string, Item>();

  constructor(db: PostgresDatabase) {
    this.#db = db;
  }

  async read(responseId: string, after: number, limit: number): Promise<RunEvent[]> {
    try {
      return await this.#read(responseId, after, limit);
    } catch (error) {
      if (!(error instanceof RotundaError) || error.code !== "storage_damaged") throw error;
      // It may have been deleted between two reads.
      const living = "SELECT 1 AS there FROM {responses} WHERE id = $1 AND deleted_at IS NULL";
      if (await this.#db.one(living, responseId)) throw error;
      return [];
    }
  }

  async #read(responseId: string, after: number, limit: number): Promise<RunEvent[]> {
    const rows = await this.#db.all<LogRow>(
      `SELECT log.number, log.first, log.last, log.body FROM {responses} AS node JOIN {events} AS log USING (number)
       WHERE node.id = $1 AND node.deleted_at IS NULL AND log.last > $2 AND log.first >= coalesce(
         (SELECT max(first) FROM {events} AS before WHERE before.number = node.number AND before.first <= $2 + 1), 0)
       ORDER BY log.first LIMIT $3`,
      responseId,
      after,
      limit,
    );
    const number = rows[0]?.number;
    if (number === undefined) return [];
    const parsed = rows.map(({ first, body }) => ({ first, records: recordsOf(responseId, body) }));
    const itemAt = await this.#itemsOf(
      responseId,
      number,
      after,
      parsed.flatMap(({ records }) => records),
    );
    const events: RunEvent[] = [];
    const check = new TextCheck(responseId);
    for (const { first, records } of parsed) {
      for (const event of decodeRecords(first, records, itemAt)) {
        check.see(event);
        if (event.sequence_number > after && events.length < limit) events.push(event);
      }
    }
    return events;
  }

  /** What the records speak of. */
  async #itemsOf(
    responseId: string,
    number: number,
    after: number,
    records: readonly EventRecord[],
  ): Promise<(index: number) => Item | undefined> {
    const named = new Set<number>();
    const repeated = new Set<number>();
    for (const record of records) {
      const [letter, index] = record as [string, number];
      if (letter === "A") this.#remember(number, index, record[2] as unknown as Item);
      if (WITHOUT_ITEM.has(letter)) continue;
      if (REPEATING.has(letter)) repeated.add(index);
      else named.add(index);
    }
    const wanted = [...new Set([...repeated, ...[...named].filter((index) => !this.#begun.has(key(number, index)))])];
    const final = await this.#finalItems(responseId, number, wanted);
    for (const index of wanted) {
      if (!final.has(index) && !this.#begun.has(key(number, index))) await this.#findBegun(number, index, after);
    }
    return (index) => final.get(index) ?? this.#begun.get(key(number, index));
  }

  #remember(number: number, index: number, item: Item): void {
    if (this.#begun.size >= REMEMBERED) {
      for (const old of [...this.#begun.keys()].slice(0, REMEMBERED / 2)) this.#begun.delete(old);
    }
    this.#begun.set(key(number, index), item);
  }

  async #finalItems(responseId: string, number: number, indexes: readonly number[]): Promise<Map<number, Item>> {
    if (indexes.length === 0) return new Map();
    const rows = await this.#db.all<{ position: number; item: string }>(
      "SELECT position, item FROM {entries} WHERE number = $1 AND side = 1 AND position = ANY($2::int[])",
      number,
      indexes,
    );
    const whole = { side: 1, turn: 0, meta: "{}" };
    return new Map(rows.map((row) => [row.position, entryOf({ ...row, ...whole }, responseId).item]));
  }

  /** An item that is still being said has no row yet: as it was when it was added, up to `after`. */
  async #findBegun(number: number, index: number, after: number): Promise<void> {
    const row = await this.#db.one<{ body: string }>(
      `SELECT body FROM {events} WHERE number = $1 AND first <= $2 AND strpos(body, $3) > 0 ORDER BY first LIMIT 1`,
      number,
      after,
      `["A",${index},`,
    );
    const records = row ? (JSON.parse(row.body) as EventRecord[]) : [];
    const found = records.find(([letter, at]) => letter === "A" && at === index);
    if (found) this.#remember(number, index, found[2] as unknown as Item);
  }
}

function recordsOf(responseId: string, body: string): EventRecord[] {
  try {
    return JSON.parse(body) as EventRecord[];
  } catch {
    throw damaged(responseId, "its log cannot be read");
  }
}

function key(number: number, index: number): string {
  return `${number}/${index}`;
}
