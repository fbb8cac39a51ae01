/**
 * The tracer: runs, model calls, tool calls and requests as spans by the GenAI conventions of OpenTelemetry, and the two
 * histograms of model calls.
 *
 * Invariant: a fault of telemetry is nobody else's: whatever it throws is dropped, and the work goes on.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Attributes,
  type Context,
  context as contexts,
  createTraceState,
  type Histogram,
  type Link,
  type Span as OtelSpan,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace as traces,
} from "@opentelemetry/api";
import { RotundaError } from "../types/error.ts";
import type { ModelEvent } from "../types/model.ts";
import type { ResponseNode } from "../types/response.ts";
import type { ModelCall, RequestSpan, RunSpan, Span, ToolCall, TraceContext, Tracer } from "../types/telemetry.ts";
import type { ToolResult } from "../types/tool.ts";
import type { Redact } from "../util/secrets.ts";
import { traceContextOf } from "../util/trace-context.ts";
import { cut } from "./content.ts";
import { CallWatch, chatAttributes } from "./model-call.ts";
import { openProviders, type Providers } from "./providers.ts";
import { type Wanted, wantsContent } from "./wanted.ts";

export interface TracerOptions {
  wanted: Wanted;
  environment: NodeJS.ProcessEnv;
  redact: Redact;
}

/** By the conventions: four times as much with each step. */
const TOKEN_STEPS = Array.from({ length: 14 }, (_, step) => 4 ** step);
const SECOND_STEPS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

export async function createTracer(options: TracerOptions): Promise<Tracer> {
  return new OpenTelemetryTracer(await openProviders(options), options.redact, wantsContent(options.environment));
}

/** Of all tracers of the process: a turn may run under another directory's app than it came in by. */
const within = new AsyncLocalStorage<TraceContext>();

class OpenTelemetryTracer implements Tracer {
  readonly #providers: Providers;
  readonly #redact: Redact;
  readonly #content: boolean;
  readonly #tokens: Histogram;
  readonly #seconds: Histogram;
  readonly #running = new Map<string, string>();

