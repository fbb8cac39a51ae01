/**
 * Conversations on Postgres: named, movable pointers to responses.
 *
 * Invariant: a name is one owner's once; no pointer stands at a response that was deleted; a transaction locks the
 * pointers that it may move in the order of their ids.
 */
import { type Conversation, LOCAL, type Owner, type ResponseNode } from "../types/response.ts";
import type { ConversationFilter } from "../types/store.ts";
import { type ConversationRow, conversationOf, isMadeFrom, nameTaken, type Place } from "./conversation-rows.ts";
import type { Parameter } from "./postgres-connection.ts";
import type { Reader, Transaction } from "./postgres-database.ts";

interface LivingRow {
  id: string;
  conversation_id: string | null;
  previous_response_id: string | null;
  deleted_at: number | null;
}

/** As the index `conversations_kept` has it. */
const KEPT = `strpos(metadata, '"keep":') > 0`;

/** A statement that lists conversations, the last used first. `before` is where the page before this one ended. */
export function conversationsQuery(
  { owner, workspace, kept, limit }: Omit<ConversationFilter, "before">,
  before?: { updated_at: number; id: string },
): { sql: string; parameters: Parameter[] } {
  const where = ["true"];
  const parameters: Parameter[] = [];
  const parameter = (value: Parameter) => `$${parameters.push(value)}`;
  if (owner !== undefined) where.push(`owner = ${parameter(owner)}`);
  if (workspace !== undefined) where.push(`workspace = ${parameter(workspace)}`);
  if (kept) where.push(KEPT);
  if (before) where.push(`(updated_at, id) < (${parameter(before.updated_at)}, ${parameter(before.id)})`);
  const sql = `SELECT * FROM {conversations} WHERE ${where.join(" AND ")}
    ORDER BY updated_at DESC, id DESC LIMIT ${parameter(limit)}`;
  return { sql, parameters };
}

export async function findConversation(
  reader: Reader,
  idOrName: string,
  owner: Owner = LOCAL,
): Promise<Conversation | undefined> {
  const sql = `SELECT * FROM {conversations} WHERE id = $1 OR (owner = $2 AND name = $1) ORDER BY id = $1 DESC LIMIT 1`;
  const row = await reader.one<ConversationRow>(sql, idOrName, owner);
  return row && conversationOf(row);
}

export async function listConversations(
  reader: Reader,
  { before, ...filter }: ConversationFilter,
): Promise<Conversation[]> {
  let end: { updated_at: number; id: string } | undefined;
  if (before !== undefined) {
    end = await reader.one("SELECT updated_at, id FROM {conversations} WHERE id = $1", before);
    if (!end) return [];
  }
  const { sql, parameters } = conversationsQuery(filter, end);
  return (await reader.all<ConversationRow>(sql, ...parameters)).map(conversationOf);
}

// ---- inside a transaction

export async function saveConversation(transaction: Transaction, conversation: Conversation): Promise<void> {
  const { id, owner, name } = conversation;
  const other =
    name === null
      ? undefined
      : await transaction.one<{ id: string }>(
          "SELECT id FROM {conversations} WHERE owner = $1 AND name = $2",
          owner,
          name,
        );
  if (name !== null && other && other.id !== id) throw nameTaken(name);
  const place = await placeOf(transaction, id, conversation.head);
  // Where it stands is moved by turns alone: one may have come since this was read.
  await putConversations(
    transaction,
    [{ conversation, place }],
    "name = excluded.name, title = excluded.title, metadata = excluded.metadata",
  );
}

/** Makes conversations at responses, or moves them there. Nothing else of them changes, whoever wrote it since. */
export async function pointConversations(
  transaction: Transaction,
  pointers: readonly { conversation: Conversation; node: ResponseNode }[],
): Promise<void> {
  const placed = pointers.map(({ conversation, node }) => {
    const borrowed = node.conversationId === conversation.id ? 0 : 1;
    return { conversation, place: { head: node.id, borrowed } };
  });
  await putConversations(transaction, placed, "head = excluded.head, borrowed = excluded.borrowed");
}

