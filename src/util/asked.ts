/**
 * Asked: what a person asked, without what a door has put before it: the content of files, what commands printed that
 * were run by hand, marks of pictures.
 *
 * Invariant: what is found is part of the text, character for character: whoever erases the text finds what was made of it.
 */

/** A file that was attached as text: the first line names it, and it stands between fences that it cannot close. */
const FILE = /^File ([^\n]{1,300}):\n\n(`{3,})\n([\s\S]*?)\n?\2$/;
const FILE_BEGINS = /^File ([^\n]{1,300}):\n\n`{3,}\n/;
const BY_HAND = /^I ran this by hand:\n(\$ [^\n]*)\n```\n/;
const END_OF_OUTPUT = "\n```\n";
const PICTURE = /^\[image #\d+: [^\]\n]*\]\s*/;

export interface AttachedFile {
  name: string;
  text: string;
}

/** Undefined: the text is no attached file. */
export function fileIn(text: string): AttachedFile | undefined {
  const [, name, , content = ""] = FILE.exec(text) ?? [];
  return name === undefined ? undefined : { name, text: content };
}

/** What was asked, in the texts of a message in their order; where nothing was, a name for what was sent. Empty: no text at all. */
export function askedOf(texts: readonly string[]): string {
  let name = "";
  for (const text of texts) {
    const { asked, about } = beginning(text);
    if (asked !== "") return asked;
    if (name === "") name = about;
  }
  return name;
}

/** `about`: the first command or file that stands before what was asked. */
function beginning(text: string): { asked: string; about: string } {
  let rest = text.trimStart();
  let about = "";
  for (;;) {
    const [file, fileName = ""] = FILE_BEGINS.exec(rest) ?? [];
    // A file is a part of its own: behind it there is nothing.
    if (file !== undefined) return { asked: "", about: about || fileName };
    const [output, command = ""] = BY_HAND.exec(rest) ?? [];
    const [picture] = PICTURE.exec(rest) ?? [];
    if (output === undefined && picture === undefined) return { asked: rest, about };
    if (picture !== undefined) {
      about ||= picture.trim();
      rest = rest.slice(picture.length);
      continue;
    }
    about ||= command;
    const end = rest.indexOf(END_OF_OUTPUT, (output ?? "").length - 1);
    rest = end < 0 ? "" : rest.slice(end + END_OF_OUTPUT.length).trimStart();
  }
}
