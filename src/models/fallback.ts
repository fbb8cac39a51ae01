/**
 * A chain of models that answers as one: the next is asked when the one before is out of reach.
 *
 * Invariant: another model is asked only while nothing of an answer was yielded. Provider-bound data of a
 * later model says whose it is, so that it never goes to the first one.
 */
import { RotundaError } from "../types/error.ts";
import type { Model, ModelEvent, ModelRequest } from "../types/model.ts";

const outOfReach = new Set(["upstream_unreachable", "upstream_failed", "upstream_timeout", "upstream_rate_limited"]);

/** A model with the id, the key and the window of `first`, that asks `others` in turn. */
export function withFallback(first: Model, others: readonly Model[]): Model {
  const chain = [first, ...others];
  return {
    id: first.id,
    key: first.key,
    ...(first.demo === undefined ? {} : { demo: first.demo }),
    get contextWindow() {
      return first.contextWindow;
    },
    ...(first.maxConcurrent === undefined ? {} : { maxConcurrent: first.maxConcurrent }),
    ...(first.price === undefined ? {} : { price: first.price }),
    stream: (request, signal) => streamChain(chain, request, signal),
  };
}

async function* streamChain(
  chain: readonly Model[],
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelEvent> {
  for (const [number, model] of chain.entries()) {
    const next = chain[number + 1];
    let yielded = false;
    try {
      for await (const event of model.stream(request, signal)) {
        yielded = true;
        yield number > 0 && event.type === "finish" && event.raw !== undefined
          ? { ...event, raw: { from: model.key, raw: event.raw } }
          : event;
      }
      return;
    } catch (thrown) {
      if (yielded || !next || !(thrown instanceof RotundaError) || !outOfReach.has(thrown.code)) throw thrown;
      request.onRetry?.(`${thrown.message}; asking model "${next.id}" instead of "${model.id}"`);
      await request.instead?.(next);
    }
  }
}
