/** Upkeep: what has to be done now and then. Invariant: it may be done by several processes at the same time. */
import type { Upkeep } from "../types/engine.ts";
import type { History } from "./history.ts";
import type { EngineParts } from "./parts.ts";
import { prune } from "./retention.ts";
import { startDue, syncConfigured } from "./schedules.ts";

export function createUpkeep(parts: EngineParts, history: History): Upkeep {
  return {
    startDue: (start) => startDue(parts.store, parts.now(), start),
    syncSchedules: (configured, workspace) => syncConfigured(parts.store, configured, workspace, parts.now()),
    async prune(options) {
      const pruned = await prune(parts, options);
      history.forget();
      return pruned;
    },
  };
}
