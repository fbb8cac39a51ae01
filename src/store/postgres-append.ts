/**
 * Facts of runs, of many responses in one transaction.
 *
 * Invariant: a batch is written only while its fence is in force, and the row that says so stays locked until the
 * commit; rows are locked in the order of their numbers. An ended response is sealed with the hash over the very texts
 * that were stored.
 */
import type { AuditEntry } from "../types/audit.ts";
import { RotundaError } from "../types/error.ts";
import { LOCAL, type ResponseNode } from "../types/response.ts";
import type { Batch } from "../types/store.ts";
import type { SubscriptionRow } from "./outbox-rows.ts";
import { appendAudits } from "./postgres-audit.ts";
import { endBudgets, spend, unreserve } from "./postgres-budgets.ts";
import { moveBack } from "./postgres-conversations.ts";
import type { Transaction } from "./postgres-database.ts";
import type { PostgresErasure } from "./postgres-erase.ts";
import { subscriptionsIn, tellEnded, tellWaits } from "./postgres-outbox.ts";
import type { Rows } from "./postgres-rows.ts";
import { entriesOf, NODE } from "./postgres-tree.ts";
import { bodyOf, type EntryRow, hashOf, type NodeRow, nodeOf, PLACES } from "./rows.ts";

const DAY = 24 * 3_600_000;

interface OpenRow {
  id: string;
  number: number;
  fence: number;
}

/** A node that is changed: as it is now in this transaction. */
interface Changed {
  row: NodeRow;
  node: ResponseNode;
  waits: boolean;
}

interface Parent {
  id: string;
  hash: string | null;
  ended_at: number | null;
}

export class Appending {
  readonly #erasure: PostgresErasure;

  constructor(erasure: PostgresErasure) {
    this.#erasure = erasure;
  }

  /** Inside a transaction, as its last part. Sends `rows` along. The result has a refusal for each batch that was not written. */
  async append(transaction: Transaction, batches: readonly Batch[], rows: Rows): Promise<(RotundaError | undefined)[]> {
    const open = await openRows(transaction, batches);
    const changed = new Map<string, Changed>();
    const changes = await nodeRows(transaction, batches, open);
    const written: Batch[] = [];
    const refusals = batches.map((batch) => {
      const row = open.get(batch.responseId);
      const refusal = row?.fence === batch.fence ? tooLong(batch) : notOurs(batch.responseId);
      if (!row || refusal) return refusal ?? notOurs(batch.responseId);
      rows.addEvents(row.number, batch.events);
      rows.addEntries(row.number, batch.entries);
      rows.addOutputs(batch.responseId, batch.outputs);
      rows.addApprovals(batch.approvals);
      if (batch.node) {
        const known = changed.get(batch.responseId) ?? changes.get(batch.responseId);
        if (!known) throw new RotundaError("internal", `the row of ${batch.responseId} was not read`);
        changed.set(batch.responseId, change(known, batch.node));
        // Nothing more is written of what has ended.
        if (batch.node.endedAt) open.delete(batch.responseId);
      }
      written.push(batch);
      return undefined;
    });
    rows.send(transaction);
    if (changed.size > 0) await this.#change(transaction, [...changed.values()]);
    await spend(
      transaction,
      written.flatMap(({ responseId, spent = [] }) => spent.map((one) => ({ responseId, spent: one }))),
    );
    const audits: AuditEntry[] = written.flatMap((batch) => batch.audits);
    await appendAudits(transaction, audits);
    return refusals;
  }

  async #change(transaction: Transaction, changed: readonly Changed[]): Promise<void> {
    const ending = changed.filter(({ row }) => row.ended_at !== null);
    const [entries, parents, callers, subscriptions] = await around(transaction, changed, ending);
    for (const { row } of ending) {
      const { previous_response_id: parent } = row;
      const above = parent === null ? undefined : parents.get(parent);
      // Ended before its parent (it was cancelled in the queue): there is no hash yet that its own could stand on.
      const isSealed = parent === null || (above?.ended_at ?? null) !== null;
      row.hash = isSealed ? hashOf(row, entries.get(row.number) ?? [], above?.hash ?? null) : null;
      parents.set(row.id, row);
    }
    updateNodes(transaction, changed);
    unreserve(
      transaction,
      changed.flatMap(({ row, waits }) => (waits || row.ended_at !== null ? [row.id] : [])),
    );
    endBudgets(
      transaction,
      changed.flatMap(({ row }) => (row.ended_at === null ? [] : [row.id])),
    );
    countUsage(transaction, ending);
    for (const { row, node, waits } of changed) {
      const said = (entries.get(row.number) ?? []).some(({ side }) => side === 1);
      if (waits) await tellWaits(transaction, subscriptions, node);
      if (node.endedAt === null) continue;
      // A turn that failed with nothing said leaves the conversation where it was before.
      if (node.conversationId !== null && node.status === "failed" && !said) {
        const from = { from: node.id, to: node.previousResponseId, at: node.endedAt };
        await moveBack(transaction, node.conversationId, from);
      }
      await tellEnded(transaction, subscriptions, node, said);
      // Its caller was deleted while it ran.
      if (callers.has(row.caller_response_id ?? "")) await this.#erasure.deleteIn(transaction, row);
    }
  }
}

function notOurs(id: string): RotundaError {
  return new RotundaError("owned_elsewhere", `response ${id} is no longer run by this process`);
}

