/**
 * Replay: a stored conversation as what an editor would have been told.
 *
 * Invariant: everything that was said stands there once, in the order in which it was said, whichever door it came
 * through; the engine's own questions are left out.
 */
import type { ContentBlock, SessionUpdate, ToolCallContent } from "@agentclientprotocol/sdk/unstable";
import type { ContentPart, Entry, Item, McpCallItem, MessageItem } from "../../types/item.ts";
import type { StoredResponse } from "../../types/store.ts";
import { textOfPart } from "../../util/content-text.ts";
import {
  describeCall,
  editDifferences,
  isPlan,
  parseObject,
  planOf,
  resultContent,
  resultStatus,
  textContent,
} from "./tool-calls.ts";
import { compactionOf } from "./updates.ts";

export interface ReplayOptions {
  workspace: string;
  /** The client shows where a summary took the place of what was said. */
  compaction: boolean;
}

/** `path`: root first. Of the plans only the last one is told. */
export function* replayOf(path: readonly StoredResponse[], options: ReplayOptions): Generator<SessionUpdate> {
  let plan: SessionUpdate | undefined;
  for (const { entries } of path) {
    for (const { item, meta } of inOrder(entries)) {
      if (meta.synthetic === "engine") continue;
      if (item.type === "mcp_call" && isPlan(item)) {
        const steps = planOf(item.arguments);
        if (steps) plan = { sessionUpdate: "plan", entries: steps };
      } else yield* updatesOf(item, options);
    }
  }
  if (plan) yield plan;
}

/** What was brought along, without what came of it. */
export function* replayInput(stored: StoredResponse, options: ReplayOptions): Generator<SessionUpdate> {
  const entries = stored.entries.filter(({ side }) => side === "input");
  yield* replayOf([{ ...stored, entries }], options);
}

function inOrder(entries: readonly Entry[]): Entry[] {
  const side = (entry: Entry) => (entry.side === "input" ? 0 : 1);
  return [...entries].sort((a, b) => side(a) - side(b) || a.position - b.position);
}

function* updatesOf(item: Item, { workspace, compaction }: ReplayOptions): Generator<SessionUpdate> {
  switch (item.type) {
    case "message":
      yield* messageOf(item);
      break;
    case "reasoning": {
      const said = item.content.length > 0 ? item.content : item.summary;
      const text = said.map((part) => part.text).join("");
      if (text !== "")
        yield { sessionUpdate: "agent_thought_chunk", messageId: item.id, content: { type: "text", text } };
      break;
    }
    case "mcp_call":
      yield callOf(item, workspace);
      break;
    case "function_call": {
      const { call_id: toolCallId, name, arguments: text } = item;
      const rawInput = parseObject(text) ?? text;
      yield { sessionUpdate: "tool_call", toolCallId, title: name, name, kind: "other", status: "completed", rawInput };
      break;
    }
    case "function_call_output":
      yield { sessionUpdate: "tool_call_update", toolCallId: item.call_id, content: [textContent(item.output)] };
      break;
    case "compaction":
      if (compaction) yield compactionOf(item);
      break;
    default:
  }
}

function* messageOf({ id: messageId, role, content }: MessageItem): Generator<SessionUpdate> {
  if (role === "system" || role === "developer") return;
  const sessionUpdate = role === "user" ? "user_message_chunk" : "agent_message_chunk";
  for (const part of content) yield { sessionUpdate, messageId, content: blockOf(part) };
}

function blockOf(part: ContentPart): ContentBlock {
  if (part.type !== "input_image") return { type: "text", text: textOfPart(part) };
  const [, mimeType, data] = /^data:([^;,]+);base64,(.*)$/s.exec(part.image_url) ?? [];
  if (mimeType !== undefined && data !== undefined) return { type: "image", mimeType, data };
  return { type: "resource_link", name: "image", uri: part.image_url };
}

function callOf(item: McpCallItem, workspace: string): SessionUpdate {
  const described = describeCall(item, workspace);
  const changed = differences(item, described.locations[0]?.path, described.rawInput);
  const content = changed ?? resultContent(item);
  return {
    sessionUpdate: "tool_call",
    toolCallId: item.id,
    ...described,
    status: resultStatus(item),
    ...(content && { content }),
    ...(changed && { rawOutput: { output: item.output } }),
  };
}

function differences(
  { server_label, name, status }: McpCallItem,
  path: string | undefined,
  input: ReturnType<typeof parseObject>,
): ToolCallContent[] | undefined {
  if (server_label !== "rotunda" || name !== "edit" || status !== "completed") return undefined;
  return path !== undefined && input ? editDifferences(input, path) : undefined;
}
