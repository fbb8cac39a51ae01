/**
 * The panel for a question of an MCP server: a form, or a link that the person opens.
 *
 * Invariant: who asks, what, and where a link leads stand there whole and cleaned, a long text to be scrolled; nothing
 * is chosen or sent for the person, and keys that were under way when the question came do not count.
 */
import { Input, matchesKey, truncateToWidth, visibleWidth, wrapTextWithAnsi } from "@earendil-works/pi-tui";
import type { ElicitationAnswer } from "../../types/elicitation.ts";
import type { Json, JsonObject } from "../../types/json.ts";
import { type Panel, Settling } from "./ask-panel.ts";
import type { Ask } from "./asks.ts";
import type { Canvas } from "./block.ts";
import { clean, cleanLine, lookAlikes } from "./clean.ts";
import { type Field, faultOf, fieldsOf, typedValue } from "./form.ts";
import type { Look } from "./style.ts";

type QuestionAsk = Extract<Ask, { kind: "question" }>;

/** A field and what stands in it. */
interface Row {
  field: Field;
  input: Input;
  /** Option that the keyboard is at; -1: none yet. */
  at: number;
  chosen: Set<number>;
}

/** Rows of a form that are shown at once. */
const ROWS = 8;

export class QuestionPanel implements Panel {
  readonly #ask: QuestionAsk;
  readonly #done: (answer: ElicitationAnswer | undefined) => Promise<string | undefined>;
  readonly #rows: Row[];
  readonly #settling = new Settling();
  #index = 0;
  /** Rows of the text: the first that is shown, and how many have room. */
  #from = 0;
  #room = 1;
  #problem = "";
  #sent = false;
  focused = false;

  /** `done`: undefined is "later"; resolves with why an answer was not taken. */
  constructor(ask: QuestionAsk, done: (answer: ElicitationAnswer | undefined) => Promise<string | undefined>) {
    this.#ask = ask;
    this.#done = done;
    this.#rows = fieldsOf(ask.elicitation).map(rowOf);
  }

