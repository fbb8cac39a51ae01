/** Turns: who stands behind whom. Invariant: an end says only of those that had their turn that nothing above runs. */
import type { ResponseNode } from "../types/response.ts";

/** Whether it may have ended while it was queued: what it stood behind may then run still. */
export function mayHaveSkippedItsTurn({ status, incompleteReason }: ResponseNode): boolean {
  return status === "cancelled" || incompleteReason === "interrupted";
}
