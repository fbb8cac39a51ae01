/**
 * Claude Code's stream protocol: lines of JSON in both directions (`--input-format` and `--output-format stream-json`).
 *
 * Invariant: nothing of a line is believed before it was looked at; what is not known is skipped. Control requests of
 * the program (a hook before a tool starts, a question of permission) are answered exactly once.
 */
import type { FinishReason, Usage } from "../types/item.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { AgentVerdict } from "../types/model.ts";
import type { PromptPart } from "./agent-prompt.ts";

export const asObject = (value: unknown): JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};

const asText = (value: unknown): string => (typeof value === "string" ? value : "");
const asNumber = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);

/** What a line says, as far as it matters here. */
export type ClaudeMessage =
  /** It asks its endpoint once more. */
  | { kind: "retry"; text: string }
  /** A piece of the answer as it is made. */
  | { kind: "delta"; type: "text" | "reasoning"; text: string }
  /** A model call has begun, or has used tokens. */
  | { kind: "usage"; started: boolean; message: string; usage: JsonObject }
  /** A whole part of the answer. `inner`: of a sub-agent of its own. */
  | { kind: "assistant"; message: string; blocks: JsonObject[]; inner: boolean; synthetic: boolean }
  | { kind: "results"; results: { callId: string; failed: boolean; output: string }[] }
  | { kind: "tool_starts"; request: string; callId: string; name: string; input: JsonObject }
  | { kind: "asks"; request: string; callId: string; name: string; input: JsonObject; why: string }
  /** A control request that nobody here answers. */
  | { kind: "unknown_request"; request: string; subtype: string }
  | { kind: "withdrawn"; request: string }
  | { kind: "end"; result: ClaudeResult }
  | { kind: "other" };

export interface ClaudeResult {
  failed: boolean;
  text: string;
  errors: string[];
  /** HTTP status of what failed; 0: none. */
  status: number;
  reason: FinishReason;
  reasonRaw: string;
  usage: Usage;
}

/** Undefined: it is no JSON object. */
export function readClaudeLine(line: string): ClaudeMessage | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const message = value as JsonObject;
  switch (message.type) {
    case "system":
      return message.subtype === "api_retry" ? { kind: "retry", text: retryText(message) } : { kind: "other" };
    case "stream_event":
      return readEvent(asObject(message.event), message.parent_tool_use_id);
    case "assistant":
      return readAssistant(message);
    case "user":
      return readResults(asObject(message.message).content);
    case "control_request":
      return readRequest(asText(message.request_id), asObject(message.request));
    case "control_cancel_request":
      return { kind: "withdrawn", request: asText(message.request_id) };
    case "result":
      return { kind: "end", result: readResult(message) };
    default:
      return { kind: "other" };
  }
}

function retryText({ attempt, max_retries: most, error, error_status: status }: JsonObject): string {
  const why = [asText(error), asNumber(status) || ""].filter((part) => part !== "").join(", ");
  return `Claude Code asks its endpoint again (${asNumber(attempt)} of ${asNumber(most)}): ${why}`;
}

function readEvent(event: JsonObject, parent: Json | undefined): ClaudeMessage {
  if (typeof parent === "string") return { kind: "other" };
  if (event.type === "message_start") {
    const message = asObject(event.message);
    return { kind: "usage", started: true, message: asText(message.id), usage: asObject(message.usage) };
  }
  if (event.type === "message_delta")
    return { kind: "usage", started: false, message: "", usage: asObject(event.usage) };
  const delta = asObject(event.delta);
  if (delta.type === "text_delta") return { kind: "delta", type: "text", text: asText(delta.text) };
  if (delta.type === "thinking_delta") return { kind: "delta", type: "reasoning", text: asText(delta.thinking) };
  return { kind: "other" };
}

function readAssistant({ message: given, parent_tool_use_id: parent }: JsonObject): ClaudeMessage {
  const message = asObject(given);
  const blocks = Array.isArray(message.content) ? message.content.map(asObject) : [];
  // It words failures of its own like answers of a model.
  const synthetic = message.model === "<synthetic>";
  return { kind: "assistant", message: asText(message.id), blocks, inner: typeof parent === "string", synthetic };
}

function readResults(content: Json | undefined): ClaudeMessage {
  const blocks = Array.isArray(content) ? content.map(asObject) : [];
  const results = blocks.flatMap(({ type, tool_use_id: callId, content: output, is_error: failed }) => {
    if (type !== "tool_result" || typeof callId !== "string") return [];
    return [{ callId, failed: failed === true, output: outputText(output) }];
  });
  return results.length > 0 ? { kind: "results", results } : { kind: "other" };
}

/** A result is a text, or a list of blocks. */
export function outputText(output: Json | undefined): string {
  if (typeof output === "string") return output;
  if (!Array.isArray(output)) return output === undefined || output === null ? "" : JSON.stringify(output);
  return output
    .map(asObject)
    .map((block) => (typeof block.text === "string" ? block.text : `[${asText(block.type) || "content"}]`))
    .join("\n");
}

