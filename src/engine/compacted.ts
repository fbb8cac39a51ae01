/**
 * Compacted: what a model is still told of a path, once a compaction stands on it.
 *
 * Invariant: a pure function of the stored entries, so that a restart and a branch see the same prompt; what is made of
 * a node that has ended keeps its identity, so that it is rendered once and a provider's cache finds it again.
 */
import type { Compaction, Entry, Item, MessageItem, Place } from "../types/item.ts";
import type { HistoryNode } from "../types/model.ts";
import { shortId } from "../util/ids.ts";
import { clip } from "./clip.ts";

/** A compaction on a path, and the numbers of the nodes in which its range begins and ends. */
export interface Made {
  entry: Entry;
  compaction: Compaction;
  first: number;
  last: number;
}

export interface InForce {
  /** Leaves its range out. */
  drop: Made | undefined;
  /** Cuts outputs. */
  cut: Made | undefined;
}

interface Facts {
  made: readonly Entry[];
  /** Entries that are no compaction. */
  count: number;
  characters: number;
}

const known = new WeakMap<readonly Entry[], Facts>();

function factsOf({ entries, ended }: HistoryNode): Facts {
  let facts = known.get(entries);
  if (!facts) {
    const made = entries.filter(({ meta }) => meta.compaction);
    const characters = entries.reduce(
      (sum, { item, meta }) => (meta.compaction ? sum : sum + sizeOf(item) + IMAGE * (meta.images?.length ?? 0)),
      0,
    );
    facts = { made, count: entries.length - made.length, characters };
    if (ended) known.set(entries, facts);
  }
  return facts;
}

export function hasCompaction(node: HistoryNode): boolean {
  return factsOf(node).made.length > 0;
}

/** Characters of all that these nodes hold, about as a model is told of it. */
export function charactersOf(nodes: readonly HistoryNode[]): number {
  return nodes.reduce((sum, node) => sum + factsOf(node).characters, 0);
}

/** What an image counts: endpoints scale it down. */
const IMAGE = 4_000;
/** What surrounds an item. */
const FRAME = 20;

/** Characters of an item, about as a model is told of it. Reasoning mostly stays behind. */
export function sizeOf(item: Item): number {
  switch (item.type) {
    case "message":
      return item.content.reduce((sum, part) => {
        if (part.type === "input_image") return sum + IMAGE;
        // Base64 is four characters for three bytes.
        if (part.type === "input_file") return sum + (3 / 4) * part.file_data.length;
        return sum + (part.type === "refusal" ? part.refusal : part.text).length;
      }, FRAME);
    case "mcp_call":
      return FRAME + item.name.length + item.arguments.length + (item.output ?? item.error ?? "").length;
    case "function_call":
      return FRAME + item.name.length + item.arguments.length;
    case "function_call_output":
      return FRAME + item.output.length;
    case "compaction":
      return FRAME + item.summary.length;
    default:
      return 0;
  }
}

/** Below 0: the entry stands before the place in its node. */
function compare(entry: Pick<Entry, "side" | "position">, place: Place): number {
  if (entry.side !== place.side) return entry.side === "input" ? -1 : 1;
  return entry.position - place.position;
}

/** Entries of a range, compactions apart. */
export function countRange(nodes: readonly HistoryNode[], { from, to }: Pick<Compaction, "from" | "to">): number {
  const first = nodes.findIndex(({ responseId }) => responseId === from.response);
  const last = nodes.findIndex(({ responseId }) => responseId === to.response);
  return first < 0 || last < first ? 0 : countBetween(nodes, first, last, { from, to });
}

function countBetween(
  nodes: readonly HistoryNode[],
  first: number,
  last: number,
  { from, to }: Pick<Compaction, "from" | "to">,
): number {
  let count = 0;
  for (let at = first; at <= last; at++) {
    const node = nodes[at];
    if (!node) return 0;
    if (at > first && at < last) count += factsOf(node).count;
    else
      count += node.entries.filter(
        (entry) => !entry.meta.compaction && isWithin(entry, at, first, last, from, to),
      ).length;
  }
  return count;
}

function isWithin(entry: Entry, at: number, first: number, last: number, from: Place, to: Place): boolean {
  return (at > first || compare(entry, from) >= 0) && (at < last || compare(entry, to) <= 0);
}

/** The compactions that count: the newest of each kind. Undefined: none was ever made on this path. */
export function inForce(nodes: readonly HistoryNode[]): InForce | undefined {
  let any = false;
  const force: InForce = { drop: undefined, cut: undefined };
  for (let at = nodes.length - 1; at >= 0; at--) {
    const node = nodes[at];
    if (!node) continue;
    const { made } = factsOf(node);
    for (const entry of made.toReversed()) {
      any = true;
      const { compaction } = entry.meta;
      if (!compaction) continue;
      const kind = compaction.strategy === "outputs" ? "cut" : "drop";
      force[kind] ??= placed(nodes, entry, compaction);
    }
    if (force.drop && force.cut) break;
  }
  return any ? force : undefined;
}

