/**
 * Deletion and erasure on Postgres (see sqlite-erase.ts for what is erased when).
 *
 * Invariant: a response that was deleted is marked, in one transaction with its sub-agents and the pointers that stood
 * at it; the id and the hash stay. One process erases at a time: what is still needed does not change meanwhile. What
 * is left stands in `erasing`, and whichever process opens the database goes on with it. The space of deleted rows is
 * Postgres's to give back (VACUUM), here and on its replicas and backups.
 */
import { RotundaError } from "../types/error.ts";
import type { Item } from "../types/item.ts";
import { forgetTitle, leave } from "./postgres-conversations.ts";
import type { Transaction } from "./postgres-database.ts";
import { NODE } from "./postgres-tree.ts";
import { ERASED, type NodeRow } from "./rows.ts";

/** Rows that one statement erases at most. */
const ROWS = 2_000;
/** Milliseconds that one transaction erases, about; one statement is never split. */
const PORTION = 100;
/** The lock that whoever erases holds. */
export const ERASURE = "erasure";

export class PostgresErasure {
  readonly #portion: number;
  readonly #write: <T>(work: (transaction: Transaction) => Promise<T>) => Promise<T>;
  #timer: NodeJS.Timeout | null = null;

  /** `write` runs a transaction that holds the lock `ERASURE`. */
  constructor(write: <T>(work: (transaction: Transaction) => Promise<T>) => Promise<T>, portion = PORTION) {
    this.#write = write;
    this.#portion = portion;
  }

