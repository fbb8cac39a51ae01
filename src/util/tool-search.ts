/**
 * Tool search: finds the few tools that fit among very many, for a model that cannot be shown all of them.
 *
 * Invariant: the same tools and the same words give the same answer in the same order; the answer's text alone tells
 * which tools were found (`foundIn`), so whoever reads it later, in another process or on another branch, offers the
 * same ones; nothing that a server wrote can begin a line of it.
 */
import type { JsonObject } from "../types/json.ts";
import type { Tool, ToolResult } from "../types/tool.ts";
import { oneLine, visible } from "./text.ts";

export const TOOL_SEARCH = "tool_search";

/** What is searched; a `Tool` is one. */
export type Searchable = Pick<Tool, "name" | "server" | "serverName" | "title" | "description" | "input">;

const DEFAULT_LIMIT = 8;
const MAX_LIMIT = 20;
const MAX_QUERY = 500;
const MAX_WORDS = 30;
/** Characters of a description that are searched, and that are shown. */
const SEARCHED = 2000;
const SHOWN = 160;
/** Characters of the servers' names in the tool's own description. */
const MAX_SERVERS = 1200;

/** Weights of the places in which a word may stand. */
const WEIGHTS = { name: 4, server: 2, description: 1 } as const;

interface Indexed<T> {
  tool: T;
  /** Word → the heaviest place in which it stands. */
  words: ReadonlyMap<string, number>;
}

interface Index<T> {
  tools: Indexed<T>[];
  /** Word → in how many tools it stands. */
  frequency: ReadonlyMap<string, number>;
}

const indexes = new WeakMap<readonly Searchable[], Index<Searchable>>();

/** Those that fit, the best first; never more than 20. */
export function searchTools<T extends Searchable>(tools: readonly T[], query: string, limit = DEFAULT_LIMIT): T[] {
  const index = indexOf(tools);
  const wanted = [...new Set(wordsOf(query.slice(0, MAX_QUERY)))].slice(0, MAX_WORDS);
  const scored = index.tools.map((entry, at) => ({
    tool: entry.tool,
    at,
    score: scoreOf(entry, wanted, index, query),
  }));
  const fitting = scored.filter(({ score }) => score > 0);
  fitting.sort((a, b) => b.score - a.score || a.at - b.at);
  return fitting.slice(0, Math.max(1, Math.min(limit, MAX_LIMIT))).map(({ tool }) => tool);
}

function indexOf<T extends Searchable>(tools: readonly T[]): Index<T> {
  const known = indexes.get(tools);
  if (known) return known as Index<T>;
  const frequency = new Map<string, number>();
  const indexed = tools.map((tool) => {
    const words = new Map<string, number>();
    const add = (text: string, weight: number) => {
      for (const word of wordsOf(text)) words.set(word, Math.max(weight, words.get(word) ?? 0));
    };
    add(`${tool.serverName} ${tool.title ?? ""}`, WEIGHTS.name);
    add(tool.server, WEIGHTS.server);
    add(tool.description.slice(0, SEARCHED), WEIGHTS.description);
    add(Object.keys(tool.input.properties ?? {}).join(" "), WEIGHTS.description);
    for (const word of words.keys()) frequency.set(word, (frequency.get(word) ?? 0) + 1);
    return { tool, words };
  });
  const index = { tools: indexed, frequency };
  indexes.set(tools, index);
  return index;
}

/** Words in lower case; `createIssue`, `create_issue` and `create-issue` are two each. */
function wordsOf(text: string): string[] {
  const parted = text.replace(/(\p{Ll}|\d)(\p{Lu})/gu, "$1 $2").toLowerCase();
  return parted.match(/[\p{L}\p{N}]+/gu) ?? [];
}

function scoreOf(
  { tool, words }: Indexed<Searchable>,
  wanted: readonly string[],
  { tools, frequency }: Index<Searchable>,
  query: string,
): number {
  let score = tool.name === query.trim() || tool.serverName === query.trim() ? 1000 : 0;
  for (const word of wanted) {
    let best = 0;
    for (const [known, weight] of words) {
      const likeness = likenessOf(word, known);
      if (likeness === 0) continue;
      // A word that stands in every tool says nothing about any of them.
      const rarity = Math.log(1 + tools.length / (frequency.get(known) ?? 1));
      best = Math.max(best, likeness * weight * rarity);
    }
    score += best;
  }
  return score;
}

/** 1 for the same word; less for one that begins with the other ("issue", "issues"). */
function likenessOf(wanted: string, known: string): number {
  if (wanted === known) return 1;
  if (wanted.length >= 3 && known.startsWith(wanted)) return 0.6;
  return known.length >= 4 && wanted.startsWith(known) ? 0.5 : 0;
}

/** The answer as a model reads it. */
export function describeFound(found: readonly Searchable[], all: readonly Searchable[]): string {
  if (found.length === 0) return `No tool fits these words. ${serversOf(all)}`;
  const lines = found.map(({ name, description }) => `- ${name}: ${oneLine(visible(description), SHOWN)}`);
  return `${found.length} of ${all.length} tools fit; you can call them from now on:\n${lines.join("\n")}`;
}

/** Names of the tools that such an answer tells of. */
export function foundIn(text: string): string[] {
  return [...text.matchAll(/^- ([A-Za-z0-9_-]{1,64}): /gm)].map(([, name = ""]) => name);
}

function serversOf(tools: readonly Searchable[]): string {
  const counts = new Map<string, number>();
  for (const { server } of tools) counts.set(server, (counts.get(server) ?? 0) + 1);
  let text = "";
  let left = counts.size;
  for (const [server, count] of counts) {
    const next = `${text === "" ? "" : ", "}${oneLine(visible(server), 60)} (${count})`;
    if (text.length + next.length > MAX_SERVERS) break;
    text += next;
    left--;
  }
  return `The servers and how many tools they have: ${text}${left > 0 ? `, and ${left} more` : ""}.`;
}

/** The tool itself, over these tools. */
export function createToolSearch(tools: readonly Searchable[]): Tool {
  return {
    name: TOOL_SEARCH,
    server: "rotunda",
    serverName: TOOL_SEARCH,
    description: `Finds tools that you are not shown yet, by words that describe what they do. There are ${tools.length} of them; what is found can be called in your next step. ${serversOf(tools)}`,
    access: "read",
    repeatable: true,
    parallel: true,
    input: {
      type: "object",
      properties: {
        query: { type: "string", description: "Words of what the tool does, its name, or the server's name." },
        limit: { type: "integer", minimum: 1, maximum: MAX_LIMIT, description: `Default ${DEFAULT_LIMIT}.` },
      },
      required: ["query"],
      additionalProperties: false,
    },
    run: async (input) => answer(tools, input),
  };
}

function answer(tools: readonly Searchable[], { query, limit = DEFAULT_LIMIT }: JsonObject): ToolResult {
  if (typeof query !== "string" || query.trim() === "")
    return { text: '[Tool error: "query" must be a text of one word or more]', isError: true };
  if (typeof limit !== "number" || !Number.isInteger(limit))
    return { text: '[Tool error: "limit" must be a whole number]', isError: true };
  return { text: describeFound(searchTools(tools, query, limit), tools) };
}
