/**
 * The stream of chat completions: events of the log as chunks.
 *
 * Invariant: the first chunk has the role, the deltas are the model's own, `finish_reason` comes once, `[DONE]` is the
 * last line; an upstream that fails after the first token ends the stream with OpenAI's error object.
 */
import type { App } from "../../types/app.ts";
import { isEnd, type OutputItemEvent, type RunEvent } from "../../types/event.ts";
import type { ResponseNode } from "../../types/response.ts";
import { chatUsage, completionBase, extension, failureOf, finishReason, isLegacy, SEPARATOR } from "./chat-object.ts";
import { InputReader } from "./custom-tools.ts";

/** Characters that are put together at once. */
const MANY = 32_768;

export interface ChatStreamOptions {
  app: App;
  node: ResponseNode;
  /** An extra chunk with the usage and no choice. */
  includeUsage: boolean;
  /** The error object of an answer, as the door writes it. */
  describe(error: unknown): unknown;
  /** Further fields of the last chunk. */
  extra?: Record<string, unknown>;
}

/** One chunk as a frame; the parts that never change are written once. */
class Chunks {
  readonly #head: string;
  readonly #tail: string;

  constructor(node: ResponseNode, includeUsage: boolean) {
    this.#head = `data: ${JSON.stringify(completionBase(node, "chat.completion.chunk")).slice(0, -1)},"choices":[`;
    this.#tail = includeUsage ? `],"usage":null}\n\n` : "]}\n\n";
  }

  delta(delta: string, finish: string | null = null): string {
    const reason = finish === null ? "null" : `"${finish}"`;
    return `${this.#head}{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${reason}}${this.#tail}`;
  }

  last(finish: string, further: Record<string, unknown>): string {
    const fields = JSON.stringify(further).slice(1, -1);
    const tail = fields === "" ? this.#tail : `],${fields}${this.#tail.slice(1)}`;
    return `${this.#head}{"index":0,"delta":{},"logprobs":null,"finish_reason":"${finish}"}${tail}`;
  }

  usage(usage: unknown): string {
    return `${this.#head}],"usage":${JSON.stringify(usage)}}\n\n`;
  }
}

/** Frames of a run from its beginning. `groups` are the events of the response, from the first on. */
export async function* chatFrames(
  options: ChatStreamOptions,
  groups: AsyncIterable<readonly RunEvent[]>,
): AsyncIterable<string> {
  const { node } = options;
  const chunks = new Chunks(node, options.includeUsage);
  const translate = new Translation(chunks, isLegacy(node));
  yield chunks.delta('{"role":"assistant","content":"","refusal":null}');
  for await (const group of groups) {
    let text = "";
    for (const event of group) {
      text += translate.frame(event) ?? "";
      if (text.length < MANY) continue;
      yield text;
      text = "";
    }
    if (text !== "") yield text;
    const last = group.at(-1);
    if (last && isEnd(last)) yield await endFrames(options, chunks, translate.calls > 0);
  }
}

async function endFrames(options: ChatStreamOptions, chunks: Chunks, hasCalls: boolean): Promise<string> {
  const done = "data: [DONE]\n\n";
  const response = await options.app.engine.get(options.node.id);
  const failure = failureOf(response);
  if (failure) return `data: ${JSON.stringify(options.describe(failure))}\n\n${done}`;
  const finish = finishReason(response, hasCalls);
  const last = chunks.last(finish, { ...options.extra, rotunda: extension(response) });
  return last + (options.includeUsage ? chunks.usage(chatUsage(response.usage)) : "") + done;
}

class Translation {
  readonly #chunks: Chunks;
  /** Index among the client's calls, by output index. */
  readonly #places = new Map<number, number>();
  /** Of calls of custom tools, by their index. */
  readonly #readers = new Map<number, InputReader>();
  readonly #legacy: boolean;
  #texts = 0;

  constructor(chunks: Chunks, legacy: boolean) {
    this.#chunks = chunks;
    this.#legacy = legacy;
  }

  get calls(): number {
    return this.#places.size;
  }

  frame(event: RunEvent): string | undefined {
    switch (event.type) {
      case "response.output_text.delta":
        return this.#chunks.delta(`{"content":${JSON.stringify(event.delta)}}`);
      case "response.reasoning_text.delta":
        return this.#chunks.delta(`{"reasoning_content":${JSON.stringify(event.delta)}}`);
      case "response.refusal.delta":
        return this.#chunks.delta(`{"refusal":${JSON.stringify(event.delta)}}`);
      case "response.content_part.added":
        // What is said after a tool ran here is a new paragraph.
        if (event.part.type !== "output_text" || this.#texts++ === 0) return undefined;
        return this.#chunks.delta(`{"content":${JSON.stringify(SEPARATOR)}}`);
      case "response.output_item.added":
        return this.#begin(event);
      case "response.function_call_arguments.delta":
        return this.#arguments(event.output_index, event.delta);
      default:
        return undefined;
    }
  }

  #begin({ item, output_index }: OutputItemEvent): string | undefined {
    if (item.type !== "function_call") return undefined;
    const index = this.#places.size;
    this.#places.set(output_index, index);
    const { call_id: id, name, custom } = item;
    if (this.#legacy) return this.#legacyCall(index, { name, arguments: "" });
    if (custom) this.#readers.set(index, new InputReader());
    return this.#call({
      index,
      id,
      ...(custom
        ? { type: "custom", custom: { name, input: "" } }
        : { type: "function", function: { name, arguments: "" } }),
    });
  }

  #arguments(place: number, delta: string): string | undefined {
    const index = this.#places.get(place);
    if (index === undefined) return undefined;
    if (this.#legacy) return this.#legacyCall(index, { arguments: delta });
    const reader = this.#readers.get(index);
    if (!reader) return this.#call({ index, function: { arguments: delta } });
    const input = reader.add(delta);
    return input === "" ? undefined : this.#call({ index, custom: { input } });
  }

  #call(call: object): string {
    return this.#chunks.delta(`{"tool_calls":[${JSON.stringify(call)}]}`);
  }

  /** There is room for one. */
  #legacyCall(index: number, call: object): string | undefined {
    return index === 0 ? this.#chunks.delta(`{"function_call":${JSON.stringify(call)}}`) : undefined;
  }
}
