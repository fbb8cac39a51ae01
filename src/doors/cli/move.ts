/**
 * `rotunda move`: everything, or one conversation, from one database straight to another.
 *
 * Invariant: the source is only read. Every response is read back from the target and compared before the next page
 * comes; what stays behind is named.
 */
import type { Store } from "../../types/store.ts";
import { visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import { outcomeOf, progress, tellLeft, tellTarget } from "./copy-report.ts";
import { CopySource, selectionOf } from "./copy-source.ts";
import { CopyTarget } from "./copy-target.ts";

export interface MoveFlags {
  to: string;
  from?: string;
  tree?: boolean;
  json?: boolean;
}

/** Exit code 1: something damaged stays behind. */
export async function move(context: CommandContext, wanted: string | undefined, flags: MoveFlags): Promise<number> {
  const from = flags.from === undefined ? undefined : await context.database(flags.from, "there");
  try {
    const to = await context.database(flags.to, "made");
    try {
      return await moveBetween(context, from?.store ?? (await context.app()).store, to.store, wanted, flags);
    } finally {
      await to.close();
    }
  } finally {
    await from?.close();
  }
}

async function moveBetween(
  context: CommandContext,
  from: Store,
  to: Store,
  wanted: string | undefined,
  flags: MoveFlags,
): Promise<number> {
  const selection = wanted === undefined ? undefined : await selectionOf(from, wanted, flags.tree === true);
  const source = new CopySource(await from.copying(), selection);
  const target = new CopyTarget(await to.copying(), { verify: true });
  const tell = progress(context);
  for await (const page of source.pages()) {
    await target.take(page);
    tell(target.verified);
  }
  await target.settle();
  const { out, err } = context.streams;
  if (flags.json) out(`${JSON.stringify({ ...outcomeOf(target, source), verified: target.verified })}\n`);
  else {
    const plain = (text: string) => text;
    tellTarget(context, target, plain);
    tellLeft(context, source, plain);
    const { responses } = target.counts;
    err(`Moved: ${responses.pasted} responses; ${target.verified} were read back, and are what they were.\n`);
    err("The source stays as it was. To go on with the new database, stop what runs on the old one and set\n");
    err(`  database: ${visible(withoutPassword(flags.to))}\n`);
    if (source.leftCount > 0) err("What stayed behind comes along when it has ended and you move again.\n");
  }
  return source.damaged > 0 ? 1 : 0;
}

function withoutPassword(address: string): string {
  return address.replace(/^(\w+:\/\/[^/@:]*):[^@]*@/, "$1:…@").replace(/([?&](?:ssl)?password=)[^&]*/gi, "$1…");
}
