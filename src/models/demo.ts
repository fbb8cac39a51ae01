/**
 * The demo model: offline, deterministic, loudly labelled. It lets every door be tried with real tool calls
 * before any model is configured.
 *
 * Invariant: what it does next is a pure function of the request, so that it can be stopped and taken up again
 * at any step; every text that it writes begins with the demo label.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Entry, Usage } from "../types/item.ts";
import type { JsonObject } from "../types/json.ts";
import { type Model, ModelError, type ModelEvent, type ModelRequest } from "../types/model.ts";
import { answerText, helpText } from "./demo-answer.ts";
import { type DemoCall, type DemoResult, makePlan } from "./demo-plan.ts";

export interface DemoOptions {
  /** Milliseconds between the pieces of a text, at most; a whole text takes no longer than half a second. Default 5. */
  pace?: number;
}

export function createDemoModel(options: DemoOptions = {}): Model {
  const pace = options.pace ?? 5;
  return {
    id: "demo",
    key: "demo",
    demo: true,
    contextWindow: 200_000,
    stream: (request, signal) => answer(request, signal, pace),
  };
}

async function* answer(request: ModelRequest, signal: AbortSignal, pace: number): AsyncGenerator<ModelEvent> {
  stopIf(signal, false);
  const asked = readRequest(request);
  const next = decide(request, asked);
  const usage = usageOf(asked, next);
  if (Array.isArray(next)) {
    for (const [index, call] of next.entries()) {
      yield { type: "call", index, callId: `demo_${asked.taken + 1}_${index + 1}`, name: call.name };
      yield { type: "call_arguments", index, delta: JSON.stringify(call.arguments) };
    }
    yield { type: "finish", reason: "tool_calls", usage };
    return;
  }
  const pieces = next.match(/\s*\S+\s*/g) ?? [next];
  const pause = Math.min(pace, 500 / pieces.length);
  for (const [number, delta] of pieces.entries()) {
    // A timer for every piece would cost more than it shows.
    if (pause > 0 && number % 4 === 3) await sleep(pause * 4);
    stopIf(signal, number > 0);
    yield { type: "text", delta };
  }
  yield { type: "finish", reason: "stop", usage };
}

function stopIf(signal: AbortSignal, partial: boolean): void {
  if (signal.aborted) throw new ModelError("cancelled", "the model call was cancelled", { partial });
}

/** The last thing that a person said, and what was done about it since. */
interface Asked {
  text: string;
  results: DemoResult[];
  /** Answers with calls so far. */
  taken: number;
}

function readRequest(request: ModelRequest): Asked {
  let asked: Asked = { text: "", results: [], taken: 0 };
  let turns = new Set<string>();
  for (const node of request.history) {
    for (const entry of node.entries) {
      const { item, meta } = entry;
      if (item.type === "message" && item.role === "user" && meta.synthetic === undefined) {
        asked = { text: textOf(entry), results: [], taken: 0 };
        turns = new Set();
      } else if (item.type === "mcp_call" || item.type === "function_call") {
        turns.add(`${node.responseId} ${entry.turn}`);
        asked.taken = turns.size;
        if (item.type === "mcp_call") asked.results.push(resultOf(meta.tool ?? item.name, item.arguments, item));
      } else if (item.type === "function_call_output")
        asked.results.push({ name: "your tool", arguments: {}, output: item.output, failed: false });
    }
  }
  return asked;
}

function textOf({ item }: Entry): string {
  if (item.type !== "message") return "";
  return item.content
    .flatMap((part) => (part.type === "input_text" || part.type === "output_text" ? [part.text] : []))
    .join("\n");
}

function resultOf(
  name: string,
  given: string,
  item: { status: string; output: string | null; error: string | null },
): DemoResult {
  const failed = item.status !== "completed" || item.error !== null;
  let parsed: JsonObject = {};
  try {
    parsed = JSON.parse(given) as JsonObject;
  } catch {
    // Made by another model; its result can be told without them.
  }
  return { name, arguments: parsed, output: item.output || item.error || "interrupted, outcome unknown", failed };
}

/** The calls of the next step, or the text that ends the turn. */
function decide(request: ModelRequest, asked: Asked): DemoCall[] | string {
  const plan = makePlan(asked.text, request.tools);
  if (plan === null && asked.results.length === 0) return helpText(request.tools.map(({ name }) => name));
  if (plan === null) return answerText(asked.results, []);
  if (request.toolChoice === "none" || request.tools.length === 0) return answerText(asked.results, plan.missing);
  let taken = asked.taken;
  for (const step of plan.steps) {
    const calls = step(asked.results);
    if (calls.length === 0 || taken-- > 0) continue;
    return calls;
  }
  return answerText(asked.results, plan.missing);
}

/** Four characters to a token: near enough to show how usage looks. */
function usageOf(asked: Asked, next: DemoCall[] | string): Usage {
  const read = asked.text.length + asked.results.reduce((sum, { output }) => sum + output.length, 0);
  const input = Math.ceil(read / 4);
  const output = Math.ceil((typeof next === "string" ? next : JSON.stringify(next)).length / 4);
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  };
}
