/**
 * Compact size: how long a prompt is, about.
 *
 * Invariant: what the endpoint itself has counted last beats every guess, but only as long as the prompt begins as that
 * one did.
 */
import type { Entry } from "../types/item.ts";
import type { HistoryNode, Model, ToolDefinition } from "../types/model.ts";
import { charactersOf, compacted, sizeOf } from "./compacted.ts";

export const CHARACTERS_OF_A_TOKEN = 4;

/** Tokens. `overhead`: characters of instructions, beside those of the tools. */
export function estimate(
  nodes: readonly HistoryNode[],
  model: Model,
  definitions: readonly ToolDefinition[],
  overhead: number,
): number {
  const all = charactersOf(compacted(nodes));
  const counted = countedBy(model, nodes);
  // Some endpoints count only what they had not cached.
  if (counted !== undefined) return Math.max(counted, all / (1.5 * CHARACTERS_OF_A_TOKEN));
  return (all + overhead + lengthOf(definitions)) / CHARACTERS_OF_A_TOKEN;
}

/** What the model's last answer has counted, and a quarter of the characters that came since. */
function countedBy({ key }: Model, nodes: readonly HistoryNode[]): number | undefined {
  let since = 0;
  for (const { entries } of nodes.toReversed()) {
    for (const { item, meta, turn, side } of entries.toReversed()) {
      // What was counted before stood in another prompt.
      if (meta.compaction) return undefined;
      if (meta.usage && meta.model === key && !meta.agent) {
        const { input_tokens, output_tokens } = meta.usage;
        const results = entries.filter((entry) => entry.turn === turn && entry.side === side).map(outputLength);
        return input_tokens + output_tokens + (since + sum(results)) / CHARACTERS_OF_A_TOKEN;
      }
      since += sizeOf(item);
    }
  }
  return undefined;
}

/** Characters of the result of a call; 0 for everything else. */
export function outputLength({ item }: Entry): number {
  const { length } = (item.type === "mcp_call" || item.type === "function_call_output" ? item.output : null) ?? "";
  return length;
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

const lengths = new WeakMap<readonly ToolDefinition[], number>();

/** Characters of the tools, as a model is told of them. */
export function lengthOf(definitions: readonly ToolDefinition[]): number {
  let length = lengths.get(definitions);
  if (length === undefined) {
    length = JSON.stringify(definitions).length;
    lengths.set(definitions, length);
  }
  return length;
}
