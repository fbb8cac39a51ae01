/**
 * Streamable HTTP transport: the client library's, with bounds around it.
 *
 * Invariant: a body of more than 10 MiB, or one event of that size on an endless stream, ends in an error, not
 * in memory; a redirect is followed only within the configured origin (the library's `same-origin` policy), so
 * a server cannot send our requests, or their headers, to another host; what a 401 names is fetched only by the
 * account's guarded fetch, and where there is no account not at all; a stream that ends before its answer is an error of that call at once.
 */
import type { JSONRPCMessage, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { JsonMeter } from "./json-meter.ts";
import type { OAuthAccount } from "./oauth-account.ts";
import { createPoolFetch, type Fetched } from "./pool-fetch.ts";

const MEBIBYTE = 1024 * 1024;
const MAX_BODY = 10 * MEBIBYTE;
/** Of one stream, which may live as long as we do. */
const FLOOD = { bytes: 32 * MEBIBYTE, bytesPerSecond: MEBIBYTE, events: 5000, eventsPerSecond: 1000 } as const;

export interface HttpEndpoint {
  url: string;
  headers: Record<string, string>;
  /** Whose tokens go with each request, where it can be logged in to. */
  account?: OAuthAccount | undefined;
}

export async function createHttpTransport(endpoint: HttpEndpoint): Promise<StreamableHTTPClientTransport> {
  const { account } = endpoint;
  const { StreamableHTTPClientTransport: HttpTransport } = await import("@modelcontextprotocol/client");
  const pool = createPoolFetch(new URL(endpoint.url).origin);
  const transport = new HttpTransport(new URL(endpoint.url), {
    requestInit: { headers: endpoint.headers },
    ...(account && { authProvider: account }),
    fetch: async (url, init) => {
      const response = await bounded(await pool.fetch(url, init));
      if (response.status === 401) account?.noteRefused(response, new Headers(init?.headers).get("authorization"));
      return response;
    },
    redirectPolicy: "same-origin",
  });
  failCutStreams(transport);
  const close = transport.close.bind(transport);
  transport.close = async () => {
    await close();
    pool.close();
  };
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

async function bounded({ status, headers, body, stream }: Fetched): Promise<Response> {
  const events = headers.get("content-type")?.toLowerCase().startsWith("text/event-stream") ?? false;
  const excess = createMeter(events);
  if (events && status === 200) {
    const limit = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        const fault = excess(chunk);
        if (fault !== undefined) controller.error(new Error(`the server's answer ${fault}`));
        else controller.enqueue(chunk);
      },
    });
    return new Response(stream().pipeThrough(limit), { status, headers });
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) {
    const fault = excess(chunk);
    if (fault !== undefined) throw new Error(`the server's answer ${fault}`);
    chunks.push(chunk);
  }
  const isEmpty = status === 204 || status === 205 || status === 304;
  return new Response(isEmpty ? null : Buffer.concat(chunks), { status, headers });
}

/** What is wrong with a body, as its bytes arrive; the bounds count anew after each blank line where `events`. */
function createMeter(events: boolean): (chunk: Uint8Array) => string | undefined {
  const meter = new JsonMeter();
  const began = performance.now();
  let sinceEvent = 0;
  let total = 0;
  let count = 0;
  let emptyLine = false;
  /** The end of the last event in the chunk; 0 where none ends in it. */
  const lastEnd = (chunk: Uint8Array): number => {
    let end = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at];
      if (byte === 13) continue;
      if (byte === 10 && emptyLine) {
        end = at + 1;
        count++;
      }
      emptyLine = byte === 10;
    }
    return end;
  };
  const excess = (): string | undefined => {
    const seconds = (performance.now() - began) / 1000;
    if (sinceEvent > MAX_BODY) return `is over ${MAX_BODY / MEBIBYTE} MiB`;
    if (total > FLOOD.bytes + seconds * FLOOD.bytesPerSecond || count > FLOOD.events + seconds * FLOOD.eventsPerSecond)
      return "is a flood";
    return meter.excess;
  };
  return (chunk) => {
    const end = events ? lastEnd(chunk) : 0;
    total += chunk.length;
    sinceEvent += chunk.length;
    // Events that begin and end in one chunk are measured together: at most a chunk too much.
    meter.feed(chunk, 0, end);
    const before = excess();
    if (end > 0) {
      meter.reset();
      sinceEvent = chunk.length - end;
    }
    meter.feed(chunk, end);
    return before ?? excess();
  };
}
