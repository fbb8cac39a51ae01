/**
 * Model: anything that can answer. One shape for HTTP endpoints, external agents and the demo.
 *
 * Invariant: `stream` ends with exactly one `finish` event, or throws a `ModelError`. A stream that was
 * cut, or that never said why it stopped, throws: it never looks like success.
 */
import { type ErrorCode, RotundaError } from "./error.ts";
import type { Entry, FinishReason, Usage } from "./item.ts";
import type { Json, JsonSchema } from "./json.ts";
import type { Sampling, TextFormat } from "./response.ts";

export type ModelEvent =
  | { type: "text"; delta: string }
  | { type: "refusal"; delta: string }
  | { type: "reasoning"; delta: string }
  /** A tool call begins; `index` names it within this answer (0, 1, …). */
  | { type: "call"; index: number; callId: string; name: string }
  | { type: "call_arguments"; index: number; delta: string }
  | { type: "finish"; reason: FinishReason; reasonRaw?: string; usage?: Usage; raw?: Json };

/** What one response contributes to a prompt. The array's identity is stable once `ended`: models cache by it. */
export interface HistoryNode {
  responseId: string;
  ended: boolean;
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
  /** What holds where the model is not configured to say. */
  defaults?: { temperature?: number; maxOutputTokens?: number };
  /** For the provider's prompt cache and for logs: the id of the first response on the path. */
  cacheKey: string;
  /** Milliseconds since the epoch after which the model must have given up. */
  deadline?: number;
  /** Called for each retry and its reason. */
  onRetry?(text: string): void;
}

export interface Model {
  /** As configured; what users name. */
  readonly id: string;
  /** Who really answers (endpoint and model name): provider-bound data goes back to the same key only. */
  readonly key: string;
  /** True for the built-in demo: every output must say so. */
  readonly demo?: boolean;
  /** Context window in tokens, where known. */
  readonly contextWindow?: number;
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
  /** Where it was found: "config", "environment", "local", "demo". */
  origin: "config" | "environment" | "local" | "demo" | "library";
  default: boolean;
}
