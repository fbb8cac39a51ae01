/**
 * Tool calls of an ACP agent, out of its updates.
 *
 * Invariant: a call is told once, when it begins or is asked about, with the arguments known then; its outcome is told
 * once, and last.
 */
import type { ToolCall, ToolCallContent, ToolCallUpdate } from "@agentclientprotocol/sdk/unstable";
import type { Json, JsonObject } from "../types/json.ts";
import type { AgentVerdict } from "../types/model.ts";
import type { AgentEvents } from "./agent-events.ts";
import { acpTool } from "./agent-tools.ts";

interface Call {
  index: number;
  title: string;
  name: string | undefined;
  kind: string | undefined;
  input: unknown;
  locations: string[];
  content: readonly ToolCallContent[];
  output: unknown;
  told: boolean;
  over: boolean;
}

export class AcpCalls {
  readonly #agent: string;
  readonly #cwd: string;
  readonly #events: AgentEvents;
  readonly #raw: () => Json;
  readonly #stop: (why: string) => void;
  readonly #calls = new Map<string, Call>();
  #plans = 0;

  constructor(agent: string, cwd: string, events: AgentEvents, raw: () => Json, stop: (why: string) => void) {
    this.#agent = agent;
    this.#cwd = cwd;
    this.#events = events;
    this.#raw = raw;
    this.#stop = stop;
  }

  update(update: ToolCall | ToolCallUpdate): void {
    const call = this.#merge(update);
    const { status } = update;
    if (status === "in_progress" && !call.told) {
      this.#tell(update.toolCallId, call);
      // It starts by its own rules, and waits for nobody: all that is left is to stop it.
      const answer = ({ decision, reason = "" }: AgentVerdict) => {
        if (decision === "deny") this.#stop(`${this.#agent} ran "${call.title}", which it may not. ${reason}`);
      };
      this.#events.push({ type: "call_question", index: call.index, asks: false, started: true, answer });
    }
    if ((status === "completed" || status === "failed") && !call.over) {
      this.#tell(update.toolCallId, call);
      call.over = true;
      const output = outputOf(call);
      this.#events.push({ type: "call_outcome", index: call.index, failed: status === "failed", output });
    }
  }

  ask(update: ToolCallUpdate, answer: (verdict: AgentVerdict) => void): void {
    const call = this.#merge(update);
    this.#tell(update.toolCallId, call);
    const why = call.title;
    this.#events.push({ type: "call_question", index: call.index, asks: true, ...(why !== "" && { why }), answer });
  }

  /** A plan stands in the tree like a call of a tool for lists of things to do. */
  plan(text: string): void {
    const index = this.#calls.size;
    const id = `plan_${++this.#plans}`;
    const call = this.#merge({ toolCallId: id, name: "plan", kind: "think", rawInput: {}, title: "plan" });
    this.#tell(id, call);
    call.over = true;
    this.#events.push({ type: "call_outcome", index, failed: false, output: text });
  }

  #merge(update: ToolCall | ToolCallUpdate): Call {
    const known = this.#calls.get(update.toolCallId);
    const call: Call = known ?? {
      index: this.#calls.size,
      title: "",
      name: undefined,
      kind: undefined,
      input: undefined,
      locations: [],
      content: [],
      output: undefined,
      told: false,
      over: false,
    };
    this.#calls.set(update.toolCallId, call);
    const { title, name, kind, rawInput, rawOutput, locations, content } = update;
    if (title) call.title = title;
    if (name) call.name = name;
    if (kind) call.kind = kind;
    if (rawInput !== undefined && rawInput !== null) call.input = rawInput;
    if (rawOutput !== undefined && rawOutput !== null) call.output = rawOutput;
    if (locations) call.locations = locations.map(({ path }) => path);
    if (content) call.content = content;
    return call;
  }

  #tell(callId: string, call: Call): void {
    if (call.told) return;
    call.told = true;
    const given = call.input;
    const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
    const input = (
      isObject ? given : { ...(call.title && { title: call.title }), ...(given !== undefined && { input: given }) }
    ) as JsonObject;
    const tool = acpTool(call.kind, input, call.locations, this.#cwd);
    const { index } = call;
    const name = call.name ?? call.kind ?? "tool";
    this.#events.push({ type: "call", index, callId, name, agent: { server: this.#agent, ...tool, raw: this.#raw() } });
    this.#events.push({ type: "call_arguments", index, delta: JSON.stringify(input) });
  }
}

function outputOf({ content, output }: Call): string {
  const parts = content.map((part) => {
    if (part.type === "diff") return `wrote ${part.path}`;
    if (part.type !== "content") return "";
    const { content: block } = part;
    if (block.type === "text") return block.text;
    return block.type === "resource_link" ? block.uri : `[${block.type}]`;
  });
  const text = parts.filter((part) => part !== "").join("\n");
  if (text !== "") return text;
  if (typeof output === "string") return output;
  return output === undefined ? "" : JSON.stringify(output);
}
