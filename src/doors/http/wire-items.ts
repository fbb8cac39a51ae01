/** Wire items: our items as the Responses API shows them. They differ in one field only. */
import type { Item } from "../../types/item.ts";
import type { JsonObject } from "../../types/json.ts";
import { sealSummary } from "./input-items.ts";

export function wireItem(item: Item): JsonObject {
  if (item.type === "mcp_call" && item.error !== null) {
    const content = [{ type: "text", text: item.error }];
    return { ...item, error: { type: "mcp_tool_execution_error", content } };
  }
  if (item.type === "compaction") {
    return { type: "compaction", id: item.id, encrypted_content: sealSummary(item.summary) };
  }
  return item as unknown as JsonObject;
}
