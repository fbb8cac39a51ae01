/**
 * Idempotency keys on Postgres.
 *
 * Invariant: of two requests with one key the first one wins, whichever servers they reached: the second waits at the
 * unique key until the first is committed or not. A key that has expired is none.
 */
import type { Owner } from "../types/response.ts";
import type { IdempotencyRecord } from "../types/store.ts";
import { type IdempotencyRow, recordOf, SWEEP_EVERY, SWEEP_LIMIT } from "./idempotency-rows.ts";
import type { Reader, Transaction } from "./postgres-database.ts";

export async function keyInForce(reader: Reader, owner: Owner, key: string): Promise<IdempotencyRecord | undefined> {
  const sql = "SELECT * FROM {idempotency} WHERE owner = $1 AND key = $2 AND expires_at > $3";
  const row = await reader.one<IdempotencyRow>(sql, owner, key, Date.now());
  return row && recordOf(row);
}

/** One owner's key, as one text. */
export function keyOf({ owner, key }: { owner: Owner; key: string }): string {
  return JSON.stringify([owner, key]);
}

export class PostgresIdempotency {
  #taken = 0;

  /**
   * Inside a transaction: takes those keys that are not in force, each of them given once. Resolves with the records of
   * all that were, by `keyOf`; `asked` are looked up only.
   */
  async take(
    transaction: Transaction,
    wanted: readonly IdempotencyRecord[],
    asked: readonly { owner: Owner; key: string }[] = [],
  ): Promise<Map<string, IdempotencyRecord>> {
    if (wanted.length + asked.length === 0) return new Map();
    const now = Date.now();
    const sorted = wanted.toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1));
    const [taken, found] = await Promise.all([
      this.#insert(transaction, sorted, now),
      transaction.all<IdempotencyRow>(
        `SELECT * FROM {idempotency} WHERE (owner, key) IN (SELECT * FROM unnest($1::text[], $2::text[])) AND expires_at > $3`,
        [...sorted, ...asked].map(({ owner }) => owner),
        [...sorted, ...asked].map(({ key }) => key),
        now,
      ),
    ]);
    const own = new Set(taken.map(keyOf));
    const before = Math.floor(this.#taken / SWEEP_EVERY);
    this.#taken += own.size;
    if (own.size > 0 && (before === 0 || before < Math.floor(this.#taken / SWEEP_EVERY))) sweep(transaction);
    return new Map(found.filter((row) => !own.has(keyOf(row))).map((row) => [keyOf(row), recordOf(row)]));
  }

  #insert(
    transaction: Transaction,
    records: readonly IdempotencyRecord[],
    now: number,
  ): Promise<{ owner: string; key: string }[]> {
    return transaction.all(
      `INSERT INTO {idempotency} AS known (owner, key, digest, response_id, status, answer, expires_at)
       SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::int[], $6::text[], $7::bigint[])
       ON CONFLICT (owner, key) DO UPDATE SET digest = excluded.digest, response_id = excluded.response_id,
         status = excluded.status, answer = excluded.answer, expires_at = excluded.expires_at
       WHERE known.expires_at <= $8 RETURNING owner, key`,
      records.map(({ owner }) => owner),
      records.map(({ key }) => key),
      records.map(({ digest }) => digest),
      records.map(({ responseId }) => responseId),
      records.map(({ answer }) => answer?.status ?? null),
      records.map(({ answer }) => answer?.body ?? null),
      records.map(({ expiresAt }) => expiresAt),
      now,
    );
  }
}

function sweep(transaction: Transaction): void {
  transaction.send(
    `DELETE FROM {idempotency} WHERE (owner, key) IN (SELECT owner, key FROM {idempotency} WHERE expires_at <= $1
       ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
    Date.now(),
    SWEEP_LIMIT,
  );
}
