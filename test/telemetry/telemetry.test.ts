/** Spans and measurements as a collector gets them, of runs over real doors, models, tools and MCP servers. */
import { join } from "node:path";
import { metrics, trace } from "@opentelemetry/api";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { afterEach, describe, expect, test } from "vitest";
import { createMcpEndpoints } from "../../src/doors/mcp/endpoints.ts";
import { wantedTelemetry } from "../../src/telemetry/wanted.ts";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import type { McpEndpoints } from "../../src/types/mcp.ts";
import { traceContextOf } from "../../src/util/trace-context.ts";
import { type Served, serve } from "../http/served.ts";
import { call, connectHttp } from "../mcp/support.ts";
import { later, temporaryFolder } from "../support.ts";
import { type Collector, startCollector } from "./collector.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT = `00-${TRACE}-00f067aa0ba902b7-01`;
const SECRET = "sk-test-0123456789";

interface Bench {
  served: Served;
  collector: Collector;
  /** Ends the server, which sends what is left. */
  finish(): Promise<Collector>;
}

async function bench(script: UpstreamScript, variables: NodeJS.ProcessEnv = {}, config: object = {}): Promise<Bench> {
  const collector = await startCollector();
  const folder = temporaryFolder();
  const environment = {
    PATH: process.env.PATH,
    HOME: folder,
    ROTUNDA_HOME: join(folder, "state"),
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    ...variables,
  };
  let endpoints: McpEndpoints | undefined;
  const mcp = async () => {
    endpoints ??= createMcpEndpoints({ app: served.app, version: "1" });
    return endpoints;
  };
  const served: Served = await serve(script, { folder, config, app: { environment }, door: { mcp } });
  return {
    served,
    collector,
    async finish() {
      endpoints?.leave();
      await served.stop();
      await endpoints?.close();
      return collector;
    },
  };
}

const withTool: UpstreamScript = [
  { text: "let me look", calls: [{ id: "call_a", name: "glob", arguments: { pattern: "*.none" } }] },
  { text: "There is nothing about the heron.", usage: { prompt_tokens: 40, completion_tokens: 7, total_tokens: 47 } },
];

