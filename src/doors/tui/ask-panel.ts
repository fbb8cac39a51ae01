/**
 * The panel in which a person answers: an approval by a key, a question of an MCP server by a form.
 *
 * Invariant: what is shown is the canonical arguments, whole or with the number of lines that are left out, every
 * invisible character visible; nothing is allowed by a key that was under way when the question came.
 */
import { Input, matchesKey, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import type { Decision } from "../../types/approval.ts";
import type { ElicitationAnswer } from "../../types/elicitation.ts";
import type { Json, JsonObject } from "../../types/json.ts";
import { visible } from "../../util/text.ts";
import type { Ask } from "./asks.ts";
import type { Canvas } from "./block.ts";
import { pretty } from "./call-block.ts";
import { clean, lookAlikes } from "./clean.ts";

/** Milliseconds for which keys do not count as an answer: they were meant for something else. */
const SETTLE = 250;

export interface Panel {
  draw(canvas: Canvas, height: number): string[];
  /** A key. False: it means nothing here. */
  key(data: string): boolean;
  focused: boolean;
}

type ApprovalAsk = Extract<Ask, { kind: "approval" }>;
type QuestionAsk = Extract<Ask, { kind: "question" }>;

export class ApprovalPanel implements Panel {
  readonly #ask: ApprovalAsk;
  readonly #done: (decision: Decision | undefined) => void;
  readonly #shown: number;
  #why: Input | undefined;
  #from = 0;
  #room = 6;
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
      this.#why = new Input();
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
    const text = approval.tool === "bash" ? commandOf(approval.arguments) : pretty(approval.arguments);
    const all = wrapTextWithAnsi(visible(text.slice(0, 100_000)).replaceAll("\t", "    "), inner);
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

  #answers({ width, look }: Canvas): string[] {
    const bar = look.yellow("╰");
    if (this.#why) {
      this.#why.focused = this.focused;
      const [line = ""] = this.#why.render(Math.max(10, width - 32));
      return [`${bar} ${look.bold("no, because")} ${line} ${look.dim("enter · esc back")}`];
    }
    const key = (letter: string, text: string) => `${look.bold(look.yellow(letter))} ${text}`;
    const { pattern } = this.#ask.approval;
    const further = pattern.endsWith("()") ? [] : [key("s", "this session"), key("a", `always ${clean(pattern)}`)];
    const choices = [key("y", "once"), ...further, key("n", "no, and why"), key("esc", "later")];
    return wrapTextWithAnsi(choices.join("   "), Math.max(10, width - 3)).map((line) => `${bar} ${line}`);
  }
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

interface Field {
  name: string;
  title: string;
  schema: JsonObject;
}

/** A form with one line for each field, or a link. */
export class QuestionPanel implements Panel {
  readonly #ask: QuestionAsk;
  readonly #done: (answer: ElicitationAnswer | undefined) => void;
  readonly #fields: Field[];
  readonly #shown: number;
  readonly #values: JsonObject = {};
  #input = new Input();
  #index = 0;
  #problem = "";
  focused = false;

  constructor(ask: QuestionAsk, done: (answer: ElicitationAnswer | undefined) => void) {
    this.#ask = ask;
    this.#done = done;
    this.#shown = performance.now();
    const schema = ask.elicitation.requestedSchema as { properties?: Record<string, JsonObject> } | null;
    this.#fields = Object.entries(schema?.properties ?? {}).map(([name, field]) => ({
      name,
      title: typeof field.title === "string" ? field.title : name,
      schema: field,
    }));
    this.#prepare();
  }

  #prepare(): void {
    this.#input = new Input();
    const given = this.#fields[this.#index]?.schema.default;
    if (given !== undefined && given !== null) this.#input.setValue(String(given));
    this.#input.onSubmit = (text) => this.#next(text);
  }

  #next(text: string): void {
    const field = this.#fields[this.#index];
    if (field) {
      const value = fieldValue(text.trim(), field.schema);
      if (value === undefined) {
        this.#problem = `that is no ${String(field.schema.type)}`;
        return;
      }
      this.#problem = "";
      if (text.trim() !== "") this.#values[field.name] = value;
    }
    this.#index++;
    if (this.#index < this.#fields.length) this.#prepare();
    else this.#done({ action: "accept", ...(this.#fields.length > 0 && { content: this.#values }) });
  }

  key(data: string): boolean {
    if (performance.now() - this.#shown < SETTLE) return true;
    if (matchesKey(data, "escape")) this.#done(undefined);
    else if (matchesKey(data, "ctrl+d")) this.#done({ action: "decline" });
    else if (this.#fields.length === 0) {
      if (!matchesKey(data, "enter")) return false;
      this.#next("");
    } else this.#input.handleInput(data);
    return true;
  }

  draw({ width, look }: Canvas, height: number): string[] {
    const { server, message, url } = this.#ask.elicitation;
    const bar = look.yellow("│");
    const inner = Math.max(8, width - 4);
    const text = wrapTextWithAnsi(clean(message), inner).slice(0, Math.max(2, height - 6));
    const lines = [
      `${look.yellow("╭")} ${look.yellow(look.bold(`${clean(server)} asks`))}`,
      ...text.map((line) => `${bar} ${line}`),
    ];
    if (url !== null)
      lines.push(`${bar} ${look.underline(clean(url))}`, `${bar} ${look.dim("open it yourself if you trust it")}`);
    const field = this.#fields[this.#index];
    if (field) {
      this.#input.focused = this.focused;
      const choices = Array.isArray(field.schema.enum) ? ` (${clean(field.schema.enum.join(", "))})` : "";
      const label = `${clean(field.title)}${choices}`.slice(0, Math.max(10, width - 30));
      const [line = ""] = this.#input.render(Math.max(10, width - label.length - 5));
      lines.push(`${bar} ${look.bold(label)} ${line}`);
      if (this.#problem !== "") lines.push(`${bar} ${look.red(this.#problem)}`);
    }
    const step = this.#fields.length > 1 ? ` ${this.#index + 1} of ${this.#fields.length}` : "";
    lines.push(`${look.yellow("╰")} ${look.dim(`enter answers${step} · ctrl+d declines · esc later`)}`);
    return lines;
  }
}

/** Undefined: the text is none of the kind. */
function fieldValue(text: string, schema: JsonObject): Json | undefined {
  if (text === "") return "";
  if (schema.type === "boolean") {
    if (/^(?:y|yes|true|1)$/i.test(text)) return true;
    return /^(?:n|no|false|0)$/i.test(text) ? false : undefined;
  }
  if (schema.type === "number" || schema.type === "integer") {
    const value = Number(text);
    return Number.isFinite(value) ? value : undefined;
  }
  return text;
}
