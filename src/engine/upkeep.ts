/** Upkeep: what has to be done now and then. Invariant: it may be done by several processes at the same time. */
import type { Approver, Upkeep } from "../types/engine.ts";
import type { ResponseNode } from "../types/response.ts";
import type { BudgetGate } from "./budget.ts";
import type { History } from "./history.ts";
import { existingNode } from "./lookup.ts";
import type { EngineParts } from "./parts.ts";
import { prune } from "./retention.ts";
import { startDue, syncConfigured } from "./schedules.ts";

export interface UpkeepSupport {
  history: History;
  budgets: BudgetGate;
  /** Whether some process runs it. */
  runs(id: string): Promise<boolean>;
  resume(id: string, approver?: Approver): Promise<ResponseNode>;
}

export function createUpkeep(parts: EngineParts, { history, budgets, runs, resume }: UpkeepSupport): Upkeep {
  return {
    async goOnWithinBudget(id, approver) {
      const { status, error } = await existingNode(parts.store, id);
      if (status !== "waiting" || error?.code !== "budget_reached" || (await runs(id))) return undefined;
      if (error.budget !== undefined && !(await budgets.isFree(error.budget))) return undefined;
      return resume(id, approver);
    },
    startDue: (start) => startDue(parts.store, parts.now(), start),
    syncSchedules: (configured, workspace) => {
      const tell = (text: string) => parts.notify({ responseId: null, level: "error", topic: "engine", text });
      return syncConfigured(parts.store, configured, workspace, parts.now(), tell);
    },
    async prune(options) {
      const pruned = await prune(parts, options);
      history.forget();
      return pruned;
    },
  };
}
