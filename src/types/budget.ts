/**
 * Budget: how much of something may be used by whom, over many responses. A response's own limits end it; a budget
 * makes it wait until the budget is raised or begins anew.
 *
 * Invariant: what a model call has used is counted in the transaction that stores its answer, once; what is under way is
 * reserved before it begins, so that calls beside each other go over a budget by at most one call each.
 */

/** Undefined: as much as is wished. */
export interface BudgetLimits {
  /** Input and output tokens. */
  tokens?: number;
  /** US dollars, as far as they are known (see `price` of a model). */
  cost?: number;
  /** Seconds that responses run; the time that they wait does not count. */
  seconds?: number;
  /** Sub-agents that are started. */
  agents?: number;
}

/** Days and months are those of UTC. "total": for ever. */
export type BudgetPeriod = "total" | "day" | "month";

export interface Spent {
  tokens: number;
  cost: number;
  seconds: number;
  agents: number;
}

/**
 * What a budget is for: "all"; "token/ID" (what an owner has begun), "profile/NAME", "model/ID"; "response/ID" (with its
 * sub-agents), "tree/ID" (everything below that root).
 */
export type BudgetKey = string;

export interface Budget {
  key: BudgetKey;
  limits: BudgetLimits;
  period: BudgetPeriod;
  /** Since `since`, milliseconds since the epoch. */
  spent: Spent;
  since: number;
  /** A person has set it; what the configuration says about the key does not count any more. */
  set: boolean;
}

/** One that a call falls under. */
export interface BudgetHold {
  key: BudgetKey;
  /** What the configuration says. Undefined: it counts only where somebody has set one. */
  limits?: BudgetLimits;
  period?: BudgetPeriod;
  /** Model calls at once, on all machines that share the database. */
  calls?: number;
}

export interface Reservation {
  responseId: string;
  holds: readonly BudgetHold[];
  /** What the call will use, about. */
  amount: Pick<Spent, "tokens" | "cost" | "agents">;
}

/**
 * "reserved": go. "reached": that budget is used up. "busy": what others have reserved stands in the way: try again when
 * one of them has settled.
 */
export type Reserved = { kind: "reserved" } | { kind: "reached"; budget: Budget } | { kind: "busy"; key: BudgetKey };

/** What was used, and the reservation that it settles. */
export interface Spending extends Spent {
  keys: readonly BudgetKey[];
  /** When, in milliseconds since the epoch: it counts in the period of that moment. */
  at: number;
}

/** As the configuration gives them. */
export interface BudgetConfig extends BudgetLimits {
  /** A key, or "response" and "tree": each of them has one of its own. */
  for: string;
  /** Default "total". */
  per?: BudgetPeriod;
}

/** What `for` can be. */
export const budgetFor = /^(?:all|(?:token|profile|model|response|tree)(?:\/.+)?)$/;

/** What one budget can be for. */
export const budgetKey = /^(?:all|(?:token|profile|model|response|tree)\/.+)$/;

export const noneSpent: Readonly<Spent> = { tokens: 0, cost: 0, seconds: 0, agents: 0 };

/** What of a budget is used up, for people: "$5.02 of $5 a day". Undefined: nothing. */
export function usedUp({ limits, spent, period }: Budget): string | undefined {
  const per = period === "total" ? "" : ` a ${period}`;
  const over = (name: keyof BudgetLimits) => limits[name] !== undefined && spent[name] >= (limits[name] ?? 0);
  if (over("cost")) return `$${round(spent.cost)} of $${limits.cost}${per}`;
  if (over("tokens")) return `${spent.tokens} of ${limits.tokens} tokens${per}`;
  if (over("seconds")) return `${Math.round(spent.seconds)} of ${limits.seconds} seconds${per}`;
  if (over("agents")) return `${spent.agents} of ${limits.agents} sub-agents${per}`;
  return undefined;
}

function round(dollars: number): number {
  return Number(dollars.toPrecision(4));
}

/** When its period began. Milliseconds since the epoch; "total": 0. */
export function periodStart(period: BudgetPeriod, at: number): number {
  const day = new Date(at);
  if (period === "day") return Date.UTC(day.getUTCFullYear(), day.getUTCMonth(), day.getUTCDate());
  if (period === "month") return Date.UTC(day.getUTCFullYear(), day.getUTCMonth(), 1);
  return 0;
}
