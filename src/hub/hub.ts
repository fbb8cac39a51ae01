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
import type { ServerConfig } from "../types/config.ts";
import { RotundaError } from "../types/error.ts";
import type { Access } from "../types/tool.ts";
import { matchesName } from "../util/text.ts";
import { runCall } from "./calls.ts";
import { describeChange } from "./changes.ts";
import { Connection } from "./connection.ts";
import { describe } from "./failures.ts";
import type { Hub, HubClock, HubEnvironment, HubOptions, HubTool, ServerInfo, ServerTest } from "./hub-types.ts";
import type { PinnedTool } from "./manifest.ts";
import { NameIndex, toolName } from "./tool-names.ts";

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
  const names = new Set<string>();
  for (const { name, origin } of options.servers) {
    if (name === RESERVED || name === "")
      throw new RotundaError("config_invalid", `An MCP server cannot be named ${JSON.stringify(name)} (${origin})`);
    if (names.has(name))
      throw new RotundaError("config_invalid", `Two MCP servers are named ${JSON.stringify(name)} (${origin})`);
    names.add(name);
  }
  return new McpHub(options);
}

interface Entry {
  config: ServerConfig;
  enabled: boolean;
  connection: Connection | undefined;
}

interface BuiltTool {
  source: PinnedTool;
  connection: Connection;
  tool: HubTool;
}

class McpHub implements Hub {
  readonly #entries: Entry[];
  readonly #environment: HubEnvironment;
  #built = new Map<string, BuiltTool>();
  #list: readonly HubTool[] = [];
  #index: NameIndex<HubTool> | undefined;
  #closed = false;

  constructor(options: HubOptions) {
    this.#environment = {
      directory: join(options.stateDir, "hub"),
      workspace: options.workspace,
      launch: options.launch,
      notify: options.notify,
      version: options.version ?? "0",
      clock: options.clock ?? systemClock,
    };
    this.#entries = options.servers.map((config) => ({ config, enabled: !config.disabled, connection: undefined }));
  }

  #connection(entry: Entry): Connection {
    entry.connection ??= new Connection(entry.config, this.#environment);
    return entry.connection;
  }

  #enabled(): Connection[] {
    if (this.#closed) return [];
    return this.#entries.filter((entry) => entry.enabled).map((entry) => this.#connection(entry));
  }

  async list(signal?: AbortSignal): Promise<readonly HubTool[]> {
    const connections = this.#enabled();
    for (const connection of connections) connection.begin();
    await Promise.all(connections.map((connection) => connection.listed(signal)));
    return this.#snapshot();
  }

  async find(name: string): Promise<HubTool | undefined> {
    await this.list();
    this.#index ??= new NameIndex(this.#list);
    return this.#index.find(name);
  }

  /** The present tools; objects and array are those of before wherever nothing has changed. */
  #snapshot(): readonly HubTool[] {
    const built = new Map<string, BuiltTool>();
    for (const connection of this.#enabled()) {
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
      return entry.enabled ? info : { ...info, state: "disabled" };
    });
  }

  async test(name: string): Promise<ServerTest> {
    const entry = this.#entry(name);
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
    const connection = this.#connection(this.#entry(name));
    try {
      await connection.restart();
    } catch (error) {
      throw new RotundaError("hub_unreachable", `MCP server ${name}: ${describe(error)}`, { cause: error });
    }
  }

  async setEnabled(name: string, enabled: boolean): Promise<void> {
    const entry = this.#entry(name);
    entry.enabled = enabled;
    if (enabled) return;
    const connection = entry.connection;
    entry.connection = undefined;
    await connection?.close();
  }

  async accept(tool: string): Promise<void> {
    const found = await this.find(tool);
    if (!found) throw new RotundaError("tool_not_found", `No MCP tool is named ${tool}`);
    this.#connection(this.#entry(found.server)).accept(found.serverName);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#entries.map((entry) => entry.connection?.close()));
  }

  #entry(name: string): Entry {
    const entry = this.#entries.find(({ config }) => config.name === name);
    if (!entry) throw new RotundaError("not_found", `No MCP server is named ${name}`);
    return entry;
  }
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
