/**
 * Hub: all configured MCP servers as one source of tools.
 *
 * Invariant: `list` gives the tools in the order of the configuration and then of their names, and the same
 * array until something in it changes; a server with a remembered list delays nothing and is started by its
 * first call; nothing of the MCP library is loaded before the first connection; one process of a server
 * serves all runs.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { HubLogLine, LoginAnswer, LoginStart } from "../types/app.ts";
import type { ServerConfig } from "../types/config.ts";
import type { Elicitation, ElicitationAnswer } from "../types/elicitation.ts";
import { RotundaError } from "../types/error.ts";
import type { Gateway } from "../types/gateway.ts";
import type { JsonObject } from "../types/json.ts";
import type { Access } from "../types/tool.ts";
import { canonicalJson } from "../util/canonical.ts";
import { LearnedSecrets } from "../util/secrets.ts";
import { matchesName } from "../util/text.ts";
import { runCall } from "./calls.ts";
import { describeChange } from "./changes.ts";
import { Connection } from "./connection.ts";
import { Elicitations } from "./elicitation.ts";
import { describe } from "./failures.ts";
import type { HubGateway } from "./gateway.ts";
import type { Hub, HubClock, HubEnvironment, HubOptions, HubTool, ServerInfo, ServerTest } from "./hub-types.ts";
import { ServerLog } from "./logs.ts";
import type { PinnedTool } from "./manifest.ts";
import type { OAuthAccount } from "./oauth-account.ts";
import type { Logins } from "./oauth-logins.ts";
import { mayMean, NameIndex, toolName } from "./tool-names.ts";

/** The label of built-in tools: no server may take it. */
const RESERVED = "rotunda";

const systemClock: HubClock = {
  now: () => Date.now(),
  sleep: async (milliseconds, signal) => {
    await sleep(milliseconds, undefined, { signal });
  },
};

/**
 * Makes the hub; starts nothing. Throws `config_invalid` where two servers have one name or a server has the
 * reserved name.
 */
export function createHub(options: HubOptions): Hub {
  checkNames(options.servers);
  return new McpHub(options);
}

function checkNames(servers: readonly ServerConfig[]): void {
  const names = new Set<string>();
  for (const { name, origin } of servers) {
    if (name === RESERVED || name === "")
      throw new RotundaError("config_invalid", `An MCP server cannot be named ${JSON.stringify(name)} (${origin})`);
    if (names.has(name))
      throw new RotundaError("config_invalid", `Two MCP servers are named ${JSON.stringify(name)} (${origin})`);
    names.add(name);
  }
}

interface Entry {
  config: ServerConfig;
  enabled: boolean;
  /** By `stop`, until it is started again. */
  stopped: boolean;
  log: ServerLog;
  connection: Connection | undefined;
}

interface BuiltTool {
  source: PinnedTool;
  connection: Connection;
  tool: HubTool;
}

class McpHub implements Hub {
  #entries: Entry[];
  readonly #environment: HubEnvironment;
  #built = new Map<string, BuiltTool>();
  #list: readonly HubTool[] = [];
  #index: NameIndex<HubTool> | undefined;
  #closed = false;
  /** Connections that only see their last calls through. */
  readonly #retiring = new Set<Connection>();
  #logins: Logins | undefined;
  readonly #secrets = new LearnedSecrets();
  #gateway: HubGateway | undefined;
  #seen: readonly unknown[] = [];

