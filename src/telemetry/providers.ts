/**
 * Providers: where spans and metrics go, by the standard variables of OpenTelemetry.
 *
 * Invariant: nothing is registered globally, so that an embedding program keeps its own; sending never holds up a run,
 * and never keeps the process from ending.
 */
import { type Meter, metrics, type Tracer as OtelTracer, trace } from "@opentelemetry/api";
import type { Wanted } from "./wanted.ts";

export interface Providers {
  tracer: OtelTracer;
  meter: Meter;
  /** Sends what is left. */
  close(): Promise<void>;
}

const SCOPE = "rotunda";
/** Milliseconds for what is left at the end. */
const LAST = 3_000;

declare const ROTUNDA_VERSION: string;

/** Set when the program is built. */
const version = typeof ROTUNDA_VERSION === "string" ? ROTUNDA_VERSION : "0";

export interface ProviderOptions {
  wanted: Wanted;
  environment: NodeJS.ProcessEnv;
}

export async function openProviders(options: ProviderOptions): Promise<Providers> {
  const { wanted } = options;
  if (wanted.registered) {
    const close = async () => undefined;
    return { tracer: trace.getTracer(SCOPE, version), meter: metrics.getMeter(SCOPE, version), close };
  }
  const resource = await resourceOf(options);
  const [tracers, meters] = await Promise.all([tracersOf(options, resource), metersOf(options, resource)]);
  return {
    tracer: tracers.getTracer(SCOPE, version),
    meter: meters.getMeter(SCOPE, version),
    async close() {
      // A collector that is gone must not hold us.
      const timer = Promise.withResolvers<void>();
      const timeout = setTimeout(timer.resolve, LAST);
      const sent = Promise.allSettled([tracers.shutdown(), meters.shutdown()]);
      await Promise.race([sent, timer.promise]);
      clearTimeout(timeout);
    },
  };
}

async function resourceOf({ environment }: ProviderOptions) {
  const { defaultResource, resourceFromAttributes } = await import("@opentelemetry/resources");
  const given = pairs(environment.OTEL_RESOURCE_ATTRIBUTES);
  const name = environment.OTEL_SERVICE_NAME?.trim() || given["service.name"] || "rotunda";
  const own = { "service.version": version, "process.pid": process.pid };
  return defaultResource().merge(resourceFromAttributes({ ...own, ...given, "service.name": name }));
}

type Resource = Awaited<ReturnType<typeof resourceOf>>;

async function tracersOf({ wanted, environment }: ProviderOptions, resource: Resource) {
  const { BatchSpanProcessor, TracerProvider } = await import("@opentelemetry/sdk-trace");
  if (!wanted.traces) return new TracerProvider({ resource });
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-http");
  const exporter = new OTLPTraceExporter(exporterOptions(environment, "TRACES"));
  const delay = numberOf(environment.OTEL_BSP_SCHEDULE_DELAY);
  const queue = numberOf(environment.OTEL_BSP_MAX_QUEUE_SIZE);
  const batch = numberOf(environment.OTEL_BSP_MAX_EXPORT_BATCH_SIZE);
  const processor = new BatchSpanProcessor({
    exporter,
    ...(delay !== undefined && { scheduledDelayMillis: delay }),
    ...(queue !== undefined && { maxQueueSize: queue }),
    ...(batch !== undefined && { maxExportBatchSize: batch }),
  });
  const sampler = await samplerOf(environment);
  return new TracerProvider({ resource, spanProcessors: [processor], ...(sampler && { sampler }) });
}

async function metersOf({ wanted, environment }: ProviderOptions, resource: Resource) {
  const { MeterProvider, PeriodicExportingMetricReader } = await import("@opentelemetry/sdk-metrics");
  if (!wanted.metrics) return new MeterProvider({ resource });
  const { OTLPMetricExporter } = await import("@opentelemetry/exporter-metrics-otlp-http");
  const exporter = new OTLPMetricExporter(exporterOptions(environment, "METRICS"));
  const interval = numberOf(environment.OTEL_METRIC_EXPORT_INTERVAL) ?? 60_000;
  const timeout = Math.min(numberOf(environment.OTEL_METRIC_EXPORT_TIMEOUT) ?? 30_000, interval);
  const reader = new PeriodicExportingMetricReader({
    exporter,
    exportIntervalMillis: interval,
    exportTimeoutMillis: timeout,
  });
  return new MeterProvider({ resource, readers: [reader] });
}

/** What the variables in force say; the exporter itself reads those of the process only. */
function exporterOptions(environment: NodeJS.ProcessEnv, signal: "TRACES" | "METRICS") {
  const own = (name: string) =>
    environment[`OTEL_EXPORTER_OTLP_${signal}_${name}`]?.trim() || environment[`OTEL_EXPORTER_OTLP_${name}`]?.trim();
  const whole = environment[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`]?.trim();
  const base = environment.OTEL_EXPORTER_OTLP_ENDPOINT?.trim();
  const url = whole || (base && `${base.replace(/\/+$/, "")}/v1/${signal.toLowerCase()}`);
  const timeout = numberOf(own("TIMEOUT"));
  return {
    ...(url && { url }),
    headers: { ...pairs(environment.OTEL_EXPORTER_OTLP_HEADERS), ...pairs(own("HEADERS")) },
    ...(timeout !== undefined && { timeoutMillis: timeout }),
  };
}

/** `OTEL_TRACES_SAMPLER`; undefined: the default, which follows the caller and else takes everything. */
async function samplerOf(environment: NodeJS.ProcessEnv) {
  const sdk = await import("@opentelemetry/sdk-trace");
  const { AlwaysOffSampler, AlwaysOnSampler, ParentBasedSampler, TraceIdRatioBasedSampler } = sdk;
  const ratio = Math.min(1, numberOf(environment.OTEL_TRACES_SAMPLER_ARG) ?? 1);
  switch (environment.OTEL_TRACES_SAMPLER?.trim()) {
    case "always_on":
      return new AlwaysOnSampler();
    case "always_off":
      return new AlwaysOffSampler();
    case "traceidratio":
      return new TraceIdRatioBasedSampler(ratio);
    case "parentbased_always_off":
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case "parentbased_traceidratio":
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
    default:
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
  }
}

/** `key=value,key=value`, percent-encoded. */
function pairs(text = ""): Record<string, string> {
  const found: Record<string, string> = {};
  for (const pair of text.split(",")) {
    const at = pair.indexOf("=");
    if (at <= 0) continue;
    const value = pair.slice(at + 1).trim();
    try {
      found[pair.slice(0, at).trim()] = decodeURIComponent(value);
    } catch {
      found[pair.slice(0, at).trim()] = value;
    }
  }
  return found;
}

function numberOf(text: string | undefined): number | undefined {
  const value = Number(text);
  return text !== undefined && text.trim() !== "" && Number.isFinite(value) && value >= 0 ? value : undefined;
}
