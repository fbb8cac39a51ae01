/**
 * Wire items: our items as the Responses API shows them.
 *
 * Invariant: every item has `id`, `type` and `status` (Open Responses, "Required item fields"), and what is shown can
 * be sent back as input.
 */
import type { ContentPart, Item, ReasoningItem } from "../../types/item.ts";
import type { JsonObject } from "../../types/json.ts";
import type { RunSettings } from "../../types/response.ts";
import { customInput } from "./custom-tools.ts";
import { seal } from "./input-items.ts";

export function wireItem(item: Item): JsonObject {
  switch (item.type) {
    case "message":
      return { ...item, content: item.content.map(wirePart) } as unknown as JsonObject;
    case "mcp_call": {
      if (item.error === null) break;
      const content = [{ type: "text", text: item.error }];
      return { ...item, error: { type: "mcp_tool_execution_error", content } };
    }
    case "compaction":
      return { type: "compaction", id: item.id, status: "completed", encrypted_content: seal(item.summary) };
    case "mcp_approval_request":
    case "mcp_approval_response":
      return { ...item, status: "completed" };
    case "function_call": {
      if (!item.custom) break;
      const { custom: _custom, arguments: written, ...call } = item;
      return { ...call, type: "custom_tool_call", input: item.status === "in_progress" ? "" : customInput(written) };
    }
    case "function_call_output": {
      if (!item.custom) break;
      const { custom: _custom, ...output } = item;
      return { ...output, type: "custom_tool_call_output" };
    }
  }
  return item as unknown as JsonObject;
}

/** `detail` is not optional on this side of the wire. */
function wirePart(part: ContentPart): ContentPart {
  return part.type === "input_image" && part.detail === undefined ? { ...part, detail: "auto" } : part;
}

/** How a client wants to be told of reasoning. */
export interface ReasoningWish {
  /** As a summary: whoever asks for one reads nothing else. We have no other than the whole. */
  summary: boolean;
  /** As text that it can carry around and send back. */
  sealed: boolean;
}

export function reasoningWish({ wire = {} }: RunSettings): ReasoningWish {
  const include = Array.isArray(wire.include) ? wire.include : [];
  return {
    summary: typeof wire.reasoning_summary === "string",
    sealed: include.includes("reasoning.encrypted_content"),
  };
}

/** An item of a response's output. */
export function outputItem(item: Item, wish: ReasoningWish): JsonObject {
  return item.type === "reasoning" ? wireReasoning(item, wish) : wireItem(item);
}

function wireReasoning(item: ReasoningItem, { summary, sealed }: ReasoningWish): JsonObject {
  const text = item.content.map((part) => part.text).join("\n\n");
  const shown = summary
    ? { ...item, summary: item.content.map((part) => ({ type: "summary_text", text: part.text })), content: [] }
    : item;
  return {
    ...shown,
    ...(sealed && item.status !== "in_progress" && { encrypted_content: seal(text) }),
  } as unknown as JsonObject;
}
