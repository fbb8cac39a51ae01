/** The tree as an outline, as `rotunda log` and `/tree` show it. */
import type { App } from "../../types/app.ts";
import type { ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { isHeld } from "../../util/process-name.ts";
import { oneLine, visible } from "../../util/text.ts";

interface Line {
  node: ResponseNode;
  depth: number;
  subAgent: boolean;
  question: string;
  /** It has not ended, and the process that ran it is gone. */
  interrupted: boolean;
}

const MAXIMUM = 2_000;

/** The whole tree that holds a response: one line for each node, `*` at the response itself. */
export async function outline(app: App, responseId: string, here = responseId): Promise<string> {
  return (await treeLines(app, await rootOf(app, responseId))).map((line) => lineText(line, here)).join("");
}

/** The topmost response above this one; one that was deleted is above nothing. */
export async function rootOf(app: App, id: string): Promise<string> {
  let root = id;
  for (let next: string | undefined = id; next !== undefined; ) {
    const node: ResponseNode | undefined = await app.store.node(next);
    if (!node) return root;
    root = next;
    next = node.previousResponseId ?? node.caller?.responseId;
  }
  return root;
}

/** Depth first; below the root a chain of only children stays at one indent, so that a long conversation reads as a list. */
export async function treeLines(app: App, root: string): Promise<Line[]> {
  const lines: Line[] = [];
  const pending: { id: string; depth: number; subAgent: boolean }[] = [{ id: root, depth: 0, subAgent: false }];
  while (pending.length > 0 && lines.length < MAXIMUM) {
    const next = pending.pop();
    const node = next && (await app.store.node(next.id));
    if (!next || !node) continue;
    lines.push({
      ...next,
      node,
      question: await questionOf(app, node.id),
      interrupted: await isInterrupted(app, node),
    });
    const children = await app.store.children(node.id);
    const deeper = children.length > 1 || next.id === root ? next.depth + 1 : next.depth;
    for (const child of children.reverse()) pending.push({ id: child.id, depth: deeper, subAgent: false });
    const agents = await app.store.list({ callerResponseId: node.id, limit: 1_000 });
    for (const agent of agents) pending.push({ id: agent.id, depth: next.depth + 2, subAgent: true });
  }
  return lines;
}

async function isInterrupted(app: App, node: ResponseNode): Promise<boolean> {
  if (node.status !== "in_progress") return false;
  return !isHeld(await app.store.leaseOf(node.id));
}

async function questionOf(app: App, id: string): Promise<string> {
  try {
    const { input } = await app.engine.get(id);
    return input
      .flatMap((item) => (item.type === "message" ? item.content : []))
      .map((part) => ("text" in part ? part.text : ""))
      .join(" ");
  } catch (error) {
    return `(${error instanceof Error ? error.message : String(error)})`;
  }
}

function lineText({ node, depth, subAgent, question, interrupted }: Line, here: string): string {
  const mark = node.id === here ? "*" : " ";
  const ended = node.incompleteReason ? `${node.status}: ${node.incompleteReason}` : node.status;
  const state = interrupted ? "interrupted (rotunda resume)" : ended;
  const who = subAgent ? `↳ ${node.profile}` : node.profile;
  const text = `"${visible(oneLine(question, 60))}"`;
  const names = visible(`${who}  ${node.model}`);
  return `${mark} ${"  ".repeat(depth)}${shortId(node.id)}  ${names}  ${state}  ${text}\n`;
}
