/**
 * `rotunda move`: everything, or one conversation, from one database straight to another.
 *
 * Invariant: the source is only read. Every response is read back from the target and compared before the next page
 * comes; what stays behind is named.
 */
import { realpathSync } from "node:fs";
import { join, resolve } from "node:path";
import { RotundaError } from "../../types/error.ts";
import type { Store } from "../../types/store.ts";
import { withoutPassword } from "../../util/mask.ts";
import { counted, visible } from "../../util/text.ts";
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

/** Exit code 1: something damaged stays behind. Throws `usage` where both are the same database. */
export async function move(context: CommandContext, wanted: string | undefined, flags: MoveFlags): Promise<number> {
  const { stateDirectory } = await context.setUp();
  const here = flags.from ?? (await context.app()).config.database ?? "sqlite";
  if (placeOf(here, stateDirectory) === placeOf(flags.to, stateDirectory)) {
    throw new RotundaError("usage", "--to names the database that it is to come from", {
      remedy: "Name another one: --to postgres://…, or the path of a file; or say where it comes from: --from …",
    });
  }
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

/** What two addresses of one database have in common. */
function placeOf(address: string, stateDirectory: string): string {
  if (/^[a-z]\w*:\/\//i.test(address)) return address.replace(/^postgresql:/, "postgres:");
  const path = address === "sqlite" ? join(stateDirectory, "rotunda.db") : resolve(address);
  try {
    return realpathSync(path);
  } catch {
    return path;
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
    err(
      `Moved: ${counted(responses.pasted, "response")}; ${target.verified} ${target.verified === 1 ? "was read back, and is what it was" : "were read back, and are what they were"}.\n`,
    );
    err(`The source stays as it was. ${visible(wayOn(flags.to))}\n`);
    if (source.leftCount > 0) err("What stayed behind comes along when it has ended and you move again.\n");
  }
  return source.damaged > 0 ? 1 : 0;
}

/** A file is named by no key: the built-in database is the one of the state directory. */
function wayOn(to: string): string {
  const goOn = "To go on with the new database, stop what runs on the old one\n";
  if (/^[a-z]\w*:\/\//i.test(to)) return `${goOn}and set\n  database: ${withoutPassword(to)}`;
  if (to === "sqlite")
    return `${goOn}and take \`database:\` (or ROTUNDA_DATABASE) out: without it the built-in one is used.`;
  return `The file is a copy to keep, or to take to another machine; there: rotunda move --from ${to} --to sqlite`;
}
