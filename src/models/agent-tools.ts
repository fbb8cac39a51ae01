/**
 * Agent tools: what an agent's own tool is to our rules: what it may do, what it touches, and which of ours it is like.
 *
 * Invariant: what is not known is taken for the most dangerous kind, "run".
 */
import { realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { JsonObject } from "../types/json.ts";
import type { AgentSetting } from "../types/model.ts";
import type { Access, CallSubject } from "../types/tool.ts";
import { shellSubject } from "../util/shell-subject.ts";
import { matchesList } from "../util/text.ts";
import { isWithin } from "../util/workspace-path.ts";

export interface AgentTool {
  access: Access;
  /** Our tool that does the same. */
  like?: string;
  subject?: CallSubject;
}

interface Known {
  access: Access;
  like?: string;
  /** Argument that holds a path. Default: the working directory. */
  path?: string;
}

/** Claude Code's own tools. */
const claudeTools: Readonly<Record<string, Known>> = {
  Bash: { access: "run", like: "bash" },
  Read: { access: "read", like: "read", path: "file_path" },
  Glob: { access: "read", like: "glob", path: "path" },
  Grep: { access: "read", like: "grep", path: "path" },
  LS: { access: "read", like: "glob", path: "path" },
  Write: { access: "write", like: "write", path: "file_path" },
  Edit: { access: "write", like: "edit", path: "file_path" },
  MultiEdit: { access: "write", like: "edit", path: "file_path" },
  NotebookEdit: { access: "write", like: "edit", path: "notebook_path" },
  WebFetch: { access: "read", like: "fetch" },
  WebSearch: { access: "read" },
  Task: { access: "read", like: "task" },
  Agent: { access: "read", like: "task" },
  TodoWrite: { access: "read", like: "todo" },
  TaskCreate: { access: "read" },
  TaskGet: { access: "read" },
  TaskList: { access: "read" },
  TaskUpdate: { access: "read" },
  TaskOutput: { access: "read" },
  BashOutput: { access: "read" },
  Skill: { access: "read", like: "skill" },
  ToolSearch: { access: "read" },
};

export function claudeTool(name: string, input: JsonObject, workspace: string): AgentTool {
  const known = Object.hasOwn(claudeTools, name) ? claudeTools[name] : undefined;
  if (!known) return { access: "run" };
  const { access, like, path } = known;
  const subject = subjectOf(input, path, name === "Bash", workspace);
  return { access, ...(like && { like }), ...(subject && { subject }) };
}

function subjectOf(
  input: JsonObject,
  path: string | undefined,
  shell: boolean,
  workspace: string,
): CallSubject | undefined {
  if (shell) return shellSubject(input.command);
  if (path !== undefined) return pathsSubject([String(input[path] ?? workspace)], workspace);
  return typeof input.url === "string" ? { url: input.url } : undefined;
}

function pathsSubject(paths: readonly string[], workspace: string): CallSubject {
  const root = realPath(workspace);
  const real = paths.map((path) => realPath(resolve(workspace, path)));
  return { paths: real, inside: real.every((path) => isWithin(root, path)) };
}

/** Where a path leads, also where its last parts do not exist yet. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const above = dirname(path);
    return above === path ? path : join(realPath(above), basename(path));
  }
}

/** By the kind that an ACP agent says; what it calls reading or thinking is believed for rules only, as with any agent. */
const acpKinds: Readonly<Record<string, { access: Access; like?: string }>> = {
  read: { access: "read", like: "read" },
  search: { access: "read", like: "grep" },
  think: { access: "read" },
  fetch: { access: "read", like: "fetch" },
  edit: { access: "write", like: "edit" },
  delete: { access: "write", like: "write" },
  move: { access: "write", like: "write" },
  execute: { access: "run", like: "bash" },
};

export function acpTool(
  kind: string | undefined,
  input: JsonObject,
  locations: readonly string[],
  workspace: string,
): AgentTool {
  const known = kind !== undefined && Object.hasOwn(acpKinds, kind) ? acpKinds[kind] : undefined;
  if (!known) return { access: "run" };
  if (kind === "execute") return { ...known, subject: subjectOf(input, undefined, true, workspace) ?? {} };
  if (kind === "fetch") return { ...known, ...(typeof input.url === "string" && { subject: { url: input.url } }) };
  const named = ["filePath", "file_path", "path", "abs_path"].flatMap((key) => {
    const value = input[key];
    return typeof value === "string" ? [value] : [];
  });
  const paths = [...new Set([...locations, ...named])];
  return paths.length > 0 ? { ...known, subject: pathsSubject(paths, workspace) } : known;
}

// ---- Claude Code's lists of tools

/** Nobody answers them here, or they would change the mode that we have set. */
const NEVER = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];

const WRITERS = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

/** What a profile's tools and rules are as Claude Code's lists. The rules themselves hold for every call besides. */
export function claudeLists(
  setting: Pick<AgentSetting, "tools" | "rules" | "readOnly">,
  agent: string,
): { allowed: string[]; disallowed: string[] } {
  const disallowed = new Set(NEVER);
  for (const [name, { like }] of Object.entries(claudeTools)) {
    const names = [
      name,
      `${agent}:${name}`,
      `${agent}__${name}`,
      ...(like === undefined ? [] : [like, `rotunda:${like}`]),
    ];
    // What none of ours is like is left out only where a list says so.
    const left = (list: readonly string[]) => ["*", ...list.filter((glob) => glob.startsWith("!"))];
    const lists = like === undefined ? setting.tools.map(left) : setting.tools;
    if (!lists.every((list) => matchesList(list, names))) disallowed.add(name);
  }
  if (setting.readOnly) for (const name of WRITERS) disallowed.add(name);
  for (const rule of setting.rules.deny) for (const name of claudeRules(rule, agent)) disallowed.add(name);
  const allowed = setting.rules.allow.flatMap((rule) => claudeRules(rule, agent));
  return { allowed: [...new Set(allowed)], disallowed: [...disallowed] };
}

/** A rule of ours in Claude Code's words: whole tools, and patterns of commands. Others hold by our own judgement only. */
function claudeRules(rule: string, agent: string): string[] {
  const [, tool = "", pattern] = /^([^()]+?)(?:\((.*)\))?$/s.exec(rule.trim()) ?? [];
  const names = Object.entries(claudeTools).flatMap(([name, { like }]) => {
    const spellings = [
      `${agent}:${name}`,
      `${agent}__${name}`,
      ...(like === undefined ? [] : [like, `rotunda:${like}`]),
    ];
    return spellings.includes(tool) ? [name] : [];
  });
  if (pattern === undefined) return names;
  return names.includes("Bash") && !/[()]/.test(pattern) ? [`Bash(${pattern})`] : [];
}
