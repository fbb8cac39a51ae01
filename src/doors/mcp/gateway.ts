/**
 * The gateway: all servers of the hub, or those of a profile, as one server of MCP.
 *
 * Invariant: it holds no connection of its own; a client that leaves takes its calls and subscriptions with it and
 * nothing else; news of a server reach every client that listens.
 */
import {
  createRequestStateCodec,
  type RequestStateCodec,
  Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { App } from "../../types/app.ts";
import type { Gateway, GatewayCaller, GatewayNews } from "../../types/gateway.ts";
import { GatewayError } from "../../types/gateway.ts";
import { isJsonObject, type JsonObject } from "../../types/json.ts";
import type { McpCaller, McpRequest } from "../../types/mcp.ts";
import { Endpoint } from "./endpoint.ts";
import { Catalog } from "./gateway-catalog.ts";
import { anyJson, type ExchangeOptions, Held, leastOf } from "./gateway-exchange.ts";
import { Outputs } from "./gateway-outputs.ts";
import { answerPlain, type PlainCall, plainCallOf } from "./gateway-plain.ts";
import { GatewaySession, type GatewaySessionOptions, type GatewayState } from "./gateway-session.ts";
import type { Serving } from "./serving.ts";

export interface GatewayOptions {
  app: App;
  /** Its servers and tools alone. */
  profile: string | undefined;
  version: string;
  /** At least 32 bytes. */
  key: Uint8Array;
  onerror?: (error: Error) => void;
}

const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";
const INVALID_PARAMS = -32_602;
/** Seconds that a question may stay unanswered. */
const STATE_KEPT = 3_600;
/** Milliseconds over which news of the same kind are one. */
const NEWS_TOGETHER = 50;
/** Least severe level for those who have named none, once somebody else has named one. */
const USUAL_LEVEL = "info";
const MOST_LISTENED = 200;

const CAPABILITIES = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  completions: {},
  logging: {},
};

const INSTRUCTIONS = "The MCP servers that are configured here, as one: what a name begins with is its server.";

const NONE: Gateway = { servers: () => [], onNews: () => () => undefined };

/** Hands on what servers answer without looking at it. */
class PlainServer extends Server {
  protected override _wrapHandler(..._given: Parameters<Server["_wrapHandler"]>): ReturnType<Server["_wrapHandler"]> {
    return _given[1];
  }
}

interface Subscription {
  server: string;
  own: string;
  end(): void;
}

/** A client with a session. */
interface Listener {
  server: Server;
  level: string | undefined;
  /** By the address that it has named. */
  subscriptions: Map<string, Subscription>;
}

type Codec = RequestStateCodec<GatewayState>;

type Handle = (params: JsonObject, context: ServerContext, session: GatewaySession) => Promise<JsonObject>;

const HANDLERS: Record<string, Handle> = {
  "tools/list": (params, _context, session) => session.listTools(params),
  "tools/call": (params, context, session) => session.callTool(params, context),
  "prompts/list": (params, _context, session) => session.listPrompts(params),
  "prompts/get": (params, context, session) => session.getPrompt(params, context),
  "resources/list": (params, _context, session) => session.listResources(params),
  "resources/templates/list": (params, _context, session) => session.listTemplates(params),
  "resources/read": (params, context, session) => session.readResource(params, context),
  "completion/complete": (params, context, session) => session.complete(params, context),
};

export class GatewayEndpoint {
  readonly #options: GatewayOptions;
  readonly #outputs = new Outputs();
  readonly #held = new Held();
  readonly #listeners = new Set<Listener>();
  /** Addresses that clients of 2026-07-28 listen to. */
  readonly #listened = new Map<Subscription, string>();
  /** Of requests under way of clients with sessions. */
  readonly #leaving = new Map<string, AbortController>();
  readonly #news = new Map<string, NodeJS.Timeout>();
  readonly #levels = new Set<string>();
  #endpoint: Endpoint | undefined;
  #open: { gateway: Gateway; catalog: Catalog; unlisten: () => void } | undefined;

