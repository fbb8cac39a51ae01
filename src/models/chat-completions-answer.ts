/**
 * The answer side of chat completions: chunks in, model events out.
 *
 * Invariant: an answer is finished only if the endpoint said so (a `finish_reason` or `[DONE]`). Nothing that
 * an endpoint can send overflows the stack or grows without bound.
 */
import { randomBytes } from "node:crypto";
import type { FinishReason, Usage } from "../types/item.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { ModelEvent } from "../types/model.ts";
import { jsonDepth, MAX_DEPTH } from "../util/limits.ts";
import { type DeltaTemplate, makeTemplate, readByTemplate } from "./delta-template.ts";
import { hasReasoning, ReasoningCollector, type ReasoningDelta } from "./reasoning.ts";
import { type Asked, complaintOf, statusError, UpstreamError } from "./upstream-error.ts";

/** Characters of a whole answer: text, reasoning and arguments. */
const MAX_ANSWER = 32 * 1024 * 1024;
/** Characters of the arguments of one call. */
const MAX_ARGUMENTS = 1024 * 1024;
/** Calls that are read from one answer; the engine takes far fewer. */
const MAX_CALLS = 1000;

interface CallDelta {
  index?: unknown;
  id?: unknown;
  type?: unknown;
  function?: { name?: unknown; arguments?: unknown } | null;
  [field: string]: unknown;
}

interface Delta extends ReasoningDelta {
  content?: unknown;
  refusal?: unknown;
  tool_calls?: unknown;
  function_call?: unknown;
  extra_content?: unknown;
}

interface Choice {
  delta?: Delta | null;
  message?: Delta | null;
  finish_reason?: unknown;
  error?: unknown;
}

interface Chunk {
  choices?: (Choice | null)[] | null;
  usage?: unknown;
  error?: unknown;
  x_groq?: { usage?: unknown; error?: unknown } | null;
}

/** How the last delta that carried one string only is told from the next of its kind. */
interface Repeating extends DeltaTemplate {
  take(value: string): void;
}

interface OpenCall {
  id: string;
  name: string;
  /** Arguments that came before the name. */
  waiting: string;
  length: number;
}

export class AnswerReader {
  /** `[DONE]` was read. */
  done = false;
  /** The endpoint's `finish_reason`. */
  finishReason: string | undefined;
  usage: Usage | undefined;
  readonly #emit: (event: ModelEvent) => void;
  readonly #asked: Asked;
  readonly #calls: OpenCall[] = [];
  /** Our number of a call by the endpoint's. */
  readonly #byIndex = new Map<number, number>();
  readonly #callFields: JsonObject = {};
  #reasoning: ReasoningCollector | undefined;
  #extraContent: Json | undefined;
  #repeating: Repeating | null = null;
  #length = 0;
  /** The text whose depth was found to be in order: an event can hold a hundred thousand parts. */
  #shallow = "";

  constructor(emit: (event: ModelEvent) => void, asked: Asked) {
    this.#emit = emit;
    this.#asked = asked;
  }

  /** Reads the data of one event. Throws `UpstreamError`. */
  readData(data: string): void {
    if (data.charCodeAt(0) !== 123) {
      if (data.trim() === "[DONE]") this.done = true;
      return;
    }
    if (this.#repeating !== null) {
      const value = readByTemplate(this.#repeating, data);
      if (value !== undefined) {
        this.#repeating.take(value);
        return;
      }
    }
    let chunk: Chunk;
    try {
      chunk = JSON.parse(data) as Chunk;
    } catch {
      throw this.#protocolError("sent an event that is not JSON");
    }
    this.read(chunk, data);
    this.#learnRepeating(chunk, data);
  }

  /** Where a chunk carries one string and nothing else of meaning, the next ones are read by it. */
  #learnRepeating(chunk: Chunk, data: string): void {
    const choice = chunk.choices?.length === 1 ? chunk.choices[0] : undefined;
    if (!choice?.delta || choice.finish_reason || chunk.usage || chunk.x_groq) return;
    let field = "";
    for (const name in choice.delta) {
      const value = choice.delta[name as keyof Delta];
      if (name === "role" || value === null || value === "") continue;
      if (field !== "") return;
      field = name;
    }
    const value = choice.delta[field as keyof Delta];
    if (field === "content" && typeof value === "string") this.#repeat(data, field, value, (text) => this.#text(text));
    else if ((field === "reasoning_content" || field === "reasoning") && typeof value === "string")
      this.#repeat(data, field, value, (text) => this.#readReasoning({ [field]: text }, ""));
    else if (field === "tool_calls" && Array.isArray(value) && value.length === 1)
      this.#repeatArguments(data, value[0]);
  }

