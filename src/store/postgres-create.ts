/**
 * New responses, many in one transaction.
 *
 * Invariant: a response is made with all that belongs to it (key, pointer, items, place in the queue) or not at all;
 * one that is refused leaves nothing. A parent cannot be deleted while a response is being made below it.
 */
import { RotundaError } from "../types/error.ts";
import type { IdempotencyRecord, NewResponse } from "../types/store.ts";
import { goneOn, nameTaken } from "./conversation-rows.ts";
import { pointConversations } from "./postgres-conversations.ts";
import type { SqlExecutor, Transaction } from "./postgres-database.ts";
import { keyOf, type PostgresIdempotency } from "./postgres-idempotency.ts";
import type { Leases } from "./postgres-leases.ts";
import type { Rows } from "./postgres-rows.ts";
import { bodyOf } from "./rows.ts";

/** Puts a response that nobody has yet where a worker finds it, in the transaction that makes it. */
export type Enqueue = (transaction: SqlExecutor, response: NewResponse) => Promise<void>;

/** What became of one: the record that already holds its key, or why it was refused; undefined: it was made. */
export type Created = IdempotencyRecord | RotundaError | undefined;

interface Standing {
  parents: ReadonlySet<string>;
  heads: ReadonlyMap<string, string | null>;
  /** Ids of the conversations that have a name, by `keyOf`. */
  names: ReadonlyMap<string, string>;
}

export class Creation {
  readonly #idempotency: PostgresIdempotency;
  readonly #leases: Leases;
  readonly #enqueue: Enqueue | undefined;

  constructor(idempotency: PostgresIdempotency, leases: Leases, enqueue: Enqueue | undefined) {
    this.#idempotency = idempotency;
    this.#leases = leases;
    this.#enqueue = enqueue;
  }

  /** Inside a transaction. What was made is added to `rows`. */
  async create(transaction: Transaction, responses: readonly NewResponse[], rows: Rows): Promise<Created[]> {
    const results = new Map<NewResponse, Created>();
    for (let left = responses; left.length > 0; ) {
      const { apart, others } = firstApart(left);
      await this.#createApart(transaction, apart, rows, results);
      left = others;
    }
    return responses.map((response) => results.get(response));
  }

  async #createApart(
    transaction: Transaction,
    responses: readonly NewResponse[],
    rows: Rows,
    results: Map<NewResponse, Created>,
  ): Promise<void> {
    const standing = await standingOf(transaction, responses);
    const refused = new Map<NewResponse, RotundaError>();
    for (const response of responses) {
      const refusal = refusalOf(response, standing);
      if (refusal) refused.set(response, refusal);
    }
    const keys = responses.flatMap((response) => recordsOf(response).map((record) => ({ response, record })));
    const known = await this.#idempotency.take(
      transaction,
      keys.filter(({ response }) => !refused.has(response)).map(({ record }) => record),
      keys.filter(({ response }) => refused.has(response)).map(({ record }) => record),
    );
    // A request that is repeated is answered with the first one's record, whatever has come in between.
    for (const { response, record } of keys) results.set(response, known.get(keyOf(record)));
    for (const [response, refusal] of refused) if (!results.get(response)) results.set(response, refusal);
    const made = responses.filter((response) => results.get(response) === undefined);
    if (made.length > 0) await this.#insert(transaction, made, rows);
  }

  async #insert(transaction: Transaction, made: readonly NewResponse[], rows: Rows): Promise<void> {
    for (const process of new Set(made.map(({ process }) => process))) {
      if (process !== null) this.#leases.hold(transaction, process);
    }
    const [inserted] = await Promise.all([
      insertNodes(transaction, made),
      pointConversations(
        transaction,
        made.flatMap(({ conversation, node }) => (conversation ? [{ conversation, node }] : [])),
      ),
    ]);
    const numbers = new Map(inserted.map(({ id, number }) => [id, number]));
    for (const response of made) {
      const number = numbers.get(response.node.id);
      if (number === undefined) throw new RotundaError("internal", "a new response has no number");
      rows.addEntries(number, response.input);
      rows.addEvents(number, response.events);
      if (response.process === null) await this.#enqueue?.(transaction, response);
    }
  }
}

function recordsOf({ node, idempotency }: NewResponse): IdempotencyRecord[] {
  return idempotency ? [{ ...idempotency, owner: node.owner, responseId: node.id, answer: null }] : [];
}

