/**
 * Served server: one server of the gateway, as it is.
 *
 * Invariant: a process is shared by everybody, and so is a connection of 2026-07-28, in which each request says itself
 * what its client can do. In the older protocols a connection says it once: over HTTP there is one for each kind of
 * client, so that a server is never told of something that the client which calls it cannot do.
 */
import type { GatewayAnswer, GatewayCaller, GatewayKind, GatewayServer } from "../types/gateway.ts";
import { GatewayError } from "../types/gateway.ts";
import { isJsonObject, type JsonObject } from "../types/json.ts";
import type { ServerNews } from "./callers.ts";
import { Connection } from "./connection.ts";
import { CallFailure, describe, settledWithin, toFailure } from "./failures.ts";
import type { HubEnvironment } from "./hub-types.ts";
import { ServerLog } from "./logs.ts";
import { parameterHeaders } from "./parameter-headers.ts";
import type { Session } from "./session.ts";
import { toolName } from "./tool-names.ts";

/** Seconds. */
const DEFAULT_TIMEOUT = 120;
const DEFAULT_START_TIMEOUT = 10;
/** Milliseconds for a page of a list, and until a server is asked again for a generation that it has refused. */
const LIST_TIMEOUT = 30_000;
const REFUSAL_KEPT = 5 * 60_000;
const MAX_PAGES = 64;
const MAX_ENTRIES = 5_000;

const LISTS = {
  tools: { method: "tools/list", capability: "tools", part: "tools" },
  resources: { method: "resources/list", capability: "resources", part: "resources" },
  resourceTemplates: { method: "resources/templates/list", capability: "resources", part: "resourceTemplates" },
  prompts: { method: "prompts/list", capability: "prompts", part: "prompts" },
} as const;

const INTERNAL = -32_603;
const NOBODY = new AbortController().signal;

/** Who lists: nobody's client. */
const LISTER: GatewayCaller = {
  owner: "",
  generation: "modern",
  capabilities: {},
  signal: NOBODY,
  notify: () => undefined,
  ask: () => Promise.reject(Object.assign(new Error("nobody can be asked"), { code: -32_601 })),
};

interface Subscription {
  uri: string;
  caller: GatewayCaller;
  count: number;
  end: (() => void) | undefined;
}

export class ServedServer implements GatewayServer {
  readonly name: string;
  readonly #main: Connection;
  readonly #environment: HubEnvironment;
  readonly #others = new Map<string, Connection>();
  readonly #lists = new Map<GatewayKind, Promise<readonly JsonObject[]>>();
  readonly #reading = new Set<GatewayKind>();
  readonly #subscriptions = new Map<string, Subscription>();
  #refusedAt = Number.NEGATIVE_INFINITY;
  #level: string | undefined;

