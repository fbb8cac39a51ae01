/**
 * Markdown that a parser could not stand: quotes and lists within each other until its stack is used up, signs for each
 * of which it looks through all the rest of a paragraph.
 *
 * Invariant: found out in a time that grows with the text alone.
 */

/** Quotes and lists that begin on one line; and one that begins behind so many blanks that it must lie in many others. */
const DEEP = /^(?:[ \t]*(?:>|[*+-][ \t]|\d{1,9}[.)][ \t])){40}|^[ \t]{200,}(?=[>*+-]|\d{1,9}[.)])/gm;

/** The same text, in which such lines are lines of a paragraph. */
export function withoutDepths(text: string): string {
  return text.replace(DEEP, (marks) => `\\${marks.trimStart()}`);
}

/** Signs of emphasis in one paragraph: a parser looks for the partner of each among all the others. */
const MOST_SIGNS = 1_500;

export function hasTooManySigns(text: string): boolean {
  let signs = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    // * _ ~
    if ((code === 0x2a || code === 0x5f || code === 0x7e) && ++signs > MOST_SIGNS) return true;
  }
  return false;
}

/** Signs that may begin something, times characters of the paragraph: what a parser has to look at, about. */
const MOST_WORK = 8_000_000;

export function isTooMuchWork(paragraph: string): boolean {
  if (paragraph.length < 2_000) return false;
  return (paragraph.match(/[*_~`<[\]!@&\\:]/g)?.length ?? 0) * paragraph.length > MOST_WORK;
}
