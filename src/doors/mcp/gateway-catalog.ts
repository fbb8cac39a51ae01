/**
 * The gateway's catalog: what the servers offer, under names and addresses that are unambiguous over all of them.
 *
 * Invariant: a name or address that a list has told leads back to the one thing that it stood for; two things never
 * have the same one, and none of them that of a tool of our own. Everything is found by its prefixed name as well.
 */
import type { App } from "../../types/app.ts";
import type { Config } from "../../types/config.ts";
import { type Gateway, GatewayError, type GatewayKind, type GatewayServer } from "../../types/gateway.ts";
import type { JsonObject } from "../../types/json.ts";
import type { Tool } from "../../types/tool.ts";
import { matchesList, visible } from "../../util/text.ts";
import { OWN_TOOLS } from "./gateway-tools.ts";

/** Something of a server, by the server's own name for it. */
export interface Found {
  server: GatewayServer;
  own: string;
}

export interface FoundTool extends Found {
  tool: Tool;
}

interface Tools {
  all: readonly Tool[];
  config: Config;
  tools: readonly Tool[];
  byName: ReadonlyMap<string, Tool>;
  /** By the tools' prefixed names. */
  names: ReadonlyMap<string, string>;
}

const INVALID_PARAMS = -32_602;
const WRAPPED = "hub://";

export class Catalog {
  readonly #app: App;
  readonly #gateway: Gateway;
  readonly #profile: string | undefined;
  #known: Tools | undefined;

  constructor(app: App, gateway: Gateway, profile: string | undefined) {
    this.#app = app;
    this.#gateway = gateway;
    this.#profile = profile;
  }

