/**
 * Trace context: `traceparent` and `tracestate` as others send them (W3C Trace Context, level 1).
 *
 * Invariant: what is not well-formed is as if it had not been sent.
 */
import type { TraceContext } from "../types/telemetry.ts";

const PARENT = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})[\da-f]{16}-[\da-f]{2}(?:-.*)?$/;
const MAX_STATE = 2_000;

export function traceContextOf(traceparent: unknown, tracestate?: unknown): TraceContext | undefined {
  if (typeof traceparent !== "string" || traceparent.length > 200 || !PARENT.test(traceparent)) return undefined;
  // Only version 00 ends here.
  if (traceparent.startsWith("00") && traceparent.length !== 55) return undefined;
  const state = typeof tracestate === "string" && /^[\x20-\x7e]+$/.test(tracestate) && tracestate.length <= MAX_STATE;
  return { traceparent, ...(state && { tracestate: tracestate as string }) };
}

export function traceIdOf({ traceparent }: TraceContext): string {
  return traceparent.split("-")[1] ?? "";
}