  get #row(): Row | undefined {
    return this.#rows[this.#index];
  }

  #send(answer: ElicitationAnswer | undefined): void {
    if (this.#sent) return;
    this.#sent = true;
    this.#done(answer).then(
      (problem) => {
        this.#sent = false;
        this.#problem = problem ?? "";
      },
      () => undefined,
    );
  }

  #move(by: number): void {
    this.#problem = "";
    this.#index = Math.max(0, Math.min(this.#rows.length - 1, this.#index + by));
  }

  /** The next field, or all of it away. */
  #enter(): void {
    const row = this.#row;
    const fault = row && faultOf(row.field, givenIn(row));
    if (fault !== undefined) {
      this.#problem = fault;
      return;
    }
    if (this.#index < this.#rows.length - 1) {
      this.#move(1);
      return;
    }
    const wrong = this.#rows.findIndex((one) => faultOf(one.field, givenIn(one)) !== undefined);
    const first = this.#rows[wrong];
    if (first) {
      this.#index = wrong;
      this.#problem = faultOf(first.field, givenIn(first)) ?? "";
      return;
    }
    const content: JsonObject = {};
    for (const one of this.#rows) {
      const value = givenIn(one);
      if (value !== undefined) content[one.field.name] = value;
    }
    this.#send({ action: "accept", ...(this.#rows.length > 0 && { content }) });
  }

  key(data: string): boolean {
    if (matchesKey(data, "pageDown")) this.#from += this.#room;
    else if (matchesKey(data, "pageUp")) this.#from = Math.max(0, this.#from - this.#room);
    else if (!this.#settling.swallows()) this.#answer(data);
    return true;
  }

  #answer(data: string): void {
    if (matchesKey(data, "escape")) this.#send(undefined);
    else if (matchesKey(data, "ctrl+d")) this.#send({ action: "decline" });
    else if (matchesKey(data, "enter")) this.#enter();
    else if (matchesKey(data, "up") || matchesKey(data, "shift+tab")) this.#move(-1);
    else if (matchesKey(data, "down") || matchesKey(data, "tab")) this.#move(1);
    else this.#fill(data);
  }

  #fill(data: string): void {
    const row = this.#row;
    if (!row) return;
    this.#problem = "";
    const { options, several } = row.field;
    if (options.length === 0) row.input.handleInput(data);
    else if (matchesKey(data, "left")) row.at = Math.max(0, row.at - 1);
    else if (matchesKey(data, "right")) row.at = Math.min(options.length - 1, row.at + 1);
    else if (matchesKey(data, "space") && several && row.at >= 0) {
      if (!row.chosen.delete(row.at)) row.chosen.add(row.at);
    } else {
      const found = options.findIndex(({ label }) => label.toLowerCase().startsWith(data.toLowerCase()));
      if (found !== -1) row.at = found;
    }
  }

  draw(canvas: Canvas, height: number): string[] {
    const { width, look } = canvas;
    const { server, message } = this.#ask.elicitation;
    this.#settling.seen();
    const bar = look.yellow("│");
    const inner = Math.max(8, width - 4);
    const form = this.#rows.length === 0 ? this.#link(canvas, inner) : this.#form(canvas, inner);
    return [
      `${look.yellow("╭")} ${look.bold(`${cleanLine(server)} asks`)}`,
      ...[...this.#text(clean(message), inner, height - 2 - form.length, look), ...form].map(
        (line) => `${bar} ${line}`,
      ),
      ...wrapTextWithAnsi(look.dim(this.#keys()), inner).map(
        (line, index, all) => `${look.yellow(index === all.length - 1 ? "╰" : "│")} ${line}`,
      ),
    ];
  }

  /** What is asked; of a long text the part that is looked at, and how much there is. */
  #text(message: string, inner: number, room: number, look: Look): string[] {
    const all = wrapTextWithAnsi(message, inner);
    if (all.length <= Math.max(1, room)) return all;
    this.#room = Math.max(1, room - 1);
    this.#from = Math.min(this.#from, all.length - this.#room);
    const to = this.#from + this.#room;
    const place = `lines ${this.#from + 1}–${to} of ${all.length}: page up and down show the others`;
    return [...all.slice(this.#from, to), look.dim(place)];
  }

  #keys(): string {
    if (this.#sent) return "sending …";
    const end = "ctrl+d declines · esc later";
    if (this.#ask.elicitation.url !== null) return `enter I opened it, go on · ${end}`;
    if (this.#rows.length === 0) return `enter agrees · ${end}`;
    const { options = [], several } = this.#row?.field ?? {};
    const choose = options.length === 0 ? "" : several ? "← → space choose · " : "← → choose · ";
    const more = this.#rows.length > 1 ? "↑ ↓ fields · " : "";
    return `enter ${this.#index < this.#rows.length - 1 ? "next" : "sends"} · ${choose}${more}${end}`;
  }

  #link({ look }: Canvas, inner: number): string[] {
    const { url } = this.#ask.elicitation;
    if (url === null) return [];
    const { host, protocol } = new URL(url);
    const [before = "", ...after] = clean(url).split(host);
    const shown = after.length === 0 ? before : `${before}${look.bold(host)}${after.join(host)}`;
    return [
      "",
      ...wrapTextWithAnsi(look.underline(shown), inner),
      ...(url.startsWith(`${protocol}//${host}`) ? [] : [`leads to ${look.bold(clean(host))}`]),
      ...lookAlikes(url).map((text) => look.red(`letters of another alphabet: ${clean(text)}`)),
      look.dim("Open it yourself, if you trust it: nothing here does."),
    ];
  }

  #form({ look }: Canvas, inner: number): string[] {
    const from = Math.max(0, Math.min(this.#index - ROWS + 2, this.#rows.length - ROWS));
    const shown = this.#rows.slice(from, from + ROWS);
    const column = Math.min(
      Math.floor(inner / 3),
      Math.max(...shown.map(({ field }) => visibleWidth(field.title))) + 2,
    );
    const lines = shown.flatMap((row, index) => this.#line(row, from + index, { look, column, inner }));
    if (shown.length < this.#rows.length)
      lines.push(look.dim(`fields ${from + 1}–${from + shown.length} of ${this.#rows.length}`));
    return ["", ...lines];
  }

  #line(row: Row, index: number, { look, column, inner }: { look: Look; column: number; inner: number }): string[] {
    const { field, input } = row;
    const here = index === this.#index;
    const title = truncateToWidth(`${field.title}${field.required ? "*" : ""}`, column, "…");
    const name = `${title}${" ".repeat(Math.max(0, column - visibleWidth(title)))}`;
    const room = Math.max(10, inner - column - 3);
    input.focused = this.focused && here;
    const indented = (line: string) => `${" ".repeat(column + 3)}${line}`;
    const under = (text: string) => wrapTextWithAnsi(text, room).map(indented);
    const value =
      field.options.length > 0 ? wrapTextWithAnsi(optionsText(row, here, look), room) : [textOf(input, here, room)];
    const [first = "", ...more] = value;
    const lines = [
      `${here ? look.cyan("▸") : " "} ${here ? look.bold(name) : look.dim(name)} ${first}`,
      ...more.map(indented),
    ];
    if (here && field.description !== "") lines.push(...under(look.dim(field.description)));
    if (here && this.#problem !== "") lines.push(...under(look.red(clean(this.#problem))));
    return lines;
  }
}

function rowOf(field: Field): Row {
  const given = field.schema.default;
  const input = new Input({ prompt: "" });
  if (field.options.length === 0 && given !== undefined && given !== null) input.setValue(clean(String(given)));
  const chosen = new Set<number>();
  let at = -1;
  for (const [index, { value }] of field.options.entries()) {
    if (field.several && Array.isArray(given) && given.includes(value)) chosen.add(index);
    else if (value === given) at = index;
  }
  return { field, input, at, chosen };
}

function givenIn({ field, input, at, chosen }: Row): Json | undefined {
  if (field.options.length === 0) return typedValue(field, input.getValue());
  const values = field.options.map(({ value }) => value);
  if (!field.several) return values[at];
  const taken = values.filter((_, index) => chosen.has(index));
  return taken.length > 0 || field.required ? taken : undefined;
}

function textOf(input: Input, here: boolean, room: number): string {
  const [line = ""] = here ? input.render(room) : [clean(input.getValue()).slice(0, room)];
  return line;
}

function optionsText({ field, at, chosen }: Row, here: boolean, look: Look): string {
  return field.options
    .map(({ label }, index) => {
      const on = field.several ? chosen.has(index) : index === at;
      const text = `${on ? "●" : "○"} ${label}`;
      if (here && index === at) return look.reverse(text);
      return on ? text : look.dim(text);
    })
    .join("  ");
}
