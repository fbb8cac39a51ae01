/** `rotunda prune` and `rotunda keep`: how long what is kept. */
import type { App } from "../../types/app.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import { delayOf, keepPattern } from "../../util/duration.ts";
import { isIdPart } from "../../util/ids.ts";
import { counted, visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

export interface PruneFlags {
  olderThan?: string;
  dryRun?: boolean;
  json?: boolean;
}

export async function pruneNow(context: CommandContext, flags: PruneFlags): Promise<number> {
  const olderThan = flags.olderThan === undefined ? undefined : delayOf(flags.olderThan);
  if (flags.olderThan !== undefined && olderThan === undefined) throw noTime(flags.olderThan, "s, ");
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
  else err(`${did}: ${counted(pruned.deleted, "response")}, ${counted(pruned.conversations, "conversation")}.\n`);
  return 0;
}

/** The time stands in the conversation's metadata, so that every door can set it. */
export async function keepConversation(context: CommandContext, conversation: string, time: string): Promise<number> {
  if (!keepPattern.test(time)) throw noTime(time);
  const app = await context.app();
  const named = await app.store.conversation(conversation);
  const id = named || !isIdPart(conversation) ? undefined : await idOf(app, conversation);
  const found = named ?? (id === undefined ? undefined : await app.store.conversation(id));
  if (!found) throw new RotundaError("not_found", `there is no conversation ${conversation.slice(0, 100)}`);
  await app.store.saveConversation({ ...found, metadata: { ...found.metadata, keep: time } });
  context.streams.err(`${visible(found.name ?? found.id)} is kept ${time === "forever" ? time : `for ${time}`}.\n`);
  return 0;
}

/** A name may read like a part of an id: then it is the name that there is not. */
async function idOf(app: App, part: string): Promise<string | undefined> {
  return app.engine.resolveId(part, "conversation").catch((thrown: unknown) => {
    if (toRotundaError(thrown).code === "not_found") return undefined;
    throw thrown;
  });
}

function noTime(text: string, shortest = ""): RotundaError {
  return new RotundaError("usage", `${JSON.stringify(text.slice(0, 40))} is no length of time`, {
    remedy: `Write a number and ${shortest}m, h, d, w or y: 30d`,
  });
}
