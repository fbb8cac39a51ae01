/**
 * Pool fetch: what the client library takes for `fetch`, on a pool of connections to one origin.
 *
 * Invariant: it follows no redirect; nothing waits for an idle stream but the one who reads it; what goes to another
 * origin is fetched as ever. A request by the global `fetch` costs several times the CPU of one on a pool.
 */
import { Readable } from "node:stream";
import type { Dispatcher } from "undici";

export interface PoolFetch {
  fetch(url: string | URL, init?: RequestInit): Promise<Fetched>;
  close(): void;
}

/** A response before its body is read. */
export interface Fetched {
  status: number;
  headers: Headers;
  /** Undefined: there is none. */
  body: AsyncIterable<Uint8Array> | undefined;
  /** The same as a web stream. */
  stream(): ReadableStream<Uint8Array>;
}

interface Opened {
  request(options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData>;
  destroy(): Promise<void>;
}

/** Longer than a pause between two calls. Milliseconds. */
const KEEP_ALIVE = 20_000;
const CONNECT_TIMEOUT = 10_000;

export function createPoolFetch(origin: string): PoolFetch {
  let pool: Promise<Opened> | undefined;
  const open = async (): Promise<Opened> => {
    const [{ default: PoolHere }, { default: request }] = await Promise.all([
      import("undici/lib/dispatcher/pool.js"),
      import("undici/lib/api/api-request.js"),
    ]);
    const made = new PoolHere(origin, {
      connect: { timeout: CONNECT_TIMEOUT },
      keepAliveTimeout: KEEP_ALIVE,
      autoSelectFamily: true,
      allowH2: false,
    });
    return { request: (options) => request.call(made, options), destroy: () => made.destroy() };
  };
  return {
    async fetch(address, init = {}) {
      const url = new URL(address);
      if (url.origin !== origin) return fetched(await fetch(url, init));
      pool ??= open();
      return exchange(await pool, url, init);
    },
    close() {
      void pool?.then((made) => made.destroy()).catch(() => undefined);
    },
  };
}

function fetched({ status, headers, body }: Response): Fetched {
  return { status, headers, body: body ?? undefined, stream: () => body ?? new ReadableStream() };
}

async function exchange(pool: Opened, url: URL, init: RequestInit): Promise<Fetched> {
  const { signal } = init;
  const sent: Record<string, string> = {};
  new Headers(init.headers).forEach((value, name) => {
    sent[name] = value;
  });
  try {
    const { statusCode, headers, body } = await pool.request({
      path: `${url.pathname}${url.search}`,
      method: (init.method ?? "GET") as "GET" | "POST" | "DELETE",
      headers: sent,
      headersTimeout: 0,
      bodyTimeout: 0,
      ...(typeof init.body === "string" && { body: init.body }),
      ...(signal && { signal }),
    });
    const received = new Headers();
    for (const [name, value] of Object.entries(headers)) {
      for (const one of Array.isArray(value) ? value : [value ?? ""]) received.append(name, one);
    }
    return {
      status: statusCode,
      headers: received,
      body: body as AsyncIterable<Uint8Array>,
      stream: () => Readable.toWeb(body) as ReadableStream<Uint8Array>,
    };
  } catch (error) {
    if (signal?.aborted) throw error;
    // As the global one has it: what went wrong is the cause.
    throw new TypeError("fetch failed", { cause: error });
  }
}
