/**
 * Repair: what is damaged is taken out and kept aside, and everything else is served again.
 *
 * Invariant: nothing is thrown away: a damaged file is kept under another name, and all that was left of a damaged
 * response lies as JSON in the folder `quarantine`. A response that is taken out looks like an erased one to everybody.
 * What stays has its hash, its items and its log agreeing.
 */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { DamagedResponse, Repair } from "../types/doctor.ts";
import { RotundaError } from "../types/error.ts";
import type { EndedStatus } from "../types/response.ts";
import { encodeEvents } from "./codec.ts";
import { damagedResponses, damagedRows, entryRowsOf, parentHashOf } from "./doctor-examine.ts";
import { salvage } from "./doctor-salvage.ts";
import { type EntryRow, ERASED, entryOf, hashOf, PLACES, type ResponseRow } from "./rows.ts";
import { openDatabase } from "./sqlite-open.ts";

type Tell = (share: number, what: string) => void;

export async function repair(path: string, tell: Tell): Promise<Repair> {
  const done: Repair = {
    kept: null,
    quarantined: [],
    folder: null,
    logs: [],
    vouched: [],
    rows: [],
    moved: [],
    lost: {},
  };
  if (!existsSync(path)) return done;
  if (!arePagesInOrder(path)) await rebuild(path, done, tell);
  // Brings the schema up to date where an older one was copied.
  const db = await openDatabase(path);
  try {
    alone(db, path);
    db.exec("BEGIN IMMEDIATE");
    const care = new Care(db, path, done);
    care.orphans();
    const vouched = care.vouch(await damagedResponses(db, (share, what) => tell(share * 0.5, what)));
    const damaged = vouched ? await damagedResponses(db, (share, what) => tell(0.5 + share * 0.5, what)) : [];
    for (const one of damaged) care.treat(one);
    care.smallRows();
    care.moveConversations();
    db.exec("COMMIT");
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    db.close();
  }
  return done;
}

/** Nobody may read or write while a file is exchanged under them. */
function alone(db: DatabaseSync, path: string): void {
  try {
    db.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT");
  } catch (cause) {
    throw new RotundaError("storage_failed", `the database ${path} is in use`, {
      cause,
      remedy: "Stop the server (rotunda stop) and every other Rotunda that runs here, then try again.",
    });
  }
}

function arePagesInOrder(path: string): boolean {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { timeout: 5_000 });
    alone(db, path);
    const [row = {}] = db.prepare("PRAGMA integrity_check").all();
    return Object.values(row)[0] === "ok";
  } catch (error) {
    if (error instanceof RotundaError && /locked|busy/i.test(String((error.cause as Error).message))) throw error;
    return false;
  } finally {
    if (db?.isOpen) db.close();
  }
}

/** What can be read goes into a new file, which takes the old one's place. */
async function rebuild(path: string, done: Repair, tell: Tell): Promise<void> {
  const draft = `${path}.repaired`;
  for (const name of [draft, `${draft}-wal`, `${draft}-shm`]) rmSync(name, { force: true });
  const to = await openDatabase(draft);
  let from: DatabaseSync | undefined;
  try {
    from = new DatabaseSync(path, { readOnly: true });
    from.exec("PRAGMA query_only = ON; PRAGMA cell_size_check = ON");
    done.lost = salvage(from, to, tell);
  } catch (cause) {
    to.close();
    for (const name of [draft, `${draft}-wal`, `${draft}-shm`]) rmSync(name, { force: true });
    throw new RotundaError("storage_damaged", `the list of tables of ${path} is damaged: nothing can be read`, {
      cause,
      remedy: "Restore the file from a backup.",
    });
  } finally {
    if (from?.isOpen) from.close();
  }
  to.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  to.close();
  done.kept = freeName(`${path}.damaged`);
  for (const end of ["", "-wal", "-shm"]) if (existsSync(path + end)) renameSync(path + end, done.kept + end);
  renameSync(draft, path);
}

function freeName(wanted: string): string {
  let name = wanted;
  for (let number = 2; existsSync(name); number++) name = `${wanted}-${number}`;
  return name;
}

class Care {
  readonly #db: DatabaseSync;
  readonly #done: Repair;
  readonly #folder: string;

  constructor(db: DatabaseSync, path: string, done: Repair) {
    this.#db = db;
    this.#done = done;
    this.#folder = join(dirname(path), "quarantine");
  }

  #keep(name: string, content: object): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    this.#done.folder = this.#folder;
    writeFileSync(freeName(join(this.#folder, `${name}.json`)), `${JSON.stringify(content, null, 2)}\n`, {
      mode: 0o600,
    });
  }

