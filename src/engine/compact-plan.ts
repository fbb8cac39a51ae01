/**
 * Compact plan: which items of a path a compaction may leave out, and which stay.
 *
 * Invariant: a call and its result stay or go together, as do all items of one answer; what the model has not answered
 * yet stays; instructions stay.
 */
import type { Entry, Place } from "../types/item.ts";
import type { HistoryNode } from "../types/model.ts";
import { CHARACTERS_OF_A_TOKEN } from "./compact-size.ts";
import { compacted, type InForce, isInstruction, sizeOf } from "./compacted.ts";
import { isCall, isSettled } from "./next.ts";
import type { Run } from "./run.ts";

/** An entry as a model is told of it now. */
export interface Element {
  entry: Entry;
  response: string;
  /** It stands in for a range: a summary, a mark, or what was kept of it. */
  standsIn: boolean;
  /** About. */
  tokens: number;
}

export function elementsOf(nodes: readonly HistoryNode[], force: InForce | undefined): Element[] {
  const standIn = force?.drop?.entry.item.id;
  return compacted(nodes, force).flatMap((node) =>
    node.entries.map((entry) => ({
      entry,
      response: node.responseId,
      standsIn: node.responseId === standIn,
      tokens: sizeOf(entry.item) / CHARACTERS_OF_A_TOKEN,
    })),
  );
}

export function placeOf({ entry: { side, position }, response }: Element): Place {
  return { response, side, position };
}

export function tokensOf(elements: readonly Element[]): number {
  return elements.reduce((sum, { tokens }) => sum + tokens, 0);
}

/** Numbers of elements (how many stand before) between which the path may be parted; the ends are not among them. */
export function partings(elements: readonly Element[]): number[] {
  const open = new Set<string>();
  let unsettled = false;
  const places: number[] = [];
  for (const [index, element] of elements.entries()) {
    const before = elements[index - 1];
    if (before && !unsettled && open.size === 0 && groupOf(before) !== groupOf(element)) places.push(index);
    const { item } = element.entry;
    if (item.type === "function_call") open.add(item.call_id);
    else if (item.type === "function_call_output") open.delete(item.call_id);
    else if (isCall(element.entry)) unsettled ||= !isSettled(element.entry.item);
  }
  return places;
}

/** One answer of a model, with what came of its calls. */
function groupOf({ entry, response, standsIn }: Element): string {
  if (standsIn) return "stands in";
  return entry.side === "input" ? `${response} ${entry.position}` : `${response} output ${entry.turn}`;
}

/** How many elements the model has answered already, or needs not: from the next one on, all must stay. */
export function answeredCount(elements: readonly Element[], run: Run): number {
  const turn = run.output.reduce(
    (last, entry) => (entry?.meta.finish === undefined ? last : Math.max(last, entry.turn)),
    0,
  );
  const first = elements.findIndex(({ entry, response, standsIn }) => {
    if (standsIn || response !== run.node.id) return false;
    return turn === 0 || (entry.side === "output" && entry.turn >= turn);
  });
  return first < 0 ? elements.length : first;
}

/**
 * How many elements go, so that those which stay take `keep` tokens at most, or as few more as can be. A place at which
 * a turn begins is preferred. 0: nothing can go.
 */
export function goesUpTo(elements: readonly Element[], answered: number, keep: number): number {
  const places = partings(elements).filter((place) => place <= answered);
  const fits = places.filter((place) => tokensOf(elements.slice(place)) <= keep);
  const [first = places.at(-1) ?? 0] = fits;
  const turn = fits.find((place) => {
    const next = elements[place];
    return next?.entry.side === "input" && tokensOf(elements.slice(place)) >= keep / 3;
  });
  return turn ?? first;
}

/** Of what goes, the ids of what stays nevertheless: instructions, and the question that is being worked on. */
export function keptOf(gone: readonly Element[], run: Run, most: number): string[] {
  const said = new Set<string>();
  const kept: string[] = [];
  for (const { entry } of gone) {
    if (!isInstruction(entry)) continue;
    const text = JSON.stringify(entry.item.type === "message" ? entry.item.content : "");
    if (!said.has(text)) kept.push(entry.item.id);
    said.add(text);
  }
  const worked = gone.some(({ entry, response }) => response === run.node.id && entry.side === "output");
  const own = new Set(run.input.map(({ item }) => item.id));
  const question = gone.filter(({ entry }) => own.has(entry.item.id) && isQuestion(entry));
  if (worked && tokensOf(question) <= most) kept.push(...question.map(({ entry }) => entry.item.id));
  return kept;
}

function isQuestion({ item }: Entry): boolean {
  return item.type === "message" && item.role === "user";
}

/** Of the first-last form: the first and the last number of what goes. Undefined: nothing does. */
export function middleOf(
  elements: readonly Element[],
  answered: number,
  messages: number,
): { first: number; end: number } | undefined {
  const said = elements.flatMap((element, index) => (isSaid(element) ? index : []));
  const half = Math.floor(messages / 2);
  const standsIn = elements.findLastIndex((element) => element.standsIn);
  const places = partings(elements);
  const headEnd = (said[half - 1] ?? -1) + 1;
  // What stood in for a range before goes with it: the new one begins where that did.
  const first = standsIn < 0 ? (places.findLast((place) => place <= headEnd) ?? 0) : standsIn + 1;
  const tail = said[Math.max(0, said.length - (messages - half))] ?? elements.length;
  const end = places.findLast((place) => place <= Math.min(tail, answered)) ?? 0;
  return end > first ? { first, end } : undefined;
}

export function countSaid(elements: readonly Element[]): number {
  return elements.filter(isSaid).length;
}

function isSaid({ entry: { item }, standsIn }: Element): boolean {
  return !standsIn && item.type === "message" && (item.role === "user" || item.role === "assistant");
}
