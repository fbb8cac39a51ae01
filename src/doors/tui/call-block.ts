/**
 * Calls on the screen: one line each with its progress and its time, which opens to arguments, changes and output;
 * below a call that has started a sub-agent, what that one does, as a tree.
 *
 * Invariant: what is shown of a call is what stands in the store; text of tools was cleaned.
 */
import type { McpCallItem } from "../../types/item.ts";
import { counted } from "../../util/text.ts";
import { Block, type Canvas, headOf, lineCount, OPENED } from "./block.ts";
import { changeOf, diffLines, diffOf, sizeText } from "./change.ts";
import { cleanLine } from "./clean.ts";
import { countText, durationText, type Look, spinner } from "./style.ts";

export interface AgentView {
  profile: string;
  status: string;
  tokens: number;
  calls: CallView[];
  /** The last words of its answer so far. */
  text: string;
}

export interface CallView {
  id: string;
  label: string;
  arguments: string;
  status: McpCallItem["status"] | "asking";
  output: string | undefined;
  error: string | undefined;
  /** Milliseconds since the epoch; undefined: it was over before anybody looked. */
  began: number | undefined;
  took: number | undefined;
  /** What the tool last said of itself. */
  progress: string;
  /** A diff, for people; empty where there is none, undefined where nobody has looked. */
  display: string | undefined;
  agent: AgentView | undefined;
}

export function callOf(item: McpCallItem, began: number | undefined): CallView {
  return {
    id: item.id,
    label: item.server_label === "rotunda" ? item.name : `${item.server_label}__${item.name}`,
    arguments: item.arguments,
    status: item.status,
    output: item.output ?? undefined,
    error: item.error ?? undefined,
    began,
    took: undefined,
    progress: "",
    display: undefined,
    agent: undefined,
  };
}

export function isOver({ status }: CallView): boolean {
  return status === "completed" || status === "failed" || status === "incomplete";
}

/** Arguments that say by themselves what a call is about. */
const TELLING = new Set([
  "command",
  "file_path",
  "path",
  "pattern",
  "agent_type",
  "description",
  "query",
  "url",
  "name",
]);

/** The arguments that tell most, or all of them as JSON; on one line. */
export function briefArguments(text: string, length: number): string {
  try {
    const values: unknown = JSON.parse(text);
    const steps = stepsIn(values);
    if (steps !== undefined) return steps;
    const told = tellingIn(values).slice(0, 3);
    if (told.length > 0) return cleanLine(told.join("  "), length);
    if (values !== null && typeof values === "object" && Object.keys(values).length === 0) return "";
  } catch {
    // Not whole yet, or no JSON at all: shown as it is.
  }
  return cleanLine(text, length);
}

/** Of a plan: how far it is. */
function stepsIn(values: unknown): string | undefined {
  const todos = (values as { todos?: { status?: unknown }[] } | null)?.todos;
  if (!Array.isArray(todos)) return undefined;
  return `${todos.filter((todo) => todo?.status === "completed").length} of ${todos.length} done`;
}

function tellingIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.slice(0, 3).flatMap(tellingIn);
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, one]) => {
    if (typeof one === "string") return TELLING.has(key) ? [one] : [];
    return Array.isArray(one) ? tellingIn(one) : [];
  });
}

const DIFF_LINES = 12;
/** Lines of the arguments of an opened call. */
const ARGUMENTS = 60;

export class CallBlock extends Block {
  readonly view: CallView;

  constructor(view: CallView) {
    super();
    this.view = view;
    this.live = !isOver(view);
  }

  override get foldable(): boolean {
    return true;
  }

  /** It is over and has nothing that one would look for: it may lie back among others. */
  get plain(): boolean {
    return !this.open && isOver(this.view) && !this.view.agent && displayOf(this.view) === "";
  }

  get weight(): number {
    return weightOf(this.view);
  }

  override changed(): void {
    super.changed();
    this.live = !isOver(this.view);
  }

  protected draw(canvas: Canvas): string[] {
    const { view } = this;
    const lines = [callLine(view, canvas)];
    const diff = displayOf(view);
    if (this.open) lines.push(...detailLines(view, diff, canvas));
    else if (diff !== "" && view.status === "completed") lines.push(...diffLines(diff, canvas, DIFF_LINES));
    if (view.agent) lines.push(...agentLines(view.agent, canvas, "  ", this.open ? 200 : 6));
    return lines;
  }
}

function weightOf(view: CallView): number {
  const below = view.agent?.calls.reduce((sum, call) => sum + weightOf(call), 0) ?? 0;
  return view.arguments.length + (view.output?.length ?? 0) + (view.display?.length ?? 0) + below;
}

/** What a call changes in a file: as its tool told it, else as its arguments say it. Empty: nothing. */
function displayOf(view: CallView): string {
  if (view.display !== undefined) return view.display;
  if (view.status === "in_progress") return "";
  const change = changeOf(view.label, view.arguments);
  view.display = change ? diffOf(change) : "";
  return view.display;
}

/** Characters that calls which lie back hold together, about: the older ones are then only counted. */
const HELD = 1_000_000;

/** Calls that lie back and changed nothing that one would look for: one line for all of them, which opens. */
export class CallsBlock extends Block {
  /** The newest; those before them are in the store. */
  readonly #calls: CallBlock[] = [];
  readonly #counts = new Map<string, number>();
  #taken = 0;
  #failed = 0;

  override get foldable(): boolean {
    return true;
  }

  get weight(): number {
    return this.#calls.reduce((sum, call) => sum + call.weight, 0);
  }

