/**
 * Items as plain messages.
 *
 * Invariant: a message is one text; what is no text is named in brackets.
 */
import type { Item } from "../../types/item.ts";
import { textOfPart } from "../../util/content-text.ts";

/** None for an item that is no message. */
export function messageOf(item: Item): { role: string; content: string }[] {
  if (item.type !== "message") return [];
  return [{ role: item.role, content: item.content.map(textOfPart).join("\n") }];
}
