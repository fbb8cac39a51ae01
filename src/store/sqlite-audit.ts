/**
 * The audit log: records that are only ever added, each with a hash over the hash before it and its own text.
 *
 * Invariant: the row at the greatest key is the log's end: `body` is the number of records ever added, `hash` that of
 * the last one. It changes in the transaction that adds a record, in the same page of the file. A log that was
 * changed by other means is added to all the same, and never in a way that mends the break.
 */
import { hash } from "node:crypto";
import type { AuditAction, AuditEntry, AuditRecord } from "../types/audit.ts";
import { AUDIT_END } from "./schema.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

interface AuditRow {
  sequence: number;
  hash: string;
  body: string;
}

const BEFORE_THE_FIRST = "0".repeat(64);
/** What no record's hash is: the one after a break does not fit, and stays so. */
const BROKEN = "";

function chained(before: string, body: string): string {
  return hash("sha256", before + body);
}

function entryOf(text: string): AuditEntry {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && "details" in value) return value as AuditEntry;
  } catch {
    // Told below.
  }
  // Somebody has changed the text; the record is shown nevertheless, and is not intact.
  const action = "unreadable" as AuditAction;
  return { action, who: "", door: "", responseId: null, at: 0, details: { text } };
}

export class AuditLog {
  readonly #db: SqliteDatabase;

  constructor(db: SqliteDatabase) {
    this.#db = db;
  }

  async add(entry: AuditEntry): Promise<void> {
    await this.#db.write(() => this.append([entry]));
  }

  /** Inside a transaction. */
  append(entries: readonly AuditEntry[]): void {
    if (entries.length === 0) return;
    let last = this.#last();
    for (const { action, who, door, responseId, at, details } of entries) {
      const body = JSON.stringify({ action, who, door, responseId, at, details });
      last = { sequence: last.sequence + 1, hash: chained(last.hash, body) };
      this.#db.run("INSERT INTO audit (sequence, hash, body) VALUES (?, ?, ?)", last.sequence, last.hash, body);
    }
    this.#db.run(
      "INSERT OR REPLACE INTO audit (sequence, hash, body) VALUES (?, ?, ?)",
      AUDIT_END,
      last.hash,
      String(last.sequence),
    );
  }

  /** Number and hash of the last record that was ever added. Undefined: the note of it was removed. */
  end(): { sequence: number; hash: string } | undefined {
    const row = this.#db.one<AuditRow>("SELECT hash, body FROM audit WHERE sequence = ?", AUDIT_END);
    return row && { sequence: Number(row.body), hash: row.hash };
  }

  /** What the next record comes after. */
  #last(): { sequence: number; hash: string } {
    const rows = this.#db.all<AuditRow>("SELECT sequence, hash, body FROM audit ORDER BY sequence DESC LIMIT 2");
    const [end, record] = rows[0]?.sequence === AUDIT_END ? rows : [undefined, ...rows];
    const there = record?.sequence ?? 0;
    const noted = Number(end?.body ?? -1);
    // Records that are gone leave a gap; a note that is gone, or one that knows less than there is, leaves a break.
    return end && noted >= there ? { sequence: noted, hash: end.hash } : { sequence: there, hash: BROKEN };
  }

  list(after: number, limit: number): AuditRecord[] {
    const rows = this.#db.all<AuditRow>(
      "SELECT sequence, hash, body FROM audit WHERE sequence > ? AND sequence < ? ORDER BY sequence LIMIT ?",
      after,
      AUDIT_END,
      limit,
    );
    const first = rows[0]?.sequence ?? 1;
    let before = first === 1 ? { sequence: 0, hash: BEFORE_THE_FIRST } : this.#row(first - 1);
    return rows.map((row) => {
      const fits = before?.sequence === row.sequence - 1 && chained(before.hash, row.body) === row.hash;
      before = row;
      const { action, who, door, responseId, at, details } = entryOf(row.body);
      return { action, who, door, responseId, at, details, sequence: row.sequence, hash: row.hash, intact: fits };
    });
  }

  #row(sequence: number): AuditRow | undefined {
    return this.#db.one<AuditRow>("SELECT sequence, hash, body FROM audit WHERE sequence = ?", sequence);
  }
}
