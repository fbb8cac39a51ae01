/**
 * A tool call as an editor shows it: title, kind, places, differences, result.
 *
 * Invariant: titles and arguments are shown with every invisible character made visible; a difference is shown only
 * where both of its sides are known.
 */
import { isAbsolute, resolve } from "node:path";
import type {
  PlanEntry,
  ToolCallContent,
  ToolCallLocation,
  ToolCallStatus,
  ToolKind,
} from "@agentclientprotocol/sdk/unstable";
import type { McpCallItem } from "../../types/item.ts";
import type { JsonObject } from "../../types/json.ts";
import { oneLine, visible } from "../../util/text.ts";
import { openInside } from "../../util/workspace-path.ts";

/** What is known of a call from its request alone. */
export interface DescribedCall {
  title: string;
  kind: ToolKind;
  /** As models call it. */
  name: string;
  locations: ToolCallLocation[];
  rawInput?: JsonObject;
}

type Call = Pick<McpCallItem, "server_label" | "name" | "arguments">;

const OWN = "rotunda";
const TITLE = 200;

const KINDS: Record<string, ToolKind> = {
  read: "read",
  read_output: "read",
  skill: "read",
  write: "edit",
  edit: "edit",
  bash: "execute",
  execute_command: "execute",
  glob: "search",
  grep: "search",
  fetch: "fetch",
  task: "think",
};

export function isPlan({ server_label, name }: Pick<Call, "server_label" | "name">): boolean {
  return server_label === OWN && name === "TodoWrite";
}

/** Its arguments are "" as long as the model writes them. */
export function describeCall(call: Call, workspace: string): DescribedCall {
  const own = call.server_label === OWN;
  const name = own ? call.name : `${call.server_label}: ${call.name}`;
  const kind = (own && KINDS[call.name]) || "other";
  const input = parseObject(call.arguments);
  if (!input) return { title: shown(name), kind, name: call.name, locations: [] };
  const title = shown(own ? ownTitle(call.name, input) : name);
  return { title, kind, name: call.name, locations: own ? locationsOf(input, workspace) : [], rawInput: input };
}

function shown(text: string): string {
  return visible(oneLine(text, TITLE));
}

function ownTitle(name: string, input: JsonObject): string {
  const text = (key: string) => (typeof input[key] === "string" ? input[key] : "");
  const paths = filesOf(input).map(({ path }) => path);
  switch (name) {
    case "read":
      return `Read ${paths.join(", ")}`;
    case "write":
      return `Write ${paths.join(", ")}`;
    case "edit":
      return `Edit ${paths.join(", ")}`;
    case "bash":
    case "execute_command":
      return text("command");
    case "glob":
      return `Find ${text("pattern")}${text("path") && ` in ${text("path")}`}`;
    case "grep":
      return `Search ${text("pattern")}${text("path") && ` in ${text("path")}`}`;
    case "task":
      return `${text("agent_type")}: ${text("description")}`;
    case "skill":
      return `Skill ${text("name")}`;
    default:
      return name;
  }
}

function filesOf(input: JsonObject): { path: string; line?: number }[] {
  const list = Array.isArray(input.files) ? input.files : [input];
  return list.flatMap((entry) => {
    if (typeof entry !== "object" || entry === null || Array.isArray(entry)) return [];
    const { file_path: path, from: line } = entry;
    if (typeof path !== "string" || path === "") return [];
    return [{ path, ...(typeof line === "number" && Number.isInteger(line) && line > 0 && { line }) }];
  });
}

function locationsOf(input: JsonObject, workspace: string): ToolCallLocation[] {
  return filesOf(input).map(({ path, ...line }) => ({ path: absolute(path, workspace), ...line }));
}

function absolute(path: string, workspace: string): string {
  return isAbsolute(path) ? path : resolve(workspace, path);
}

// ---- differences

const MAXIMUM_DIFF = 1024 * 1024;

/**
 * The differences that a call of `edit` or `write` will make, or undefined where it makes none that can be told. It
 * reads the file that `write` is about to replace, so it must be asked before the call runs; a file that holds the new
 * text already has been written in the meantime, and what it held is not known.
 */