async function putConversations(
  transaction: Transaction,
  placed: readonly { conversation: Conversation; place: Place }[],
  changes: string,
): Promise<void> {
  const sorted = placed.toSorted((one, other) => (one.conversation.id < other.conversation.id ? -1 : 1));
  const column = (of: (conversation: Conversation, place: Place) => string | number | null) =>
    sorted.map(({ conversation, place }) => of(conversation, place));
  await transaction.run(
    `INSERT INTO {conversations} (id, owner, name, title, head, borrowed, workspace, metadata, created_at, updated_at)
     SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[],
       $8::text[], $9::bigint[], $10::bigint[])
     ON CONFLICT (id) DO UPDATE SET updated_at = excluded.updated_at, ${changes}`,
    column(({ id }) => id),
    column(({ owner }) => owner),
    column(({ name }) => name),
    column(({ title }) => title),
    column((_, { head }) => head),
    column((_, { borrowed }) => borrowed),
    column(({ workspace }) => workspace),
    column(({ metadata }) => JSON.stringify(metadata)),
    column(({ createdAt }) => createdAt),
    column(({ updatedAt }) => updatedAt),
  );
}

/** A response, and where it was deleted the nearest one above it that was not. */
async function nearestLiving(transaction: Transaction, id: string | null): Promise<LivingRow | undefined> {
  const sql =
    "SELECT id, conversation_id, previous_response_id, deleted_at FROM {responses} WHERE id = $1 FOR KEY SHARE";
  for (let next = id; next !== null; ) {
    const row: LivingRow | undefined = await transaction.one<LivingRow>(sql, next);
    if (!row || row.deleted_at === null) return row;
    next = row.previous_response_id;
  }
  return undefined;
}

/** Where a pointer may stand that is to stand at a response. */
async function placeOf(transaction: Transaction, conversationId: string, wanted: string | null): Promise<Place> {
  const living = await nearestLiving(transaction, wanted);
  return { head: living?.id ?? null, borrowed: living && living.conversation_id !== conversationId ? 1 : 0 };
}

/** The pointer goes back from a response, if it still stands there. */
export async function moveBack(
  transaction: Transaction,
  conversationId: string,
  { from, to, at }: { from: string; to: string | null; at: number },
): Promise<void> {
  const { head, borrowed } = await placeOf(transaction, conversationId, to);
  transaction.send(
    "UPDATE {conversations} SET head = $1, borrowed = $2, updated_at = $3 WHERE id = $4 AND head = $5",
    head,
    borrowed,
    at,
    conversationId,
    from,
  );
}

/**
 * Pointers leave a response that was marked as deleted, for the nearest one above it that was not. Titles that were
 * made from what they pass on the way are emptied.
 */
export async function leave(
  transaction: Transaction,
  responseId: string,
  conversationId: string | null,
  inputOf: (id: string) => Promise<string>,
): Promise<void> {
  const rows = await transaction.all<ConversationRow>(
    `SELECT * FROM {conversations} WHERE head = $2 AND (id = $1 OR borrowed = 1) ORDER BY id FOR UPDATE`,
    conversationId,
    responseId,
  );
  if (rows.length === 0) return;
  const passed: string[] = [];
  const sql = "SELECT id, previous_response_id, deleted_at FROM {responses} WHERE id = $1";
  for (let next: string | null = responseId; next !== null; ) {
    const row: LivingRow | undefined = await transaction.one<LivingRow>(sql, next);
    if (!row || row.deleted_at === null) break;
    passed.push(await inputOf(row.id));
    next = row.previous_response_id;
  }
  for (const { id, title } of rows) {
    const { head, borrowed } = await placeOf(transaction, id, responseId);
    transaction.send("UPDATE {conversations} SET head = $1, borrowed = $2 WHERE id = $3", head, borrowed, id);
    if (passed.some((text) => isMadeFrom(title, text))) untitle(transaction, id);
  }
}

/** A text is erased, and so is the title that was made from it. */
export async function forgetTitle(transaction: Transaction, conversationId: string, text: string): Promise<void> {
  const row = await transaction.one<{ title: string }>(
    "SELECT title FROM {conversations} WHERE id = $1",
    conversationId,
  );
  if (row && isMadeFrom(row.title, text)) untitle(transaction, conversationId);
}

function untitle(transaction: Transaction, id: string): void {
  transaction.send("UPDATE {conversations} SET title = '' WHERE id = $1", id);
}
