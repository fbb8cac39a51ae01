/** What the tests of the models share: requests, histories, and a model in front of a scripted endpoint. */
import { createChatCompletionsModel } from "../../src/models/chat-completions.ts";
import { HttpClient } from "../../src/models/http.ts";
import type { RetryTimes } from "../../src/models/retry.ts";
import { startUpstream, type Upstream, type UpstreamOptions, type UpstreamScript } from "../../src/testing/upstream.ts";
import type { ModelConfig } from "../../src/types/config.ts";
import type { Entry, EntryMeta, Item } from "../../src/types/item.ts";
import { type HistoryNode, type Model, ModelError, type ModelEvent, type ModelRequest } from "../../src/types/model.ts";
import type { Redact } from "../../src/util/secrets.ts";

export interface Bench {
  model: Model;
  upstream: Upstream;
  http: HttpClient;
  close(): Promise<void>;
}

const open = new Set<Bench>();

/** A model in front of a scripted endpoint. Waits are real but short: 1 ms for each retry. */
export async function bench(
  script: UpstreamScript,
  config: Partial<ModelConfig> = {},
  options: UpstreamOptions & { times?: RetryTimes; redact?: Redact } = {},
): Promise<Bench> {
  const upstream = await startUpstream(script, options);
  const http = new HttpClient();
  const { times = quickTimes(), redact } = options;
  const model = createChatCompletionsModel(
    { id: "m", baseUrl: upstream.url, model: "test-model", origin: "config", ...config },
    { http, times, ...(redact === undefined ? {} : { redact }) },
  );
  const made: Bench = {
    model,
    upstream,
    http,
    async close() {
      open.delete(made);
      await http.close();
      await upstream.close();
    },
  };
  open.add(made);
  return made;
}

export async function closeBenches(): Promise<void> {
  await Promise.all([...open].map((made) => made.close()));
}

/** Real time, but what is asked to wait is only noted. */
export function quickTimes(): RetryTimes & { waits: number[] } {
  const waits: number[] = [];
  return {
    waits,
    now: Date.now,
    random: () => 0.5,
    sleep: async (milliseconds) => {
      waits.push(milliseconds);
      await new Promise((resolve) => setTimeout(resolve, 1));
    },
  };
}

export function request(
  history: HistoryNode[] = [node([user("hello")])],
  more: Partial<ModelRequest> = {},
): ModelRequest {
  return {
    instructions: "Be brief.",
    history,
    tools: [],
    toolChoice: "auto",
    parallelToolCalls: true,
    cacheKey: "resp_root",
    ...more,
  };
}

let count = 0;

export function node(entries: Entry[], ended = false): HistoryNode {
  return { responseId: `resp_${++count}`, ended, entries };
}

export function input(item: Item, meta: EntryMeta = {}): Entry {
  return { side: "input", position: 0, turn: 0, item, meta };
}

export function output(turn: number, item: Item, meta: EntryMeta = {}): Entry {
  return { side: "output", position: 0, turn, item, meta };
}

export function message(role: "user" | "assistant" | "system" | "developer", text: string): Item {
  const content =
    role === "assistant"
      ? { type: "output_text" as const, text, annotations: [] }
      : { type: "input_text" as const, text };
  return { type: "message", id: `msg_${++count}`, role, status: "completed", content: [content] };
}

export function user(text: string, meta: EntryMeta = {}): Entry {
  return input(message("user", text), meta);
}

export function said(turn: number, text: string, meta: EntryMeta = { finish: "stop" }): Entry {
  return output(turn, message("assistant", text), meta);
}

export function called(turn: number, name: string, given: string, result: string | null, meta: EntryMeta = {}): Entry {
  return output(
    turn,
    {
      type: "mcp_call",
      id: `mcp_${++count}`,
      server_label: "rotunda",
      name,
      arguments: given,
      status: result === null ? "calling" : "completed",
      output: result,
      error: null,
      approval_request_id: null,
    },
    meta,
  );
}

export interface Outcome {
  events: ModelEvent[];
  text: string;
  reasoning: string;
  calls: { index: number; callId: string; name: string; arguments: string }[];
  finish: Extract<ModelEvent, { type: "finish" }> | undefined;
  error: ModelError | undefined;
}

/** Everything that a stream gives, and the error that it ends with. Rejects on anything but a `ModelError`. */
export async function collect(stream: AsyncIterable<ModelEvent>): Promise<Outcome> {
  const outcome: Outcome = { events: [], text: "", reasoning: "", calls: [], finish: undefined, error: undefined };
  try {
    for await (const event of stream) {
      outcome.events.push(event);
      if (event.type === "text") outcome.text += event.delta;
      else if (event.type === "reasoning") outcome.reasoning += event.delta;
      else if (event.type === "call") outcome.calls[event.index] = { ...event, arguments: "" };
      else if (event.type === "call_arguments") {
        const call = outcome.calls[event.index];
        if (!call) throw new Error(`arguments for call ${event.index}, which has not begun`);
        call.arguments += event.delta;
      } else if (event.type === "finish") outcome.finish = event;
    }
  } catch (thrown) {
    if (!(thrown instanceof ModelError)) throw thrown;
    outcome.error = thrown;
  }
  return outcome;
}

export function ask(
  model: Model,
  asked: ModelRequest = request(),
  signal = new AbortController().signal,
): Promise<Outcome> {
  return collect(model.stream(asked, signal));
}

/** The messages of the last request that an endpoint got. */
export function sentMessages(upstream: Upstream): Record<string, unknown>[] {
  return upstream.requests.at(-1)?.body.messages as Record<string, unknown>[];
}
