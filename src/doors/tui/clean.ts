/**
 * Foreign text on its way to the screen.
 *
 * Invariant: nothing that came from a model, a tool, a server or a file reaches the terminal but through `clean`;
 * what the renderer makes of it passes `guard`, so that only colours of our own remain as escapes. Control
 * characters, OSC sequences and marks that turn text around are shown, never obeyed.
 */
import { visible } from "../../util/text.ts";

/** Lines stay lines, tabs become spaces, everything that a terminal would obey or hide is made visible. */
export function clean(text: string): string {
  // A no-break space is ordinary typography in prose, and harmless here.
  return visible(text.replaceAll(/[\u00a0\u202f]/g, " ")).replaceAll("\t", "    ");
}

/** As `clean`, on one line and cut to a number of characters. */
export function cleanLine(text: string, length = 200): string {
  const line = clean(text.slice(0, length * 4))
    .replace(/\s+/g, " ")
    .trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** Whatever is no text and no colour: all control characters but the escape of an SGR sequence. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
const COMMANDS = /\u001b(?!\[[0-9;]*m)|[\u0000-\u001a\u001c-\u001f\u007f-\u009f]/g;

/** The last look at a rendered line: a command to the terminal that is still in it becomes a visible mark. */
export function guard(line: string): string {
  return line.replace(COMMANDS, (character) => {
    const point = character.codePointAt(0) ?? 0;
    return point < 0x20 ? String.fromCodePoint(0x2400 + point) : "␡";
  });
}

/** What a person could have typed or pasted: without the characters that no key makes. */
export function typeable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
  return text.replace(/[\u0000-\u0008\u000b-\u000c\u000e-\u001f\u007f-\u009f]/g, "");
}

/** Marks that turn what follows them around. */
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A line of the editor, where text is as it will be sent: seen, and no command. */
export function guardTyped(line: string): string {
  return guard(line.replace(TURNING, visible));
}

const LOOKALIKE = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\uff01-\uff5e]/u;

/** Words of these letters alone look like Latin ones. */
const TWINS =
  /^[\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u04bb\u04cf\u0501\u051b\u051d\u03bf\u03bd\p{N}]+$/u;

/**
 * Words in which letters of another alphabet stand among Latin ones, as `раypal` with a Cyrillic beginning; and parts of
 * an address or a path that could be read as Latin while their neighbours are: each with its foreign letters and their
 * numbers. At most `most`.
 */
export function lookAlikes(text: string, most = 3): string[] {
  const found: string[] = [];
  for (const { 0: word, index } of text.matchAll(/[\p{L}\p{N}\uff01-\uff5e]+/gu)) {
    if (!LOOKALIKE.test(word)) continue;
    if (!/[A-Za-z]/.test(word) && !(TWINS.test(word) && isAmongLatin(text, index, word.length))) continue;
    const strange = [...word].filter((letter) => LOOKALIKE.test(letter));
    const named = strange.slice(0, 4).map((letter) => `${letter} is U+${hex(letter)}`);
    found.push(`${word.slice(0, 40)} (${named.join(", ")})`);
    if (found.length >= most) break;
  }
  return found;
}

function isAmongLatin(text: string, at: number, length: number): boolean {
  const after = text.slice(at + length, at + length + 8);
  return /^[./@:_-]+[A-Za-z]/.test(after) || /[A-Za-z][./@:_-]+$/.test(text.slice(Math.max(0, at - 8), at));
}

function hex(letter: string): string {
  return (letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
}
