/**
 * Changes of files as a diff that people read: what a tool told of its change, and where nobody kept that (another
 * process, an old turn), what the arguments of the call say by themselves.
 *
 * Invariant: every line of a file keeps its mark before it, so that no text can pass for another; all of it was
 * cleaned. Both kinds look the same.
 */
import { wrapTextWithAnsi } from "@earendil-works/pi-tui";
import { unifiedDiff } from "../../util/diff.ts";
import { counted } from "../../util/text.ts";
import { type Canvas, lineCount } from "./block.ts";
import { clean } from "./clean.ts";
import type { Look } from "./style.ts";

/** Characters of a text up to which differences are looked for, and of what becomes of it. */
const MOST = 200_000;
const MOST_AFTER = 400_000;

interface Edit {
  old: string;
  fresh: string;
  all: boolean;
}

/** What the arguments of an `edit` or a `write` change; undefined where they are none, or say more than that. */
export interface Change {
  path: string;
  edits: Edit[];
}

/** What the file of a change holds now; why nobody can say; or that it is not there. */
export type FileNow = { text: string } | { why: string } | { missing: true };

/** The change against the file as it is now: what it does, and its lines as `wholeOf` has them. */
export interface Compared {
  about: string;
  /** It cannot be made as it stands. */
  fails: boolean;
  lines: string[];
  /** As unified diff; empty where the file is not known. */
  diff: string;
}

export function comparedWith(change: Change, tool: string, file: FileNow): Compared {
  const { path, edits } = change;
  const plain = { lines: wholeOf(change), diff: "", fails: false };
  if ("why" in file) return { ...plain, about: file.why };
  if ("missing" in file)
    return tool === "write"
      ? { ...plain, about: "new file" }
      : { ...plain, about: "there is no such file", fails: true };
  const { text: before } = file;
  if (before.length > MOST) return { ...plain, about: "it exists, and is too large to compare" };
  const after = tool === "write" ? edits[0]?.fresh : edited(before, edits);
  if (after === null || (after && after.length > MOST_AFTER)) {
    return { ...plain, about: "it makes the file too large to compare" };
  }
  if (after === undefined) return { ...plain, about: "it does not fit what is in the file", fails: true };
  const about = tool === "write" ? `replaces a file of ${counted(lineCount(before), "line")}` : "changes a file";
  if (before === after) return { ...plain, about: "the file is like this already" };
  const lines = withoutLongRests(wholeOf({ path, edits: [{ old: before, fresh: after, all: false }] }));
  return { about, fails: false, lines, diff: unifiedDiff(path, before, after) };
}

/** A text after all edits in order, as the tool makes them; undefined where one of them does not fit, null where it grows too large. */
function edited(before: string, edits: readonly Edit[]): string | null | undefined {
  let text = before;
  for (const { old, fresh, all } of edits) {
    if (old === "") return undefined;
    // The tool takes line ends as the file has them.
    const converts = text.includes("\r\n") && (!text.includes(old) || !/(^|[^\r])\n/.test(text));
    const convert = (piece: string) => (converts ? piece.replace(/\r?\n/g, "\r\n") : piece);
    const parts = text.split(convert(old));
    if (parts.length < 2 || (parts.length > 2 && !all)) return undefined;
    // Some lines of edits can double a text until it fills the memory.
    if (text.length + (parts.length - 1) * (convert(fresh).length - convert(old).length) > MOST_AFTER) return null;
    text = parts.join(convert(fresh));
  }
  return text;
}

/** Lines around a change that are shown of what stays. */
const AROUND = 3;

/** Of what stays as it is only the lines around a change, and how many others there are. */
function withoutLongRests(lines: readonly string[]): string[] {
  const shown: string[] = [];
  for (let at = 0; at < lines.length; ) {
    let end = at;
    while (lines[end]?.startsWith(" ")) end++;
    if (end === at) {
      shown.push(lines[at++] ?? "");
      continue;
    }
    const head = at === 0 ? 0 : AROUND;
    const tail = end === lines.length ? 0 : AROUND;
    const rest = end - at - head - tail;
    if (rest < 2) shown.push(...lines.slice(at, end));
    else
      shown.push(
        ...lines.slice(at, at + head),
        `@@ ${counted(rest, "line")} as before`,
        ...lines.slice(end - tail, end),
      );
    at = end;
  }
  return shown;
}

export function changeOf(tool: string, text: string): Change | undefined {
  if (tool !== "edit" && tool !== "write") return undefined;
  try {
    const values = JSON.parse(text) as Record<string, unknown>;
    const { file_path: path, ...rest } = values;
    if (typeof path !== "string") return undefined;
    if (tool === "write") {
      const { content, ...more } = rest;
      if (typeof content !== "string" || Object.keys(more).length > 0) return undefined;
      return { path, edits: [{ old: "", fresh: content, all: false }] };
    }
    const { edits = [rest], ...more } = Array.isArray(rest.edits) ? rest : {};
    if (!Array.isArray(edits) || Object.keys(more).length > 0) return undefined;
    const read = edits.map(editOf);
    return read.every((one) => one !== undefined) ? { path, edits: read } : undefined;
  } catch {
    return undefined;
  }
}