  #repeatArguments(data: string, fragment: CallDelta | null): void {
    const given = fragment?.function?.arguments;
    if (!fragment || typeof given !== "string" || given === "" || fragment.id || fragment.function?.name) return;
    const index = fragment.index;
    for (const field in fragment)
      if (field !== "index" && field !== "function" && field !== "type" && field !== "id") return;
    this.#repeat(data, "arguments", given, (text) => this.#readCall({ index, function: { arguments: text } }, ""));
  }

  #repeat(data: string, field: string, value: string, take: (value: string) => void): void {
    const template = makeTemplate(data, field, value);
    if (template) this.#repeating = { ...template, take };
  }

  /** Reads a chunk, or a whole completion; `text` is its JSON. */
  read(chunk: Chunk, text: string): void {
    this.#shallow = "";
    if (chunk.error) this.#fail(chunk);
    if (chunk.x_groq?.error) this.#fail(chunk.x_groq);
    const usage = chunk.usage ?? chunk.x_groq?.usage;
    if (usage) this.usage = readUsage(usage);
    const choice = Array.isArray(chunk.choices) ? chunk.choices[0] : undefined;
    if (!choice) return;
    if (choice.error) this.#fail(choice);
    const delta = choice.delta ?? choice.message;
    if (delta) this.#readDelta(delta, text);
    const finish = choice.finish_reason;
    if (typeof finish !== "string" || finish === "") return;
    if (finish === "error") this.#fail({ error: { message: "the answer ended with an error" } });
    this.finishReason = finish;
  }

  #readDelta(delta: Delta, text: string): void {
    if (hasReasoning(delta)) this.#readReasoning(delta, text);
    const { content } = delta;
    if (typeof content === "string") this.#text(content);
    else if (Array.isArray(content)) this.#readParts(content);
    if (typeof delta.refusal === "string" && delta.refusal !== "") {
      this.#count(delta.refusal.length);
      this.#emit({ type: "refusal", delta: delta.refusal });
    }
    if (Array.isArray(delta.tool_calls)) {
      for (const call of delta.tool_calls as (CallDelta | null)[]) if (call) this.#readCall(call, text);
    } else if (delta.function_call) this.#readCall({ index: 0, function: delta.function_call }, text);
    if (delta.extra_content !== undefined && delta.extra_content !== null) {
      this.#checkDepth(text);
      this.#extraContent = delta.extra_content as Json;
    }
  }

  #text(delta: string): void {
    if (delta === "") return;
    this.#count(delta.length);
    this.#emit({ type: "text", delta });
  }

  #readReasoning(delta: ReasoningDelta, text: string): void {
    if (delta.reasoning_details || delta.thinking_blocks) this.#checkDepth(text);
    this.#reasoning ??= new ReasoningCollector();
    const before = this.#reasoning.size;
    const readable = this.#reasoning.add(delta);
    this.#count(this.#reasoning.size - before);
    if (readable !== "") this.#emit({ type: "reasoning", delta: readable });
  }

  /** Content as a list of parts: text, and thinking as Mistral sends it. */
  #readParts(parts: unknown[]): void {
    for (const part of parts as ({ type?: unknown; text?: unknown; thinking?: unknown } | null)[]) {
      if (typeof part?.text === "string") this.#text(part.text);
      if (part?.type !== "thinking") continue;
      const pieces: unknown[] = Array.isArray(part.thinking) ? part.thinking : [part.thinking];
      for (const piece of pieces) {
        const readable = typeof piece === "string" ? piece : (piece as { text?: unknown } | null | undefined)?.text;
        if (typeof readable !== "string" || readable === "") continue;
        this.#count(readable.length);
        this.#emit({ type: "reasoning", delta: readable });
      }
    }
  }

  #readCall(fragment: CallDelta, text: string): void {
    const number = this.#numberOf(fragment);
    const call = this.#calls[number];
    if (!call) return;
    const { name, arguments: given } = fragment.function ?? {};
    if (call.name === "" && typeof name === "string" && name !== "") {
      call.name = name;
      // A client answers by this id, so it is always there and stands for one call of the answer.
      if (call.id === "" || this.#findId(call.id) !== number) call.id = `call_${randomBytes(12).toString("hex")}`;
      this.#emit({ type: "call", index: number, callId: call.id, name });
      if (call.waiting !== "") this.#emit({ type: "call_arguments", index: number, delta: call.waiting });
      call.waiting = "";
    }
    this.#keepFields(fragment, number, text);
    if (given === undefined || given === null || given === "") return;
    if (typeof given === "object") this.#checkDepth(text);
    const delta = typeof given === "string" ? given : JSON.stringify(given);
    call.length += delta.length;
    if (call.length > MAX_ARGUMENTS)
      throw new UpstreamError(
        "output_limit",
        `${this.#asked.host} sent arguments of over ${MAX_ARGUMENTS} characters for one tool call`,
        { remedy: "Ask for the work in smaller pieces." },
      );
    this.#count(delta.length);
    if (call.name === "") call.waiting += delta;
    else this.#emit({ type: "call_arguments", index: number, delta });
  }

  /** Our number of the call that a fragment belongs to; makes a new one where it begins. */
  #numberOf(fragment: CallDelta): number {
    const id = typeof fragment.id === "string" ? fragment.id : "";
    const name = fragment.function?.name;
    const begins = typeof name === "string" && name !== "";
    const index = typeof fragment.index === "number" ? fragment.index : undefined;
    const known =
      index !== undefined ? this.#byIndex.get(index) : id === "" && !begins ? this.#calls.length - 1 : this.#findId(id);
    if (known !== undefined && known >= 0) {
      const call = this.#calls[known];
      // Some endpoints give every call of an answer the index 0: another id with a name is another call.
      if (!call || id === "" || id === call.id || call.id === "" || !begins) {
        if (call && call.id === "" && call.name === "") call.id = id;
        return known;
      }
    }
    if (this.#calls.length >= MAX_CALLS)
      throw new UpstreamError(
        "output_limit",
        `${this.#asked.host} sent more than ${MAX_CALLS} tool calls in one answer`,
      );
    const number = this.#calls.push({ id, name: "", waiting: "", length: 0 }) - 1;
    if (index !== undefined) this.#byIndex.set(index, number);
    return number;
  }

  #findId(id: string): number | undefined {
    if (id === "") return undefined;
    const at = this.#calls.findIndex((call) => call.id === id);
    return at < 0 ? undefined : at;
  }

  /** What a call carries besides its own fields (signatures) goes back with it. */
  #keepFields(fragment: CallDelta, number: number, text: string): void {
    for (const field in fragment) {
      if (field === "index" || field === "id" || field === "type" || field === "function") continue;
      const value = fragment[field];
      if (value === undefined || value === null) continue;
      this.#checkDepth(text);
      this.#count(text.length);
      const fields = (this.#callFields[number] ?? {}) as JsonObject;
      fields[field] = value as Json;
      this.#callFields[number] = fields;
    }
  }

  /** The last event of a finished answer. Throws `upstream_cut` if the endpoint never said that it is finished. */
  finish(): ModelEvent {
    const raw: JsonObject = this.#reasoning?.result() ?? {};
    if (Object.keys(this.#callFields).length > 0) raw.call_fields = this.#callFields;
    if (this.#extraContent !== undefined) raw.extra_content = this.#extraContent;
    const rest = {
      ...(this.usage === undefined ? {} : { usage: this.usage }),
      ...(Object.keys(raw).length === 0 ? {} : { raw }),
    };
    if (this.finishReason === undefined) {
      if (!this.done)
        throw new UpstreamError("upstream_cut", `the answer of ${this.#asked.host} ended before it was finished`, {
          repeatable: true,
          remedy: "Try again; if it comes back, the endpoint or a proxy before it cuts long answers.",
        });
      return { type: "finish", reason: this.#calls.length > 0 ? "tool_calls" : "stop", ...rest };
    }
    const reason = finishReasons.get(this.finishReason) ?? "other";
    return { type: "finish", reason, ...(reason === "other" ? { reasonRaw: this.finishReason } : {}), ...rest };
  }

  #count(length: number): void {
    this.#length += length;
    if (this.#length > MAX_ANSWER)
      throw new UpstreamError("output_limit", `${this.#asked.host} sent an answer of over ${MAX_ANSWER} characters`);
  }

  #checkDepth(text: string): void {
    if (text === this.#shallow) return;
    if (jsonDepth(text) > MAX_DEPTH) throw this.#protocolError(`sent an event nested deeper than ${MAX_DEPTH}`);
    this.#shallow = text;
  }

  #protocolError(what: string): UpstreamError {
    return new UpstreamError("upstream_protocol", `${this.#asked.host} ${what}`, { repeatable: true });
  }

  /** An error that came as an event, after the status had said 200. */
  #fail(body: object): never {
    const complaint = complaintOf(body);
    const code = Number((body as { error?: { code?: unknown } }).error?.code);
    const status = Number.isInteger(code) && code >= 400 && code < 600 ? code : 500;
    throw statusError(status, {}, complaint, this.#asked, 0);
  }
}

const finishReasons = new Map<string, FinishReason>([
  ["stop", "stop"],
  ["end_turn", "stop"],
  ["eos", "stop"],
  ["tool_calls", "tool_calls"],
  ["tool_use", "tool_calls"],
  ["function_call", "tool_calls"],
  ["length", "length"],
  ["max_tokens", "length"],
  ["content_filter", "content_filter"],
  ["safety", "content_filter"],
]);

interface WireUsage {
  prompt_tokens?: unknown;
  completion_tokens?: unknown;
  total_tokens?: unknown;
  prompt_tokens_details?: { cached_tokens?: unknown } | null;
  completion_tokens_details?: { reasoning_tokens?: unknown } | null;
  /** DeepSeek. */
  prompt_cache_hit_tokens?: unknown;
  /** OpenRouter. */
  cost?: unknown;
}

/** Usage in our words; what is missing or no number is 0. */
function readUsage(given: object): Usage {
  const usage = given as WireUsage;
  const input = count(usage.prompt_tokens);
  const output = count(usage.completion_tokens);
  const cached = usage.prompt_tokens_details?.cached_tokens ?? usage.prompt_cache_hit_tokens;
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: count(usage.total_tokens) || input + output,
    input_tokens_details: { cached_tokens: count(cached) },
    output_tokens_details: { reasoning_tokens: count(usage.completion_tokens_details?.reasoning_tokens) },
    ...(isMoney(usage.cost) ? { cost: usage.cost } : {}),
  };
}

function count(value: unknown): number {
  return typeof value === "number" && value > 0 && Number.isFinite(value) ? Math.floor(value) : 0;
}

/** What an endpoint calls a price. Less than nothing would give back what a budget has counted. */
function isMoney(cost: unknown): cost is number {
  return typeof cost === "number" && cost >= 0 && cost < 1e6;
}
