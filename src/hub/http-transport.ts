/**
 * Streamable HTTP transport: the client library's, with bounds around it.
 *
 * Invariant: a body of more than 10 MiB, or one event of that size on an endless stream, ends in an error, not
 * in memory; a redirect is followed only within the configured origin (the library's `same-origin` policy), so
 * a server cannot send our requests, or their headers, to another host; a 401 is an error and its
 * `resource_metadata` is never fetched; a stream that ends before its answer is an error of that call at once.
 */
import type { JSONRPCMessage, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

export const MAX_BODY = 10 * 1024 * 1024;

export interface HttpEndpoint {
  url: string;
  headers: Record<string, string>;
}

export async function createHttpTransport(endpoint: HttpEndpoint): Promise<StreamableHTTPClientTransport> {
  const { StreamableHTTPClientTransport: HttpTransport } = await import("@modelcontextprotocol/client");
  const transport = new HttpTransport(new URL(endpoint.url), {
    requestInit: { headers: endpoint.headers },
    fetch: boundedFetch,
    redirectPolicy: "same-origin",
  });
  failCutStreams(transport);
  return transport;
}

/** The library waits for its timeout when a stream ends without the answer: this fails the call at once. */
function failCutStreams(transport: StreamableHTTPClientTransport): void {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    const id = requestId(message);
    if (id === undefined) return send(message, options);
    const onRequestStreamEnd = () => {
      options?.onRequestStreamEnd?.();
      const error = { code: -32000, message: "the server ended its stream without an answer" };
      // For a call that has its answer this is an unknown id, which the library ignores.
      transport.onmessage?.({ jsonrpc: "2.0", id, error });
    };
    return send(message, { ...options, onRequestStreamEnd });
  };
}

function requestId(message: JSONRPCMessage | JSONRPCMessage[]): number | undefined {
  return !Array.isArray(message) && "method" in message && "id" in message && typeof message.id === "number"
    ? message.id
    : undefined;
}

async function boundedFetch(url: string | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (!response.body) return response;
  const events = response.headers.get("content-type")?.toLowerCase().startsWith("text/event-stream") ?? false;
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(limit(events)), { status, statusText, headers });
}

/** Passes bytes on; fails after `MAX_BODY` of them, counted anew after each blank line where `events`. */
function limit(events: boolean): TransformStream<Uint8Array, Uint8Array> {
  let count = 0;
  let lineLength = 1;
  const sinceBlankLine = (chunk: Uint8Array) => {
    for (const byte of chunk) {
      count++;
      if (byte === 13) continue;
      if (byte !== 10) lineLength++;
      else {
        if (lineLength === 0) count = 0;
        lineLength = 0;
      }
    }
  };
  return new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      if (events) sinceBlankLine(chunk);
      else count += chunk.byteLength;
      if (count > MAX_BODY) controller.error(new Error(`the server sent more than ${MAX_BODY / 1024 / 1024} MiB`));
      else controller.enqueue(chunk);
    },
  });
}
