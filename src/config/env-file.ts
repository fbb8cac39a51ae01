/**
 * `.env` of the workspace: variables that are not set.
 *
 * Invariant: the file may have come with a repository, so before a person has trusted a variable of it, it can be
 * a key, the name of a model or an address of this machine, and nothing else: it decides neither what is
 * started nor where anything is sent nor which files are read.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import type { TrustItem } from "../types/app.ts";
import { isLoopback, type TrustStore } from "./trust.ts";

export interface EnvFile {
  /** Variables in force: the process's own, then those of the file that may count. */
  environment: NodeJS.ProcessEnv;
  /** Variables of the file that nobody has trusted, whether they may count as a key or not. */
  untrusted: ReadonlyMap<string, TrustItem>;
  /** Those of them that Rotunda itself would have read. The others matter only where a configuration refers to them. */
  missed: TrustItem[];
  /** All that stands in the file. */
  variables: NodeJS.Dict<string>;
}

const KEY = /^(?!ROTUNDA_)[A-Z0-9_]+_(?:API_KEY|TOKEN|SECRET|PASSWORD|MODEL)$/;
const ADDRESS = /^[A-Z0-9_]+_(?:URL|API_BASE)$/;
const OWN =
  /^(?:ROTUNDA_\w+|XDG_\w+|HOME|PATH|OLLAMA_HOST|\w+_(?:BASE_URL|API_BASE|API_BASE_URL)|(?:https?|all|no)_proxy)$/i;

export function readEnvFile(workspace: string, own: NodeJS.ProcessEnv, trust: TrustStore): EnvFile {
  const file = join(workspace, ".env");
  const variables = parse(file);
  const environment: NodeJS.ProcessEnv = Object.keys(variables).length === 0 ? own : { ...own };
  const untrusted = new Map<string, TrustItem>();
  for (const [name, value] of Object.entries(variables)) {
    if (value === undefined || own[name] !== undefined) continue;
    const item: TrustItem = { what: `variable ${name}`, file, content: value };
    const trusted = trust.isTrusted(item);
    if (!trusted) untrusted.set(name, item);
    if (trusted || KEY.test(name) || (ADDRESS.test(name) && isLoopback(value))) environment[name] = value;
  }
  const missed = [...untrusted].flatMap(([name, item]) => {
    return environment[name] === undefined && OWN.test(name) ? [item] : [];
  });
  return { environment, untrusted, missed, variables };
}

function parse(path: string): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(path, "utf8"));
  } catch {
    return {};
  }
}
