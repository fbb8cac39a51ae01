/**
 * The tree and the log, read.
 *
 * Invariant: a deleted response is given by `path` only, and only while something below it needs it; whatever is
 * given with its items was checked against its hash.
 */
import { setImmediate } from "node:timers/promises";
import { RotundaError } from "../types/error.ts";
import type { RunEvent } from "../types/event.ts";
import type { Item } from "../types/item.ts";
import { LOCAL, type ResponseNode, type Status } from "../types/response.ts";
import type { IdKind, ResponseFilter, StoredResponse } from "../types/store.ts";
import { decodeEvents, decodeRecords } from "./codec.ts";
import { TextCheck } from "./log-check.ts";
import {
  damaged,
  type EntryRow,
  ERASED,
  entryOf,
  hashOf,
  nodeOf,
  PLACES,
  type ResponseRow,
  soundNode,
} from "./rows.ts";
import type { Parameter, SqliteDatabase } from "./sqlite-database.ts";
import type { Tail } from "./sqlite-tail.ts";
import { lastEvent } from "./sqlite-tail-index.ts";

const openStatuses: readonly Status[] = ["queued", "in_progress", "waiting"];

/** A statement that lists responses, newest first. */
export function listQuery(filter: ResponseFilter): { sql: string; parameters: Parameter[] } {
  const where = ["deleted_at IS NULL"];
  const parameters: Parameter[] = [];
  const add = (condition: string, ...values: Parameter[]) => {
    where.push(condition);
    parameters.push(...values);
  };
  let narrow = false;
  if (filter.status) {
    add(`status IN (${filter.status.map(() => "?").join(", ")})`, ...filter.status);
    if (filter.status.every((status) => openStatuses.includes(status))) {
      where.push("ended_at IS NULL");
      narrow = true;
    }
  }
  if (filter.callerResponseId !== undefined) add("caller_response_id = ?", filter.callerResponseId);
  if (filter.previousResponseId !== undefined) add("previous_response_id = ?", filter.previousResponseId);
  narrow ||= filter.callerResponseId !== undefined || filter.previousResponseId !== undefined;
  if (filter.conversationId !== undefined) add("conversation_id = ?", filter.conversationId);
  // An owner may have any number of responses: where there is a narrower index, the plus sign hides its own.
  if (filter.owner !== undefined) add(narrow ? "+owner = ?" : "owner = ?", filter.owner);
  if (filter.owner !== undefined && filter.owner !== LOCAL) where.push(`owner <> '${LOCAL}'`);
  if (filter.endedBefore !== undefined) add("ended_at < ?", filter.endedBefore);
  if (filter.before !== undefined) add("number < (SELECT number FROM responses WHERE id = ?)", filter.before);
  if (filter.roots) {
    // What stands below a deleted response is the root of what is left.
    where.push(`caller_response_id IS NULL AND (previous_response_id IS NULL OR NOT EXISTS (
      SELECT 1 FROM responses AS parent WHERE parent.id = responses.previous_response_id AND parent.deleted_at IS NULL))`);
  }
  const sql = `SELECT * FROM responses WHERE ${where.join(" AND ")} ORDER BY number DESC LIMIT ?`;
  return { sql, parameters: [...parameters, filter.limit ?? 100] };
}

/** Responses of a path that are read in one turn of the event loop. */
const PORTION = 50;

export class SqliteTree {
  readonly #db: SqliteDatabase;
  readonly #tail: Tail;

  constructor(db: SqliteDatabase, tail: Tail) {
    this.#db = db;
    this.#tail = tail;
  }

  /** Undefined also where it was deleted. */
  row(id: string): ResponseRow | undefined {
    return this.#db.one<ResponseRow>("SELECT * FROM responses WHERE id = ? AND deleted_at IS NULL", id);
  }

  rowEvenDeleted(id: string): ResponseRow | undefined {
    return this.#db.one<ResponseRow>("SELECT * FROM responses WHERE id = ?", id);
  }

  /** A response, and where it was deleted the nearest one above it that was not. */
  nearestLiving(id: string | null): ResponseRow | undefined {
    for (let next = id; next !== null; ) {
      const row = this.rowEvenDeleted(next);
      if (!row || row.deleted_at === null) return row;
      next = row.previous_response_id;
    }
    return undefined;
  }

  /** Whether nothing about a response can change any more. */
  isSealed(id: string | null): boolean {
    return id === null || (this.rowEvenDeleted(id)?.ended_at ?? null) !== null;
  }

  parentHash(row: ResponseRow): string | null {
    const parent = row.previous_response_id;
    if (parent === null) return null;
    return this.#db.one<{ hash: string | null }>("SELECT hash FROM responses WHERE id = ?", parent)?.hash ?? null;
  }

