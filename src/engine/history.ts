/**
 * History: what of the stored items a model is told.
 *
 * Invariant: the order is that of the calls, not of their completion, so a prompt is the same however the
 * run went; nodes that have ended keep their identity in memory, so a model renders each of them once.
 */
import type { Entry, MessageItem } from "../types/item.ts";
import type { HistoryNode } from "../types/model.ts";
import type { Store, StoredResponse } from "../types/store.ts";
import type { Run } from "./run.ts";
import { RETURNED } from "./text.ts";

interface Known {
  node: HistoryNode;
  previous: string | null;
  omit: readonly string[];
  /** Characters, about. */
  size: number;
}

/** Nodes and characters that are kept; what is dropped is read from the store when it is needed again. */
const CACHE_LIMIT = 20_000;
const CACHE_SIZE = 32_000_000;

export class History {
  readonly #store: Store;
  readonly #known = new Map<string, Known>();
  #size = 0;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Nodes from the root down to `id`, which has ended. */
  async path(id: string | null): Promise<HistoryNode[]> {
    if (id === null) return [];
    if (!this.#known.has(id)) {
      for (const stored of await this.#store.path(id, (known) => this.#known.has(known))) this.#remember(stored);
    }
    const path: Known[] = [];
    for (let next: string | null = id; next !== null; ) {
      const known: Known | undefined = this.#known.get(next);
      // Dropped by the limit while we walk: read the whole path afresh.
      if (!known) return assemble((await this.#store.path(id)).map((stored) => this.#remember(stored)).reverse());
      path.push(known);
      next = known.previous;
    }
    return assemble(path);
  }

  #remember({ node, entries }: StoredResponse): Known {
    this.#makeRoom();
    const history = { responseId: node.id, ended: true, entries: promptEntries(entries, node.status === "failed") };
    const { omit = [] } = node.settings;
    const known = { node: history, previous: node.previousResponseId, omit, size: sizeOf(history.entries) };
    this.#size += known.size - (this.#known.get(node.id)?.size ?? 0);
    this.#known.set(node.id, known);
    return known;
  }

  /** The oldest go first. */
  #makeRoom(): void {
    for (const [id, { size }] of this.#known) {
      if (this.#known.size < CACHE_LIMIT && this.#size < CACHE_SIZE) return;
      this.#known.delete(id);
      this.#size -= size;
    }
  }

  /** Something was erased: nothing of it may stay in memory. */
  forget(): void {
    this.#known.clear();
    this.#size = 0;
  }

  /** A run that has just ended need not be read back. */
  ended(run: Run): void {
    this.#remember({ node: run.node, entries: [...run.input, ...run.output] });
  }

  /** The run's own part: answers that were finished, and what came of them. */
  current(run: Run): HistoryNode {
    const entries = [...run.input, ...run.output.filter((entry) => entry !== undefined)];
    return { responseId: run.node.id, ended: false, entries: withoutCutAnswers(entries, false) };
  }
}

function sizeOf(entries: readonly Entry[]): number {
  let size = 0;
  for (const { item, meta } of entries) {
    size += 200;
    for (const image of meta.images ?? []) size += image.image_url.length;
    if (item.type === "message" || item.type === "reasoning") {
      for (const part of item.content) {
        size += part.type === "input_image" ? part.image_url.length : "text" in part ? part.text.length : 0;
      }
    } else if (item.type === "mcp_call") size += item.arguments.length + (item.output?.length ?? 0);
    else if (item.type === "function_call") size += item.arguments.length;
    else if (item.type === "function_call_output") size += item.output.length;
  }
  return size;
}

/** Root first, out of a path that begins at its end; without what was taken out further down. */
function assemble(path: readonly Known[]): HistoryNode[] {
  const omitted = new Set<string>();
  const nodes: HistoryNode[] = [];
  for (const { node, omit } of path) {
    nodes.push(omitted.size === 0 ? node : without(node, omitted));
    for (const item of omit) omitted.add(item);
  }
  return nodes.reverse();
}

function without(node: HistoryNode, omitted: ReadonlySet<string>): HistoryNode {
  if (!node.entries.some(({ item }) => omitted.has(item.id))) return node;
  return { ...node, edited: true, entries: node.entries.filter(({ item }) => !omitted.has(item.id)) };
}

/** What an ended response contributes: nothing if it failed with nothing said. */
function promptEntries(entries: readonly Entry[], failed: boolean): readonly Entry[] {
  if (failed && !entries.some(({ side, meta }) => side === "output" && !meta.compaction)) {
    return entries.filter(({ meta }) => meta.compaction);
  }
  return withoutCutAnswers(entries, true);
}

/** Leaves out answers that were never finished; of an ended response's last one, its text stays. */
function withoutCutAnswers(entries: readonly Entry[], ended: boolean): readonly Entry[] {
  const finished = new Set<number>([0]);
  let last = 0;
  for (const entry of entries) {
    if (entry.meta.finish !== undefined) finished.add(entry.turn);
    last = Math.max(last, entry.turn);
  }
  return entries.filter((entry) => {
    // The child tells of it, with its outcome.
    if (entry.item.type === "mcp_call" && entry.item.error === RETURNED) return false;
    if (finished.has(entry.turn) || entry.meta.synthetic === "steer" || entry.meta.compaction) return true;
    return ended && entry.turn === last && entry.item.type === "message";
  });
}

/** A question of the engine's own, for one call of the model only. */
export function syntheticNode(text: string): HistoryNode {
  const item: MessageItem = {
    type: "message",
    id: "synthetic",
    role: "user",
    status: "completed",
    content: [{ type: "input_text", text }],
  };
  const entry: Entry = { side: "input", position: 0, turn: 0, item, meta: { synthetic: "engine" } };
  return { responseId: "synthetic", ended: false, entries: [entry] };
}
