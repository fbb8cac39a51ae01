/**
 * Spans: where a run, its model calls and its tool calls are told to a tracer.
 *
 * Invariant: without a tracer nothing is done but to look whether there is one; what somebody else's trace says is
 * handed on nevertheless.
 */
import type { JsonObject } from "../types/json.ts";
import type { Model, ModelEvent, ModelRequest } from "../types/model.ts";
import type { ResponseNode } from "../types/response.ts";
import type { RunSpan, TraceContext } from "../types/telemetry.ts";
import type { Tool, ToolResult } from "../types/tool.ts";
import type { CallEntry } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import type { Run } from "./run.ts";

/** A new response belongs to what runs now, unless its request says otherwise. */
export function placeInTrace({ tracer }: EngineParts, node: ResponseNode): void {
  if (!tracer || node.settings.trace) return;
  const trace = tracer.current();
  if (trace) node.settings = { ...node.settings, trace };
}

/** The run's own span. Whoever goes on with the response after a crash finds it with what is stored. */
export function beginSpan({ tracer }: EngineParts, run: Run): RunSpan | undefined {
  run.trace = run.node.settings.trace;
  if (!tracer || run.stopped) return undefined;
  const span = tracer.run(run.node);
  run.trace = span.trace;
  if (!run.node.settings.trace?.begun) {
    run.patch({ settings: { ...run.node.settings, trace: { ...span.trace, begun: true } } });
  }
  return span;
}

export function streamOf(parts: EngineParts, run: Run, model: Model, request: ModelRequest): AsyncIterable<ModelEvent> {
  const { trace: parent, node, signal } = run;
  if (!parent) return model.stream(request, signal);
  if (!parts.tracer) return model.stream({ ...request, trace: parent }, signal);
  return parts.tracer.modelCall({ node, model, request, parent }, signal);
}

export function runTool(
  { tracer }: EngineParts,
  { trace: parent, node, signal }: Run,
  { entry, tool, input }: { entry: CallEntry; tool: Tool; input: JsonObject },
  work: (trace: TraceContext | undefined) => Promise<ToolResult>,
): Promise<ToolResult> {
  if (!tracer || !parent) return work(parent);
  return tracer.toolCall({ node, tool, callId: entry.meta.callId, input, parent, signal }, work);
}
