/**
 * A response is one turn and one node of the tree.
 *
 * Invariant: it ends once; after that nothing about it changes but its erasure.
 */
import type { ErrorCode } from "./error.ts";
import type { Item, Usage } from "./item.ts";
import type { JsonObject, JsonSchema } from "./json.ts";
import type { ResponseTrace } from "./telemetry.ts";

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
  /** `budget_reached`: which one it waits for. */
  budget?: string;
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
  /** Holds for the first model call; once a tool was called the model is free again. */
  toolChoice?: "auto" | "none" | "required" | { name: string };
  /**
   * What happens when a call needs a person and none is at hand, unless the profile says it. "wait": the response
   * waits. "return": it ends, and the answer starts its child. "deny": the call is denied.
   */
  onApproval?: "wait" | "return" | "deny";
  /** Tool calls of the whole response at most; those beyond are answered "not run". */
  maxToolCalls?: number;
  /** What the answer's text must be. */
  format?: TextFormat;
  sampling?: Sampling;
  /** How hard the model thinks, in the endpoint's words. */
  reasoningEffort?: string;
  /** The model is to think before it answers, as hard as it likes. */
  reasoning?: true;
  /** False: its content is erased once it has ended and was told. Default true. */
  store?: boolean;
  /** Somebody waits at the other end of a connection: after a crash it is not gone on with but ends `incomplete`. */
  foreground?: boolean;
  /** Somebody speaks to the model itself and not to an agent: the profile's defaults for sampling do not hold. */
  plain?: boolean;
  /** Ids of items further up the path that were taken out of the conversation: from here on no model sees them. */
  omit?: string[];
  /** It asks nothing of the model but to sum up the path above it. `focus`: what the summary must not miss. */
  compact?: { focus?: string };
  /**
   * False: a path that is too long for the model is an error. A number: tokens of a prompt above which older items are
   * summed up. Default: as configured.
   */
  compaction?: false | number;
  /** Whose part it is, where somebody traces it. */
  trace?: ResponseTrace;
  /** Fields of the request that the door repeats in its answers. The engine never reads them. */
  wire?: JsonObject;
  /** Absolute path of the configuration file that it was started with, where one was named. */
  configuration?: string;
  metadata?: JsonObject;
}

export type TextFormat =
  | { type: "text" }
  | { type: "json_object" }
  | { type: "json_schema"; name: string; schema: JsonSchema; description?: string; strict?: boolean };

/** What shapes the choice of words, beside the temperature. */
export interface Sampling {
  topP?: number;
  stop?: string[];
  seed?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
}

/** A function tool of the client: offered to the model, never run by us. */
export interface ClientTool {
  name: string;
  description?: string;
  parameters?: JsonSchema;
  strict?: boolean;
  /**
   * Fields of the item of a call, where the client knows the tool otherwise than the model does: nested in a
   * namespace, by another name, or as one that takes free text.
   */
  wire?: { namespace?: string; name?: string; custom?: true };
}

/** Who a response belongs to: "local" (whoever may use this machine's state directory) or the id of a token. */
export type Owner = string;

export const LOCAL: Owner = "local";

export interface ResponseNode {
  id: string;
  owner: Owner;
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
  /** How often a server has begun anew with it after a crash. */
  restarts: number;
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
  owner: Owner;
  /** Unique within its owner. */
  name: string | null;
  title: string;
  head: string | null;
  workspace: string;
  metadata: JsonObject;
  createdAt: number;
  updatedAt: number;
}
