/**
 * What is wrong with a configuration file, for whoever wrote it: where, what was found, what is allowed, what was meant.
 *
 * Invariant: loaded only where something is wrong; no value is quoted that could be a secret.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { z } from "zod";
import { nearName } from "../util/near-name.ts";
import { isSecretName } from "../util/secrets.ts";
import { lineFinder } from "./explain-place.ts";
import type { ConfigFile } from "./files.ts";
import { configSchema } from "./schema.ts";

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

interface Problem {
  path: Path;
  text: string;
  /** A key that there is not, in the map at `path`. */
  unknown?: string;
  /** The key that was probably meant by it. */
  meant?: string | undefined;
  isMissing?: boolean;
}

/** One line for each thing that is wrong: `file:line: …`. `raw` is what was checked. */
export async function explain(file: ConfigFile, raw: unknown, issues: readonly Issue[]): Promise<string> {
  const problems = issues.flatMap((issue) => problemsOf(issue, [], raw));
  // A key that is there under a mistyped name is not missing as well.
  const meant = new Set(
    problems.flatMap(({ path, meant: key }) => (key === undefined ? [] : [keyText([...path, key])])),
  );
  const counting = problems.filter(({ path, isMissing }) => !(isMissing && meant.has(keyText(path))));
  const lineOf = await lineFinder(file.path);
  const lines = counting.map(({ path, text, unknown }) => {
    const line = lineOf(unknown === undefined ? path : [...path, unknown]);
    return `${file.path}${line === undefined ? "" : `:${line}`}: ${text}`;
  });
  return lines.join("\n");
}

/** Where the keys are named: the package's own copy of the page, which whoever installed it has too. */
export function keysRemedy(): string {
  for (const up of ["..", "../.."]) {
    const page = join(import.meta.dirname, up, "docs", "configuration.md");
    if (existsSync(page)) return `Every key is explained in ${page}`;
  }
  return "rotunda init writes a file with the usual keys.";
}

function problemsOf(issue: Issue, above: Path, raw: unknown): Problem[] {
  const path = [...above, ...issue.path];
  const at = keyText(path);
  if (issue.code === "unrecognized_keys") return issue.keys.map((key) => unknownKey(key, path));
  if (issue.code === "invalid_union") return unionProblems(issue.errors, path, raw);
  if (issue.code === "invalid_key") {
    return [{ path, text: `${at}: a name is made of letters, digits, _ and - (agents: . as well)` }];
  }
  const found = valueAt(raw, path);
  const allowed = allowedBy(issue);
  if (found === undefined) return [{ path, text: `${at} is missing: ${allowed}`, isMissing: true }];
  // Our own words, which the schema has.
  if (issue.code === "custom") return [{ path, text: `${at} is ${shown(found, path)}: ${issue.message}` }];
  const meant =
    issue.code === "invalid_value" && typeof found === "string" ? nearName(found, issue.values.map(String)) : undefined;
  const question = meant === undefined ? "" : `; did you mean ${meant}?`;
  return [{ path, text: `${at} is ${shown(found, path)}; it can be ${allowed}${question}` }];
}

function unknownKey(key: string, path: Path): Problem {
  const keys = keysAt(path);
  const meant = nearName(key, keys);
  const place = path.length === 0 ? "at the top" : `in ${keyText(path)}`;
  const rest = meant === undefined ? `; known there: ${keys.join(", ")}` : `: did you mean ${meant}?`;
  return { path, unknown: key, meant, text: `there is no key ${key.slice(0, 100)} ${place}${rest}` };
}

/** Of the shapes that a value may have, the one that was meant: the one whose own shape the value has. */
function unionProblems(errors: readonly Issue[][], path: Path, raw: unknown): Problem[] {
  const isShape = (issues: readonly Issue[]) =>
    !issues.some((one) => one.code === "invalid_type" && one.path.length === 0);
  const meant = errors.find(isShape);
  if (meant) return meant.flatMap((one) => problemsOf(one, path, raw));
  const allowed = errors.flatMap((issues) => issues.map(allowedBy)).join(" or ");
  return [{ path, text: `${keyText(path)} is ${shown(valueAt(raw, path), path)}; it can be ${allowed}` }];
}

const KINDS: Readonly<Record<string, string>> = {
  string: "a text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  record: "a map",
  object: "a map",
};

function allowedBy(issue: Issue): string {
  if (issue.code === "invalid_type") return KINDS[issue.expected] ?? issue.expected;
  if (issue.code === "invalid_value")
    return issue.values
      .map(String)
      .join(", ")
      .replace(/, ([^,]*)$/, " or $1");
  if (issue.code === "too_small") {
    if (issue.origin === "string") return "a text that is not empty";
    return issue.inclusive ? `a number from ${issue.minimum} on` : `a number above ${issue.minimum}`;
  }
  if (issue.code === "too_big") return `a number up to ${issue.maximum}`;
  return `something else: ${issue.message}`;
}

function shown(value: unknown, path: Path): string {
  if (value === null) return "empty";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a map";
  const text = String(value);
  const isSecret = path.some((key) => isSecretName(String(key))) || text.includes("@") || text.length > 60;
  if (isSecret) return typeof value === "string" ? "a text" : `a ${typeof value}`;
  return typeof value === "string" ? JSON.stringify(text) : text;
}

function valueAt(raw: unknown, path: Path): unknown {
  let value = raw;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}

/** `models[0].retries` */
function keyText(path: Path): string {
  return path
    .map((key, at) => (typeof key === "number" ? `[${key}]` : `${at === 0 ? "" : "."}${String(key)}`))
    .join("");
}

interface Definition {
  innerType?: Schema;
  element?: Schema;
  valueType?: Schema;
  options?: readonly Schema[];
  shape?: Record<string, Schema>;
}

interface Schema {
  def: Definition;
}

/** The keys that the schema knows at a place. */
function keysAt(path: Path): string[] {
  let schemas: Schema[] = [configSchema as unknown as Schema];
  for (const key of path) {
    schemas = schemas.flatMap(unwrapped).flatMap(({ def }) => {
      const next = typeof key === "number" ? def.element : (def.shape?.[String(key)] ?? def.valueType);
      return next ? [next] : [];
    });
  }
  return schemas.flatMap(unwrapped).flatMap(({ def }) => Object.keys(def.shape ?? {}));
}

function unwrapped(schema: Schema): Schema[] {
  const { innerType, options } = schema.def;
  if (innerType) return unwrapped(innerType);
  return options ? options.flatMap(unwrapped) : [schema];
}
