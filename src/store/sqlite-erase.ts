/**
 * Deletion and erasure.
 *
 * Invariant: a deleted response is marked, and at once loses all that only its own readers need: log, whole outputs,
 * approvals, kept answers. Its items and settings are erased in the same transaction when nothing needs them: no
 * response below it that is not erased, and no sub-agent of it that still runs. What is erased is overwritten in the
 * file, and leaves the write-ahead log soon after, also if the process dies before that.
 */
import { RotundaError } from "../types/error.ts";
import type { Item } from "../types/item.ts";
import { ERASED, OUTPUT, PLACES, type ResponseRow } from "./rows.ts";
import type { Conversations } from "./sqlite-conversations.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import type { Idempotency } from "./sqlite-idempotency.ts";
import type { SqliteTree } from "./sqlite-tree.ts";

/** Milliseconds after an erasure at which the write-ahead log is cut: erasures in a row share one cut. */
const TRUNCATE_AFTER = 1_000;

interface ErasureRow {
  done: number;
  truncated: number;
}

export class Erasure {
  readonly #db: SqliteDatabase;
  readonly #tree: SqliteTree;
  readonly #conversations: Conversations;
  readonly #idempotency: Idempotency;
  #timer: NodeJS.Timeout | null = null;

  constructor(db: SqliteDatabase, tree: SqliteTree, conversations: Conversations, idempotency: Idempotency) {
    this.#db = db;
    this.#tree = tree;
    this.#conversations = conversations;
    this.#idempotency = idempotency;
    // Left behind by a process that died between the two.
    if (this.#isDue()) this.#schedule();
  }

  async delete(id: string): Promise<boolean> {
    return this.#db.write(() => {
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
    for (const { id } of marked.reverse()) this.#eraseFrom(id);
    this.#db.run("UPDATE erasure SET done = done + 1");
    this.#schedule();
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
    this.#db.run("DELETE FROM events WHERE key BETWEEN ? AND ?", number * PLACES, number * PLACES + PLACES - 1);
    this.#db.run("DELETE FROM outputs WHERE response_id = ?", id);
    this.#db.run("DELETE FROM approvals WHERE response_id = ?", id);
    this.#db.run("DELETE FROM controls WHERE response_id = ?", id);
    this.#db.run("DELETE FROM rules WHERE holder = ?", id);
    this.#idempotency.forget(id);
  }

  /** Erases a deleted response that nothing needs, and then whatever above it was only kept for it. */
  #eraseFrom(id: string): void {
    const pending: string[] = [id];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      const row = this.#tree.rowEvenDeleted(next);
      if (!row || row.deleted_at === null || row.body === ERASED || this.#isNeeded(next)) continue;
      if (row.conversation_id !== null) this.#conversations.forget(row.conversation_id, this.#inputOf(next));
      const first = row.number * PLACES;
      this.#db.run("DELETE FROM entries WHERE key BETWEEN ? AND ?", first, first + PLACES - 1);
      this.#db.run("UPDATE responses SET body = ? WHERE number = ?", ERASED, row.number);
      for (const above of [row.previous_response_id, row.caller_response_id]) if (above !== null) pending.push(above);
    }
  }

  #isNeeded(id: string): boolean {
    const below = this.#db.one(
      "SELECT 1 FROM responses WHERE previous_response_id = ? AND body <> ? LIMIT 1",
      id,
      ERASED,
    );
    const running = "SELECT 1 FROM responses WHERE caller_response_id = ? AND deleted_at IS NULL LIMIT 1";
    return below !== undefined || this.#db.one(running, id) !== undefined;
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

  // ---- the write-ahead log

  #row(): ErasureRow {
    return this.#db.one<ErasureRow>("SELECT done, truncated FROM erasure") ?? { done: 0, truncated: 0 };
  }

  #isDue(): boolean {
    const { done, truncated } = this.#row();
    return done > truncated;
  }

  #schedule(): void {
    if (this.#timer) return;
    this.#timer = setTimeout(() => this.#onTime(), TRUNCATE_AFTER);
    // A process that has nothing else to do ends, and closes the store on its way.
    this.#timer.unref();
  }

  #onTime(): void {
    this.#timer = null;
    try {
      if (!this.#truncate()) this.#schedule();
    } catch {
      // A full disk, a lock: the row says that it is still due.
      this.#schedule();
    }
  }

  /** False: another process is in the way, or a commit of ours is due. */
  #truncate(): boolean {
    const { done, truncated } = this.#row();
    if (done <= truncated) return true;
    if (!this.#db.truncateLog()) return false;
    this.#db
      .write(() => this.#db.run("UPDATE erasure SET truncated = ? WHERE truncated < ?", done, done), false)
      .catch(() => this.#schedule());
    return true;
  }

  /** Before the database is closed. Where another process is in the way, the next one to open or erase does it. */
  close(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#db.flush();
    this.#truncate();
    this.#timer = null;
  }
}
