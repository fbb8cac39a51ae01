/**
 * Permissions: what a call may do, before anything of it happens.
 *
 * Invariant: deny beats ask beats allow; a rule that names the call holds in every mode; a mode decides
 * only what no rule names. The model, the tools' own words and repository files carry no authority here.
 */
import { realpath } from "node:fs/promises";
import { relative } from "node:path";
import type { PermissionRules } from "../types/profile.ts";
import type { PermissionMode } from "../types/response.ts";
import type { CallSubject, Tool } from "../types/tool.ts";
import { literal, matchesPath, parseRule } from "../util/path-pattern.ts";
import { matchesName } from "../util/text.ts";

export { parseRule } from "../util/path-pattern.ts";

export type SandboxLevel = "bwrap" | "unshare" | "none";

export interface Question {
  tool: Tool;
  subject: CallSubject;
  workspace: string;
  mode: PermissionMode;
  /** The profile or an outer agent is bound to reading. */
  readOnly: boolean;
  rules: readonly PermissionRules[];
  /** Asked only where it matters: finding out costs two process starts, once. */
  sandbox: () => Promise<SandboxLevel>;
}

export interface Verdict {
  effect: "allow" | "ask" | "deny";
  /** For people and for the model. */
  why: string;
  /** An explicit rule decided, not the mode. */
  byRule: boolean;
}

export async function judge(asked: Question): Promise<Verdict> {
  // Paths are canonical, so patterns must be taken from where the workspace really is.
  const workspace = asked.subject.paths
    ? await realpath(asked.workspace).catch(() => asked.workspace)
    : asked.workspace;
  const question = { ...asked, workspace };
  const { tool, subject } = question;
  const denied = byRules("deny", question);
  if (denied) return denied;
  if (tool.confined && subject.inside === false) return { effect: "deny", why: OUTSIDE, byRule: false };
  if (question.readOnly && subject.commands !== undefined && (await question.sandbox()) === "none") return NO_WALL;
  const asks = byRules("ask", question);
  if (asks) return asks;
  if (subject.commands === null && hasPatterns(question)) {
    return { effect: "ask", why: UNREADABLE_COMMAND, byRule: false };
  }
  if (tool.changed !== undefined) {
    return { effect: "ask", why: `the tool has changed since it was first seen: ${tool.changed}`, byRule: false };
  }
  const bound = question.readOnly && tool.access === "write";
  return (bound ? undefined : byRules("allow", question)) ?? byMode(question);
}

const OUTSIDE =
  "it lies outside the workspace, which the file tools do not leave (a command in the sandbox may read it)";

/** Why it asks about a command that no pattern can be held against. */
export const UNREADABLE_COMMAND = "the command line cannot be parsed, and there are rules about commands";

const THROWS_AWAY = "it deletes folders, or what version control has not kept";

const NO_WALL: Verdict = {
  effect: "deny",
  why: "there is no sandbox here that could make it read-only",
  byRule: false,
};

function byRules(effect: keyof PermissionRules, question: Question): Verdict | undefined {
  for (const set of question.rules) {
    const rule = set[effect].find((text) => applies(text, effect, question));
    if (rule !== undefined) return { effect, why: `rule ${effect}: ${rule}`, byRule: true };
  }
  return undefined;
}

/** Every name that a rule may call a tool by. */
function namesOf({ name, server, serverName }: Pick<Tool, "name" | "server" | "serverName">): string[] {
  return [name, `${server}:${serverName}`, `${server}__${serverName}`];
}

function named(rule: string, names: readonly string[]): boolean {
  return names.some((name) => matchesName(rule, name));
}

const ownNames = (name: string) => namesOf({ name, server: "rotunda", serverName: name });

/** Rules about bash hold for every tool of ours that runs shell lines. */
function shellNames({ server }: Tool, { commands }: CallSubject): string[] {
  return server === "rotunda" && commands !== undefined ? ownNames("bash") : [];
}

/** Patterns of files that `deny` rules keep from being read: whatever shows contents leaves these out. */
export function unreadable(deny: readonly string[]): string[] {
  return deny.map(parseRule).flatMap(({ tool, pattern }) => {
    return pattern !== null && named(tool, ownNames("read")) ? [pattern] : [];
  });
}

function applies(text: string, effect: keyof PermissionRules, { tool, subject, workspace }: Question): boolean {
  const { tool: name, pattern } = parseRule(text);
  const names = namesOf(tool);
  // A path that may not be read or written may not be searched or edited either.
  if (tool.server === "rotunda" && subject.paths && pattern !== null && tool.access !== "run")
    names.push(...ownNames(tool.access));
  names.push(...shellNames(tool, subject));
  if (!named(name, names)) return false;
  if (pattern === null) return true;
  if (pattern === "") return false;
  if (subject.commands !== undefined) {
    // A line that cannot be parsed is never allowed by a pattern, and a pattern cannot rule it out either: it asks.
    if (subject.commands === null) return effect === "ask";
    return many(effect, subject.commands, (command) => matchesCommand(pattern, command, effect));
  }
  if (subject.paths) return many(effect, subject.paths, (path) => matchesPath(pattern, path, workspace));
  if (subject.url !== undefined) return matchesName(pattern, subject.url);
  return false;
}

