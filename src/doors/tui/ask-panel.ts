/**
 * The panel in which a person answers an approval, by a key.
 *
 * Invariant: what is shown is the canonical arguments, whole or with the number of lines that are left out, every
 * invisible character visible; nothing is allowed by a key that was under way when the question came.
 */
import { Input, matchesKey, visibleWidth, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import type { Decision } from "../../types/approval.ts";
import { visible } from "../../util/text.ts";
import type { Ask } from "./asks.ts";
import type { Canvas } from "./block.ts";
import { pretty } from "./call-block.ts";
import { changeOf, wholeOf, wrappedLine } from "./change.ts";
import { clean, lookAlikes } from "./clean.ts";

/** Milliseconds for which keys do not count as an answer: they were meant for something else. */
export const SETTLE = 250;

export interface Panel {
  draw(canvas: Canvas, height: number): string[];
  /** A key. False: it means nothing here. */
  key(data: string): boolean;
  focused: boolean;
}

/** Characters of arguments that are shown as a change of a file. */
const LARGEST = 2_000_000;

type ApprovalAsk = Extract<Ask, { kind: "approval" }>;

export class ApprovalPanel implements Panel {
  readonly #ask: ApprovalAsk;
  readonly #done: (decision: Decision | undefined) => void;
  readonly #shown: number;
  #why: Input | undefined;
  #from = 0;
  #room = 6;
  #lines: { width: number; all: string[] } | undefined;
  focused = false;

  constructor(ask: ApprovalAsk, done: (decision: Decision | undefined) => void) {
    this.#ask = ask;
    this.#done = done;
    this.#shown = performance.now();
  }

  key(data: string): boolean {
    if (this.#why) {
      if (matchesKey(data, "escape")) this.#why = undefined;
      else this.#why.handleInput(data);
      return true;
    }
    if (matchesKey(data, "pageDown") || matchesKey(data, "down")) this.#from += this.#room;
    else if (matchesKey(data, "pageUp") || matchesKey(data, "up")) this.#from = Math.max(0, this.#from - this.#room);
    else if (performance.now() - this.#shown < SETTLE) return true;
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
    const inner = Math.max(8, width - 4);
    const bar = look.yellow("│");
    const warnings = lookAlikes(approval.arguments).map((text) =>
      look.red(`letters of another alphabet: ${clean(text)}`),
    );
    const all = this.#body(inner, canvas);
    this.#room = Math.max(2, height - 6 - warnings.length);
    this.#from = Math.min(this.#from, Math.max(0, all.length - this.#room));
    const shown = all.slice(this.#from, this.#from + this.#room);
    const left = all.length - this.#from - shown.length;
    const lines = [
      `${look.yellow("╭")} ${look.yellow(look.bold(`${clean(approval.tool)} asks for permission`))} ${look.dim(`· ${clean(approval.why)}`)}`,
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
      ? [
          ...wrapTextWithAnsi(look.bold(clean(change.path)), inner),
          ...wholeOf(change).flatMap((line) => wrappedLine(line, inner, look)),
        ]
      : wrapTextWithAnsi(visible(text).replaceAll("\t", "    "), inner);
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
    const key = (letter: string, text: string) => `${look.bold(look.yellow(letter))} ${text}`;
    const { pattern } = this.#ask.approval;
    const further = pattern.endsWith("()") ? [] : [key("s", "session"), key("a", `always ${clean(pattern)}`)];
    const choices = [key("y", "once"), ...further, key("n", "no, and why"), key("esc", "later")];
    const rows = inRows(choices, Math.max(10, width - 3));
    return rows.map((row, index) => `${index === rows.length - 1 ? bar : look.yellow("│")} ${row}`);
  }
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
