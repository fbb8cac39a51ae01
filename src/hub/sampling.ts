/**
 * Sampling: a model of ours answers for an old server.
 *
 * Invariant: the model has no tools, no instructions but the server's, and nothing of any conversation.
 */
import type { Entry, MessageItem } from "../types/item.ts";
import type { Model } from "../types/model.ts";
import type { SampleAnswer, SampleRequest } from "./hub-types.ts";

/** Milliseconds that an answer may take. */
const PATIENCE = 120_000;

/** Over the model that is the default when it is asked. */
export function createSampler(model: () => Promise<Model>, now: () => number) {
  return async (request: SampleRequest, signal: AbortSignal): Promise<SampleAnswer> => {
    const answering = await model();
    const { system, messages, maxTokens, temperature } = request;
    const entries = messages.map(({ role, text }, position): Entry => {
      const content: MessageItem["content"] =
        role === "user" ? [{ type: "input_text", text }] : [{ type: "output_text", text, annotations: [] }];
      const item: MessageItem = { type: "message", id: `msg_sampling_${position}`, role, status: "completed", content };
      return { side: "input", position, turn: 0, item, meta: {} };
    });
    let answer = "";
    const asked = answering.stream(
      {
        instructions: system,
        history: [{ responseId: "sampling", ended: false, entries }],
        tools: [],
        toolChoice: "none",
        parallelToolCalls: false,
        maxOutputTokens: maxTokens,
        ...(temperature !== undefined && { temperature }),
        cacheKey: "sampling",
        deadline: now() + PATIENCE,
      },
      signal,
    );
    for await (const event of asked) if (event.type === "text") answer += event.delta;
    return { text: answer, model: answering.id };
  };
}
