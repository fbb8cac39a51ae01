/**
 * Examination: looks at every page and every response of a database, without the store that it could not trust.
 *
 * Invariant: looking changes nothing. A response counts as sound only where its hash, its items and its log agree.
 */
import { hash } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import type { DamagedResponse, Examination } from "../types/doctor.ts";
import type { Item } from "../types/item.ts";
import { logFaultOf } from "./log-check.ts";
import { type EntryRow, ERASED, entryOf, hashOf, nodeOf, PLACES, type ResponseRow } from "./rows.ts";
import { isBusy } from "./sqlite-open.ts";

/** Responses that are looked at before others get their turn. */
const PORTION = 100;

type Tell = (share: number, what: string) => void;

function sizesOf(path: string): { file: number; log: number } {
  const size = (name: string) => (existsSync(name) ? statSync(name).size : 0);
  return { file: size(path), log: size(`${path}-wal`) };
}

export async function examine(path: string, tell: Tell): Promise<Examination> {
  const bytes = sizesOf(path);
  const found: Examination = {
    path,
    absent: bytes.file === 0,
    bytes,
    responses: 0,
    conversations: 0,
    unreadable: null,
    lost: false,
    pages: [],
    damaged: [],
    rows: [],
    audit: null,
  };
  if (found.absent) return found;
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
    found.pages = pageFaults(db, tell);
    found.conversations = countOf(db, "conversations");
    found.responses = countOf(db, "responses");
    found.damaged = await damagedResponses(db, tell);
    found.rows = damagedRows(db).map(({ table, key }) => `${table} ${key}`);
    found.audit = auditFault(db);
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    // Where the pages are broken, what stands on them cannot be counted.
    if (found.pages.length === 0) found.unreadable = text;
    found.lost = !isBusy(error) && !hasTables(db);
  } finally {
    if (db?.isOpen) db.close();
  }
  return found;
}

function hasTables(db: DatabaseSync | undefined): boolean {
  try {
    return db !== undefined && tablesOf(db).length > 0;
  } catch {
    return false;
  }
}

export function tablesOf(db: DatabaseSync): string[] {
  const sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid";
  return db
    .prepare(sql)
    .all()
    .map(({ name }) => String(name));
}

/** The database's own words about its pages, table by table, as a whole check would say nothing for minutes. */
function pageFaults(db: DatabaseSync, tell: Tell): string[] {
  const tables = tablesOf(db);
  const faults: string[] = [];
  for (const [index, table] of tables.entries()) {
    tell((index / tables.length) * 0.4, `pages of ${table}`);
    for (const row of db.prepare(`PRAGMA integrity_check("${table}")`).all()) {
      const text = String(Object.values(row)[0]);
      if (text !== "ok") faults.push(text);
    }
  }
  return [...new Set(faults)].slice(0, 100);
}

function countOf(db: DatabaseSync, table: string): number {
  return Number(db.prepare(`SELECT count(*) AS count FROM "${table}"`).get()?.count);
}

export function entryRowsOf(db: DatabaseSync, number: number): EntryRow[] {
  return db
    .prepare(
      `SELECT key >> 23 & 1 AS side, key & 8388607 AS position, turn, item, meta FROM entries
       WHERE key BETWEEN ? AND ? ORDER BY key`,
    )
    .all(number * PLACES, number * PLACES + PLACES - 1) as unknown as EntryRow[];
}

export function parentHashOf(db: DatabaseSync, row: ResponseRow): string | null {
  if (row.previous_response_id === null) return null;
  const parent = db.prepare("SELECT hash FROM responses WHERE id = ?").get(row.previous_response_id);
  return (parent?.hash as string | null | undefined) ?? null;
}

/** Every response that is not what it was; in the order of their numbers. */
export async function damagedResponses(db: DatabaseSync, tell: Tell): Promise<DamagedResponse[]> {
  const damaged: DamagedResponse[] = [];
  const most = Number(db.prepare("SELECT max(number) AS most FROM responses").get()?.most ?? 0);
  const next = db.prepare("SELECT * FROM responses WHERE number > ? ORDER BY number LIMIT ?");
  for (let after = 0; ; ) {
    const rows = next.all(after, PORTION) as unknown as ResponseRow[];
    if (rows.length === 0) return damaged;
    for (const row of rows) {
      after = row.number;
      const fault = faultOf(db, row);
      if (fault) damaged.push({ id: row.id, ...fault });
    }
    tell(0.4 + (after / Math.max(1, most)) * 0.6, `response ${after} of ${most}`);
    await setImmediate();
  }
}

function faultOf(db: DatabaseSync, row: ResponseRow): Omit<DamagedResponse, "id"> | undefined {
  if (row.body === ERASED) return undefined;
  try {
    const rows = entryRowsOf(db, row.number);
    nodeOf(row);
    for (const entry of rows) entryOf(entry, row.id);
    if (row.hash !== null && hashOf(row, rows, parentHashOf(db, row)) !== row.hash) {
      return { why: "its content does not match its hash", logOnly: false };
    }
    const why = row.deleted_at === null ? logFault(db, row, rows) : undefined;
    return why === undefined ? undefined : { why, logOnly: row.ended_at !== null };
  } catch (error) {
    return { why: error instanceof Error ? error.message : String(error), logOnly: false };
  }
}

/** What the log says must be what the items say. Undefined: it is. */
function logFault(db: DatabaseSync, row: ResponseRow, rows: readonly EntryRow[]): string | undefined {
  const items: Item[] = [];
  for (const entry of rows) if (entry.side === 1) items[entry.position] = entryOf(entry, row.id).item;
  const sql = "SELECT key & 16777215 AS first, last, body FROM events WHERE key BETWEEN ? AND ? ORDER BY key";
  const stored = db.prepare(sql).iterate(row.number * PLACES, row.number * PLACES + PLACES - 1);
  return logFaultOf(stored as Iterable<{ first: number; last: number; body: string }>, items, row.ended_at !== null);
}

/** Columns that hold JSON, or nothing. */
const jsonColumns = [
  ["conversations", "id", "metadata"],
  ["approvals", "id", "body"],
  ["tokens", "id", "body"],
  ["outbox", "sequence", "body"],
  ["tail", "key", "body"],
  ["controls", "sequence", "items"],
] as const;

/** Rows of the small tables whose JSON is none. `column` is where it stands. */
export function damagedRows(db: DatabaseSync): { table: string; key: string; keyColumn: string; column: string }[] {
  return jsonColumns.flatMap(([table, keyColumn, column]) => {
    const sql = `SELECT ${keyColumn} AS key FROM ${table} WHERE ${column} IS NOT NULL AND NOT json_valid(${column})`;
    return db
      .prepare(sql)
      .all()
      .map(({ key }) => ({ table, key: String(key), keyColumn, column }));
  });
}

/** The first fault of the chain of the audit log. */
function auditFault(db: DatabaseSync): string | null {
  let before = { sequence: 0, hash: "0".repeat(64) };
  const rows = db.prepare("SELECT sequence, hash, body FROM audit ORDER BY sequence").iterate();
  for (const row of rows as Iterable<{ sequence: number; hash: string; body: string }>) {
    if (row.sequence !== before.sequence + 1) return `record ${before.sequence + 1} is missing`;
    if (hash("sha256", before.hash + row.body) !== row.hash) return `record ${row.sequence} does not fit its hash`;
    before = row;
  }
  const end = db.prepare("SELECT sequence, hash FROM audit_end").get();
  if (!end) return "the note of the log's end is gone";
  const fits = end.sequence === before.sequence && end.hash === before.hash;
  return fits ? null : `record ${before.sequence} is not the one that was written last`;
}
