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
  /** A response, and where its tree begins: so does that of what goes on from it. */
  #known: { id: string; root: string } | undefined;
  value: LoadedUsage = NOTHING;

  constructor(app: App) {
    this.#app = app;
  }

  clear(): void {
    this.#counted = "";
    this.value = NOTHING;
  }

  async count(node: ResponseNode): Promise<void> {
    this.#counted = node.id;
    const { store } = this.#app;
    const root = await this.#rootOf(node);
    const [{ tokens, cost }, stored] = await Promise.all([store.usedBelow(root), store.get(node.id)]);
    if (this.#counted === node.id) this.value = { tokens, cost, context: contextOf(stored?.entries ?? []) };
  }

  async #rootOf({ id, previousResponseId }: ResponseNode): Promise<string> {
    const known = this.#known;
    const root = known && known.id === previousResponseId ? known.root : await rootOf(this.#app, id);
    this.#known = { id, root };
    return root;
  }
}

function contextOf(entries: readonly Entry[]): number {
  const usage = entries.findLast(({ meta }) => meta.usage !== undefined)?.meta.usage;
  return usage ? usage.input_tokens + usage.output_tokens : 0;
}
