/**
 * Agent calls of a response whose agent is gone: settled without being run.
 *
 * Invariant: what had started is "outcome unknown"; what waits for a person waits on; what a person has answered in
 * the meantime is told to the agent, which makes the call again.
 */
import type { Profile } from "../types/profile.ts";
import { ALLOWED_LATER, callAt } from "./agent-judge.ts";
import { approvalWay, type CallSupport, INTERRUPTED, putAnswer, settle } from "./call-tools.ts";
import { answeredApprovals, type CallEntry, isCall, isSettled } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import { deniedText } from "./prepare.ts";
import type { Run } from "./run.ts";

/** Calls of earlier steps that a crash has left open. To be called before the response goes on. */
export function settleLost(run: Run): void {
  const last = run.output.reduce((highest, entry) => Math.max(highest, entry.turn), 0);
  for (const entry of run.output) {
    if (entry && entry.turn < last && isCall(entry) && entry.meta.agent && !isSettled(entry.item)) {
      settle(run, entry, "incomplete", INTERRUPTED);
    }
  }
}

/** "waiting": a person must answer first. */
export async function settleAgentCalls(
  parts: EngineParts,
  run: Run,
  calls: readonly CallEntry[],
  support: Pick<CallSupport, "askPerson"> & { profile: Profile },
): Promise<"done" | "waiting"> {
  let waiting = false;
  for (const { position } of calls) {
    if (run.stopped) break;
    const entry = callAt(run, position);
    if (!entry || isSettled(entry.item)) continue;
    const request = entry.item.approval_request_id;
    if (entry.item.status === "calling" || request === null) {
      settle(run, entry, "incomplete", INTERRUPTED);
      continue;
    }
    const recorded = answeredApprovals([...run.input, ...run.output]).get(request);
    const approval = await parts.store.approval(request);
    if (recorded === undefined && approval) {
      const way = approvalWay(run, support.profile);
      const decision = await support.askPerson(run, approval, way === "wait");
      if (!decision) {
        waiting = true;
        continue;
      }
      putAnswer(run, entry.turn, request, decision);
      settleAnswered(run, entry, decision.decision === "allow", decision.reason ?? null);
    } else settleAnswered(run, entry, recorded === true, reasonOf(run, request));
  }
  return waiting ? "waiting" : "done";
}

function settleAnswered(run: Run, entry: CallEntry, allowed: boolean, reason: string | null): void {
  settle(run, entry, "incomplete", allowed ? ALLOWED_LATER : deniedText(reason ?? "no reason was given"));
}

function reasonOf(run: Run, request: string): string | null {
  for (const { item } of [...run.input, ...run.output]) {
    if (item.type === "mcp_approval_response" && item.approval_request_id === request) return item.reason;
  }
  return null;
}
