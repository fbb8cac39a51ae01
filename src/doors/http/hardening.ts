/**
 * Node's HTTP server, set up for clients that mean harm.
 *
 * Invariant: a connection that sends no whole request in time, or no HTTP at all, is answered in JSON where it can
 * be, and closed; it never costs the others more than its place.
 */
import { readFileSync } from "node:fs";
import type { IncomingMessage, RequestListener, Server } from "node:http";
import { isIP, type Socket } from "node:net";
import { nodeHttp } from "../../util/node-http.ts";
import { errorBody } from "./errors.ts";

export interface Timeouts {
  /** Seconds for the head of a request, from the connection's beginning or the answer before. Default 10. */
  headers: number;
  /** Seconds for a whole request with its body. Default 120. */
  request: number;
  /** Seconds that a connection may wait for its next request. Default 60. */
  keepAlive: number;
}

export const TIMEOUTS: Timeouts = { headers: 10, request: 120, keepAlive: 60 };

export interface Hardened {
  handle: RequestListener;
  timeouts: Timeouts;
  /** Whether an answer is already on its way on a connection. */
  isAnswering(socket: Socket): boolean;
  /** Whether a request wants to become a connection of another protocol that there is; else it is answered as it is. */
  switches(request: IncomingMessage): boolean;
  onSwitch(request: IncomingMessage, socket: Socket, head: Buffer): void;
  onMalformed(): void;
  onConnection(socket: Socket): void;
}

const MAXIMUM_HEAD = 16_384;

export function createHardenedServer(hardened: Hardened): Server {
  const { handle, timeouts, isAnswering, onMalformed, onConnection } = hardened;
  const server = nodeHttp().createServer(
    {
      maxHeaderSize: MAXIMUM_HEAD,
      headersTimeout: timeouts.headers * 1_000,
      requestTimeout: timeouts.request * 1_000,
      keepAliveTimeout: timeouts.keepAlive * 1_000,
      connectionsCheckingInterval: Math.min(2_000, timeouts.headers * 500),
      // A header that comes twice has both values, and so none of the forms that we take.
      joinDuplicateHeaders: true,
      insecureHTTPParser: false,
      shouldUpgradeCallback: (request) => hardened.switches(request),
    },
    handle,
  );
  server.maxConnections = mostConnections();
  // Who waits for our word before sending a body gets it when the body is wanted, or the refusal.
  server.on("checkContinue", handle);
  server.on("checkExpectation", (_request, response) => {
    response.writeHead(417, { "content-type": JSON_TYPE, connection: "close" });
    response.end(errorText(417, "Only 'expect: 100-continue' is known."));
  });
  server.on("connect", (_request, socket) => refuse(socket as Socket, 405, "CONNECT is not taken."));
  server.on("upgrade", (request, socket, head) => hardened.onSwitch(request, socket as Socket, head));
  server.on("connection", onConnection);
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    onMalformed();
    const connection = socket as Socket;
    if (error.code === "ECONNRESET" || !connection.writable || isAnswering(connection)) connection.destroy();
    else if (error.code === "HPE_HEADER_OVERFLOW")
      refuse(connection, 431, `The head is longer than ${MAXIMUM_HEAD} bytes.`);
    else if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") refuse(connection, 408, "The request did not come in time.");
    else refuse(connection, 400, "That is no HTTP/1.1 request.");
  });
  return server;
}

const JSON_TYPE = "application/json; charset=utf-8";

const REASONS: Record<number, string> = {
  400: "Bad Request",
  405: "Method Not Allowed",
  408: "Request Timeout",
  431: "Request Header Fields Too Large",
};

function errorText(status: number, message: string): string {
  return JSON.stringify(
    errorBody("openai", { status, code: status === 408 ? "timeout" : "usage", message, param: null }),
  );
}

/** Answers on the bare socket, and closes it. */
function refuse(socket: Socket, status: number, message: string): void {
  // Node has let go of the socket of a CONNECT: a reset that nobody hears would end the process.
  socket.on("error", () => socket.destroy());
  const body = errorText(status, message);
  socket.end(
    `HTTP/1.1 ${status} ${REASONS[status] ?? "Error"}\r\ncontent-type: ${JSON_TYPE}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n${body}`,
  );
  // A little time to fetch the answer: what still comes would otherwise make the system throw it away.
  setTimeout(() => socket.destroy(), 500).unref();
}

/** Connections at most: never so many that no file or process could be opened any more. */
function mostConnections(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return Math.min(20_000, soft === undefined ? 20_000 : Math.floor(Number(soft) * 0.8));
  } catch {
    return 10_000;
  }
}

/** Whether only this machine can reach an address that is bound to it. */
export function isLoopback(host: string): boolean {
  if (host === "localhost" || host === "::1") return true;
  return isIP(host) === 4 && host.startsWith("127.");
}
