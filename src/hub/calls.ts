/**
 * Calls: attempts at one call, and when there may be another.
 *
 * Invariant: a call that may have run is not run again unless our own configuration says that it may be; the
 * outcome is always a result, never an exception.
 */
import type { ServerConfig } from "../types/config.ts";
import type { JsonObject } from "../types/json.ts";
import type { ToolContext, ToolResult } from "../types/tool.ts";
import { oneLine, visible } from "../util/text.ts";
import type { Connection } from "./connection.ts";
import type { ListedTool } from "./definitions.ts";
import { CallFailure, toFailure } from "./failures.ts";
import type { HubClock } from "./hub-types.ts";
import { errorResult, readResult } from "./results.ts";

/** Milliseconds before the second and the third attempt. */
const WAITS = [500, 1000];
const DEFAULT_TIMEOUT = 120;
/** Milliseconds between two notes of progress. */
const PROGRESS_INTERVAL = 100;

export interface CallPlan {
  connection: Connection;
  tool: ListedTool;
  input: JsonObject;
  repeatable: boolean;
  clock: HubClock;
}

/** Runs a call with up to three attempts. */
export async function runCall(
  plan: CallPlan,
  context: Pick<ToolContext, "signal" | "progress" | "responseId" | "trace">,
): Promise<ToolResult> {
  const { connection, tool, input, clock } = plan;
  const timeout = (connection.config.timeout ?? DEFAULT_TIMEOUT) * 1000;
  const progress = throttledProgress(context, clock);
  for (let attempt = 1; ; attempt++) {
    let failure: CallFailure;
    try {
      const { signal, responseId, trace } = context;
      const options = { signal, timeout, progress, responseId, ...(trace && { trace }) };
      const raw = await connection.call(tool, input, options);
      return readResult(raw, connection.config.name);
    } catch (error) {
      failure = toFailure(error);
    }
    const wait = WAITS[attempt - 1];
    if (wait === undefined || !mayRepeat(failure, plan.repeatable, connection.config))
      return explain(failure, attempt, connection.config);
    try {
      await clock.sleep(wait, context.signal);
    } catch {
      return explain(new CallFailure("cancelled", "the call was cancelled"), attempt, connection.config);
    }
  }
}

function mayRepeat(failure: CallFailure, repeatable: boolean, config: ServerConfig): boolean {
  switch (failure.kind) {
    case "not_run":
      return true;
    case "answered":
    case "unknown":
      return repeatable || config.retry === "always";
    case "timed_out":
      return config.retry === "always";
    default:
      return false;
  }
}

function explain(failure: CallFailure, attempts: number, config: ServerConfig): ToolResult {
  const message = visible(failure.message).slice(0, 4000);
  switch (failure.kind) {
    case "rejected":
    case "refused":
      return errorResult(`[Tool error: ${message}]`);
    case "cancelled":
      return errorResult(`[Tool call cancelled: ${message}]`);
    case "timed_out":
      if (attempts === 1) {
        const seconds = config.timeout ?? DEFAULT_TIMEOUT;
        return errorResult(
          `[Tool call timed out after ${seconds} s; the server ${config.name} was told to stop. The call may have taken effect.]`,
        );
      }
      break;
    default:
  }
  if (attempts > 1 || failure.kind === "not_run")
    return errorResult(`[Tool call failed after ${attempts} ${attempts === 1 ? "attempt" : "attempts"}: ${message}]`);
  return errorResult(`[Tool call failed: ${message}. The call may have taken effect; it was not run again.]`);
}

function throttledProgress(context: Pick<ToolContext, "progress">, clock: HubClock) {
  let last = Number.NEGATIVE_INFINITY;
  return (progress: { progress: number; total?: number | undefined; message?: string | undefined }): void => {
    const now = clock.now();
    if (now - last < PROGRESS_INTERVAL) return;
    last = now;
    const count = progress.total === undefined ? String(progress.progress) : `${progress.progress}/${progress.total}`;
    context.progress(oneLine(visible(progress.message ?? count), 200));
  };
}
