/**
 * The tree of a conversation as rows: each answer on one line, branches drawn beside it.
 *
 * Invariant: it only reads, and all of it at once. A chain of only children stays at one indent, so that a long
 * conversation reads as a list and every step to the right is a branch.
 */

import type { App } from "../../types/app.ts";
import type { TreeNode } from "../../types/browsing.ts";
import type { ResponseNode } from "../../types/response.ts";
import { isLeft } from "./turn.ts";

export interface TreeRow {
  node: ResponseNode;
  /** What is drawn before it: │ ├ └ and blanks. */
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

interface Pending {
  of: TreeNode;
  /** Drawn before the children of this node. */
  indent: string;
  branch: string;
  subAgent: boolean;
}

/** The tree that holds a response. */
export async function treeRows(app: App, id: string): Promise<TreeRows> {
  const tree = await (await app.store.browsing()).tree(id, { limit: MOST });
  const { nodes = [], truncated = false } = tree ?? {};
  const known = new Set(nodes.map(({ node }) => node.id));
  const below = Map.groupBy(nodes, ({ node }) => aboveOf(node, known));
  const rows: TreeRow[] = [];
  // What stands above the others was left out where there are very many.
  const pending = inOrder(below.get(undefined) ?? [], "").reverse();
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { of, indent, branch, subAgent } = next;
    rows.push({ node: of.node, branch, subAgent, left: await isLeft(app, of.node), question: questionOf(of) });
    pending.push(...inOrder(below.get(of.node.id) ?? [], indent).reverse());
  }
  return { rows, truncated };
}

function aboveOf({ previousResponseId, caller }: ResponseNode, known: ReadonlySet<string>): string | undefined {
  const above = previousResponseId ?? caller?.responseId;
  return above !== undefined && known.has(above) ? above : undefined;
}

/** Sub-agents first, then the answers that follow; a single one goes straight on. */
function inOrder(nodes: readonly TreeNode[], indent: string): Pending[] {
  const answers = nodes.filter(({ node }) => node.caller === null);
  const many = answers.length > 1;
  const helpers = nodes
    .filter(({ node }) => node.caller !== null)
    .map((of): Pending => {
      const line = answers.length > 0 ? "│  " : "   ";
      return { of, indent: `${indent}${line}   `, branch: `${indent}${line}╰╴`, subAgent: true };
    });
  return [
    ...helpers,
    ...answers.map((of, index): Pending => {
      const last = index === answers.length - 1;
      if (!many) return { of, indent, branch: indent, subAgent: false };
      const inner = `${indent}${last ? "   " : "│  "}`;
      return { of, indent: inner, branch: `${indent}${last ? "╰─╴" : "├─╴"}`, subAgent: false };
    }),
  ];
}

function questionOf({ node, prompt }: TreeNode): string {
  return node.settings.compact ? "≡ summed up" : (prompt ?? "(no text)");
}