  /** Resolves when all is erased that can be. */
  async delete(id: string): Promise<boolean> {
    const left = await this.#write(async (transaction) => {
      const sql = `SELECT ${NODE} FROM {responses} AS node WHERE id = $1 AND deleted_at IS NULL FOR UPDATE`;
      const row = await transaction.one<NodeRow>(sql, id);
      if (!row) return undefined;
      if (row.ended_at === null) {
        throw new RotundaError("response_not_ended", `response ${id} has not ended (it is ${row.status})`, {
          remedy: `End it first: rotunda cancel ${id.slice(-8)}`,
        });
      }
      return this.deleteIn(transaction, row);
    });
    if (left === true) await this.finish();
    return left !== undefined;
  }

  /** Inside a transaction: true where something is left to erase. Takes the lock, if the transaction has not. */
  async deleteIn(transaction: Transaction, row: NodeRow): Promise<boolean> {
    transaction.lock([ERASURE]);
    const marked: NodeRow[] = [];
    const pending = [row];
    for (let next = pending.pop(); next; next = pending.pop()) {
      mark(transaction, next);
      marked.push(next);
      // Those that run still are left: they go when they end.
      const below = `SELECT ${NODE} FROM {responses} AS node
        WHERE caller_response_id = $1 AND deleted_at IS NULL AND ended_at IS NOT NULL ORDER BY number FOR UPDATE`;
      pending.push(...(await transaction.all<NodeRow>(below, next.id)));
    }
    for (const { id, conversation_id } of marked) {
      await leave(transaction, id, conversation_id, (one) => inputOf(transaction, one));
    }
    return this.#erase(
      transaction,
      marked.map(({ number }) => number),
    );
  }

  // ---- in portions

  /** Erases until nothing is left to erase. */
  async finish(): Promise<void> {
    while (
      await this.#write(async (transaction) => {
        const sql = "DELETE FROM {erasing} RETURNING number";
        const rows = await transaction.all<{ number: number }>(sql);
        return (
          rows.length > 0 &&
          this.#erase(
            transaction,
            rows.map(({ number }) => number),
          )
        );
      })
    );
  }

  /** Somebody has left something behind: it is erased soon. */
  finishLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      // Whoever opens the database next tries again.
      this.finish().catch(() => undefined);
    }, 1_000).unref();
  }

  /** Inside a transaction: erases one portion, and notes what is left. True: there is something. */
  async #erase(transaction: Transaction, numbers: readonly number[]): Promise<boolean> {
    const pending = [...numbers];
    const until = performance.now() + this.#portion;
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      pending.push(...(await eraseSome(transaction, next)));
      if (performance.now() >= until) break;
    }
    if (pending.length === 0) return false;
    const sql = "INSERT INTO {erasing} (number) SELECT * FROM unnest($1::bigint[]) ON CONFLICT DO NOTHING";
    transaction.send(sql, [...new Set(pending)]);
    return true;
  }

  close(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

function mark(transaction: Transaction, { id, number }: NodeRow): void {
  transaction.send("UPDATE {responses} SET deleted_at = $1 WHERE number = $2", Date.now(), number);
  transaction.send("DELETE FROM {approvals} WHERE response_id = $1", id);
  transaction.send("DELETE FROM {controls} WHERE response_id = $1", id);
  transaction.send("DELETE FROM {rules} WHERE holder = $1", id);
  // The key stays taken, so that nothing runs again.
  transaction.send(
    "UPDATE {idempotency} SET status = NULL, answer = NULL WHERE response_id = $1 AND answer IS NOT NULL",
    id,
  );
}

/** Erases something of a deleted response. Returns what to go on with: itself, or those above that it held. */
async function eraseSome(transaction: Transaction, number: number): Promise<number[]> {
  const sql = `SELECT ${NODE} FROM {responses} AS node WHERE number = $1`;
  const row = await transaction.one<NodeRow>(sql, number);
  if (!row || row.deleted_at === null) return [];
  const events = `DELETE FROM {events} WHERE number = $1 AND first IN
    (SELECT first FROM {events} WHERE number = $1 ORDER BY first LIMIT $2)`;
  if ((await transaction.run(events, number, ROWS)) === ROWS) return [number];
  transaction.send("DELETE FROM {outputs} WHERE response_id = $1", row.id);
  if (row.body !== ERASED) {
    if (await isNeeded(transaction, row.id)) return [];
    if (row.conversation_id !== null) {
      await forgetTitle(transaction, row.conversation_id, await inputOf(transaction, row.id));
    }
    // First of all, so that nobody takes what is half erased for damaged.
    transaction.send("UPDATE {responses} SET body = $1 WHERE number = $2", ERASED, number);
    // Nothing goes on from it any more that could use something.
    transaction.send("DELETE FROM {budgets} WHERE key = $1", `tree/${row.id}`);
  }
  const entries = `DELETE FROM {entries} WHERE number = $1 AND (side, position) IN
    (SELECT side, position FROM {entries} WHERE number = $1 ORDER BY side, position LIMIT $2)`;
  if ((await transaction.run(entries, number, ROWS)) === ROWS) return [number];
  const above = [row.previous_response_id, row.caller_response_id].filter((id) => id !== null);
  if (above.length === 0) return [];
  const deleted = "SELECT number FROM {responses} WHERE id = ANY($1) AND deleted_at IS NOT NULL AND body <> $2";
  return (await transaction.all<{ number: number }>(deleted, above, ERASED)).map((found) => found.number);
}

async function isNeeded(transaction: Transaction, id: string): Promise<boolean> {
  const needed = await transaction.one(
    `SELECT 1 AS needed FROM {responses} WHERE (previous_response_id = $1 AND body <> $2)
       OR (caller_response_id = $1 AND deleted_at IS NULL) LIMIT 1`,
    id,
    ERASED,
  );
  return needed !== undefined;
}

/** The text that came in with a response: what titles are made from. */
async function inputOf(transaction: Transaction, id: string): Promise<string> {
  const rows = await transaction.all<{ item: string }>(
    `SELECT entry.item FROM {responses} AS node JOIN {entries} AS entry USING (number)
     WHERE node.id = $1 AND entry.side = 0 ORDER BY entry.position`,
    id,
  );
  return rows
    .map(({ item }) => JSON.parse(item) as Item)
    .flatMap((item) => (item.type === "message" ? item.content : []))
    .map((part) => ("text" in part ? part.text : ""))
    .join(" ");
}