  constructor(providers: Providers, redact: Redact, content: boolean) {
    this.#providers = providers;
    this.#redact = redact;
    this.#content = content;
    const { meter } = providers;
    this.#tokens = meter.createHistogram("gen_ai.client.token.usage", {
      description: "Number of input and output tokens used.",
      unit: "{token}",
      advice: { explicitBucketBoundaries: TOKEN_STEPS },
    });
    this.#seconds = meter.createHistogram("gen_ai.client.operation.duration", {
      description: "GenAI operation duration.",
      unit: "s",
      advice: { explicitBucketBoundaries: SECOND_STEPS },
    });
  }

  #start(name: string, kind: SpanKind, attributes: Attributes, parent: TraceContext | undefined, links: Link[] = []) {
    const span = this.#providers.tracer.startSpan(name, { kind, attributes, links }, contextOf(parent));
    return span;
  }

  #spanOf(span: OtelSpan): Span {
    const trace = traceOf(span);
    return {
      trace,
      within: (work) =>
        // The embedding program's own instruments see it as well.
        within.run(trace, () => contexts.with(traces.setSpan(contexts.active(), span), work)),
    };
  }

  current(): TraceContext | undefined {
    const own = within.getStore();
    if (own) return own;
    const active = traces.getActiveSpan()?.spanContext();
    return active && traceOfContext(active);
  }

  traceIdOf(responseId: string): string | undefined {
    return this.#running.get(responseId);
  }

  run(node: ResponseNode): RunSpan {
    const { trace: before } = node.settings;
    const attributes: Attributes = {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": node.profile,
      "gen_ai.request.model": node.model,
      "gen_ai.response.id": node.id,
      "rotunda.door": node.door,
      "rotunda.depth": node.depth,
      ...(node.conversationId !== null && { "gen_ai.conversation.id": node.conversationId }),
      ...(node.restarts > 0 && { "rotunda.restarts": node.restarts }),
    };
    const first = before?.begun ? contextOfHeaders(before) : undefined;
    const links = first ? [{ context: first, attributes: { "rotunda.link": "first run of the response" } }] : [];
    const span = this.#start(`invoke_agent ${node.profile}`, SpanKind.INTERNAL, attributes, before, links);
    this.#running.set(node.id, span.spanContext().traceId);
    return {
      ...this.#spanOf(span),
      end: (ended) => {
        this.#running.delete(node.id);
        const { input_tokens, output_tokens } = ended.usage;
        span.setAttributes({
          "rotunda.status": ended.status,
          "gen_ai.usage.input_tokens": input_tokens,
          "gen_ai.usage.output_tokens": output_tokens,
          ...(ended.usage.cost !== undefined && { "rotunda.cost": ended.usage.cost }),
          ...(ended.incompleteReason !== null && { "rotunda.incomplete_reason": ended.incompleteReason }),
        });
        if (ended.status === "failed") fail(span, ended.error?.code ?? "internal", ended.error?.message);
        span.end();
      },
    };
  }

  async *modelCall(call: ModelCall, signal: AbortSignal): AsyncIterable<ModelEvent> {
    const { model, request, parent } = call;
    const span = this.#start(`chat ${model.id}`, SpanKind.CLIENT, chatAttributes(call), parent);
    const watch = new CallWatch(call, { span, tokens: this.#tokens, seconds: this.#seconds });
    if (this.#content) watch.captureInput(this.#redact);
    let finished = false;
    try {
      for await (const event of model.stream({ ...request, trace: traceOf(span) }, signal)) {
        watch.event(event);
        if (event.type === "finish") {
          finished = true;
          watch.end();
        }
        yield event;
      }
    } catch (thrown) {
      if (!finished) watch.fail(thrown instanceof RotundaError ? thrown.code : "internal");
      finished = true;
      throw thrown;
    } finally {
      // The reader has gone before the end.
      if (!finished) watch.fail("cancelled");
    }
  }

  async toolCall(call: ToolCall, work: (trace: TraceContext) => Promise<ToolResult>): Promise<ToolResult> {
    const { node, tool, callId, input, parent, signal } = call;
    const span = this.#start(
      `execute_tool ${tool.name}`,
      SpanKind.INTERNAL,
      {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool.name,
        "gen_ai.tool.type": tool.server === "rotunda" ? "function" : "extension",
        "gen_ai.tool.description": tool.description.slice(0, 500),
        "gen_ai.agent.name": node.profile,
        ...(callId !== undefined && { "gen_ai.tool.call.id": callId }),
        ...(tool.server !== "rotunda" && { "mcp.method.name": "tools/call", "rotunda.mcp.server": tool.server }),
        ...(node.conversationId !== null && { "gen_ai.conversation.id": node.conversationId }),
      },
      parent,
    );
    if (this.#content) span.setAttribute("gen_ai.tool.call.arguments", cut(JSON.stringify(input), this.#redact));
    const onAbort = () => {
      fail(span, "cancelled");
      span.end();
    };
    signal.addEventListener("abort", onAbort, { once: true });
    const own = this.#spanOf(span);
    try {
      const result = await own.within(() => work(own.trace));
      if (result.isError) fail(span, "tool_error");
      if (this.#content) span.setAttribute("gen_ai.tool.call.result", cut(result.text, this.#redact));
      return result;
    } catch (thrown) {
      // A call that waits for something has not failed.
      if (thrown instanceof Error && thrown.message !== "") {
        fail(span, thrown instanceof RotundaError ? thrown.code : thrown.name);
      } else span.setAttribute("rotunda.waits", true);
      throw thrown;
    } finally {
      signal.removeEventListener("abort", onAbort);
      if (span.isRecording()) span.end();
    }
  }

  request({ method, path, headers, host }: Parameters<Tracer["request"]>[0]): RequestSpan {
    const agent = headers["user-agent"];
    const [address = "", port] = host.split(/:(?=\d+$)/);
    const attributes: Attributes = {
      "http.request.method": method,
      "url.path": path.slice(0, 500),
      "url.scheme": "http",
      ...(address !== "" && { "server.address": address }),
      ...(port !== undefined && { "server.port": Number(port) }),
      ...(typeof agent === "string" && { "user_agent.original": agent.slice(0, 200) }),
    };
    const parent = traceContextOf(headers.traceparent, headers.tracestate);
    const span = this.#start(method, SpanKind.SERVER, attributes, parent);
    return {
      ...this.#spanOf(span),
      end: ({ status, route, gone }) => {
        if (route !== undefined) {
          span.updateName(`${method} ${route}`);
          span.setAttribute("http.route", route);
        }
        span.setAttribute("http.response.status_code", status);
        if (status >= 500) fail(span, String(status));
        else if (gone) span.setAttribute("error.type", "client_gone");
        span.end();
      },
    };
  }

  close(): Promise<void> {
    return this.#providers.close();
  }
}

export function fail(span: OtelSpan, type: string, message?: string): void {
  span.setAttribute("error.type", type);
  span.setStatus({ code: SpanStatusCode.ERROR, ...(message !== undefined && { message: message.slice(0, 1_000) }) });
}

function traceOf(span: OtelSpan): TraceContext {
  return traceOfContext(span.spanContext());
}

function traceOfContext({ traceId, spanId, traceFlags, traceState }: SpanContext): TraceContext {
  const flags = (traceFlags & TraceFlags.SAMPLED).toString(16).padStart(2, "0");
  const tracestate = traceState?.serialize();
  return { traceparent: `00-${traceId}-${spanId}-${flags}`, ...(tracestate && { tracestate }) };
}

function contextOfHeaders({ traceparent, tracestate }: TraceContext): SpanContext | undefined {
  const [, traceId, spanId, flags] = traceparent.split("-");
  if (!traceId || !spanId || flags === undefined) return undefined;
  return {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED,
    isRemote: true,
    ...(tracestate !== undefined && { traceState: createTraceState(tracestate) }),
  };
}

function contextOf(parent: TraceContext | undefined): Context {
  const remote = parent && contextOfHeaders(parent);
  return remote ? traces.setSpanContext(ROOT_CONTEXT, remote) : ROOT_CONTEXT;
}
