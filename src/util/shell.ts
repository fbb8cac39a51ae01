/**
 * A conservative reading of a shell line, for permission rules.
 *
 * Invariant: when it answers, the shell runs no command but those answered, each with exactly the words
 * answered (a pattern like `src/*.ts` stays as it is written). Where a word depends on anything but the line
 * itself (variables, substitutions, functions), where a file is written by redirection, or where a command
 * runs other commands that it is given, it answers null.
 */

/** Builtins and programs that run what they are given: the words do not tell what happens. */
const RUNNERS = new Set([
  ..."eval source . exec command builtin trap alias unalias enable hash set shopt coproc time bind complete".split(" "),
  ..."declare typeset local export readonly unset let read mapfile readarray getopts wait compgen fc".split(" "),
  ..."env sudo doas su xargs nohup nice ionice timeout setsid stdbuf watch parallel chroot unshare nsenter".split(" "),
  ..."sh bash dash zsh ksh fish ash busybox script expect ssh strace ltrace gdb".split(" "),
]);

const KEYWORDS = new Set(
  "if then else elif fi for while until do done case esac select function in { } ! [[ ]] coproc time".split(" "),
);

interface Word {
  text: string;
  /** Some of it was quoted: it is no keyword, assignment or comment. */
  quoted: boolean;
  /** Unquoted pattern characters. */
  pattern: boolean;
}

/**
 * The simple commands of a line in order, each as its words joined by one space after quote removal; null when
 * that cannot be told for sure. An empty line, or one of comments only, has no commands.
 */
export function simpleCommands(line: string): string[] | null {
  return new Reader(line).read();
}

class Reader {
  private position = 0;
  private readonly line: string;
  private readonly commands: string[] = [];
  private words: Word[] = [];

  constructor(line: string) {
    this.line = line;
  }

  read(): string[] | null {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
    if (/[\u0000-\u0008\u000b-\u001f\u007f]/.test(this.line)) return null;
    // After `&&`, `||` and `|` a command must follow.
    let expected = false;
    while (this.position < this.line.length) {
      const character = this.line[this.position] ?? "";
      if (character === " " || character === "\t") this.position++;
      else if (this.line.startsWith("\\\n", this.position)) this.position += 2;
      else if (character === "#") this.skipComment();
      else if (/[\n;&|]/.test(character) && !this.startsRedirection()) {
        const separator = this.separator();
        if (separator === null) return null;
        if (separator === "\n" && this.words.length === 0) continue;
        if (!this.endCommand()) return null;
        expected = separator === "&&" || separator === "||" || separator === "|";
      } else if (/[<>&]/.test(character) || this.isNumberedRedirection()) {
        if (!this.harmlessRedirection()) return null;
      } else {
        const word = this.word();
        if (word === null) return null;
        this.words.push(word);
      }
    }
    if (this.words.length > 0) {
      if (!this.endCommand()) return null;
    } else if (expected) return null;
    return this.commands;
  }

  private skipComment(): void {
    const end = this.line.indexOf("\n", this.position);
    this.position = end < 0 ? this.line.length : end;
  }

  private startsRedirection(): boolean {
    return this.line.startsWith("&>", this.position);
  }

  private isNumberedRedirection(): boolean {
    return /^\d+[<>]/.test(this.line.slice(this.position, this.position + 8));
  }

  private separator(): string | null {
    const found = /^(\n|&&|\|\||\|&|;|&|\|)/.exec(this.line.slice(this.position, this.position + 2))?.[0] ?? null;
    if (found === null) return null;
    this.position += found.length;
    const next = this.line[this.position] ?? "";
    // `;;`, `;&` and `|||` belong to constructs or to mistakes.
    if (found !== "\n" && /[;&|]/.test(next)) return null;
    return found === "|&" ? "|" : found;
  }

  /** Redirections that write no file and read none: to `/dev/null`, and one descriptor to another. */
  private harmlessRedirection(): boolean {
    const found = /^(?:(?:\d?>>?|&>>?)[ \t]*\/dev\/null|\d?>&[12]|\d?<[ \t]*\/dev\/null)(?=[ \t\n;&|]|$)/.exec(
      this.line.slice(this.position, this.position + 40),
    );
    if (!found) return false;
    this.position += found[0].length;
    return true;
  }

  private word(): Word | null {
    const word: Word = { text: "", quoted: false, pattern: false };
    while (this.position < this.line.length) {
      const character = this.line[this.position] ?? "";
      if (/[ \t\n;&|<>]/.test(character)) break;
      if (character === "'" || character === '"') {
        if (!this.quotation(character, word)) return null;
      } else if (character === "\\") {
        const next = this.line[this.position + 1];
        if (next === undefined) return null;
        if (next !== "\n") {
          word.text += next;
          word.quoted = true;
        }
        this.position += 2;
      } else {
        if (/[$`(){}]/.test(character) && !this.isPlainBrace(character, word)) return null;
        if (character === "~" && word.text === "" && !word.quoted) return null;
        if (/[*?[\]]/.test(character)) word.pattern = true;
        word.text += character;
        this.position++;
      }
    }
    return word;
  }

  /** `{}` as `find` takes it. */
  private isPlainBrace(character: string, word: Word): boolean {
    if (character === "{") return this.line[this.position + 1] === "}";
    return character === "}" && word.text.endsWith("{");
  }

  private quotation(mark: string, word: Word): boolean {
    word.quoted = true;
    this.position++;
    for (; this.position < this.line.length; this.position++) {
      const character = this.line[this.position] ?? "";
      if (character === mark) {
        this.position++;
        return true;
      }
      if (mark === '"') {
        if (character === "$" || character === "`") return false;
        if (character === "\\") {
          const next = this.line[this.position + 1] ?? "";
          if (!/["$`\\\n]/.test(next)) {
            word.text += character;
            continue;
          }
          this.position++;
          if (next !== "\n") word.text += next;
          continue;
        }
      }
      word.text += character;
    }
    return false;
  }

  private endCommand(): boolean {
    const [first] = this.words;
    if (!first) return false;
    const name = first.text.slice(first.text.lastIndexOf("/") + 1);
    if (first.text === "" || first.pattern || /\s/.test(first.text) || RUNNERS.has(name)) return false;
    if (!first.quoted && KEYWORDS.has(first.text)) return false;
    if (/^[A-Za-z_][A-Za-z0-9_]*(\[.*\])?\+?=/.test(first.text)) return false;
    for (const word of this.words) {
      // A pattern can become any file's name; with a dot or a slash in it, it stays a file's name.
      if (word.pattern && !/[./]/.test(word.text)) return false;
      // Bash runs substitutions in the index of a variable's name, even quoted.
      if ((name === "test" || name === "printf") && /[[`]|\$\(/.test(word.text)) return false;
      if (name === "find" && /^-(exec|ok|delete|fprint|fls)/.test(word.text)) return false;
    }
    this.commands.push(this.words.map((word) => word.text).join(" "));
    this.words = [];
    return true;
  }
}
