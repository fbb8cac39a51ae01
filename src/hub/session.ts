/**
 * Session: one live connection to one server, of either protocol generation, over either transport.
 *
 * Invariant: the client declares no capability but those of `client-features.ts`; while a person is asked, no call of
 * the session spends its time; it compiles no foreign schema, and the library is loaded by `openSession` and not before.
 * stdio begins with the 2025 handshake, HTTP probes for 2026-07-28 first; what worked is told for next time.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Client, ClientOptions, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { GatewayCaller } from "../types/gateway.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { TraceContext } from "../types/telemetry.ts";
import { CallTimers } from "./call-timers.ts";
import { Callers, type OpenCall, type ServerNews } from "./callers.ts";
import { type ClientFeatures, capabilitiesOf, installFeatures } from "./client-features.ts";
import { isObject, type ListedTool, type Listing, ListingReader } from "./definitions.ts";
import { CallFailure, describe, toFailure } from "./failures.ts";
import { createHttpTransport, type HttpEndpoint } from "./http-transport.ts";
import type { LaunchCommand } from "./hub-types.ts";
import type { Era } from "./manifest.ts";
import { loginNeed, type OAuthAccount } from "./oauth-account.ts";
import { StdioTransport } from "./stdio-transport.ts";
import { UnderWay } from "./under-way.ts";

const MODERN = "2026-07-28";
const MAX_PAGES = 64;
/** Milliseconds. */
const LIST_TIMEOUT = 30_000;
const GOODBYE_TIMEOUT = 1000;
const EXIT_PATIENCE = 2000;
const FIRST_LISTEN_DELAY = 2000;
const LAST_LISTEN_DELAY = 60_000;
/** As long as a timer can be. */
const LONGEST = 2 ** 31 - 1;

export interface CallOptions extends OpenCall {
  signal: AbortSignal;
  /** Milliseconds. */
  timeout: number;
  /** Of the span that the call belongs to: the server may go on with it (MCP, SEP-414). */
  trace?: TraceContext;
  progress(progress: { progress: number; total?: number | undefined; message?: string | undefined }): void;
}

/** A request of the gateway. */
export interface RequestOptions extends OpenCall {
  caller: GatewayCaller;
  /** Milliseconds, counted anew with each progress. */
  timeout: number;
  /** Beside those of the protocol, over HTTP. */
  headers?: Record<string, string>;
}

export interface Session {
  readonly era: Era;
  readonly process: StdioTransport | undefined;
  /** All pages of `tools/list`. */
  listTools(signal: AbortSignal): Promise<Listing>;
  /** The raw result, not yet checked. Throws `CallFailure`. */
  callTool(tool: ListedTool, input: JsonObject, options: CallOptions): Promise<unknown>;
  /** What the server says that it can do. */
  readonly capabilities: JsonObject;
  /** Any request, and its result as it is; it may be one that asks for input. Throws `CallFailure`. */
  request(method: string, params: JsonObject, options: RequestOptions): Promise<JsonObject>;
  /** The news tell of this resource until the end that is returned. */
  subscribe(uri: string, options: RequestOptions): Promise<() => void>;
  /** Resolves when no call is under way. */
  idle(): Promise<void>;
  close(): Promise<void>;
}

/** `process` is asked anew for each process. */
export type SessionTarget = { process: () => Promise<LaunchCommand> } | { endpoint: HttpEndpoint };

export interface SessionOptions {
  target: SessionTarget;
  version: string;
  /** The generation that worked before. */
  era: Era | undefined;
  /** Milliseconds for the handshake. */
  timeout: number;
  signal: AbortSignal;
  onToolsChanged(): void;
  onNews(news: ServerNews): void;
  /** The connection ended by itself; once. */
  onClosed(): void;
  /** What the server may ask of us. */
  features: ClientFeatures;
  /** For clients of the gateway that can do this, and in the older protocol alone. */
  only?: { capabilities: JsonObject } | undefined;
  /** The process as soon as it exists: its stderr matters most when the handshake fails. */
  onProcess(transport: StdioTransport): void;
}