  constructor(main: Connection, environment: HubEnvironment, hear: (news: ServerNews) => void) {
    this.#main = main;
    this.name = main.config.name;
    // Its lists are those of the main connection; what is told of them twice would only be read twice.
    const others = (news: ServerNews) => {
      if (news.kind === "updated") hear(news);
      else if (news.kind === "opened") this.opened();
    };
    this.#environment = {
      ...environment,
      elicitations: undefined,
      reconnect: false,
      hear: (_server, news) => others(news),
    };
  }

  nameOf(own: string): string {
    return toolName(this.name, own);
  }

  accept(tool: string): void {
    this.#main.accept(tool);
  }

  // ---- lists

  async list(kind: GatewayKind): Promise<readonly JsonObject[]> {
    let list = this.#lists.get(kind);
    if (!list) {
      this.#reading.add(kind);
      list = this.#read(kind).finally(() => this.#reading.delete(kind));
      this.#lists.set(kind, list);
      list.catch(() => {
        if (this.#lists.get(kind) === list) this.#lists.delete(kind);
      });
    }
    return list;
  }

  forget(kind: "tools" | "resources" | "prompts"): void {
    this.#lists.delete(kind);
    if (kind === "resources") this.#lists.delete("resourceTemplates");
  }

  async #read(kind: GatewayKind): Promise<readonly JsonObject[]> {
    const opening = this.#main.session ? undefined : this.#main.open();
    if (opening) {
      // One that is slow to start keeps nobody waiting: when it is there, that is news.
      const limit = (this.#main.config.startTimeout ?? DEFAULT_START_TIMEOUT) * 1000;
      await settledWithin(opening, limit, this.#environment.clock, undefined);
      if (!this.#main.session) throw await this.#notOpen(opening);
    }
    return this.#attempt(() => this.#main.use(NOBODY, (session) => this.#pages(kind, session)));
  }

  async #notOpen(opening: Promise<Session>): Promise<GatewayError> {
    const late = Promise.resolve(new Error("it has not started yet"));
    const error = await Promise.race([
      opening.then(
        () => new Error("it has ended"),
        (thrown: unknown) => thrown,
      ),
      late,
    ]);
    return failure(error, this.name);
  }

  async #pages(kind: GatewayKind, session: Session): Promise<readonly JsonObject[]> {
    const { method, capability, part } = LISTS[kind];
    if (session.capabilities[capability] === undefined) return [];
    const entries: JsonObject[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < MAX_PAGES && entries.length < MAX_ENTRIES; page++) {
      const options = { responseId: "", caller: LISTER, timeout: LIST_TIMEOUT };
      const result = await session.request(method, cursor === undefined ? {} : { cursor }, options);
      const found = result[part];
      if (!Array.isArray(found)) throw new CallFailure("answered", `its answer to ${method} has the wrong shape`);
      entries.push(...found.filter(isJsonObject));
      if (typeof result.nextCursor !== "string" || result.nextCursor === cursor) break;
      cursor = result.nextCursor;
    }
    if (kind !== "tools") return entries.slice(0, MAX_ENTRIES);
    // What the hub has left out as unusable is not handed on either.
    const usable = new Set(this.#main.tools?.map(({ name }) => name));
    return entries.filter(({ name }) => typeof name === "string" && usable.has(name));
  }

  // ---- requests

  async request(method: string, params: JsonObject, caller: GatewayCaller): Promise<GatewayAnswer> {
    const timeout = (this.#main.config.timeout ?? DEFAULT_TIMEOUT) * 1000;
    return this.#attempt(async () => {
      const connection = await this.#connectionFor(caller);
      const send = () =>
        connection.use(caller.signal, async (session) => {
          const headers = method === "tools/call" ? this.#headers(session, params) : undefined;
          const options = { responseId: "", caller, timeout, ...(headers && { headers }) };
          return { result: await session.request(method, params, options), generation: session.era };
        });
      const worked = connection.session !== undefined;
      return send().catch((error: unknown) => {
        // It was gone before it could have read the request: a new one may.
        if (!worked || !(error instanceof CallFailure) || error.kind !== "not_run") throw error;
        return send();
      });
    });
  }

  async #attempt<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw failure(error, this.name);
    }
  }

  /** Parameters that a tool of 2026-07-28 wants as headers, too. */
  #headers(session: Session, { name, arguments: input }: JsonObject): Record<string, string> | undefined {
    if (session.era !== "modern" || session.process) return undefined;
    const tool = this.#main.tools?.find((one) => one.name === name);
    return tool?.headers && isJsonObject(input) ? parameterHeaders(tool.input, input) : undefined;
  }

  async #connectionFor(caller: GatewayCaller): Promise<Connection> {
    const main = this.#main;
    if (main.config.transport === "stdio") return main;
    const session = main.session ?? (await main.open());
    const { now } = this.#environment.clock;
    const refused = now() - this.#refusedAt < REFUSAL_KEPT;
    if (session.era === "modern" && (caller.generation === "modern" || refused)) return main;
    const other = this.#other(caller.capabilities);
    if (other.session) return other;
    try {
      await other.open();
      return other;
    } catch (error) {
      if (session.era !== "modern") throw error;
      // It speaks 2026-07-28 alone: what can be translated is.
      this.#refusedAt = now();
      return main;
    }
  }

  #other(declared: JsonObject): Connection {
    const { elicitation, sampling, roots } = declared;
    const capabilities: JsonObject = {
      ...(elicitation !== undefined && { elicitation }),
      ...(sampling !== undefined && { sampling }),
      ...(roots !== undefined && { roots: {} }),
    };
    const key = JSON.stringify(capabilities);
    let other = this.#others.get(key);
    if (!other) {
      other = new Connection(this.#main.config, this.#environment, new ServerLog(), { capabilities });
      this.#others.set(key, other);
    }
    return other;
  }

  // ---- what lasts longer than a request

  async subscribe(uri: string, caller: GatewayCaller): Promise<() => void> {
    const key = `${caller.generation} ${uri}`;
    let subscription = this.#subscriptions.get(key);
    if (!subscription) {
      const lasting = {
        ...LISTER,
        owner: caller.owner,
        generation: caller.generation,
        capabilities: caller.capabilities,
      };
      subscription = { uri, caller: lasting, count: 0, end: undefined };
      this.#subscriptions.set(key, subscription);
      try {
        await this.#attempt(() => this.#begin(subscription as Subscription));
      } catch (error) {
        this.#subscriptions.delete(key);
        throw error;
      }
    }
    const held = subscription;
    held.count++;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      if (--held.count > 0 || this.#subscriptions.get(key) !== held) return;
      this.#subscriptions.delete(key);
      held.end?.();
    };
  }

  async #begin(subscription: Subscription): Promise<void> {
    const { uri, caller } = subscription;
    const connection = await this.#connectionFor(caller);
    subscription.end = await connection.use(NOBODY, (session) =>
      session.subscribe(uri, { responseId: "", caller, timeout: LIST_TIMEOUT }),
    );
  }

  setLevel(level: string): void {
    this.#level = level;
    for (const connection of [this.#main, ...this.#others.values()]) this.#applyLevel(connection);
  }

  #applyLevel({ session }: Connection): void {
    if (this.#level === undefined || session?.era !== "legacy" || session.capabilities.logging === undefined) return;
    const options = { responseId: "", caller: LISTER, timeout: LIST_TIMEOUT };
    session.request("logging/setLevel", { level: this.#level }, options).catch(() => undefined);
  }

  /** A connection is new: the server knows nothing of what was asked of the one before. */
  opened(): void {
    for (const kind of this.#lists.keys()) if (!this.#reading.has(kind)) this.#lists.delete(kind);
    if (this.#level !== undefined) this.setLevel(this.#level);
    for (const subscription of this.#subscriptions.values()) {
      if (subscription.end) this.#begin(subscription).catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#others.values()].map((connection) => connection.close()));
  }
}

/** What a server has answered goes on as it is; everything else is told in our words. */
function failure(error: unknown, server: string): GatewayError {
  if (error instanceof GatewayError) return error;
  const known = error instanceof CallFailure ? error : toFailure(error);
  const cause = known.cause ?? error;
  const code: unknown = cause instanceof Error && "code" in cause ? cause.code : undefined;
  if (cause instanceof Error && typeof code === "number" && !("status" in cause)) {
    const data: unknown = "data" in cause ? cause.data : undefined;
    return new GatewayError(code, cause.message, { data, answered: true, cause });
  }
  const run = known.kind === "unknown" || known.kind === "timed_out" ? ". It may have taken effect" : "";
  return new GatewayError(INTERNAL, `MCP server ${server}: ${describe(known)}${run}`, { cause: known });
}
