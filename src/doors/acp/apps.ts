/**
 * The apps of this connection: one for each directory and set of the client's MCP servers.
 *
 * Invariant: an app lives as long as a session uses it, and with it the processes of its servers.
 */
import type { App } from "../../types/app.ts";
import type { Config, ServerConfig } from "../../types/config.ts";
import { canonicalJson } from "../../util/canonical.ts";
import { isSecretName, secretsInArguments, secretsInUrl, withoutScheme } from "../../util/secrets.ts";
import { withServers } from "./servers.ts";

/** What a configuration becomes for one session. */
export type ChangeConfig = (config: Config) => Pick<Config, "servers" | "secrets">;

/** Builds an app of a directory; whoever asked for it closes it. */
export type NewApp = (workspace: string, change: ChangeConfig) => Promise<App>;

interface Held {
  app: Promise<App>;
  sessions: number;
}

export class Apps {
  readonly #newApp: NewApp;
  readonly #held = new Map<string, Held>();
  readonly #made: (app: App) => void;

  /** `made` is told each new one. */
  constructor(newApp: NewApp, made: (app: App) => void) {
    this.#newApp = newApp;
    this.#made = made;
  }

  /** `release` says that it is no longer used. Throws what is wrong with the configuration. */
  async take(workspace: string, servers: readonly ServerConfig[]): Promise<{ app: App; release(): Promise<void> }> {
    const key = canonicalJson(JSON.parse(JSON.stringify([workspace, servers])));
    const held = this.#held.get(key) ?? this.#make(workspace, servers);
    this.#held.set(key, held);
    held.sessions++;
    let released = false;
    const release = async () => {
      if (released) return;
      released = true;
      if (--held.sessions > 0) return;
      if (this.#held.get(key) === held) this.#held.delete(key);
      // One that could not be built has nothing to close.
      await (await held.app.catch(() => undefined))?.close();
    };
    try {
      return { app: await held.app, release };
    } catch (error) {
      await release();
      throw error;
    }
  }

  #make(workspace: string, servers: readonly ServerConfig[]): Held {
    const app = this.#newApp(workspace, (config) => ({
      servers: withServers(config.servers, servers),
      secrets: [...config.secrets, ...secretsOf(servers)],
    })).then((made) => {
      this.#made(made);
      return made;
    });
    return { app, sessions: 0 };
  }
}

function secretsOf(servers: readonly ServerConfig[]): string[] {
  return servers.flatMap(({ url = "", args = [], headers = {}, env = {} }) => {
    const named = Object.entries(env).flatMap(([name, value]) => (isSecretName(name) ? [value] : secretsInUrl(value)));
    const sent = Object.values(headers).map(withoutScheme);
    return [...secretsInUrl(url), ...secretsInArguments(args), ...named, ...sent];
  });
}