type Opening = SessionOptions & { timers: CallTimers; callers: Callers };

/** Connects. Throws what the last attempt threw. */
export async function openSession(given: SessionOptions): Promise<Session> {
  const { target } = given;
  const timers = new CallTimers();
  const options: Opening = { ...given, timers, callers: new Callers(timers, given.onNews) };
  return "process" in target ? openProcess(target.process, options) : openEndpoint(target.endpoint, options);
}

async function openProcess(command: () => Promise<LaunchCommand>, options: Opening): Promise<Session> {
  const eras: Era[] = options.era === "modern" ? ["modern", "legacy"] : ["legacy", "modern"];
  for (const era of eras) {
    const last = era === eras.at(-1);
    const client = await createClient(options, era === "modern" ? { mode: { pin: MODERN } } : undefined);
    const transport = new StdioTransport(await command());
    options.onProcess(transport);
    try {
      await client.connect(transport, { timeout: options.timeout, signal: options.signal });
      options.callers.attach(transport);
      return new LiveSession(client, era, transport, undefined, options);
    } catch (error) {
      // A pipe breaks before its program's end is known: how it ended says more than that.
      if (!options.signal.aborted && isBroken(error)) await transport.endsWithin(EXIT_PATIENCE);
      await transport.close();
      // Only a server that answered, and answered no, may be of the other generation.
      const otherEra = era === "legacy" ? refusesHandshake(error) : !options.signal.aborted;
      if (last || !otherEra) throw startFailure(error, transport);
    }
  }
  throw new Error("no protocol generation to try");
}

function refusesHandshake(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ("code" in error && typeof error.code === "number") || error.message.includes("protocol version");
}

function startFailure(error: unknown, transport: StdioTransport): Error {
  const { ending } = transport;
  if (ending === undefined || ending === "was closed")
    return error instanceof Error ? error : new Error(describe(error));
  const how = ending.replace(/^exited with code/, "ended with exit code");
  return new Error(`the program ${how} before it answered`);
}

function isBroken(error: unknown): boolean {
  if (error instanceof CallFailure) return error.sessionLost;
  return error instanceof Error && "code" in error && error.code === "CONNECTION_CLOSED";
}

async function openEndpoint(endpoint: HttpEndpoint, options: Opening): Promise<Session> {
  const connect = async (knownLegacy: boolean): Promise<Session> => {
    const client = await createClient(options, { mode: "auto" });
    const transport = await createHttpTransport(endpoint);
    try {
      await client.connect(transport, {
        timeout: options.timeout,
        signal: options.signal,
        ...(knownLegacy ? { prior: { kind: "legacy" as const } } : {}),
      });
    } catch (error) {
      await transport.close().catch(() => undefined);
      throw error;
    }
    options.callers.attach(transport);
    return new LiveSession(client, client.getProtocolEra() ?? "legacy", undefined, transport, options);
  };
  if (options.era !== "legacy") return connect(false);
  try {
    return await connect(true);
  } catch (error) {
    // The remembered answer may be out of date; a server that cannot be reached is not a reason to ask again.
    if (options.only || options.signal.aborted || toFailure(error).kind === "not_run") throw error;
    return connect(false);
  }
}

async function createClient(
  options: Opening,
  versionNegotiation: ClientOptions["versionNegotiation"],
): Promise<Client> {
  const { Client: McpClient } = await import("@modelcontextprotocol/client");
  const { features, timers, callers, only } = options;
  const client = new McpClient(
    { name: "rotunda", version: options.version },
    {
      capabilities: (only?.capabilities as ClientOptions["capabilities"]) ?? capabilitiesOf(features),
      // 2026-07-28: a result that asks is sent again with the answer, by the same handler.
      inputRequired: { autoFulfill: Object.keys(features).length > 0 },
      jsonSchemaValidator: {
        getValidator: () => (data) => ({ valid: true, data: data as never, errorMessage: undefined }),
      },
      ...(versionNegotiation ? { versionNegotiation } : {}),
    },
  );
  client.setNotificationHandler("notifications/tools/list_changed", () => options.onToolsChanged());
  installFeatures(client, features, { timers, responseIds: () => callers.responseIds() });
  return client;
}

