/**
 * Which trees `rotunda log` lists: those in which something was said last.
 *
 * Invariant: it reads no more than what it lists and the newest responses, however many conversations there are.
 */
import type { App } from "../../types/app.ts";
import type { TreeView } from "../../types/browsing.ts";
import type { ResponseNode } from "../../types/response.ts";
import { lastActive, treeOf } from "./outline.ts";

const PAGE = 200;
/** Responses that are looked through for further trees. */
const MOST_LOOKED = 5_000;

/** The last one is that which was spoken in last. */
export async function latestTrees(app: App, limit: number): Promise<TreeView[]> {
  const chosen = new Chosen(app);
  // What was imported is new in the tables and yet old: conversations know when they were last used.
  for (const { head } of await app.store.conversations({ limit })) if (head !== null) await chosen.add(head);
  // Not everything that was said belongs to a conversation.
  const before = chosen.trees.size;
  let looked = 0;
  for (let last: string | undefined; looked < MOST_LOOKED && chosen.trees.size < before + limit; ) {
    const page = await app.store.list({ limit: PAGE, ...(last !== undefined && { before: last }) });
    for (const node of page) {
      if (chosen.trees.size < before + limit) await chosen.addOf(node);
    }
    looked += page.length;
    last = page.at(-1)?.id;
    if (page.length < PAGE) break;
  }
  if (looked >= MOST_LOOKED && chosen.trees.size < limit) {
    for (const root of await app.store.list({ roots: true, limit })) await chosen.addOf(root);
  }
  return [...chosen.trees.values()]
    .sort((a, b) => lastActive(b) - lastActive(a))
    .slice(0, limit)
    .reverse();
}

class Chosen {
  /** By their roots. */
  readonly trees = new Map<string, TreeView>();
  /** Responses that are known to stand in one of them. */
  readonly #known = new Set<string>();
  readonly #app: App;

  constructor(app: App) {
    this.#app = app;
  }

  async addOf({ id, previousResponseId, caller }: ResponseNode): Promise<void> {
    const above = previousResponseId ?? caller?.responseId;
    // Of a very large tree not all are known at once.
    if (above !== undefined && this.#known.has(above)) this.#known.add(id);
    await this.add(id);
  }

  async add(id: string): Promise<void> {
    if (this.#known.has(id)) return;
    this.#known.add(id);
    const tree = await treeOf(this.#app, id);
    if (!tree) return;
    for (const { node } of tree.nodes) this.#known.add(node.id);
    if (!this.trees.has(tree.root)) this.trees.set(tree.root, tree);
  }
}
