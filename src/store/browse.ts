/**
 * Browsing, on any database: what to read in which order, and when it is enough.
 *
 * Invariant: whatever is read is read in portions, and others go on between two of them.
 */
import { setImmediate } from "node:timers/promises";
import type { Browsing, FoundItem, Search, StoreFacts, TreeView, UsageSum } from "../types/browsing.ts";
import { RotundaError } from "../types/error.ts";
import type { Owner } from "../types/response.ts";
import { excerptOf, hitIn, promptOf, saidIn } from "./browse-text.ts";
import { type NodeRow, soundNode } from "./rows.ts";

/** Where a response stands. */
export interface LinkRow {
  number: number;
  id: string;
  owner: string;
  deleted_at: number | null;
}

export interface SaidRow {
  id: string;
  /** From `"text":"` on, or null. */
  prompt: string | null;
  answer: string | null;
}

export interface ItemRow {
  number: number;
  side: number;
  position: number;
  id: string;
  conversation_id: string | null;
  created_at: number;
  item: string;
}

export interface BodyRow {
  number: number;
  created_at: number;
  body: string;
}

/** Numbers of responses: above the first, and up to the second. */
export interface Range {
  above: number;
  to: number;
  owner?: Owner | undefined;
}

/** The statements. */
export interface BrowseSource {
  facts(): Promise<StoreFacts>;
  deleted(part: string): Promise<{ id: string; at: number }[]>;
  /** A response and what it stands on (its parent, else its caller), the nearest first; at most so many. */
  above(id: string, most: number): Promise<LinkRow[]>;
  /** A response and what stands on it, about as far as `most` of them. */
  below(id: string, most: number): Promise<LinkRow[]>;
  nodes(numbers: readonly number[]): Promise<NodeRow[]>;
  said(ids: readonly string[]): Promise<SaidRow[]>;
  /** Of responses that are not deleted, up to one: the newest first. */
  numbers(to: number, most: number, owner: Owner | undefined): Promise<number[]>;
  /** The newest first. `words` narrow it down; those that are found need not have them. */
  items(range: Range, all: boolean, words: readonly string[]): Promise<ItemRow[]>;
  bodies(range: Range): Promise<BodyRow[]>;
}

/** Ancestors that are read at once, and at most. */
const STEPS = 1_000;
const MOST_ABOVE = 20_000;
/** Responses that a tree is chosen from. */
const MOST_BELOW = 5_000;
const PORTION = 50;
/** Responses whose items are searched at once, at first, and as many as take about so many milliseconds. */
const FEW = 1;
const MANY = 200;
const SLICE = 10;
/** Responses that are summed up at once; and portions of them, all older than what is asked, after which it ends. */
const SUMMED = 500;
const OLD = 40;

const NEWEST = Number.MAX_SAFE_INTEGER;

export class Browser implements Browsing {
  readonly #source: BrowseSource;

  constructor(source: BrowseSource) {
    this.#source = source;
  }

  facts(): Promise<StoreFacts> {
    return this.#source.facts();
  }

  deleted(part: string): Promise<{ id: string; at: number }[]> {
    return this.#source.deleted(part);
  }

  // ---- the tree

  async tree(id: string, { limit, owner }: { limit: number; owner?: Owner }): Promise<TreeView | undefined> {
    const path = await this.#above(id);
    if (path[0]?.id !== id) return undefined;
    const isSeen = (link: LinkRow) => link.deleted_at === null && (owner === undefined || link.owner === owner);
    const from = Math.min(path.length - 1, limit);
    const below = await this.#source.below(path[from]?.id ?? id, MOST_BELOW);
    const chosen = new Map<number, LinkRow>();
    const near = path.slice(0, from + 1).filter(isSeen);
    const newest = below.filter(isSeen).sort((a, b) => b.number - a.number);
    // How it came to be comes first, and what is newest has some place left.
    for (const link of near.slice(0, Math.ceil(limit * 0.8))) chosen.set(link.number, link);
    for (const link of [...newest, ...near]) if (chosen.size < limit) chosen.set(link.number, link);
    const all = new Set([...near, ...newest].map(({ number }) => number));
    return {
      root: path.findLast(isSeen)?.id ?? id,
      nodes: await this.#nodes([...chosen.keys()].sort((a, b) => a - b)),
      truncated: from < path.length - 1 || all.size > chosen.size || below.length >= MOST_BELOW,
    };
  }

