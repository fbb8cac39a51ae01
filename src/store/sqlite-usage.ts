/**
 * Usage: what the responses of a token have used, by day.
 *
 * Invariant: counted once, in the transaction in which a response ends, under the day (UTC) on which it ends; deleting
 * the response does not give it back.
 */
import { LOCAL, type Owner, type ResponseNode } from "../types/response.ts";
import { OUTPUT, PLACES } from "./rows.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

const DAY = 24 * 3_600_000;

interface Sum {
  tokens: number | null;
  cost: number | null;
}

export class UsageLedger {
  readonly #db: SqliteDatabase;

  constructor(db: SqliteDatabase) {
    this.#db = db;
  }

  /** Inside a transaction. Whoever holds the machine has no limits, and costs nothing here. */
  ended({ owner, usage: { total_tokens: tokens, cost = 0 }, endedAt }: ResponseNode): void {
    if (owner === LOCAL || endedAt === null || (tokens === 0 && cost === 0)) return;
    this.#db.run(
      `INSERT INTO usage (owner, day, tokens, cost) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost`,
      owner,
      Math.floor(endedAt / DAY),
      tokens,
      cost,
    );
  }

  /** What ended on the day of `at`, and what the responses that run have used so far. */
  onDay(owner: Owner, at: number): { tokens: number; cost: number } {
    const day = "SELECT tokens, cost FROM usage WHERE owner = ? AND day = ?";
    const ended = this.#db.one<Sum>(day, owner, Math.floor(at / DAY));
    const running = this.#db.one<Sum>(
      `SELECT sum(json_extract(meta, '$.usage[2]')) AS tokens, sum(json_extract(meta, '$.usage[5]')) AS cost
       FROM responses JOIN entries ON key BETWEEN number * ${PLACES} + ${OUTPUT} AND (number + 1) * ${PLACES} - 1
       WHERE status IN ('in_progress', 'waiting') AND ended_at IS NULL AND +owner = ?`,
      owner,
    );
    return {
      tokens: (ended?.tokens ?? 0) + (running?.tokens ?? 0),
      cost: (ended?.cost ?? 0) + (running?.cost ?? 0),
    };
  }
}
