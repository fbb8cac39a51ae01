/**
 * The audit log: records that are only ever added, each with a hash over the hash before it and its own text.
 *
 * Invariant: `audit_end` holds number and hash of the last record that was ever added; it changes in the transaction
 * that adds one. A log that was changed by other means is added to all the same, and never in a way that mends the
 * break.
 */
import { hash } from "node:crypto";
import type { AuditAction, AuditEntry, AuditRecord } from "../types/audit.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

interface AuditRow {
  sequence: number;
  hash: string;
  body: string;
}

interface End {
  sequence: number;
  hash: string;
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
    const end = "INSERT OR REPLACE INTO audit_end (number, sequence, hash) VALUES (1, ?, ?)";
    this.#db.run(end, last.sequence, last.hash);
  }

  /** Number and hash of the last record that was ever added. Undefined: the note of it was removed. */
  end(): End | undefined {
    return this.#db.one<End>("SELECT sequence, hash FROM audit_end");
  }

  /** What the next record comes after. */
  #last(): End {
    const end = this.end();
    const found = this.#db.one<{ sequence: number | null }>("SELECT max(sequence) AS sequence FROM audit");
    const there = found?.sequence ?? 0;
    // Records that are gone leave a gap; a note that is gone, or one that knows less than there is, leaves a break.
    return end && end.sequence >= there ? end : { sequence: there, hash: BROKEN };
  }

  list(after: number, limit: number): AuditRecord[] {
    const rows = this.#db.all<AuditRow>(
      "SELECT sequence, hash, body FROM audit WHERE sequence > ? ORDER BY sequence LIMIT ?",
      after,
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
