/**
 * The trace that a client's call belongs to (MCP, SEP-414: `traceparent` and `tracestate` in `_meta`).
 *
 * Invariant: it holds for the turns that this call starts, and for no other.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { TraceContext } from "../../types/telemetry.ts";
import { traceContextOf } from "../../util/trace-context.ts";

const calls = new AsyncLocalStorage<TraceContext>();

export function withinTrace<T>(meta: Record<string, unknown> | undefined, work: () => T): T {
  const trace = meta && traceContextOf(meta.traceparent, meta.tracestate);
  return trace ? calls.run(trace, work) : work();
}

export function traceOfCall(): TraceContext | undefined {
  return calls.getStore();
}
