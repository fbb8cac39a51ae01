/** Telemetry of an app: nothing of it is loaded unless the environment, or the embedding program, asks for it. */
import { wantedTelemetry } from "./telemetry/wanted.ts";
import type { Notice } from "./types/event.ts";
import type { Tracer } from "./types/telemetry.ts";
import type { Redact } from "./util/secrets.ts";

export async function openTracer(environment: NodeJS.ProcessEnv, redact: Redact): Promise<Tracer | undefined> {
  const wanted = wantedTelemetry(environment);
  if (!wanted) return undefined;
  const { createTracer } = await import("./telemetry/tracer.ts");
  return createTracer({ wanted, environment, redact });
}

/** A notice with the trace that its response belongs to. */
export function withTrace(notice: Notice, tracer: Tracer | undefined): Notice {
  if (!tracer || notice.responseId === null) return notice;
  const traceId = tracer.traceIdOf(notice.responseId);
  return traceId === undefined ? notice : { ...notice, traceId };
}
