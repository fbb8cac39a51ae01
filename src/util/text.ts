/** Small text helpers that more than one part needs. */
import { hash } from "node:crypto";

/** Anchored glob over names: `*` any run of characters, `?` one, `\*`, `\?` and `\\` the character itself. No path semantics. */
export function matchesName(pattern: string, name: string): boolean {
  if (!/[*?\\]/.test(pattern)) return pattern === name;
  return nameGlob(pattern).test(name);
}

/**
 * Whether a list of globs means something of these names: one glob fits, and none that begins with `!`. A list of
 * `!globs` alone means all the rest.
 */
export function matchesList(globs: readonly string[], names: readonly string[]): boolean {
  const fits = (glob: string) => names.some((name) => matchesName(glob, name));
  let wanted = globs.length > 0 && globs.every((glob) => glob.startsWith("!"));
  for (const glob of globs) {
    if (!glob.startsWith("!")) wanted ||= fits(glob);
    else if (fits(glob.slice(1))) return false;
  }
  return wanted;
}

const compiled = new Map<string, RegExp>();

function nameGlob(pattern: string): RegExp {
  let expression = compiled.get(pattern);
  if (!expression) {
    const source = pattern.replace(/\\[*?\\]|\*+|\?|[.+^${}()|[\]\\]/g, (part) => {
      if (part.startsWith("*")) return "[\\s\\S]*";
      if (part === "?") return "[\\s\\S]";
      return part.length === 2 ? part : `\\${part}`;
    });
    expression = new RegExp(`^${source}$`, "u");
    compiled.set(pattern, expression);
  }
  return expression;
}

/**
 * What a terminal would obey or not show: control characters, all that Unicode lets a reader ignore (bidi marks,
 * variation selectors, fillers), separators and blanks that look like a space. An emoji keeps its selector, and the
 * joiner that makes one of it and the next.
 */
const UNSEEN =
  /[^\P{Cc}\n\t]|(?<!\p{Extended_Pictographic})\ufe0f|(?!\ufe0f)(?!(?<=\p{Extended_Pictographic}[\ufe0f\p{Emoji_Modifier}]?)\u200d\p{Extended_Pictographic})\p{Default_Ignorable_Code_Point}|[\p{Zl}\p{Zp}\p{Cs}\ufff9-\ufffb\u2800]|[^\P{Zs} \u3000]/gu;

/** Text with every character made visible that is not, so that a terminal never obeys it. Keeps \n and \t; \r\n becomes \n. */
export function visible(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(UNSEEN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (/\p{Zs}/u.test(character)) return "␣";
    return `\\u{${code.toString(16)}}`;
  });
}

/** All of a text on one line, cut to `length` characters. Of a long one no more than its beginning is looked at. */
export function oneLine(text: string, length = 80): string {
  const beginning = text.slice(0, 20 * length);
  const line = beginning.replace(/\s+/g, " ").trim();
  const isWhole = beginning.length === text.length && line.length <= length;
  return isWhole ? line : `${line.slice(0, length - 1)}…`;
}

/** One name, safe for models, for a tool that a client nested in a namespace. Names that are too long end in a hash. */
export function flatName(namespace: string, name: string): string {
  const whole = `${namespace}__${name}`;
  const safe = whole.replace(/[^A-Za-z0-9_-]/g, "_");
  return safe === whole && safe.length <= 64 ? safe : `${safe.slice(0, 55)}_${hash("sha256", whole).slice(0, 8)}`;
}

/** "1 response", "2,000 responses". For nouns whose plural ends in s. */
export function counted(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
