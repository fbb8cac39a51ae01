/**
 * Budgets and what is reserved of them.
 *
 * Invariant: what was used is added in the transaction that stores what it was used for; a reservation is of one
 * response, and gone when that response settles it, reserves anew, waits or ends; while nobody runs that, it does not count.
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
import { type BudgetRow, current, type Held, LISTED, SINGLE, sumOf, withHeld } from "./budget-rows.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { type HeldRow, isFree } from "./sqlite-open-responses.ts";
import { Schedules } from "./sqlite-schedules.ts";

/** The base of `Records`: its methods are the store's. */
export class Budgets extends Schedules {
  readonly #db: SqliteDatabase;

  constructor(db: SqliteDatabase) {
    super(db);
    this.#db = db;
  }

  async budgets(now: number, { key, limit = LISTED }: { key?: BudgetKey; limit?: number } = {}): Promise<Budget[]> {
    const rows =
      key === undefined
        ? this.#db.all<BudgetRow>(`SELECT * FROM budgets ORDER BY ${SINGLE}, key LIMIT ?`, limit)
        : this.#db.all<BudgetRow>("SELECT * FROM budgets WHERE key = ?", key);
    return rows.map((row) => current(row, now));
  }

  saveBudget(key: BudgetKey, limits: BudgetLimits, period: BudgetPeriod, now: number): Promise<void> {
    return this.#db.write(() => {
      const since = periodStart(period, now);
      this.#db.run(
        `INSERT INTO budgets (key, limits, period, is_set, since, tokens, cost, seconds, agents)
         VALUES (?, ?, ?, 1, ?, 0, 0, 0, 0)
         ON CONFLICT DO UPDATE SET limits = excluded.limits, period = excluded.period, is_set = 1,
           since = CASE WHEN period = excluded.period THEN since ELSE excluded.since END`,
        key,
        JSON.stringify(limits),
        period,
        since,
      );
    });
  }

  removeBudget(key: BudgetKey): Promise<boolean> {
    return this.#db.write(() => this.#db.run("DELETE FROM budgets WHERE key = ?", key) > 0);
  }

  reserve({ responseId, holds, amount }: Reservation, now: number): Promise<Reserved> {
    return this.#db.write((): Reserved => {
      for (const hold of holds) {
        const budget = this.#budgetOf(hold, now);
        if (budget && usedUp(budget)) return { kind: "reached", budget };
        const others = this.#heldByOthers(hold.key, responseId);
        if (hold.calls !== undefined && others.calls >= hold.calls) return { kind: "busy", key: hold.key };
        if (budget && others.calls > 0 && usedUp(withHeld(budget, others))) return { kind: "busy", key: hold.key };
      }
      this.#db.run("DELETE FROM reservations WHERE response_id = ?", responseId);
      for (const { key } of holds) {
        this.#db.run(
          "INSERT INTO reservations (key, response_id, tokens, cost, agents) VALUES (?, ?, ?, ?, ?)",
          key,
          responseId,
          amount.tokens,
          amount.cost,
          amount.agents,
        );
      }
      return { kind: "reserved" };
    });
  }

  /** Made where the configuration names one that was never met. */
  #budgetOf({ key, limits, period = "total" }: BudgetHold, now: number): Budget | undefined {
    const row = this.#row(key);
    if (row) {
      const stored = current(row, now);
      if (row.is_set === 1) return stored;
      // It stands in the configuration no more.
      if (!limits) return undefined;
      const text = JSON.stringify(limits);
      const since = period === row.period ? stored.since : periodStart(period, now);
      if (text !== row.limits || period !== row.period)
        this.#db.run("UPDATE budgets SET limits = ?, period = ?, since = ? WHERE key = ?", text, period, since, key);
      return { ...stored, limits, period, since };
    }
    if (!limits) return undefined;
    const since = periodStart(period, now);
    const text = JSON.stringify(limits);
    this.#db.run(
      `INSERT INTO budgets (key, limits, period, is_set, since, tokens, cost, seconds, agents)
       VALUES (?, ?, ?, 0, ?, 0, 0, 0, 0)`,
      key,
      text,
      period,
      since,
    );
    const made = this.#row(key);
    return made && current(made, now);
  }

  #row(key: BudgetKey): BudgetRow | undefined {
    return this.#db.one<BudgetRow>("SELECT * FROM budgets WHERE key = ?", key);
  }

  #heldByOthers(key: BudgetKey, responseId: string): Held {
    const rows = this.#db.all<Held & HeldRow>(
      `SELECT process, max(lease_until) AS lease_until, count(*) AS calls, total(tokens) AS tokens, total(cost) AS cost,
         total(agents) AS agents
       FROM reservations JOIN responses ON responses.id = response_id
       WHERE key = ? AND response_id <> ? AND ended_at IS NULL GROUP BY process`,
      key,
      responseId,
    );
    return sumOf(rows.filter((row) => !isFree(row)));
  }

  /** Inside a transaction: nobody makes a call for that response any more. */
  protected unreserve(responseId: string): void {
    this.#db.run("DELETE FROM reservations WHERE response_id = ?", responseId);
  }

  /** Inside a transaction: with a response, the budget that was its own has ended. */
  protected endBudget(responseId: string): void {
    this.#db.run("DELETE FROM budgets WHERE key = ?", `response/${responseId}`);
  }

  /** Inside a transaction: what was used counts, and nothing is reserved for that response any more. */
  protected spend(responseId: string, { keys, tokens, cost, seconds, agents, at }: Spending): void {
    this.unreserve(responseId);
    for (const key of keys) {
      const row = this.#row(key);
      if (!row) continue;
      const { since, spent } = current(row, at);
      this.#db.run(
        "UPDATE budgets SET since = ?, tokens = ?, cost = ?, seconds = ?, agents = ? WHERE key = ?",
        since,
        spent.tokens + tokens,
        spent.cost + cost,
        spent.seconds + seconds,
        spent.agents + agents,
        key,
      );
    }
  }

  async usedBelow(id: string): Promise<{ responses: number; tokens: number; cost: number }> {
    const row = this.#db.one<{ responses: number; tokens: number; cost: number }>(
      `WITH RECURSIVE below (id) AS (
         SELECT ?
         UNION SELECT responses.id FROM below JOIN responses ON previous_response_id = below.id
         UNION SELECT responses.id FROM below JOIN responses ON caller_response_id = below.id)
       SELECT count(*) AS responses, total(json_extract(body, '$.usage[2]')) AS tokens,
         total(json_extract(body, '$.usage[5]')) AS cost
       FROM below JOIN responses USING (id) WHERE body <> ''`,
      id,
    );
    return row ?? { responses: 0, tokens: 0, cost: 0 };
  }
}
