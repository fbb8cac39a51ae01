/**
 * Watch: hears of changes to the files that a configuration is made of.
 *
 * Invariant: a file that comes, goes or changes is heard of within two seconds; nothing is read but sizes and times.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import { places } from "./files.ts";
import { settingsPath } from "./managed.ts";
import { stateDirectory } from "./paths.ts";

/** Milliseconds. */
const LOOK = 2_000;

export interface WatchOptions {
  workspace: string;
  environment: NodeJS.ProcessEnv;
  /** The file that was named in place of those that are found. */
  explicit: string | undefined;
  /** Milliseconds since the epoch at which the configuration was read: what has changed since then counts. */
  readAt: number;
}

/** Calls back after each change; returns what ends it. */
export function watchConfig(
  { workspace, environment, explicit, readAt }: WatchOptions,
  changed: () => void,
): () => void {
  const state = stateDirectory(environment);
  const others = [
    settingsPath(state),
    join(state, "trust.json"),
    join(workspace, ".env"),
    join(workspace, "system-prompt.txt"),
  ];
  const files = [...places(workspace, environment, explicit).map(({ path }) => path), ...others];
  const look = () =>
    files
      .map((path) => {
        const found = statSync(path, { throwIfNoEntry: false });
        return found ? `${found.ino}.${found.size}.${found.mtimeMs}` : "";
      })
      .join();
  let before = look();
  const isNewer = (path: string) => (statSync(path, { throwIfNoEntry: false })?.ctimeMs ?? 0) > readAt;
  if (files.some(isNewer)) changed();
  const timer = setInterval(() => {
    const now = look();
    if (now === before) return;
    before = now;
    changed();
  }, LOOK);
  timer.unref();
  return () => clearInterval(timer);
}
