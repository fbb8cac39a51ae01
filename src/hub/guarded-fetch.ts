/**
 * Guarded fetch: requests to addresses that an MCP server, and not the operator, has named (metadata, registration,
 * token endpoints).
 *
 * Invariant: the address that is connected to is the one that was checked, also after DNS gave another answer; this
 * machine and its networks are out of reach unless the configured server itself was configured there; a redirect stays
 * within its origin; no answer is over a mebibyte or takes more than 20 seconds; no proxy is used.
 */
import type { LookupAddress } from "node:dns";
import type { IncomingMessage, RequestOptions } from "node:http";
import { isIP, type LookupFunction } from "node:net";
import { addressClass } from "../util/address-class.ts";
import { nodeHttp } from "../util/node-http.ts";

const MAX_BODY = 1024 * 1024;
/** Milliseconds. */
const PATIENCE = 20_000;
const MAX_REDIRECTS = 3;

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** A request that is not made, and why. A `TypeError`, as of a host that cannot be reached: nothing else is tried then. */
class ForbiddenAddress extends TypeError {}

/** `privateHosts`: further hosts that the operator allows wherever they lie. */
export function createGuardedFetch(serverUrl: string, privateHosts: readonly string[] = []): Fetch {
  const guard = new Guard(serverUrl, privateHosts);
  return async (url, init = {}) => {
    let target = new URL(String(url));
    for (let redirects = 0; ; redirects++) {
      const answer = await send(target, init, guard);
      const location = redirection(answer, target);
      if (!location) return answer;
      const getting = (init.method ?? "GET").toUpperCase() === "GET";
      // Not followed: to whoever asked, it is an answer that is no success.
      if (!getting || location.origin !== target.origin || redirects >= MAX_REDIRECTS) return answer;
      target = location;
    }
  };
}

function redirection(answer: Response, from: URL): URL | undefined {
  const location = answer.headers.get("location");
  if (answer.status < 300 || answer.status > 399 || location === null) return undefined;
  return URL.canParse(location, from.href) ? new URL(location, from.href) : undefined;
}

class Guard {
  readonly #trusted: ReadonlySet<string>;
  /** Of the configured server where its address was written down: a name could lead anywhere by tomorrow. */
  readonly #home: "loopback" | "private" | undefined;

  constructor(serverUrl: string, privateHosts: readonly string[]) {
    const { hostname } = new URL(serverUrl);
    this.#trusted = new Set([hostname, ...privateHosts.map((host) => host.toLowerCase())]);
    const literal = isLocalName(hostname) ? "loopback" : addressClass(hostname);
    this.#home = literal === "loopback" || literal === "private" ? literal : undefined;
  }

  /** Throws `ForbiddenAddress` for what no address could make right. */
  checkUrl(url: URL): void {
    const { protocol, hostname } = url;
    if (protocol !== "https:" && protocol !== "http:") throw new ForbiddenAddress(`${protocol} is no web address`);
    if (url.username !== "" || url.password !== "") throw new ForbiddenAddress("an address holds a password");
    const plainMay = this.#trusted.has(hostname) || isLocalName(hostname) || addressClass(hostname) === "loopback";
    if (protocol === "http:" && !plainMay)
      throw new ForbiddenAddress(`${url.origin} is not https, and a login needs it`);
    if (isIP(bare(hostname)) !== 0) this.checkAddress(hostname, bare(hostname));
  }

  checkAddress(hostname: string, address: string): void {
    if (this.#trusted.has(hostname)) return;
    const kind = addressClass(address);
    if (kind === "public" || kind === this.#home) return;
    throw new ForbiddenAddress(`${hostname} leads to ${address}, which is not public: it is not asked`);
  }
}

function bare(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, "");
}

function isLocalName(hostname: string): boolean {
  return hostname === "localhost" || hostname.endsWith(".localhost");
}

/** Looks a name up and lets it pass only if every address of it may be connected to. */
function guardedLookup(guard: Guard): LookupFunction {
  return (hostname, options, done) => {
    const { lookup } = process.getBuiltinModule("node:dns");
    lookup(hostname, { ...options, all: true }, (error, found: LookupAddress[]) => {
      const [first] = found ?? [];
      if (error || !first) {
        done(error ?? new Error(`${hostname} has no address`), "", 0);
        return;
      }
      try {
        for (const { address } of found) guard.checkAddress(hostname, address);
      } catch (refused) {
        done(refused as Error, "", 0);
        return;
      }
      if (options.all) done(null, found);
      else done(null, first.address, first.family);
    });
  };
}

async function send(url: URL, init: RequestInit, guard: Guard): Promise<Response> {
  guard.checkUrl(url);
  const timer = AbortSignal.timeout(PATIENCE);
  const signal = init.signal ? AbortSignal.any([init.signal, timer]) : timer;
  const body = init.body === undefined || init.body === null ? undefined : String(init.body);
  const headers = new Headers(init.headers);
  if (init.body instanceof URLSearchParams && !headers.has("content-type"))
    headers.set("content-type", "application/x-www-form-urlencoded");
  if (body !== undefined) headers.set("content-length", String(Buffer.byteLength(body)));
  const options: RequestOptions = {
    method: init.method ?? "GET",
    headers: Object.fromEntries(headers),
    lookup: guardedLookup(guard),
    // A connection of its own: what was kept open was checked for somebody else.
    agent: false,
    signal,
  };
  const { request } = url.protocol === "https:" ? process.getBuiltinModule("node:https") : nodeHttp();
  return new Promise<Response>((resolve, reject) => {
    const fail = (error: Error) => {
      if (error instanceof ForbiddenAddress) reject(error);
      else reject(new TypeError(`${url.origin} cannot be reached: ${error.message}`, { cause: error }));
    };
    const asked = request(url, options, (answer) => {
      read(answer).then(resolve, fail);
    });
    asked.once("error", fail);
    asked.end(body);
  });
}

async function read(answer: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY) throw new Error("its answer is over a mebibyte");
    chunks.push(chunk);
  }
  const headers = new Headers();
  for (const [name, value] of Object.entries(answer.headers)) {
    if (value !== undefined) headers.set(name, [value].flat().join(", "));
  }
  const status = answer.statusCode ?? 0;
  if (status < 200 || status > 599) throw new Error(`it answers with status ${status}`);
  const empty = status === 204 || status === 205 || status === 304;
  return new Response(empty ? null : Buffer.concat(chunks), { status, headers });
}