  take(calls: readonly CallBlock[]): void {
    for (const call of calls) {
      const { label, status } = call.view;
      call.gap = false;
      call.changed();
      this.#counts.set(label, (this.#counts.get(label) ?? 0) + 1);
      if (status !== "completed") this.#failed++;
    }
    this.#taken += calls.length;
    this.#calls.push(...calls);
    let { weight } = this;
    while (weight > HELD) weight -= this.#calls.shift()?.weight ?? weight;
    this.changed();
  }

  protected draw(canvas: Canvas): string[] {
    const { look } = canvas;
    const counts = [...this.#counts].sort((a, b) => b[1] - a[1]);
    const told = counts.map(([label, count]) => `${cleanLine(label, 40)} ${count}`);
    const mark = this.#failed > 0 ? look.red("✗") : look.green("✓");
    const failed = this.#failed > 0 ? `  ${look.red(`${this.#failed} failed`)}` : "";
    const head = [`${mark} ${look.cyan(`${this.#taken} calls`)} ${look.dim(told.join(" · "))}${failed}`];
    if (!this.open) return head;
    const before = this.#taken - this.#calls.length;
    if (before > 0) head.push(look.dim(`  … ${before} before: rotunda show`));
    const inner = { ...canvas, width: Math.max(20, canvas.width - 2) };
    return [...head, ...this.#calls.flatMap((call) => call.lines(inner).map((line) => `  ${line}`))];
  }
}

function markOf(view: CallView, look: Look, now: number): string {
  if (view.status === "completed") return look.green("✓");
  if (view.status === "failed") return look.red("✗");
  if (view.status === "incomplete") return look.yellow("⊘");
  if (view.status === "asking") return look.yellow("?");
  return look.cyan(spinner(now));
}

function callLine(view: CallView, { width, look, now }: Canvas): string {
  const took = view.took ?? (isOver(view) || view.began === undefined ? undefined : now - view.began);
  const time = took === undefined ? "" : ` ${look.dim(durationText(took))}`;
  const label = cleanLine(view.label, 64);
  const room = Math.max(10, width - label.length - 14);
  const brief = briefArguments(view.arguments, room);
  const tail = isOver(view) ? endText(view, look) : progressText(view, look);
  return `${markOf(view, look, now)} ${look.cyan(label)} ${look.dim(brief)}${time}${tail}`;
}

function progressText(view: CallView, look: Look): string {
  if (view.status === "asking") return look.yellow("  waits for you");
  return view.progress === "" ? "" : `  ${look.dim(cleanLine(view.progress, 60))}`;
}

function endText(view: CallView, look: Look): string {
  if (view.status === "failed" || view.status === "incomplete")
    return `  ${look.red(cleanLine(view.error ?? view.output ?? view.status, 100))}`;
  if (view.agent) return "";
  const diff = displayOf(view);
  if (diff !== "") return `  ${sizeText(diff, { look })}`;
  const lines = lineCount(view.output ?? "");
  return lines > 1 ? look.dim(`  ${lines} lines`) : "";
}

/** Arguments, changes, output. */
function detailLines(view: CallView, diff: string, canvas: Canvas): string[] {
  const { width, look } = canvas;
  const inner = Math.max(8, width - 4);
  const bar = `  ${look.dim("│")} `;
  const beginning = (text: string, most: number) => {
    const { lines, hidden } = headOf(text, inner, most);
    const shown = lines.map((line) => `${bar}${line}`);
    return hidden > 0 ? [...shown, `${bar}${look.dim(moreText(hidden))}`] : shown;
  };
  const lines = diff !== "" ? diffLines(diff, canvas, OPENED) : beginning(pretty(view.arguments), ARGUMENTS);
  const result = view.output ?? view.error;
  if (result !== undefined) lines.push(`  ${look.dim("├─")}`, ...beginning(result, OPENED));
  return lines;
}

function moreText(hidden: number): string {
  return `… ${Number.isFinite(hidden) ? counted(hidden, "more line") : "more"}: rotunda show`;
}

/** What lies deeper is not indented: that takes the square of its depth. */
const DEEPEST = 100;

/** Arguments as indented JSON; as they are where they are none. */
export function pretty(text: string): string {
  let depth = 0;
  for (const sign of text) {
    if (sign === "[" || sign === "{") depth++;
    else if (sign === "]" || sign === "}") depth--;
    if (depth > DEEPEST) return text;
  }
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** What a sub-agent does: its last calls while it works, all of them when opened; its own sub-agents below. */
function agentLines(agent: AgentView, canvas: Canvas, indent: string, most: number): string[] {
  const { look } = canvas;
  const running = agent.calls.some((call) => !isOver(call)) || agent.status === "in_progress";
  const used = agent.tokens > 0 ? ` · ${countText(agent.tokens)} tokens` : "";
  const count = counted(agent.calls.length, "call");
  const head = `${indent}${look.dim("└")} ${look.magenta(cleanLine(agent.profile, 40))} ${look.dim(`${cleanLine(agent.status, 30)} · ${count}${used}`)}`;
  const calls = running || most > 6 ? agent.calls.slice(-most) : [];
  const inner = { ...canvas, width: Math.max(20, canvas.width - indent.length - 6) };
  const lines = calls.flatMap((call, index) => {
    const branch = index === calls.length - 1 ? "└" : "├";
    const below = call.agent ? agentLines(call.agent, canvas, `${indent}     `, most) : [];
    return [`${indent}  ${look.dim(branch)} ${callLine(call, inner)}`, ...below];
  });
  const hidden = agent.calls.length - calls.length;
  if (running && hidden > 0) lines.unshift(`${indent}  ${look.dim(`├ … ${hidden} before`)}`);
  if (running && agent.text !== "")
    lines.push(`${indent}    ${look.dim(cleanLine(agent.text.slice(-300), canvas.width - indent.length - 8))}`);
  return [head, ...lines];
}
