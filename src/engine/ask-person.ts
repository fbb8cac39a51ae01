/**
 * Ask person: puts an approval to whoever is at hand in this process, and hears the answer wherever it is given.
 *
 * Invariant: the first answer wins, here or in another process; while a person is asked, neither the response nor the
 * callers above it spend time.
 */
import type { Approval, Decision } from "../types/approval.ts";
import type { Store } from "../types/store.ts";
import { decisionOf } from "./decide.ts";
import type { Run } from "./run.ts";

export interface Desk {
  store: Store;
  runs: ReadonlyMap<string, Run>;
  /** Resolves with the answer to an approval, given anywhere; undefined when the signal ends the wait. */
  settled(approvalId: string, signal: AbortSignal): Promise<Approval | undefined>;
  decide(approvalId: string, decision: Decision): Promise<Approval>;
}

/** Undefined: nobody is at hand, or nobody is waited for. */
export async function askPerson(
  desk: Desk,
  run: Run,
  approval: Approval,
  wait: boolean,
  until: AbortSignal = run.signal,
): Promise<Decision | undefined> {
  const { store } = desk;
  const settled = decisionOf(await store.approval(approval.id));
  const { approver } = run;
  if (settled || !approver || !wait) return settled;
  const line = lineOf(desk, run);
  for (const one of line) one.stopwatch.pause();
  run.patch({ status: "waiting" });
  const aside = new AbortController();
  const signal = AbortSignal.any([until, aside.signal]);
  try {
    // Whoever answers first, here or in another process, is in the store; an approver that fails is nobody.
    const person = (async () => desk.decide(approval.id, await approver(approval, signal)))().catch(() => undefined);
    await Promise.race([desk.settled(approval.id, signal), person]);
  } finally {
    aside.abort();
    for (const one of line) one.stopwatch.resume();
  }
  run.patch({ status: "in_progress" });
  return decisionOf(await store.approval(approval.id));
}

/** The run and the callers above it. */
function lineOf(desk: Desk, run: Run): Run[] {
  const above = run.node.caller && desk.runs.get(run.node.caller.responseId);
  return above ? [run, ...lineOf(desk, above)] : [run];
}
