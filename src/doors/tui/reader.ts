/**
 * Reader: the events of one response as blocks of the transcript.
 *
 * Invariant: it only reads; told the same events it makes the same blocks, whether they come live, from another
 * process or from the store. An answer that streams is cut into blocks where a paragraph ends, so that the work for
 * a word does not grow with what was said before. What steers a run stands where the model takes it up, and never within
 * an answer.
 */
import type { RunEvent } from "../../types/event.ts";
import type { Item, McpCallItem, MessageItem } from "../../types/item.ts";
import { textOfPart } from "../../util/content-text.ts";
import { AnswerBlock, type Block, NoteBlock, ReasoningBlock, SaidBlock } from "./block.ts";
import { CallBlock, CallsBlock, type CallView, callOf, isOver } from "./call-block.ts";
import type { Transcript } from "./transcript.ts";

/** Characters after which an answer is cut at the end of a paragraph, and after which at any line, or anywhere. */
const PARAGRAPH = 1_200;
const LINE = 8_000;
const ANYWHERE = 20_000;

/** Calls that are known by their ids: the last ones, and all that are not over. */
const KNOWN = 500;

/** Of calls in a row, the last ones stand by themselves; those behind them are folded once they are so many. */
const STANDING = 12;
const BEHIND = 20;

export interface Todo {
  content: string;
  status: string;
}

export class Reader {
  readonly #transcript: Transcript;
  readonly #now: () => number;
  readonly calls = new Map<string, CallBlock>();
  readonly #reasoning = new Map<string, { block: ReasoningBlock; began: number }>();
  #answer: AnswerBlock | undefined;
  #answerItem = "";
  /** The last message was cut, by a crash or in mid-stream: what comes now is said anew. */
  #cut = false;
  /** Of the model's last item. */
  #last: "reasoning" | "message" | "mcp_call" | undefined;
  /** What steers the run and lies before the model, which still answers what came before. */
  readonly steering: MessageItem[] = [];
  /** What the run is doing, for the line above the editor. */
  doing = "";
  todos: Todo[] | undefined;
  /** Number of the last event that was read. */
  after = -1;

  constructor(transcript: Transcript, now: () => number = Date.now) {
    this.#transcript = transcript;
    this.#now = now;
  }

