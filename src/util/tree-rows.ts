/**
 * The rows of a tree of responses: one for each, branches drawn beside them.
 *
 * Invariant: what goes straight on stays at one indent, so that a long conversation reads as a list, and a step to the
 * right is always a branch: how far each one reaches is drawn.
 */
import type { TreeNode } from "../types/browsing.ts";
import type { ResponseNode } from "../types/response.ts";

export interface DrawnRow {
  of: TreeNode;
  /** What is drawn before it: │ ├ ╰ and blanks. */
  branch: string;
  subAgent: boolean;
  /** What it goes on from, or who called it, is not among the rows. */
  top: boolean;
}

interface Pending extends DrawnRow {
  /** Drawn before the children of this node. */
  indent: string;
}

/** In the order in which they are drawn. The nodes stand in the order in which they were made. */
export function drawnRows(nodes: readonly TreeNode[]): DrawnRow[] {
  const known = new Set(nodes.map(({ node }) => node.id));
  const below = Map.groupBy(nodes, ({ node }) => aboveOf(node, known));
  const rows: DrawnRow[] = [];
  // What stands above the others was left out where there are very many.
  const pending = inOrder(below.get(undefined) ?? [], "", true).reverse();
  for (let next = pending.pop(); next; next = pending.pop()) {
    const { indent, ...row } = next;
    rows.push(row);
    pending.push(...inOrder(below.get(row.of.node.id) ?? [], indent, false).reverse());
  }
  return rows;
}

function aboveOf({ previousResponseId, caller }: ResponseNode, known: ReadonlySet<string>): string | undefined {
  const above = previousResponseId ?? caller?.responseId;
  return above !== undefined && known.has(above) ? above : undefined;
}

/** Sub-agents first, then the answers that follow; a single one goes straight on. */
function inOrder(nodes: readonly TreeNode[], indent: string, top: boolean): Pending[] {
  const answers = nodes.filter(({ node }) => node.caller === null);
  const many = answers.length > 1;
  const helpers = nodes
    .filter(({ node }) => node.caller !== null)
    .map((of): Pending => {
      const line = answers.length > 0 ? "│  " : "   ";
      return { of, indent: `${indent}${line}   `, branch: `${indent}${line}╰╴`, subAgent: true, top };
    });
  return [
    ...helpers,
    ...answers.map((of, index): Pending => {
      const last = index === answers.length - 1;
      if (!many) return { of, indent, branch: indent, subAgent: false, top };
      const inner = `${indent}${last ? "   " : "│  "}`;
      return { of, indent: inner, branch: `${indent}${last ? "╰─╴" : "├─╴"}`, subAgent: false, top };
    }),
  ];
}