/** Undefined where something was taken out of its range since: what was summed up must be forgotten with it. */
function placed(nodes: readonly HistoryNode[], entry: Entry, compaction: Compaction): Made | undefined {
  const { from, to, items } = compaction;
  const first = nodes.findIndex(({ responseId }) => responseId === from.response);
  const last = nodes.findIndex(({ responseId }) => responseId === to.response);
  if (first < 0 || last < first) return undefined;
  const whole = compaction.strategy === "outputs" || countBetween(nodes, first, last, compaction) >= items;
  return whole ? { entry, compaction, first, last } : undefined;
}

/** The nodes as a model is told of them. The same array where there is no compaction. */
export function compacted(nodes: readonly HistoryNode[], force = inForce(nodes)): readonly HistoryNode[] {
  if (!force) return nodes;
  const { drop, cut } = force;
  const shown: HistoryNode[] = [];
  for (const [at, node] of nodes.entries()) {
    if (!drop || at < drop.first || at > drop.last) shown.push(shownOf(node, at, cut, undefined, "whole"));
    else {
      const { from, to } = drop.compaction;
      const { id } = drop.entry.item;
      if (at === drop.first) {
        const head = (entry: Entry) => compare(entry, from) < 0;
        shown.push(shownOf(node, at, cut, head, `before ${id}`), summaryNode(nodes, drop));
      }
      if (at === drop.last) shown.push(shownOf(node, at, cut, (entry) => compare(entry, to) > 0, `after ${id}`));
    }
  }
  return shown.filter(({ entries }) => entries.length > 0);
}

const derived = new WeakMap<readonly Entry[], Map<string, HistoryNode>>();
/** Forms of one node that are kept; they are cheap to make again. */
const MAX_FORMS = 20;

/** A node without compactions, and with what `keep` keeps; outputs are cut where that was decided. */
function shownOf(
  node: HistoryNode,
  at: number,
  cut: Made | undefined,
  keep: ((entry: Entry) => boolean) | undefined,
  form: string,
): HistoryNode {
  const cuts = cut && at >= cut.first && at <= cut.last ? cut : undefined;
  if (!keep && !cuts && factsOf(node).made.length === 0) return node;
  const key = cuts ? `${form}, ${cuts.entry.item.id}` : form;
  const forms = derived.get(node.entries) ?? new Map<string, HistoryNode>();
  let made = forms.get(key);
  if (!made) {
    const kept = node.entries.filter((entry) => !entry.meta.compaction && (!keep || keep(entry)));
    made = { ...node, entries: cuts ? kept.map((entry) => withCutOutput(entry, at, cuts)) : kept };
    if (node.ended) {
      if (forms.size >= MAX_FORMS) forms.clear();
      forms.set(key, made);
      derived.set(node.entries, forms);
    }
  }
  return made;
}

function withCutOutput(entry: Entry, at: number, { compaction, first, last }: Made): Entry {
  const { from, to, characters = 0 } = compaction;
  const { item } = entry;
  if (item.type !== "mcp_call" && item.type !== "function_call_output") return entry;
  const { output } = item;
  if (output === null || output.length <= characters || !isWithin(entry, at, first, last, from, to)) return entry;
  return { ...entry, item: { ...item, output: clip(output, characters, shortId(item.id)).text } };
}

const summaries = new WeakMap<Entry, HistoryNode>();

/** What stands in the place of a range: what of it stays, and the summary or the mark. */
function summaryNode(nodes: readonly HistoryNode[], { entry, compaction, first, last }: Made): HistoryNode {
  const before = summaries.get(entry);
  if (before) return before;
  const ids = new Set(compaction.kept);
  const kept = nodes
    .slice(first, last + 1)
    .flatMap(({ entries }) => entries.filter(({ item }) => ids.has(item.id)))
    .map((one): Entry => ({ ...one, side: "input", turn: 0 }));
  const item = compaction.strategy === "first-last" ? markOf(entry.item) : entry.item;
  const summary: Entry = { side: "input", position: 0, turn: 0, item, meta: {} };
  const entries = [...kept.filter(isInstruction), summary, ...kept.filter((one) => !isInstruction(one))];
  const made: HistoryNode = { responseId: entry.item.id, ended: true, entries };
  summaries.set(entry, made);
  return made;
}

/** Said by whoever runs the conversation, and so never summed up. */
export function isInstruction({ item }: Entry): boolean {
  return item.type === "message" && (item.role === "system" || item.role === "developer");
}

/** Polybrain put its mark as something that the assistant had said (parity P7). */
function markOf(item: Item): MessageItem {
  const text = item.type === "compaction" ? item.summary : "";
  const content = [{ type: "output_text" as const, text, annotations: [] }];
  return { type: "message", id: item.id, role: "assistant", status: "completed", content };
}

/** What a model is not told any more, oldest first. */
export function droppedFrom(nodes: readonly HistoryNode[]): Entry[] {
  const drop = inForce(nodes)?.drop;
  if (!drop) return [];
  const { from, to, kept } = drop.compaction;
  const ids = new Set(kept);
  const dropped: Entry[] = [];
  for (let at = drop.first; at <= drop.last; at++) {
    for (const entry of nodes[at]?.entries ?? []) {
      if (entry.meta.compaction || ids.has(entry.item.id)) continue;
      if (isWithin(entry, at, drop.first, drop.last, from, to)) dropped.push(entry);
    }
  }
  return dropped;
}
