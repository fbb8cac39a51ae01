/**
 * Pipeline: what every request passes through before its handler is called.
 *
 * Invariant: the order is host, origin, token, route, scope, rate, body. Nothing of the body is read, and nothing of
 * the store but the token, before all that comes before it is in order.
 */
import { RotundaError } from "../../types/error.ts";
import type { Scope } from "../../types/token.ts";
import { INSTANCE_HEADER } from "../../util/instance.ts";
import { traceIdOf } from "../../util/trace-context.ts";
import { type Authenticator, requireScope } from "./authenticate.ts";
import { hasBody, readBody, requireJson } from "./body.ts";
import type { Headers, RequestContext } from "./context.ts";
import { DoorError, unauthorized } from "./errors.ts";
import { isLoopback } from "./hardening.ts";
import { Idempotency, keyOf } from "./idempotency.ts";
import { parseJsonBody } from "./json-body.ts";
import type { RouteMetrics } from "./metrics.ts";
import type { Origins } from "./origins.ts";
import { type Entry, load, type Match, parametersOf, type Router } from "./router.ts";
import type { Method } from "./routes.ts";
import type { Services } from "./services.ts";
import { checkBody } from "./validate.ts";

export interface PipelineParts {
  services: Services;
  router: Router;
  authenticator: Authenticator;
  behindProxy: boolean;
  allowRemoteAdmin: boolean;
}

/** The only route that answers to any host: whatever watches the process may not know its name. */
const FOR_ANY_HOST = "/healthz";

export class Pipeline {
  /** Known when the port is. */
  origins: Origins | undefined;
  readonly #parts: PipelineParts;
  readonly #idempotency = new Idempotency();
  readonly #metrics = new WeakMap<object, RouteMetrics>();

  constructor(parts: PipelineParts) {
    this.#parts = parts;
    for (const { route, metrics } of parts.router.entries) this.#metrics.set(route, metrics);
  }

  /** Resolves when the handler is done. Whatever it rejects with becomes the answer. */
  async answer(context: RequestContext): Promise<void> {
    const { request, path, services } = context;
    const { router } = this.#parts;
    const match = router.find(path);
    const method = request.method === "HEAD" ? "GET" : request.method;
    const entry = match?.entries.get(method as Method);
    context.route = entry?.route ?? match?.entries.values().next().value?.route;
    if (!(path === FOR_ANY_HOST && entry)) this.#checkHost(context);
    this.#checkSelf(context);
    if (services.draining && entry?.route.scope !== null) throw draining();
    this.#checkOrigin(context);
    if (method === "OPTIONS") return answerOptions(context, match);
    if (!entry || !match) return this.#refuse(context, match);
    context.params = parametersIn(entry, match);
    await this.#admit(context, entry);
    await this.#run(context, entry);
  }

  /** What a handshake passes through before its connection is another protocol's. Throws what becomes its answer. */
  async admitSocket(context: RequestContext, scope: Scope): Promise<void> {
    this.#checkHost(context);
    this.#checkSelf(context);
    if (this.#parts.services.draining) throw draining();
    this.#checkOrigin(context);
    await this.#identify(context);
    // Nothing would close it when the session ends, and no page can send its half of one with a handshake.
    if (context.identity.session) throw unauthorized("A WebSocket is opened with a token, not with a session.");
    requireScope(context.identity, scope);
    // The server may have begun to end while the token was looked up.
    if (this.#parts.services.draining) throw draining();
  }

  #checkSelf({ request, services }: RequestContext): void {
    if (request.headers[INSTANCE_HEADER] !== services.instance) return;
    throw new RotundaError("usage", "This server was asked by itself: it is configured as its own model.", {
      remedy: "Let OPENAI_BASE_URL, or the baseUrl of the model, lead to another endpoint than this server.",
    });
  }

  #checkHost({ request }: RequestContext): void {
    if (this.origins?.allowsHost(request.headers.host)) return;
    const text =
      "This server does not answer to this host name: names that it is reached by are given with --allow-host.";
    throw new RotundaError("host_not_allowed", text);
  }

