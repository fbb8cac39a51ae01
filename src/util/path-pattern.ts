/**
 * Permission rules as they are written, and their patterns over paths.
 *
 * Invariant: the same rule means the same to every reader, and a text that is no rule is an error, never a rule
 * without effect. In a pattern `\*`, `\?` and `\\` stand for the character itself.
 */
import { relative, sep } from "node:path";
import { RotundaError } from "../types/error.ts";
import { matchesName } from "./text.ts";

export interface Rule {
  tool: string;
  pattern: string | null;
}

const RULE = /^([^()\s]+)\s*(?:\(([\s\S]*)\))?$/;

/** Whether a text reads `tool` or `tool(pattern)`. An empty pattern fits nothing: nobody writes that on purpose. */
export function isRule(text: string): boolean {
  const [, tool, pattern] = RULE.exec(text.trim()) ?? [];
  return tool !== undefined && pattern !== "";
}

/** Reads `tool` or `tool(pattern)`. Throws `config_invalid`. */
export function parseRule(text: string): Rule {
  const [, tool, pattern = null] = RULE.exec(text.trim()) ?? [];
  if (tool === undefined) throw new RotundaError("config_invalid", `not a rule, tool or tool(pattern): ${text}`);
  return { tool, pattern };
}

/** The pattern that matches this text and no other. */
export function literal(text: string): string {
  return text.replace(/[*?\\]/g, "\\$&");
}

/** A pattern without a slash names a file anywhere; with one, a path in the workspace or an absolute path. */
export function matchesPath(pattern: string, path: string, workspace: string): boolean {
  const inWorkspace = relative(workspace, path).replaceAll(sep, "/");
  if (!pattern.includes("/")) return matchesName(pattern, inWorkspace.split("/").pop() ?? "");
  const expression = pathGlob(pattern.replace(/^\.\//, ""));
  return expression.test(pattern.startsWith("/") ? path : inWorkspace);
}

function pathGlob(pattern: string): RegExp {
  const source = pattern
    .split(/(\\[*?\\]|\*\*\/|\*\*|\*|\?)/)
    .map((part) => {
      if (part === "**/") return "(?:[\\s\\S]*/)?";
      if (part === "**") return "[\\s\\S]*";
      if (part === "*") return "[^/]*";
      if (part === "?") return "[^/]";
      if (/^\\[*?\\]$/.test(part)) return part;
      return part.replace(/[.+^${}()|[\]\\]/g, "\\$&");
    })
    .join("");
  return new RegExp(`^${source}$`, "u");
}
