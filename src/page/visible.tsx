/**
 * Text that may be hostile, shown as it is.
 *
 * Invariant: no character of a model's or a tool's text is invisible or turns the order of others: such characters
 * appear as their number. Joiners stay where writing needs them (emoji, Arabic, Indic scripts).
 */
import type { ComponentChildren } from "preact";

/** Ranges of code points that are seen by nobody: controls, joiners, marks of direction, fillers, tags. */
const HIDDEN_RANGES =
  "0-8 b-1f 7f-9f ad 34f 61c 115f-1160 17b4-17b5 180b-180f 200b-200f 2028-202e 2060-206f 2800 3164 fe00-fe0f feff ffa0 fff0-fffb 13430-1343f 1bca0-1bca3 1d173-1d17a e0000-e0fff";
const HIDDEN = new RegExp(
  `[${HIDDEN_RANGES.replace(/[0-9a-f]+/g, (digits) => `\\u{${digits}}`).replaceAll(" ", "")}]`,
  "gu",
);
const NEEDS_JOINER =
  /(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f|\p{Script=Arabic}|\p{Script=Devanagari}|\p{Script=Bengali}|\p{Script=Malayalam}|\p{Script=Tamil}|\p{Script=Sinhala})$/u;
const EMOJI_LIKE = /(?:\p{Emoji}|\p{Extended_Pictographic})$/u;

function isHarmless(text: string, at: number, character: string): boolean {
  const before = text.slice(Math.max(0, at - 2), at);
  if (character === "\u200d" || character === "\u200c") return NEEDS_JOINER.test(before);
  if (character === "\ufe0f" || character === "\ufe0e") return EMOJI_LIKE.test(before);
  return false;
}

export function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Pieces of a text: [plain, hidden character, plain, …]. */
export function splitHidden(text: string): { text: string; hidden: boolean }[] {
  const pieces: { text: string; hidden: boolean }[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const [character] = match;
    if (character === "\r" && text[match.index + 1] === "\n") continue;
    if (isHarmless(text, match.index, character)) continue;
    if (match.index > from) pieces.push({ text: text.slice(from, match.index), hidden: false });
    pieces.push({ text: character, hidden: true });
    from = match.index + character.length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), hidden: false });
  return pieces;
}

/** A text for titles, labels and announcements, in one string. */
export function shown(text: string): string {
  return splitHidden(text)
    .map((piece) => (piece.hidden ? `⟨${codePoint(piece.text)}⟩` : piece.text))
    .join("");
}

/** A text as it is to be seen, each hidden character as a small mark. */
export function Visible({ text }: { text: string }): ComponentChildren {
  const pieces = splitHidden(text);
  if (pieces.length === 1 && pieces[0]?.hidden === false) return text;
  return pieces.map((piece) =>
    piece.hidden ? <span class="hidden-character">{codePoint(piece.text)}</span> : piece.text,
  );
}