  entryRows(number: number): EntryRow[] {
    return this.#db.all<EntryRow>(
      `SELECT key >> 23 & 1 AS side, key & 8388607 AS position, turn, item, meta FROM entries
       WHERE key BETWEEN ? AND ? ORDER BY key`,
      number * PLACES,
      number * PLACES + PLACES - 1,
    );
  }

  node(id: string): ResponseNode | undefined {
    const row = this.row(id);
    return row && nodeOf(row);
  }

  get(id: string): StoredResponse | undefined {
    const row = this.row(id);
    return row && this.#load(row, this.parentHash(row));
  }

  #load(row: ResponseRow, parentHash: string | null): StoredResponse {
    const rows = this.entryRows(row.number);
    if (row.hash !== null && hashOf(row, rows, parentHash) !== row.hash) {
      throw damaged(row.id, "its content does not match its hash");
    }
    return { node: nodeOf(row), entries: rows.map((entry) => entryOf(entry, row.id)) };
  }

  async path(id: string, known: (id: string) => boolean): Promise<StoredResponse[]> {
    const rows: ResponseRow[] = [];
    let parentHash: string | null = null;
    for (let next: string | null = id; next !== null; ) {
      const row = this.rowEvenDeleted(next);
      if (!row) throw damaged(next, "it is missing");
      if (row.body === ERASED) {
        if (next === id) throw new RotundaError("not_found", `there is no response ${id}`);
        throw damaged(next, "it was erased, though a response below it was not");
      }
      if (known(next)) {
        parentHash = row.hash;
        break;
      }
      rows.push(row);
      next = row.previous_response_id;
    }
    const path: StoredResponse[] = [];
    for (const row of rows.reverse()) {
      // A long history must not hold up everybody else.
      if (path.length % PORTION === PORTION - 1) {
        await setImmediate();
        if (!this.rowEvenDeleted(id) || this.rowEvenDeleted(id)?.body === ERASED) {
          throw new RotundaError("not_found", `there is no response ${id}`);
        }
      }
      path.push(this.#load(row, parentHash));
      parentHash = row.hash;
    }
    return path;
  }

  children(id: string): ResponseNode[] {
    return this.#db
      .all<ResponseRow>(
        "SELECT * FROM responses WHERE previous_response_id = ? AND deleted_at IS NULL ORDER BY number",
        id,
      )
      .flatMap(soundNode);
  }

  list(filter: ResponseFilter): ResponseNode[] {
    const { sql, parameters } = listQuery(filter);
    return this.#db.all<ResponseRow>(sql, ...parameters).flatMap(soundNode);
  }

  events(responseId: string, after: number, limit: number): RunEvent[] {
    const response = this.row(responseId);
    if (!response) return [];
    const { number } = response;
    const rows = this.#db.all<{ first: number; last: number; body: string }>(
      `SELECT key & 16777215 AS first, last, body FROM events
       WHERE key BETWEEN ? AND ? AND last > ? ORDER BY key LIMIT ?`,
      number * PLACES,
      number * PLACES + PLACES - 1,
      after,
      limit,
    );
    const next = () => (rows.at(-1)?.last ?? lastEvent(this.#db, number)) + 1;
    const tail = response.ended_at === null && rows.length < limit ? this.#tail.read(number, next) : undefined;
    if (rows.length === 0 && (!tail || tail.first + tail.count <= after + 1)) return [];
    const items: Item[] = [];
    for (const row of this.entryRows(number)) {
      if (row.side === 1) items[row.position] = entryOf(row, responseId).item;
    }
    const added = new Map<number, Item>();
    const itemAt = (index: number) => items[index] ?? added.get(index) ?? this.#itemAdded(number, after, index);
    const events: RunEvent[] = [];
    const check = new TextCheck(responseId);
    const add = (decoded: readonly RunEvent[]) => {
      for (const event of decoded) {
        check.see(event);
        if (event.type === "response.output_item.added") added.set(event.output_index, event.item);
        if (event.sequence_number > after && events.length < limit) events.push(event);
      }
    };
    try {
      for (const row of rows) add(decodeEvents(row.first, row.body, itemAt));
      if (tail) add(decodeRecords(tail.first, tail.records, itemAt));
    } catch (error) {
      throw error instanceof RotundaError ? error : damaged(responseId, "its log cannot be read");
    }
    return events;
  }

  /** An item that is still being said has no row yet: as it was when it was added, up to `after`. */
  #itemAdded(number: number, after: number, index: number): Item | undefined {
    const row = this.#db.one<{ item: string }>(
      `SELECT json_extract(record.value, '$[2]') AS item FROM events, json_each(events.body) AS record
       WHERE events.key BETWEEN ? AND ? AND json_extract(record.value, '$[0]') = 'A'
         AND json_extract(record.value, '$[1]') = ?`,
      number * PLACES,
      number * PLACES + after,
      index,
    );
    return row && (JSON.parse(row.item) as Item);
  }

  output(itemId: string): string | undefined {
    return this.#db.one<{ text: string }>("SELECT text FROM outputs WHERE item_id = ?", itemId)?.text;
  }

  resolve(part: string, kinds: readonly IdKind[]): string[] {
    const found: string[] = [];
    const tables = { response: "responses", conversation: "conversations", item: "outputs", approval: "approvals" };
    const prefixes = { response: "resp_", conversation: "conv_", item: "mcp_", approval: "mcpr_" };
    for (const kind of kinds) {
      const column = kind === "item" ? "item_id" : "id";
      const prefix = part.includes("_") ? part : prefixes[kind] + part;
      const table = tables[kind];
      // Looked for in the index of ids alone; only what was found is looked up.
      const living =
        kind === "response"
          ? "EXISTS (SELECT 1 FROM responses AS living WHERE living.id = found.id AND deleted_at IS NULL)"
          : "1";
      const rows = this.#db.all<{ id: string }>(
        `SELECT id FROM (SELECT ${column} AS id FROM ${table} WHERE ${column} >= ? AND ${column} < ?
         UNION SELECT ${column} FROM ${table} WHERE substr(${column}, ?) = ?) AS found WHERE ${living} LIMIT 10`,
        prefix,
        `${prefix}\u007f`,
        -part.length,
        part,
      );
      found.push(...rows.map((row) => row.id));
    }
    return found;
  }
}
