/**
 * Browsing: what a person who looks around reads of the store: a tree as a picture, everything said, what was used.
 *
 * Invariant: nothing is changed, every answer is bounded however much there is, and no content is checked against its
 * hash: whoever goes on from a response reads it by its id.
 */
import type { Owner, ResponseNode } from "./response.ts";

/** On one line, at most 200 characters. */
export interface Excerpts {
  /** The beginning of what a person said last. */
  prompt: string | null;
  /** The beginning of what it answered at last. */
  answer: string | null;
}

export interface TreeNode extends Excerpts {
  node: ResponseNode;
}

export interface TreeView {
  /** Where the tree begins. */
  root: string;
  /** In the order in which they were made. */
  nodes: TreeNode[];
  /** There are more: those nearest to the response asked for are given, above it, and the newest. */
  truncated: boolean;
}

export interface Search {
  /** All of them must stand in one item; case does not matter. */
  words: readonly string[];
  /** Reasoning, tool calls and their outputs as well. */
  all: boolean;
  limit: number;
  /** Where the last page ended. */
  before?: string;
  owner?: Owner;
  /** After so many it says how far it has come. */
  milliseconds: number;
}

export interface FoundItem {
  responseId: string;
  conversationId: string | null;
  itemId: string;
  role: "user" | "assistant" | "reasoning" | "tool";
  /** One line around the first word, at most 240 characters. */
  excerpt: string;
  /** Of the response, in milliseconds since the epoch. */
  createdAt: number;
}

export interface UsageSum {
  /** UTC, `2030-01-31`. */
  day: string;
  model: string;
  profile: string;
  responses: number;
  inputTokens: number;
  outputTokens: number;
  /** US dollars, as far as they are known. */
  cost: number;
}

/** What a doctor tells of a database. */
export interface StoreFacts {
  /** "Postgres 15", "SQLite 3.50.1". */
  server: string;
  /** Those that were not deleted. */
  responses: number;
  /** Of these: accepted, and nobody has begun with them. */
  queued: number;
}

export interface Browsing {
  facts(): Promise<StoreFacts>;
  /** Deleted responses whose id is, begins or ends so (ten at most), and when they were, in milliseconds since the epoch. */
  deleted(part: string): Promise<{ id: string; at: number }[]>;
  /** The whole tree that a response stands in, sub-agents included. Undefined: there is no such response. */
  tree(id: string, options: { limit: number; owner?: Owner }): Promise<TreeView | undefined>;
  /** Of responses that there are, by their ids. */
  excerpts(ids: readonly string[]): Promise<Map<string, Excerpts>>;
  /** The newest first. `next` is null where everything was looked through. Throws `usage` where `before` is none of ours. */
  search(search: Search): Promise<{ found: FoundItem[]; next: string | null }>;
  /** Of responses made from `from` on and before `to`. `truncated`: there was not the time to look at all of them. */
  usage(options: {
    from: number;
    to: number;
    owner?: Owner;
    milliseconds: number;
  }): Promise<{ sums: UsageSum[]; truncated: boolean }>;
}
