/** Routes of the door itself: is it up, what does it offer, how does it fare. */
import type { Route } from "./routes.ts";

export const coreRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/healthz",
    summary: "The process is up",
    tag: "server",
    scope: null,
    style: "openai",
    load: async () => (await import("./core.ts")).isUp,
  },
  {
    method: "GET",
    path: "/health",
    summary: "The process is up",
    tag: "server",
    scope: null,
    style: "openai",
    load: async () => (await import("./core.ts")).isUp,
  },
  {
    method: "GET",
    path: "/readyz",
    summary: "Requests can be carried out: the store answers and nobody is shutting down",
    tag: "server",
    scope: null,
    style: "openai",
    statuses: { 503: "Not now" },
    load: async () => (await import("./core.ts")).isReady,
  },
  {
    method: "GET",
    path: "/metrics",
    summary: "Counters in the text form of Prometheus",
    tag: "server",
    scope: ["settings", "admin"],
    style: "openai",
    produces: "text/plain",
    load: async () => (await import("./core.ts")).metrics,
  },
  {
    method: "GET",
    path: "/openapi.json",
    summary: "This document",
    tag: "server",
    scope: "any",
    style: "openai",
    load: async () => (await import("./core.ts")).openApi,
  },
];
