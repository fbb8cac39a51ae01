/**
 * Gateway: the hub's servers for a door that hands them on.
 *
 * Invariant: it starts nothing by itself; a server's part of it lives as long as its connection is the one in use.
 */
import type { Gateway, GatewayNews, GatewayServer } from "../types/gateway.ts";
import type { ServerNews } from "./callers.ts";
import type { Connection } from "./connection.ts";
import { ServedServer } from "./gateway-server.ts";
import type { HubEnvironment } from "./hub-types.ts";

export class HubGateway implements Gateway {
  readonly #connections: () => readonly Connection[];
  readonly #environment: HubEnvironment;
  readonly #served = new Map<Connection, ServedServer>();
  readonly #listeners = new Set<(news: GatewayNews) => void>();

  constructor(connections: () => readonly Connection[], environment: HubEnvironment) {
    this.#connections = connections;
    this.#environment = environment;
  }

  servers(): readonly GatewayServer[] {
    const connections = this.#connections();
    const servers = connections.map((connection) => {
      let server = this.#served.get(connection);
      if (!server) {
        server = new ServedServer(connection, this.#environment, (news) => this.hear(connection.config.name, news));
        this.#served.set(connection, server);
      }
      return server;
    });
    if (this.#served.size > connections.length) this.#prune(new Set(connections));
    return servers;
  }

  #prune(used: ReadonlySet<Connection>): void {
    for (const [connection, server] of this.#served) {
      if (used.has(connection)) continue;
      this.#served.delete(connection);
      server.close().catch(() => undefined);
    }
  }

  onNews(listener: (news: GatewayNews) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  hear(server: string, news: ServerNews): void {
    const served = [...this.#served.values()].find(({ name }) => name === server);
    if (news.kind === "opened") served?.opened();
    else if (news.kind === "updated") this.#tell({ ...news, server });
    else {
      served?.forget(news.kind);
      this.#tell({ kind: news.kind, server });
    }
  }

  /** Other servers are in use than before. */
  changed(): void {
    for (const kind of ["tools", "resources", "prompts"] as const) this.#tell({ kind, server: "" });
  }

  #tell(news: GatewayNews): void {
    for (const listener of this.#listeners) listener(news);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#served.values()].map((server) => server.close()));
  }
}
