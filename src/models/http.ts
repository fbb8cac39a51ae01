/**
 * HTTP to model endpoints: one keep-alive pool per origin, straight on the dispatcher, without streams or
 * promises per chunk.
 *
 * Invariant: every exchange ends with exactly one `onEnd` or `onError`, and with nothing after `abort`.
 * undici is loaded with the first request, and its proxy part only if the environment names a proxy.
 */
import type { Dispatcher } from "undici";

export type HttpHeaders = Record<string, string | string[] | undefined>;

/** Receives an answer. What `onStart` and `onData` throw ends the exchange with `onError`. */
export interface Receiver {
  /** Header names are lower-case. */
  onStart(status: number, headers: HttpHeaders): void;
  /** The bytes are the receiver's own to keep. */
  onData(chunk: Buffer): void;
  onEnd(): void;
  onError(error: Error): void;
}

/** Times are in milliseconds. */
export interface Outgoing {
  path: string;
  method: "GET" | "POST";
  /** Names and values in turn. */
  headers: string[];
  body?: string;
  headersTimeout: number;
  idleTimeout: number;
}

export interface HttpOptions {
  /** Header lines of every request, name and value in turn. */
  headers?: string[];
  /** Where proxies are named. Default: none. */
  environment?: NodeJS.ProcessEnv;
  /** Open connections per origin; further requests wait. Default 4,096: a stream holds one as long as the model speaks. */
  connections?: number;
}

/** Longer than the pauses between an agent's turns, shorter than what load balancers wait before they close. */
const KEEP_ALIVE = 20_000;

export class HttpClient {
  readonly headers: readonly string[];
  readonly #environment: NodeJS.ProcessEnv;
  readonly #connections: number;
  /** By connect timeout, then by origin. */
  readonly #pools = new Map<number, Map<string, Promise<Dispatcher>>>();

  constructor(options: HttpOptions = {}) {
    this.headers = options.headers ?? [];
    this.#environment = options.environment ?? {};
    this.#connections = options.connections ?? 4_096;
  }

  /** The pool of an origin; `connectTimeout` in milliseconds. */
  pool(origin: string, connectTimeout: number): Promise<Dispatcher> {
    let pools = this.#pools.get(connectTimeout);
    if (!pools) {
      pools = new Map();
      this.#pools.set(connectTimeout, pools);
    }
    let pool = pools.get(origin);
    if (!pool) {
      pool = this.#open(origin, connectTimeout);
      pools.set(origin, pool);
    }
    return pool;
  }

  async #open(origin: string, connectTimeout: number): Promise<Dispatcher> {
    const options = {
      connections: this.#connections,
      pipelining: 1,
      connect: { timeout: connectTimeout },
      keepAliveTimeout: KEEP_ALIVE,
      keepAliveMaxTimeout: 600_000,
      // One answer, one socket: an abort closes it, and one stalled answer holds up no other.
      allowH2: false,
      autoSelectFamily: true,
    };
    const proxy = proxiesOf(this.#environment);
    if (proxy && !isLoopback(origin)) {
      const { default: EnvHttpProxyAgent } = await import("undici/lib/dispatcher/env-http-proxy-agent.js");
      return new EnvHttpProxyAgent({ ...options, ...proxy });
    }
    const { default: Pool } = await import("undici/lib/dispatcher/pool.js");
    return new Pool(origin, options);
  }

  /** Closes all sockets at once. The client can be used again. */
  async close(): Promise<void> {
    const pools = [...this.#pools.values()].flatMap((byOrigin) => [...byOrigin.values()]);
    this.#pools.clear();
    await Promise.all(pools.map(async (pool) => (await pool).destroy()));
  }
}

function isLoopback(origin: string): boolean {
  const { hostname } = new URL(origin);
  return hostname === "localhost" || hostname === "[::1]" || hostname.startsWith("127.");
}

function proxiesOf(environment: NodeJS.ProcessEnv) {
  const all = environment.all_proxy || environment.ALL_PROXY || "";
  const httpProxy = environment.http_proxy || environment.HTTP_PROXY || all;
  const httpsProxy = environment.https_proxy || environment.HTTPS_PROXY || all;
  if (!httpProxy && !httpsProxy) return null;
  const noProxy = environment.no_proxy || environment.NO_PROXY || "";
  return { httpProxy, httpsProxy, noProxy };
}

/** One request under way. */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly #receiver: Receiver;
  #controller: Dispatcher.DispatchController | undefined;
  #over = false;

  /** Sends at once, or as soon as a connection is free. */
  constructor(pool: Dispatcher, origin: string, outgoing: Outgoing, receiver: Receiver) {
    this.#receiver = receiver;
    pool.dispatch(
      {
        origin,
        path: outgoing.path,
        method: outgoing.method,
        headers: outgoing.headers,
        body: outgoing.body ?? null,
        headersTimeout: outgoing.headersTimeout,
        bodyTimeout: outgoing.idleTimeout,
      },
      this,
    );
  }

  /** The answer has ended, or was given up. */
  get over(): boolean {
    return this.#over;
  }

  /** Closes the socket. The receiver hears nothing any more. */
  abort(): void {
    if (this.#over) return;
    this.#over = true;
    this.#controller?.abort(new Error("stopped"));
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#over) controller.abort(new Error("stopped"));
    else this.#controller = controller;
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: HttpHeaders): void {
    if (!this.#over && status >= 200) this.#receiver.onStart(status, headers);
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#over) this.#receiver.onData(chunk);
  }

  onResponseEnd(): void {
    if (this.#over) return;
    this.#over = true;
    this.#receiver.onEnd();
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    if (this.#over) return;
    this.#over = true;
    this.#receiver.onError(error);
  }
}

const MAX_LISTING = 4 * 1024 * 1024;

/** GETs a small JSON document. Rejects on anything but 200 with JSON, and after `timeout` milliseconds. */
export async function getJson(http: HttpClient, url: string, headers: string[], timeout: number): Promise<unknown> {
  const { origin, pathname, search } = new URL(url);
  const pool = await http.pool(origin, timeout);
  const text = await new Promise<string>((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    // Before the exchange: a request that cannot be sent fails within the constructor.
    const timer = setTimeout(() => {
      exchange.abort();
      reject(new Error("no answer in time"));
    }, timeout);
    const outgoing = {
      path: pathname + search,
      method: "GET" as const,
      headers: [...headers, ...http.headers],
      headersTimeout: timeout,
      idleTimeout: timeout,
    };
    const exchange = new Exchange(pool, origin, outgoing, {
      onStart(status) {
        if (status !== 200) throw new Error(`answered ${status}`);
      },
      onData(chunk) {
        length += chunk.length;
        if (length > MAX_LISTING) throw new Error("the answer is too long");
        chunks.push(chunk);
      },
      onEnd: () => settle(() => resolve(Buffer.concat(chunks).toString("utf8"))),
      onError: (error) => settle(() => reject(error)),
    });
    function settle(report: () => void): void {
      clearTimeout(timer);
      report();
    }
  });
  return JSON.parse(text) as unknown;
}
