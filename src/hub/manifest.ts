/**
 * Manifest: what is remembered of one server between processes, in `<stateDir>/hub/<hash>.json`.
 *
 * Format: JSON, version 1, mode 0600: the tools of the last listing, for each changed tool the definition that
 * was pinned before the change, tools that are gone but still pinned, and the protocol era that worked.
 * Invariant: the file is keyed by everything of the configuration that can change what the server is, so a
 * changed configuration never meets an old list; it is replaced whole or not at all; what cannot be read
 * counts as absent.
 */
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { ServerConfig } from "../types/config.ts";
import type { Json } from "../types/json.ts";
import { canonicalJson } from "../util/canonical.ts";
import { parseBounded } from "../util/limits.ts";
import { makeDirectory } from "../util/make-directory.ts";
import { type Definition, isObject, type ListedTool, readListing } from "./definitions.ts";

const VERSION = 1;
const MAX_SIZE = 8 * 1024 * 1024;
const MAX_FILES = 256;
const MAX_ABSENT = 200;

export type Era = "legacy" | "modern";

export interface PinnedTool extends ListedTool {
  /** The pinned definition, where the current one differs from it: nobody has agreed to the change yet. */
  previous?: Definition & { fingerprint: string };
  /** The server no longer lists it; kept so that its return in another shape is noticed. */
  absent?: true;
}

export interface Manifest {
  tools: PinnedTool[];
  /** The protocol generation that worked, and when (milliseconds since the epoch). */
  era?: { kind: Era; at: number };
}

/** The file's name for a configuration: values of variables and headers enter only as a hash. */
export function manifestKey(config: ServerConfig): string {
  const env = config.env ?? {};
  const parts: Json = [
    VERSION,
    config.name,
    config.transport,
    config.command ?? null,
    config.args ?? [],
    config.cwd ?? null,
    Object.keys(env).sort(),
    sha256(canonicalJson(env)),
    config.url ?? null,
    sha256(canonicalJson(config.headers ?? {})),
  ];
  return sha256(JSON.stringify(parts)).slice(0, 32);
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Reads a manifest; undefined where there is none that can be used. */
export function readManifest(directory: string, key: string): Manifest | undefined {
  let parsed: Json;
  try {
    parsed = parseBounded(readFileSync(join(directory, `${key}.json`), "utf8"), MAX_SIZE);
  } catch {
    return undefined;
  }
  if (!isObject(parsed) || parsed.version !== VERSION || !Array.isArray(parsed.tools)) return undefined;
  const manifest: Manifest = { tools: [] };
  for (const entry of parsed.tools) {
    if (!isObject(entry)) return undefined;
    const read = readEntry(entry);
    if (!read) return undefined;
    manifest.tools.push(read);
  }
  const era = parsed.era;
  if (isObject(era) && (era.kind === "legacy" || era.kind === "modern") && typeof era.at === "number")
    manifest.era = { kind: era.kind, at: era.at };
  return manifest;
}

function readEntry(entry: Record<string, Json | undefined>): PinnedTool | undefined {
  const [tool] = readListing([{ ...entry, inputSchema: entry.input }]).tools;
  if (!tool) return undefined;
  const read: PinnedTool = tool;
  if (entry.absent === true) read.absent = true;
  const previous = entry.previous;
  if (isObject(previous)) {
    const { description, input, fingerprint } = previous;
    if (typeof description !== "string" || !isObject(input) || typeof fingerprint !== "string") return undefined;
    read.previous = { description, input, fingerprint };
  }
  return read;
}

/** Replaces a manifest: a complete new file, synced, renamed over the old one. Too large a list is not kept. */
export async function writeManifest(directory: string, key: string, manifest: Manifest): Promise<void> {
  const text = JSON.stringify({ version: VERSION, savedAt: Date.now(), ...manifest });
  if (text.length > MAX_SIZE) return;
  makeDirectory(directory, 0o700);
  const temporary = join(directory, `${key}.${process.pid}.${randomBytes(4).toString("hex")}.tmp`);
  const file = await open(temporary, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, join(directory, `${key}.json`));
  await prune(directory);
}

/** Every changed token leaves a file behind: the oldest go. */
async function prune(directory: string): Promise<void> {
  const names = await readdir(directory);
  if (names.length <= MAX_FILES) return;
  const aged: { path: string; at: number }[] = [];
  for (const name of names) {
    const path = join(directory, name);
    const found = await stat(path).catch(() => undefined);
    if (found) aged.push({ path, at: found.mtimeMs });
  }
  aged.sort((a, b) => a.at - b.at);
  for (const { path } of aged.slice(0, aged.length - MAX_FILES)) await rm(path, { force: true });
}

/** The pinned tools after a new listing: unchanged ones as they are, changed ones with what was pinned before. */
export function mergeListing(pinned: readonly PinnedTool[], fresh: readonly ListedTool[]): PinnedTool[] {
  const before = new Map(pinned.map((tool) => [tool.name, tool]));
  const merged: PinnedTool[] = fresh.map((tool) => {
    const old = before.get(tool.name);
    before.delete(tool.name);
    if (!old) return tool;
    const pin = old.previous ?? { description: old.description, input: old.input, fingerprint: old.fingerprint };
    return pin.fingerprint === tool.fingerprint ? tool : { ...tool, previous: pin };
  });
  const absent = [...before.values()].slice(0, MAX_ABSENT).map((tool) => ({ ...tool, absent: true as const }));
  return [...merged, ...absent];
}

/** The changed definition of this tool is the pinned one; undefined where it has not changed. */
export function acceptChange(manifest: Manifest, name: string): Manifest | undefined {
  if (!manifest.tools.some((tool) => tool.name === name && tool.previous)) return undefined;
  const tools = manifest.tools.map((tool) => {
    if (tool.name !== name) return tool;
    const { previous: _previous, ...accepted } = tool;
    return accepted;
  });
  return { ...manifest, tools };
}

/** Equal for lists with the same tools in the same state. */
export function listKey(tools: readonly PinnedTool[]): string {
  return tools.map((tool) => `${tool.fingerprint}${tool.previous?.fingerprint ?? ""}${tool.absent ?? ""}`).join();
}
