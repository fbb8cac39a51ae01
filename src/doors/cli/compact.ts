/** `rotunda compact`: a conversation's past as one summary, from which it goes on. */
import type { App } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import type { CompactionItem } from "../../types/item.ts";
import { LOCAL, type ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { counted, visible } from "../../util/text.ts";
import { type CommandContext, interruptible } from "./context.ts";

export interface CompactFlags {
  focus?: string;
  model?: string;
  json?: boolean;
}

/** Without a name: this directory's latest conversation. */
export async function compact(context: CommandContext, name: string | undefined, flags: CompactFlags): Promise<number> {
  const app = await context.app();
  const conversation = await conversationOf(context, app, name);
  const interrupt = interruptible(app);
  try {
    const made = await compactFrom(context, app, { conversation: conversation.id }, flags, interrupt.signal);
    if (interrupt.terminated()) return 143;
    return await tell(context, app, made, flags.json === true);
  } finally {
    interrupt.dispose();
  }
}

/** Sums up the path of a conversation or of a response; resolves when that has ended. */
export async function compactFrom(
  context: CommandContext,
  app: App,
  from: { conversation: string } | { previousResponseId: string },
  { focus, model }: CompactFlags,
  signal?: AbortSignal,
): Promise<ResponseNode> {
  const head =
    "conversation" in from ? (await app.store.conversation(from.conversation))?.head : from.previousResponseId;
  const before = head ? await app.store.node(head) : undefined;
  const { id } = await app.engine.start({
    input: [],
    ...from,
    workspace: before?.workspace ?? context.workspace,
    door: "cli",
    settings: { compact: focus === undefined ? {} : { focus } },
    ...(before && { profile: before.profile, model: before.model }),
    ...(model !== undefined && { model }),
  });
  const cancel = () => void app.engine.cancel(id, "cancelled by the user").catch(() => undefined);
  signal?.addEventListener("abort", cancel, { once: true });
  try {
    return await app.engine.wait(id);
  } finally {
    signal?.removeEventListener("abort", cancel);
  }
}

async function conversationOf(context: CommandContext, app: App, name: string | undefined) {
  if (name === undefined) {
    const [latest] = await app.store.conversations({ limit: 1, owner: LOCAL, workspace: context.workspace });
    if (!latest) throw new RotundaError("not_found", "there is no conversation in this directory");
    return latest;
  }
  const known =
    (await app.store.conversation(name)) ??
    (await app.store.conversation(await app.engine.resolveId(name, "conversation").catch(() => name)));
  if (!known) throw new RotundaError("not_found", `there is no conversation ${name}`);
  return known;
}

/** What was left out, and the summary. Resolves with the exit code. */
async function tell(context: CommandContext, app: App, node: ResponseNode, json: boolean): Promise<number> {
  const { out, err, errStyle } = context.streams;
  const { output } = await app.engine.get(node.id);
  const item = output.find((one): one is CompactionItem => one.type === "compaction");
  if (json) {
    const { id, conversationId, status, usage, error } = node;
    const result = { response_id: id, conversation_id: conversationId, status, usage, covers: item?.covers ?? null };
    out(`${JSON.stringify({ ...result, summary: item?.summary ?? null, ...(error && { error }) })}\n`);
  } else if (item) {
    out(`${visible(item.summary)}\n`);
    const items = item.covers?.items ?? 0;
    err(
      errStyle.dim(
        `${counted(items, "item")} summed up; ${items === 1 ? "it stays" : "they stay"} in the tree. Response ID: ${shortId(node.id)}\n`,
      ),
    );
  } else if (node.status === "completed") err("There is nothing to sum up.\n");
  if (node.error && !json) err(`${errStyle.red("error:")} ${visible(node.error.message)} [${node.error.code}]\n`);
  if (node.status === "completed") return 0;
  return node.status === "cancelled" ? 130 : 1;
}
