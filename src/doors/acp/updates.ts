/**
 * Updates: the events of one response as what an editor is told, as they happen.
 *
 * Invariant: every call is announced once, before anything else is told of it; texts of one item carry its id, so that
 * pieces of two messages never run together. Events come here in the order of their numbers.
 */
import type { SessionUpdate, ToolCallContent } from "@agentclientprotocol/sdk/unstable";
import type { ArgumentsDoneEvent, OutputItemEvent, RunEvent } from "../../types/event.ts";
import type { Item, McpCallItem } from "../../types/item.ts";
import { describeCall, differencesOf, isPlan, planOf, resultContent, resultStatus } from "./tool-calls.ts";

export interface KnownCall {
  item: McpCallItem;
  /** What it will change, where that can be told. */
  differences?: ToolCallContent[];
}

interface Waiting {
  described: Promise<void>;
  tell(): void;
}

export class Updates {
  readonly #workspace: string;
  readonly #compaction: boolean;
  readonly #calls = new Map<string, KnownCall>();
  readonly #waiting = new Map<string, Waiting>();
  /** Calls whose description has been made, and not yet been sent. */
  readonly #made: string[] = [];
  readonly #described = new Set<string>();

  constructor(workspace: string, { compaction = false } = {}) {
    this.#workspace = workspace;
    this.#compaction = compaction;
  }

  /** A call of this response; undefined as long as no event has told of it. */
  call(id: string): KnownCall | undefined {
    return this.#calls.get(id);
  }

  /** Resolves when the call has been described to the editor. */
  async described(id: string): Promise<void> {
    await this.#waitingFor(id).described;
  }

  hasDescribed(id: string): boolean {
    return this.#described.has(id);
  }

  /** What `of` gave last has been sent. */
  sent(): void {
    for (const id of this.#made.splice(0)) {
      this.#described.add(id);
      this.#waitingFor(id).tell();
    }
  }

  #waitingFor(id: string): Waiting {
    const known = this.#waiting.get(id);
    if (known) return known;
    const { promise: described, resolve: tell } = Promise.withResolvers<void>();
    const made = { described, tell };
    this.#waiting.set(id, made);
    return made;
  }

  async of(events: readonly RunEvent[]): Promise<SessionUpdate[]> {
    const updates: SessionUpdate[] = [];
    for (const event of events) {
      switch (event.type) {
        case "response.output_text.delta":
        case "response.refusal.delta":
          addText(updates, "agent_message_chunk", event.item_id, event.delta);
          break;
        case "response.reasoning_text.delta":
          addText(updates, "agent_thought_chunk", event.item_id, event.delta);
          break;
        case "response.output_item.added":
          if (event.item.type === "mcp_call") updates.push(...this.#announce(event.item));
          break;
        case "response.mcp_call_arguments.done":
          updates.push(...(await this.#describe(event)));
          break;
        case "response.mcp_call.in_progress":
          if (this.#shows(event.item_id))
            updates.push({ sessionUpdate: "tool_call_update", toolCallId: event.item_id, status: "in_progress" });
          break;
        case "response.output_item.done":
          updates.push(...this.#finish(event));
          break;
        default:
      }
    }
    return updates;
  }

  #shows(id: string): boolean {
    const call = this.#calls.get(id);
    return call !== undefined && !isPlan(call.item);
  }

  #announce(item: McpCallItem): SessionUpdate[] {
    this.#calls.set(item.id, { item });
    if (isPlan(item)) return [];
    const { title, kind, name } = describeCall({ ...item, arguments: "" }, this.#workspace);
    return [{ sessionUpdate: "tool_call", toolCallId: item.id, title, kind, name, status: "pending" }];
  }

  async #describe({ item_id: id, arguments: text }: ArgumentsDoneEvent): Promise<SessionUpdate[]> {
    const call = this.#calls.get(id);
    if (!call) return [];
    call.item = { ...call.item, arguments: text };
    this.#made.push(id);
    if (isPlan(call.item)) {
      const entries = planOf(text);
      return entries ? [{ sessionUpdate: "plan", entries }] : [];
    }
    const { name: _name, ...described } = describeCall(call.item, this.#workspace);
    const differences = await differencesOf(call.item, this.#workspace);
    if (differences) call.differences = differences;
    const content = differences && { content: differences };
    return [{ sessionUpdate: "tool_call_update", toolCallId: id, ...described, ...content }];
  }

  #finish({ item }: OutputItemEvent): SessionUpdate[] {
    if (item.type === "compaction") return this.#compaction ? [compactionOf(item)] : [];
    if (item.type !== "mcp_call" || isPlan(item)) return [];
    const known = this.#calls.get(item.id);
    const before = known ? [] : this.#announce(item);
    return [...before, finishedCall(item, item.status === "completed" ? known?.differences : undefined)];
  }
}

/** What has been changed says more than that it has been; the words of the result are then beside it. */
export function finishedCall(item: McpCallItem, differences?: ToolCallContent[]): SessionUpdate {
  const { id: toolCallId, output } = item;
  return {
    sessionUpdate: "tool_call_update",
    toolCallId,
    status: resultStatus(item),
    // It also takes the text of a question away again.
    content: differences ?? resultContent(item) ?? [],
    ...(differences && { rawOutput: { output } }),
  };
}

export function compactionOf(item: Extract<Item, { type: "compaction" }>): SessionUpdate {
  const summary = [{ type: "text" as const, text: item.summary }];
  return { sessionUpdate: "compaction_update", compactionId: item.id, status: "completed", summary };
}

type TextUpdate = "agent_message_chunk" | "agent_thought_chunk";

/** Deltas of one moment are one piece. */
function addText(updates: SessionUpdate[], sessionUpdate: TextUpdate, messageId: string, text: string): void {
  if (text === "") return;
  const last = updates.at(-1);
  if (last?.sessionUpdate === sessionUpdate && last.messageId === messageId && last.content.type === "text") {
    last.content = { type: "text", text: last.content.text + text };
  } else updates.push({ sessionUpdate, messageId, content: { type: "text", text } });
}
