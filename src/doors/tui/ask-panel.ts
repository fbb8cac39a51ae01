/**
 * The panel in which a person answers an approval, by a key.
 *
 * Invariant: what is shown is the canonical arguments, whole or with the number of lines that are left out, every
 * invisible character visible; of a change of a file only what the file holds already is left out. Nothing is allowed by
 * a key that was under way when the question was first seen.
 */
import { Input, matchesKey, visibleWidth, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import type { Decision } from "../../types/approval.ts";
import type { Origin } from "../../util/origins.ts";
import { visible } from "../../util/text.ts";
import type { AskContext } from "./ask-context.ts";
import type { Ask } from "./asks.ts";
import type { Canvas } from "./block.ts";
import { pretty } from "./call-block.ts";
import { type Change, changeOf, comparedWith, type FileNow, wholeOf, wrappedLine } from "./change.ts";
import { clean, cleanLine, lookAlikes } from "./clean.ts";
import type { Look } from "./style.ts";

/** Milliseconds, and so many of them without a key, after which one counts as an answer: those before meant something else. */
const MOMENT = 50;
const MOMENTS = 5;

/**
 * Whether keys mean a question by now: whoever types on as it comes has to pause first, and what nobody has seen cannot
 * be answered. It is counted and not measured: keys that were hit while this process stood still come before the count
 * goes on.
 */
export class Settling {
  #quiet = 0;
  #timer: NodeJS.Timeout | undefined;

  /** It is drawn. */
  seen(): void {
    if (this.#quiet >= MOMENTS) return;
    this.#timer ??= setInterval(() => {
      if (++this.#quiet >= MOMENTS) clearInterval(this.#timer);
    }, MOMENT).unref();
  }

  /** A key came. True: it was not meant for the question. */
  swallows(): boolean {
    if (this.#quiet >= MOMENTS) return false;
    this.#quiet = 0;
    return true;
  }
}

export interface Panel {
  draw(canvas: Canvas, height: number): string[];
  /** A key. False: it means nothing here. */
  key(data: string): boolean;
  focused: boolean;
}

/** Characters of arguments that are shown as a change of a file. */
const LARGEST = 200_000;
/** Characters of a text that is wrapped between words. */
const READABLE = 20_000;

type ApprovalAsk = Extract<Ask, { kind: "approval" }>;

export class ApprovalPanel implements Panel {
  readonly #ask: ApprovalAsk;
  readonly #done: (decision: Decision | undefined) => void;
  readonly #settling = new Settling();
  #warnings: string[] | undefined;
  #why: Input | undefined;
  #from = 0;
  #room = 6;
  #lines: { width: number; all: string[] } | undefined;
  /** Undefined: it is being read. */
  #context: AskContext | undefined;
  focused = false;

  /** `context`: the file that it is about, and where it comes from. */
  constructor(
    ask: ApprovalAsk,
    done: (decision: Decision | undefined) => void,
    context: Promise<AskContext> = Promise.resolve({}),
  ) {
    this.#ask = ask;
    this.#done = done;
    const know = (known: AskContext) => {
      this.#context = known;
      this.#lines = undefined;
    };
    context.then(know, () => know({}));
  }

  key(data: string): boolean {
    if (this.#why) {
      if (matchesKey(data, "escape")) this.#why = undefined;
      else this.#why.handleInput(data);
      return true;
    }
    if (matchesKey(data, "pageDown") || matchesKey(data, "down")) this.#from += this.#room;
    else if (matchesKey(data, "pageUp") || matchesKey(data, "up")) this.#from = Math.max(0, this.#from - this.#room);
    else if (this.#settling.swallows()) return true;
    else if (matchesKey(data, "escape")) this.#done(undefined);
    else return this.#letter(data);
    return true;
  }

  #letter(data: string): boolean {
    const by = { by: "terminal", door: "tui", who: "local" };
    const narrow = !this.#ask.approval.pattern.endsWith("()");
    if (data === "y" || data === "1") this.#done({ decision: "allow", scope: "once", ...by });
    else if ((data === "s" || data === "2") && narrow) this.#done({ decision: "allow", scope: "session", ...by });
    else if ((data === "a" || data === "3") && narrow) this.#done({ decision: "allow", scope: "always", ...by });
    else if (data === "n" || data === "4") {
      this.#why = new Input({ prompt: "" });
      this.#why.onSubmit = (text) => {
        const reason = text.trim();
        this.#done({ decision: "deny", ...by, ...(reason !== "" && { reason }) });
      };
    } else return false;
    return true;
  }

  draw(canvas: Canvas, height: number): string[] {
    const { width, look } = canvas;
    const { approval } = this.#ask;
    this.#settling.seen();
    const inner = Math.max(8, width - 4);
    const bar = look.yellow("│");
    this.#warnings ??= lookAlikes(`${approval.arguments} ${approval.tool}`);
    const warnings = this.#warnings.flatMap((text) =>
      wrapTextWithAnsi(look.red(`letters of another alphabet: ${clean(text)}`), inner),
    );
    const title = `${look.bold(`${cleanLine(approval.tool)} asks for permission`)} ${look.dim(`· ${cleanLine(approval.why, 500)}`)}`;
    const head = [title, ...originLines(this.#context?.origin, look)].flatMap((line) =>
      wrapTextWithAnsi(line, Math.max(8, width - 2)),
    );
    const all = this.#body(inner, canvas);
    this.#room = Math.max(2, height - 5 - head.length - warnings.length);
    this.#from = Math.min(this.#from, Math.max(0, all.length - this.#room));
    const shown = all.slice(this.#from, this.#from + this.#room);
    const left = all.length - this.#from - shown.length;
    const lines = [
      ...head.map((line, index) => `${index === 0 ? look.yellow("╭") : bar} ${line}`),
      ...shown.map((line) => `${bar} ${line}`),
    ];
    if (left > 0 || this.#from > 0)
      lines.push(
        `${bar} ${look.dim(`lines ${this.#from + 1}–${this.#from + shown.length} of ${all.length}: ↑ ↓ show the others`)}`,
      );
    for (const warning of warnings) lines.push(`${bar} ${warning}`);
    lines.push(...this.#answers(canvas));
    return lines;
  }

  /** All of the arguments: a command and a change of a file as they will be, others as JSON. */
  #body(inner: number, { look }: Canvas): string[] {
    const { tool, arguments: given } = this.#ask.approval;
    if (this.#lines?.width === inner) return this.#lines.all;
    const change = given.length > LARGEST ? undefined : changeOf(tool, given);
    const text = tool === "bash" ? commandOf(given) : pretty(given);
    const all = change
      ? changed(change, tool, this.#context?.file, inner, look)
      : rowsOf(visible(text).replaceAll("\t", "    "), inner);
    this.#lines = { width: inner, all };
    return all;
  }

  #answers({ width, look }: Canvas): string[] {
    const bar = look.yellow("╰");
    if (this.#why) {
      this.#why.focused = this.focused;
      const [line = ""] = this.#why.render(Math.max(10, width - 32));
      return [`${bar} ${look.bold("no, because")} ${line} ${look.dim("enter · esc back")}`];
    }
    const key = (letter: string, text: string) => `${look.bold(letter)} ${text}`;
    const { pattern } = this.#ask.approval;
    const further = pattern.endsWith("()") ? [] : [key("s", "session"), key("a", `always ${clean(pattern)}`)];
    const choices = [key("y", "once"), ...further, key("n", "no, and why"), key("esc", "later")];
    const rows = inRows(choices, Math.max(10, width - 3));
    return rows.map((row, index) => `${index === rows.length - 1 ? bar : look.yellow("│")} ${row}`);
  }
}

/** A change of a file against what the file holds now, as far as that is known. */
function changed(change: Change, tool: string, file: FileNow | undefined, inner: number, look: Look): string[] {
  const compared = file && comparedWith(change, tool, file);
  const { about, fails, lines } = compared ?? { about: "", fails: false, lines: wholeOf(change) };
  const told = about === "" ? "" : ` ${(fails ? look.red : look.dim)(`· ${clean(about)}`)}`;
  const head = wrapTextWithAnsi(`${look.bold(clean(change.path))}${told}`, inner);
  return [...head, ...lines.flatMap((line) => wrappedLine(line, inner, look))];
}

/** Whose question it is, where it is none of this screen's. */
function originLines(origin: Origin | undefined, look: Look): string[] {
  if (!origin) return [];
  const said = cleanLine(origin.prompt ?? "", 120) || "(no text)";
  return [
    `${look.dim("of another conversation:")} ${look.bold(said)}`,
    look.dim(`${clean(origin.workspace)} · door: ${clean(origin.door)}`),
  ];
}

/** All of a text in rows of a width; a long one is cut anywhere, for to look for words in it would stop everything else. */
function rowsOf(text: string, width: number): string[] {
  if (text.length <= READABLE) return wrapTextWithAnsi(text, width);
  return text.split("\n").flatMap((line) => {
    if (line.length <= width / 2) return line;
    if (/^[ -~]*$/.test(line)) return line.match(new RegExp(`.{1,${width}}`, "g")) ?? "";
    // No letter is wider than two columns.
    return line.match(new RegExp(`.{1,${Math.floor(width / 2)}}`, "gu")) ?? "";
  });
}

/** One after the other, in as many rows as it takes; none is torn apart. */
function inRows(choices: readonly string[], width: number): string[] {
  const rows: string[] = [];
  for (const choice of choices) {
    const longer = `${rows.at(-1) ?? ""}   ${choice}`;
    if (rows.length > 0 && visibleWidth(longer) <= width) rows[rows.length - 1] = longer;
    else rows.push(...wrapTextWithAnsi(choice, width));
  }
  return rows;
}

/** A command as it will run, below the rest of its arguments. */
function commandOf(text: string): string {
  try {
    const { command, ...rest } = JSON.parse(text) as { command?: unknown };
    if (typeof command !== "string") return pretty(text);
    return Object.keys(rest).length === 0 ? command : `${command}\n${JSON.stringify(rest)}`;
  } catch {
    return text;
  }
}