/** Changes of lists that the server can tell of. */
function listeningTo({ tools, prompts, resources }: JsonObject) {
  const tells = (one: Json | undefined) => isObject(one) && one.listChanged === true;
  return {
    ...(tells(tools) && { toolsListChanged: true }),
    ...(tells(prompts) && { promptsListChanged: true }),
    ...(tells(resources) && { resourcesListChanged: true }),
  };
}

/** 2026-07-28: a request says itself what its client can do, and wants to hear. */
function withCaller(params: JsonObject, { capabilities, logLevel }: GatewayCaller): JsonObject {
  const said = {
    "io.modelcontextprotocol/clientCapabilities": capabilities,
    ...(logLevel !== undefined && { "io.modelcontextprotocol/logLevel": logLevel }),
  };
  return { ...params, _meta: { ...(isObject(params._meta) ? params._meta : {}), ...said } };
}

/** Takes a result as it is: one malformed tool must not cost the whole list, one unknown block not the whole result. */
const anyResult = {
  "~standard": { version: 1, vendor: "rotunda", validate: (value: unknown) => ({ value }) },
} as const;

class LiveSession implements Session {
  readonly era: Era;
  readonly process: StdioTransport | undefined;
  readonly #client: Client;
  readonly #http: StreamableHTTPClientTransport | undefined;
  readonly #timers: CallTimers;
  /** Calls may wait for a person. */
  readonly #mayWait: boolean;
  readonly #underWay = new UnderWay();
  readonly #callers: Callers;
  readonly #account: OAuthAccount | undefined;
  #closing = false;

