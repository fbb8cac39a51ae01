/**
 * Offers `recall` once something of the path was summed up.
 *
 * Invariant: a function of the offer and of the stored items; it stands at the end, so the tools before it keep their
 * place in a prompt cache. Where no tool is offered at all, this one is not either.
 */
import type { HistoryNode, ToolDefinition } from "../types/model.ts";
import type { Tool } from "../types/tool.ts";
import { RECALL, recallTool } from "../util/recall.ts";
import { hasCompaction } from "./compacted.ts";
import type { Run } from "./run.ts";

interface Offered {
  tools: readonly Tool[];
  offered: ReadonlyMap<string, Tool>;
  definitions: readonly ToolDefinition[];
}

const made = new WeakMap<Offered, Offered>();

export function withRecall<Offer extends Offered>(offer: Offer, above: readonly HistoryNode[], run: Run): Offer {
  if (offer.tools.length === 0) return offer;
  // Places of a run's output may be empty for a moment.
  const needed = run.output.some((entry) => entry?.meta.compaction) || above.some(hasCompaction);
  if (!needed || offer.definitions.some(({ name }) => name === RECALL)) return offer;
  let wider = made.get(offer);
  if (!wider) {
    const { name, description, input } = recallTool;
    wider = {
      tools: [...offer.tools, recallTool],
      offered: new Map([...offer.offered, [RECALL, recallTool]]),
      definitions: [...offer.definitions, { name, description, input }],
    };
    made.set(offer, wider);
  }
  return { ...offer, ...wider };
}
