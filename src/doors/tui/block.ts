/**
 * Block: one piece of the transcript, and the kinds that are plain text.
 *
 * Invariant: a block draws lines that are no wider than it was told, out of text that was cleaned; what it drew is
 * kept until it changes, so that a frame costs what is on the screen and not what was ever said.
 */
import { truncateToWidth, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import { toRotundaError } from "../../types/error.ts";
import { clean, cleanLine, guard } from "./clean.ts";
import type { markdownLines } from "./markdown.ts";
import { durationText, type Look, spinner } from "./style.ts";

export interface Canvas {
  width: number;
  look: Look;
  /** Milliseconds, for what moves. */
  now: number;
}

export abstract class Block {
  /** A blank line stands above it. */
  gap = true;
  /** Whether it shows all that it has. */
  open = false;
  /** It changes with time alone: drawn anew in every frame. */
  live = false;
  #lines: readonly string[] | undefined;
  #width = 0;

  /** It can be opened. */
  get foldable(): boolean {
    return false;
  }

  /** Characters that it holds, about. */
  abstract get weight(): number;

  protected abstract draw(canvas: Canvas): string[];

  lines(canvas: Canvas): readonly string[] {
    if (this.#lines && this.#width === canvas.width && !this.live) return this.#lines;
    const drawn = this.draw(canvas).map((line) => guard(truncateToWidth(line, canvas.width, "…")));
    this.#width = canvas.width;
    this.#lines = this.gap ? ["", ...drawn] : drawn;
    return this.#lines;
  }

  changed(): void {
    this.#lines = undefined;
  }

  toggle(open = !this.open): void {
    this.open = open;
    this.changed();
  }
}

/** Lines of an opened block at most: the rest is in the store (`rotunda show`). */
export const OPENED = 500;
const FOLDED = 10;

/** Lines of a text; what ends the last one begins no other. */
export function lineCount(text: string): number {
  return text === "" ? 0 : withoutEnd(text).split("\n").length;
}

function withoutEnd(text: string): string {
  return text.endsWith("\n") ? text.slice(0, text.endsWith("\r\n") ? -2 : -1) : text;
}

/** The first lines of a text, wrapped, without looking at the rest of it. `hidden`: lines of the text that are left out. */
export function headOf(whole: string, width: number, most: number): { lines: string[]; hidden: number } {
  const inner = Math.max(8, width);
  const text = withoutEnd(whole);
  const part = text.slice(0, most * inner);
  const lines: string[] = [];
  // Those that are shown to their end: a long one fills several rows.
  let complete = 0;
  for (const line of clean(part).split("\n")) {
    lines.push(...wrapTextWithAnsi(line, inner));
    if (lines.length > most) break;
    complete++;
  }
  if (part.length === text.length && lines.length <= most) return { lines, hidden: 0 };
  const total = text.length > 5_000_000 ? Number.POSITIVE_INFINITY : lineCount(text);
  return { lines: lines.slice(0, most), hidden: Math.max(1, total - complete) };
}

function moreText(hidden: number, length: number): string {
  const lines = Number.isFinite(hidden) ? `${hidden.toLocaleString("en")} more line${hidden === 1 ? "" : "s"}` : "more";
  return `… ${lines} (${length.toLocaleString("en")} characters)`;
}

/** What a person said. */
export class SaidBlock extends Block {
  readonly #text: string;
  readonly #mark: string;
  /** Closed, it leaves something out. */
  #hides: boolean;

  /** `mark`: "❯", or "↪" for what was said into a running turn. */
  constructor(text: string, mark = "❯") {
    super();
    this.#text = text;
    this.#mark = mark;
    this.#hides = text.length > 400 || lineCount(text) > FOLDED;
  }

  override get foldable(): boolean {
    return this.#hides;
  }

  get weight(): number {
    return this.#text.length;
  }

  protected draw({ width, look }: Canvas): string[] {
    const { lines, hidden } = headOf(this.#text, width - 2, this.open ? OPENED : FOLDED);
    if (!this.open) this.#hides = hidden > 0;
    const shown = lines.map((line, index) => `${index === 0 ? look.blue(this.#mark) : " "} ${look.bold(line)}`);
    if (hidden > 0) shown.push(`  ${look.dim(moreText(hidden, this.#text.length))}`);
    return shown;
  }
}

/** What the model thought before it spoke. */
export class ReasoningBlock extends Block {
  #text = "";
  readonly #began: number;
  #took: number | undefined;

  constructor(began: number) {
    super();
    this.#began = began;
    this.live = true;
  }

  override get foldable(): boolean {
    return true;
  }

  get weight(): number {
    return this.#text.length;
  }

  add(delta: string): void {
    this.#text += delta;
  }

  /** `took`: milliseconds; undefined where nobody knows. */
  finish(took: number | undefined, text?: string): void {
    if (text !== undefined) this.#text = text;
    this.#took = took;
    this.live = false;
    this.changed();
  }

  protected draw({ width, look, now }: Canvas): string[] {
    const inner = Math.max(8, width - 4);
    if (this.live) {
      const tail = wrapTextWithAnsi(clean(this.#text.slice(-4 * inner)), inner).slice(-3);
      const head = `${look.yellow(spinner(now))} ${look.yellow("thinking")} ${look.dim(durationText(now - this.#began))}`;
      return [head, ...tail.map((line) => `  ${look.yellow("│")} ${look.italic(line)}`)];
    }
    const took = this.#took === undefined ? "" : ` ${durationText(this.#took)}`;
    const head = `${look.yellow("∴")} ${look.yellow(`thought${took}`)}`;
    if (!this.open) return [`${head} ${look.dim(`· ${cleanLine(this.#text, Math.max(8, width - 20))}`)}`];
    const { lines, hidden } = headOf(this.#text, inner, OPENED);
    const shown = lines.map((line) => `  ${look.yellow("│")} ${look.italic(line)}`);
    if (hidden > 0) shown.push(`  ${look.dim(moreText(hidden, this.#text.length))}`);
    return [head, ...shown];
  }
}

let markdown: typeof markdownLines | undefined;

/** Until then answers are drawn as the text that they are. */
export async function loadMarkdown(): Promise<void> {
  markdown ??= (await import("./markdown.ts")).markdownLines;
}

/** Part of an answer. A long one is many of them, so that only its end is drawn anew while it streams. */
export class AnswerBlock extends Block {
  #text: string;
  readonly #first: boolean;

  constructor(first: boolean, text = "") {
    super();
    this.#first = first;
    this.#text = text;
  }

  get weight(): number {
    return this.#text.length;
  }

  get text(): string {
    return this.#text;
  }

  set text(text: string) {
    this.#text = text;
    this.changed();
  }

  protected draw({ width, look }: Canvas): string[] {
    const inner = Math.max(8, width - 2);
    const text = clean(this.#text);
    const lines = markdown?.(text, inner, look) ?? wrapTextWithAnsi(text, inner);
    // A part that was cut off at the end of a paragraph ends with its blank line: the gap of the next one is that.
    while (lines.length > 1 && lines.at(-1) === "") lines.pop();
    return lines.map((line, index) => `${index === 0 && this.#first ? look.green("●") : " "} ${line}`);
  }
}

/** A word of ours: a notice, an error, where something was left. */
export class NoteBlock extends Block {
  readonly #text: string;
  readonly #kind: "info" | "warn" | "error" | "plain";

  constructor(text: string, kind: "info" | "warn" | "error" | "plain" = "info") {
    super();
    this.#text = text;
    this.#kind = kind;
  }

  get weight(): number {
    return this.#text.length;
  }

  protected draw({ width, look }: Canvas): string[] {
    const paint = { info: look.dim, warn: look.yellow, error: look.red, plain: (text: string) => text }[this.#kind];
    const { lines, hidden } = headOf(this.#text, width - 2, OPENED);
    const shown = lines.map((line) => `  ${paint(line)}`);
    if (hidden > 0) shown.push(`  ${look.dim(moreText(hidden, this.#text.length))}`);
    return shown;
  }
}

/** What went wrong, and what helps. */
export function failureText(error: unknown): string {
  const { message, remedy, code } = toRotundaError(error);
  return `[error] ${message}${remedy === undefined ? "" : `\n${remedy}`}${code === "internal" ? " [internal]" : ""}`;
}

/** A list of ours: names, and beside each what there is to say of it. */
export class ListBlock extends Block {
  readonly #rows: readonly (readonly [string, string])[];
  readonly #end: string;

  constructor(rows: readonly (readonly [string, string])[], end = "") {
    super();
    this.#rows = rows.map(([name, text]) => [clean(name), clean(text)]);
    this.#end = end;
  }

  get weight(): number {
    return this.#rows.reduce((sum, [name, text]) => sum + name.length + text.length, 0);
  }

  protected draw({ width, look }: Canvas): string[] {
    const inner = Math.max(20, width - 4);
    const column = Math.min(Math.max(...this.#rows.map(([name]) => name.length), 0), Math.floor(inner * 0.45));
    const lines = this.#rows.flatMap(([name, text]) => {
      const said = wrapTextWithAnsi(text, Math.max(8, inner - column - 2));
      const under = name.length > column ? [`  ${name}`] : [];
      const shown = said.length > 0 ? said : [""];
      return [
        ...under,
        ...shown.map((line, index) => {
          const left = index === 0 && under.length === 0 ? name : "";
          return `  ${left.padEnd(column)}  ${look.dim(line)}`;
        }),
      ];
    });
    return this.#end === "" ? lines : [...lines, "", `  ${this.#end}`];
  }
}

/** Something by hand and what came of it: `!command`. */
export class OutputBlock extends Block {
  readonly #command: string;
  #output: string | undefined;
  #failed = false;

  constructor(command: string) {
    super();
    this.#command = command;
    this.live = true;
  }

  override get foldable(): boolean {
    return this.#output !== undefined;
  }

  get weight(): number {
    return this.#command.length + (this.#output?.length ?? 0);
  }

  finish(output: string, failed: boolean): void {
    this.#output = output;
    this.#failed = failed;
    this.live = false;
    this.changed();
  }

  protected draw({ width, look, now }: Canvas): string[] {
    const mark = this.live ? look.cyan(spinner(now)) : look.cyan("!");
    const head = `${mark} ${look.bold(cleanLine(this.#command, width))}`;
    if (this.#output === undefined) return [head];
    const { lines, hidden } = headOf(this.#output, width - 4, this.open ? OPENED : FOLDED);
    const paint = this.#failed ? look.red : (text: string) => text;
    const shown = lines.map((line) => `  ${look.dim("│")} ${paint(line)}`);
    if (hidden > 0) shown.push(`  ${look.dim(moreText(hidden, this.#output.length))}`);
    return [head, ...shown];
  }
}
