/** Handlers of the door's own routes. */
import type { RequestContext } from "./context.ts";
import { openApiText } from "./openapi.ts";
import { storeFault } from "./readiness.ts";

export function isUp(context: RequestContext): void {
  context.json(200, { status: "ok" });
}

export async function isReady(context: RequestContext): Promise<void> {
  const { app, services } = context;
  const why = services.draining ? "shutting_down" : await storeFault(app.store);
  if (why === undefined) context.json(200, { status: "ok" });
  else context.json(503, { status: why }, { "retry-after": "1" });
}

/** More are not counted: whoever watches knows by then. */
const MOST_OPEN = 10_000;

async function openResponses({ app }: RequestContext): Promise<Map<string, number>> {
  const counts = new Map<string, number>([
    ["queued", 0],
    ["in_progress", 0],
    ["waiting", 0],
  ]);
  const open = await app.store.list({ status: ["queued", "in_progress", "waiting"], limit: MOST_OPEN });
  for (const { status } of open) counts.set(status, (counts.get(status) ?? 0) + 1);
  return counts;
}

export async function metrics(context: RequestContext): Promise<void> {
  const { services } = context;
  const text = services.metrics.render({
    streams: services.streams.count,
    running: services.limits.running,
    connections: services.connections(),
    open: await openResponses(context).catch(() => undefined),
  });
  context.text(200, "text/plain; version=0.0.4; charset=utf-8", text);
}

export async function openApi(context: RequestContext): Promise<void> {
  context.text(200, "application/json; charset=utf-8", await openApiText(context.services));
}
