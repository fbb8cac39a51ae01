/**
 * The documentation against the program: `node scripts/check-docs.ts [--write]`.
 *
 * Invariant: exits 1 if one page says something that the code does not, or is silent about something that it
 * has, and names every such gap. It needs no build. `--write` first makes the generated parts anew.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { Metrics } from "../src/doors/http/metrics.ts";
import { allRoutes } from "../src/doors/http/table.ts";
import { keyVariables } from "../src/models/environment.ts";
import { errorTable } from "../src/types/error.ts";
import { DEFAULT_SCOPES, scopes } from "../src/types/token.ts";
import { commands, configJsonSchema, generatedFiles, packageFile, root, writeGenerated } from "./make-docs.ts";

const problems: string[] = [];

function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

/** The cells of the tables between `<!-- name -->` and `<!-- /name -->`, header rows left out. */
function rowsOf(path: string, name: string): string[][] {
  const part = read(path).split(`<!-- ${name} -->`)[1]?.split(`<!-- /${name} -->`)[0];
  if (part === undefined) {
    problems.push(`${path}: the markers of ${name} are missing`);
    return [];
  }
  const lines = part.split("\n").filter((line) => /^\| `/.test(line));
  return lines.map((line) =>
    line
      .slice(1, line.lastIndexOf("|"))
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim()),
  );
}

function unquoted(cell: string | undefined): string {
  return (cell ?? "").replaceAll("`", "");
}

/** What a page and the code must both have. */
function compare(path: string, what: string, documented: readonly string[], real: readonly string[]): void {
  for (const one of real) if (!documented.includes(one)) problems.push(`${path}: ${what} ${one} is not documented`);
  for (const one of documented) if (!real.includes(one)) problems.push(`${path}: ${what} ${one} does not exist`);
  const twice = documented.filter((one, at) => documented.indexOf(one) !== at);
  for (const one of twice) problems.push(`${path}: ${what} ${one} stands there twice`);
}

function checkErrors(): void {
  const path = "docs/errors.md";
  const rows = rowsOf(path, "errors");
  const kinds = Object.entries(errorTable);
  compare(
    path,
    "the error",
    rows.map(([code]) => unquoted(code)),
    kinds.map(([code]) => code),
  );
  for (const [cell, http, exit, retryable, meaning] of rows) {
    const kind = kinds.find(([code]) => code === unquoted(cell))?.[1];
    if (!kind) continue;
    const said = `${http} ${exit} ${retryable}`;
    const real = `${kind.http} ${kind.exit} ${kind.retryable ? "yes" : "no"}`;
    if (said !== real) problems.push(`${path}: ${cell} stands as "${said}", the table has "${real}"`);
    if (!meaning) problems.push(`${path}: ${cell} has no meaning`);
  }
}

function checkExitCodes(): void {
  const path = "docs/command-line.md";
  const real = new Set([0, 2, 130, 143, ...Object.values(errorTable).map((kind) => kind.exit)]);
  const documented = rowsOf(path, "exit-codes").map(([code]) => unquoted(code));
  compare(path, "the exit code", documented, [...real].map(String));
}

interface Schema {
  type?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  anyOf?: Schema[];
  enum?: string[];
}

/** Every key of the configuration with its kind: `models[].id` → `text`. Keys that only hold others are left out. */
function keysOf(schema: Schema, path: string): [string, string][] {
  const own: [string, string][] =
    /(?:^|of )map$/.test(kindOf(schema)) && holdsMore(schema) ? [] : [[path, kindOf(schema)]];
  const inner = (schema.anyOf ?? [schema]).flatMap((one): [string, string][] => {
    if (one.properties) {
      const prefix = path === "" ? "" : `${path}.`;
      return Object.entries(one.properties).flatMap(([key, value]) => keysOf(value, `${prefix}${key}`));
    }
    const members = typeof one.additionalProperties === "object" ? one.additionalProperties : undefined;
    if (members && holdsKeys(members)) return keysOf(members, `${path}.*`);
    if (one.items && holdsKeys(one.items)) return keysOf(one.items, `${path}[]`).filter(([key]) => key !== `${path}[]`);
    return [];
  });
  return [...own, ...inner];
}

function holdsKeys(schema: Schema): boolean {
  return (schema.anyOf ?? [schema]).some((one) => one.properties !== undefined);
}

function holdsMore(schema: Schema): boolean {
  const { additionalProperties: members, items } = schema;
  return holdsKeys(schema) || (typeof members === "object" && holdsKeys(members)) || (items ? holdsKeys(items) : false);
}

function kindOf(schema: Schema): string {
  if (schema.enum) return schema.enum.join(", ");
  if (schema.anyOf) return schema.anyOf.map(kindOf).join(" or ");
  if (schema.type === "array") return `list of ${kindOf(schema.items ?? {})}`;
  if (schema.type === "object") {
    const members = schema.additionalProperties;
    return typeof members === "object" && members.type !== undefined ? `map of ${kindOf(members)}` : "map";
  }
  const words: Record<string, string> = { string: "text", boolean: "true or false", integer: "number" };
  return words[schema.type ?? ""] ?? schema.type ?? "anything";
}

function checkKeys(): void {
  const path = "docs/configuration.md";
  // The four points of hooks have the same keys: they are documented once.
  const points = /^hooks\.(?:beforeToolCall|afterToolCall|onResponseStart|onResponseEnd)\[\]/;
  const keys = keysOf(configJsonSchema() as Schema, "");
  const real = new Map(keys.map(([key, kind]) => [key.replace(points, "hooks.*[]"), kind]));
  const rows = rowsOf(path, "keys");
  compare(
    path,
    "the key",
    rows.map(([key]) => unquoted(key)),
    [...real.keys()],
  );
  for (const [cell, kind, meaning] of rows) {
    const wanted = real.get(unquoted(cell));
    if (wanted !== undefined && unquoted(kind) !== wanted)
      problems.push(`${path}: ${cell} stands as "${kind}", the schema has "${wanted}"`);
    if (!meaning) problems.push(`${path}: ${cell} has no meaning`);
  }
}

/** Variables that the sources read by name, and those of the providers that models/environment.ts lists. */
function checkVariables(): void {
  const path = "docs/configuration.md";
  const sources = files(join(root, "src"), ".ts").map((file) => readFileSync(file, "utf8"));
  const named = sources.flatMap((text) =>
    [...text.matchAll(/\b(?:environment|process\.env)\.([A-Z][A-Z0-9_]+)\b/g)].map(([, name = ""]) => name),
  );
  const documented = rowsOf(path, "variables").flatMap(([cell = ""]) => cell.match(/[A-Za-z][A-Za-z0-9_]+/g) ?? []);
  for (const name of new Set([...named, ...keyVariables]))
    if (!documented.includes(name)) problems.push(`${path}: the variable ${name} is not documented`);
  const prefixes = keyVariables.map((name) => name.replace(/_API_KEY$/, ""));
  for (const name of documented) {
    const derived = prefixes.some((prefix) => /^_(?:API_KEY|BASE_URL|MODEL)$/.test(name.slice(prefix.length)));
    if (!derived && !sources.some((text) => text.includes(name)))
      problems.push(`${path}: the variable ${name} does not exist`);
  }
}

function checkDependencies(): void {
  const path = "docs/decisions/dependencies.md";
  const documented = rowsOf(path, "dependencies").map(([name]) => unquoted(name));
  const real = Object.keys({ ...packageFile.dependencies, ...packageFile.devDependencies });
  compare(path, "the dependency", documented, real);
}

/** AGENTS.md has one line for each folder of src/. */
function checkTree(): void {
  const documented = [...read("AGENTS.md").matchAll(/^(src\/(?:[\w-]+\/)*)\s/gm)].map(([, folder = ""]) => folder);
  const entries = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true });
  const folders = new Set(entries.filter((entry) => entry.isFile()).map((entry) => entry.parentPath));
  compare(
    "AGENTS.md",
    "the folder",
    documented,
    [...folders].map((folder) => `${relative(root, folder)}/`),
  );
}

