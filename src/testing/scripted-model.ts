/**
 * A model without an endpoint, for tests of what uses models: it answers from a list or a function, in this
 * process, and keeps what it was asked.
 *
 * Invariant: it keeps the contract of `Model`: one `finish` event at the end, or a `ModelError`.
 */
import type { FinishReason, Usage } from "../types/item.ts";
import type { Json, JsonObject } from "../types/json.ts";
import { type Model, ModelError, type ModelEvent, type ModelRequest } from "../types/model.ts";

export interface ScriptedCall {
  name: string;
  /** An object is serialised; a text is sent as it is, valid JSON or not. */
  arguments: JsonObject | string;
  /** Default `call_<n>`, counted over the model's life. */
  id?: string;
}

/** One answer. An empty object is an empty answer. */
export interface ScriptedAnswer {
  /** An array is one delta for each member. */
  text?: string | readonly string[];
  refusal?: string;
  reasoning?: string | readonly string[];
  calls?: readonly ScriptedCall[];
  /** Default: `tool_calls` if there are calls, else `stop`. */
  finish?: FinishReason;
  finishRaw?: string;
  /** Default: 10 in, 5 out. */
  usage?: Partial<Usage>;
  raw?: Json;
  /** Milliseconds before each event. */
  delay?: number;
  /** Thrown after the deltas, in place of the finish; `partial` is set by what came before. */
  error?: ModelError;
  /** After the deltas, silence until the signal is aborted. */
  hang?: boolean;
}

/** Answers in order, the last one repeating; or a function of each request. A text is an answer of text. */
export type ModelScript =
  | readonly (ScriptedAnswer | string)[]
  | ((request: ModelRequest, number: number) => ScriptedAnswer | string | Promise<ScriptedAnswer | string>);

export interface ScriptedModel extends Model {
  /** Every request so far. Histories are the caller's own arrays: copy what must not change. */
  readonly requests: ModelRequest[];
}

export interface ScriptedModelOptions {
  /** Default "scripted". */
  id?: string;
  /** Default `scripted|<id>`. */
  key?: string;
  contextWindow?: number;
}

export function createScriptedModel(script: ModelScript, options: ScriptedModelOptions = {}): ScriptedModel {
  const id = options.id ?? "scripted";
  const requests: ModelRequest[] = [];
  let calls = 0;

  async function* stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent> {
    const number = requests.push(request) - 1;
    const step =
      typeof script === "function" ? await script(request, number) : script[Math.min(number, script.length - 1)];
    const answer = typeof step === "string" ? { text: step } : (step ?? {});
    let partial = false;
    for (const event of eventsOf(answer, () => `call_${++calls}`)) {
      if (answer.delay) await wait(answer.delay, signal);
      if (signal.aborted) throw new ModelError("cancelled", "the model call was cancelled", { partial });
      yield event;
      partial = true;
    }
    if (answer.hang) await wait(undefined, signal);
    if (answer.error) throw withPartial(answer.error, partial);
    yield finishOf(answer);
  }

  const { contextWindow } = options;
  return {
    id,
    key: options.key ?? `scripted|${id}`,
    ...(contextWindow === undefined ? {} : { contextWindow }),
    requests,
    stream,
  };
}

function listOf(value: string | readonly string[] | undefined): readonly string[] {
  return typeof value === "string" ? [value] : (value ?? []);
}

function* eventsOf(answer: ScriptedAnswer, nextId: () => string): Generator<ModelEvent> {
  for (const delta of listOf(answer.reasoning)) yield { type: "reasoning", delta };
  for (const delta of listOf(answer.text)) yield { type: "text", delta };
  if (answer.refusal !== undefined) yield { type: "refusal", delta: answer.refusal };
  for (const [index, call] of (answer.calls ?? []).entries()) {
    yield { type: "call", index, callId: call.id ?? nextId(), name: call.name };
    const delta = typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments);
    yield { type: "call_arguments", index, delta };
  }
}

function finishOf(answer: ScriptedAnswer): ModelEvent {
  const input = answer.usage?.input_tokens ?? 10;
  const output = answer.usage?.output_tokens ?? 5;
  return {
    type: "finish",
    reason: answer.finish ?? (answer.calls?.length ? "tool_calls" : "stop"),
    ...(answer.finishRaw === undefined ? {} : { reasonRaw: answer.finishRaw }),
    usage: {
      input_tokens: input,
      output_tokens: output,
      total_tokens: input + output,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
      ...answer.usage,
    },
    ...(answer.raw === undefined ? {} : { raw: answer.raw }),
  };
}

function withPartial(error: ModelError, partial: boolean): ModelError {
  if (error.partial === partial) return error;
  const { code, message, status, cause } = error;
  return new ModelError(code, message, { partial, cause, ...(status === undefined ? {} : { status }) });
}

/** Waits; for ever where no time is given. Rejects when the signal is aborted. */
function wait(milliseconds: number | undefined, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new ModelError("cancelled", "the model call was cancelled"));
    };
    const timer = setTimeout(
      () => {
        // A timer keeps the process alive while it hangs; it is set anew for as long as that takes.
        if (milliseconds === undefined) return;
        signal.removeEventListener("abort", stop);
        resolve();
      },
      milliseconds ?? 2 ** 31 - 1,
    );
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
