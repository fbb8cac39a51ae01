/** What a configuration says about a budget. Invariant: what people set later beats it, and keeps its period. */
import type { App } from "../types/app.ts";
import type { BudgetConfig, BudgetHold, BudgetKey, BudgetLimits, BudgetPeriod } from "../types/budget.ts";

/**
 * What the configuration says about a key; the last word counts. "response" is each outermost one: without the id of that,
 * any.
 */
export function configured(
  budgets: readonly BudgetConfig[],
  key: BudgetKey,
  outermost: string | undefined,
): Pick<BudgetHold, "limits" | "period"> {
  const [kind = "", id] = key.split("/");
  const generic = kind !== "response" || outermost === undefined || id === outermost ? kind : undefined;
  const found = budgets.findLast((one) => one.for === key) ?? budgets.findLast((one) => one.for === generic);
  if (!found) return {};
  const { for: _for, per = "total", ...limits } = found;
  return { limits: limits satisfies BudgetLimits, period: per };
}

/** The period of the one that was set, else of what the configuration says; undefined: there is no such budget. */
export async function periodOf({ store, config }: App, key: BudgetKey, at: number): Promise<BudgetPeriod | undefined> {
  const [stored] = await store.budgets(at, { key });
  return stored?.set ? stored.period : configured(config.budgets ?? [], key, undefined).period;
}
