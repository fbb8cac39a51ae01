/**
 * Idempotency keys: what a request has led to, so that the same request led to nothing else.
 *
 * Invariant: of two requests with one key the first one wins, whichever process they reached; a key that has
 * expired is none.
 */
import type { Owner } from "../types/response.ts";
import type { IdempotencyRecord } from "../types/store.ts";
import { type IdempotencyRow, recordOf, SWEEP_EVERY, SWEEP_LIMIT } from "./idempotency-rows.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

export class Idempotency {
  readonly #db: SqliteDatabase;
  #taken = 0;

  constructor(db: SqliteDatabase) {
    this.#db = db;
  }

  inForce(owner: Owner, key: string): IdempotencyRecord | undefined {
    const row = this.#db.one<IdempotencyRow>(
      "SELECT * FROM idempotency WHERE owner = ? AND key = ? AND expires_at > ?",
      owner,
      key,
      Date.now(),
    );
    return row && recordOf(row);
  }

  async save(record: IdempotencyRecord): Promise<boolean> {
    return this.#db.write(() => {
      if (this.inForce(record.owner, record.key)) return false;
      this.take(record);
      return true;
    });
  }

  /** Inside a transaction, for a key that is not in force. */
  take({ owner, key, digest, responseId, answer, expiresAt }: IdempotencyRecord): void {
    this.#db.run(
      `INSERT OR REPLACE INTO idempotency (owner, key, digest, response_id, status, answer, expires_at)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      owner,
      key,
      digest,
      responseId,
      answer?.status ?? null,
      answer?.body ?? null,
      expiresAt,
    );
    if (this.#taken++ % SWEEP_EVERY === 0) this.#sweep();
  }

  #sweep(): void {
    this.#db.run(
      `DELETE FROM idempotency WHERE (owner, key) IN
         (SELECT owner, key FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`,
      Date.now(),
      SWEEP_LIMIT,
    );
  }

  /** Inside a transaction: the answers of a response are erased; its key stays taken, so that nothing runs again. */
  forget(responseId: string): void {
    this.#db.run(
      "UPDATE idempotency SET status = NULL, answer = NULL WHERE response_id = ? AND answer IS NOT NULL",
      responseId,
    );
  }
}
