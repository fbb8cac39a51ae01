/**
 * Which tools a model is shown when there are too many: our own, `tool_search`, and what it has found.
 *
 * Invariant: what is shown is a function of the offered tools and of the stored items above and in this response, so a
 * crash, a restart and a branch change nothing; it only ever grows at its end, which prompt caches like; what is not
 * shown can be called all the same, under the same rules.
 */
import type { Entry } from "../types/item.ts";
import type { HistoryNode, ToolDefinition } from "../types/model.ts";
import type { Tool } from "../types/tool.ts";
import { createToolSearch, foundIn, TOOL_SEARCH } from "../util/tool-search.ts";
import type { Run } from "./run.ts";

/** Tokens, about, of all schemas that a model is shown without a search. */
export const TOOL_SEARCH_ABOVE = 10_000;

/** What `offerOf` makes. */
export interface Offered {
  tools: readonly Tool[];
  offered: ReadonlyMap<string, Tool>;
  definitions: readonly ToolDefinition[];
}

/** About: tokens are counted by the endpoint, each in its own way. */
const CHARACTERS_OF_A_TOKEN = 4;

interface Searching {
  /** The offer with `tool_search` in it, which everything can be called of. */
  offered: ReadonlyMap<string, Tool>;
  /** Shown always: our own tools, the client's, `tool_search`. */
  tools: readonly Tool[];
  definitions: readonly ToolDefinition[];
  /** By the names of the tools that were found, in order. */
  shown: Map<string, Offered>;
}

/** Of each offer: its tokens, and what is made of it once they are too many. */
const known = new WeakMap<Offered, { tokens: number; searching?: Searching | undefined }>();

/** Sets of found tools that are kept for an offer; they are cheap to make again. */
const MAX_SHOWN = 500;

/** The offer as it is, or what is shown in its place because its schemas are over `above` tokens. */
export function narrowed<Offer extends Offered>(
  offer: Offer,
  above: number,
  nodes: readonly HistoryNode[],
  run: Run,
): Offer {
  const facts = known.get(offer) ?? { tokens: tokensOf(offer.definitions) };
  known.set(offer, facts);
  if (facts.tokens <= above) return offer;
  facts.searching ??= searchingOf(offer);
  const { searching } = facts;
  if (!searching) return offer;
  const names = new Set<string>();
  const note = (name: string) => {
    const tool = offer.offered.get(name);
    if (tool && tool.server !== "rotunda") names.add(name);
  };
  const { toolChoice } = run.node.settings;
  if (typeof toolChoice === "object") note(toolChoice.name);
  for (const node of nodes) for (const name of namesIn(node)) note(name);
  for (const entry of [...run.input, ...run.output]) for (const name of named(entry)) note(name);
  return { ...offer, ...shownOf(searching, offer, [...names]) };
}

function tokensOf(definitions: readonly ToolDefinition[]): number {
  let characters = 0;
  for (const { name, description, input } of definitions) {
    characters += name.length + description.length + JSON.stringify(input).length;
  }
  return Math.ceil(characters / CHARACTERS_OF_A_TOKEN);
}

/** Undefined where there is nothing to leave out, or where a client's own tool has the name. */
function searchingOf(offer: Offered): Searching | undefined {
  const served = offer.tools.filter((tool) => tool.server !== "rotunda");
  if (served.length === 0 || offer.definitions.some(({ name }) => name === TOOL_SEARCH)) return undefined;
  const search = createToolSearch(served);
  const hidden = new Set(served.map(({ name }) => name));
  const { name, description, input } = search;
  return {
    offered: new Map([...offer.offered, [TOOL_SEARCH, search]]),
    tools: [...offer.tools.filter((tool) => tool.server === "rotunda"), search],
    definitions: [
      ...offer.definitions.filter((definition) => !hidden.has(definition.name)),
      { name, description, input },
    ],
    shown: new Map(),
  };
}

function shownOf(searching: Searching, offer: Offered, names: readonly string[]): Offered {
  const key = names.join(" ");
  const before = searching.shown.get(key);
  if (before) return before;
  const found = names.flatMap((name) => offer.offered.get(name) ?? []);
  const shown = {
    offered: searching.offered,
    tools: [...searching.tools, ...found],
    definitions: [
      ...searching.definitions,
      ...found.map(({ name, description, input }) => ({ name, description, input })),
    ],
  };
  if (searching.shown.size >= MAX_SHOWN) searching.shown.clear();
  searching.shown.set(key, shown);
  return shown;
}

const readNodes = new WeakMap<HistoryNode, readonly string[]>();

function namesIn(node: HistoryNode): readonly string[] {
  let names = readNodes.get(node);
  if (!names) {
    names = node.entries.flatMap(named);
    readNodes.set(node, names);
  }
  return names;
}

/** Tools that an item brings into sight: what a search found, what was called. */
function named(entry: Entry | undefined): readonly string[] {
  // Places of a run's output may be empty for a moment.
  if (!entry) return [];
  const { item, meta } = entry;
  if (item.type !== "mcp_call") return [];
  if (item.server_label !== "rotunda") return [meta.tool ?? item.name];
  return item.name === TOOL_SEARCH && item.status === "completed" ? foundIn(item.output ?? "") : [];
}