  #rows(sql: string, ...parameters: (string | number)[]): Record<string, unknown>[] {
    return this.#db.prepare(sql).all(...parameters);
  }

  /** Items and logs of responses whose own rows are lost. */
  orphans(): void {
    for (const table of ["entries", "events"]) {
      const numbers = this.#rows(
        `SELECT DISTINCT key / ${PLACES} AS number FROM ${table} WHERE key / ${PLACES} NOT IN (SELECT number FROM responses)`,
      );
      for (const { number } of numbers) this.#setAside(Number(number), `lost-response-${String(number)}`, {});
    }
  }

  #setAside(number: number, name: string, more: object): void {
    const range = [number * PLACES, number * PLACES + PLACES - 1] as const;
    const entries = this.#rows("SELECT * FROM entries WHERE key BETWEEN ? AND ?", ...range);
    const events = this.#rows("SELECT * FROM events WHERE key BETWEEN ? AND ?", ...range);
    this.#keep(name, { ...more, entries, events });
    for (const table of ["entries", "events"]) {
      this.#db.prepare(`DELETE FROM ${table} WHERE key BETWEEN ? AND ?`).run(...range);
    }
  }

  #row(id: string): ResponseRow | undefined {
    return this.#db.prepare("SELECT * FROM responses WHERE id = ?").get(id) as unknown as ResponseRow | undefined;
  }

  /**
   * Where it is the stored hash alone that is wrong, a descendant, whose hash holds it, says so. True: somebody is left
   * that must be treated.
   */
  vouch(damaged: readonly DamagedResponse[]): boolean {
    let left = false;
    for (const { id, logOnly } of damaged) {
      const row = this.#row(id);
      left = true;
      if (!row || logOnly || row.hash === null) continue;
      const wanted = hashOf(row, entryRowsOf(this.#db, row.number), parentHashOf(this.#db, row));
      const children = this.#rows("SELECT * FROM responses WHERE previous_response_id = ? AND hash IS NOT NULL", id);
      const vouches = (children as unknown as ResponseRow[]).some(
        (child) => hashOf(child, entryRowsOf(this.#db, child.number), wanted) === child.hash,
      );
      if (!vouches) continue;
      this.#db.prepare("UPDATE responses SET hash = ? WHERE id = ?").run(wanted, id);
      this.#done.vouched.push(id);
    }
    return left;
  }

  treat({ id, why, logOnly }: DamagedResponse): void {
    const row = this.#row(id);
    if (!row) return;
    if (logOnly) {
      this.#writeLog(row, entryRowsOf(this.#db, row.number));
      this.#done.logs.push(id);
      return;
    }
    this.#setAside(row.number, id, {
      why,
      response: row,
      outputs: this.#rows("SELECT * FROM outputs WHERE response_id = ?", id),
    });
    const now = Date.now();
    this.#db
      .prepare(
        "UPDATE responses SET body = ?, deleted_at = ?, ended_at = coalesce(ended_at, ?), process = NULL WHERE number = ?",
      )
      .run(ERASED, now, now, row.number);
    for (const sql of [
      "DELETE FROM outputs WHERE response_id = ?",
      "DELETE FROM approvals WHERE response_id = ?",
      "DELETE FROM controls WHERE response_id = ?",
    ]) {
      this.#db.prepare(sql).run(id);
    }
    this.#done.quarantined.push({ id, why });
  }

  /** The log of an ended response as its items tell it: without the pieces in which they once came. */
  #writeLog(row: ResponseRow, rows: readonly EntryRow[]): void {
    const [first, last] = [row.number * PLACES, row.number * PLACES + PLACES - 1];
    this.#keep(`log-of-${row.id}`, {
      events: this.#rows("SELECT * FROM events WHERE key BETWEEN ? AND ?", first, last),
    });
    this.#db.prepare("DELETE FROM events WHERE key BETWEEN ? AND ?").run(first, last);
    const status = row.status as EndedStatus;
    const end = status === "completed" || status === "failed" ? status : "incomplete";
    const output = rows.filter(({ side }) => side === 1).map((entry) => entryOf(entry, row.id));
    const events = [
      { type: "response.created" as const },
      { type: "response.in_progress" as const },
      ...output.flatMap(({ position: output_index, item }) => [
        { type: "response.output_item.added" as const, output_index, item },
        { type: "response.output_item.done" as const, output_index, item },
      ]),
      { type: `response.${end}` as const, status },
    ].map((event, sequence_number) => ({ ...event, sequence_number }));
    this.#db
      .prepare("INSERT INTO events (key, last, body) VALUES (?, ?, ?)")
      .run(first, events.length - 1, encodeEvents(events));
  }

  smallRows(): void {
    for (const { table, key, keyColumn, column } of damagedRows(this.#db)) {
      this.#keep(`row-of-${table}-${key}`, { rows: this.#rows(`SELECT * FROM ${table} WHERE ${keyColumn} = ?`, key) });
      const isPointer = table === "conversations";
      const sql = isPointer ? `UPDATE ${table} SET ${column} = '{}'` : `DELETE FROM ${table}`;
      this.#db.prepare(`${sql} WHERE ${keyColumn} = ?`).run(key);
      this.#done.rows.push(`${table} ${key}`);
    }
  }

  /** Pointers that stand at or below what was taken out go back to where everything above them is sound. */
  moveConversations(): void {
    const heads = this.#rows("SELECT id, head FROM conversations WHERE head IS NOT NULL") as {
      id: string;
      head: string;
    }[];
    for (const { id, head } of heads) {
      const sound = this.#soundAt(head);
      if (sound === head) continue;
      this.#db.prepare("UPDATE conversations SET head = ?, borrowed = 1 WHERE id = ?").run(sound, id);
      this.#done.moved.push(id);
    }
  }

  /** The nearest response, from here upwards, whose whole path can be read. */
  #soundAt(head: string): string | null {
    let sound: string | null = head;
    for (let next: string | null = head; next !== null; ) {
      const row = this.#row(next);
      if (!row) return null;
      next = row.previous_response_id;
      if (row.body === ERASED) sound = next;
    }
    return sound;
  }
}
