/**
 * The outbox on Postgres: what becomes of outermost responses, for those who want to be told.
 *
 * Invariant: an event is written in the transaction of the change that it tells of; each question of a response is told
 * once; a row that was taken is nobody else's for a while, or until the process that took it is dead.
 */
import type { Delivery, OutboxEvent, OutboxEventType, Subscription } from "../types/outbox.ts";
import type { ResponseNode } from "../types/response.ts";
import { processState } from "../util/process-name.ts";
import { LIFE, MOST, type OutboxRow, outboxEvent, type SubscriptionRow, TAKEN, targetsOf } from "./outbox-rows.ts";
import type { Reader, Transaction } from "./postgres-database.ts";
import { NODE } from "./postgres-tree.ts";
import { type NodeRow, nodeOf } from "./rows.ts";

// ---- inside the transaction of a change

export function subscriptionsIn(transaction: Transaction): Promise<SubscriptionRow[]> {
  return transaction.all("SELECT target, events FROM {subscriptions} WHERE until > $1", Date.now());
}

/** A response has ended. `said`: it has output. */
export async function tellEnded(
  transaction: Transaction,
  subscriptions: readonly SubscriptionRow[],
  node: ResponseNode,
  said: boolean,
): Promise<void> {
  const type = `response.${node.status}` as OutboxEventType;
  const targets = targetsOf(type, subscriptions);
  // Items that somebody brought along: nothing ran, so nothing is told.
  const isRecord = node.status === "completed" && !said;
  if (targets.length === 0 || node.caller !== null || isRecord) return;
  tell(transaction, targets, outboxEvent(type, node, await asked(transaction, node.id, false)));
}

/** A response, or a sub-agent's below it, has begun to wait for a person. */
export async function tellWaits(
  transaction: Transaction,
  subscriptions: readonly SubscriptionRow[],
  node: ResponseNode,
): Promise<void> {
  const targets = targetsOf("response.waiting", subscriptions);
  if (targets.length === 0) return;
  const untold = await asked(transaction, node.id, true);
  if (untold.length === 0) return;
  const mark = "UPDATE {approvals} SET told = 1 WHERE response_id = $1 AND status = 'pending'";
  transaction.send(mark, node.id);
  tell(transaction, targets, outboxEvent("response.waiting", await outermost(transaction, node), untold));
}

async function asked(
  transaction: Transaction,
  responseId: string,
  untold: boolean,
): Promise<{ id: string; responseId: string; tool: string }[]> {
  const sql = `SELECT id, body FROM {approvals} WHERE response_id = $1 AND status = 'pending' AND (told = 0 OR $2) ORDER BY id`;
  const rows = await transaction.all<{ id: string; body: string }>(sql, responseId, !untold);
  return rows.map(({ id, body }) => ({ id, responseId, tool: (JSON.parse(body) as { tool: string }).tool }));
}

async function outermost(transaction: Transaction, node: ResponseNode): Promise<ResponseNode> {
  const sql = `SELECT ${NODE} FROM {responses} AS node WHERE id = $1 AND deleted_at IS NULL`;
  const caller = node.caller && (await transaction.one<NodeRow>(sql, node.caller.responseId));
  return caller ? outermost(transaction, nodeOf(caller)) : node;
}

function tell(transaction: Transaction, targets: readonly string[], event: OutboxEvent): void {
  transaction.send(
    `INSERT INTO {outbox} (target, due, attempts, created_at, body)
     SELECT target, $2, 0, $2, $3 FROM unnest($1::text[]) AS target`,
    targets,
    event.at,
    JSON.stringify(event),
  );
}

// ---- those who deliver

/** Inside a transaction. In force until a moment (milliseconds since the epoch). */
export async function subscribe(
  transaction: Transaction,
  subscriptions: readonly Subscription[],
  until: number,
): Promise<void> {
  const now = Date.now();
  const sorted = subscriptions.toSorted((one, other) => (one.target < other.target ? -1 : 1));
  for (const { target, events } of sorted) {
    transaction.send(
      `INSERT INTO {subscriptions} (target, events, until) VALUES ($1, $2, $3)
       ON CONFLICT (target) DO UPDATE SET events = excluded.events, until = excluded.until`,
      target,
      events && JSON.stringify(events),
      until,
    );
  }
  transaction.send("DELETE FROM {subscriptions} WHERE until <= $1", now);
  const taken = "SELECT DISTINCT process FROM {outbox} WHERE process IS NOT NULL";
  for (const { process } of await transaction.all<{ process: string }>(taken)) {
    if (processState(process) !== "dead") continue;
    transaction.send("UPDATE {outbox} SET process = NULL, due = $1 WHERE process = $2", now, process);
  }
  transaction.send("DELETE FROM {outbox} WHERE created_at <= $1", now - LIFE);
  for (const { target } of sorted) {
    transaction.send(
      `DELETE FROM {outbox} WHERE target = $1 AND sequence <=
         (SELECT sequence FROM {outbox} WHERE target = $1 ORDER BY sequence DESC LIMIT 1 OFFSET $2)`,
      target,
      MOST,
    );
  }
}

export async function isAnythingDue(reader: Reader, target: string): Promise<boolean> {
  const sql = "SELECT 1 AS due FROM {outbox} WHERE target = $1 AND due <= $2 LIMIT 1";
  return (await reader.one(sql, target, Date.now())) !== undefined;
}

/** Inside a transaction. */
export async function take(
  transaction: Transaction,
  target: string,
  limit: number,
  process: string,
): Promise<Delivery[]> {
  const now = Date.now();
  // What another process is taking at this moment is not waited for.
  const rows = await transaction.all<OutboxRow & { was_due: number }>(
    `WITH taken AS (SELECT sequence, due FROM {outbox} WHERE target = $1 AND due <= $2 ORDER BY due, sequence LIMIT $3
       FOR UPDATE SKIP LOCKED)
     UPDATE {outbox} AS row SET process = $4, due = $5 FROM taken WHERE row.sequence = taken.sequence
     RETURNING row.sequence, row.target, row.attempts, row.body, taken.due AS was_due`,
    target,
    now,
    limit,
    process,
    now + TAKEN,
  );
  rows.sort((one, other) => one.was_due - other.was_due || one.sequence - other.sequence);
  return rows.map(({ body, was_due: _due, ...row }) => ({ ...row, event: JSON.parse(body) as OutboxEvent }));
}

/** Inside a transaction. `again`: when it is tried next, in milliseconds since the epoch; null: it is over. */
export function settle(
  transaction: Transaction,
  { sequence, attempts }: Pick<Delivery, "sequence" | "attempts">,
  again: number | null,
): void {
  if (again === null) transaction.send("DELETE FROM {outbox} WHERE sequence = $1", sequence);
  else {
    const sql = "UPDATE {outbox} SET process = NULL, due = $1, attempts = $2 WHERE sequence = $3";
    transaction.send(sql, again, attempts, sequence);
  }
}