  constructor(options: HubOptions) {
    const clock = options.clock ?? systemClock;
    const { elicitation, reconnect = true } = options;
    this.#environment = {
      directory: join(options.stateDir, "hub"),
      workspace: options.workspace,
      launch: options.launch,
      notify: options.notify,
      version: options.version ?? "0",
      clock,
      sample: options.sample,
      elicitations: elicitation && new Elicitations(elicitation, () => clock.now()),
      reconnect,
      stateDir: options.stateDir,
      secret: (value) => this.#secrets.add(value),
      hear: (server, news) => this.#gateway?.hear(server, news),
      redact: (text) => this.#secrets.redact(text),
    };
    this.#entries = options.servers.map(newEntry);
  }

  #connection(entry: Entry): Connection {
    entry.connection ??= new Connection(entry.config, this.#environment, entry.log);
    return entry.connection;
  }

  #enabled(): Connection[] {
    if (this.#closed) return [];
    return this.#entries.filter((entry) => entry.enabled && !entry.stopped).map((entry) => this.#connection(entry));
  }

  async list(signal?: AbortSignal): Promise<readonly HubTool[]> {
    const connections = this.#enabled();
    for (const connection of connections) connection.begin();
    await Promise.all(connections.map((connection) => connection.listed(signal)));
    return this.#snapshot();
  }

  /** Servers that cannot be meant are neither started nor waited for. */
  async find(name: string): Promise<HubTool | undefined> {
    const meant = this.#enabled().filter(({ config }) => mayMean(name, config.name));
    for (const connection of meant) connection.begin();
    await Promise.all(meant.map((connection) => connection.listed(undefined, true)));
    this.#snapshot();
    this.#index ??= new NameIndex(this.#list);
    return this.#index.find(name);
  }

  /** The present tools; objects and array are those of before wherever nothing has changed. */
  #snapshot(): readonly HubTool[] {
    const built = new Map<string, BuiltTool>();
    const connections = this.#enabled();
    const seen = connections.flatMap((connection) => [connection, connection.tools]);
    if (seen.length === this.#seen.length && seen.every((one, at) => one === this.#seen[at])) return this.#list;
    this.#seen = seen;
    for (const connection of connections) {
      for (const source of connection.tools ?? []) {
        const name = toolName(connection.config.name, source.name);
        if (built.has(name)) continue;
        const before = this.#built.get(name);
        const same = before?.connection === connection && sameDefinition(before.source, source);
        built.set(name, same ? before : { source, connection, tool: this.#build(name, connection, source) });
      }
    }
    const tools = [...built.values()].map(({ tool }) => tool);
    const same = tools.length === this.#list.length && tools.every((tool, at) => tool === this.#list[at]);
    this.#built = built;
    if (!same) {
      this.#list = Object.freeze(tools);
      this.#index = undefined;
    }
    return this.#list;
  }

  #build(name: string, connection: Connection, source: PinnedTool): HubTool {
    const { config } = connection;
    const { access, repeatable } = decideAccess(config, source.name);
    const { clock } = this.#environment;
    return {
      name,
      server: config.name,
      serverName: source.name,
      ...(source.title === undefined ? {} : { title: source.title }),
      description: `${source.description}\n\n[MCP Server: ${config.name}]`.trimStart(),
      input: source.input,
      access,
      repeatable,
      ...(source.previous ? { changed: describeChange(source.previous, source) } : {}),
      run: (input, context) => runCall({ connection, tool: source, input, repeatable, clock }, context),
    };
  }

  servers(): ServerInfo[] {
    return this.#entries.map((entry) => {
      const info = this.#connection(entry).info();
      if (!entry.enabled) return { ...info, enabled: false, state: "disabled" };
      return entry.stopped ? { ...info, state: "stopped" } : info;
    });
  }

  async test(name: string): Promise<ServerTest> {
    const entry = this.#entry(name);
    entry.stopped = false;
    const connection = this.#connection(entry);
    const began = performance.now();
    const error = await connection.retry().then(
      () => undefined,
      (thrown: unknown) => describe(thrown),
    );
    const { toolCount, stderrTail } = connection.info();
    if (!entry.enabled) await this.setEnabled(name, false);
    return {
      ok: error === undefined,
      toolCount,
      milliseconds: Math.round(performance.now() - began),
      ...(error === undefined ? {} : { error }),
      ...(stderrTail === undefined ? {} : { stderrTail }),
    };
  }

  async restart(name: string): Promise<void> {
    const entry = this.#entry(name);
    if (!entry.enabled) throw new RotundaError("usage", `MCP server ${name} is turned off`);
    entry.stopped = false;
    const connection = this.#connection(entry);
    try {
      await connection.restart();
    } catch (error) {
      throw new RotundaError("hub_unreachable", `MCP server ${name}: ${describe(error)}`, { cause: error });
    }
  }

  async setEnabled(name: string, enabled: boolean): Promise<void> {
    const entry = this.#entry(name);
    entry.enabled = enabled;
    entry.stopped = false;
    this.#gateway?.changed();
    if (!enabled) await this.#retire(entry);
  }

  async stop(name: string): Promise<void> {
    const entry = this.#entry(name);
    entry.stopped = true;
    const { connection } = entry;
    entry.connection = undefined;
    this.#gateway?.changed();
    await connection?.close();
    entry.log.add(this.#environment.clock.now(), `Server ${name} stopped`);
  }

  replace(servers: readonly ServerConfig[]): void {
    checkNames(servers);
    const before = new Map(this.#entries.map((entry) => [entry.config.name, entry]));
    this.#entries = servers.map((config) => {
      const known = before.get(config.name);
      before.delete(config.name);
      if (!known) return newEntry(config);
      const enabled = !config.disabled;
      if (enabled !== known.enabled) known.stopped = false;
      if (!enabled || !sameServer(known.config, config)) this.#retire(known).catch(() => undefined);
      known.config = config;
      known.enabled = enabled;
      return known;
    });
    for (const gone of before.values()) this.#retire(gone).catch(() => undefined);
    this.#gateway?.changed();
  }

  /** The entry's next connection is a new one. */
  async #retire(entry: Entry): Promise<void> {
    const { connection } = entry;
    if (!connection) return;
    entry.connection = undefined;
    this.#retiring.add(connection);
    await connection.retire();
    this.#retiring.delete(connection);
  }

  connect(): void {
    for (const connection of this.#enabled()) connection.open().catch(() => undefined);
  }

  logs(name: string): HubLogLine[] {
    return this.#connection(this.#entry(name)).logs();
  }

  clearLogs(name: string): void {
    this.#entry(name).log.clear();
  }

  // ---- logins

  redact(text: string): string {
    return this.#secrets.redact(text);
  }

  async #account(name: string): Promise<{ account: OAuthAccount; logins: Logins }> {
    const { account } = this.#connection(this.#entry(name));
    if (!account) throw new RotundaError("usage", `MCP server ${name} is not one that is logged in to`);
    const { Logins: LoginsHere } = await import("./oauth-logins.ts");
    this.#logins ??= new LoginsHere(() => this.#environment.clock.now());
    return { account, logins: this.#logins };
  }

  async beginLogin(name: string, redirectUrl: string): Promise<LoginStart> {
    const { account, logins } = await this.#account(name);
    return logins.begin(account, redirectUrl);
  }

  async finishLogin(answer: LoginAnswer): Promise<string> {
    if (!this.#logins) throw new RotundaError("not_found", "no login is under way");
    return this.#loggedIn(await this.#logins.finish(answer));
  }

  async login(name: string, show: (start: LoginStart) => void, signal: AbortSignal): Promise<void> {
    const { account, logins } = await this.#account(name);
    await this.#loggedIn(await logins.throughLoopback(account, show, signal));
  }

  /** It may have been configured anew in the meantime: then the tokens are there, and nobody waits for them. */
  async #loggedIn({ server }: OAuthAccount): Promise<string> {
    if (this.#entries.some(({ config }) => config.name === server)) await this.test(server);
    return server;
  }

  async logout(name: string): Promise<{ revoked: boolean }> {
    const { account } = await this.#account(name);
    const { login } = account.store.read();
    if (!login) return { revoked: false };
    const { revoke } = await import("./oauth-login.ts");
    await account.store.change(() => ({ challenge: {} }));
    await this.#retire(this.#entry(name));
    return { revoked: await revoke(account, login) };
  }

  async gateway(): Promise<Gateway> {
    if (this.#gateway) return this.#gateway;
    const { HubGateway: GatewayHere } = await import("./gateway.ts");
    this.#gateway ??= new GatewayHere(() => this.#enabled(), this.#environment);
    return this.#gateway;
  }

  elicitations(): Elicitation[] {
    return this.#environment.elicitations?.pending() ?? [];
  }

  answerElicitation(id: string, answer: ElicitationAnswer): void {
    const { elicitations } = this.#environment;
    if (!elicitations) throw new RotundaError("not_found", `no elicitation ${id.slice(0, 60)} waits for an answer`);
    elicitations.answer(id, answer);
  }

  async accept(tool: string): Promise<void> {
    const found = await this.find(tool);
    if (!found) throw new RotundaError("tool_not_found", `No MCP tool is named ${tool}`);
    this.#connection(this.#entry(found.server)).accept(found.serverName);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#environment.elicitations?.close();
    const connections = [...this.#entries.map((entry) => entry.connection), ...this.#retiring];
    await Promise.all([...connections.map((connection) => connection?.close()), this.#gateway?.close()]);
  }

  #entry(name: string): Entry {
    const entry = this.#entries.find(({ config }) => config.name === name);
    if (!entry) throw new RotundaError("not_found", `No MCP server is named ${name}`);
    return entry;
  }
}

function newEntry(config: ServerConfig): Entry {
  return { config, enabled: !config.disabled, stopped: false, log: new ServerLog(), connection: undefined };
}

/** The same process would be started, and used in the same way. */
function sameServer(before: ServerConfig, now: ServerConfig): boolean {
  const essence = ({ disabled: _disabled, origin: _origin, ...rest }: ServerConfig) =>
    canonicalJson(rest as unknown as JsonObject);
  return essence(before) === essence(now);
}

function sameDefinition(before: PinnedTool, now: PinnedTool): boolean {
  return before.fingerprint === now.fingerprint && before.previous?.fingerprint === now.previous?.fingerprint;
}

/**
 * What our configuration says of a tool: an exact name first, then the globs in their order. Without a word
 * from it a tool may do anything ("run") and is not repeatable, whatever the server's annotations claim.
 */
function decideAccess(config: ServerConfig, tool: string): { access: Access; repeatable: boolean } {
  const rules = Object.entries(config.tools ?? {});
  const exact = rules.filter(([pattern]) => pattern === tool);
  const matching = [...exact, ...rules.filter(([pattern]) => pattern !== tool && matchesName(pattern, tool))];
  const access = matching.find(([, rule]) => rule.access !== undefined)?.[1].access ?? "run";
  const idempotent = matching.find(([, rule]) => rule.idempotent !== undefined)?.[1].idempotent;
  return { access, repeatable: idempotent ?? access === "read" };
}
