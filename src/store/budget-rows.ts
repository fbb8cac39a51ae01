/** Budgets as rows, on any database: how they stand at a moment, and with what others have reserved. */
import { type Budget, type BudgetLimits, type BudgetPeriod, periodStart } from "../types/budget.ts";

export interface BudgetRow {
  key: string;
  limits: string;
  period: BudgetPeriod;
  is_set: number;
  since: number;
  tokens: number;
  cost: number;
  seconds: number;
  agents: number;
}

/** What is reserved of a budget. */
export interface Held {
  calls: number;
  tokens: number;
  cost: number;
  agents: number;
}

/** Budgets that are listed at most, unless told otherwise. */
export const LISTED = 1_000;

/** SQL: true for what may be as many as there are responses. */
export const SINGLE = "(key LIKE 'tree/%' OR key LIKE 'response/%')";

/** Milliseconds that the clocks of two machines differ at most. */
const SKEW = 3_600_000;

/** As it stands now: one whose period has passed begins anew, as does one that a wrong clock has put into the future. */
export function current(row: BudgetRow, now: number): Budget {
  const { key, period } = row;
  const start = periodStart(period, now);
  const passed = start > row.since || row.since > now + SKEW;
  const { tokens, cost, seconds, agents } = row;
  return {
    key,
    period,
    limits: JSON.parse(row.limits) as BudgetLimits,
    set: row.is_set === 1,
    since: passed ? start : row.since,
    spent: passed ? { tokens: 0, cost: 0, seconds: 0, agents: 0 } : { tokens, cost, seconds, agents },
  };
}

export function sumOf(held: readonly Held[]): Held {
  const sum = { calls: 0, tokens: 0, cost: 0, agents: 0 };
  for (const { calls, tokens, cost, agents } of held) {
    sum.calls += calls;
    sum.tokens += tokens;
    sum.cost += cost;
    sum.agents += agents;
  }
  return sum;
}

export function withHeld(budget: Budget, held: Held): Budget {
  const { tokens, cost, seconds, agents } = budget.spent;
  return {
    ...budget,
    spent: { tokens: tokens + held.tokens, cost: cost + held.cost, seconds, agents: agents + held.agents },
  };
}
