/** Which period a budget has now. Invariant: raising one does not change what it is counted over. */
import type { App } from "../types/app.ts";
import type { BudgetKey, BudgetPeriod } from "../types/budget.ts";

/** Of the one that was set, else of what the configuration says about the key; undefined: there is no such budget. */
export async function periodOf({ store, config }: App, key: BudgetKey, at: number): Promise<BudgetPeriod | undefined> {
  const [stored] = await store.budgets(at, { key });
  if (stored?.set) return stored.period;
  const [kind] = key.split("/");
  const all = config.budgets ?? [];
  const configured = all.findLast((one) => one.for === key) ?? all.findLast((one) => one.for === kind);
  return configured && (configured.per ?? "total");
}
