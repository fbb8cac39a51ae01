/** What a copy has led to, in words. Invariant: whatever did not come along is said. */
import { copiedTables } from "../../types/copy.ts";
import { visible } from "../../util/text.ts";
import type { CommandContext } from "./context.ts";
import type { CopySource, Left } from "./copy-source.ts";
import type { CopyTarget } from "./copy-target.ts";

/** Milliseconds between two words about long work. */
const BEAT = 5_000;

/** Tells on stderr how far it is, and only where it takes long. */
export function progress({ streams: { err } }: CommandContext): (responses: number) => void {
  let told = performance.now();
  return (responses) => {
    if (performance.now() - told < BEAT) return;
    told = performance.now();
    err(`${responses.toLocaleString("en")} responses …\n`);
  };
}

const words = {
  responses: noun("response"),
  conversations: noun("conversation"),
  tokens: (count: number) =>
    count === 1 ? "token, which works here as it did there" : "tokens, which work here as they did there",
  rules: noun("learned rule"),
  budgets: (count: number) => (count === 1 ? "budget, with what is used of it" : "budgets, with what is used of them"),
  usage: (count: number) => `${count === 1 ? "day" : "days"} of use by tokens`,
  schedules: noun("schedule"),
  idempotency: noun("idempotency key"),
  audit: (count: number) => `${count === 1 ? "record" : "records"} of the audit log`,
} as const;

function noun(one: string): (count: number) => string {
  return (count) => (count === 1 ? one : `${one}s`);
}

/** What came and what was known; what stays out. */
export function tellTarget(context: CommandContext, target: CopyTarget, redact: (text: string) => string): void {
  const { out } = context.streams;
  for (const table of ["responses", ...copiedTables] as const) {
    const { pasted, known, moved } = target.counts[table];
    const rest = [
      moved > 0 ? `${moved} went on` : "",
      known > 0 ? `${known} ${known === 1 ? "was" : "were"} here already` : "",
    ].filter(Boolean);
    if (pasted + moved + known > 0) {
      out(`+ ${pasted} ${words[table](pasted)}${rest.length > 0 ? ` (${rest.join(", ")})` : ""}\n`);
    }
  }
  for (const { what, to } of target.renamed)
    out(`+ ${visible(redact(`${what}: the name was taken, here it is ${to}`))}\n`);
  tellLeft(context, target, redact);
}

export function tellLeft(
  { streams: { out } }: CommandContext,
  { left, leftCount }: { left: readonly Left[]; leftCount: number },
  redact: (text: string) => string,
  tell = out,
): void {
  for (const { what, why } of left) tell(`- ${visible(redact(`${what}: ${why}`))}\n`);
  if (leftCount > left.length) tell(`- and ${leftCount - left.length} more\n`);
}

/** The same for programs. */
export function outcomeOf(target: CopyTarget, source?: CopySource) {
  const { counts, renamed, left, leftCount } = target;
  return {
    ...counts,
    renamed,
    left: [...(source?.left ?? []), ...left],
    left_count: leftCount + (source?.leftCount ?? 0),
  };
}
