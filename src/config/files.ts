/**
 * The files of a configuration: where they are, and what is in them before anything is expanded.
 *
 * Invariant: reading changes nothing and starts nothing. A file that cannot be parsed is an error that
 * names it and, where the parser knows, the line.
 */
import { existsSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { RotundaError } from "../types/error.ts";
import type { JsonObject } from "../types/json.ts";
import { blankComments } from "./json-comments.ts";
import { home, userConfigDirectory } from "./paths.ts";

export type FileKind = "rotunda" | "finta" | "polybrain" | "mcp-servers" | "mcpServers";

export interface ConfigFile {
  path: string;
  kind: FileKind;
  /** A file of the workspace, which may have come with a repository: not trusted by itself. */
  project: boolean;
  raw: JsonObject;
}

const OWN_NAMES = ["rotunda.yaml", "rotunda.yml", "rotunda.json", "rotunda.jsonc"];

interface Place {
  path: string;
  kind: FileKind;
  project: boolean;
}

/** Where files may be, strongest first. With an explicit path, only that one of the Rotunda and Finta files. */
export function places(workspace: string, environment: NodeJS.ProcessEnv, explicit: string | undefined): Place[] {
  const all: Place[] = [];
  const add = (path: string, kind: FileKind, project: boolean) => all.push({ path, kind, project });
  const named = explicit || environment.ROTUNDA_CONFIG;
  if (named) {
    const path = resolve(workspace, named);
    add(path, kindOf(path), false);
  } else {
    for (const name of OWN_NAMES) add(join(workspace, name), "rotunda", true);
    for (const name of ["finta.yaml", "configs/finta.yaml"]) add(join(workspace, name), "finta", true);
  }
  add(join(workspace, ".mcp.json"), "mcpServers", true);
  add(join(workspace, "mcp-servers.json"), "mcp-servers", true);
  if (named) return all;
  for (const folder of [userConfigDirectory(environment), "/etc/rotunda"]) {
    for (const name of OWN_NAMES) add(join(folder, name), "rotunda", false);
  }
  add(join(home(environment), ".config", "finta", "finta.yaml"), "finta", false);
  add("/etc/finta/finta.yaml", "finta", false);
  const theirs = environment.POLYBRAIN_CONFIG_PATH;
  if (theirs) add(resolve(workspace, theirs), "polybrain", false);
  add(join(workspace, ".polybrain.yaml"), "polybrain", workspace !== home(environment));
  add(join(home(environment), ".polybrain.yaml"), "polybrain", false);
  return all;
}

/** Files in force, strongest first. Throws `config_invalid` where the explicit one does not exist. */
export function findPlaces(workspace: string, environment: NodeJS.ProcessEnv, explicit: string | undefined): Place[] {
  const named = explicit || environment.ROTUNDA_CONFIG;
  const path = named ? resolve(workspace, named) : undefined;
  if (path !== undefined && !existsSync(path)) {
    throw new RotundaError("config_invalid", `the configuration file ${path} does not exist`);
  }
  const there = places(workspace, environment, explicit).filter((place) => {
    // A folder of that name is a sandbox's stand-in for a file that does not exist.
    return place.path === path || statSync(place.path, { throwIfNoEntry: false })?.isFile();
  });
  return onlyFirst("polybrain", onlyFirst("finta", there));
}

/** Finta and Polybrain read the first of their places and no other (parity F16, P11). */
function onlyFirst(kind: FileKind, places: Place[]): Place[] {
  const first = places.find((place) => place.kind === kind);
  return places.filter((place) => place.kind !== kind || place === first);
}

function kindOf(path: string): FileKind {
  const name = basename(path);
  if (/^finta\.ya?ml$/.test(name)) return "finta";
  if (name === ".polybrain.yaml") return "polybrain";
  if (name === "mcp-servers.json") return "mcp-servers";
  return "rotunda";
}

export async function readConfigFile(place: Place): Promise<ConfigFile> {
  const text = await readFile(place.path, "utf8").catch((error: unknown) => {
    throw new RotundaError("config_invalid", `cannot read ${place.path}: ${(error as Error).message}`, {
      cause: error,
    });
  });
  const raw = await parseText(text, place.path);
  // A file given by name may be of the shape that other programs use.
  const kind = place.kind === "rotunda" && isServersFile(raw) ? "mcpServers" : place.kind;
  return { ...place, kind, raw };
}

function isServersFile(raw: JsonObject): boolean {
  const keys = Object.keys(raw).filter((key) => key !== "$schema" && key !== "inputs");
  return keys.length > 0 && keys.every((key) => key === "mcpServers" || key === "servers") && "servers" in raw;
}

async function parseText(text: string, path: string): Promise<JsonObject> {
  let value: unknown;
  try {
    value = /\.toml$/.test(path)
      ? (await import("smol-toml")).parse(text)
      : (plainJson(text, path) ?? (await yaml(text, path)));
  } catch (error) {
    const { parseFault } = await import("./explain-place.ts");
    throw new RotundaError("config_invalid", `${path}${await parseFault(text, path, error)}`);
  }
  if (value === null || value === undefined) return {};
  if (typeof value !== "object" || Array.isArray(value)) {
    throw new RotundaError("config_invalid", `${path} must hold an object at its top`);
  }
  return value as JsonObject;
}

/** Undefined where it is none: with comments it is read as YAML, which also says in which line a mistake is. */
function plainJson(text: string, path: string): unknown {
  if (!/\.json$/.test(path)) return undefined;
  try {
    return JSON.parse(text === "" ? "{}" : text);
  } catch {
    return undefined;
  }
}

/** YAML reads JSON as well, and with comments stripped JSONC too. */
async function yaml(text: string, path: string): Promise<unknown> {
  const { parse } = await import("../util/yaml.ts");
  return parse(/\.jsonc?$/.test(path) ? blankComments(text) : text, { maxAliasCount: 100 });
}

/** A relative path of a configuration file starts at its folder. */
export function besideFile(file: ConfigFile, path: string): string {
  return resolve(dirname(file.path), path);
}
