/** `rotunda search`: where something was said. Invariant: it only reads, as the page's search does, the newest first. */
import type { FoundItem } from "../../types/browsing.ts";
import { RotundaError } from "../../types/error.ts";
import { shortId } from "../../util/ids.ts";
import { visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";

export interface SearchFlags {
  all?: boolean;
  limit: number;
  json?: boolean;
}

/** As over HTTP: each word is looked for in everything that was ever said. */
const MOST_WORDS = 8;
const LONGEST_WORD = 200;
/** Milliseconds after which a search says how far it has come. */
const PART = 1_000;

export async function search(context: CommandContext, given: readonly string[], flags: SearchFlags): Promise<number> {
  const words = given.flatMap((text) => text.split(/\s+/)).filter((word) => word !== "");
  if (words.length === 0) throw new RotundaError("usage", "which words? Give some");
  if (words.length > MOST_WORDS || words.some((word) => word.length > LONGEST_WORD))
    throw new RotundaError("usage", `at most ${MOST_WORDS} words of ${LONGEST_WORD} characters can be searched for`);
  const app = await context.app();
  const browsing = await app.store.browsing();
  const { out, err } = context.streams;
  const all = flags.all === true;
  const hits: FoundItem[] = [];
  let next: string | null = null;
  do {
    const limit = flags.limit - hits.length;
    const place: { before?: string } = next === null ? {} : { before: next };
    const part = await browsing.search({ words, all, limit, milliseconds: PART, ...place });
    hits.push(...part.found);
    // Whoever looks sees each part as it is found.
    if (!flags.json) for (const hit of part.found) out(lineOf(context, hit));
    ({ next } = part);
  } while (next !== null && hits.length < flags.limit);
  if (flags.json) out(`${JSON.stringify(hits)}\n`);
  else if (hits.length === 0)
    err(`Nothing was said with ${words.length === 1 ? "this word" : "all these words"}.${hint(all)}\n`);
  else if (next !== null) err("There may be more: --limit shows them.\n");
  return 0;
}

function hint(all: boolean): string {
  return all ? "" : " --all looks through reasoning, tool calls and their outputs too.";
}

function lineOf({ streams }: CommandContext, { responseId, createdAt, role, excerpt }: FoundItem): string {
  const { outStyle } = streams;
  const at = new Date(createdAt).toISOString().slice(0, 16).replace("T", " ");
  return `${outStyle.bold(shortId(responseId))}  ${outStyle.dim(at)}  ${role.padEnd(9)}  ${visible(excerpt)}\n`;
}
