/** Chat completion: a response of ours as `/v1/chat/completions` shows it. */
import { type ErrorCode, RotundaError } from "../../types/error.ts";
import type { FunctionCallItem, Item, Usage } from "../../types/item.ts";
import type { JsonObject } from "../../types/json.ts";
import type { FullResponse, ResponseNode } from "../../types/response.ts";
import { customInput } from "./custom-tools.ts";

export type FinishReason = "stop" | "length" | "tool_calls" | "function_call" | "content_filter";

export const SEPARATOR = "\n\n";

/** What chunks and completions have in common. */
export function completionBase(node: ResponseNode, object: "chat.completion" | "chat.completion.chunk") {
  const model = typeof node.settings.wire?.model === "string" ? node.settings.wire.model : node.model;
  return { id: `chatcmpl-${node.id}`, object, created: Math.floor(node.createdAt / 1_000), model };
}

/** Throws what made it fail: an upstream that is broken is never a 200. */
export function completionObject(response: FullResponse): JsonObject {
  const error = failureOf(response);
  if (error) throw error;
  const calls = response.output.filter((item) => item.type === "function_call");
  const text = answerText(response);
  const reasoning = response.output
    .flatMap((item) => (item.type === "reasoning" ? item.content.map((part) => part.text) : []))
    .join(SEPARATOR);
  const refusal = refusalOf(response.output);
  const message: JsonObject = {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== null) ? null : text,
    refusal,
    ...(reasoning !== "" && { reasoning_content: reasoning }),
    ...callFields(calls, isLegacy(response)),
  };
  return {
    ...completionBase(response, "chat.completion"),
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason(response, calls.length > 0) }],
    usage: chatUsage(response.usage),
    rotunda: extension(response),
  };
}

/** The client asked in the words that `tools` replaced. */
export function isLegacy({ settings }: ResponseNode): boolean {
  return settings.wire?.functions === true;
}

function callFields(calls: readonly FunctionCallItem[], legacy: boolean): JsonObject {
  const [first] = calls;
  if (!first) return {};
  if (legacy) return { function_call: { name: first.name, arguments: first.arguments } };
  return {
    tool_calls: calls.map(({ call_id: id, name, arguments: written, custom }) =>
      custom
        ? { id, type: "custom", custom: { name, input: customInput(written) } }
        : { id, type: "function", function: { name, arguments: written } },
    ),
  };
}

/** All that the assistant said; of a structured answer only the last, which is the one that fits the schema. */
export function answerText({ output, settings }: FullResponse): string {
  const texts = output
    .filter((item) => item.type === "message" && item.role === "assistant")
    .map((item) =>
      item.type === "message" ? item.content.map((part) => ("text" in part ? part.text : "")).join("") : "",
    )
    .filter((text) => text !== "");
  return settings.format ? (texts.at(-1) ?? "") : texts.join(SEPARATOR);
}

function refusalOf(output: readonly Item[]): string | null {
  const parts = output.flatMap((item) => (item.type === "message" ? item.content : []));
  const refusals = parts.flatMap((part) => (part.type === "refusal" ? [part.refusal] : []));
  return refusals.length > 0 ? refusals.join("") : null;
}

/** It ended for no reason of its own: what was said is no answer. */
export function brokeOff({ incompleteReason: reason }: ResponseNode): boolean {
  return reason === "stream_cut" || reason === "interrupted" || reason === "empty_response";
}

/** Why a client gets an error instead of an answer; undefined where there is an answer. */
export function failureOf(response: ResponseNode): RotundaError | undefined {
  const { status, error } = response;
  if (status === "failed") return new RotundaError(error?.code ?? "internal", error?.message ?? "the response failed");
  if (status === "waiting" && error) {
    const why = `${error.message}; response ${response.id} waits, and goes on when that is raised or begins anew`;
    return new RotundaError(error.code, why, { remedy: "rotunda budget set" });
  }
  if (status === "cancelled") return new RotundaError("cancelled", error?.message ?? "the response was cancelled");
  if (brokeOff(response)) {
    const code: ErrorCode = error?.code ?? "upstream_cut";
    return new RotundaError(code, error?.message ?? "the answer was cut off");
  }
  return undefined;
}

const LIMITS = new Set(["max_output_tokens", "max_tokens", "max_time", "output_limit"]);

export function finishReason(node: ResponseNode, calls: boolean): FinishReason {
  const { incompleteReason: reason } = node;
  if (reason === "content_filter") return "content_filter";
  if (reason !== null && LIMITS.has(reason)) return "length";
  if (!calls) return "stop";
  return isLegacy(node) ? "function_call" : "tool_calls";
}

export function chatUsage(usage: Usage): JsonObject {
  return {
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    total_tokens: usage.total_tokens,
    prompt_tokens_details: { cached_tokens: usage.input_tokens_details.cached_tokens },
    completion_tokens_details: { reasoning_tokens: usage.output_tokens_details.reasoning_tokens },
    ...(usage.cost !== undefined && { cost: usage.cost }),
  };
}

/** What the contract has no place for: the node of the tree, and the tools that ran here. */
export function extension({ id, status, incompleteReason, output, degraded }: FullResponse): JsonObject {
  const calls = output.filter((item) => item.type === "mcp_call");
  return {
    response_id: id,
    ...(status !== "completed" && { status, incomplete_reason: incompleteReason }),
    ...(degraded && { degraded }),
    ...(calls.length > 0 && {
      tool_calls: calls.map((call) => ({
        id: call.id,
        server: call.server_label,
        name: call.name,
        arguments: call.arguments,
        status: call.status,
        output: call.output,
      })),
    }),
  };
}
