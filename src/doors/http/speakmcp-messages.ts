/**
 * A conversation as SpeakMCP's clients see it: messages with their tool calls and results.
 *
 * Invariant: one message for each thing that was said; a turn with one tool is the person's message, the assistant's
 * with its call, the tool's with its result, and the answer.
 */
import type { App } from "../../types/app.ts";
import type { Item } from "../../types/item.ts";
import type { Json } from "../../types/json.ts";

export interface SpeakmcpMessage {
  id: string;
  role: "user" | "assistant" | "tool";
  content: string;
  /** Milliseconds since the epoch. */
  timestamp: number;
  toolCalls?: { name: string; arguments: Json }[];
  toolResults?: { success: boolean; content: string; error?: string }[];
}

/** Items of a path with the time of the response that they belong to; what was taken out further down is left out. */
export async function pathItems(app: App, head: string | null): Promise<{ item: Item; at: number }[]> {
  if (head === null) return [];
  const path = await app.store.path(head);
  const omitted = new Set(path.flatMap(({ node }) => node.settings.omit ?? []));
  return path.flatMap(({ node, entries }) =>
    entries
      .filter(({ item, meta }) => !omitted.has(item.id) && meta.synthetic !== "engine")
      .map(({ item, side }) => ({ item, at: side === "input" ? node.createdAt : (node.endedAt ?? node.createdAt) })),
  );
}

export function messagesOf(items: readonly { item: Item; at: number }[]): SpeakmcpMessage[] {
  const messages: SpeakmcpMessage[] = [];
  const results = new Map<string, string>();
  for (const { item } of items) if (item.type === "function_call_output") results.set(item.call_id, item.output);
  let calls: { item: Extract<Item, { type: "mcp_call" | "function_call" }>; at: number }[] = [];
  const flush = () => {
    messages.push(...messagesOfCalls(calls, messages.at(-1), results));
    calls = [];
  };
  for (const { item, at } of items) {
    if (item.type === "mcp_call" || item.type === "function_call") {
      calls.push({ item, at });
      continue;
    }
    if (item.type !== "message" || item.role === "system" || item.role === "developer") continue;
    flush();
    const content = textOf(item);
    if (item.role === "assistant" && content === "") continue;
    messages.push({ id: item.id, role: item.role, content, timestamp: at });
  }
  flush();
  return messages;
}

/** Calls of one answer join the assistant's message before them, if there is one; their results follow as one message. */
function messagesOfCalls(
  calls: readonly { item: Extract<Item, { type: "mcp_call" | "function_call" }>; at: number }[],
  last: SpeakmcpMessage | undefined,
  results: ReadonlyMap<string, string>,
): SpeakmcpMessage[] {
  const [first] = calls;
  if (!first) return [];
  const toolCalls = calls.map(({ item }) => ({ name: callName(item), arguments: argumentsOf(item.arguments) }));
  const made: SpeakmcpMessage[] = [];
  if (last?.role === "assistant" && !last.toolCalls) last.toolCalls = toolCalls;
  else made.push({ id: first.item.id, role: "assistant", content: "", timestamp: first.at, toolCalls });
  const outcomes = calls.flatMap(({ item }) => {
    if (item.type === "function_call") {
      const output = results.get(item.call_id);
      return output === undefined ? [] : [{ success: true, content: output }];
    }
    const success = item.status === "completed";
    const content = item.output ?? item.error ?? "";
    return [{ success, content, ...(!success && { error: item.error ?? content }) }];
  });
  if (outcomes.length > 0) {
    const content = outcomes.map((one) => one.content).join("\n");
    made.push({ id: `${first.item.id}-results`, role: "tool", content, timestamp: first.at, toolResults: outcomes });
  }
  return made;
}

/** `server:tool`, as SpeakMCP names them (parity S51). */
export function callName(item: Extract<Item, { type: "mcp_call" | "function_call" }>): string {
  if (item.type === "function_call" || item.server_label === "rotunda") return item.name;
  return `${item.server_label}:${item.name}`;
}

export function argumentsOf(text: string): Json {
  try {
    return JSON.parse(text === "" ? "{}" : text) as Json;
  } catch {
    return text;
  }
}

export function textOf(item: Extract<Item, { type: "message" }>): string {
  return item.content
    .map((part) => (part.type === "refusal" ? part.refusal : "text" in part ? part.text : "[image]"))
    .join("\n");
}
