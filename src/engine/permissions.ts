/**
 * Permissions: what a call may do, before anything of it happens.
 *
 * Invariant: deny beats ask beats allow; a rule that names the call holds in every mode; a mode decides
 * only what no rule names. The model, the tools' own words and repository files carry no authority here.
 */
import { relative } from "node:path";
import type { PermissionRules } from "../types/profile.ts";
import type { PermissionMode } from "../types/response.ts";
import type { CallSubject, Tool } from "../types/tool.ts";
import { matchesPath } from "../util/path-pattern.ts";
import { matchesName } from "../util/text.ts";

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

interface Rule {
  tool: string;
  pattern: string | null;
}

/** Reads `tool` or `tool(pattern)`. */
export function parseRule(text: string): Rule {
  const match = /^([^()]+?)\s*(?:\(([\s\S]*)\))?$/.exec(text.trim());
  return { tool: match?.[1] ?? text, pattern: match?.[2] ?? null };
}

export async function judge(question: Question): Promise<Verdict> {
  const { tool, rules } = question;
  for (const effect of ["deny", "ask", "allow"] as const) {
    for (const set of rules) {
      const rule = set[effect].find((text) => applies(text, effect, question));
      if (rule === undefined) continue;
      if (effect === "allow" && tool.changed !== undefined) continue;
      if (effect === "allow" && question.readOnly && tool.access === "write") continue;
      return { effect, why: `rule ${effect}: ${rule}`, byRule: true };
    }
  }
  if (tool.changed !== undefined) {
    return { effect: "ask", why: `the tool has changed since it was first seen: ${tool.changed}`, byRule: false };
  }
  return byMode(question);
}

function applies(text: string, effect: keyof PermissionRules, { tool, subject, workspace }: Question): boolean {
  const rule = parseRule(text);
  const names = [tool.name, `${tool.server}:${tool.serverName}`, `${tool.server}__${tool.serverName}`];
  // A path that may not be read or written may not be searched or edited either.
  if (tool.server === "rotunda" && subject.paths && rule.pattern !== null && tool.access !== "run")
    names.push(tool.access);
  if (!names.some((name) => matchesName(rule.tool, name))) return false;
  const { pattern } = rule;
  if (pattern === null) return true;
  if (subject.commands !== undefined) {
    // A line that cannot be parsed is never allowed by a pattern, and a pattern cannot rule it out either: it asks.
    if (subject.commands === null) return effect === "ask";
    return many(effect, subject.commands, (command) => matchesName(pattern, command));
  }
  if (subject.paths) return many(effect, subject.paths, (path) => matchesPath(pattern, path, workspace));
  if (subject.url !== undefined) return matchesName(pattern, subject.url);
  return false;
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
  const { mode, readOnly, sandbox } = question;
  if (question.subject.commands === null && hasPatterns(question)) {
    return verdict("ask", "the command line cannot be parsed, and there are rules about commands");
  }
  if ((await sandbox()) !== "none") return verdict("allow", mode === "auto" ? "mode auto" : "it runs in the sandbox");
  if (readOnly || mode === "plan") return verdict("deny", "there is no sandbox here that could make it read-only");
  return verdict("ask", "there is no sandbox on this machine");
}

function hasPatterns({ tool, rules }: Question): boolean {
  return rules.some((set) =>
    [...set.deny, ...set.ask].some((text) => {
      const rule = parseRule(text);
      return rule.pattern !== null && matchesName(rule.tool, tool.name);
    }),
  );
}

/** The rule that "always this pattern" stands for: the narrowest that a person would recognise. */
export function patternFor(tool: Tool, subject: CallSubject, workspace: string): string {
  const commands = subject.commands;
  if (commands && commands.length > 0) {
    const heads = [...new Set(commands.map((command) => command.split(" ").slice(0, 2).join(" ")))];
    const [head] = heads;
    return heads.length === 1 && head ? `${tool.name}(${head}*)` : `${tool.name}(${commands[0]})`;
  }
  const [path] = subject.paths ?? [];
  if (path !== undefined && subject.paths?.length === 1) {
    return `${tool.name}(${subject.inside === false ? path : relative(workspace, path)})`;
  }
  return tool.name;
}

const strictness: readonly PermissionMode[] = ["plan", "ask", "accept-edits", "auto"];

/** The stricter of two modes. */
export function stricter(a: PermissionMode, b: PermissionMode): PermissionMode {
  return strictness.indexOf(a) <= strictness.indexOf(b) ? a : b;
}
