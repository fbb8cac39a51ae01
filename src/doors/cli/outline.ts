/** The tree as an outline, as `rotunda log` and `/tree` show it. Invariant: it only reads. */
import type { App } from "../../types/app.ts";
import type { TreeView } from "../../types/browsing.ts";
import type { ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { isHeld } from "../../util/process-name.ts";
import { counted, oneLine, visible } from "../../util/text.ts";
import { drawnRows } from "../../util/tree-rows.ts";

interface Line {
  node: ResponseNode;
  /** What is drawn before it. */
  branch: string;
  /** What it goes on from is not shown. */
  top: boolean;
  subAgent: boolean;
  question: string;
  /** Items that its compactions stand for. */
  compacted: number;
  /** It has not ended, and the process that ran it is gone. */
  interrupted: boolean;
}

/** Responses of a tree that are shown. */
const MAXIMUM = 2_000;
/** Conversations of a tree that are looked up for their names, the newest first. */
const NAMED = 20;

/** The tree that holds a response. Undefined: there is no such response. */
export async function treeOf(app: App, responseId: string): Promise<TreeView | undefined> {
  return (await app.store.browsing()).tree(responseId, { limit: MAXIMUM });
}

/** The whole tree that holds a response: one line for each node, `*` at the response itself. */
export async function outline(app: App, responseId: string, here = responseId): Promise<string> {
  const tree = await treeOf(app, responseId);
  return tree ? treeText(app, tree, here) : "";
}

/** One line for each response, `*` at the one that is `here`; the first says when it was last spoken in, and its name. */
export async function treeText(app: App, tree: TreeView, here: string): Promise<string> {
  const lines = await treeLines(app, tree);
  const [first] = lines;
  if (!first) return "";
  const total = lines.length > 1 ? await totalText(app, tree.root) : "";
  const more = tree.truncated ? "    there are more: these are the nearest and the newest\n" : "";
  const about = `  ${whenText(lastActive(tree), Date.now())}${await namesOf(app, tree, first.question)}`;
  // Below a root everything stands to the right of it, so that it is seen where a tree begins.
  const inset = lines.filter(({ top }) => top).length === 1 ? "  " : "";
  const texts = lines.map((line, index) => {
    const ofTree = index === 0 ? about : "";
    return lineText(line, { here, workspace: app.workspace, inset: line.top ? "" : inset, about: ofTree });
  });
  return texts.join("") + more + total;
}

async function totalText({ store }: App, root: string): Promise<string> {
  const { tokens, cost } = await store.usedBelow(root);
  return tokens > 0 ? `    in all: ${usedText({ total_tokens: tokens, cost })}\n` : "";
}

/** Depth first, as it is drawn. */
export async function treeLines(app: App, { nodes }: TreeView): Promise<Line[]> {
  const lines: Line[] = [];
  for (const { of, ...drawn } of drawnRows(nodes)) {
    const { node } = of;
    lines.push({ ...drawn, node, ...(await saidIn(app, node.id)), interrupted: await isInterrupted(app, node) });
  }
  return lines;
}

/** It was begun, and the process that ran it is gone. */
export async function isInterrupted(app: App, node: ResponseNode): Promise<boolean> {
  if (node.status !== "in_progress") return false;
  return !isHeld(await app.store.leaseOf(node.id));
}

/** When something was last said in it, in milliseconds since the epoch. */
export function lastActive({ nodes }: TreeView): number {
  return nodes.reduce((last, { node }) => Math.max(last, node.endedAt ?? node.createdAt), 0);
}

/** "just now", "5 min ago", "3 h ago", and from a day on the date (UTC). */
export function whenText(at: number, now: number): string {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  return new Date(at).toISOString().slice(0, 10);
}

/** The names of its conversations; of those without a name a title that somebody gave them. */
async function namesOf({ store }: App, { nodes }: TreeView, question: string): Promise<string> {
  const ids = new Set(nodes.flatMap(({ node }) => node.conversationId ?? []).reverse());
  const names = new Set<string>();
  for (const id of [...ids].slice(0, NAMED)) {
    const conversation = await store.conversation(id);
    if (!conversation) continue;
    const title = oneLine(conversation.title, 60);
    const isOwn = title !== "" && !question.replace(/\s+/g, " ").includes(title.replace(/…$/, ""));
    const name = conversation.name ?? (isOwn && ids.size === 1 ? title : undefined);
    if (name !== undefined) names.add(oneLine(name, 60));
  }
  return names.size === 0 ? "" : visible(`  [${[...names].reverse().join(", ")}]`);
}

async function saidIn(app: App, id: string): Promise<Pick<Line, "question" | "compacted">> {
  try {
    const { input, output } = await app.engine.get(id);
    const question = input
      .flatMap((item) => (item.type === "message" ? item.content : []))
      .map((part) => ("text" in part ? part.text : ""))
      .join(" ");
    const compacted = output.map((item) => (item.type === "compaction" ? (item.covers?.items ?? 0) : 0));
    return { question, compacted: Math.max(0, ...compacted) };
  } catch (error) {
    return { question: `(${error instanceof Error ? error.message : String(error)})`, compacted: 0 };
  }
}

/** "1,234 tokens, $0.0123". */
export function usedText({ total_tokens, cost }: { total_tokens: number; cost?: number }): string {
  const money = cost === undefined || cost === 0 ? "" : `, $${Number(cost.toPrecision(4))}`;
  return `${counted(total_tokens, "token")}${money}`;
}

interface Setting {
  here: string;
  workspace: string;
  inset: string;
  /** Of the whole tree. */
  about: string;
}

function lineText(line: Line, { here, workspace, inset, about }: Setting): string {
  const { node, branch, top, subAgent, question, compacted, interrupted } = line;
  const mark = node.id === here ? "*" : " ";
  const ended = node.incompleteReason ? `${node.status}: ${node.incompleteReason}` : node.status;
  const state = interrupted ? "interrupted (rotunda resume)" : ended;
  const who = subAgent ? `↳ ${node.profile}` : node.profile;
  const summed = compacted > 0 ? `  ≡ ${counted(compacted, "item")} summed up` : "";
  const said = node.settings.compact ? "(compact)" : `"${visible(oneLine(question, 60))}"`;
  const text = `${said}${summed}`;
  const used = node.endedAt === null || node.usage.total_tokens === 0 ? "" : `  (${usedText(node.usage)})`;
  const names = visible(`${who}  ${node.model}`);
  // What else stands in its tree is mostly of the same directory.
  const where = !top || node.workspace === workspace ? "" : `  in ${visible(node.workspace)}`;
  return `${mark} ${inset}${branch}${shortId(node.id)}  ${names}  ${state}  ${text}${used}${about}${where}\n`;
}
