/**
 * Compact: keeps the prompts of a run within the window of their model.
 *
 * Invariant: it is decided before a model call, or once after the endpoint has refused one as too long; what was decided
 * is an item of the response, so that the next prompt begins as this one and nothing is decided twice. The items that
 * it stands for stay where they are.
 */
import { type CompactionConfig, DEFAULT_COMPACTION } from "../types/config.ts";
import { toRotundaError } from "../types/error.ts";
import type { Compaction, CompactionItem, Place, Usage } from "../types/item.ts";
import type { HistoryNode, Model, ModelEvent, ModelRequest, ToolDefinition } from "../types/model.ts";
import type { Profile } from "../types/profile.ts";
import { newId } from "../util/ids.ts";
import { type BudgetGate, BudgetReached, type Leave } from "./budget.ts";
import {
  answeredCount,
  countSaid,
  type Element,
  elementsOf,
  goesUpTo,
  keptOf,
  middleOf,
  placeOf,
  tokensOf,
} from "./compact-plan.ts";
import { CHARACTERS_OF_A_TOKEN, estimate, lengthOf, outputLength, sum } from "./compact-size.ts";
import { countRange, inForce, isInstruction } from "./compacted.ts";
import type { History } from "./history.ts";
import { finishedTurns } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import type { Run, Stop } from "./run.ts";
import { streamOf } from "./spans.ts";
import { summarise } from "./summary.ts";
import { priced } from "./usage.ts";

export interface CompactSupport {
  profile: Profile;
  model: Model;
  projectInstructions: string;
  above: readonly HistoryNode[];
  history: History;
  budgets: BudgetGate;
}

/** Polybrain's words (parity P7). */
const MARK = "[... conversation history truncated to save context ...]";
const MESSAGES = 500;

/** Characters above which old results are cut first, and to how many. */
const LONG_OUTPUT = 1_200;
const CUT_OUTPUT = 800;
const SHORTEST_OUTPUT = 200;

/** Windows of models whose endpoints refused a prompt without saying how long one may be. Tokens. */
const guessed = new WeakMap<Model, number>();

interface Need {
  /** Tokens of the prompt, about. */
  tokens: number;
  /** Undefined: not known. */
  window: number | undefined;
  /** Tokens that it should take at most; the next compaction comes later the lower this is. */
  target: number;
  /** Tokens above which even results that the model has not seen are cut. */
  most: number;
  /** Tokens of the newest items that stay. */
  keep: number;
  /** The endpoint has refused the prompt. */
  forced: boolean;
}

export class Compactor {
  readonly #parts: EngineParts;
  readonly #run: Run;
  readonly #support: CompactSupport;
  readonly #config: CompactionConfig;
  /** It failed: nothing is tried again before the endpoint demands it. */
  #gaveUp = false;
  #saidTooLong = false;
  /** Answers of the model when it was last forced. */
  #forcedAt = -1;

  constructor(parts: EngineParts, run: Run, support: CompactSupport) {
    this.#parts = parts;
    this.#run = run;
    this.#support = support;
    this.#config = parts.compaction ?? DEFAULT_COMPACTION;
  }

  get #isOff(): boolean {
    const { model } = this.#support;
    const { compaction } = this.#run.node.settings;
    // An agent looks after its own window.
    return (
      model.agent === true || compaction === false || (this.#config.strategy === "none" && compaction === undefined)
    );
  }

  #nodes(): HistoryNode[] {
    return [...this.#support.above, this.#support.history.current(this.#run)];
  }

