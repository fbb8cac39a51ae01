/**
 * The audit log: records that are only ever added, each with a hash over the hash before it and its own text.
 *
 * Invariant: `audit_end` holds number and hash of the last record that was ever added; it changes in the transaction
 * that adds one.
 */
import type { AuditEntry, AuditRecord } from "../types/audit.ts";
import { type AuditEnd, type AuditRow, chain, lastOf, recordsOf } from "./audit-chain.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

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
    const found = this.#db.one<{ sequence: number | null }>("SELECT max(sequence) AS sequence FROM audit");
    const rows = chain(lastOf(this.end(), found?.sequence ?? 0), entries);
    for (const { sequence, hash, body } of rows) {
      this.#db.run("INSERT INTO audit (sequence, hash, body) VALUES (?, ?, ?)", sequence, hash, body);
    }
    const last = rows.at(-1);
    if (!last) return;
    const end = "INSERT OR REPLACE INTO audit_end (number, sequence, hash) VALUES (1, ?, ?)";
    this.#db.run(end, last.sequence, last.hash);
  }

  /** Number and hash of the last record that was ever added. Undefined: the note of it was removed. */
  end(): AuditEnd | undefined {
    return this.#db.one<AuditEnd>("SELECT sequence, hash FROM audit_end");
  }

  list(after: number, limit: number): AuditRecord[] {
    const rows = this.#db.all<AuditRow>(
      "SELECT sequence, hash, body FROM audit WHERE sequence > ? ORDER BY sequence LIMIT ?",
      after,
      limit,
    );
    const before = "SELECT sequence, hash, body FROM audit WHERE sequence = ?";
    return recordsOf(rows, this.#db.one<AuditRow>(before, (rows[0]?.sequence ?? 1) - 1));
  }
}