function readRequest(request: string, asked: JsonObject): ClaudeMessage {
  if (asked.subtype === "can_use_tool") {
    const { tool_name: name, input, tool_use_id: callId, decision_reason: reason, description } = asked;
    const why = asText(reason) || asText(description);
    return { kind: "asks", request, callId: asText(callId), name: asText(name), input: asObject(input), why };
  }
  if (asked.subtype === "hook_callback") {
    const { tool_name: name, tool_input: input, tool_use_id: callId } = asObject(asked.input);
    return { kind: "tool_starts", request, callId: asText(callId), name: asText(name), input: asObject(input) };
  }
  return { kind: "unknown_request", request, subtype: asText(asked.subtype) };
}

function readResult(message: JsonObject): ClaudeResult {
  const reasonRaw = asText(message.stop_reason);
  const errors = Array.isArray(message.errors) ? message.errors.map(asText).filter((text) => text !== "") : [];
  const cost = message.total_cost_usd;
  return {
    failed: message.is_error === true,
    text: asText(message.result),
    errors,
    status: asNumber(message.api_error_status),
    reason: reasonRaw === "max_tokens" ? "length" : reasonRaw === "refusal" ? "content_filter" : "stop",
    reasonRaw,
    usage: { ...usageOf(asObject(message.usage)), ...(typeof cost === "number" && { cost }) },
  };
}

export function usageOf(usage: JsonObject): Usage {
  const cached = asNumber(usage.cache_read_input_tokens);
  const input = asNumber(usage.input_tokens) + asNumber(usage.cache_creation_input_tokens) + cached;
  const output = asNumber(usage.output_tokens);
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    input_tokens_details: { cached_tokens: cached },
    output_tokens_details: { reasoning_tokens: 0 },
  };
}

// ---- what we say

/** The first line: a hook before every tool, and what joins the system prompt. */
export function initialize(instructions: string): JsonObject {
  const hooks = { PreToolUse: [{ matcher: null, hookCallbackIds: ["before_tool"] }] };
  const request = { subtype: "initialize", hooks, ...(instructions !== "" && { appendSystemPrompt: instructions }) };
  return { type: "control_request", request_id: "rotunda_initialize", request };
}

export function answered(request: string, response: JsonObject): JsonObject {
  return { type: "control_response", response: { subtype: "success", request_id: request, response } };
}

export function refused(request: string, error: string): JsonObject {
  return { type: "control_response", response: { subtype: "error", request_id: request, error } };
}

/** Undefined: the program goes on as it decides by itself. */
export function hookAnswer(decision: "deny" | "ask" | undefined, reason: string): JsonObject {
  if (!decision) return {};
  return {
    hookSpecificOutput: {
      hookEventName: "PreToolUse",
      permissionDecision: decision,
      permissionDecisionReason: reason,
    },
  };
}

/** A number before that is taken away from one after, and never less than nothing. */
export function usageSince(now: Usage, before: Usage): Usage {
  const less = (a: number, b: number) => Math.max(0, a - b);
  const input = less(now.input_tokens, before.input_tokens);
  const output = less(now.output_tokens, before.output_tokens);
  const cached = less(now.input_tokens_details.cached_tokens, before.input_tokens_details.cached_tokens);
  const made: Usage = {
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    input_tokens_details: { cached_tokens: cached },
    output_tokens_details: { reasoning_tokens: 0 },
  };
  return now.cost === undefined ? made : { ...made, cost: now.cost };
}

export function addUsage(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    input_tokens_details: {
      cached_tokens: a.input_tokens_details.cached_tokens + b.input_tokens_details.cached_tokens,
    },
    output_tokens_details: { reasoning_tokens: 0 },
  };
}

export function codeOf(status: number): "upstream_auth" | "upstream_rate_limited" | "upstream_failed" {
  if (status === 401 || status === 403) return "upstream_auth";
  return status === 429 ? "upstream_rate_limited" : "upstream_failed";
}

export function blockOf(part: PromptPart): JsonObject {
  if (part.type === "text") return { type: "text", text: part.text };
  const [, media_type, data] = /^data:([^;,]+);base64,(.*)$/s.exec(part.url) ?? [];
  const source = media_type && data ? { type: "base64", media_type, data } : { type: "url", url: part.url };
  return { type: "image", source };
}

export function permissionAnswer({ decision, reason = "" }: AgentVerdict, input: JsonObject): JsonObject {
  if (decision === "allow" || decision === "own") return { behavior: "allow", updatedInput: input };
  if (decision === "later")
    return { behavior: "deny", message: "Nobody is there to ask at the moment.", interrupt: true };
  return { behavior: "deny", message: reason };
}

export function startAnswer({ decision, reason = "" }: AgentVerdict): JsonObject {
  return hookAnswer(decision === "deny" || decision === "ask" ? decision : undefined, reason);
}
