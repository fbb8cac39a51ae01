/**
 * Items as plain messages.
 *
 * Invariant: a message is one text; what is no text is named in brackets.
 */
import type { Item } from "../../types/item.ts";

/** None for an item that is no message. */
export function messageOf(item: Item): { role: string; content: string }[] {
  if (item.type !== "message") return [];
  const content = item.content.map((part) => {
    if (part.type === "input_image") return "[image]";
    return part.type === "refusal" ? part.refusal : part.text;
  });
  return [{ role: item.role, content: content.join("\n") }];
}