  constructor(
    client: Client,
    era: Era,
    process: StdioTransport | undefined,
    http: StreamableHTTPClientTransport | undefined,
    options: Opening,
  ) {
    this.era = era;
    this.process = process;
    this.#client = client;
    this.#http = http;
    this.#timers = options.timers;
    this.#mayWait = options.features.elicit !== undefined;
    this.#callers = options.callers;
    this.#account = "endpoint" in options.target ? options.target.endpoint.account : undefined;
    client.onclose = () => {
      if (!this.#closing) options.onClosed();
    };
    void this.#listen(options.onToolsChanged);
  }

  get capabilities(): JsonObject {
    return (this.#client.getServerCapabilities() ?? {}) as JsonObject;
  }

  /** 2026-07-28 tells of changes only on a subscription; one that ends is opened again, ever more slowly. */
  async #listen(onToolsChanged: () => void): Promise<void> {
    const wanted = this.era === "modern" ? listeningTo(this.capabilities) : {};
    if (Object.keys(wanted).length === 0) return;
    for (let delay = FIRST_LISTEN_DELAY; !this.#closing; delay = Math.min(2 * delay, LAST_LISTEN_DELAY)) {
      const subscription = await this.#client.listen(wanted).catch(() => undefined);
      if (subscription && (await subscription.closed) === "local") return;
      await sleep(delay, undefined, { ref: false });
      if (subscription && !this.#closing) onToolsChanged();
    }
  }

  async listTools(signal: AbortSignal): Promise<Listing> {
    const reader = new ListingReader();
    if (!this.#client.getServerCapabilities()?.tools) return reader.listing;
    let cursor: string | undefined;
    for (let page = 0; page < MAX_PAGES; page++) {
      const request = { method: "tools/list", ...(cursor === undefined ? {} : { params: { cursor } }) };
      const result = await this.#client.request(request, anyResult, { timeout: LIST_TIMEOUT, signal });
      if (!isObject(result) || !Array.isArray(result.tools))
        throw new Error("the server's tool list has the wrong shape");
      reader.add(result.tools);
      const last = typeof result.nextCursor !== "string" || result.nextCursor === cursor;
      if (last || reader.full) return reader.listing;
      cursor = String(result.nextCursor);
    }
    throw new Error(`the server's tool list has more than ${MAX_PAGES} pages`);
  }

  async callTool(tool: ListedTool, input: JsonObject, options: CallOptions): Promise<unknown> {
    const timer = this.#mayWait ? this.#timers.start(options.timeout) : undefined;
    const signal = timer ? AbortSignal.any([options.signal, timer.signal]) : options.signal;
    // The library's own timer cannot stand still.
    const how = { signal, timeout: timer ? LONGEST : options.timeout, onprogress: options.progress };
    const params = { name: tool.name, arguments: input, ...(options.trace && { _meta: { ...options.trace } }) };
    return this.#perform(options, options.signal, timer, () => {
      if (!tool.headers || this.era !== "modern")
        return this.#client.request({ method: "tools/call", params }, anyResult, how);
      const toolDefinition = { name: tool.name, inputSchema: { ...tool.input, type: "object" as const } };
      return this.#client.callTool(params, { ...how, toolDefinition });
    });
  }

  async request(method: string, params: JsonObject, options: RequestOptions): Promise<JsonObject> {
    const { caller, headers } = options;
    const timer = this.#timers.start(options.timeout);
    const onprogress =
      caller.onProgress &&
      ((progress: object) => {
        timer.restart();
        caller.onProgress?.(progress as JsonObject);
      });
    const how = {
      signal: AbortSignal.any([caller.signal, timer.signal]),
      timeout: LONGEST,
      allowInputRequired: true,
      ...(onprogress && { onprogress }),
      ...(headers && { headers }),
    };
    const sent = { method, params: this.era === "modern" ? withCaller(params, caller) : params };
    const result = await this.#perform(options, caller.signal, timer, () => this.#client.request(sent, anyResult, how));
    if (!isObject(result)) throw new CallFailure("answered", "the server's result is not an object");
    return result;
  }

  async subscribe(uri: string, options: RequestOptions): Promise<() => void> {
    if (this.era === "modern") {
      const subscription = await this.#client.listen({ resourceSubscriptions: [uri] });
      return () => void subscription.close().catch(() => undefined);
    }
    await this.request("resources/subscribe", { uri }, options);
    return () => void this.request("resources/unsubscribe", { uri }, options).catch(() => undefined);
  }

  async idle(): Promise<void> {
    await this.#underWay.idle();
  }

  async #perform<T>(
    call: OpenCall,
    signal: AbortSignal,
    timer: { stop(): void } | undefined,
    send: () => Promise<T>,
  ): Promise<T> {
    try {
      return await this.#underWay.track(this.#callers.run(call, send));
    } catch (error) {
      throw (await this.#loginFailure(error)) ?? this.#failure(error, signal);
    } finally {
      timer?.stop();
    }
  }

  async #loginFailure(error: unknown): Promise<CallFailure | undefined> {
    const need = loginNeed(error, this.#account);
    if (!need) return undefined;
    // A login that is not enough for this tool may be good for the others.
    await this.#account?.note(need, true);
    return new CallFailure("refused", need.message, { cause: error, needsLogin: need.challenge === undefined });
  }

  #failure(error: unknown, signal: AbortSignal): CallFailure {
    if (signal.aborted) return new CallFailure("cancelled", "the call was cancelled", { cause: error });
    const failure = toFailure(error);
    const status: unknown = error instanceof Error && "status" in error ? error.status : undefined;
    // The server has forgotten our session: it has not looked at the call.
    if (status === 404 && this.#http?.sessionId !== undefined)
      return new CallFailure("not_run", "the server has ended the session", { cause: error, sessionLost: true });
    const ending = this.process?.ending;
    if (failure.sessionLost && ending !== undefined)
      return new CallFailure(failure.kind, `the server ${ending}`, { cause: error, sessionLost: true });
    return failure;
  }

  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    if (this.#http?.sessionId !== undefined) {
      const timer = AbortSignal.timeout(GOODBYE_TIMEOUT);
      const tooLate = new Promise<void>((resolve) => timer.addEventListener("abort", () => resolve(), { once: true }));
      await Promise.race([this.#http.terminateSession().catch(() => undefined), tooLate]);
    }
    await this.#client.close().catch(() => undefined);
    await this.process?.close();
  }
}
