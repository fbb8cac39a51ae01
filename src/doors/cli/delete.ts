/**
 * `rotunda delete`: responses and conversations go, and with them what was said in them.
 *
 * Invariant: nothing goes before all that was named is found, has ended, and a person or `--yes` has agreed. A content
 * that something else goes on from stays as long as that does.
 */
import { createInterface } from "node:readline/promises";
import type { App } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import type { Conversation, ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { counted, oneLine, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import { named } from "./named.ts";
import { whenText } from "./outline.ts";

export interface DeleteFlags {
  yes?: boolean;
  json?: boolean;
}

interface Doomed {
  conversations: Map<string, Conversation>;
  /** By id: those that were named, and those of the conversations. */
  responses: Map<string, ResponseNode>;
}

const PAGE = 500;

export async function deleteNamed(
  context: CommandContext,
  words: readonly string[],
  flags: DeleteFlags,
): Promise<number> {
  const app = await context.app();
  const doomed: Doomed = { conversations: new Map(), responses: new Map() };
  const lines: string[] = [];
  for (const word of words) lines.push(await find(app, word, doomed));
  for (const node of doomed.responses.values()) refuseRunning(node);
  const { out, err } = context.streams;
  for (const line of lines) err(line);
  err(`${await consequence(app, doomed)}\n`);
  if (!flags.yes && !(await agreed(context, words))) {
    err("Nothing was deleted.\n");
    return 1;
  }
  await carryOut(app, doomed);
  const [responses, conversations] = [[...doomed.responses.keys()], [...doomed.conversations.keys()]];
  if (flags.json) out(`${JSON.stringify({ responses, conversations })}\n`);
  else err(`Deleted: ${countsOf(responses.length, conversations.length)}.\n`);
  return 0;
}

function countsOf(responses: number, conversations: number): string {
  const counts = [counted(responses, "response")];
  if (conversations > 0) counts.push(counted(conversations, "conversation"));
  return counts.join(" and ");
}

/** Adds what a word names; resolves with a line that says what it is. */
async function find(app: App, word: string, { conversations, responses }: Doomed): Promise<string> {
  const one = await named(app, word);
  if ("response" in one) {
    const node = await app.store.node(one.response);
    if (!node) throw new RotundaError("not_found", `there is no response ${one.response}`);
    responses.set(node.id, node);
    const said = (await (await app.store.browsing()).excerpts([node.id])).get(node.id)?.prompt ?? "";
    const when = whenText(node.createdAt, Date.now());
    return visible(`response ${shortId(node.id)}  ${node.profile}  ${node.model}  ${when}  "${oneLine(said, 60)}"\n`);
  }
  const { conversation } = one;
  conversations.set(conversation.id, conversation);
  const own = await responsesOf(app, conversation.id);
  for (const node of own) responses.set(node.id, node);
  const title = conversation.title === "" ? "" : `  "${oneLine(conversation.title, 60)}"`;
  const count = own.length === 0 ? "only a pointer: what was said is another's" : counted(own.length, "response");
  return visible(`conversation ${oneLine(conversation.name ?? conversation.id, 60)}  ${count}${title}\n`);
}

/** Its sub-agents' go with those that called them. */
async function responsesOf(app: App, conversationId: string): Promise<ResponseNode[]> {
  const all: ResponseNode[] = [];
  for (let before: string | undefined; ; ) {
    const filter = { conversationId, limit: PAGE, ...(before !== undefined && { before }) };
    const page: ResponseNode[] = await app.store.list(filter);
    all.push(...page.filter(({ caller }) => caller === null));
    before = page.at(-1)?.id;
    if (page.length < PAGE) return all;
  }
}

function refuseRunning({ id, status, endedAt }: ResponseNode): void {
  if (endedAt !== null) return;
  throw new RotundaError("response_not_ended", `response ${id} has not ended (it is ${status})`, {
    remedy: `End it first: rotunda cancel ${shortId(id)}`,
  });
}

/** What becomes of the content. */
async function consequence(app: App, { responses }: Doomed): Promise<string> {
  if (responses.size === 0) return "Nothing that was said is erased.";
  let needed = 0;
  for (const id of responses.keys()) {
    const below = await app.store.children(id);
    if (below.some((child) => child.caller === null && !responses.has(child.id))) needed++;
  }
  const all = "What was said is to be erased, in answers, logs and outputs; ids and hashes stay. It cannot be undone.";
  if (needed === 0) return all;
  const those = responses.size === 1 ? "it" : `${needed} of them`;
  return `${all}\nSomething else goes on from ${those}: what that needs stays until it is deleted too.`;
}

async function agreed(context: CommandContext, words: readonly string[]): Promise<boolean> {
  if (!context.interactive) {
    throw new RotundaError("usage", "nobody is here to agree", {
      remedy: `rotunda delete ${words.map((word) => (/^[\w-]+$/.test(word) ? word : JSON.stringify(word))).join(" ")} --yes`,
    });
  }
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const closed = new Promise<string>((resolve) => lines.once("close", () => resolve("")));
    lines.once("SIGINT", () => lines.close());
    return /^y(?:es)?$/i.test((await Promise.race([lines.question("Delete? [y/N] "), closed])).trim());
  } finally {
    lines.close();
  }
}

async function carryOut(app: App, { responses, conversations }: Doomed): Promise<void> {
  const by = { who: "cli", door: "cli", at: Date.now() };
  // The newest first, so that each content goes with it and no pointer moves more often than it must.
  const newest = [...responses.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
  for (const { id } of newest) {
    // A sub-agent's may have gone with its caller's.
    if (!(await app.store.node(id))) continue;
    await app.engine.delete(id);
    await app.store.audit({ action: "delete", ...by, responseId: id, details: {} });
  }
  for (const id of conversations.keys()) {
    await app.store.removeConversation(id);
    await app.store.audit({ action: "delete", ...by, responseId: null, details: { conversation: id } });
  }
}
