/**
 * `${VAR}`, `${VAR:-default}`, `$VAR` and `$$` in configuration values.
 *
 * Invariant: an unset variable without a default is a fault of the entry that it stands in, and names the file and the
 * key; every value that came out of a variable is remembered as a possible secret.
 */
import type { TrustItem } from "../types/app.ts";
import { RotundaError } from "../types/error.ts";
import type { Json } from "../types/json.ts";

export interface Expansion {
  environment: Record<string, string | undefined>;
  /** For messages. */
  file: string;
  /** Unset variables become empty, as Finta had it in `env`. */
  lenient?: boolean;
  /** Values that variables had, beside the names under which they were found. */
  used: Map<string, string>;
  /** Variables of the workspace's `.env` that nobody has trusted. */
  untrusted: ReadonlyMap<string, TrustItem>;
}

/** What is wrong with one entry alone, so that all others can go on without it. */
export class EntryFault extends RotundaError {
  /** A clause that follows "it is left out: ". */
  readonly why: string;

  constructor(message: string, why: string, remedy: string) {
    super("config_invalid", message, { remedy });
    this.why = why;
  }
}

const REFERENCE = /\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))/g;

/** A copy with every string expanded. `path` names the place in messages. */
export function expand(value: Json | undefined, expansion: Expansion, path = ""): Json {
  if (typeof value === "string") return expandText(value, expansion, path);
  if (Array.isArray(value)) return value.map((entry, index) => expand(entry, expansion, `${path}[${index}]`));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(
      Object.entries(value).map(([key, entry]) => [
        key,
        expand(entry, expansion, path === "" ? key : `${path}.${key}`),
      ]),
    );
  }
  return value ?? null;
}

/** The variables that must be trusted before the value can be expanded. */
export function waitingFor(value: Json | undefined, expansion: Expansion, path = ""): TrustItem[] {
  if (Array.isArray(value)) return value.flatMap((entry, index) => waitingFor(entry, expansion, `${path}[${index}]`));
  if (value !== null && typeof value === "object") {
    return Object.entries(value).flatMap(([key, entry]) => waitingFor(entry, expansion, `${path}.${key}`));
  }
  if (typeof value !== "string") return [];
  return [...value.matchAll(REFERENCE)].flatMap(([, braced, fallback, bare]) => {
    const item = fallback === undefined ? withheld(braced ?? bare ?? "", expansion, path) : undefined;
    return item ? [item] : [];
  });
}

/** Names of the variables that would have to be set before the value could be expanded. */
export function unsetVariables(value: Json, environment: Record<string, string | undefined>): string[] {
  const text = JSON.stringify(value);
  const unset = [...text.matchAll(REFERENCE)].flatMap(([, braced, fallback, bare]) => {
    const name = braced ?? bare;
    return name !== undefined && fallback === undefined && environment[name] === undefined ? [name] : [];
  });
  return [...new Set(unset)];
}

/** Places that say what is started and where something is sent. */
const STEERS = /\.(?:command|cwd|url|serverUrl|baseUrl)$|\.args\[\d+\]$/;

/** An untrusted variable counts as a key at most. */
function withheld(name: string, { untrusted, environment }: Expansion, path: string): TrustItem | undefined {
  return STEERS.test(path) || environment[name] === undefined ? untrusted.get(name) : undefined;
}

function expandText(text: string, expansion: Expansion, path: string): string {
  return text.replace(REFERENCE, (whole, braced?: string, fallback?: string, bare?: string) => {
    if (whole === "$$") return "$";
    const name = braced ?? bare ?? "";
    const value = withheld(name, expansion, path) ? undefined : expansion.environment[name];
    if (value !== undefined && (value !== "" || fallback === undefined)) {
      expansion.used.set(name, value);
      return value;
    }
    if (fallback !== undefined) return fallback;
    if (expansion.lenient) return "";
    throw new EntryFault(
      `Environment variable not found: ${name} (${expansion.file}, key ${path})`,
      `the variable ${name} in ${path} of ${expansion.file} is not set`,
      `Set ${name}, or give a default: \${${name}:-…}`,
    );
  });
}