  #window(): number | undefined {
    const { model } = this.#support;
    const guess = guessed.get(model);
    return model.contextWindow === undefined ? guess : Math.min(model.contextWindow, guess ?? model.contextWindow);
  }

  /** Before a model call. "waiting": a budget is used up. */
  async before(definitions: readonly ToolDefinition[]): Promise<Stop | "waiting" | undefined> {
    if (this.#isOff || this.#gaveUp) return undefined;
    const window = this.#window();
    const { compaction: asked } = this.#run.node.settings;
    const threshold =
      typeof asked === "number" ? asked : window && this.#config.at * (window - this.#forAnswer(window));
    const counts = this.#config.strategy === "first-last" && asked === undefined;
    if (threshold === undefined && !counts) return undefined;
    const nodes = this.#nodes();
    const tokens = this.#estimate(nodes, definitions);
    const near = threshold !== undefined && tokens > threshold;
    if (!near && !(counts && this.#hasTooManyMessages(nodes))) return undefined;
    const limit = threshold ?? tokens;
    const most = window === undefined ? limit : Math.max(limit, 0.95 * (window - this.#forAnswer(window)));
    const keep = Math.min(window ?? limit, limit) * this.#config.keep;
    try {
      return await this.#compact(
        nodes,
        { tokens, window, target: limit * 0.75, most, keep, forced: false },
        definitions,
      );
    } catch (thrown) {
      if (this.#run.failure) throw this.#run.failure;
      if (this.#run.stopped) return this.#run.stopped;
      this.#gaveUp = true;
      this.#tell("warn", `older items could not be summed up: ${toRotundaError(thrown).message}`);
      return undefined;
    }
  }

  /** After a model call that ended so. "again": the prompt is shorter now. Undefined: that was its end. */
  async after(stop: Stop, definitions: readonly ToolDefinition[]): Promise<Stop | "waiting" | "again" | undefined> {
    if (stop.error?.code !== "context_length_exceeded" || stop.status !== "failed" || this.#isOff) return undefined;
    const answers = finishedTurns(this.#run.output);
    if (this.#forcedAt === answers) return undefined;
    this.#forcedAt = answers;
    const nodes = this.#nodes();
    const tokens = this.#estimate(nodes, definitions);
    const { model } = this.#support;
    if (model.contextWindow === undefined) guessed.set(model, Math.floor(tokens * 0.9));
    const window = this.#window();
    const keep = Math.min((window ?? tokens) * this.#config.keep, tokens / 4);
    const target = Math.min((window ?? tokens) * 0.6, tokens / 2);
    const before = this.#run.output.length;
    try {
      const need = { tokens, window, target, most: target, keep, forced: true };
      const outcome = await this.#compact(nodes, need, definitions);
      return outcome ?? (this.#run.output.length > before ? "again" : undefined);
    } catch (thrown) {
      if (this.#run.failure) throw this.#run.failure;
      if (this.#run.stopped) return this.#run.stopped;
      this.#tell("warn", `older items could not be summed up: ${toRotundaError(thrown).message}`);
      return undefined;
    }
  }

  /** The whole path as one summary. Throws the model's error. */
  async byHand(): Promise<Stop | "waiting"> {
    const run = this.#run;
    const done: Stop = { status: "completed" };
    if (run.output.some((entry) => entry?.meta.compaction)) return done;
    const nodes = this.#nodes();
    const elements = elementsOf(nodes, inForce(nodes));
    if (elements.every(({ standsIn }) => standsIn)) return done;
    try {
      return (await this.#summarise(nodes, elements, elements.length, this.#window() ?? 32_000, 0)) ?? done;
    } catch (thrown) {
      if (run.failure) throw run.failure;
      if (run.stopped) return run.stopped;
      throw thrown;
    }
  }

  // ---- how much there is

  #forAnswer(window: number): number {
    const { settings } = this.#run.node;
    const { profile } = this.#support;
    const asked = settings.maxOutputTokens ?? profile.maxOutputTokens ?? profile.defaults?.maxOutputTokens ?? 0;
    return Math.min(asked, window / 4);
  }

  #estimate(nodes: readonly HistoryNode[], definitions: readonly ToolDefinition[]): number {
    return estimate(nodes, this.#support.model, definitions, this.#overhead());
  }

  /** Characters of the instructions. */
  #overhead(): number {
    const { profile, projectInstructions } = this.#support;
    const instructions = this.#run.node.settings.instructions ?? profile.instructions;
    return instructions.length + (profile.guidelines?.length ?? 0) + projectInstructions.length;
  }

  /** After the first time some may come before it happens again: else each turn would have a new beginning. */
  #hasTooManyMessages(nodes: readonly HistoryNode[]): boolean {
    const messages = this.#config.messages ?? MESSAGES;
    const force = inForce(nodes);
    const slack = force?.drop ? Math.max(2, Math.floor(messages / 4)) : 0;
    return countSaid(elementsOf(nodes, force)) > messages + slack;
  }

  // ---- making it shorter

  async #compact(
    nodes: readonly HistoryNode[],
    need: Need,
    definitions: readonly ToolDefinition[],
  ): Promise<"waiting" | undefined> {
    const elements = elementsOf(nodes, inForce(nodes));
    const answered = answeredCount(elements, this.#run);
    const about = `${thousands(need.tokens)}${need.window ? ` of ${thousands(need.window)}` : ""} tokens`;
    if (this.#config.strategy === "first-last") this.#leaveOutMiddle(nodes, elements, answered, need);
    else {
      const up = goesUpTo(elements, answered, need.keep);
      if (this.#cutOld(nodes, elements.slice(0, up), need)) return undefined;
      const gone = elements.slice(0, up).filter(({ standsIn }) => !standsIn);
      const least = need.forced ? 1 : (need.window ?? need.tokens) / 20;
      if (tokensOf(gone) >= least) {
        this.#tell("info", `the conversation has about ${about}: summing up ${gone.length} older items`);
        const window = need.window ?? need.tokens;
        const waiting = await this.#summarise(nodes, elements, up, window, need.keep / 2);
        if (waiting) return waiting;
      }
    }
    this.#cutAll(need, definitions);
    return undefined;
  }

  /** Old results of tools first: they can be read again, and mostly need not be. False: that is not enough. */
  #cutOld(nodes: readonly HistoryNode[], old: readonly Element[], need: Need): boolean {
    const long = old.filter(({ entry, standsIn }) => !standsIn && outputLength(entry) > LONG_OUTPUT);
    const spared = sum(long.map(({ entry }) => outputLength(entry) - CUT_OUTPUT)) / CHARACTERS_OF_A_TOKEN;
    if (long.length === 0 || need.tokens - spared > need.target) return false;
    this.#cut(nodes, old, CUT_OUTPUT, long.length);
    return true;
  }

  /** Results that the model has not seen yet must be cut too, where nothing else can go. */
  #cutAll(need: Need, definitions: readonly ToolDefinition[]): void {
    const nodes = this.#nodes();
    const elements = elementsOf(nodes, inForce(nodes));
    const made = this.#run.output.length > 0 && this.#run.output.at(-1)?.meta.compaction;
    const tokens = made
      ? tokensOf(elements) + (this.#overhead() + lengthOf(definitions)) / CHARACTERS_OF_A_TOKEN
      : need.tokens;
    if (tokens <= need.most) return;
    const lengths = elements.filter(({ standsIn }) => !standsIn).map(({ entry }) => outputLength(entry));
    const over = (tokens - need.most) * CHARACTERS_OF_A_TOKEN;
    let limit = 8_000;
    const spares = () => sum(lengths.map((length) => Math.max(0, length - limit)));
    while (limit > SHORTEST_OUTPUT && spares() < over) limit = Math.max(SHORTEST_OUTPUT, Math.floor(limit / 2));
    if (spares() === 0) this.#tellTooLong(tokens, need);
    else this.#cut(nodes, elements, limit, lengths.filter((length) => length > limit).length);
  }

  /** The count is a guess: only twice as much is surely too long. Some endpoints cut that without a word. */
  #tellTooLong(tokens: number, { window }: Need): void {
    if (window === undefined || tokens <= 2 * window || this.#saidTooLong) return;
    this.#saidTooLong = true;
    const about = `the prompt has about ${thousands(tokens)} tokens, and the model reads ${thousands(window)}`;
    this.#tell("warn", `${about} (contextWindow): it may refuse the prompt, or see only a part of it`);
  }

  #cut(nodes: readonly HistoryNode[], elements: readonly Element[], characters: number, count: number): void {
    const real = elements.filter(({ standsIn }) => !standsIn);
    const [first] = real;
    const last = real.at(-1);
    if (!first || !last) return;
    const summary = `Results of ${count} tool calls before this are shown as head and tail; read_output reads the whole.`;
    this.#put(nodes, summary, { strategy: "outputs", from: placeOf(first), last, kept: [], characters });
  }

  #leaveOutMiddle(nodes: readonly HistoryNode[], elements: readonly Element[], answered: number, need: Need): void {
    let messages = Math.min(this.#config.messages ?? MESSAGES, countSaid(elements));
    for (;;) {
      const middle = middleOf(elements, answered, messages);
      const gone = middle ? elements.slice(middle.first, middle.end) : [];
      const tooLong = need.window !== undefined && need.tokens - tokensOf(gone) > need.target;
      if (tooLong && messages > 2) {
        messages = Math.max(2, Math.floor(messages / 2));
        continue;
      }
      const [first] = gone;
      const last = gone.at(-1);
      if (!first || !last) return;
      const before = inForce(nodes)?.drop;
      const item = before?.entry.item;
      const known = item?.type === "compaction" && item.summary !== MARK ? item.summary : undefined;
      const range = { from: before?.compaction.from ?? placeOf(first), last, kept: keptOf(gone, this.#run, need.keep) };
      if (known === undefined) this.#put(nodes, MARK, { strategy: "first-last", ...range });
      else this.#put(nodes, known.endsWith(MARK) ? known : `${known}\n\n${MARK}`, { strategy: "summary", ...range });
      return;
    }
  }

  /** Sums up the first `up` elements. `question`: tokens of the present question that may stay. */
  async #summarise(
    nodes: readonly HistoryNode[],
    elements: readonly Element[],
    up: number,
    window: number,
    question: number,
  ): Promise<"waiting" | undefined> {
    const { profile, model: own, budgets, above } = this.#support;
    const { settings, id } = this.#run.node;
    const model = this.#config.model === undefined ? own : await this.#parts.models.get(this.#config.model);
    const leave = await budgets.forCall(this.#run, { profile, model });
    if ("code" in leave) {
      this.#run.patch({ error: leave });
      return "waiting";
    }
    const gone = elements.slice(0, up);
    const kept = keptOf(gone, this.#run, question);
    const focus = settings.compact?.focus;
    const summary = await summarise({
      model,
      entries: gone.map(({ entry }) => entry).filter((entry) => !isInstruction(entry)),
      ...(focus !== undefined && { focus }),
      window: model === own ? window : (model.contextWindow ?? window),
      cacheKey: above[0]?.responseId ?? id,
      onRetry: (why) => this.#tell("warn", why),
      stream: (asked) => this.#streamOf(model, asked, leave),
    }).catch((thrown: unknown) => {
      leave.settle();
      if (thrown instanceof BudgetReached) return thrown;
      throw thrown;
    });
    if (summary instanceof BudgetReached) {
      this.#run.patch({ error: summary.error });
      return "waiting";
    }
    const { text, usage } = summary;
    const real = gone.filter(({ standsIn }) => !standsIn);
    const [first] = real;
    const last = real.at(-1);
    if (first && last) {
      const before = gone[0]?.standsIn ? inForce(nodes)?.drop?.compaction : undefined;
      this.#put(nodes, text, { strategy: "summary", from: before?.from ?? placeOf(first), last, kept, usage });
      const tokens = Math.round(tokensOf(gone));
      this.#tell("info", `summed up ${gone.length} items of about ${thousands(tokens)} tokens (recall finds them)`);
    }
    leave.settle();
    return undefined;
  }

  async *#streamOf(model: Model, request: ModelRequest, leave: Leave): AsyncIterable<ModelEvent> {
    const { instead } = leave;
    for await (const event of streamOf(this.#parts, this.#run, model, { ...request, instead })) {
      yield event.type === "finish" ? priced(event, leave.model.price) : event;
    }
  }

  /** Into the log: begun and ended in one commit, so that a crash leaves all of it or nothing. */
  #put(
    nodes: readonly HistoryNode[],
    summary: string,
    made: Pick<Compaction, "strategy" | "kept" | "characters"> & { from: Place; last: Element; usage?: Usage },
  ): void {
    const { strategy, kept, characters, from, last, usage } = made;
    const run = this.#run;
    const range = { from, to: placeOf(last) };
    const items = countRange(nodes, range);
    const item: CompactionItem = {
      type: "compaction",
      id: newId("cmp"),
      summary: this.#parts.redact(summary),
      covers: { from: idAt(nodes, from) ?? last.entry.item.id, to: last.entry.item.id, items },
    };
    const compaction: Compaction = { strategy, ...range, items, kept, ...(characters !== undefined && { characters }) };
    const position = run.output.length;
    const turn = run.output.reduce((highest, entry) => Math.max(highest, entry.turn), 0);
    const meta = { compaction, ...(usage && { usage }) };
    run.emit({ type: "response.output_item.added", output_index: position, item });
    run.put({ side: "output", position, turn, item, meta });
    run.emit({ type: "response.output_item.done", output_index: position, item });
  }

  #tell(level: "info" | "warn", text: string): void {
    this.#parts.notify({ responseId: this.#run.node.id, level, topic: "llm", text: this.#parts.redact(text) });
  }
}

function idAt(nodes: readonly HistoryNode[], { response, side, position }: Place): string | undefined {
  const node = nodes.find(({ responseId }) => responseId === response);
  return node?.entries.find((entry) => entry.side === side && entry.position === position)?.item.id;
}

function thousands(tokens: number): string {
  return Math.round(tokens).toLocaleString("en-US");
}