function tooLong({ events }: Batch): RotundaError | undefined {
  const last = events.at(-1)?.sequence_number ?? 0;
  return last >= PLACES ? new RotundaError("limit_reached", "a response can have no more events") : undefined;
}

async function openRows(transaction: Transaction, batches: readonly Batch[]): Promise<Map<string, OpenRow>> {
  if (batches.length === 0) return new Map();
  const rows = await transaction.all<OpenRow>(
    `SELECT id, number, fence FROM {responses} WHERE id = ANY($1) AND ended_at IS NULL
     ORDER BY number FOR NO KEY UPDATE`,
    [...new Set(batches.map(({ responseId }) => responseId))],
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** Of those responses whose node is changed. */
async function nodeRows(
  transaction: Transaction,
  batches: readonly Batch[],
  open: ReadonlyMap<string, OpenRow>,
): Promise<Map<string, Changed>> {
  const numbers = batches.flatMap(({ node, responseId }) => {
    const number = open.get(responseId)?.number;
    return node && number !== undefined ? [number] : [];
  });
  if (numbers.length === 0) return new Map();
  const sql = `SELECT ${NODE} FROM {responses} AS node WHERE number = ANY($1::bigint[])`;
  const rows = await transaction.all<NodeRow>(sql, [...new Set(numbers)]);
  return new Map(rows.map((row) => [row.id, { row, node: nodeOf(row), waits: false }]));
}

function change({ row, node, waits }: Changed, patch: Partial<ResponseNode>): Changed {
  const next = { ...node, ...patch };
  const begins = next.status === "waiting" && node.status !== "waiting";
  return {
    row: { ...row, status: next.status, body: bodyOf(next), ended_at: next.endedAt },
    node: next,
    waits: waits || (begins && next.endedAt === null),
  };
}

/** What an end depends on: its items, its parent, whether its caller was deleted, and who wants to hear of it. */
async function around(
  transaction: Transaction,
  changed: readonly Changed[],
  ending: readonly Changed[],
): Promise<[Map<number, EntryRow[]>, Map<string, Parent>, Set<string>, SubscriptionRow[]]> {
  const ids = (of: (row: NodeRow) => string | null) =>
    ending.flatMap(({ row }) => {
      const id = of(row);
      return id === null ? [] : [id];
    });
  const parents = ids((row) => row.previous_response_id);
  const callers = ids((row) => row.caller_response_id);
  const tells = ending.length > 0 || changed.some(({ waits }) => waits);
  const [entries, above, deleted, subscriptions] = await Promise.all([
    ending.length === 0
      ? new Map<number, EntryRow[]>()
      : entriesOf(
          transaction,
          ending.map(({ row }) => row.number),
        ),
    parents.length === 0
      ? []
      : transaction.all<Parent>("SELECT id, hash, ended_at FROM {responses} WHERE id = ANY($1)", parents),
    callers.length === 0
      ? []
      : transaction.all<{ id: string }>(
          "SELECT id FROM {responses} WHERE id = ANY($1) AND deleted_at IS NOT NULL",
          callers,
        ),
    tells ? subscriptionsIn(transaction) : [],
  ]);
  return [entries, new Map(above.map((row) => [row.id, row])), new Set(deleted.map(({ id }) => id)), subscriptions];
}

function updateNodes(transaction: Transaction, changed: readonly Changed[]): void {
  transaction.send(
    `UPDATE {responses} AS node SET status = made.status, body = made.body, ended_at = made.ended_at, hash = made.hash,
       tokens = made.tokens, cost = made.cost, process = CASE WHEN made.ended_at IS NULL THEN node.process END
     FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::float8[])
       AS made (number, status, body, ended_at, hash, tokens, cost) WHERE node.number = made.number`,
    changed.map(({ row }) => row.number),
    changed.map(({ row }) => row.status),
    changed.map(({ row }) => row.body),
    changed.map(({ row }) => row.ended_at),
    changed.map(({ row }) => row.hash),
    changed.map(({ node }) => node.usage.total_tokens),
    changed.map(({ node }) => node.usage.cost ?? 0),
  );
}

/** What responses of tokens have used, by the day (UTC) on which they end. Whoever holds the machine costs nothing here. */
function countUsage(transaction: Transaction, ending: readonly Changed[]): void {
  const sums = new Map<string, { owner: string; day: number; tokens: number; cost: number }>();
  for (const { node } of ending) {
    const { owner, endedAt } = node;
    const { total_tokens: tokens, cost = 0 } = node.usage;
    if (owner === LOCAL || endedAt === null || (tokens === 0 && cost === 0)) continue;
    const day = Math.floor(endedAt / DAY);
    const sum = sums.get(`${owner} ${day}`) ?? { owner, day, tokens: 0, cost: 0 };
    sums.set(`${owner} ${day}`, { owner, day, tokens: sum.tokens + tokens, cost: sum.cost + cost });
  }
  if (sums.size === 0) return;
  const rows = [...sums.entries()].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, sum]) => sum);
  transaction.send(
    `INSERT INTO {usage} AS known (owner, day, tokens, cost)
     SELECT * FROM unnest($1::text[], $2::int[], $3::bigint[], $4::float8[])
     ON CONFLICT (owner, day) DO UPDATE SET tokens = known.tokens + excluded.tokens, cost = known.cost + excluded.cost`,
    rows.map(({ owner }) => owner),
    rows.map(({ day }) => day),
    rows.map(({ tokens }) => tokens),
    rows.map(({ cost }) => cost),
  );
}