  get #prefix(): boolean {
    return this.#app.config.mcp.gateway?.prefix ?? true;
  }

  async servers(): Promise<readonly GatewayServer[]> {
    const servers = this.#gateway.servers();
    if (this.#profile === undefined) return servers;
    const { servers: globs } = await this.#app.profile(this.#profile);
    return globs ? servers.filter(({ name }) => matchesList(globs, [name])) : servers;
  }

  // ---- tools

  async #tools(): Promise<Tools> {
    const all = await this.#app.engine.tools();
    const { config } = this.#app;
    if (this.#known?.all === all && this.#known.config === config) return this.#known;
    const offered = this.#profile === undefined ? all : await this.#app.engine.tools(this.#profile);
    const tools = offered.filter(({ server }) => server !== "rotunda");
    const count = new Map<string, number>();
    for (const { serverName } of tools) count.set(serverName, (count.get(serverName) ?? 0) + 1);
    const taken = new Set([...OWN_TOOLS, ...tools.map(({ name }) => name)]);
    const bare = ({ serverName }: Tool) => !this.#prefix && count.get(serverName) === 1 && !taken.has(serverName);
    const names = new Map(tools.map((tool) => [tool.name, bare(tool) ? tool.serverName : tool.name]));
    const byName = new Map([
      ...tools.map((tool) => [tool.name, tool] as const),
      ...tools.filter(bare).map((tool) => [tool.serverName, tool] as const),
    ]);
    this.#known = { all, config, tools, byName, names };
    return this.#known;
  }

  /** Those that may be used, as the hub knows them: asks no server. */
  async knownTools(): Promise<readonly Tool[]> {
    return (await this.#tools()).tools;
  }

  async exposedName({ name }: Tool): Promise<string> {
    return (await this.#tools()).names.get(name) ?? name;
  }

  /** Throws `GatewayError`. */
  async findTool(name: string): Promise<FoundTool> {
    const tool = (await this.#tools()).byName.get(name);
    const server = tool && this.#gateway.servers().find((one) => one.name === tool.server);
    if (tool && server) return { server, own: tool.serverName, tool };
    throw new GatewayError(INVALID_PARAMS, `Unknown tool: ${visible(name.slice(0, 200))}`);
  }

  /** As the servers describe them; those of a server that cannot be reached are missing. */
  async listTools(): Promise<JsonObject[]> {
    const lists = await this.#lists("tools");
    const { byName, names } = await this.#tools();
    return lists.flatMap(({ server, entries }) =>
      entries.flatMap((entry) => {
        const tool = byName.get(server.nameOf(String(entry.name)));
        if (!tool || tool.server !== server.name) return [];
        const { description } = entry;
        // Nobody is shown what a person could not see.
        const shown = typeof description === "string" ? { description: visible(description) } : {};
        return [{ ...entry, ...shown, name: names.get(tool.name) ?? tool.name }];
      }),
    );
  }

  async #lists(kind: GatewayKind): Promise<{ server: GatewayServer; entries: readonly JsonObject[] }[]> {
    const servers = await this.servers();
    const lists = await Promise.allSettled(servers.map((server) => server.list(kind)));
    return servers.flatMap((server, at) => {
      const list = lists[at];
      return list?.status === "fulfilled" ? [{ server, entries: list.value }] : [];
    });
  }

  // ---- prompts

  async listPrompts(): Promise<JsonObject[]> {
    return this.#named(await this.#lists("prompts"), "name", (server, own) => server.nameOf(own));
  }

  /** Throws `GatewayError`. */
  async findPrompt(name: string): Promise<Found> {
    const found = await this.#find("prompts", "name", name, (server, own) => server.nameOf(own));
    if (found) return found;
    throw new GatewayError(INVALID_PARAMS, `Unknown prompt: ${visible(name.slice(0, 200))}`);
  }

  // ---- resources

  async listResources(): Promise<JsonObject[]> {
    return this.#named(await this.#lists("resources"), "uri", wrap);
  }

  async listTemplates(): Promise<JsonObject[]> {
    return this.#named(await this.#lists("resourceTemplates"), "uriTemplate", wrap);
  }

  /** The server that an address leads to, and the address there. Throws `GatewayError`. */
  async findResource(uri: string): Promise<Found> {
    const servers = await this.servers();
    const inner = unwrap(uri);
    const named = inner && servers.find(({ name }) => name === inner.server);
    if (named) return { server: named, own: inner.uri };
    const found = (await this.#find("resources", "uri", uri, wrap)) ?? (await this.#byTemplate(uri));
    if (found) return found;
    // Servers may have resources that they do not list: the only one that has any is asked.
    const lists = await this.#lists("resources");
    const having = lists.length === 1 ? lists : lists.filter(({ entries }) => entries.length > 0);
    const [only] = having;
    if (only && having.length === 1) return { server: only.server, own: uri };
    throw new GatewayError(INVALID_PARAMS, `Resource not found: ${visible(uri.slice(0, 500))}`, { data: { uri } });
  }

  /** The template with the longest beginning that fits. */
  async #byTemplate(uri: string): Promise<Found | undefined> {
    let best: { server: GatewayServer; length: number } | undefined;
    for (const { server, entries } of await this.#lists("resourceTemplates")) {
      for (const { uriTemplate } of entries) {
        const own = String(uriTemplate);
        if (own === uri) return { server, own };
        const beginning = own.split("{", 1)[0] ?? "";
        if (beginning !== "" && uri.startsWith(beginning) && beginning.length > (best?.length ?? 0))
          best = { server, length: beginning.length };
      }
    }
    return best && { server: best.server, own: uri };
  }

  /** The address that stands for one of a server's own. */
  async exposedUri(server: GatewayServer, uri: string): Promise<string> {
    if (this.#prefix) return wrap(server, uri);
    const lists = await this.#lists("resources");
    const having = lists.filter(({ entries }) => entries.some((entry) => entry.uri === uri));
    return having.length > 1 ? wrap(server, uri) : uri;
  }

  /** Whether addresses in results are other than the servers' own. */
  get wraps(): boolean {
    return this.#prefix;
  }

  // ---- names in general

  #named(
    lists: { server: GatewayServer; entries: readonly JsonObject[] }[],
    key: string,
    prefixed: (server: GatewayServer, own: string) => string,
  ): JsonObject[] {
    const count = new Map<unknown, number>();
    for (const { entries } of lists)
      for (const entry of entries) count.set(entry[key], (count.get(entry[key]) ?? 0) + 1);
    return lists.flatMap(({ server, entries }) =>
      entries.map((entry) => {
        const bare = !this.#prefix && count.get(entry[key]) === 1;
        return bare ? entry : { ...entry, [key]: prefixed(server, String(entry[key])) };
      }),
    );
  }

  async #find(
    kind: GatewayKind,
    key: string,
    name: string,
    prefixed: (server: GatewayServer, own: string) => string,
  ): Promise<Found | undefined> {
    const bare: Found[] = [];
    for (const { server, entries } of await this.#lists(kind)) {
      for (const entry of entries) {
        const own = String(entry[key]);
        if (prefixed(server, own) === name) return { server, own };
        if (own === name) bare.push({ server, own });
      }
    }
    return bare.length === 1 ? bare[0] : undefined;
  }
}

/** Put in front of the whole address, so that templates still expand to it. */
export function wrap(server: GatewayServer, uri: string): string {
  return `${WRAPPED}${encodeURIComponent(server.name)}/${uri}`;
}

function unwrap(uri: string): { server: string; uri: string } | undefined {
  const [, server, inner] = /^hub:\/\/([^/]+)\/(.*)$/s.exec(uri) ?? [];
  if (server === undefined || inner === undefined) return undefined;
  try {
    return { server: decodeURIComponent(server), uri: inner };
  } catch {
    return undefined;
  }
}

const PAGE = 1_000;

/** One page of a list. Throws `GatewayError`. */
export function pageOf(
  entries: readonly JsonObject[],
  cursor: unknown,
): { entries: JsonObject[]; nextCursor?: string } {
  const start = cursor === undefined ? 0 : Number(/^from-(\d{1,9})$/.exec(String(cursor))?.[1]);
  if (Number.isNaN(start)) throw new GatewayError(INVALID_PARAMS, "Invalid cursor");
  const next = start + PAGE;
  return { entries: entries.slice(start, next), ...(next < entries.length && { nextCursor: `from-${next}` }) };
}
