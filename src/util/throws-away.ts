/**
 * Shell commands that throw away what no undo brings back: trees of files, and what version control keeps.
 *
 * Invariant: this is a courtesy to the person and no wall: a script can do the same unseen, and the sandbox is what
 * holds. It looks at words alone, so it says no more than that a question is worth asking.
 */

/** Where a line cannot be taken apart, any mention counts. */
const MENTIONS =
  /\brm\s+(?:-\S+\s+)*-[A-Za-z]*[rR]|\brm\b[^;|&\n]*\.git\b|\bshred\b|\s-delete\b|\s-exec(?:dir)?\s+(?:\S*\/)?rm\b|\bgit\b[^;|&\n]*\s(?:clean\s+-\S*f|reset\s[^;|&\n]*--hard|filter-branch|stash\s+(?:drop|clear))/;

/** `commands`: of the line, each its words joined by one space; null where it could not be parsed. */
export function throwsAway(line: string, commands: readonly string[] | null): boolean {
  return commands ? commands.some(commandThrowsAway) : MENTIONS.test(line);
}

function commandThrowsAway(command: string): boolean {
  const [program = "", ...rest] = command.split(" ");
  const name = nameOf(program);
  if (name === "rm") return hasFlag(rest, "rR", "--recursive") || rest.some(isOfGit);
  if (name === "shred") return true;
  if (name === "find") return rest.includes("-delete") || rest.some((word) => nameOf(word) === "rm");
  return name === "git" && byGit(rest);
}

const nameOf = (word: string) => word.replace(/^.*\//, "");

const isOfGit = (word: string) => /(?:^|\/)\.git(?:\/|$)/.test(word);

function hasFlag(words: readonly string[], letters: string, long: string): boolean {
  const short = new RegExp(`^-[A-Za-z]*[${letters}]`);
  return words.some((word) => word === long || short.test(word));
}

/** Options of git itself that stand before the subcommand and have a value of their own. */
const GIT_VALUES = new Set(["-C", "-c", "--git-dir", "--work-tree"]);

function byGit(words: readonly string[]): boolean {
  let at = 0;
  while (words[at]?.startsWith("-")) at += GIT_VALUES.has(words[at] ?? "") ? 2 : 1;
  const [subcommand = "", ...rest] = words.slice(at);
  switch (subcommand) {
    case "clean":
      return hasFlag(rest, "f", "--force");
    case "reset":
      return rest.includes("--hard");
    case "checkout":
      return rest.includes("--") || rest.includes(".") || hasFlag(rest, "f", "--force");
    case "restore":
      return !rest.includes("--staged") || rest.includes("--worktree");
    case "stash":
      return rest[0] === "drop" || rest[0] === "clear";
    case "branch":
      return hasFlag(rest, "D", "--delete") && (rest.includes("-D") || hasFlag(rest, "f", "--force"));
    case "reflog":
      return rest[0] === "expire" || rest[0] === "delete";
    case "update-ref":
      return rest[0] === "-d";
    default:
      return subcommand === "filter-branch";
  }
}
