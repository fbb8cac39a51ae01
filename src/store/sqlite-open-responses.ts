/**
 * The responses that this process may write: their numbers and fences, as they were last read.
 *
 * Invariant: what is remembered holds as long as no other process has committed anything, and nothing of this one has
 * changed it; each transaction begins by finding out. So a fence is as good as read in the same transaction.
 */
import { processState } from "../util/process-name.ts";
import type { ResponseRow } from "./rows.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

export interface HeldRow {
  process: string | null;
  lease_until: number;
}

export class OpenResponses {
  readonly #db: SqliteDatabase;
  readonly #known = new Map<string, { number: number; fence: number }>();
  #version = -1;

  constructor(db: SqliteDatabase) {
    this.#db = db;
  }

  /** The lock is held: from now on nobody else writes until the commit. */
  began(): void {
    const version = this.#db.version();
    if (version !== this.#version) this.#known.clear();
    this.#version = version;
  }

  /** Undefined: it has ended, or another process has it. */
  numberOf(id: string, fence: number): number | undefined {
    const known = this.#known.get(id);
    if (known?.fence === fence) return known.number;
    const sql = "SELECT number FROM responses WHERE id = ? AND fence = ? AND ended_at IS NULL";
    const number = this.#db.one<{ number: number }>(sql, id, fence)?.number;
    if (number !== undefined) this.#known.set(id, { number, fence });
    return number;
  }

  /** Within the transaction that makes it. */
  made(id: string, number: number): void {
    this.#known.set(id, { number, fence: 1 });
  }

  /** Within the transaction that changes its fence, or ends it. */
  forget(id: string): void {
    this.#known.delete(id);
  }

  forgetAll(): void {
    this.#known.clear();
  }

  /** Outermost ones, oldest first, that nobody who lives has, and that could run. */
  abandoned(limit: number): ResponseRow[] {
    const rows = this.#db.all<ResponseRow & HeldRow>(
      `SELECT * FROM responses WHERE ended_at IS NULL AND status IN ('queued', 'in_progress')
         AND caller_response_id IS NULL AND deleted_at IS NULL ORDER BY number`,
    );
    return rows.filter(isFree).slice(0, limit);
  }
}

/** Nobody who lives has it. */
export function isFree({ process, lease_until: until }: HeldRow): boolean {
  const state = process === null ? "dead" : processState(process);
  return state === "dead" || (state === "elsewhere" && until <= Date.now());
}
