/** `rotunda prune` and `rotunda keep`: how long what is kept. */
import { RotundaError } from "../../types/error.ts";
import { durationOf, keepPattern } from "../../util/duration.ts";
import { visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

export interface PruneFlags {
  olderThan?: string;
  dryRun?: boolean;
  json?: boolean;
}

export async function pruneNow(context: CommandContext, flags: PruneFlags): Promise<number> {
  const olderThan = flags.olderThan === undefined ? undefined : durationOf(flags.olderThan);
  if (flags.olderThan !== undefined && olderThan === undefined) throw noTime(flags.olderThan);
  const app = await context.app();
  const { out, err } = context.streams;
  const pruned = await app.engine.upkeep.prune({
    dryRun: flags.dryRun === true,
    ...(olderThan !== undefined && { olderThan }),
    progress: (count) => {
      if (count > 0) err(`${count} …\n`);
    },
  });
  const did = flags.dryRun ? "Would be deleted" : "Deleted";
  if (flags.json) out(`${JSON.stringify(pruned)}\n`);
  else err(`${did}: ${pruned.deleted} responses, ${pruned.conversations} conversations.\n`);
  return 0;
}

/** The time stands in the conversation's metadata, so that every door can set it. */
export async function keepConversation(context: CommandContext, conversation: string, time: string): Promise<number> {
  if (!keepPattern.test(time)) throw noTime(time);
  const app = await context.app();
  const named = await app.store.conversation(conversation);
  const found = named ?? (await app.store.conversation(await app.engine.resolveId(conversation, "conversation")));
  if (!found) throw new RotundaError("not_found", `there is no conversation ${conversation}`);
  await app.store.saveConversation({ ...found, metadata: { ...found.metadata, keep: time } });
  context.streams.err(`${visible(found.name ?? found.id)} is kept ${time === "forever" ? time : `for ${time}`}.\n`);
  return 0;
}

function noTime(text: string): RotundaError {
  return new RotundaError("usage", `${JSON.stringify(text.slice(0, 40))} is no length of time`, {
    remedy: "Write a number and m, h, d, w or y: 30d",
  });
}
