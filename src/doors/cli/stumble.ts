/** What to say to words that are no command, and to flags of other programs: the line that was meant. Loaded only then. */
import type { Command } from "commander";
import { visible } from "../../util/text.ts";

/** Words of other programs. */
const MEANT: Readonly<Record<string, string>> = {
  ask: 'chat "…"',
  prompt: 'chat "…"',
  query: 'chat "…"',
  run: 'chat "…"',
  exec: 'chat "…"',
  continue: 'chat --continue "…"',
  history: "log",
  ls: "log",
  version: "--version",
};

const FLAGS: readonly (readonly [RegExp, string])[] = [
  [/^(?:-p|-q|--print|--prompt|--query|--message)$/, 'chat "…"'],
  [/^(?:-c|--continue)$/, 'chat --continue "…"'],
  [/^(?:-r|--resume)$/, "resume"],
  [/^(?:-m|--model)$/, 'chat --model NAME "…"'],
  [/^(?:-a|--agent)$/, 'chat --agent PROFILE "…"'],
];

/** For stderr: what there is not, what may have been meant, and where to look. */
export function unknownCommand(above: Command, unknown: readonly string[]): string {
  const names = unknown.join(" ");
  const meant = meantBy(above, unknown);
  const line = meant?.includes('"');
  const suggestion =
    meant === undefined ? "" : line ? `; did you mean: rotunda ${meant}` : `; did you mean "${meant}"?`;
  const path = [...unknown.slice(0, -1), "--help"].join(" ");
  const asking = unknown.length === 1 && !line ? '; to ask something: rotunda chat "…"' : "";
  return `error: unknown command "${visible(names)}"${suggestion}\n(rotunda ${path} shows what there is${asking})\n`;
}

function meantBy(above: Command, unknown: readonly string[]): string | undefined {
  const word = unknown.at(-1) ?? "";
  const before = unknown.slice(0, -1).map((one) => `${one} `);
  const own = above.commands.map((one) => one.name());
  if (before.length === 0) {
    const known = MEANT[word.toLowerCase()];
    if (known !== undefined) return known;
    const inner = above.commands.filter(({ commands }) => commands.some((one) => one.name() === word));
    if (inner.length === 1) return `${inner[0]?.name()} ${word}`;
  }
  const [nearest] = own
    .map((name) => ({ name, distance: distanceOf(word.toLowerCase(), name) }))
    .filter(({ name, distance }) => distance <= Math.max(1, Math.floor(Math.max(name.length, word.length) * 0.4)))
    .sort((one, other) => one.distance - other.distance);
  return nearest && `${before.join("")}${nearest.name}`;
}

/** Letters that are put in, taken out, changed, or swapped with their neighbour. */
function distanceOf(one: string, other: string): number {
  let last: number[] = [];
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1];
      const swapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      const ways = [(row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (same ? 0 : 1)];
      next.push(Math.min(...ways, ...(swapped ? [(last[j - 2] ?? 0) + 1] : [])));
    }
    last = row;
    row = next;
  }
  return row[other.length] ?? 0;
}

/** The line that a flag without its command, or one of another program, stands for; "" where none is known. */
export function flagHint(message: string): string {
  const flag = /unknown option '([^']+)'/.exec(message)?.[1]?.split("=", 1)[0] ?? "";
  const meant = FLAGS.find(([pattern]) => pattern.test(flag))?.[1];
  return meant === undefined ? "" : `Did you mean: rotunda ${meant}\n`;
}