/** ` *` at the end: with any further words, or none. A prohibition holds for a program by its path too. */
function matchesCommand(pattern: string, command: string, effect: keyof PermissionRules): boolean {
  const written = effect === "allow" ? [command] : [command, command.replace(/^\S*\//, "")];
  const patterns = pattern.endsWith(" *") ? [pattern, pattern.slice(0, -2)] : [pattern];
  return written.some((text) => patterns.some((one) => matchesName(one, text)));
}

/** A permission must cover everything that a call touches; a prohibition any of it. */
function many(effect: keyof PermissionRules, subjects: readonly string[], test: (subject: string) => boolean): boolean {
  if (subjects.length === 0) return false;
  return effect === "allow" ? subjects.every(test) : subjects.some(test);
}

async function byMode(question: Question): Promise<Verdict> {
  const { tool, mode } = question;
  const verdict = (effect: Verdict["effect"], why: string): Verdict => ({ effect, why, byRule: false });
  if (tool.access === "read") {
    if (question.subject.inside === false && mode !== "auto") return verdict("ask", "it reads outside the workspace");
    return verdict("allow", "it only reads");
  }
  if (tool.access === "write" && (mode === "plan" || question.readOnly)) {
    return verdict("deny", question.readOnly ? "this agent may only read" : "mode plan: nothing is changed");
  }
  if (question.subject.commands !== undefined) return byShell(question, verdict);
  if (mode === "plan") return verdict("deny", "mode plan: nothing is changed");
  if (question.readOnly) return verdict("ask", "this agent may only read, and what the tool does is not known");
  if (mode === "auto") return verdict("allow", "mode auto");
  if (mode === "accept-edits" && tool.access === "write" && question.subject.inside === true) {
    return verdict("allow", "mode accept-edits");
  }
  return verdict("ask", tool.access === "write" ? "it writes" : "no rule names this tool");
}

/** The boundary of a shell command is the sandbox, not its text. */
async function byShell(
  question: Question,
  verdict: (effect: Verdict["effect"], why: string) => Verdict,
): Promise<Verdict> {
  const { mode, sandbox, subject, readOnly } = question;
  if ((await sandbox()) !== "none") {
    const writes = mode !== "plan" && !readOnly;
    if (mode !== "auto" && writes && subject.throwsAway) return verdict("ask", THROWS_AWAY);
    return verdict("allow", mode === "auto" ? "mode auto" : "it runs in the sandbox");
  }
  if (mode === "plan") return NO_WALL;
  return verdict("ask", "there is no sandbox on this machine");
}

function hasPatterns({ tool, subject, rules }: Question): boolean {
  const names = [...namesOf(tool), ...shellNames(tool, subject)];
  return rules.some((set) =>
    [...set.deny, ...set.ask].some((text) => {
      const { tool: name, pattern } = parseRule(text);
      return pattern !== null && named(name, names);
    }),
  );
}

/** Programs whose first word says what they do, the further ones only with what. */
const WITH_SUBCOMMANDS = new Set("git npm pnpm yarn bun cargo go docker podman kubectl gh dotnet".split(" "));

/**
 * The rule that "always this pattern" stands for: the narrowest that a person would recognise. `bash()` fits
 * nothing: for a line that cannot be parsed, and for several commands or paths, there is no such rule.
 */
export function patternFor(tool: Tool, subject: CallSubject, workspace: string): string {
  const { commands, paths } = subject;
  if (commands !== undefined) return `${tool.name}(${commandPattern(commands ?? [])})`;
  const [path] = paths ?? [];
  if (path === undefined) return tool.name;
  if (paths?.length !== 1) return `${tool.name}()`;
  const pattern = literal(subject.inside === false ? path : relative(workspace, path));
  // Without a slash it would be a file of that name in any folder.
  return `${tool.name}(${pattern.includes("/") ? pattern : `./${pattern}`})`;
}

function commandPattern(commands: readonly string[]): string {
  const patterns = commands.map((command) => {
    const [program = "", first = ""] = command.split(" ");
    const head = WITH_SUBCOMMANDS.has(program) && /^[a-z][a-z-]*$/.test(first);
    return head ? `${program} ${first} *` : literal(command);
  });
  const [pattern = ""] = patterns;
  return patterns.every((one) => one === pattern) ? pattern : "";
}

const strictness: readonly PermissionMode[] = ["plan", "ask", "accept-edits", "auto"];

/** The stricter of two modes. */
export function stricter(a: PermissionMode, b: PermissionMode): PermissionMode {
  return strictness.indexOf(a) <= strictness.indexOf(b) ? a : b;
}
