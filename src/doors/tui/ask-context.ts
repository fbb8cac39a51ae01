/**
 * What a person needs beside an approval: the file that a call would change as it is now, and whose question it is
 * where it is none of this screen's.
 *
 * Invariant: it only reads, and of files only those of the response's own directory, up to a bound.
 */
import type { App } from "../../types/app.ts";
import { type Origin, originsOf } from "../../util/origins.ts";
import { openInside, PathError } from "../../util/workspace-path.ts";
import type { Ask } from "./asks.ts";
import { changeOf, comparedWith, type FileNow } from "./change.ts";
import type { Session } from "./session.ts";

/** Bytes of a file up to which a change is shown against it. */
const LARGEST = 1_000_000;

export interface AskContext {
  file?: FileNow;
  origin?: Origin;
}

type ApprovalAsk = Extract<Ask, { kind: "approval" }>;

/** What has to be known beside a question; the line of its call shows the same change from now on. */
export async function contextFor(session: Session, ask: ApprovalAsk): Promise<AskContext> {
  const context = await contextOf(session.app, ask);
  const { tool, arguments: given, itemId } = ask.approval;
  const change = changeOf(tool, given);
  const block = session.running?.reader.calls.get(itemId);
  const diff = change && context.file ? comparedWith(change, tool, context.file).diff : "";
  if (block && diff !== "") block.view.display = diff;
  return context;
}

async function contextOf(app: App, ask: ApprovalAsk): Promise<AskContext> {
  const { responseId, tool, arguments: given } = ask.approval;
  const node = await app.store.node(responseId);
  const context: AskContext = {};
  const origin = ask.elsewhere ? (await originsOf(app, [responseId])).get(responseId) : undefined;
  if (origin) context.origin = origin;
  const change = changeOf(tool, given);
  if (node && change) context.file = await fileNow(node.workspace, change.path);
  return context;
}

async function fileNow(workspace: string, path: string): Promise<FileNow> {
  try {
    const { handle, stats } = await openInside(workspace, path);
    try {
      if (stats.size > LARGEST) return { why: "it exists, and is too large to compare" };
      const bytes = await handle.readFile();
      const text = bytes.toString("utf8");
      return Buffer.from(text, "utf8").equals(bytes) && !bytes.includes(0)
        ? { text }
        : { why: "it exists, and is no text" };
    } finally {
      await handle.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { missing: true };
    return { why: error instanceof PathError ? error.message : "what it holds cannot be read" };
  }
}
