/** Handlers of the door's own routes. */
import type { RequestContext } from "./context.ts";
import { openApiText } from "./openapi.ts";

export function isUp(context: RequestContext): void {
  context.json(200, { status: "ok" });
}

/** Milliseconds in which a store that is well has answered. */
const PATIENCE = 2_000;

export async function isReady(context: RequestContext): Promise<void> {
  const { app, services } = context;
  const why = services.draining ? "shutting_down" : await storeFault(app.store.token("000000000000"));
  if (why === undefined) context.json(200, { status: "ok" });
  else context.json(503, { status: why }, { "retry-after": "1" });
}

async function storeFault(question: Promise<unknown>): Promise<string | undefined> {
  const { promise: late, resolve } = Promise.withResolvers<string>();
  const timer = setTimeout(() => resolve("store_slow"), PATIENCE);
  try {
    return await Promise.race([late, question.then(() => undefined)]);
  } catch {
    return "store_failed";
  } finally {
    clearTimeout(timer);
  }
}

export function metrics(context: RequestContext): void {
  const { services } = context;
  const text = services.metrics.render({
    streams: services.streams.count,
    running: services.limits.running,
    connections: services.connections(),
  });
  context.text(200, "text/plain; version=0.0.4; charset=utf-8", text);
}

export async function openApi(context: RequestContext): Promise<void> {
  context.text(200, "application/json; charset=utf-8", await openApiText(context.services));
}
