/**
 * The generated parts of the documentation: `node scripts/make-docs.ts` writes them, scripts/check-docs.ts
 * compares them.
 *
 * Invariant: what is generated depends on nothing but the files of the project: the same tree gives the same
 * text. What stands outside the markers is never touched.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command, Option } from "commander";
import { z } from "zod";
import { type Figures, reliabilityPage } from "../reliability/page.ts";
import { configSchema } from "../src/config/schema.ts";
import { createProgram } from "../src/doors/cli/program.ts";
import type { Route } from "../src/doors/http/routes.ts";
import { allRoutes } from "../src/doors/http/table.ts";
import { type Promised, promises } from "../test/promises.ts";

export const root = join(import.meta.dirname, "..");

export const packageFile = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  version: string;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
};

// The build puts the version in; here the sources run as they are.
Object.assign(globalThis, { ROTUNDA_VERSION: packageFile.version });

/** A command with the words that call it: `hub test`. */
export interface NamedCommand {
  name: string;
  command: Command;
  /** The shorter word that calls it too: `token` for `token show`. */
  also?: string;
}

/** Every command that does something, in the order of the help. */
export function commands(): NamedCommand[] {
  const program = createProgram(async () => undefined);
  return program.commands.flatMap((command) => {
    const word = command.name();
    if (command.commands.length === 0) return [{ name: word, command }];
    // The library tells nobody which one is the default; if it called this otherwise, the check of snippets would fail.
    const { _defaultCommandName: main } = command as unknown as { _defaultCommandName?: string | null };
    return command.commands.map((inner) => ({
      name: `${word} ${inner.name()}`,
      command: inner,
      ...(inner.name() === main && { also: word }),
    }));
  });
}

/** Flags that every command takes. */
export function commonFlags(all: readonly NamedCommand[]): string[] {
  const [first, ...others] = all.map(({ command }) => command.options.map((option) => option.flags));
  return (first ?? []).filter((flags) => others.every((list) => list.includes(flags)));
}

