/**
 * Content: what was said, in the shape of the GenAI conventions, for operators who asked for it.
 *
 * Invariant: every text has passed the redactor; what is longer than a backend takes is cut.
 */
import type { Entry, Item, MessageItem } from "../types/item.ts";
import type { HistoryNode } from "../types/model.ts";
import { textOfPart } from "../util/content-text.ts";
import type { Redact } from "../util/secrets.ts";

/** Characters of one attribute. */
const MOST = 65_536;

interface Message {
  role: string;
  parts: object[];
  finish_reason?: string;
}

export function inputMessages(history: readonly HistoryNode[], redact: Redact): string {
  const messages: Message[] = [];
  for (const { item, meta } of history.flatMap(({ entries }): readonly Entry[] => entries)) {
    for (const message of messagesOf(item, meta.callId)) messages.push(message);
  }
  // The newest matter most.
  let text = JSON.stringify(messages);
  for (let from = 1; text.length > MOST && from < messages.length; from *= 2)
    text = JSON.stringify(messages.slice(from));
  return redact(text).slice(0, MOST);
}

export function outputMessages(
  text: string,
  calls: readonly { id: string; name: string; arguments: string }[],
  reason: string,
  redact: Redact,
): string {
  const parts: object[] = text === "" ? [] : [{ type: "text", content: text }];
  for (const { id, name, arguments: written } of calls)
    parts.push({ type: "tool_call", id, name, arguments: parsed(written) });
  return redact(JSON.stringify([{ role: "assistant", parts, finish_reason: reason }])).slice(0, MOST);
}

export function instructionParts(text: string, redact: Redact): string {
  return redact(JSON.stringify([{ type: "text", content: text }])).slice(0, MOST);
}

export function cut(text: string, redact: Redact): string {
  return redact(text).slice(0, MOST);
}

function messagesOf(item: Item, callId: string | undefined): Message[] {
  switch (item.type) {
    case "message":
      return [{ role: item.role, parts: item.content.map(partOf) }];
    case "mcp_call": {
      const id = callId ?? item.id;
      const call = { type: "tool_call", id, name: item.name, arguments: parsed(item.arguments) };
      const response = { type: "tool_call_response", id, response: item.output ?? item.error ?? "" };
      return [
        { role: "assistant", parts: [call] },
        { role: "tool", parts: [response] },
      ];
    }
    case "function_call":
      return [
        {
          role: "assistant",
          parts: [{ type: "tool_call", id: item.call_id, name: item.name, arguments: parsed(item.arguments) }],
        },
      ];
    case "function_call_output":
      return [{ role: "tool", parts: [{ type: "tool_call_response", id: item.call_id, response: item.output }] }];
    case "compaction":
      return [{ role: "user", parts: [{ type: "text", content: item.summary }] }];
    default:
      return [];
  }
}

function partOf(part: MessageItem["content"][number]): object {
  if (part.type === "input_image") return { type: "uri", modality: "image", uri: part.image_url.slice(0, 200) };
  return { type: "text", content: textOfPart(part) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
