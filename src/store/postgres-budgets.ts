/**
 * Budgets on Postgres, and what is reserved of them.
 *
 * Invariant: what was used is added in the transaction that stores what it was used for; reservations of one budget are
 * made one after the other, whichever machine they come from.
 */
import {
  type Budget,
  type BudgetHold,
  type BudgetKey,
  type BudgetLimits,
  type BudgetPeriod,
  periodStart,
  type Reservation,
  type Reserved,
  type Spending,
  usedUp,
} from "../types/budget.ts";
import { type BudgetRow, current, type Held, LISTED, SINGLE, withHeld } from "./budget-rows.ts";
import type { Reader, Transaction } from "./postgres-database.ts";

export async function listBudgets(
  reader: Reader,
  now: number,
  { key, limit = LISTED }: { key?: BudgetKey; limit?: number } = {},
): Promise<Budget[]> {
  const rows =
    key === undefined
      ? await reader.all<BudgetRow>(`SELECT * FROM {budgets} ORDER BY ${SINGLE}, key LIMIT $1`, limit)
      : await reader.all<BudgetRow>("SELECT * FROM {budgets} WHERE key = $1", key);
  return rows.map((row) => current(row, now));
}

export async function usedBelow(
  reader: Reader,
  id: string,
): Promise<{ responses: number; tokens: number; cost: number }> {
  const sum = await reader.one<{ responses: number; tokens: number; cost: number }>(
    `WITH RECURSIVE below (id) AS (
       SELECT $1::text COLLATE "C"
       UNION SELECT node.id FROM below JOIN {responses} AS node
         ON node.previous_response_id = below.id OR node.caller_response_id = below.id)
     SELECT count(*) AS responses, coalesce(sum(node.tokens), 0)::float8 AS tokens,
       coalesce(sum(node.cost), 0)::float8 AS cost
     FROM below JOIN {responses} AS node USING (id) WHERE node.body <> ''`,
    id,
  );
  return sum ?? { responses: 0, tokens: 0, cost: 0 };
}

// ---- inside a transaction

export function saveBudget(
  transaction: Transaction,
  key: BudgetKey,
  limits: BudgetLimits,
  period: BudgetPeriod,
  now: number,
): void {
  transaction.send(
    `INSERT INTO {budgets} AS known (key, limits, period, is_set, since, tokens, cost, seconds, agents)
     VALUES ($1, $2, $3, 1, $4, 0, 0, 0, 0)
     ON CONFLICT (key) DO UPDATE SET limits = excluded.limits, period = excluded.period, is_set = 1,
       since = CASE WHEN known.period = excluded.period THEN known.since ELSE excluded.since END`,
    key,
    JSON.stringify(limits),
    period,
    periodStart(period, now),
  );
}

/** The transaction holds the locks of the keys (`Transaction.lock`). */
export async function reserve(
  transaction: Transaction,
  { responseId, holds, amount }: Reservation,
  now: number,
): Promise<Reserved> {
  const keys = holds.map(({ key }) => key);
  // Reservations first: one that is settled in between counts twice then, and is waited for, but never not at all.
  const [held, rows] = await Promise.all([
    transaction.all<Held & { key: string }>(
      `SELECT key, count(*) AS calls, sum(reserved.tokens) AS tokens, sum(reserved.cost) AS cost,
         sum(reserved.agents) AS agents
       FROM {reservations} AS reserved JOIN {responses} AS node ON node.id = reserved.response_id
         JOIN {processes} AS held ON held.name = node.process
       WHERE key = ANY($1) AND node.id <> $2 AND node.ended_at IS NULL AND held.until > clock_timestamp() GROUP BY key`,
      keys,
      responseId,
    ),
    transaction.all<BudgetRow>("SELECT * FROM {budgets} WHERE key = ANY($1)", keys),
  ]);
  for (const hold of holds) {
    const budget = budgetOf(
      transaction,
      hold,
      rows.find(({ key }) => key === hold.key),
      now,
    );
    if (budget && usedUp(budget)) return { kind: "reached", budget };
    const others = held.find(({ key }) => key === hold.key) ?? { calls: 0, tokens: 0, cost: 0, agents: 0 };
    if (hold.calls !== undefined && others.calls >= hold.calls) return { kind: "busy", key: hold.key };
    if (budget && others.calls > 0 && usedUp(withHeld(budget, others))) return { kind: "busy", key: hold.key };
  }
  transaction.send("DELETE FROM {reservations} WHERE response_id = $1", responseId);
  transaction.send(
    `INSERT INTO {reservations} (key, response_id, tokens, cost, agents)
     SELECT key, $2, $3, $4, $5 FROM unnest($1::text[]) AS key`,
    keys,
    responseId,
    amount.tokens,
    amount.cost,
    amount.agents,
  );
  return { kind: "reserved" };
}

