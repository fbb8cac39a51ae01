/**
 * The audit log on Postgres (see audit-chain.ts).
 *
 * Invariant: whoever adds holds the row of the chain's end until its commit, so that processes add one after the other;
 * it is taken after everything else that a transaction does.
 */
import type { AuditEntry, AuditRecord } from "../types/audit.ts";
import { type AuditEnd, type AuditRow, chain, lastOf, recordsOf } from "./audit-chain.ts";
import type { Reader, Transaction } from "./postgres-database.ts";

/** Inside a transaction, at its end. */
export async function appendAudits(transaction: Transaction, entries: readonly AuditEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const [end, found] = await Promise.all([
    transaction.one<AuditEnd>("SELECT sequence, hash FROM {audit_end} FOR UPDATE"),
    transaction.one<{ sequence: number | null }>("SELECT max(sequence) AS sequence FROM {audit}"),
  ]);
  const rows = chain(lastOf(end, found?.sequence ?? 0), entries);
  transaction.send(
    "INSERT INTO {audit} (sequence, hash, body) SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])",
    rows.map(({ sequence }) => sequence),
    rows.map(({ hash }) => hash),
    rows.map(({ body }) => body),
  );
  const last = rows.at(-1);
  if (!last) return;
  transaction.send(
    `INSERT INTO {audit_end} (number, sequence, hash) VALUES (1, $1, $2)
     ON CONFLICT (number) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash`,
    last.sequence,
    last.hash,
  );
}

export async function auditEnd(reader: Reader): Promise<AuditEnd | undefined> {
  return reader.one<AuditEnd>("SELECT sequence, hash FROM {audit_end}");
}

export async function listAudits(reader: Reader, after: number, limit: number): Promise<AuditRecord[]> {
  const sql = "SELECT sequence, hash, body FROM {audit} WHERE sequence > $1 ORDER BY sequence LIMIT $2";
  const rows = await reader.all<AuditRow>(sql, after, limit);
  const before = "SELECT sequence, hash, body FROM {audit} WHERE sequence = $1";
  const first = rows[0]?.sequence ?? 1;
  const previous = first === 1 ? undefined : await reader.one<AuditRow>(before, first - 1);
  return recordsOf(rows, previous);
}
