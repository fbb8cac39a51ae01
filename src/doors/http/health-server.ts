/**
 * What tells whoever watches a worker how it fares: a worker has no other door.
 *
 * Invariant: it answers `/healthz` and `/readyz` and nothing else, with no content of anybody's; it listens where it was
 * told to and nowhere else.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { RotundaError } from "../../types/error.ts";
import type { Store } from "../../types/store.ts";
import { storeFault } from "./readiness.ts";

export interface HealthServerOptions {
  host: string;
  /** 0: any that is free. */
  port: number;
  store: Store;
  /** No more work is taken: it is not ready, though it is up. */
  draining(): boolean;
}

/** Resolves with its address once it listens. Throws "usage" where the port is taken or not ours to take. */
export async function openHealthServer(options: HealthServerOptions): Promise<string> {
  const server = createServer((request, response) => {
    answer(options, request, response).catch(() => response.destroy());
  });
  // It ends with the process, and does not keep it.
  server.unref();
  const { host, port } = options;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port }, resolve);
  }).catch((error: NodeJS.ErrnoException) => {
    throw new RotundaError(
      "usage",
      `the health check cannot listen at ${host}:${port}: ${error.code ?? error.message}`,
      {
        remedy: "Name another port: --health-port 8081",
      },
    );
  });
  const address = server.address();
  const at = typeof address === "object" && address ? address.port : port;
  return `http://${host.includes(":") ? `[${host}]` : host}:${at}`;
}

async function answer(options: HealthServerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname } = new URL(request.url ?? "/", "http://worker");
  if (request.method !== "GET" && request.method !== "HEAD") return tell(response, 405, "method_not_allowed");
  if (pathname === "/healthz" || pathname === "/health") return tell(response, 200, "ok");
  if (pathname !== "/readyz") return tell(response, 404, "not_found");
  const why = options.draining() ? "shutting_down" : await storeFault(options.store);
  tell(response, why === undefined ? 200 : 503, why ?? "ok");
}

function tell(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" });
  response.end(`${JSON.stringify({ status: text })}\n`);
}
