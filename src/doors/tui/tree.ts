/**
 * The tree of a conversation as rows: each answer on one line, branches drawn beside it.
 *
 * Invariant: it only reads, and all of it at once.
 */

import type { App } from "../../types/app.ts";
import type { TreeNode } from "../../types/browsing.ts";
import type { ResponseNode } from "../../types/response.ts";
import { drawnRows } from "../../util/tree-rows.ts";
import { isLeft } from "./turn.ts";

export interface TreeRow {
  node: ResponseNode;
  /** What is drawn before it: │ ├ ╰ and blanks. */
  branch: string;
  subAgent: boolean;
  /** It has not ended, and no process has it. */
  left: boolean;
  /** The beginning of what it was asked. */
  question: string;
}

export interface TreeRows {
  /** In the order in which they are drawn. */
  rows: TreeRow[];
  /** There are more: these are the nearest to the response that was asked for, and the newest. */
  truncated: boolean;
}

/** Rows of a tree that are shown. */
const MOST = 5_000;

/** The tree that holds a response. */
export async function treeRows(app: App, id: string): Promise<TreeRows> {
  const tree = await (await app.store.browsing()).tree(id, { limit: MOST });
  const { nodes = [], truncated = false } = tree ?? {};
  const rows: TreeRow[] = [];
  for (const { of, branch, subAgent } of drawnRows(nodes))
    rows.push({ node: of.node, branch, subAgent, left: await isLeft(app, of.node), question: questionOf(of) });
  return { rows, truncated };
}

function questionOf({ node, prompt }: TreeNode): string {
  return node.settings.compact ? "≡ summed up" : (prompt ?? "(no text)");
}
