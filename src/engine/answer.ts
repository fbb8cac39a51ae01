/**
 * Answer: the model's events become items and events of the log.
 *
 * Invariant: every item that was begun is ended, as `completed` or as `incomplete`; the entries of a
 * finished answer carry its finish on their last one, and all its calls are written in one batch with it.
 */
import type {
  Entry,
  EntryMeta,
  FunctionCallItem,
  Item,
  McpCallItem,
  MessageItem,
  ReasoningItem,
  Usage,
} from "../types/item.ts";
import type { AgentCall, ModelEvent } from "../types/model.ts";
import type { ClientTool, IncompleteReason } from "../types/response.ts";
import type { Tool } from "../types/tool.ts";
import { newId } from "../util/ids.ts";
import { flatName } from "../util/text.ts";
import type { CallEntry } from "./next.ts";
import type { Run } from "./run.ts";

type Finish = Extract<ModelEvent, { type: "finish" }>;

/** What is written down as it comes; the rest of the events is about calls that an agent runs itself. */
export type SaidEvent = Exclude<ModelEvent, { type: "finish" | "call_question" | "call_outcome" }>;

interface OpenText {
  position: number;
  item: MessageItem | ReasoningItem;
  kind: "text" | "refusal" | "reasoning";
  pieces: string[];
}

interface OpenCall {
  position: number;
  item: McpCallItem | FunctionCallItem;
  callId: string;
  tool: string;
  pieces: string[];
  agent?: AgentCall;
}

const deltaTypes = {
  text: "response.output_text.delta",
  refusal: "response.refusal.delta",
  reasoning: "response.reasoning_text.delta",
} as const;

export interface AnswerOptions {
  turn: number;
  modelKey: string;
  /** Offered tools by name. */
  tools: ReadonlyMap<string, Tool>;
  clientTools: ReadonlyMap<string, ClientTool>;
  final: IncompleteReason | undefined;
}

export class Answer {
  readonly #run: Run;
  readonly #options: AnswerOptions;
  readonly #calls = new Map<number, OpenCall>();
  readonly #positions: number[] = [];
  /** Positions of calls that an agent runs itself, in the order in which they were whole. */
  readonly agentCalls: number[] = [];
  /** That the model has written. */
  characters = 0;
  #text: OpenText | null = null;

  constructor(run: Run, options: AnswerOptions) {
    this.#run = run;
    this.#options = options;
  }

  /** Something of the answer has been written. */
  get begun(): boolean {
    return this.#positions.length > 0;
  }

  get turn(): number {
    return this.#options.turn;
  }

  /** The next answer of the same model call: an agent that runs its tools itself gives one for each step. */
  following(): Answer {
    return new Answer(this.#run, { ...this.#options, turn: this.#options.turn + 1 });
  }

  write(event: SaidEvent): void {
    if ("delta" in event) this.characters += event.delta.length;
    switch (event.type) {
      case "text":
      case "refusal":
      case "reasoning":
        this.#writeText(event.type, event.delta);
        break;
      case "call":
        this.#beginCall(event);
        break;
      default:
        this.#writeArguments(event.index, event.delta);
    }
  }

  #begin(item: Item): number {
    const position = this.#run.output.length;
    // The place is taken at once; what stands there becomes durable when the item is ended.
    this.#run.output[position] = { side: "output", position, turn: this.#options.turn, item, meta: {} };
    this.#positions.push(position);
    this.#run.emit({ type: "response.output_item.added", output_index: position, item: { ...item } });
    return position;
  }

  #writeText(kind: OpenText["kind"], delta: string): void {
    if (delta === "") return;
    if (this.#text && this.#text.kind !== kind) this.#endText("completed");
    this.#text ??= this.#beginText(kind);
    const { position, item, pieces } = this.#text;
    pieces.push(delta);
    this.#run.emitDelta(deltaTypes[kind], position, item.id, delta);
  }

