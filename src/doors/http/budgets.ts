/**
 * Budgets over HTTP.
 *
 * Invariant: whoever raises one lets what waits for it go on, here, in the same request.
 */

import type { BudgetKey } from "../../types/budget.ts";
import { RotundaError } from "../../types/error.ts";
import { periodOf } from "../../util/configured-budget.ts";
import { rootOf } from "../../util/outermost.ts";
import type { BudgetToSet } from "./budgets-schemas.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import { goOnWithinBudgets } from "./go-on.ts";
import type { Handler } from "./routes.ts";

export const listBudgets: Handler = async (context) => {
  const all = await context.app.store.budgets(Date.now());
  const data = all.map(({ key, period, limits, spent, since, set }) => {
    return { object: "budget", for: key, per: period, limits, spent, since, set };
  });
  context.json(200, { object: "list", data });
};

export const setBudget: Handler<BudgetToSet> = async (context, body) => {
  const { for: named, per: wanted, ...limits } = body;
  const { app, identity } = context;
  const key = await keyOf(context, named);
  const at = Date.now();
  const per = wanted ?? (await periodOf(app, key, at)) ?? "total";
  await app.store.saveBudget(key, withoutUndefined(limits), per, at);
  const details = { budget: key, per, ...withoutUndefined(limits) };
  await app.store.audit({ action: "settings", who: identity.owner, door: "http", responseId: null, at, details });
  const resumed = await goOnWithinBudgets(context.services);
  context.json(200, { object: "budget", for: key, per, limits: withoutUndefined(limits), resumed });
};

/** Any response of a tree names it. Throws `not_found`. */
async function keyOf({ app }: RequestContext, named: string): Promise<BudgetKey> {
  const [, kind, id = ""] = /^(tree|response)\/(.+)$/.exec(named) ?? [];
  if (kind === undefined) return named;
  if (!(await app.store.node(id))) throw new RotundaError("not_found", `there is no response ${id}`);
  return kind === "tree" ? `tree/${await rootOf(app, id)}` : named;
}

function withoutUndefined(limits: Omit<BudgetToSet, "for" | "per">): Record<string, number> {
  return Object.fromEntries(Object.entries(limits).filter((pair): pair is [string, number] => pair[1] !== undefined));
}

export const removeBudget: Handler = async (context) => {
  const named = context.query.get("for");
  if (!named) throw new DoorError("usage", "for says which budget.", { param: "for" });
  // What it was for may be gone.
  const key = await keyOf(context, named).catch(() => named);
  if (!(await context.app.store.removeBudget(key))) throw new RotundaError("not_found", "there is no such budget");
  const resumed = await goOnWithinBudgets(context.services);
  context.json(200, { object: "budget.deleted", for: key, deleted: true, resumed });
};