  read(event: RunEvent): void {
    this.after = event.sequence_number;
    switch (event.type) {
      case "response.output_item.added":
        this.#begins(event.item);
        break;
      case "response.output_text.delta":
      case "response.refusal.delta":
        this.#text(event.item_id, event.delta);
        break;
      case "response.reasoning_text.delta":
        this.doing = "thinking";
        this.#reasoning.get(event.item_id)?.block.add(event.delta);
        break;
      case "response.mcp_call_arguments.done":
        this.#change(event.item_id, (view) => {
          view.arguments = event.arguments;
        });
        break;
      case "response.mcp_call.in_progress":
        this.#change(event.item_id, (view) => {
          view.status = "calling";
          view.began = this.#now();
          this.doing = `running ${view.label}`;
        });
        break;
      case "response.output_item.done":
        this.#done(event.item);
        break;
      case "error":
        this.#takeUp();
        this.#transcript.add(new NoteBlock(`${event.message} [${event.code}]`, "error"));
        break;
      case "response.completed":
      case "response.failed":
      case "response.incomplete":
        this.#takeUp();
        break;
      default:
    }
  }

  /** All items of a response that has ended, as if it had just been told. `took`: milliseconds of calls by their ids. */
  readAll(items: readonly Item[], took: ReadonlyMap<string, number> = new Map()): void {
    for (const item of items) {
      if (item.type === "message" && item.role === "assistant") {
        const text = textOf(item);
        this.#begins({ ...item, content: [] });
        this.#text(item.id, text);
      } else this.#begins(item);
      this.#done(item);
      const view = this.calls.get(item.id)?.view;
      if (view) view.took = took.get(item.id);
    }
    this.#takeUp();
  }

  /** What has steered the run stands in the transcript from here on. */
  #takeUp(): void {
    for (const item of this.steering.splice(0)) this.#add(new SaidBlock(textOf(item), "↪"));
  }

  /** Whether an item of this type would be the first of another answer of the model. */
  #startsAnew(type?: Item["type"]): boolean {
    if (this.#last === "mcp_call") return [...this.calls.values()].every(({ view }) => isOver(view));
    if (this.#last === "message") return type === "message" || type === "reasoning";
    return this.#last === undefined;
  }

  #add(block: Block, gap = true): void {
    block.gap = gap;
    this.#transcript.add(block);
  }

  #begins(item: Item): void {
    if (this.#cut) this.#add(new NoteBlock("Cut off there; it goes on:", "warn"));
    this.#cut = false;
    if (item.type === "message" && item.role === "user") {
      this.steering.push(item);
      if (this.#startsAnew()) this.#takeUp();
      return;
    }
    if (item.type === "reasoning" || item.type === "message" || item.type === "mcp_call") {
      if (this.#startsAnew(item.type)) this.#takeUp();
      this.#last = item.type;
    }
    if (item.type === "reasoning") {
      const began = this.#now();
      const block = new ReasoningBlock(began);
      this.#reasoning.set(item.id, { block, began });
      this.doing = "thinking";
      const last = this.#transcript.blocks.at(-1);
      this.#add(block, !(last instanceof CallBlock || last instanceof CallsBlock));
    } else if (item.type === "mcp_call") this.#callBegins(item);
  }

  #callBegins(item: McpCallItem): void {
    const block = new CallBlock(callOf(item, item.status === "in_progress" ? this.#now() : undefined));
    const last = this.#transcript.blocks.at(-1);
    this.doing = `calling ${block.view.label}`;
    this.calls.set(item.id, block);
    this.#forgetOld();
    const joined = last instanceof CallBlock || last instanceof CallsBlock || last instanceof ReasoningBlock;
    this.#add(block, !joined);
    this.#foldCalls();
  }

  /** What the transcript has dropped must not be held here. */
  #forgetOld(): void {
    if (this.calls.size <= KNOWN) return;
    for (const [id, { view }] of this.calls) if (isOver(view)) return void this.calls.delete(id);
  }

  /** Of many calls in a row, those that lie back become one line. */
  #foldCalls(): void {
    const { blocks, following } = this.#transcript;
    const to = blocks.length - STANDING;
    if (!following || !blocks.slice(Math.max(0, to)).every((block) => block instanceof CallBlock)) return;
    const calls: CallBlock[] = [];
    let from = to;
    for (let block = blocks[from - 1]; block instanceof CallBlock && block.plain; block = blocks[from - 1]) {
      calls.unshift(block);
      from--;
    }
    if (calls.length < BEHIND) return;
    const before = blocks[from - 1];
    const fold = before instanceof CallsBlock ? before : new CallsBlock();
    if (before !== fold) fold.gap = calls[0]?.gap ?? true;
    fold.take(calls);
    this.#transcript.replace(before === fold ? from - 1 : from, to, fold);
  }

  #text(itemId: string, delta: string): void {
    if (delta === "") return;
    this.doing = "answering";
    if (this.#answerItem !== itemId || !this.#answer) {
      this.#answerItem = itemId;
      this.#answer = new AnswerBlock(true);
      this.#add(this.#answer);
    }
    let rest = this.#answer.text + delta;
    for (let end = cutOf(rest); end > 0; end = cutOf(rest)) {
      const { head, next } = divide(rest, end);
      this.#answer.text = head;
      rest = next;
      const inner = rest.startsWith("```") || rest.startsWith("~~~");
      this.#answer = new AnswerBlock(false);
      this.#add(this.#answer, !inner);
    }
    this.#answer.text = rest;
  }

  #done(item: Item): void {
    if (item.type === "message" && item.role === "assistant") this.#cut = item.status === "incomplete";
    if (item.type === "reasoning") {
      const known = this.#reasoning.get(item.id);
      this.#reasoning.delete(item.id);
      const text = [...item.summary, ...item.content].map((part) => part.text).join("\n\n");
      const took = known && this.#now() - known.began;
      if (text === "" && known) this.#transcript.remove(known.block);
      else known?.block.finish(took && took > 50 ? took : undefined, text);
    } else if (item.type === "mcp_call") this.#callEnds(item);
    else if (item.type === "compaction") {
      const items = item.covers ? `${item.covers.items} older items` : "older items";
      this.#add(new NoteBlock(`≡ compacted ${items}\n${item.summary.slice(0, 2_000)}`));
    } else if (item.type === "message" && item.role !== "user") {
      if (this.#answer?.text === "" && item.role === "assistant") this.#transcript.remove(this.#answer);
      this.#answer = undefined;
    }
  }

  #callEnds(item: McpCallItem): void {
    if (!this.calls.has(item.id)) this.#callBegins(item);
    this.#change(item.id, (view) => {
      view.arguments = item.arguments;
      view.status = item.status;
      view.output = item.output ?? undefined;
      view.error = item.error ?? undefined;
      if (view.began !== undefined) view.took = this.#now() - view.began;
      view.progress = "";
    });
    this.doing = "waiting for the model";
    if (item.name === "TodoWrite" && item.status === "completed") this.todos = todosOf(item.arguments);
  }

  #change(itemId: string, change: (view: CallView) => void): void {
    const block = this.calls.get(itemId);
    if (!block) return;
    change(block.view);
    block.changed();
  }

  /** The response was cancelled: what its tools had to break off for that has not failed. */
  brokenOff(): void {
    for (const block of this.calls.values()) {
      const { view } = block;
      if (view.status !== "failed" || !/cancelled[^\n]*\n?$/.test(view.error ?? view.output ?? "")) continue;
      view.status = "incomplete";
      block.changed();
    }
  }

  /** What a tool says of itself while it works; what it has changed once it has. */
  tell(itemId: string, text: string, level: string): boolean {
    const block = this.calls.get(itemId);
    if (!block) return false;
    if (level === "debug") block.view.progress = text;
    else if (/^(?:---|\+\+\+|@@) /m.test(text)) block.view.display = text;
    block.changed();
    return true;
  }
}

