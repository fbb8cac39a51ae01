/**
 * Model: anything that can answer. One shape for HTTP endpoints, external agents and the demo.
 *
 * Invariant: `stream` ends with exactly one `finish` event, or throws a `ModelError`. A stream that was
 * cut, or that never said why it stopped, throws: it never looks like success.
 */
import { type ErrorCode, RotundaError } from "./error.ts";
import type { Entry, FinishReason, Usage } from "./item.ts";
import type { Json, JsonSchema } from "./json.ts";
import type { PermissionRules } from "./profile.ts";
import type { PermissionMode, Sampling, TextFormat } from "./response.ts";
import type { TraceContext } from "./telemetry.ts";
import type { Access, CallSubject } from "./tool.ts";

export type ModelEvent =
  | { type: "text"; delta: string }
  | { type: "refusal"; delta: string }
  | { type: "reasoning"; delta: string }
  /** A tool call begins; `index` names it within this answer (0, 1, …). */
  | { type: "call"; index: number; callId: string; name: string; agent?: AgentCall }
  | { type: "call_arguments"; index: number; delta: string }
  /**
   * Of a call that an agent runs itself, its arguments whole. With `asks` it waits for a person's word; without, it is
   * about to start, and `answer` comes once that is on disk; with `started` it has begun already, and a denial stops the
   * agent. The stream goes on meanwhile.
   */
  | {
      type: "call_question";
      index: number;
      asks: boolean;
      started?: true;
      why?: string;
      answer(verdict: AgentVerdict): void;
    }
  /** What came of a call that an agent has run itself. */
  | { type: "call_outcome"; index: number; failed: boolean; output: string }
  | { type: "finish"; reason: FinishReason; reasonRaw?: string; usage?: Usage; raw?: Json };

/** A call that an external agent runs by itself. It is recorded, never run by us. */
export interface AgentCall {
  /** Id of the agent: the `server_label` of the item. */
  server: string;
  access: Access;
  subject?: CallSubject;
  /** Our own tool that does the same: rules about that hold here too. */
  like?: string;
  /** Tokens since the last call that told them. */
  usage?: Usage;
  /** Provider-bound: where the agent can be taken up again after a crash. */
  raw?: Json;
}

export interface AgentVerdict {
  /** "own": as the agent decides by itself. "ask": it is to ask first. "later": nobody is there; it is to stop. */
  decision: "allow" | "deny" | "own" | "ask" | "later";
  /** For the agent, with a denial. */
  reason?: string;
}

/** What only an external agent needs to know, as it works by itself. */
export interface AgentSetting {
  /** Absolute path of the directory that it works in. */
  workspace: string;
  mode: PermissionMode;
  readOnly: boolean;
  /** The profile says explicitly that the agent is to ask nobody. */
  skipPermissions: boolean;
  /** Globs over our tools' names; a tool may be used only if every list names it. */
  tools: readonly string[][];
  rules: PermissionRules;
}

/** What one response contributes to a prompt. The array's identity is stable once `ended`: models cache by it. */
export interface HistoryNode {
  responseId: string;
  ended: boolean;
  /** Something of it was taken out of the conversation further down. */
  edited?: true;
  /** Input side first, then output, each in the order of position. */
  entries: readonly Entry[];
}

export interface ToolDefinition {
  name: string;
  description: string;
  input: JsonSchema;
  /** The endpoint is to hold the model to the schema. */
  strict?: boolean;
}

export interface ModelRequest {
  instructions: string;
  /** From the root to the response that asks. */
  history: readonly HistoryNode[];
  /** Offered tools, in stable order. The array's identity changes only when its content does. */
  tools: readonly ToolDefinition[];
  toolChoice: "auto" | "none" | "required" | { name: string };
  parallelToolCalls: boolean;
  /** They beat what the model is configured with. */
  temperature?: number;
  maxOutputTokens?: number;
  format?: TextFormat;
  sampling?: Sampling;
  reasoningEffort?: string;
  /** Think first, as hard as the model likes; an endpoint that does so anyway is told nothing. */
  reasoning?: true;
  /** What holds where the model is not configured to say. */
  defaults?: { temperature?: number; maxOutputTokens?: number };
  /** For the provider's prompt cache and for logs: the id of the first response on the path. */
  cacheKey: string;
  /** Milliseconds since the epoch after which the model must have given up. */
  deadline?: number;
  /** Sent along, so that the endpoint's part of a trace can be found. */
  trace?: TraceContext;
  /** Called for each retry and its reason. */
  onRetry?(text: string): void;
  /** Called before another model is asked instead; nothing of an answer was yielded. What it rejects with ends the call. */
  instead?(other: Model): Promise<void>;
  /** Set for models with `agent`; `instructions` are then the caller's and the profile's own only. */
  agent?: AgentSetting;
}

/** US dollars for a million tokens, where the endpoint does not say what a call has cost. */
export interface ModelPrice {
  input: number;
  output: number;
  /** Default: as `input`. */
  cached?: number;
}

export interface Model {
  /** As configured; what users name. */
  readonly id: string;
  /** Who really answers (endpoint and model name): provider-bound data goes back to the same key only. */
  readonly key: string;
  /** True for the built-in demo: every output must say so. */
  readonly demo?: boolean;
  /** An external agent: it has tools of its own and runs them itself. */
  readonly agent?: true;
  /** Context window in tokens, where known; it may become known with a call. */
  readonly contextWindow?: number | undefined;
  /** Calls at once, of all that share the database; the rest stand in line. */
  readonly maxConcurrent?: number;
  readonly price?: ModelPrice;
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelEvent>;
}

export interface ModelErrorOptions {
  /** HTTP status of the endpoint. */
  status?: number;
  /** Something of the answer had already been yielded. */
  partial?: boolean;
  cause?: unknown;
}

/** A model's failure. `message` never holds a key. */
export class ModelError extends RotundaError {
  readonly status: number | undefined;
  readonly partial: boolean;

  constructor(code: ErrorCode, message: string, options: ModelErrorOptions = {}) {
    super(code, message, options.cause === undefined ? {} : { cause: options.cause });
    this.name = "ModelError";
    this.status = options.status;
    this.partial = options.partial ?? false;
  }
}

/** A model as a listing shows it. */
export interface ModelInfo {
  id: string;
  /** Name at the endpoint. */
  model: string;
  baseUrl: string | null;
  /** Where it was found: "config", "environment", "local", "demo"; "agent": another program's agent. */
  origin: "config" | "environment" | "local" | "demo" | "library" | "agent";
  default: boolean;
  /** What came of asking its endpoint for the list of its models, where that was wanted and it has one. */
  answer?: { state: "ok" | "warning" | "fault"; text: string };
}
