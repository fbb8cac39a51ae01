/**
 * Leases on Postgres: which process runs a response, and until when.
 *
 * Invariant: time is the database's, since the clocks of machines differ. A lease holds until its process has not renewed
 * for its whole length; a process of this host that is dead holds nothing. Whoever takes a response over raises its fence
 * in the row that every write of the one before it locks: so none of these is made any more.
 */
import type { ResponseNode } from "../types/response.ts";
import type { Lease } from "../types/store.ts";
import { processState } from "../util/process-name.ts";
import type { PostgresDatabase, Reader, Transaction } from "./postgres-database.ts";
import { NODE } from "./postgres-tree.ts";
import { type NodeRow, soundNode } from "./rows.ts";

interface HeldRow {
  process: string | null;
  fence: number;
  over: boolean;
}

/** Milliseconds after which what is left of a process is forgotten. */
const FORGOTTEN = 24 * 3_600_000;

const HOLD = `INSERT INTO {processes} AS known (name, until) VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond')
  ON CONFLICT (name) DO UPDATE SET until = greatest(known.until, excluded.until)`;

export class Leases {
  readonly renewEvery: number;
  readonly #db: PostgresDatabase;
  readonly #length: number;
  /** When each process of ours was last renewed, by the monotonic clock. */
  readonly #renewed = new Map<string, number>();
  #swept = false;

  /** `length`: milliseconds. */
  constructor(db: PostgresDatabase, length: number) {
    this.#db = db;
    this.#length = length;
    this.renewEvery = length / 4;
  }

  /** Inside a transaction that gives a process a response: its leases hold from now on. */
  hold(transaction: Transaction, process: string): void {
    const now = performance.now();
    if (now - (this.#renewed.get(process) ?? Number.NEGATIVE_INFINITY) < this.renewEvery) return;
    // So that the transactions of one process do not wait for each other at its row.
    this.#renewed.set(process, now);
    transaction.send(HOLD, process, this.#length);
  }

  /** A transaction was undone: what it held may not be held. */
  undone(): void {
    this.#renewed.clear();
  }

  async renew(process: string): Promise<void> {
    const now = performance.now();
    await this.#db.all(HOLD, process, this.#length);
    this.#renewed.set(process, now);
    if (this.#swept) return;
    this.#swept = true;
    await this.#db.all(
      `DELETE FROM {processes} AS old WHERE until < clock_timestamp() - $1 * interval '1 millisecond'
         AND NOT EXISTS (SELECT 1 FROM {responses} WHERE process = old.name AND ended_at IS NULL)`,
      FORGOTTEN,
    );
    await this.#db.all("DELETE FROM {marks} WHERE used < now() - $1 * interval '1 millisecond'", FORGOTTEN);
  }

  /** Inside a transaction. Undefined: somebody alive has it, or it has ended. */
  async claim(transaction: Transaction, responseId: string, process: string): Promise<Lease | undefined> {
    const row = await transaction.one<{ process: string | null }>(
      "SELECT process FROM {responses} WHERE id = $1 AND ended_at IS NULL AND deleted_at IS NULL FOR NO KEY UPDATE",
      responseId,
    );
    if (!row) return undefined;
    if (row.process !== null && row.process !== process && processState(row.process) !== "dead") {
      // Asked once the row is ours: whoever had it then may have it no longer.
      const sql = "SELECT 1 AS held FROM {processes} WHERE name = $1 AND until > clock_timestamp()";
      if (await transaction.one(sql, row.process)) return undefined;
    }
    this.hold(transaction, process);
    const sql = "UPDATE {responses} SET process = $2, fence = fence + 1 WHERE id = $1 RETURNING fence";
    const claimed = await transaction.one<{ fence: number }>(sql, responseId, process);
    return claimed && { process, fence: claimed.fence, ...(row.process !== null && { crashed: true as const }) };
  }

  async of(responseId: string): Promise<Lease | undefined> {
    const row = await this.#db.one<HeldRow>(
      `SELECT node.process, node.fence, coalesce(held.until <= clock_timestamp(), true) AS over
       FROM {responses} AS node LEFT JOIN {processes} AS held ON held.name = node.process
       WHERE node.id = $1 AND node.deleted_at IS NULL`,
      responseId,
    );
    if (!row?.process) return undefined;
    return { process: row.process, fence: row.fence, ...(row.over && { over: true }) };
  }
}

/** Outermost responses that nobody runs, though they could go on; oldest first. */
export async function abandoned(reader: Reader, limit: number): Promise<ResponseNode[]> {
  const processes = await reader.all<{ process: string; over: boolean }>(
    `SELECT DISTINCT node.process, coalesce(held.until <= clock_timestamp(), true) AS over
     FROM {responses} AS node LEFT JOIN {processes} AS held ON held.name = node.process
     WHERE node.ended_at IS NULL AND node.process IS NOT NULL`,
  );
  const gone = processes.filter(({ process, over }) => over || processState(process) === "dead");
  const rows = await reader.all<NodeRow>(
    `SELECT ${NODE} FROM {responses} AS node
     WHERE ended_at IS NULL AND deleted_at IS NULL AND caller_response_id IS NULL
       AND status IN ('queued', 'in_progress') AND (process IS NULL OR process = ANY($1))
     ORDER BY process IS NULL AND status = 'queued', number LIMIT $2`,
    gone.map(({ process }) => process),
    limit,
  );
  return rows.flatMap(soundNode);
}

/** Inside a transaction. */
export function release(transaction: Transaction, responseId: string, lease: Lease): void {
  transaction.send("UPDATE {responses} SET process = NULL WHERE id = $1 AND fence = $2", responseId, lease.fence);
}