function editOf(value: unknown): Edit | undefined {
  if (value === null || typeof value !== "object") return undefined;
  const { old_string: old, new_string: fresh, replace_all: all = false, ...more } = value as Record<string, unknown>;
  if (typeof old !== "string" || typeof fresh !== "string" || typeof all !== "boolean") return undefined;
  return Object.keys(more).length > 0 ? undefined : { old, fresh, all };
}

/** As unified diff, without the places in the file, which nobody knows. */
export function diffOf({ path, edits }: Change): string {
  const parts = edits.map(({ old, fresh, all }) => {
    const lines = unifiedDiff(path, old.slice(0, MOST), fresh.slice(0, MOST)).split("\n").slice(3);
    return [`@@${all ? " everywhere" : ""}`, ...lines.map((line) => (line.startsWith("@@") ? "@@" : line))].join("\n");
  });
  return parts.join("\n");
}

/** All of it, line by line with its mark, for whoever decides about it: nothing is left out. */
export function wholeOf({ path, edits }: Change): string[] {
  return edits.flatMap(({ old, fresh, all }, index) => {
    const diff = unifiedDiff(path, old, fresh, true).split("\n").slice(3);
    // Where only the end of the last line differs, no line does.
    const lines = diff.length > 0 ? diff : fresh.split("\n").map((line) => ` ${line}`);
    const ends = (text: string) => text === "" || text.endsWith("\n");
    const head = all ? ["@@ everywhere in the file"] : index > 0 ? ["@@"] : [];
    const tail = ends(fresh) === ends(old) ? [] : [`@@ ${ends(fresh) ? "with" : "without"} a line break at its end`];
    return [...head, ...lines, ...tail];
  });
}

/** A line of a change wrapped to a width: only its first row has the mark, in the first column. */
export function wrappedLine(raw: string, width: number, look: Look): string[] {
  if (raw.startsWith("@@")) return [look.dim(placeText(raw))];
  const [mark = " ", text] = [raw[0], raw.slice(1)];
  const paint = mark === "+" ? look.green : mark === "-" ? look.red : look.dim;
  const rows = wrapTextWithAnsi(clean(text), Math.max(4, width - 2));
  return (rows.length > 0 ? rows : [""]).map((row, index) => paint(`${index === 0 ? mark : " "} ${row}`));
}

/** Lines of a unified diff, cut to the width: `most` of them, and how many are left out. */
export function diffLines(diff: string, canvas: Canvas, most: number): string[] {
  const { look } = canvas;
  const all = bodyOf(diff.slice(0, MOST * 2));
  // What begins at the beginning needs no word about it.
  const from = /^@@(?:$| -\d+(?:,\d+)? \+1[, ])/.test(all[0] ?? "") ? 1 : 0;
  const shown = all.slice(from, from + most).map((raw) => diffLine(raw, canvas));
  const hidden = all.length - from - shown.length;
  if (hidden > 0) shown.push(look.dim(`… ${hidden} more line${hidden === 1 ? "" : "s"}`));
  return shown.map((line) => `  ${look.dim("│")} ${line}`);
}

/** Without the names of the file: the line above has it. */
function bodyOf(diff: string): string[] {
  const lines = diff.trimEnd().split("\n");
  return /^--- /.test(lines[0] ?? "") && /^\+\+\+ /.test(lines[1] ?? "") ? lines.slice(2) : lines;
}

function diffLine(raw: string, { width, look }: Canvas): string {
  if (raw.startsWith("@@")) return look.dim(placeText(raw));
  const line = cut(`${raw.slice(0, 1)} ${raw.slice(1)}`, width - 4);
  if (raw.startsWith("+")) return look.green(line);
  return raw.startsWith("-") ? look.red(line) : look.dim(line);
}

/** "⋯ line 12" of "@@ -10,3 +12,4 @@". */
function placeText(raw: string): string {
  const line = /^@@ -\d+(?:,\d+)? \+(\d+)/.exec(raw)?.[1];
  return line === undefined ? `⋯${clean(raw.slice(2, 40))}` : `⋯ line ${line}`;
}

function cut(text: string, length: number): string {
  const line = clean(text.slice(0, length * 4)).trimEnd();
  return line.length > length ? `${line.slice(0, Math.max(1, length - 1))}…` : line;
}

/** How much is added and taken away: "+3 −1"; empty where it is no diff. */
export function sizeText(diff: string, { look }: Pick<Canvas, "look">): string {
  const lines = bodyOf(diff.slice(0, MOST * 2));
  const added = lines.filter((line) => line.startsWith("+")).length;
  const taken = lines.filter((line) => line.startsWith("-")).length;
  const more = /^… \d+ more lines$/.test(lines.at(-1) ?? "") ? look.dim("…") : "";
  return [added > 0 ? look.green(`+${added}`) : "", taken > 0 ? look.red(`−${taken}`) : "", more]
    .filter((text) => text !== "")
    .join(" ");
}
