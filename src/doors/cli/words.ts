/**
 * The words of a command line, put in the order in which the library reads them.
 *
 * Invariant: a prompt is never changed, nor anything behind `--`; what is no command stays where it is, to be told of.
 */
import type { Command } from "commander";

/** Flags of every command, which may stand in front of it: true where a value follows. */
const FRONT: Readonly<Record<string, boolean>> = {
  "--config": true,
  "--log-format": true,
  "--verbose": false,
  "--no-color": false,
  "--debug": false,
};

interface Split {
  /** Flags of every command at the beginning. */
  front: string[];
  rest: string[];
}

/** `--config`, `--debug=llm`, …: a flag of every command. */
export function isFrontFlag(word: string): boolean {
  return FRONT[word.split("=", 1)[0] ?? ""] !== undefined;
}

function split(words: readonly string[]): Split {
  let at = 0;
  for (let word = words[at]; word !== undefined; word = words[at]) {
    const takesValue = FRONT[word.split("=", 1)[0] ?? ""];
    if (takesValue === undefined) break;
    at += takesValue && !word.includes("=") ? 2 : 1;
  }
  return { front: words.slice(0, at), rest: words.slice(at) };
}

/** Without any command it is a conversation, and so is a sentence; one word that is mistyped must not become a prompt. */
export function readWords(argv: readonly string[]): Split {
  const { front, rest } = split(withOldFlags(argv));
  const [first] = rest;
  const talks = first === undefined || (!first.startsWith("-") && /\s/.test(first));
  return { front, rest: talks ? ["chat", ...rest] : rest };
}

/** Each flag behind the command that it belongs to; `unknown`: the words of a command that there is not, and where. */
export function inOrder(program: Command, { front, rest }: Split): string[] | { above: Command; unknown: string[] } {
  const [name = "", ...more] = rest;
  const command = program.commands.find((one) => one.name() === name);
  if (!command) return name.startsWith("-") || name === "help" ? rest : { above: program, unknown: [name] };
  if (command.commands.length === 0) return [name, ...front, ...more];
  const { front: between, rest: inner } = split(more);
  const [word, ...last] = inner;
  if (command.commands.some((one) => one.name() === word)) return [name, word ?? "", ...front, ...between, ...last];
  if (word === undefined || word.startsWith("-") || word === "help") return [name, ...front, ...between, ...inner];
  return { above: command, unknown: [name, word] };
}

/** Finta's `--parallel=false`, `--streaming`, `--streaming=false` (parity F2). */
function withOldFlags(argv: readonly string[]): string[] {
  const end = argv.indexOf("--");
  return argv.flatMap((word, index) => {
    if (end !== -1 && index > end) return [word];
    // Only `--debug=topics` takes a value: a prompt that stands behind it is no topic.
    if (word === "--debug") return ["--debug=all"];
    if (word === "--parallel=false") return ["--no-parallel"];
    if (word === "--streaming=false") return ["--no-stream"];
    if (/^--(?:parallel|streaming)(?:=true)?$/.test(word)) return [];
    return [word];
  });
}