  async #above(id: string): Promise<LinkRow[]> {
    const path: LinkRow[] = [];
    for (let next: string | undefined = id; next !== undefined && path.length < MOST_ABOVE; ) {
      // All but the first portion begin with what the one before ended with.
      const rows: LinkRow[] = await this.#source.above(next, STEPS);
      path.push(...(path.length === 0 ? rows : rows.slice(1)));
      next = rows.length === STEPS ? rows.at(-1)?.id : undefined;
      await setImmediate();
    }
    return path;
  }

  async #nodes(numbers: readonly number[]): Promise<TreeView["nodes"]> {
    const nodes: TreeView["nodes"] = [];
    for (let at = 0; at < numbers.length; at += PORTION) {
      const portion = numbers.slice(at, at + PORTION);
      const rows = (await this.#source.nodes(portion)).sort((a, b) => a.number - b.number);
      const texts = await this.excerpts(rows.map(({ id }) => id));
      for (const row of rows) {
        const { prompt = null, answer = null } = texts.get(row.id) ?? {};
        nodes.push(...soundNode(row).map((node) => ({ node, prompt, answer })));
      }
      await setImmediate();
    }
    return nodes;
  }

  async excerpts(ids: readonly string[]): ReturnType<Browsing["excerpts"]> {
    const rows = await this.#source.said(ids);
    return new Map(rows.map(({ id, prompt, answer }) => [id, { prompt: promptOf(prompt), answer: excerptOf(answer) }]));
  }

  // ---- everything said

  async search({ words, all, limit, before, owner, milliseconds }: Search): ReturnType<Browsing["search"]> {
    const wanted = words.map((word) => word.toLowerCase()).filter((word) => word !== "");
    const found: FoundItem[] = [];
    if (wanted.length === 0) return { found, next: null };
    const start = placeOf(before);
    const until = performance.now() + milliseconds;
    let to = start?.number ?? NEWEST;
    for (let size = FEW; ; ) {
      const began = performance.now();
      const numbers = await this.#source.numbers(to, size, owner);
      const [first, last] = [numbers[0], numbers.at(-1)];
      if (first === undefined || last === undefined) return { found, next: null };
      let turn = began;
      for (const row of await this.#source.items({ above: last - 1, to: first, owner }, all, wanted)) {
        if (performance.now() - turn > SLICE) {
          await setImmediate();
          turn = performance.now();
        }
        if (start && !isBefore(row, start)) continue;
        const said = saidIn(row.item);
        if (!said || (!all && said.role !== "user" && said.role !== "assistant")) continue;
        const excerpt = hitIn(said.text, wanted);
        if (excerpt === undefined) continue;
        const { id: responseId, conversation_id: conversationId, created_at: createdAt } = row;
        found.push({ responseId, conversationId, itemId: said.id, role: said.role, excerpt, createdAt });
        if (found.length >= limit) return { found, next: cursorOf(row) };
      }
      to = last - 1;
      if (numbers.length < size) return { found, next: null };
      // Before all of what comes next, which may be no more than one response at a time.
      if (performance.now() > until) return { found, next: cursorOf({ number: to, side: 1, position: 999_999_999 }) };
      size = performance.now() - began > SLICE ? Math.max(FEW, size >> 1) : Math.min(MANY, size * 2);
      await setImmediate();
    }
  }

  // ---- what was used

  async usage({ from, to, owner, milliseconds }: Parameters<Browsing["usage"]>[0]): ReturnType<Browsing["usage"]> {
    const sums = new Map<string, UsageSum>();
    const until = performance.now() + milliseconds;
    let old = 0;
    for (let newest = NEWEST; ; ) {
      const numbers = await this.#source.numbers(newest, SUMMED, owner);
      const [first, last] = [numbers[0], numbers.at(-1)];
      if (first === undefined || last === undefined) break;
      const rows = await this.#source.bodies({ above: last - 1, to: first, owner });
      for (const row of rows) if (row.created_at >= from && row.created_at < to) add(sums, row);
      // What was imported is new here and yet old: it ends nothing by itself.
      old = rows.every((row) => row.created_at < from) ? old + 1 : 0;
      if (numbers.length < SUMMED || old >= OLD) break;
      if (performance.now() > until) return { sums: [...sums.values()], truncated: true };
      newest = last - 1;
      await setImmediate();
    }
    return { sums: [...sums.values()], truncated: false };
  }
}

function add(sums: Map<string, UsageSum>, { body, created_at }: BodyRow): void {
  let known: { profile: string; model: string; usage: number[] };
  try {
    known = JSON.parse(body) as typeof known;
  } catch {
    return;
  }
  const { profile, model, usage } = known;
  const [input = 0, output = 0, , , , cost = 0] = usage;
  const day = new Date(created_at).toISOString().slice(0, 10);
  const key = JSON.stringify([day, model, profile]);
  const sum = sums.get(key) ?? { day, model, profile, responses: 0, inputTokens: 0, outputTokens: 0, cost: 0 };
  sum.responses++;
  sum.inputTokens += input;
  sum.outputTokens += output;
  sum.cost += cost;
  sums.set(key, sum);
}

type Place = Pick<ItemRow, "number" | "side" | "position">;

function isBefore(a: Place, b: Place): boolean {
  return (
    a.number - b.number < 0 ||
    (a.number === b.number && (a.side < b.side || (a.side === b.side && a.position < b.position)))
  );
}

function cursorOf({ number, side, position }: Place): string {
  return `${number}.${side}.${position}`;
}

function placeOf(cursor: string | undefined): Place | undefined {
  if (cursor === undefined) return undefined;
  const [, number, side, position] = /^(\d{1,15})\.([01])\.(\d{1,9})$/.exec(cursor) ?? [];
  if (number === undefined) throw new RotundaError("usage", "before is no place that a search has given");
  return { number: Number(number), side: Number(side), position: Number(position) };
}

/** Letters of a word that a database looks for: it compares all of them at each place of a text. */
const COMPARED = 5;

/** Beginnings of words that stand in a stored text as they are, whatever their case: what a database can look for by itself. */
export function plainWords(words: readonly string[]): string[] {
  return words
    .filter((word) => /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(word))
    .map((word) => word.slice(0, COMPARED).replace(/[%_~]/g, "~$&"));
}

/** Characters of an item that are searched. */
export const SEARCHED = 1_000_000;
