/**
 * `rotunda completion bash|zsh|fish`: a script that completes words at the prompt of a shell.
 *
 * Invariant: the script is made from the table of commands and holds all of it, so no process is started when a key is
 * pressed; where it knows nothing the shell completes files.
 */
import type { Command, Option } from "commander";
import type { CommandContext } from "./context.ts";
import { isFrontFlag } from "./words.ts";

export type Shell = "bash" | "zsh" | "fish";

interface Word {
  word: string;
  description: string;
}

interface Flag extends Word {
  /** A value follows; where there are choices, one of them. */
  takesValue: boolean;
  choices: readonly string[];
}

interface Entry {
  /** "" is the program itself: `hub test`. */
  path: string;
  /** Commands below it, and the choices of its first argument. */
  words: Word[];
  flags: Flag[];
}

export async function completion({ streams }: CommandContext, program: Command, shell: Shell): Promise<number> {
  streams.out({ bash, zsh, fish }[shell](entriesOf(program)));
  return 0;
}

/** Flags of every command may stand in front of it as well. */
function entriesOf(command: Command, path = ""): Entry[] {
  const below = command.commands.map((one) => ({ word: one.name(), description: one.description() }));
  const choices = (command.registeredArguments[0]?.argChoices ?? []).map((word) => ({ word, description: "" }));
  const help = { word: "--help", description: "what it takes", takesValue: false, choices: [] };
  const front = command.commands[0]?.options.filter(({ long }) => long && isFrontFlag(long)) ?? [];
  const flags = [...front, ...command.options].filter((option) => !option.hidden).flatMap(flagOf);
  const inner = command.commands.flatMap((one) => entriesOf(one, path === "" ? one.name() : `${path} ${one.name()}`));
  return [{ path, words: [...below, ...choices], flags: [...flags, help] }, ...inner];
}

function flagOf({ long, description, required, argChoices = [] }: Option): Flag[] {
  return long ? [{ word: long, description, takesValue: required, choices: argChoices }] : [];
}

const names = (words: readonly Word[]) => words.map(({ word }) => word).join(" ");

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Each flag with choices as a pattern of the command and the flag, and the choices. */
function choicesOf(entries: readonly Entry[]): [string, string][] {
  return entries.flatMap(({ path, flags }) =>
    flags
      .filter(({ choices }) => choices.length > 0)
      .map(({ word, choices }): [string, string] => [`"${path} ${word}"`, choices.join(" ")]),
  );
}

function paths(entries: readonly Entry[]): string[] {
  return entries.filter(({ path }) => path !== "").map(({ path }) => path);
}

/** For bash 3.2 and newer. */
function bash(entries: readonly Entry[]): string {
  return `# Completion of rotunda for bash, made by: rotunda completion bash
_rotunda() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" command="" words="" flags="" i
  # bash makes three words of --flag=value.
  if [ "$current" = "=" ]; then current=""
  elif [ "$previous" = "=" ]; then previous="\${COMP_WORDS[COMP_CWORD-2]}"
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${command:+$command }\${COMP_WORDS[i]}" in
      ${paths(entries)
        .map((path) => `"${path}"`)
        .join(" | ")}) command="\${command:+$command }\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$command $previous" in
${choicesOf(entries)
  .map(([pattern, choices]) => `    ${pattern}) COMPREPLY=($(compgen -W "${choices}" -- "$current")); return ;;`)
  .join("\n")}
  esac
  case "$command" in
${entries
  .map(({ path, words, flags }) => `    "${path}") words="${names(words)}"; flags="${names(flags)}" ;;`)
  .join("\n")}
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  esac
}
complete -o default -F _rotunda rotunda
`;
}

function zsh(entries: readonly Entry[]): string {
  const described = (words: readonly Word[]) =>
    words.map(({ word, description }) => quoted(`${word}:${description.replaceAll(":", "\\:")}`)).join(" ");
  return `#compdef rotunda
# Completion of rotunda for zsh, made by: rotunda completion zsh
_rotunda() {
  local command="" previous="\${words[CURRENT-1]}" word
  local -a names flags
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "\${command:+$command }$word" in
      ${paths(entries)
        .map((path) => `"${path}"`)
        .join("|")}) command="\${command:+$command }$word" ;;
    esac
  done
  case "$command $previous" in
${choicesOf(entries)
  .map(([pattern, choices]) => `    ${pattern}) compadd -- ${choices}; return ;;`)
  .join("\n")}
  esac
  case "$command" in
${entries
  .map(({ path, words, flags }) => `    "${path}") names=(${described(words)}); flags=(${described(flags)}) ;;`)
  .join("\n")}
  esac
  if [[ $PREFIX == -* ]]; then _describe -o flag flags
  elif (( $#names )); then _describe command names
  else _files
  fi
}
if [ "$funcstack[1]" = "_rotunda" ]; then _rotunda "$@"; else compdef _rotunda rotunda; fi
`;
}

function fish(entries: readonly Entry[]): string {
  const lines = entries.flatMap(({ path, words, flags }) => {
    const here = `complete -c rotunda -n "__rotunda_is '${path}'"`;
    return [
      ...words.map(({ word, description }) => `${here} -f -a ${word} -d ${quoted(description)}`),
      ...flags.map(({ word, description, takesValue, choices }) => {
        const value = choices.length > 0 ? ` -x -a ${quoted(choices.join(" "))}` : takesValue ? " -r" : "";
        return `${here} -l ${word.slice(2)}${value} -d ${quoted(description)}`;
      }),
    ];
  });
  return `# Completion of rotunda for fish, made by: rotunda completion fish
function __rotunda_is
    set -l found
    set -l typed (commandline -opc)
    set -e typed[1]
    for word in $typed
        if contains -- (string join -- ' ' $found $word) ${paths(entries)
          .map((path) => quoted(path))
          .join(" ")}
            set -a found $word
        end
    end
    set -l here (string join -- ' ' $found)
    test "$here" = "$argv[1]"
end
${lines.join("\n")}
`;
}