/** What a message says. */
export function textOf(item: MessageItem): string {
  return item.content.map(textOfPart).join("");
}

/** Where a text that grows is to be cut: 0 is nowhere yet. */
export function cutOf(text: string): number {
  if (text.length < PARAGRAPH) return 0;
  const inFence = fenceAt(text, text.length) !== undefined;
  if (!inFence || text.length > LINE) {
    for (let end = text.lastIndexOf("\n\n"); end > 0; end = text.lastIndexOf("\n\n", end - 1)) {
      if (fenceAt(text, end) === undefined) return end + 2;
    }
  }
  if (text.length > LINE) {
    const end = text.lastIndexOf("\n");
    if (end > 0 && end + 1 < text.length) return end + 1;
  }
  return text.length > ANYWHERE ? LINE : 0;
}

/** The text up to a cut and what follows it; a fence that is cut through is closed and begun anew. */
function divide(text: string, end: number): { head: string; next: string } {
  const fence = fenceAt(text, end);
  const head = text.slice(0, end);
  if (fence === undefined) return { head, next: text.slice(end) };
  const [mark = "```"] = /^(?:`{3,}|~{3,})/.exec(fence) ?? [];
  return { head: `${head.replace(/\n$/, "")}\n${mark}`, next: `${fence}\n${text.slice(end)}` };
}

/** The line that opened the fence which is open at a place; undefined: none is. */
function fenceAt(text: string, end: number): string | undefined {
  let open: string | undefined;
  for (const [line] of text.slice(0, end).matchAll(/^ {0,3}(?:`{3,}|~{3,}).*$/gm)) {
    const mark = line.trimStart();
    if (open === undefined) open = mark;
    else if (mark.startsWith(open.slice(0, 3)) && mark.replace(/[`~]/g, "").trim() === "") open = undefined;
  }
  return open;
}

export function todosOf(text: string): Todo[] | undefined {
  try {
    const { todos } = JSON.parse(text) as { todos?: { content?: unknown; status?: unknown }[] };
    if (!Array.isArray(todos)) return undefined;
    return todos.map(({ content, status }) => ({ content: String(content ?? ""), status: String(status ?? "") }));
  } catch {
    return undefined;
  }
}
