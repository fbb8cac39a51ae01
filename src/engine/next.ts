/**
 * What a run does next: a pure function of what is stored.
 *
 * Invariant: nothing but the stored items, the limits and the time already spent decides. Starting,
 * resuming and recovering are therefore the same call.
 */
import type { Entry, McpCallItem } from "../types/item.ts";
import type { EndedStatus, IncompleteReason, Limits, ResponseError } from "../types/response.ts";

export interface CallEntry extends Entry {
  item: McpCallItem;
}

export interface RunView {
  output: readonly Entry[];
  limits: Limits;
  /** Without the time spent waiting for a person. */
  seconds: number;
  tokens: number;
}

export type Step =
  | { kind: "ask"; turn: number; final?: IncompleteReason; nudge?: boolean }
  | { kind: "call"; turn: number; calls: CallEntry[] }
  | { kind: "wait"; turn: number; calls: CallEntry[] }
  | { kind: "end"; status: EndedStatus; reason?: IncompleteReason; error?: ResponseError };

export function isCall(entry: Entry): entry is CallEntry {
  return entry.item.type === "mcp_call";
}

export function isSettled(item: McpCallItem): boolean {
  return item.status === "completed" || item.status === "failed" || item.status === "incomplete";
}

export function next(view: RunView): Step {
  const turn = view.output.reduce((highest, entry) => Math.max(highest, entry.turn), 0);
  const entries = view.output.filter((entry) => entry.turn === turn);
  const finish = entries.find((entry) => entry.meta.finish !== undefined);
  // No answer yet, or the last one was cut by a crash: ask. What was cut is not part of the prompt.
  if (!finish) return askUnlessSpent(view, turn + 1);
  const { finish: reason, final } = finish.meta;
  if (final) return { kind: "end", status: "incomplete", reason: final };
  if (reason === "length") return { kind: "end", status: "incomplete", reason: "max_output_tokens" };
  if (reason === "content_filter") return { kind: "end", status: "incomplete", reason: "content_filter" };
  if (reason === "other") return { kind: "end", status: "completed" };

  const calls = entries.filter(isCall);
  const open = calls.filter((call) => !isSettled(call.item));
  if (open.length > 0) {
    const answered = answeredApprovals(view.output);
    const waiting = open.every((call) => {
      const request = call.item.approval_request_id;
      return call.item.status === "in_progress" && request !== null && !answered.has(request);
    });
    return { kind: waiting ? "wait" : "call", turn, calls };
  }
  if (entries.some((entry) => entry.item.type === "function_call")) return { kind: "end", status: "completed" };
  if (calls.length > 0) return afterCalls(view, turn, calls.length);
  if (entries.some((entry) => entry.item.type === "message" && entry.item.role === "user")) {
    return askUnlessSpent(view, turn + 1);
  }
  if (hasAnswer(entries)) return { kind: "end", status: "completed" };
  return afterNothing(view, turn);
}

function askUnlessSpent(view: RunView, turn: number): Step {
  if (view.seconds >= view.limits.seconds) return { kind: "end", status: "incomplete", reason: "max_time" };
  if (view.tokens >= view.limits.tokens) return { kind: "end", status: "incomplete", reason: "max_tokens" };
  return { kind: "ask", turn };
}

/** At the limits of turns, calls and repeats the model is asked once more, without tools. */
function afterCalls(view: RunView, turn: number, calls: number): Step {
  const step = askUnlessSpent(view, turn + 1);
  if (step.kind !== "ask") return step;
  if (finishedTurns(view.output) >= view.limits.turns) return { ...step, final: "max_turns" };
  if (calls > view.limits.callsPerAnswer) return { ...step, final: "max_calls" };
  if (repeats(view.output)) return { ...step, final: "repeated_calls" };
  return step;
}

/** An answer with nothing in it: one nudge, then an error. */
function afterNothing(view: RunView, turn: number): Step {
  const before = view.output.filter((entry) => entry.turn === turn - 1);
  const nudged = before.length > 0 && !before.some(isCall) && !hasAnswer(before) && before.some((e) => e.meta.finish);
  if (nudged) {
    const message = "the model answered twice with nothing";
    return { kind: "end", status: "failed", error: { code: "empty_response", message } };
  }
  const step = askUnlessSpent(view, turn + 1);
  return step.kind === "ask" ? { ...step, nudge: true } : step;
}

/** Model calls that were finished; those that a crash cut do not count against the limit, nor do an agent's own steps. */
export function finishedTurns(output: readonly Entry[]): number {
  return output.filter(({ meta }) => meta.finish !== undefined && meta.agent === undefined).length;
}

function hasAnswer(entries: readonly Entry[]): boolean {
  return entries.some(
    ({ item }) =>
      item.type === "message" &&
      item.role === "assistant" &&
      item.content.some((part) => ("text" in part && part.text.trim() !== "") || part.type === "refusal"),
  );
}

export function answeredApprovals(output: readonly Entry[]): Map<string, boolean> {
  const answered = new Map<string, boolean>();
  for (const { item } of output) {
    if (item.type === "mcp_approval_response") answered.set(item.approval_request_id, item.approve);
  }
  return answered;
}

/** The same call with the same result three times in a row. */
function repeats(output: readonly Entry[]): boolean {
  const last = output.filter(isCall).slice(-3);
  const [first] = last;
  if (last.length < 3 || !first) return false;
  return last.every(
    ({ item, meta }) =>
      meta.tool === first.meta.tool && item.arguments === first.item.arguments && item.output === first.item.output,
  );
}
