/**
 * Tool: anything that can be called. One shape for built-in tools, MCP tools, sub-agents and admin operations.
 *
 * Invariant: a tool's failure is data for the model (`isError`), never an exception that ends a run. A tool
 * runs only after the engine has allowed the call and committed that it starts.
 */
import type { Entry, InputImage } from "./item.ts";
import type { Json, JsonObject, JsonSchema } from "./json.ts";
import type { EndedStatus, Status } from "./response.ts";
import type { TraceContext } from "./telemetry.ts";

export type Access = "read" | "write" | "run";

/** What a call touches, parsed and canonical: what permission rules are matched against. */
export interface CallSubject {
  /** Absolute real paths. */
  paths?: string[];
  /** Each simple command of a shell line, as `argv` joined by one space; null when it could not be parsed. */
  commands?: string[] | null;
  /** Of a shell line: it deletes folders, or what version control has not kept; as far as its words tell. */
  throwsAway?: boolean;
  url?: string;
  /** Every path lies in the workspace (or in a folder that the tool may always use). */
  inside?: boolean;
}

export interface ToolResult {
  /** Text for the model; never empty. */
  text: string;
  isError?: boolean;
  /** Beside the text, for models that take images: `data:` URLs of PNG, JPEG, GIF or WebP. The text names each. */
  images?: InputImage[];
  /** For the screen only: a diff, a todo list. */
  display?: { kind: "diff" | "todo" | "text"; text: string };
  /** Structured result, where the tool has one. */
  structured?: Json;
}

export interface Delegation {
  profile: string;
  task: string;
  description: string;
  maxTurns?: number;
}

export interface DelegationResult {
  responseId: string;
  status: EndedStatus | Extract<Status, "waiting">;
  text: string;
  error: string | null;
}

/** How far a process that the tool starts is shut in. */
export interface Isolation {
  /** The workspace is mounted read-only. */
  readOnly: boolean;
  network: boolean;
}

export interface ToolContext {
  workspace: string;
  /** Aborted by cancel, by the deadline of the response and when the process ends. */
  signal: AbortSignal;
  responseId: string;
  /** Id of the `mcp_call` item. */
  itemId: string;
  profile: string;
  depth: number;
  isolation: Isolation;
  /** Globs of paths that a rule forbids to read: tools that walk folders leave them out. */
  hiddenPaths?: readonly string[];
  /** Folders and files, absolute and canonical, that no tool of ours may write, wherever links lead by then. */
  untouchable?: readonly string[];
  /** Tells whoever watches; not stored. */
  progress(text: string): void;
  /** Runs a sub-agent as a response of its own below this call; called again for the same call, it attaches. */
  delegate(request: Delegation): Promise<DelegationResult>;
  /** The whole output of an earlier call of this tree whose id ends (or begins) with `reference`. */
  readOutput(reference: string): Promise<string | undefined>;
  /** Sent along to whoever carries the call out. */
  trace?: TraceContext;
  /** Items of this conversation that a compaction keeps from the model, oldest first. */
  recall?(): Promise<readonly Entry[]>;
}

export interface Tool {
  /** What models call: `^[A-Za-z0-9_-]{1,64}$`. */
  readonly name: string;
  /** "rotunda" for built-in tools, else the server's name. */
  readonly server: string;
  /** The name at the server; the same as `name` for built-in tools. */
  readonly serverName: string;
  readonly title?: string;
  readonly description: string;
  readonly input: JsonSchema;
  readonly access: Access;
  /** It manages Rotunda itself: offered to a model only where the profile names it, and over remote doors only to admins. */
  readonly admin?: true;
  /** It never leaves the workspace, whatever is allowed: a call that would is refused, and nobody is asked. */
  readonly confined?: true;
  /** Calls of one answer may run beside each other. Default: true for `read`. */
  readonly parallel?: boolean;
  /** May be started again when its outcome is unknown. Only our own code and configuration may say so. Default: true for `read` by our word. */
  readonly repeatable: boolean;
  /** The tool differs from what was known of it before: what changed, as text. Its calls ask again. */
  readonly changed?: string;
  /** Advice on its use, for the system prompt. */
  readonly advice?: string;
  /** What the call touches. Absent: rules match by the tool's name alone. */
  subject?(input: JsonObject, workspace: string): Promise<CallSubject>;
  run(input: JsonObject, context: ToolContext): Promise<ToolResult>;
}

/** Names of the tools with `admin`: a project's profile that names one needs trust. */
export const adminToolNames = [
  "list_mcp_servers",
  "toggle_mcp_server",
  "list_profiles",
  "switch_profile",
  "get_current_profile",
  "get_settings",
  "execute_command",
  "kill_all_agents",
] as const;

/** Where tools come from. `list` waits for slow sources no longer than they themselves allow. */
export interface ToolSource {
  /** Every tool of the source, in stable order. The array's identity changes only with its content. */
  list(signal?: AbortSignal): Promise<readonly Tool[]>;
  /** Finds a tool by the name that a model or a person wrote, in any of the accepted spellings. */
  find(name: string): Promise<Tool | undefined>;
  /** A person has seen what changed about this tool and allowed it. */
  accept?(name: string): Promise<void>;
  close(): Promise<void>;
}