/** Made where the configuration names one that was never met. */
function budgetOf(
  transaction: Transaction,
  { key, limits, period = "total" }: BudgetHold,
  row: BudgetRow | undefined,
  now: number,
): Budget | undefined {
  if (row) {
    const stored = current(row, now);
    if (row.is_set === 1) return stored;
    // It stands in the configuration no more.
    if (!limits) return undefined;
    const text = JSON.stringify(limits);
    const since = period === row.period ? stored.since : periodStart(period, now);
    if (text !== row.limits || period !== row.period) {
      const sql = "UPDATE {budgets} SET limits = $1, period = $2, since = $3 WHERE key = $4";
      transaction.send(sql, text, period, since, key);
    }
    return { ...stored, limits, period, since };
  }
  if (!limits) return undefined;
  const made = { key, period, is_set: 0, tokens: 0, cost: 0, seconds: 0, agents: 0, since: periodStart(period, now) };
  const text = JSON.stringify(limits);
  transaction.send(
    `INSERT INTO {budgets} (key, limits, period, is_set, since, tokens, cost, seconds, agents)
     VALUES ($1, $2, $3, 0, $4, 0, 0, 0, 0) ON CONFLICT (key) DO NOTHING`,
    key,
    text,
    period,
    made.since,
  );
  return current({ ...made, limits: text }, now);
}

/** Nobody makes a call for those responses any more. */
export function unreserve(transaction: Transaction, responseIds: readonly string[]): void {
  if (responseIds.length === 0) return;
  transaction.send("DELETE FROM {reservations} WHERE response_id = ANY($1)", responseIds);
}

/** With responses, the budgets that were their own have ended. */
export function endBudgets(transaction: Transaction, responseIds: readonly string[]): void {
  if (responseIds.length === 0) return;
  transaction.send(
    "DELETE FROM {budgets} WHERE key = ANY($1)",
    responseIds.map((id) => `response/${id}`),
  );
}

/** What was used counts, and nothing is reserved for those responses any more. */
export async function spend(
  transaction: Transaction,
  spendings: readonly { responseId: string; spent: Spending }[],
): Promise<void> {
  if (spendings.length === 0) return;
  unreserve(
    transaction,
    spendings.map(({ responseId }) => responseId),
  );
  const keys = [...new Set(spendings.flatMap(({ spent }) => spent.keys))].sort();
  const rows = await transaction.all<BudgetRow>(
    "SELECT * FROM {budgets} WHERE key = ANY($1) ORDER BY key FOR NO KEY UPDATE",
    keys,
  );
  const at = Math.max(...spendings.map(({ spent }) => spent.at));
  const sums = rows.map((row) => {
    const { since, spent: before } = current(row, at);
    const added = spendings.filter(({ spent }) => spent.keys.includes(row.key)).map(({ spent }) => spent);
    const sum = (of: (spent: Spending) => number, start: number) =>
      added.reduce((total, spent) => total + of(spent), start);
    return {
      key: row.key,
      since,
      tokens: sum(({ tokens }) => tokens, before.tokens),
      cost: sum(({ cost }) => cost, before.cost),
      seconds: sum(({ seconds }) => seconds, before.seconds),
      agents: sum(({ agents }) => agents, before.agents),
    };
  });
  if (sums.length === 0) return;
  transaction.send(
    `UPDATE {budgets} AS budget SET since = made.since, tokens = made.tokens, cost = made.cost, seconds = made.seconds,
       agents = made.agents
     FROM unnest($1::text[], $2::bigint[], $3::float8[], $4::float8[], $5::float8[], $6::float8[])
       AS made (key, since, tokens, cost, seconds, agents) WHERE budget.key = made.key`,
    sums.map(({ key }) => key),
    sums.map(({ since }) => since),
    sums.map(({ tokens }) => tokens),
    sums.map(({ cost }) => cost),
    sums.map(({ seconds }) => seconds),
    sums.map(({ agents }) => agents),
  );
}
