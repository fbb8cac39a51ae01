/**
 * Deletion and erasure.
 *
 * Invariant: a response that was deleted is marked, in one transaction with its sub-agents and the pointers that
 * stood at it. What only its own readers need (log, whole outputs, approvals, kept answers) is erased at once, its
 * items and settings as soon as nothing needs them: no response below it that is not erased, no sub-agent of it that
 * still runs. Much content is erased in portions, so that nobody else waits long; the table `erasing` holds what is
 * left, and whoever opens the database goes on with it. What is erased is overwritten in the file, and leaves the
 * write-ahead log soon after (sqlite-truncate.ts).
 */
import { RotundaError } from "../types/error.ts";
import type { Item } from "../types/item.ts";
import { ERASED, OUTPUT, PLACES, type ResponseRow } from "./rows.ts";
import type { Conversations } from "./sqlite-conversations.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import type { Idempotency } from "./sqlite-idempotency.ts";
import type { Tail } from "./sqlite-tail.ts";
import type { SqliteTree } from "./sqlite-tree.ts";
import { LogTruncation } from "./sqlite-truncate.ts";

/** Rows that one statement erases at most. */
const ROWS = 300;

export class Erasure {
  readonly #db: SqliteDatabase;
  readonly #tree: SqliteTree;
  readonly #conversations: Conversations;
  readonly #idempotency: Idempotency;
  readonly #log: LogTruncation;
  readonly #portion: number;