function checkGenerated(): void {
  for (const [path, text] of generatedFiles()) {
    if (!existsSync(join(root, path)) || read(path) !== text)
      problems.push(`${path}: a generated part is not current: node scripts/make-docs.ts`);
  }
}

function files(folder: string, ending: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(ending));
  return names.sort().map((name) => join(folder, name));
}

function pages(): string[] {
  const top = readdirSync(root).filter((name) => name.endsWith(".md"));
  return [...top, ...files(join(root, "docs"), ".md").map((path) => relative(root, path))];
}

function withoutCode(text: string): string {
  return text.replace(/^```[\s\S]*?^```/gm, "").replace(/`[^`\n]*`/g, "");
}

/** A heading's anchor, as GitHub makes it. */
function anchors(text: string): string[] {
  const headings = [...text.replace(/^```[\s\S]*?^```/gm, "").matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) => title);
  return headings.map((title) =>
    title
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

function checkLinks(page: string): void {
  for (const [, link = ""] of withoutCode(read(page)).matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^[a-z]+:/.test(link)) continue;
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? page : normalize(join(dirname(page), path));
    if (!existsSync(join(root, target))) problems.push(`${page}: the link ${link} leads nowhere`);
    else if (anchor !== undefined && !anchors(read(target)).includes(anchor))
      problems.push(`${page}: the link ${link} leads to no heading`);
  }
}

/** Lines that a reader is to type: of `sh` blocks all, of `console` blocks those behind `$ `. */
function snippetLines(text: string): string[] {
  return [...text.matchAll(/^ *```(sh|console)\n([\s\S]*?)^ *```/gm)].flatMap(([, kind, body = ""]) => {
    const lines = body.replaceAll("\\\n", " ").replace(/^ +/gm, "").split("\n");
    return kind === "sh" ? lines : lines.flatMap((line) => (line.startsWith("$ ") ? [line.slice(2)] : []));
  });
}

function checkSnippets(page: string): void {
  for (const line of snippetLines(read(page))) {
    const bare = line.replace(/'[^']*'|"[^"]*"/g, "TEXT").replace(/(^|\s)#.*$/, "");
    for (const part of bare.split(/\||&&|;|\$\(|\)/)) {
      const called = /^\s*(?:[A-Z_]+=\S*\s+)*(?:npx\s+)?rotunda(?:\s+(.*))?$/.exec(part);
      if (called) checkCall(page, line.trim(), (called[1] ?? "").trim().split(/\s+/));
    }
  }
}

function checkCall(page: string, line: string, words: readonly string[]): void {
  const [first = "", second = ""] = words;
  if (first === "" || /^(?:--version|-V|--help|-h)$/.test(first)) return;
  const all = commands();
  const plain = second === "" || second.startsWith("-");
  const found =
    all.find(({ name }) => name === first || name === `${first} ${second}`) ??
    all.find(({ also }) => plain && also === first);
  if (!found) {
    problems.push(`${page}: "${line}" calls a command that does not exist`);
    return;
  }
  const known = found.command.options.flatMap((option) => [option.long, option.short]);
  for (const word of words.slice(1)) {
    const [flag = ""] = word.split("=");
    if (flag.startsWith("-") && flag !== "-" && flag !== "--" && flag !== "--help" && !known.includes(flag))
      problems.push(`${page}: "${line}" has the flag ${flag}, which ${found.name} does not take`);
  }
}

function checkScopes(): void {
  const path = "docs/http.md";
  const rows = rowsOf(path, "scopes");
  compare(
    path,
    "the scope",
    rows.map(([scope]) => unquoted(scope)),
    scopes,
  );
  for (const [cell, given] of rows) {
    const real = DEFAULT_SCOPES.some((scope) => scope === unquoted(cell)) ? "yes" : "no";
    if (given !== real) problems.push(`${path}: ${cell} stands as "${given}" for a new token, the code has "${real}"`);
  }
}

function checkMetrics(): void {
  const path = "docs/http.md";
  const metrics = new Metrics();
  const text = metrics.render({ streams: 0, running: 0, connections: 0, open: new Map() });
  metrics.close();
  const real = [...text.matchAll(/^# HELP (\S+)/gm)].map(([, name = ""]) => name);
  const documented = rowsOf(path, "metrics").map(([name]) => unquoted(name));
  compare(path, "the metric", documented, real);
}

/** Routes that a page names, as `POST /v1/responses/{id}/cancel`, or that its `curl` lines call. */
function checkRoutes(page: string): void {
  const text = read(page).replace(/<!-- routes -->[\s\S]*?<!-- \/routes -->/, "");
  const named = [...text.matchAll(/`(GET|POST|PUT|PATCH|DELETE) (\/[^\s`?]*)/g)];
  const called = [...text.matchAll(/\bcurl\b[^|]*?["' ](\$OPENAI_BASE_URL|http:\/\/127\.0\.0\.1:7070)(\/[^\s"'?]+)/g)];
  const known = (method: string | undefined, path: string) =>
    allRoutes.some((route) => (method ?? route.method) === route.method && fitsRoute(route.path, path));
  for (const [, method, path = ""] of named)
    if (!known(method, path)) problems.push(`${page}: there is no route ${method} ${path}`);
  for (const [, base, rest = ""] of called) {
    const path = base?.startsWith("$") ? `/v1${rest}` : rest;
    if (!known(undefined, path)) problems.push(`${page}: a curl line calls ${path}, and there is no such route`);
  }
}

function fitsRoute(route: string, path: string): boolean {
  const wanted = route.split("/");
  const given = path.split("/");
  return wanted.length === given.length && wanted.every((one, at) => one.startsWith(":") || one === given[at]);
}

if (process.argv.includes("--write")) for (const path of writeGenerated()) process.stdout.write(`written: ${path}\n`);
checkErrors();
checkExitCodes();
checkKeys();
checkVariables();
checkDependencies();
checkTree();
checkScopes();
checkMetrics();
checkGenerated();
for (const page of pages()) {
  checkLinks(page);
  checkSnippets(page);
  checkRoutes(page);
}
if (problems.length > 0) {
  process.stderr.write(`${problems.join("\n")}\n`);
  process.exitCode = 1;
} else process.stdout.write("documentation: in order\n");
