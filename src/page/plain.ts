/** Markdown as the words that stand in it. Invariant: marks go, words stay; it is for titles, excerpts and ears, and never drawn as anything but text. */

/** The line between a table's head and its rows. */
const RULE_OF_TABLE = /^[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-*:?[ \t]*)*$/gm;
/** The same in an excerpt, where lines are joined. */
const RULE_WITHIN = /\|(?:\s*:?-{1,}:?\s*\|)+/g;

export function plainText(text: string): string {
  return text
    .replace(RULE_OF_TABLE, "")
    .replace(RULE_WITHIN, "|")
    .replace(/^[ \t]*(`{3,}|~{3,}).*$/gm, "")
    .replace(/!?\[([^\]\n]*)\]\([^)\s]*\)/g, "$1")
    .replace(/^[ \t]*(?:#{1,6}|>+)[ \t]+/gm, "")
    .replace(/(\*\*|__|~~)(?=\S)(.+?)\1/g, "$2")
    .replace(/(?<![\w*])\*(?=\S)([^*\n]+)\*(?!\w)/g, "$1")
    .replace(/`+([^`\n]+)`+/g, "$1")
    .replace(/[ \t]*\|[ \t]*/g, " ")
    .replace(/[ \t]{2,}/g, " ")
    .trim();
}

/** Finds the whole sentences of a text that grows. */
export class SentenceReader {
  #told: number;

  constructor(from: number) {
    this.#told = from;
  }

  /** What is new and whole; with `ended`, all the rest. */
  read(text: string, ended: boolean): string {
    const rest = text.slice(this.#told);
    const end = ended
      ? rest.length
      : Math.max(rest.lastIndexOf(". "), rest.lastIndexOf("\n"), rest.lastIndexOf("? "), rest.lastIndexOf("! ")) + 1;
    if (end <= 0) return "";
    this.#told += end;
    return plainText(rest.slice(0, end));
  }
}
