/**
 * The server file: where the server of a state directory can be reached, for clients on the same machine.
 *
 * Invariant: it is believed only as long as the process that wrote it lives, told by pid and start time; so a file
 * that was left behind, or a pid that somebody else has by now, is as good as none.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newProcessName, processState } from "./process-name.ts";

export interface ServerFile {
  /** As `newProcessName` makes it: machine, pid, start time. */
  process: string;
  pid: number;
  /** `http://127.0.0.1:7070`. */
  url: string;
  version: string;
  /** Milliseconds since the epoch. */
  startedAt: number;
  /** What it was started with, for `rotunda restart`. */
  flags: string[];
  /** The directory that it was started in. */
  workspace: string;
  /** `databaseFingerprint` of what it works on. */
  database: string;
}

function pathIn(stateDirectory: string): string {
  return join(stateDirectory, "server.json");
}

/** The server that runs now; undefined where there is none. */
export function readServerFile(stateDirectory: string): ServerFile | undefined {
  try {
    const file = JSON.parse(readFileSync(pathIn(stateDirectory), "utf8")) as ServerFile;
    return processState(file.process) === "alive" ? file : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Says that this process serves; returns what takes it back. Where another server of this directory lives already,
 * that one stays the one that is found.
 */
export function writeServerFile(
  stateDirectory: string,
  given: Pick<ServerFile, "url" | "version" | "flags" | "workspace" | "database">,
): () => void {
  if (readServerFile(stateDirectory)) return () => undefined;
  const path = pathIn(stateDirectory);
  const file: ServerFile = { ...given, process: newProcessName(), pid: process.pid, startedAt: Date.now() };
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(file)}\n`, { mode: 0o600 });
  renameSync(draft, path);
  return () => {
    // Another server may have taken the place since.
    if (readServerFile(stateDirectory)?.process === file.process) rmSync(path, { force: true });
  };
}