  #checkOrigin(context: RequestContext): void {
    const { origin } = context.request.headers;
    if (origin === undefined) {
      if (this.origins?.hasForeign) context.extraHeaders.push("vary", "Origin");
      return;
    }
    context.extraHeaders.push("vary", "Origin");
    if (!this.origins?.allowsOrigin(origin)) {
      throw new RotundaError("origin_not_allowed", "Pages of this origin may not ask this server.");
    }
    if (!this.origins.isForeign(origin)) return;
    context.extraHeaders.push("access-control-allow-origin", origin);
    context.extraHeaders.push("access-control-expose-headers", EXPOSED);
  }

  /** No such path or method; who has no token learns neither. */
  async #refuse(context: RequestContext, match: Match | undefined): Promise<void> {
    const isOpen = match ? [...match.entries.values()].some(({ route }) => route.scope === null) : false;
    if (!isOpen && !context.path.startsWith("/.well-known/")) await this.#identify(context);
    if (!match) throw new RotundaError("not_found", `There is nothing at this path.${this.#baseUrlHint(context.path)}`);
    const allow = allowed(match);
    throw new DoorError("method_not_allowed", `This path takes ${allow}.`, { headers: { allow } });
  }

  /** Clients put their paths behind a base URL, which ends in `/v1` once. */
  #baseUrlHint(path: string): string {
    const meant = path.startsWith("/v1/v1/") ? path.slice(3) : `/v1${path}`;
    return this.#parts.router.find(meant) ? " A client's base URL ends in /v1, once." : "";
  }

  readonly #sessionOf = (request: RequestContext["request"]) => this.#parts.services.sessions.identify(request);

  async #identify(context: RequestContext): Promise<void> {
    const { services, authenticator, behindProxy } = this.#parts;
    const { request } = context;
    context.identity = await authenticator.identify(request, context.search, this.#sessionOf);
    const { remoteAddress = "" } = request.socket;
    const proxied = request.headers.forwarded ?? request.headers["x-forwarded-for"] ?? request.headers.via;
    const near = isLoopback(remoteAddress.replace(/^::ffff:/, ""));
    context.remote = !near || (behindProxy && !(context.identity.local && proxied === undefined));
    services.limits.countRequest(context.identity);
  }

  async #admit(context: RequestContext, { route }: Entry): Promise<void> {
    const { scope } = route;
    if (scope === null) return;
    await this.#identify(context);
    if (scope === "any") return;
    const granted = requireScope(context.identity, scope);
    if (granted === "admin" && context.remote && !this.#parts.allowRemoteAdmin) {
      throw new RotundaError(
        "insufficient_scope",
        "This is not done over a network, unless the server runs with --allow-remote-admin.",
      );
    }
  }

  async #run(context: RequestContext, entry: Entry): Promise<void> {
    const { route } = entry;
    const { request } = context;
    if (hasBody(request) && !route.raw) requireJson(request);
    const key = request.method === "POST" && route.idempotent !== "none" ? keyOf(context) : undefined;
    const { handler, schema } = await load(entry);
    const read = schema || (key !== undefined && !route.raw) ? await readBody(context, key !== undefined) : undefined;
    let body: unknown;
    if (schema && !(read?.bytes.length === 0 && route.bodyOptional)) {
      body = await checkBody(schema, await parseJsonBody(read?.bytes ?? Buffer.alloc(0)));
    }
    if (route.raw) context.setHeaders();
    const { digest } = read ?? {};
    if (key === undefined || digest === undefined) await handler(context, body);
    else if (route.idempotent === "response") {
      context.idempotency = { key, digest };
      await handler(context, body);
    } else await this.#idempotency.once(context, key, digest, async () => handler(context, body));
    if (context.answer || context.response.headersSent || context.response.destroyed || route.raw) return;
    throw new Error(`the handler of ${route.method} ${route.path} did not answer`);
  }

  /** Counts and logs a request whose answer has left or never will. */
  record(context: RequestContext, bytes: number): void {
    const { request, response, route, identity, requestId } = context;
    const { metrics, accessLog } = this.#parts.services;
    const status = context.switched ? 101 : response.headersSent ? response.statusCode : 499;
    const milliseconds = performance.now() - context.startedAt;
    const matched = route && (route.method === request.method || request.method === "HEAD") ? route : undefined;
    // A connection that became another protocol's was answered with its handshake, however long it lives.
    const answering = context.switched ? (context.answeredAt ?? 0) - context.startedAt : milliseconds;
    ((matched && this.#metrics.get(matched)) ?? metrics.unmatched).observe(status, answering);
    context.span?.end({ status, route: route?.path, gone: context.gone });
    if (!accessLog) return;
    const path = JSON.stringify(route?.path ?? (context.switched ? context.path : null));
    const name = JSON.stringify(identity.name);
    accessLog(
      `{"time":"${new Date().toISOString()}","method":"${request.method}","route":${path},"status":${status},` +
        `"ms":${milliseconds.toFixed(1)},"bytes":${bytes},"request_id":"${requestId}","token":${name}${context.gone ? ',"gone":true' : ""}${idsOf(context)}}`,
    );
  }
}

function draining(): DoorError {
  return new DoorError("shutting_down", "The server is shutting down.", { retryAfter: 2 });
}

/** What the request is known by elsewhere, as further members of its line. */
function idsOf({ responseId, span }: RequestContext): string {
  const response = responseId === undefined ? "" : `,"response_id":"${responseId}"`;
  return span ? `${response},"trace_id":"${traceIdOf(span.trace)}"` : response;
}

const EXPOSED = "x-request-id, retry-after, x-should-retry, idempotent-replayed";
const METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
const HEADER_NAMES = /^[\w, -]{1,2000}$/;

function allowed({ entries }: Match): string {
  const methods = [...entries.keys()].flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method]));
  return [...methods, "OPTIONS"].join(", ");
}

/** A preflight of a page, or the plain question what a path takes. */
function answerOptions(context: RequestContext, match: Match | undefined): void {
  const { headers } = context.request;
  if (!match && context.path !== "*") throw new RotundaError("not_found", "There is nothing at this path.");
  const wanted = headers["access-control-request-headers"] ?? "";
  const answer: Record<string, string> = { allow: match ? allowed(match) : METHODS };
  if (headers["access-control-request-method"] !== undefined && headers.origin !== undefined) {
    answer["access-control-allow-methods"] = METHODS;
    if (HEADER_NAMES.test(wanted)) answer["access-control-allow-headers"] = wanted;
    if (headers["access-control-request-private-network"] === "true") {
      answer["access-control-allow-private-network"] = "true";
    }
    answer["access-control-max-age"] = "86400";
  }
  context.empty(204, answer satisfies Headers);
}

function parametersIn(entry: Entry, match: Match): Record<string, string> {
  const found = parametersOf(entry, match.values);
  if (!found) throw new RotundaError("invalid_id", "There is nothing of this id.");
  return found;
}