  #beginText(kind: OpenText["kind"]): OpenText {
    const item: MessageItem | ReasoningItem =
      kind === "reasoning"
        ? { type: "reasoning", id: newId("rs"), status: "in_progress", summary: [], content: [] }
        : { type: "message", id: newId("msg"), role: "assistant", status: "in_progress", content: [] };
    const position = this.#begin(item);
    const part = kind === "reasoning" ? ({ type: "reasoning_text", text: "" } as const) : textPart(kind, "");
    const at = { output_index: position, item_id: item.id, content_index: 0 };
    this.#run.emit({ type: "response.content_part.added", ...at, part });
    return { position, item, kind, pieces: [] };
  }

  #endText(status: "completed" | "incomplete"): void {
    const open = this.#text;
    if (!open) return;
    this.#text = null;
    const text = open.pieces.join("");
    closeText(this.#run, { ...open, text, turn: this.#options.turn, status, meta: { model: this.#options.modelKey } });
  }

  #beginCall({ index, callId, name, agent }: Extract<ModelEvent, { type: "call" }>): void {
    this.#endText("completed");
    const tool = agent ? undefined : this.#options.tools.get(name);
    const client = agent ? undefined : this.#options.clientTools.get(name);
    const item: McpCallItem | FunctionCallItem = client
      ? {
          type: "function_call",
          id: newId("fc"),
          call_id: callId,
          name,
          ...client.wire,
          arguments: "",
          status: "in_progress",
        }
      : {
          type: "mcp_call",
          id: newId("mcp"),
          server_label: agent?.server ?? tool?.server ?? "rotunda",
          name: tool?.serverName ?? name,
          arguments: "",
          status: "in_progress",
          output: null,
          error: null,
          approval_request_id: null,
        };
    const called = agent ? flatName(agent.server, name) : name;
    const position = this.#begin(item);
    this.#calls.set(index, { position, item, callId, tool: called, pieces: [], ...(agent && { agent }) });
  }

  /**
   * A call that an agent runs itself is whole. It is stored at once, and ends a step: after a crash it is known that the
   * agent had got so far. Undefined: there is none.
   */
  closeAgentCall(index: number): CallEntry | undefined {
    const call = this.#calls.get(index);
    if (!call?.agent || call.item.type !== "mcp_call") return undefined;
    this.#calls.delete(index);
    const { position, item, callId, tool, agent } = call;
    item.arguments = call.pieces.join("");
    const at = { output_index: position, item_id: item.id };
    this.#run.emit({ type: "response.mcp_call_arguments.done", ...at, arguments: item.arguments });
    // Calls of one step: its finish stands on the last.
    const before = this.#run.output[this.agentCalls.at(-1) ?? -1];
    if (before) {
      const { finish: _finish, raw: _raw, ...rest } = before.meta;
      this.#run.put({ ...before, meta: rest });
    }
    const meta: EntryMeta = { model: this.#options.modelKey, agent: true, tool, callId, finish: "tool_calls" };
    if (agent.usage) meta.usage = agent.usage;
    if (agent.raw !== undefined) meta.raw = agent.raw;
    const entry: CallEntry = { side: "output", position, turn: this.#options.turn, item: { ...item }, meta };
    this.#run.put(entry);
    this.agentCalls.push(position);
    return entry;
  }

  closeAgentCalls(): void {
    for (const index of [...this.#calls.keys()]) this.closeAgentCall(index);
  }

  #writeArguments(index: number, delta: string): void {
    const call = this.#calls.get(index);
    if (!call || delta === "") return;
    call.pieces.push(delta);
    const type =
      call.item.type === "mcp_call" ? "response.mcp_call_arguments.delta" : "response.function_call_arguments.delta";
    this.#run.emitDelta(type, call.position, call.item.id, delta);
  }

  /** The model has said why it stopped. */
  finish(event: Finish): void {
    this.#endText("completed");
    const runnable = event.reason === "stop" || event.reason === "tool_calls";
    for (const call of this.#calls.values()) this.#endCall(call, runnable && this.#options.final === undefined);
    if (!this.begun) this.#writeEmpty();
    const last = this.#run.output[this.#positions.at(-1) ?? 0];
    if (!last) return;
    const meta: EntryMeta = { ...last.meta, model: this.#options.modelKey, finish: event.reason };
    if (event.reasonRaw !== undefined) meta.finishRaw = event.reasonRaw;
    if (event.usage) meta.usage = event.usage;
    if (event.raw !== undefined) meta.raw = event.raw;
    if (this.#options.final) meta.final = this.#options.final;
    this.#run.put({ ...last, meta });
  }

  /** An answer with nothing in it is still an answer: the loop must see that it was given. */
  #writeEmpty(): void {
    const item: MessageItem = {
      type: "message",
      id: newId("msg"),
      role: "assistant",
      status: "completed",
      content: [],
    };
    const position = this.#begin(item);
    this.#run.put({ side: "output", position, turn: this.#options.turn, item, meta: {} });
    this.#run.emit({ type: "response.output_item.done", output_index: position, item });
  }

  #endCall(call: OpenCall, runnable: boolean): void {
    const text = call.pieces.join("");
    const { item, position } = call;
    item.arguments = text;
    const at = { output_index: position, item_id: item.id };
    if (item.type === "mcp_call") this.#run.emit({ type: "response.mcp_call_arguments.done", ...at, arguments: text });
    else this.#run.emit({ type: "response.function_call_arguments.done", ...at, name: item.name, arguments: text });
    const settled = item.type === "function_call" || !runnable;
    // Half a call must not look like one that the client could carry out.
    if (item.type === "function_call") item.status = runnable ? "completed" : "incomplete";
    else if (!runnable) {
      item.status = "incomplete";
      item.error = "not run: the answer ended before it";
    }
    const meta: EntryMeta = { model: this.#options.modelKey, tool: call.tool, callId: call.callId };
    this.#run.put({ side: "output", position, turn: this.#options.turn, item: { ...item }, meta });
    if (settled) this.#run.emit({ type: "response.output_item.done", output_index: position, item: { ...item } });
  }

  /** The answer was cut: what was begun is ended as incomplete, and none of its calls is run. */
  cut(usage?: Usage): void {
    this.#endText("incomplete");
    for (const call of this.#calls.values()) this.#endCall(call, false);
    const last = this.#run.output[this.#positions.at(-1) ?? -1];
    if (usage && last && !last.meta.usage) this.#run.put({ ...last, meta: { ...last.meta, usage } });
  }
}

function textPart(kind: OpenText["kind"], text: string): MessageItem["content"][number] {
  return kind === "refusal" ? { type: "refusal", refusal: text } : { type: "output_text", text, annotations: [] };
}

export interface ClosingText {
  position: number;
  item: MessageItem | ReasoningItem;
  kind: OpenText["kind"];
  text: string;
  turn: number;
  status: "completed" | "incomplete";
  meta: EntryMeta;
}

/** Writes the end of a message or of reasoning: its closing events and its entry. */
export function closeText(run: Run, { position, item, kind, text, turn, status, meta }: ClosingText): void {
  const at = { output_index: position, item_id: item.id, content_index: 0 };
  let closed: Item;
  if (item.type === "reasoning") {
    const part = { type: "reasoning_text" as const, text };
    closed = { ...item, status, content: [part] };
    run.emit({ type: "response.reasoning_text.done", ...at, text });
    run.emit({ type: "response.content_part.done", ...at, part });
  } else {
    const part = textPart(kind, text);
    closed = { ...item, status, content: [part] };
    run.emit({ type: kind === "refusal" ? "response.refusal.done" : "response.output_text.done", ...at, text });
    run.emit({ type: "response.content_part.done", ...at, part });
  }
  const entry: Entry = { side: "output", position, turn, item: closed, meta };
  run.put(entry);
  run.emit({ type: "response.output_item.done", output_index: position, item: closed });
}
