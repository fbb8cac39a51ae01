/**
 * The Response object: a response of ours as the Responses API shows it.
 *
 * Invariant: made of what is stored and of nothing else, so that the same moment looks the same at every door, now
 * and after a restart.
 */

import { errorTable } from "../../types/error.ts";
import type { Item, Usage } from "../../types/item.ts";
import type { JsonObject } from "../../types/json.ts";
import type { FullResponse, ResponseError, ResponseNode, RunSettings } from "../../types/response.ts";
import { brokeOff } from "./chat-object.ts";
import { outputItem, reasoningWish } from "./wire-items.ts";

export type WireStatus = "queued" | "in_progress" | "completed" | "failed" | "cancelled" | "incomplete";

/** Whoever waits for a person is still at it, as far as the contract knows. */
function wireStatus(node: ResponseNode): WireStatus {
  return node.status === "waiting" ? "in_progress" : node.status;
}

/** As it is now. */
export function responseObject(response: FullResponse): JsonObject {
  const ended = response.endedAt !== null;
  const wish = reasoningWish(response.settings);
  return {
    ...base(response),
    status: wireStatus(response),
    completed_at: response.status === "completed" && ended ? seconds(response.endedAt ?? 0) : null,
    // One that waits for a budget says so; one that broke off too, or clients take what there is for the whole answer.
    error:
      (response.status === "failed" || response.status === "waiting" || brokeOff(response)) && response.error
        ? errorObject(response.error)
        : null,
    incomplete_details:
      response.status === "incomplete" ? { reason: response.incompleteReason ?? "interrupted" } : null,
    output: response.output.map((item, index) => outputItem(superseded(item, response.output.slice(index + 1)), wish)),
    usage: ended ? usageObject(response.usage) : null,
    ...(response.degraded && { degraded: true }),
  };
}

/**
 * A message that a crash has cut, and that was said anew, keeps its place and loses its text: clients join the texts of
 * all messages. The stream has it as it was said.
 */
function superseded(item: Item, after: readonly Item[]): Item {
  if (item.type !== "message" || item.status !== "incomplete") return item;
  const isAnswer = (one: Item) => one.type === "message" && one.role === "assistant";
  return isAnswer(item) && after.some(isAnswer) ? { ...item, content: [] } : item;
}

/** The AI SDK reads nothing without `type`. */
export function errorObject({ code, message }: ResponseError): JsonObject {
  const { http } = errorTable[code];
  const type = http === 429 ? "rate_limit_error" : http === 400 ? "invalid_request_error" : "server_error";
  return { type, code, message, param: null };
}

/** Nobody here counts what was written to an endpoint's cache, and clients add the number up: it is never left out. */
export function usageObject(usage: Usage): JsonObject {
  const input_tokens_details = { cache_write_tokens: 0, ...usage.input_tokens_details };
  return { ...usage, input_tokens_details } as unknown as JsonObject;
}

/** As it was when it began: the same for whoever comes later. */
export function begunObject(node: ResponseNode, status: "queued" | "in_progress"): JsonObject {
  const unknown = { completed_at: null, error: null, incomplete_details: null, output: [], usage: null };
  return { ...base(node), status, ...unknown };
}

function base(node: ResponseNode): JsonObject {
  const { settings } = node;
  const { wire = {} } = settings;
  return {
    id: node.id,
    object: "response",
    created_at: seconds(node.createdAt),
    background: wire.background ?? false,
    conversation: node.conversationId === null ? null : { id: node.conversationId },
    instructions: wire.instructions ?? null,
    max_output_tokens: settings.maxOutputTokens ?? null,
    max_tool_calls: settings.maxToolCalls ?? null,
    metadata: settings.metadata ?? {},
    model: wire.model ?? node.model,
    parallel_tool_calls: settings.parallel !== false,
    previous_response_id: node.previousResponseId,
    prompt_cache_key: wire.prompt_cache_key ?? null,
    reasoning: { effort: settings.reasoningEffort ?? null, summary: wire.reasoning_summary ?? null },
    safety_identifier: wire.safety_identifier ?? null,
    // The tier that was used, and there is one only.
    service_tier: "default",
    store: settings.store !== false,
    temperature: settings.temperature ?? 1,
    text: { format: formatObject(settings), ...(wire.verbosity !== undefined && { verbosity: wire.verbosity }) },
    tool_choice: wire.tool_choice ?? "auto",
    tools: toolObjects(settings),
    top_logprobs: 0,
    top_p: settings.sampling?.topP ?? 1,
    presence_penalty: settings.sampling?.presencePenalty ?? 0,
    frequency_penalty: settings.sampling?.frequencyPenalty ?? 0,
    truncation: wire.truncation ?? "disabled",
    user: wire.user ?? null,
  };
}

function formatObject({ format }: RunSettings): JsonObject {
  if (format?.type !== "json_schema") return { type: format?.type ?? "text" };
  return { description: null, strict: false, ...format } as unknown as JsonObject;
}

function toolObjects({ wire, clientTools = [] }: RunSettings): JsonObject[] {
  const given = Array.isArray(wire?.tools) ? (wire.tools as JsonObject[]) : undefined;
  if (!given) return clientTools.map((tool) => functionObject(tool as unknown as JsonObject));
  return given.map((tool) => (tool.type === "function" ? { ...tool, ...functionObject(tool) } : tool));
}

function functionObject({ name, description, parameters, strict }: JsonObject): JsonObject {
  return {
    type: "function",
    name: name ?? "",
    description: description ?? null,
    parameters: parameters ?? null,
    strict: strict ?? false,
  };
}

function seconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1_000);
}
