/**
 * `settings.json` of the state directory: what was changed through doors.
 *
 * Format: one JSON object, mode 0600: the keys of rotunda.yaml, and those of `SettingsFile` beside them.
 * Invariant: it is replaced whole or not at all; a damaged file is an error that names it and is never written
 * over; keys that this version does not know are kept; of two processes that change it at once none loses its change.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { RotundaError } from "../types/error.ts";
import type { JsonObject } from "../types/json.ts";
import type { SettingsFile } from "../types/settings.ts";
import { jsonDepth, MAX_DEPTH } from "../util/limits.ts";
import { makeDirectory } from "../util/make-directory.ts";
import type { ConfigFile } from "./files.ts";

/** Keys that rotunda.yaml has too; the file's other keys are its own, or of another version. */
const CONFIG_KEYS = ["models", "mcpServers", "profiles", "profile", "server", "permissions"] as const;
/** Milliseconds: how long a change waits for that of another process, and when a lock counts as left behind. */
const LOCK_PATIENCE = 5_000;
const LOCK_AGE = 15_000;

export function settingsPath(stateDirectory: string): string {
  return join(stateDirectory, "settings.json");
}

/** The file's content; undefined where there is none. Throws `config_invalid`. */
export function readSettings(path: string): SettingsFile | undefined {
  const text = readText(path);
  if (text === undefined) return undefined;
  const damaged = (why: string) =>
    new RotundaError("config_invalid", `${path} is damaged: ${why}`, {
      remedy: "Mend it, or move it away: what was changed through doors is lost with it.",
    });
  if (jsonDepth(text) > MAX_DEPTH) throw damaged(`it is nested deeper than ${MAX_DEPTH}`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The parser's message would quote the file, and with it a key.
    throw damaged("it is not JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw damaged("it is not an object");
  const fault = faultOf(value as Record<string, unknown>);
  if (fault !== undefined) throw damaged(fault);
  return value as SettingsFile;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new RotundaError("config_invalid", `cannot read ${path}: ${(error as Error).message}`, { cause: error });
  }
}

/** What is wrong with the keys that rotunda.yaml does not have; those that it has are checked with it. */
function faultOf({ enabledServers, profileDetails, speakmcp }: Record<string, unknown>): string | undefined {
  for (const [name, map] of Object.entries({ enabledServers, profileDetails, speakmcp })) {
    if (map !== undefined && (typeof map !== "object" || map === null || Array.isArray(map))) {
      return `${name} is not an object`;
    }
  }
  const flags = Object.values((enabledServers ?? {}) as object);
  if (flags.some((flag) => typeof flag !== "boolean"))
    return "enabledServers holds something that is not true or false";
  const details = Object.values((profileDetails ?? {}) as object);
  const sound = details.every((one: unknown) => typeof (one as { name?: unknown } | null)?.name === "string");
  return sound ? undefined : "profileDetails holds something without a name";
}

/** The part of it that is in the shape of rotunda.yaml, as the strongest of the configuration's files. */
export function asConfigFile(path: string, settings: SettingsFile): ConfigFile {
  const raw: JsonObject = {};
  for (const key of CONFIG_KEYS) if (settings[key] !== undefined) raw[key] = settings[key] as JsonObject;
  if (settings.profiles) raw.profiles = literalProfiles(settings.profiles);
  return { path, kind: "rotunda", project: false, raw };
}

/** Instructions that came through a door are a text: one that looks like a path must not make us read that file. */
function literalProfiles(profiles: NonNullable<SettingsFile["profiles"]>): JsonObject {
  return Object.fromEntries(
    Object.entries(profiles).map(([id, profile]) => {
      const { instructions } = profile;
      const isPath = instructions !== undefined && /^\.{0,2}\//.test(instructions);
      return [id, (isPath ? { ...profile, instructions: `${instructions}\n` } : profile) as JsonObject];
    }),
  );
}

/**
 * Changes the file under its lock. `apply` puts the change in force; where it throws, the file is as before and the
 * error goes on.
 */
export async function changeSettings(
  path: string,
  mutate: (settings: SettingsFile) => void,
  apply: () => Promise<void>,
): Promise<void> {
  makeDirectory(dirname(path), 0o700);
  const unlock = await lock(`${path}.lock`);
  try {
    const settings = structuredClone(readSettings(path) ?? {});
    const before = readText(path);
    mutate(settings);
    const text = `${JSON.stringify(settings, null, 2)}\n`;
    if (text === before) return;
    replaceFile(path, text);
    try {
      await apply();
    } catch (error) {
      if (before === undefined) rmSync(path, { force: true });
      else replaceFile(path, before);
      throw error;
    }
  } finally {
    unlock();
  }
}

/** A complete new file, synced, renamed over the old one. */
function replaceFile(path: string, text: string): void {
  const temporary = `${path}.${process.pid}.tmp`;
  rmSync(temporary, { force: true });
  try {
    writeWhole(temporary, text);
  } catch (error) {
    rmSync(temporary, { force: true });
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOSPC" && code !== "EDQUOT") throw error;
    throw new RotundaError("storage_full", "the disk is full: nothing more can be stored", { cause: error });
  }
  renameSync(temporary, path);
  const folder = openSync(dirname(path), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

function writeWhole(path: string, text: string): void {
  const bytes = Buffer.from(text);
  const file = openSync(path, "wx", 0o600);
  try {
    // A disk that is almost full takes a part, and says so only the next time.
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

async function lock(path: string): Promise<() => void> {
  const giveUp = Date.now() + LOCK_PATIENCE;
  for (;;) {
    try {
      closeSync(openSync(path, "wx", 0o600));
      return () => rmSync(path, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const made = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
    // Its process died between making and removing it.
    if (made !== undefined && Date.now() - made > LOCK_AGE) rmSync(path, { force: true });
    else if (Date.now() > giveUp) {
      throw new RotundaError("storage_failed", `another process is changing the settings (${path})`);
    } else await sleep(20);
  }
}