/** The JSON Schema of rotunda.yaml, as `schema/rotunda.schema.json` holds it. */
export function configJsonSchema(): z.core.JSONSchema.JSONSchema {
  const schema = z.toJSONSchema(configSchema, {
    io: "input",
    override: ({ jsonSchema }) => {
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  return { ...schema, title: "Configuration of Rotunda" };
}

/** Every file that holds something generated: its path from the root, and its whole text as it should be. */
export function generatedFiles(): Map<string, string> {
  const all = commands();
  const groups = promiseGroups(promises);
  const readme = withParts("README.md", {
    promises: promiseSummary(groups),
    benchmarks: [
      goalsMet(),
      benchmarks(/--version|start of|latency added|CPU of a|another node|elsewhere|\| over \|/),
    ].join("\n\n"),
  });
  return new Map([
    ["README.md", readme],
    [
      "docs/command-line.md",
      withParts("docs/command-line.md", { overview: commandTable(all), commands: commandReference(all) }),
    ],
    ["docs/promises.md", withParts("docs/promises.md", { promises: promisesTable(groups) })],
    ["docs/http.md", withParts("docs/http.md", { routes: routesTable(allRoutes) })],
    [
      "docs/scale.md",
      withParts("docs/scale.md", { figures: benchmarks(/worker|queued run|another node|elsewhere|durable step/) }),
    ],
    ["docs/reliability.md", reliability()],
    ["schema/rotunda.schema.json", `${JSON.stringify(configJsonSchema(), null, 2)}\n`],
  ]);
}

/** The file with each part between `<!-- name -->` and `<!-- /name -->` put in anew. Throws where a marker is missing. */
function withParts(path: string, parts: Record<string, string>): string {
  let text = readFileSync(join(root, path), "utf8");
  for (const [name, part] of Object.entries(parts)) {
    const begin = `<!-- ${name} -->`;
    const end = `<!-- /${name} -->`;
    const from = text.indexOf(begin);
    const to = text.indexOf(end);
    if (from < 0 || to < from) throw new Error(`${path}: the markers ${begin} and ${end} are missing`);
    text = `${text.slice(0, from + begin.length)}\n${part.trim()}\n${text.slice(to)}`;
  }
  return text;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

function tableOf(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(header), line(header.map(() => "---")), ...rows.map((row) => line(row.map(cell)))].join("\n");
}

function usageOf({ name, command }: NamedCommand): string {
  const words = command.registeredArguments.map((argument) => {
    const word = argument.variadic ? `${argument.name()}...` : argument.name();
    return argument.required ? `<${word}>` : `[${word}]`;
  });
  return ["rotunda", name, ...words].join(" ");
}

function commandTable(all: readonly NamedCommand[]): string {
  return tableOf(
    ["command", "what it does"],
    all.map((each) => [`\`${usageOf(each)}\``, each.command.description()]),
  );
}

function commandReference(all: readonly NamedCommand[]): string {
  const common = commonFlags(all);
  const [first] = all;
  const shared = first?.command.options.filter((option) => common.includes(option.flags)) ?? [];
  const sections = all.map((each) => {
    const own = each.command.options.filter((option) => !common.includes(option.flags));
    const argumentRows = each.command.registeredArguments.map((one) => [`\`${one.name()}\``, one.description]);
    const rows = [...argumentRows, ...own.map(flagRow)];
    const parts = [`### ${each.name}`, `\`${usageOf(each)}\``, `${each.command.description()}.`];
    if (rows.length > 0) parts.push(tableOf(["argument or flag", "meaning"], rows));
    return parts.join("\n\n");
  });
  const every = ["### Flags of every command", tableOf(["flag", "meaning"], shared.map(flagRow))].join("\n\n");
  return [every, ...sections].join("\n\n");
}

function flagRow(option: Option): string[] {
  const facts: string[] = [];
  const choices = option.argChoices ?? [];
  if (choices.some((choice) => !option.description.includes(choice))) facts.push(`one of ${choices.join(", ")}`);
  if (option.defaultValue !== undefined) facts.push(`default: ${String(option.defaultValue)}`);
  if (option.hidden) facts.push("not shown in the help");
  const more = facts.length > 0 ? ` (${facts.join("; ")})` : "";
  return [`\`${option.flags}\``, `${option.description}${more}`];
}

/** What the groups of routes are called; the order of the tables. */
const routeGroups: Record<string, string> = {
  chat: "Chat",
  responses: "Responses",
  conversations: "Conversations",
  models: "Models",
  speakmcp: "Approvals, settings, tools (SpeakMCP and notion-open-agent)",
  profiles: "Profiles (SpeakMCP)",
  "mcp servers": "MCP servers (SpeakMCP)",
  server: "The server itself",
  page: "The page",
  local: "For the command line of the same machine",
};

function routesTable(routes: readonly Route[]): string {
  const tags = [...new Set(routes.map(({ tag }) => tag))];
  const order = [...Object.keys(routeGroups), ...tags.filter((tag) => !(tag in routeGroups)).sort()];
  const groups = order.flatMap((tag) => {
    const rows = routes.filter((route) => route.tag === tag && !route.alias).map(routeRow);
    if (rows.length === 0) return [];
    return [`**${routeGroups[tag] ?? tag}**`, tableOf(["route", "scope", "what it does"], rows)];
  });
  return groups.join("\n\n");
}

function routeRow({ method, path, scope, summary, query, style }: Route): string[] {
  const scopes = scope === null ? "open" : scope === "any" ? "any token" : [scope].flat().map((one) => `\`${one}\``);
  const asked = query ? ` (query: ${Object.keys(query).join(", ")})` : "";
  const errors = style === "plain" ? "; plain errors" : "";
  return [`\`${method} ${path}\``, [scopes].flat().join(" or "), `${summary}${asked}${errors}`];
}

/** Whose promises a letter stands for; the order of the table. */
const families: Record<string, string> = {
  N: "What users of notion-open-agent rely on",
  F: "What users of Finta rely on",
  P: "What users of Polybrain rely on",
  C: "What users of the Claude bridge rely on",
  S: "What users of SpeakMCP server rely on",
  G: "What none of the earlier systems had",
  B: "Promises that the earlier systems made and broke",
  U: "Faults of model endpoints",
  M: "Faults of MCP servers",
  T: "Faults and misuse of tools",
  D: "Faults of processes and disk",
  K: "Faults of clients",
  V: "The terminal",
  W: "The page",
};

interface PromiseGroup {
  title: string;
  members: readonly Promised[];
}

function promiseGroups(all: readonly Promised[]): PromiseGroup[] {
  const letters = [...new Set(all.map(({ id }) => id.replace(/\d+$/, "")))];
  const order = [...Object.keys(families), ...letters.filter((letter) => !(letter in families)).sort()];
  return order.flatMap((letter) => {
    const members = all.filter(({ id }) => id.replace(/\d+$/, "") === letter).sort((a, b) => numberOf(a) - numberOf(b));
    return members.length === 0 ? [] : [{ title: families[letter] ?? letter, members }];
  });
}

function promiseSummary(groups: readonly PromiseGroup[]): string {
  const all = groups.flatMap(({ members }) => members);
  const later = all.filter((promise) => promise.later !== undefined).length;
  const rest = later === 0 ? "none is left for later" : `${later} are left for later`;
  return `There are ${all.length} in ${groups.length} groups; ${rest}.`;
}

function promisesTable(groups: readonly PromiseGroup[]): string {
  return groups
    .map(({ title, members }) => {
      const rows = members.map(({ id, text, later }) => [id, text, later === undefined ? "yes" : `issue ${later}`]);
      return `## ${title}\n\n${tableOf(["id", "promise", "kept"], rows)}`;
    })
    .join("\n\n");
}

function numberOf({ id }: Promised): number {
  return Number(/\d+$/.exec(id)?.[0] ?? 0);
}

/** The lines of the table of docs/benchmarks.md, which `npm run bench -- --write` makes. */
function measured(): string[] {
  const path = join(root, "docs", "benchmarks.md");
  const table = existsSync(path) ? /^\|[^\n]*(?:\n\|[^\n]*)*/m.exec(readFileSync(path, "utf8"))?.[0] : undefined;
  return table?.split("\n") ?? [];
}

function goalsMet(): string {
  const [, , ...all] = measured();
  const met = all.filter((row) => row.includes("| ok |")).length;
  return `${met} of ${all.length} goals are met.`;
}

/** The rows that a pattern names. */
function benchmarks(rows: RegExp): string {
  const [header = "", line = "", ...all] = measured();
  const wanted = all.filter((row) => rows.test(row));
  if (wanted.length > 0) return [header, line, ...wanted].join("\n");
  return "There are no stored measurements yet. Run `npm run bench`: it prints the table for your machine.";
}

/** The page of what `npm run reliability -- --write` has found. */
function reliability(): string {
  return reliabilityPage(JSON.parse(readFileSync(join(root, "reliability", "figures.json"), "utf8")) as Figures);
}

/** Writes what is not current; returns the paths. */
export function writeGenerated(): string[] {
  const written: string[] = [];
  for (const [path, text] of generatedFiles()) {
    const full = join(root, path);
    if (existsSync(full) && readFileSync(full, "utf8") === text) continue;
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, text);
    written.push(path);
  }
  return written;
}

if (import.meta.main) {
  const written = writeGenerated();
  process.stdout.write(written.length === 0 ? "everything is current\n" : `written: ${written.join(", ")}\n`);
}
