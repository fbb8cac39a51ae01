/**
 * A response is one turn and one node of the tree.
 *
 * Invariant: it ends once; after that nothing about it changes but its erasure.
 */
import type { ErrorCode } from "./error.ts";
import type { Item, Usage } from "./item.ts";
import type { JsonObject, JsonSchema } from "./json.ts";

export type Status = "queued" | "in_progress" | "waiting" | "completed" | "incomplete" | "failed" | "cancelled";

export type EndedStatus = "completed" | "incomplete" | "failed" | "cancelled";

/** Why a response ended `incomplete`. */
export type IncompleteReason =
  | "max_turns"
  | "max_time"
  | "max_tokens"
  | "max_calls"
  | "max_output_tokens"
  | "repeated_calls"
  | "content_filter"
  | "interrupted"
  | "stream_cut"
  | "output_limit"
  | "empty_response";

export interface ResponseError {
  code: ErrorCode;
  message: string;
}

/** The call that started a sub-agent's response. */
export interface Caller {
  responseId: string;
  /** Id of the `mcp_call` item. */
  itemId: string;
}

/** Bounds of one response. */
export interface Limits {
  /** Model calls. */
  turns: number;
  /** Seconds since the response was created, without the time spent waiting for a person. */
  seconds: number;
  /** Input and output tokens of all its model calls. */
  tokens: number;
  /** Tool calls taken from one answer of the model; the rest are answered "not run". */
  callsPerAnswer: number;
}

export type PermissionMode = "ask" | "accept-edits" | "plan" | "auto";

/** How a response is to be run: what its caller asked for, resolved, without the input. Stored with it. */
export interface RunSettings {
  instructions?: string;
  temperature?: number;
  limits?: Partial<Limits>;
  mode?: PermissionMode;
  maxOutputTokens?: number;
  parallel?: boolean;
  /** Lists of globs; a tool is offered only if every list names it. */
  toolFilters?: string[][];
  /** What the caller's profile forbids or asks about, and the MCP servers that it may use. Inherited by sub-agents. */
  bounds?: { deny: string[]; ask: string[]; servers: string[][] };
  /** Nothing may write, whatever the profile says. Inherited by sub-agents. */
  readOnly?: boolean;
  clientTools?: ClientTool[];
  toolChoice?: "auto" | "none" | "required" | { name: string };
  /** "wait": the response waits for a person. "deny": nobody can answer, so the call is denied. */
  onApproval?: "wait" | "deny";
  /** Absolute path of the configuration file that it was started with, where one was named. */
  configuration?: string;
  metadata?: JsonObject;
}

/** A function tool of the client: offered to the model, never run by us. */
export interface ClientTool {
  name: string;
  description?: string;
  parameters?: JsonSchema;
}

export interface ResponseNode {
  id: string;
  previousResponseId: string | null;
  caller: Caller | null;
  conversationId: string | null;
  profile: string;
  /** Id of the model as configured. */
  model: string;
  status: Status;
  incompleteReason: IncompleteReason | null;
  error: ResponseError | null;
  /** The answer was made by the engine out of tool results, because the model could not. */
  degraded: boolean;
  usage: Usage;
  settings: RunSettings;
  /** Absolute path of the directory that the response works in. */
  workspace: string;
  /** The door that it came through. */
  door: string;
  /** Depth below the outermost response: 0, or the caller's plus one. */
  depth: number;
  /** Milliseconds since the epoch. */
  createdAt: number;
  endedAt: number | null;
  /** Milliseconds since its creation in which it did not run: it waited for a person, or no process had it. */
  waited: number;
  /** Milliseconds that it had run when it last left a process. */
  ran: number;
  /** SHA-256 over its canonical content and its parent's hash; null while it runs. */
  hash: string | null;
}

/** A response with what was said in it. */
export interface FullResponse extends ResponseNode {
  input: Item[];
  output: Item[];
  /** Calls of the model that were finished. */
  turns: number;
}

/** A named, movable pointer to a response. */
export interface Conversation {
  id: string;
  name: string | null;
  title: string;
  head: string | null;
  workspace: string;
  createdAt: number;
  updatedAt: number;
}
