/**
 * Conversations: named, movable pointers to responses.
 *
 * Invariant: a name is one owner's once; no pointer stands at a response that was deleted.
 */
import { type Conversation, LOCAL, type Owner, type ResponseNode } from "../types/response.ts";
import type { ConversationFilter } from "../types/store.ts";
import { type ConversationRow, conversationOf, isMadeFrom, nameTaken, type Place } from "./conversation-rows.ts";
import type { Parameter, SqliteDatabase } from "./sqlite-database.ts";
import type { SqliteTree } from "./sqlite-tree.ts";

/** A statement that lists conversations, the last used first. `before` is where the page before this one ended. */
export function conversationsQuery(
  { owner, workspace, kept, limit }: Omit<ConversationFilter, "before">,
  before?: { updated_at: number; id: string },
): { sql: string; parameters: Parameter[] } {
  const where = ["1"];
  const parameters: Parameter[] = [];
  const add = (condition: string, ...values: Parameter[]) => {
    where.push(condition);
    parameters.push(...values);
  };
  if (owner !== undefined) add("owner = ?", owner);
  if (workspace !== undefined) add("workspace = ?", workspace);
  if (kept) where.push(`instr(metadata, '"keep":') > 0`);
  if (before) add("(updated_at, id) < (?, ?)", before.updated_at, before.id);
  const sql = `SELECT * FROM conversations WHERE ${where.join(" AND ")} ORDER BY updated_at DESC, id DESC LIMIT ?`;
  return { sql, parameters: [...parameters, limit] };
}

export class Conversations {
  readonly #db: SqliteDatabase;
  readonly #tree: SqliteTree;

  constructor(db: SqliteDatabase, tree: SqliteTree) {
    this.#db = db;
    this.#tree = tree;
  }

  get(idOrName: string, owner: Owner = LOCAL): Conversation | undefined {
    const row =
      this.#db.one<ConversationRow>("SELECT * FROM conversations WHERE id = ?", idOrName) ??
      this.#db.one<ConversationRow>("SELECT * FROM conversations WHERE owner = ? AND name = ?", owner, idOrName);
    return row && conversationOf(row);
  }

  list({ before, ...filter }: ConversationFilter): Conversation[] {
    let end: { updated_at: number; id: string } | undefined;
    if (before !== undefined) {
      end = this.#db.one("SELECT updated_at, id FROM conversations WHERE id = ?", before);
      if (!end) return [];
    }
    const { sql, parameters } = conversationsQuery(filter, end);
    return this.#db.all<ConversationRow>(sql, ...parameters).flatMap((row) => {
      try {
        return [conversationOf(row)];
      } catch {
        // One that is damaged keeps nobody from seeing the others.
        return [];
      }
    });
  }

  async save(conversation: Conversation): Promise<void> {
    await this.#db.write(() => {
      this.checkName(conversation);
      const place = this.#placeOf(conversation.id, conversation.head);
      // Where it stands is moved by turns alone: one may have come since this was read.
      this.#put(conversation, place, "name = excluded.name, title = excluded.title, metadata = excluded.metadata");
    });
  }

  async remove(id: string): Promise<boolean> {
    return this.#db.write(() => this.#db.run("DELETE FROM conversations WHERE id = ?", id) > 0);
  }

  /** Inside a transaction, before its first change. */
  checkName({ id, owner, name }: Conversation): void {
    if (name === null) return;
    const other = this.#db.one<{ id: string }>(
      "SELECT id FROM conversations WHERE owner = ? AND name = ?",
      owner,
      name,
    );
    if (!other || other.id === id) return;
    throw nameTaken(name);
  }

  /** Inside a transaction: makes it at this response, or moves it there. Nothing else of it changes, whoever wrote it since. */
  point(conversation: Conversation, node: ResponseNode): void {
    const borrowed = node.conversationId === conversation.id ? 0 : 1;
    this.#put(conversation, { head: node.id, borrowed }, "head = excluded.head, borrowed = excluded.borrowed");
  }

  #put(conversation: Conversation, { head, borrowed }: Place, ...changes: string[]): void {
    const { id, owner, name, title, workspace, createdAt, updatedAt } = conversation;
    const change = ["updated_at = excluded.updated_at", ...changes];
    this.#db.run(
      `INSERT INTO conversations (id, owner, name, title, head, borrowed, workspace, metadata, created_at, updated_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET ${change.join(", ")}`,
      id,
      owner,
      name,
      title,
      head,
      borrowed,
      workspace,
      JSON.stringify(conversation.metadata),
      createdAt,
      updatedAt,
    );
  }

  /** Where a pointer may stand that is to stand at a response. */
  #placeOf(conversationId: string, wanted: string | null): Place {
    const living = this.#tree.nearestLiving(wanted);
    const head = living?.id ?? null;
    return { head, borrowed: living && living.conversation_id !== conversationId ? 1 : 0 };
  }

  /** Inside a transaction: the pointer goes back from a response, if it still stands there. */
  moveBack(conversationId: string, from: string, to: string | null, at: number): void {
    const { head, borrowed } = this.#placeOf(conversationId, to);
    this.#db.run(
      "UPDATE conversations SET head = ?, borrowed = ?, updated_at = ? WHERE id = ? AND head = ?",
      head,
      borrowed,
      at,
      conversationId,
      from,
    );
  }

  /**
   * Inside a transaction: pointers leave a response that was marked as deleted, for the nearest one above it that
   * was not. Titles that were made from what they pass on the way are emptied.
   */
  leave(responseId: string, conversationId: string | null, inputOf: (id: string) => string): void {
    const rows = this.#db.all<ConversationRow>(
      `SELECT * FROM conversations WHERE id = ?1 AND head = ?2
       UNION SELECT * FROM conversations WHERE head = ?2 AND borrowed = 1`,
      conversationId,
      responseId,
    );
    if (rows.length === 0) return;
    const passed: string[] = [];
    for (let next: string | null = responseId; next !== null; ) {
      const row = this.#tree.rowEvenDeleted(next);
      if (!row || row.deleted_at === null) break;
      passed.push(inputOf(row.id));
      next = row.previous_response_id;
    }
    for (const { id, title } of rows) {
      const { head, borrowed } = this.#placeOf(id, responseId);
      this.#db.run("UPDATE conversations SET head = ?, borrowed = ? WHERE id = ?", head, borrowed, id);
      if (passed.some((text) => isMadeFrom(title, text))) this.#untitle(id);
    }
  }

  /** Inside a transaction: a text is erased, and so is the title that was made from it. */
  forget(conversationId: string, text: string): void {
    const row = this.#db.one<{ title: string }>("SELECT title FROM conversations WHERE id = ?", conversationId);
    if (row && isMadeFrom(row.title, text)) this.#untitle(conversationId);
  }

  #untitle(id: string): void {
    this.#db.run("UPDATE conversations SET title = '' WHERE id = ?", id);
  }
}
