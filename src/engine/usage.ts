/**
 * Usage: what the calls of a response have used, and what that has cost.
 *
 * Invariant: what an endpoint says of its price is believed; only where it says nothing is it reckoned.
 */
import type { Entry, Usage } from "../types/item.ts";
import type { ModelEvent, ModelPrice } from "../types/model.ts";

/** Of all calls whose answers are among these items. */
export function usageOf(output: readonly Entry[]): Usage {
  const total: Usage = {
    input_tokens: 0,
    output_tokens: 0,
    total_tokens: 0,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  };
  for (const { meta } of output) {
    const { usage } = meta;
    if (!usage) continue;
    total.input_tokens += usage.input_tokens;
    total.output_tokens += usage.output_tokens;
    total.total_tokens += usage.total_tokens;
    total.input_tokens_details.cached_tokens += usage.input_tokens_details.cached_tokens;
    total.output_tokens_details.reasoning_tokens += usage.output_tokens_details.reasoning_tokens;
    if (usage.cost !== undefined) total.cost = (total.cost ?? 0) + usage.cost;
  }
  return total;
}

type FinishEvent = Extract<ModelEvent, { type: "finish" }>;

/** What the call has cost, where the endpoint does not say. */
export function priced(event: FinishEvent, price: ModelPrice | undefined): FinishEvent {
  const { usage } = event;
  if (!price || !usage || usage.cost !== undefined) return event;
  const { cached_tokens: cached } = usage.input_tokens_details;
  const input = (usage.input_tokens - cached) * price.input + cached * (price.cached ?? price.input);
  return { ...event, usage: { ...usage, cost: (input + usage.output_tokens * price.output) / 1_000_000 } };
}