describe("a run", () => {
  test("G17 is a span with its model calls and tool calls below it, in one trace; content is not part of it", async () => {
    const { served, finish } = await bench(withTool, {
      OTEL_SERVICE_NAME: "birds",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test,team=a%20b",
      OTEL_EXPORTER_OTLP_HEADERS: "x-key=value%201",
    });
    const response = await served.respond({ model: "test-model", input: "Is there a heron?" });
    const { spans, points, resources, headers, text, named } = await finish();
    const [request] = named("POST /v1/responses");
    const [run] = named("invoke_agent general");
    const calls = named("chat test-model");
    const [tool] = named("execute_tool glob");
    expect(spans).toHaveLength(5);
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
    expect(request).toMatchObject({ kind: 2, status: 0 });
    expect(request?.parentSpanId).toBeUndefined();
    expect(request?.attributes).toMatchObject({
      "http.request.method": "POST",
      "http.route": "/v1/responses",
      "http.response.status_code": 200,
    });
    expect(run).toMatchObject({ kind: 1, parentSpanId: request?.spanId, status: 0 });
    expect(run?.attributes).toMatchObject({
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": "general",
      "gen_ai.response.id": response.id,
      "gen_ai.usage.input_tokens": 50,
      "gen_ai.usage.output_tokens": 12,
      "rotunda.status": "completed",
    });
    expect(calls.map(({ parentSpanId, kind }) => [parentSpanId, kind])).toEqual([
      [run?.spanId, 3],
      [run?.spanId, 3],
    ]);
    expect(calls[1]?.attributes).toMatchObject({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "127.0.0.1",
      "gen_ai.request.model": "test-model",
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.input_tokens": 40,
      "gen_ai.usage.output_tokens": 7,
      "server.address": "127.0.0.1",
      "server.port": Number(new URL(served.upstream.url).port),
    });
    expect(tool).toMatchObject({ kind: 1, parentSpanId: run?.spanId, status: 0 });
    expect(tool?.attributes).toMatchObject({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "glob",
      "gen_ai.tool.call.id": "call_a",
      "gen_ai.tool.type": "function",
    });
    expect(resources[0]).toMatchObject({
      "service.name": "birds",
      "deployment.environment.name": "test",
      team: "a b",
    });
    expect(headers[0]?.["x-key"]).toBe("value 1");
    expect(text).not.toContain("heron");
    expect(text).not.toContain(SECRET);
    const of = (name: string, type?: string) =>
      points.find((point) => point.name === name && point.attributes["gen_ai.token.type"] === type);
    expect(of("gen_ai.client.token.usage", "input")).toMatchObject({ count: 2, sum: 50 });
    expect(of("gen_ai.client.token.usage", "output")).toMatchObject({ count: 2, sum: 12 });
    expect(of("gen_ai.client.token.usage", "input")?.bounds.slice(0, 4)).toEqual([1, 4, 16, 64]);
    const duration = of("gen_ai.client.operation.duration");
    expect(duration).toMatchObject({ count: 2, attributes: { "gen_ai.operation.name": "chat" } });
    expect(duration?.sum).toBeGreaterThan(0);
  });

  test("G17 content is told where the operator asks for it, without secrets", async () => {
    const { served, finish } = await bench(withTool, { OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" });
    await served.respond({ model: "test-model", input: `Is there a heron? My key is ${SECRET}.` });
    const { named, text } = await finish();
    const [first, second] = named("chat ");
    const parsed = (value: unknown) => JSON.parse(String(value)) as unknown;
    expect(parsed(first?.attributes["gen_ai.input.messages"])).toEqual([
      { role: "user", parts: [{ type: "text", content: "Is there a heron? My key is ***." }] },
    ]);
    expect(parsed(first?.attributes["gen_ai.output.messages"])).toEqual([
      {
        role: "assistant",
        parts: [
          { type: "text", content: "let me look" },
          { type: "tool_call", id: "call_a", name: "glob", arguments: { pattern: "*.none" } },
        ],
        finish_reason: "tool_calls",
      },
    ]);
    expect(String(second?.attributes["gen_ai.input.messages"])).toContain("tool_call_response");
    expect(String(first?.attributes["gen_ai.system_instructions"])).toContain("capable assistant");
    expect(named("execute_tool")[0]?.attributes["gen_ai.tool.call.result"]).toBe("No files found");
    expect(text).not.toContain(SECRET);
  });

  test("G17 failures are told by their kind", async () => {
    const { served, finish } = await bench([{ status: 400, body: { error: { message: "no" } } }]);
    const answer = await served.fetch("/v1/responses", { json: { model: "test-model", input: "hello" } });
    expect(((await answer.json()) as { status: string }).status).toBe("failed");
    const { named, points } = await finish();
    expect(named("chat ")[0]).toMatchObject({ status: 2, attributes: { "error.type": "upstream_bad_request" } });
    expect(named("invoke_agent")[0]).toMatchObject({ status: 2, attributes: { "error.type": "upstream_bad_request" } });
    expect(points.find(({ name }) => name.endsWith("duration"))?.attributes["error.type"]).toBe("upstream_bad_request");
  });

  test("G17 a sub-agent hangs below the call that started it; a cancelled call has its end", async () => {
    const task = { agent_type: "explore", task: "look", description: "look" };
    const { served, finish } = await bench((request) => {
      const said = JSON.stringify(request.body.messages);
      if (said.includes('"look"') && !said.includes("delegate")) return { silent: "hang" };
      return { calls: [{ name: "task", arguments: task }] };
    });
    const made = await served.fetch("/v1/responses", {
      json: { model: "test-model", input: "delegate", background: true },
    });
    const { id } = (await made.json()) as { id: string };
    while (served.upstream.requests.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    await served.app.engine.cancel(id, "enough");
    const { named } = await finish();
    const [tool] = named("execute_tool task");
    const [child] = named("invoke_agent explore");
    expect(child?.parentSpanId).toBe(tool?.spanId);
    expect(child?.attributes["rotunda.status"]).toBe("cancelled");
    expect(tool).toMatchObject({ status: 2, attributes: { "error.type": "cancelled" } });
    expect(named("chat ")).toHaveLength(2);
  });
});

describe("a trace", () => {
  test("G17 comes in by HTTP, and goes out to the model", async () => {
    const { served, finish } = await bench([{ text: "hello" }]);
    const headers = { traceparent: PARENT, tracestate: "vendor=1" };
    await served.fetch("/v1/responses", { json: { model: "test-model", input: "hello" }, headers });
    const { named } = await finish();
    expect(named("POST /v1/responses")[0]).toMatchObject({ traceId: TRACE, parentSpanId: "00f067aa0ba902b7" });
    const [asked] = named("chat ");
    expect(served.upstream.requests[0]?.headers).toMatchObject({
      traceparent: `00-${TRACE}-${asked?.spanId}-01`,
      tracestate: "vendor=1",
    });
  });

  test("G17 comes in by MCP, and goes out to MCP servers", async () => {
    const script = join(import.meta.dirname, "../fixtures/mcp/trace.ts");
    const config = {
      mcpServers: { seen: { command: process.execPath, args: [script], tools: { meta: { access: "read" } } } },
      permissions: { mode: "auto" },
    };
    const answers: UpstreamScript = [{ calls: [{ name: "seen__meta", arguments: {} }] }, { text: "done" }];
    const { served, finish } = await bench(answers, {}, config);
    const client = await connectHttp(served.url, { token: served.token });
    const result = await client.callTool({
      name: "ask",
      arguments: { prompt: "look", modelId: "test-model" },
      _meta: { traceparent: PARENT, tracestate: "vendor=1" },
    });
    expect(result.isError ?? false).toBe(false);
    const { named } = await finish();
    const [run] = named("invoke_agent");
    const [tool] = named("execute_tool seen__meta");
    expect(run).toMatchObject({ traceId: TRACE, parentSpanId: "00f067aa0ba902b7" });
    expect(tool?.attributes).toMatchObject({ "gen_ai.tool.type": "extension", "mcp.method.name": "tools/call" });
    const told = JSON.stringify(served.upstream.requests[1]?.body.messages);
    expect(told).toContain(`00-${TRACE}-${tool?.spanId}-01`);
    expect(told).toContain("vendor=1");
  });

  test("G17 goes on after a restart, with a link to the first run", async () => {
    const { served, collector } = await bench([{ silent: "hang" }]);
    const made = await served.fetch("/v1/responses", {
      json: { model: "test-model", input: "hello", background: true },
      headers: { traceparent: PARENT },
    });
    const { id } = (await made.json()) as { id: string };
    while (served.upstream.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await served.stop();
    const environment = {
      PATH: process.env.PATH,
      HOME: served.folder,
      ROTUNDA_HOME: join(served.folder, "state"),
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    };
    const again = await serve([{ text: "hello again" }], { folder: served.folder, app: { environment } });
    await again.app.engine.resume(id);
    await again.app.engine.wait(id);
    await again.stop();
    const [first, second] = collector.named("invoke_agent");
    expect(first).toMatchObject({ traceId: TRACE, attributes: { "rotunda.status": "in_progress" } });
    expect(second).toMatchObject({
      traceId: TRACE,
      parentSpanId: first?.spanId,
      links: [{ traceId: TRACE, spanId: first?.spanId }],
      attributes: { "rotunda.status": "completed" },
    });
    expect(again.upstream.requests[0]?.headers.traceparent).toContain(TRACE);
  });

  test("what is no trace context is as if it had not come", () => {
    const bad = [
      `00-${"0".repeat(32)}-00f067aa0ba902b7-01`,
      `ff-${TRACE}-00f067aa0ba902b7-01`,
      `${PARENT}-extra`,
      "x",
      7,
    ];
    for (const one of bad) expect(traceContextOf(one)).toBeUndefined();
    expect(traceContextOf(PARENT, "a=b\n")).toEqual({ traceparent: PARENT });
  });
});

describe("who asks for it", () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" };

  test("the standard variables, and nothing without them", async () => {
    expect(wantedTelemetry({})).toBeUndefined();
    expect(wantedTelemetry(endpoint)).toMatchObject({ traces: true, metrics: true });
    expect(wantedTelemetry({ ...endpoint, OTEL_SDK_DISABLED: "true" })).toBeUndefined();
    expect(wantedTelemetry({ ...endpoint, OTEL_METRICS_EXPORTER: "none" })).toMatchObject({ metrics: false });
    expect(
      wantedTelemetry({ ...endpoint, OTEL_METRICS_EXPORTER: "none", OTEL_TRACES_EXPORTER: "none" }),
    ).toBeUndefined();
    expect(wantedTelemetry({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://x" })).toMatchObject({ metrics: false });
    const served = await serve([{ text: "hello" }]);
    expect(served.app.tracer).toBeUndefined();
    await served.fetch("/v1/responses", {
      json: { model: "test-model", input: "hi" },
      headers: { traceparent: PARENT },
    });
    expect(served.upstream.requests[0]?.headers.traceparent).toBeUndefined();
  });

  test("a sampler that takes nothing; a collector that is gone stops nobody", async () => {
    const none = await bench([{ text: "hello" }], { OTEL_TRACES_SAMPLER: "always_off" });
    await none.served.respond({ model: "test-model", input: "hi" });
    const { spans, points } = await none.finish();
    expect(spans).toEqual([]);
    expect(points.length).toBeGreaterThan(0);
    const gone = await bench([{ text: "hello" }], endpoint);
    expect(await gone.served.respond({ model: "test-model", input: "hi" })).toMatchObject({ status: "completed" });
    await gone.finish();
  });

  describe("an embedding program with a provider of its own", () => {
    afterEach(() => {
      trace.disable();
      metrics.disable();
    });

    test("gets the spans, and nothing is sent by us", async () => {
      const exporter = new InMemorySpanExporter();
      trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));
      const served = await serve([{ text: "hello" }]);
      later(() => exporter.shutdown());
      await served.respond({ model: "test-model", input: "hi" });
      await served.stop();
      const names = exporter.getFinishedSpans().map(({ name }) => name);
      expect(names.sort()).toEqual(["POST /v1/responses", "chat test-model", "invoke_agent general"]);
    });
  });
});

test("G17 tools of the MCP door work the same while they are traced", async () => {
  const { served, finish } = await bench([{ text: "hello" }]);
  const client = await connectHttp(served.url, { token: served.token, era: "legacy" });
  expect((await call(client, "ask", { prompt: "hi", modelId: "test-model" })).text).toContain("hello");
  const { named } = await finish();
  const [run] = named("invoke_agent");
  expect(named("POST /mcp").map(({ spanId }) => spanId)).toContain(run?.parentSpanId);
});
