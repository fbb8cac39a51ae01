/** What a tree has used, counted while the screen goes on. Invariant: what is shown is of the response counted last. */
import type { App } from "../../types/app.ts";
import type { Entry } from "../../types/item.ts";
import type { ResponseNode } from "../../types/response.ts";
import { rootOf } from "../../util/outermost.ts";

export interface LoadedUsage {
  /** Of the whole tree, sub-agents included. */
  tokens: number;
  /** US dollars. */
  cost: number;
  /** Tokens of the last prompt and its answer: what the model has to keep in mind. */
  context: number;
}

const NOTHING: LoadedUsage = { tokens: 0, cost: 0, context: 0 };

export class Usage {
  readonly #app: App;
  /** The response whose tree is being counted. */
  #counted = "";
  value = NOTHING;

  constructor(app: App) {
    this.#app = app;
  }

  clear(): void {
    this.#counted = "";
    this.value = NOTHING;
  }

  async count(node: ResponseNode): Promise<void> {
    this.#counted = node.id;
    const value = await usageOf(this.#app, node);
    if (this.#counted === node.id) this.value = value;
  }
}

async function usageOf(app: App, node: ResponseNode): Promise<LoadedUsage> {
  const [{ tokens, cost }, stored] = await Promise.all([
    rootOf(app, node.id).then((root) => app.store.usedBelow(root)),
    app.store.get(node.id),
  ]);
  return { tokens, cost, context: contextOf(stored?.entries ?? []) };
}

function contextOf(entries: readonly Entry[]): number {
  const usage = entries.findLast(({ meta }) => meta.usage !== undefined)?.meta.usage;
  return usage ? usage.input_tokens + usage.output_tokens : 0;
}
