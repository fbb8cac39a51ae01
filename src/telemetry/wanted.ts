/**
 * Whether telemetry is asked for: by the standard variables, or by an embedding program that has registered a provider.
 *
 * Invariant: nothing of OpenTelemetry is loaded to find out.
 */

/** Which signals are to be sent where; undefined: none. */
export interface Wanted {
  /** The embedding program's own provider: nothing is sent by us. */
  registered: boolean;
  traces: boolean;
  metrics: boolean;
}

/** How the API of OpenTelemetry keeps what is registered, for all its copies in a process. */
const REGISTERED = Symbol.for("opentelemetry.js.api.1");

export function wantedTelemetry(environment: NodeJS.ProcessEnv): Wanted | undefined {
  const set = (name: string) => (environment[name] ?? "").trim();
  if (set("OTEL_SDK_DISABLED").toLowerCase() === "true") return undefined;
  const global = (globalThis as Record<symbol, { trace?: unknown; metrics?: unknown } | undefined>)[REGISTERED];
  if (global?.trace || global?.metrics) return { registered: true, traces: true, metrics: true };
  const endpoint = set("OTEL_EXPORTER_OTLP_ENDPOINT");
  const asks = (signal: "TRACES" | "METRICS") => {
    const exporter = set(`OTEL_${signal}_EXPORTER`);
    if (exporter !== "") return exporter.split(",").some((name) => name.trim() === "otlp");
    return endpoint !== "" || set(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`) !== "";
  };
  const wanted = { registered: false, traces: asks("TRACES"), metrics: asks("METRICS") };
  return wanted.traces || wanted.metrics ? wanted : undefined;
}

/** Content of messages becomes part of spans. */
export function wantsContent(environment: NodeJS.ProcessEnv): boolean {
  const value = (environment.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT ?? "").trim().toLowerCase();
  return value === "true" || value === "span_only" || value === "span_and_event";
}
