/**
 * The tree of a conversation as rows: each answer on one line, branches drawn beside it.
 *
 * Invariant: it only reads. A chain of only children stays at one indent, so that a long conversation reads as a list
 * and every step to the right is a branch; what was said is looked up for the rows that are looked at.
 */
import type { App } from "../../types/app.ts";
import type { ResponseNode } from "../../types/response.ts";
import { outermost, rootOf } from "../../util/outermost.ts";
import { isHeld } from "../../util/process-name.ts";
import { textOf } from "./reader.ts";

export interface TreeRow {
  node: ResponseNode;
  /** What is drawn before it: │ ├ └ and blanks. */
  branch: string;
  subAgent: boolean;
  /** It has not ended, and no process has it. */
  left: boolean;
  /** Undefined: nobody has looked yet. */
  question: string | undefined;
}

/** Rows of a tree that are shown. */
const MOST = 5_000;

interface Pending {
  node: ResponseNode;
  /** Drawn before the children of this node. */
  indent: string;
  branch: string;
  subAgent: boolean;
}

/** The whole tree that holds a response, in the order in which it is drawn. */
export async function treeRows(app: App, id: string): Promise<TreeRow[]> {
  const root = await app.store.node(await rootOf(app, await outermost(app, id)));
  if (!root) return [];
  const rows: TreeRow[] = [];
  const pending: Pending[] = [{ node: root, indent: "", branch: "", subAgent: false }];
  for (let next = pending.pop(); next && rows.length < MOST; next = pending.pop()) {
    const { node, branch, subAgent } = next;
    const left = node.status === "in_progress" && !isHeld(await app.store.leaseOf(node.id));
    rows.push({ node, branch, subAgent, left, question: undefined });
    pending.push(...(await below(app, next)).reverse());
  }
  return rows;
}

/** Sub-agents first, then the answers that follow; a single one goes straight on. */
async function below(app: App, { node, indent }: Pending): Promise<Pending[]> {
  const [children, agents] = await Promise.all([
    app.store.children(node.id),
    app.store.list({ callerResponseId: node.id, limit: 200 }),
  ]);
  const answers = children.sort((a, b) => a.createdAt - b.createdAt);
  const many = answers.length > 1;
  const helpers = agents
    .sort((a, b) => a.createdAt - b.createdAt)
    .map((agent): Pending => {
      const line = answers.length > 0 ? "│  " : "   ";
      return { node: agent, indent: `${indent}${line}   `, branch: `${indent}${line}╰╴`, subAgent: true };
    });
  return [
    ...helpers,
    ...answers.map((child, index): Pending => {
      const last = index === answers.length - 1;
      if (!many) return { node: child, indent, branch: indent, subAgent: false };
      const inner = `${indent}${last ? "   " : "│  "}`;
      return { node: child, indent: inner, branch: `${indent}${last ? "╰─╴" : "├─╴"}`, subAgent: false };
    }),
  ];
}

/** What a response was asked. */
export async function questionOf(app: App, id: string): Promise<string> {
  const stored = await app.store.get(id).catch(() => undefined);
  if (!stored) return "(it cannot be read)";
  if (stored.node.settings.compact) return "≡ summed up";
  const texts = stored.entries.flatMap(({ side, item }) =>
    side === "input" && item.type === "message" ? [textOf(item)] : [],
  );
  return texts.join(" ") || "(no text)";
}
