/**
 * Telemetry: what is told of runs to a collector, where one was named.
 *
 * Invariant: a span that was begun is ended, whatever happens; content of messages is never part of one unless the
 * operator asked for it. Where nobody asked for telemetry there is no `Tracer`, and nothing of it is loaded.
 */
import type { JsonObject } from "./json.ts";
import type { Model, ModelEvent, ModelRequest } from "./model.ts";
import type { ResponseNode } from "./response.ts";
import type { Tool, ToolResult } from "./tool.ts";

/** W3C Trace Context: the two headers as they are. */
export interface TraceContext {
  traceparent: string;
  tracestate?: string;
}

/** Of a response: whose part it is. `begun`: that of its own first run; else of whoever asked for it. */
export interface ResponseTrace extends TraceContext {
  begun?: true;
}

export interface Span {
  readonly trace: TraceContext;
  /** Whatever begins within `work` has this span above it. */
  within<T>(work: () => T): T;
}

/** Of a run of a response. */
export interface RunSpan extends Span {
  /** It ends, or leaves this process. */
  end(node: ResponseNode): void;
}

/** Of a request to the HTTP door. */
export interface RequestSpan extends Span {
  /** `route`: its pattern, never the path itself. `fault`: it was our own mistake. */
  end(outcome: { status: number; route: string | undefined; gone: boolean }): void;
}

export interface ModelCall {
  node: ResponseNode;
  model: Model;
  request: ModelRequest;
  parent: TraceContext;
}

export interface ToolCall {
  node: ResponseNode;
  tool: Tool;
  /** The model's own id of the call, where there is one. */
  callId: string | undefined;
  input: JsonObject;
  parent: TraceContext;
  signal: AbortSignal;
}

export interface Tracer {
  /** `parent` has asked for the response; where it has run before, the new span goes on from its first one. */
  run(node: ResponseNode): RunSpan;
  /** The model's events as they are; the span ends with them. */
  modelCall(call: ModelCall, signal: AbortSignal): AsyncIterable<ModelEvent>;
  /** What `work` gives; the span ends with it, and at the latest when the signal is aborted. */
  toolCall(call: ToolCall, work: (trace: TraceContext) => Promise<ToolResult>): Promise<ToolResult>;
  request(request: {
    method: string;
    path: string;
    headers: { readonly [name: string]: string | string[] | undefined };
    host: string;
  }): RequestSpan;
  /** Of the span within which this runs. */
  current(): TraceContext | undefined;
  /** Of a response that this process runs. */
  traceIdOf(responseId: string): string | undefined;
  /** Sends what is left; gives up after some seconds. */
  close(): Promise<void>;
}
