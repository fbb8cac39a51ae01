/** The table of what local clients hand to their server. */
import { defineRoute, type Route } from "./routes.ts";

export const localRoutes: Route[] = [
  defineRoute({
    method: "POST",
    path: "/rotunda/runs",
    summary: "Run a turn of a local client in its own directory",
    tag: "local",
    style: "openai",
    scope: "admin",
    idempotent: "none",
    body: async () => (await import("./local-runs-schemas.ts")).localRun,
    load: async () => (await import("./local-runs.ts")).startLocalRun,
  }),
];
