/** The tree as an outline, as `rotunda log` and `/tree` show it. */
import type { App } from "../../types/app.ts";
import type { ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { rootOf } from "../../util/outermost.ts";
import { isHeld } from "../../util/process-name.ts";
import { counted, oneLine, visible } from "../../util/text.ts";

interface Line {
  node: ResponseNode;
  depth: number;
  subAgent: boolean;
  question: string;
  /** Items that its compactions stand for. */
  compacted: number;
  /** It has not ended, and the process that ran it is gone. */
  interrupted: boolean;
}

const MAXIMUM = 2_000;

/** The whole tree that holds a response: one line for each node, `*` at the response itself. */
export async function outline(app: App, responseId: string, here = responseId): Promise<string> {
  const root = await rootOf(app, responseId);
  const lines = await treeLines(app, root);
  const { tokens, cost } = await app.store.usedBelow(root);
  const total = lines.length > 1 && tokens > 0 ? `    in all: ${usedText({ total_tokens: tokens, cost })}\n` : "";
  return lines.map((line) => lineText(line, here, app.workspace)).join("") + total;
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
      ...(await saidIn(app, node.id)),
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

function lineText(
  { node, depth, subAgent, question, compacted, interrupted }: Line,
  here: string,
  workspace: string,
): string {
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
  const where = depth > 0 || node.workspace === workspace ? "" : `  in ${visible(node.workspace)}`;
  return `${mark} ${"  ".repeat(depth)}${shortId(node.id)}  ${names}  ${state}  ${text}${used}${where}\n`;
}