  /** `portion`: milliseconds that one transaction erases, about; one row is never split. */
  constructor(parts: {
    db: SqliteDatabase;
    tree: SqliteTree;
    tail: Tail;
    conversations: Conversations;
    idempotency: Idempotency;
    portion: number;
  }) {
    const { db } = parts;
    this.#db = db;
    this.#tree = parts.tree;
    this.#conversations = parts.conversations;
    this.#idempotency = parts.idempotency;
    this.#portion = parts.portion;
    this.#log = new LogTruncation(db, async () => {
      await this.finish();
      // What was told of it may still stand in rows that others share; of them nobody but their own is in need.
      if (db.isOpen && !parts.tail.isEmpty()) await db.write(() => parts.tail.clear());
    });
    // Left behind by a process that died in between.
    if (this.#left() || this.#log.isDue()) this.#log.schedule();
  }

  /** Resolves when all is erased that can be. */
  async delete(id: string): Promise<boolean> {
    const found = await this.#db.write(() => {
      const row = this.#tree.row(id);
      if (!row) return false;
      if (row.ended_at === null) {
        throw new RotundaError("response_not_ended", `response ${id} has not ended (it is ${row.status})`, {
          remedy: `End it first: rotunda cancel ${id.slice(-8)}`,
        });
      }
      this.#delete(row);
      return true;
    });
    if (found) await this.finish();
    return found;
  }

  /** Inside a transaction: a sub-agent's response has ended whose caller was deleted while it ran. */
  ended(row: ResponseRow): void {
    if (row.caller_response_id === null || this.#tree.row(row.caller_response_id)) return;
    if (this.#tree.rowEvenDeleted(row.caller_response_id)) this.#delete(row);
  }

  #delete(row: ResponseRow): void {
    const marked: ResponseRow[] = [];
    const pending = [row];
    for (let next = pending.pop(); next; next = pending.pop()) {
      this.#mark(next);
      marked.push(next);
      pending.push(...this.#subAgents(next.id));
    }
    for (const { id, conversation_id } of marked) {
      this.#conversations.leave(id, conversation_id, (one) => this.#inputOf(one));
    }
    this.#erase(marked.map(({ number }) => number));
  }

  /** Those that run still are left: they go when they end. */
  #subAgents(id: string): ResponseRow[] {
    return this.#db.all<ResponseRow>(
      "SELECT * FROM responses WHERE caller_response_id = ? AND deleted_at IS NULL AND ended_at IS NOT NULL",
      id,
    );
  }

  #mark({ id, number }: ResponseRow): void {
    this.#db.run("UPDATE responses SET deleted_at = ? WHERE number = ?", Date.now(), number);
    this.#db.run("DELETE FROM approvals WHERE response_id = ?", id);
    this.#db.run("DELETE FROM controls WHERE response_id = ?", id);
    this.#db.run("DELETE FROM rules WHERE holder = ?", id);
    this.#idempotency.forget(id);
  }

  // ---- in portions

  #left(): boolean {
    return this.#db.one("SELECT 1 FROM erasing LIMIT 1") !== undefined;
  }

  /** Erases until nothing is left to erase. */
  async finish(): Promise<void> {
    while (this.#db.isOpen && this.#left()) {
      await this.#db.write(() => {
        const rows = this.#db.all<{ number: number }>("SELECT number FROM erasing ORDER BY number LIMIT ?", ROWS);
        for (const { number } of rows) this.#db.run("DELETE FROM erasing WHERE number = ?", number);
        this.#erase(rows.map(({ number }) => number));
      });
    }
  }

  /** Inside a transaction: erases one portion, and notes what is left. */
  #erase(numbers: readonly number[]): void {
    const pending = [...numbers];
    const until = performance.now() + this.#portion;
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      pending.push(...this.#eraseSome(next));
      if (performance.now() >= until) break;
    }
    for (const number of pending) this.#db.run("INSERT OR IGNORE INTO erasing (number) VALUES (?)", number);
    this.#log.count();
  }

  /** Erases something of a deleted response. Returns what to go on with: itself, or those above that it held. */
  #eraseSome(number: number): number[] {
    const row = this.#db.one<ResponseRow>("SELECT * FROM responses WHERE number = ?", number);
    if (!row || row.deleted_at === null) return [];
    const [first, last] = [number * PLACES, number * PLACES + PLACES - 1];
    const events = "DELETE FROM events WHERE key IN (SELECT key FROM events WHERE key BETWEEN ? AND ? LIMIT ?)";
    if (this.#db.run(events, first, last, ROWS) === ROWS) return [number];
    const output = "DELETE FROM outputs WHERE item_id = (SELECT item_id FROM outputs WHERE response_id = ? LIMIT 1)";
    if (this.#db.run(output, row.id) > 0) return [number];
    if (row.body !== ERASED) {
      if (this.#isNeeded(row.id)) return [];
      if (row.conversation_id !== null) this.#conversations.forget(row.conversation_id, this.#inputOf(row.id));
      // First of all, so that nobody takes what is half erased for damaged.
      this.#db.run("UPDATE responses SET body = ? WHERE number = ?", ERASED, number);
      // Nothing goes on from it any more that could use something.
      this.#db.run("DELETE FROM budgets WHERE key = ?", `tree/${row.id}`);
    }
    const entries = "DELETE FROM entries WHERE key IN (SELECT key FROM entries WHERE key BETWEEN ? AND ? LIMIT ?)";
    if (this.#db.run(entries, first, last, ROWS) === ROWS) return [number];
    return [row.previous_response_id, row.caller_response_id].flatMap((above) => {
      const found = above === null ? undefined : this.#tree.rowEvenDeleted(above);
      return found && found.deleted_at !== null && found.body !== ERASED ? [found.number] : [];
    });
  }

  #isNeeded(id: string): boolean {
    const below = "SELECT 1 FROM responses WHERE previous_response_id = ? AND body <> ? LIMIT 1";
    if (this.#db.one(below, id, ERASED)) return true;
    const running = "SELECT 1 FROM responses WHERE caller_response_id = ? AND deleted_at IS NULL LIMIT 1";
    return this.#db.one(running, id) !== undefined;
  }

  /** The text that came in with a response: what titles are made from. */
  #inputOf(id: string): string {
    const number = this.#tree.rowEvenDeleted(id)?.number ?? 0;
    const rows = this.#db.all<{ item: string }>(
      "SELECT item FROM entries WHERE key BETWEEN ? AND ? ORDER BY key",
      number * PLACES,
      number * PLACES + OUTPUT - 1,
    );
    return rows
      .map(({ item }) => JSON.parse(item) as Item)
      .flatMap((item) => (item.type === "message" ? item.content : []))
      .map((part) => ("text" in part ? part.text : ""))
      .join(" ");
  }

  close(): void {
    this.#log.close();
  }
}