export async function differencesOf(call: Call, workspace: string): Promise<ToolCallContent[] | undefined> {
  if (call.server_label !== OWN) return undefined;
  const input = parseObject(call.arguments);
  const { file_path: path, content } = input ?? {};
  if (!input || typeof path !== "string" || path === "") return undefined;
  if (call.name === "edit") return editDifferences(input, absolute(path, workspace));
  if (call.name !== "write" || typeof content !== "string" || content.length > MAXIMUM_DIFF) return undefined;
  const oldText = await textBefore(workspace, path);
  if (oldText === undefined || oldText === content) return undefined;
  return [{ type: "diff", path: absolute(path, workspace), oldText, newText: content }];
}

/** One for each replacement, without reading the file. */
export function editDifferences(input: JsonObject, path: string): ToolCallContent[] | undefined {
  const list = Array.isArray(input.edits) ? input.edits : [input];
  const differences = list.flatMap((entry): ToolCallContent[] => {
    if (typeof entry !== "object" || entry === null || Array.isArray(entry)) return [];
    const { old_string: oldText, new_string: newText } = entry;
    if (typeof oldText !== "string" || typeof newText !== "string") return [];
    return [{ type: "diff", path, oldText, newText }];
  });
  return differences.length > 0 ? differences : undefined;
}

/** null: there is no such file. undefined: it cannot be told. */
async function textBefore(workspace: string, path: string): Promise<string | null | undefined> {
  try {
    const { handle, stats } = await openInside(workspace, path);
    try {
      if (stats.size > MAXIMUM_DIFF) return undefined;
      const bytes = await handle.readFile();
      return bytes.includes(0) ? undefined : bytes.toString("utf8");
    } finally {
      await handle.close();
    }
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? null : undefined;
  }
}

// ---- results

/** Tools whose results are no Markdown. */
const VERBATIM = new Set(["bash", "execute_command", "read", "read_output", "grep", "glob"]);

export function resultStatus(item: Pick<McpCallItem, "status">): ToolCallStatus {
  if (item.status === "completed") return "completed";
  if (item.status === "calling") return "in_progress";
  return item.status === "in_progress" ? "pending" : "failed";
}

/** What the call has answered, for a person; undefined where it has not. */
export function resultContent(item: McpCallItem): ToolCallContent[] | undefined {
  const text = item.output ?? item.error;
  if (text === null || text === "") return undefined;
  const verbatim = item.server_label === OWN && VERBATIM.has(item.name);
  return [textContent(verbatim ? fenced(text) : text)];
}

/** Of the agent's own arguments, for whoever must decide: the whole of them, nothing hidden. */
export function argumentsContent(call: Call): ToolCallContent[] {
  const input = parseObject(call.arguments);
  const { command } = input ?? {};
  const own = call.server_label === OWN;
  if (own && typeof command === "string") return [textContent(fenced(visible(command), "sh"))];
  return [textContent(fenced(visible(input ? JSON.stringify(input, null, 2) : call.arguments), "json"))];
}

export function textContent(text: string): ToolCallContent {
  return { type: "content", content: { type: "text", text } };
}

/** A block of code that no text can end. */
export function fenced(text: string, language = ""): string {
  let longest = 2;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}`;
}

// ---- the plan

const PLAN_STATUS = new Set(["pending", "in_progress", "completed"]);

/** The list of a call of TodoWrite; undefined where it is none. */
export function planOf(text: string): PlanEntry[] | undefined {
  const todos = parseObject(text)?.todos;
  if (!Array.isArray(todos)) return undefined;
  return todos.flatMap((todo): PlanEntry[] => {
    if (typeof todo !== "object" || todo === null || Array.isArray(todo)) return [];
    const { content, status } = todo;
    if (typeof content !== "string" || typeof status !== "string" || !PLAN_STATUS.has(status)) return [];
    return [{ content: visible(content), priority: "medium", status: status as PlanEntry["status"] }];
  });
}

export function parseObject(text: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined;
  } catch {
    return undefined;
  }
}