  static async create(options: GatewayOptions): Promise<GatewayEndpoint> {
    const made = new GatewayEndpoint(options);
    const { key, onerror } = options;
    made.#endpoint = await Endpoint.create({
      key,
      sessions: "all",
      ...(onerror && { onerror }),
      factory: (serving) => made.#serve(serving),
    });
    return made;
  }

  private constructor(options: GatewayOptions) {
    this.#options = options;
  }

  async answer(request: McpRequest): Promise<Response> {
    const { body, headers, signal } = request;
    const plain = plainCallOf(request);
    if (plain) return this.#answerPlain(plain, request);
    if (isJsonObject(body) && typeof body.method === "string") {
      const session = headers.get("mcp-session-id");
      // Nobody would hear the answer: streams of sessions are not resumed.
      const leave = () => this.#leaving.get(`${session} ${String(body.id)}`)?.abort();
      if (session !== null) signal.addEventListener("abort", leave, { once: true });
      else if (body.method === "subscriptions/listen") await this.#listen(body, request);
    }
    if (!this.#endpoint) throw new Error("the gateway is not open");
    return this.#endpoint.answer(request);
  }

  async #catalog(): Promise<Catalog> {
    if (this.#open) return this.#open.catalog;
    const { app, profile } = this.#options;
    const gateway = await (await app.hub())?.gateway();
    const catalog = new Catalog(app, gateway ?? NONE, profile);
    if (gateway && !this.#open) {
      const unlisten = gateway.onNews((news) => this.#hear(news));
      this.#open = { gateway, catalog, unlisten };
    }
    return catalog;
  }

  // ---- one server of the SDK: for a request of 2026-07-28, or for a session

  async #serve(serving: Serving): Promise<Server> {
    const { era, caller } = serving;
    const server = new PlainServer(this.#info, {
      capabilities: CAPABILITIES,
      instructions: INSTRUCTIONS,
      jsonSchemaValidator: {
        getValidator: () => (data) => ({ valid: true, data: data as never, errorMessage: undefined }),
      },
    });
    const listener: Listener = { server, level: undefined, subscriptions: new Map() };
    const codec = this.#codecOf(caller);
    const exchange = (context: ServerContext) => this.#exchangeOf(context, serving, listener);
    const project = (result: JsonObject, schema: JsonObject | undefined) =>
      server.projectCallToolResult(result as never, schema) as unknown as JsonObject;
    let session: Promise<GatewaySession> | undefined;
    for (const [method, handle] of Object.entries(HANDLERS)) {
      server.setRequestHandler(method, { params: anyJson }, async (params, context) => {
        // Without a server that is configured, the next request looks again.
        if (!this.#open) session = undefined;
        session ??= this.#sessionOf(caller, codec, exchange, era === "legacy" ? project : undefined);
        return this.#handled(context, codec, async (own) => handle(params, own, (await session) as GatewaySession));
      });
    }
    if (era === "legacy") this.#addSession(listener, exchange);
    return server;
  }

  get #info() {
    return { name: "rotunda-hub", title: "Rotunda: MCP servers", version: this.#options.version };
  }

  #codecOf({ owner }: McpCaller): Codec {
    return createRequestStateCodec({ key: this.#options.key, ttlSeconds: STATE_KEPT, bind: () => owner });
  }

  async #sessionOf(
    caller: McpCaller,
    codec: Codec,
    exchange: (context: ServerContext) => ExchangeOptions,
    project?: GatewaySessionOptions["project"],
  ): Promise<GatewaySession> {
    const { app, profile } = this.#options;
    const catalog = await this.#catalog();
    const parts = { app, caller, catalog, profile, outputs: this.#outputs, held: this.#held, codec, exchange };
    return new GatewaySession(project ? { ...parts, project } : parts);
  }

  #exchangeOf(
    context: ServerContext,
    { era, caller, client }: Pick<Serving, "era" | "caller" | "client">,
    listener: Listener | undefined,
  ): ExchangeOptions {
    const said = context.mcpReq.envelope as JsonObject | undefined;
    const declared = era === "modern" ? said?.[CLIENT_CAPABILITIES] : client?.capabilities;
    const wished = said?.[LOG_LEVEL];
    const level = typeof wished === "string" ? wished : undefined;
    if (level !== undefined) this.#hearFrom(level);
    return {
      owner: caller.owner,
      generation: era,
      capabilities: isJsonObject(declared) ? declared : {},
      level: () => (era === "modern" || !listener ? level : this.#levelOf(listener)),
    };
  }

  async #answerPlain({ id, params, context }: PlainCall, { caller }: McpRequest): Promise<Response> {
    const codec = this.#codecOf(caller);
    const serving = { era: "modern", caller, client: undefined } as const;
    const session = await this.#sessionOf(caller, codec, (own) => this.#exchangeOf(own, serving, undefined));
    return answerPlain(
      id,
      this.#info,
      this.#handled(context, codec, (own) => session.callTool(params, own)),
    );
  }

  /** What came back signed is read, and what is thrown leaves without secrets. */
  async #handled(
    context: ServerContext,
    codec: Codec,
    handle: (context: ServerContext) => Promise<JsonObject>,
  ): Promise<JsonObject> {
    const { sessionId, mcpReq } = context;
    const leave = new AbortController();
    const name = `${sessionId} ${String(mcpReq.id)}`;
    if (sessionId !== undefined) this.#leaving.set(name, leave);
    try {
      const raw = mcpReq.requestState<unknown>();
      const state = raw === undefined ? undefined : await codec.verify(String(raw), context).catch(() => null);
      if (state === null) {
        const data = { reason: "invalid_request_state" };
        throw new GatewayError(INVALID_PARAMS, "Invalid or expired requestState", { data });
      }
      const signal = sessionId === undefined ? mcpReq.signal : AbortSignal.any([mcpReq.signal, leave.signal]);
      return await handle({ ...context, mcpReq: { ...mcpReq, signal, requestState: (() => state) as never } });
    } catch (error) {
      const { redact } = this.#options.app;
      if (error instanceof GatewayError) {
        const { code, message, data } = error;
        throw new GatewayError(
          code,
          redact(message),
          data === undefined ? {} : { data: JSON.parse(redact(JSON.stringify(data))) },
        );
      }
      throw new GatewayError(-32_603, redact(error instanceof Error ? error.message : String(error)));
    } finally {
      if (this.#leaving.get(name) === leave) this.#leaving.delete(name);
    }
  }

  /** What only clients with a session have. */
  #addSession(listener: Listener, exchange: (context: ServerContext) => ExchangeOptions): void {
    const { server } = listener;
    this.#listeners.add(listener);
    server.onclose = () => {
      this.#listeners.delete(listener);
      for (const { end } of listener.subscriptions.values()) end();
    };
    server.setRequestHandler("logging/setLevel", { params: anyJson }, async ({ level }) => {
      if (!leastOf([String(level)])) throw new GatewayError(INVALID_PARAMS, "There is no such level");
      listener.level = String(level);
      this.#hearFrom(listener.level);
      return {};
    });
    server.setRequestHandler("resources/subscribe", { params: anyJson }, async ({ uri }, context) => {
      const { owner, capabilities } = exchange(context);
      listener.subscriptions.get(String(uri))?.end();
      const caller = callerFor(owner, "legacy", capabilities, context.mcpReq.signal);
      listener.subscriptions.set(String(uri), await this.#subscribe(String(uri), caller));
      return {};
    });
    server.setRequestHandler("resources/unsubscribe", { params: anyJson }, async ({ uri }) => {
      listener.subscriptions.get(String(uri))?.end();
      listener.subscriptions.delete(String(uri));
      return {};
    });
  }

  // ---- what lasts longer than a request

  async #subscribe(uri: string, caller: GatewayCaller): Promise<Subscription> {
    const { server, own } = await (await this.#catalog()).findResource(uri);
    return { server: server.name, own, end: await server.subscribe(own, caller) };
  }

  /** 2026-07-28: for as long as the client's stream is open. */
  async #listen({ params }: JsonObject, { caller, signal }: McpRequest): Promise<void> {
    const { notifications, _meta: meta } = isJsonObject(params) ? params : {};
    const { resourceSubscriptions: uris } = isJsonObject(notifications) ? notifications : {};
    await this.#catalog();
    if (!Array.isArray(uris)) return;
    const declared = isJsonObject(meta) ? meta[CLIENT_CAPABILITIES] : undefined;
    const made = callerFor(caller.owner, "modern", isJsonObject(declared) ? declared : {}, signal);
    await Promise.allSettled(
      uris.slice(0, MOST_LISTENED).map(async (uri) => {
        const subscription = await this.#subscribe(String(uri), made);
        this.#listened.set(subscription, String(uri));
        const end = () => {
          this.#listened.delete(subscription);
          subscription.end();
        };
        if (signal.aborted) end();
        else signal.addEventListener("abort", end, { once: true });
      }),
    );
  }

  #levelOf({ level }: Listener): string | undefined {
    return level ?? (this.#levels.size > 0 ? USUAL_LEVEL : undefined);
  }

  #hearFrom(level: string): void {
    if (this.#levels.has(level)) return;
    this.#levels.add(level);
    const least = leastOf([...this.#levels, USUAL_LEVEL]);
    for (const server of this.#open?.gateway.servers() ?? []) if (least !== undefined) server.setLevel(least);
  }

  // ---- news

  /** A server that says the same again and again is heard once in a while. */
  #hear(news: GatewayNews): void {
    const name = news.kind === "updated" ? `${news.server} ${news.uri}` : news.kind;
    if (this.#news.has(name)) return;
    const tell = () => {
      this.#news.delete(name);
      if (news.kind === "updated") this.#tellUpdate(news);
      else this.#tellChange(news.kind);
    };
    this.#news.set(name, setTimeout(tell, NEWS_TOGETHER).unref());
  }

  #tellChange(kind: "tools" | "prompts" | "resources"): void {
    for (const { server } of this.#listeners)
      server.notification({ method: `notifications/${kind}/list_changed` }).catch(() => undefined);
    this.#endpoint?.notify[`${kind}Changed`]();
  }

  #tellUpdate(news: { server: string; uri: string }): void {
    const isMeant = ({ server, own }: Subscription) => server === news.server && own === news.uri;
    for (const { server, subscriptions } of this.#listeners) {
      for (const [uri, subscription] of subscriptions)
        if (isMeant(subscription)) server.sendResourceUpdated({ uri }).catch(() => undefined);
    }
    const uris = new Set([...this.#listened].filter(([one]) => isMeant(one)).map(([, uri]) => uri));
    for (const uri of uris) this.#endpoint?.notify.resourceUpdated(uri);
  }

  async close(): Promise<void> {
    this.#open?.unlisten();
    for (const timer of this.#news.values()) clearTimeout(timer);
    this.#held.close();
    await this.#endpoint?.close();
  }
}

/** Of something that lasts longer than the request that begins it: it hears nothing, and cannot be asked. */
function callerFor(
  owner: string,
  generation: GatewayCaller["generation"],
  capabilities: JsonObject,
  signal: AbortSignal,
): GatewayCaller {
  const ask = () => Promise.reject(Object.assign(new Error("nobody can be asked now"), { code: -32_601 }));
  return { owner, generation, capabilities, signal, notify: () => undefined, ask };
}