/** Those that have nothing in common, from the first one on; the others come after them. */
function firstApart(responses: readonly NewResponse[]): { apart: NewResponse[]; others: NewResponse[] } {
  const used = new Set<string>();
  const apart: NewResponse[] = [];
  const others: NewResponse[] = [];
  for (const response of responses) {
    const { node, conversation, idempotency } = response;
    const own = [`response ${node.id}`];
    if (conversation) own.push(`conversation ${conversation.id}`);
    if (conversation?.name != null) own.push(`name ${keyOf({ owner: conversation.owner, key: conversation.name })}`);
    if (idempotency) own.push(`key ${keyOf({ owner: node.owner, key: idempotency.key })}`);
    const isApart = !own.some((one) => used.has(one)) && !used.has(`response ${node.previousResponseId}`);
    (isApart ? apart : others).push(response);
    for (const one of own) used.add(one);
  }
  return { apart, others };
}

/** What decides whether responses may be made, locked until the commit. */
async function standingOf(transaction: Transaction, responses: readonly NewResponse[]): Promise<Standing> {
  const parents = responses.flatMap(({ node }) => (node.previousResponseId === null ? [] : [node.previousResponseId]));
  const conversations = responses.flatMap(({ conversation }) => (conversation ? [conversation] : []));
  const named = conversations.flatMap(({ owner, name }) => (name === null ? [] : [{ owner, name }]));
  const [living, stand, taken] = await Promise.all([
    parents.length === 0
      ? []
      : transaction.all<{ id: string }>(
          "SELECT id FROM {responses} WHERE id = ANY($1) AND deleted_at IS NULL ORDER BY number FOR KEY SHARE",
          parents,
        ),
    conversations.length === 0
      ? []
      : transaction.all<{ id: string; head: string | null }>(
          "SELECT id, head FROM {conversations} WHERE id = ANY($1) ORDER BY id FOR UPDATE",
          conversations.map(({ id }) => id),
        ),
    named.length === 0
      ? []
      : transaction.all<{ id: string; owner: string; name: string }>(
          `SELECT id, owner, name FROM {conversations}
           WHERE (owner, name) IN (SELECT * FROM unnest($1::text[], $2::text[]))`,
          named.map(({ owner }) => owner),
          named.map(({ name }) => name),
        ),
  ]);
  return {
    parents: new Set(living.map(({ id }) => id)),
    heads: new Map(stand.map(({ id, head }) => [id, head])),
    names: new Map(taken.map(({ id, owner, name }) => [keyOf({ owner, key: name }), id])),
  };
}

function refusalOf({ node, conversation, linear }: NewResponse, standing: Standing): RotundaError | undefined {
  const { previousResponseId: parent } = node;
  if (parent !== null && !standing.parents.has(parent)) {
    return new RotundaError("not_found", `there is no response ${parent}`);
  }
  if (!conversation) return undefined;
  const { id, owner, name } = conversation;
  if (name !== null && (standing.names.get(keyOf({ owner, key: name })) ?? id) !== id) return nameTaken(name);
  const head = standing.heads.get(id);
  return linear && head !== undefined && head !== parent ? goneOn(id) : undefined;
}

function insertNodes(
  transaction: Transaction,
  made: readonly NewResponse[],
): Promise<{ id: string; number: number }[]> {
  const column = <T>(of: (response: NewResponse) => T) => made.map(of);
  return transaction.all(
    `INSERT INTO {responses} (id, owner, previous_response_id, caller_response_id, caller_item_id, conversation_id,
       status, body, process, fence, tokens, cost, created_at)
     SELECT id, owner, previous, caller, item, conversation, status, body, process, 1, tokens, cost, created
     FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
       $10::bigint[], $11::float8[], $12::bigint[]) WITH ORDINALITY
       AS made (id, owner, previous, caller, item, conversation, status, body, process, tokens, cost, created, place)
     ORDER BY place RETURNING id, number`,
    column(({ node }) => node.id),
    column(({ node }) => node.owner),
    column(({ node }) => node.previousResponseId),
    column(({ node }) => node.caller?.responseId ?? null),
    column(({ node }) => node.caller?.itemId ?? null),
    column(({ node }) => node.conversationId),
    column(({ node }) => node.status),
    column(({ node }) => bodyOf(node)),
    column(({ process }) => process),
    column(({ node }) => node.usage.total_tokens),
    column(({ node }) => node.usage.cost ?? 0),
    column(({ node }) => node.createdAt),
  );
}
