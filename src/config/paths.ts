/**
 * Where things are kept.
 *
 * Invariant: an environment variable wins over the XDG default (a
 * relative one does not count, as its specification says), and nothing is made here.
 */
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

/** Database, caches, tokens: `ROTUNDA_HOME`, else `$XDG_STATE_HOME/rotunda`, else `~/.local/state/rotunda`. */
export function stateDirectory(environment: NodeJS.ProcessEnv): string {
  if (environment.ROTUNDA_HOME) return environment.ROTUNDA_HOME;
  return join(absolute(environment.XDG_STATE_HOME) ?? join(home(environment), ".local", "state"), "rotunda");
}

/** The user's configuration: `$XDG_CONFIG_HOME/rotunda`, else `~/.config/rotunda`. */
export function userConfigDirectory(environment: NodeJS.ProcessEnv): string {
  return join(absolute(environment.XDG_CONFIG_HOME) ?? join(home(environment), ".config"), "rotunda");
}

export function home(environment: NodeJS.ProcessEnv): string {
  return environment.HOME || homedir();
}

function absolute(path: string | undefined): string | undefined {
  return path !== undefined && isAbsolute(path) ? path : undefined;
}
