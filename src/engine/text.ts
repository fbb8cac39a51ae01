/** Items as text, and text as items. */
import { RotundaError } from "../types/error.ts";
import type { Entry, Item, MessageItem } from "../types/item.ts";
import type { FullResponse } from "../types/response.ts";
import { newId } from "../util/ids.ts";

/** What stands at a call whose response has returned for approval; its child carries it out, under an id of its own. */
export const RETURNED = "not run: it waits for an approval";

/** A text is one user message. */
export function itemsOf(input: string | Item[]): Item[] {
  return typeof input === "string" ? [userMessage(input)] : input;
}

export function entriesOf(items: readonly Item[], mayBeEmpty = false): Entry[] {
  if (items.length === 0 && !mayBeEmpty) throw new RotundaError("usage", "the input is empty");
  return items.map((item, position) => ({ side: "input", position, turn: 0, item, meta: {} }));
}

function userMessage(text: string): MessageItem {
  if (text.trim() === "") throw new RotundaError("usage", "the prompt is empty");
  return {
    type: "message",
    id: newId("msg"),
    role: "user",
    status: "completed",
    content: [{ type: "input_text", text }],
  };
}

export function textOf(items: readonly Item[]): string {
  return textsOf(items).join(" ");
}

/** Of each part of a message. */
export function textsOf(items: readonly Item[]): string[] {
  return items
    .flatMap((item) => (item.type === "message" ? item.content : []))
    .map((part) => ("text" in part ? part.text : ""));
}

/** What a response says: the text of its assistant messages, the last answer's where there are several. */
export function outputText(response: FullResponse): string {
  const messages = response.output.filter((item) => item.type === "message" && item.role === "assistant");
  const texts = messages.map((item) => textOf([item])).filter((text) => text !== "");
  return texts.at(-1) ?? "";
}

/** Messages of a plain history as input items. */
export function inputMessages(messages: readonly { role: "user" | "assistant" | "system"; content: string }[]): Item[] {
  return messages.map(({ role, content: text }) => ({
    type: "message",
    id: newId("msg"),
    role,
    status: "completed",
    content: [role === "assistant" ? { type: "output_text", text, annotations: [] } : { type: "input_text", text }],
  }));
}
