/**
 * Session: the conversation that a terminal is in, and the turn that runs in it.
 *
 * Invariant: it is an ordinary client of the engine. Whichever process runs a turn, it is watched, steered, answered
 * and cancelled the same way; what is shown stands in the store, and leaving ends nothing that another process runs.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { App } from "../../types/app.ts";
import type { Decision } from "../../types/approval.ts";
import type { ElicitationAnswer } from "../../types/elicitation.ts";
import type { RunRequest } from "../../types/engine.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import type { Item, MessageItem } from "../../types/item.ts";
import type { ResponseNode } from "../../types/response.ts";
import { newId, shortId } from "../../util/ids.ts";
import { parked } from "../../util/parked.ts";
import { isHeld } from "../../util/process-name.ts";
import { Agents } from "./agents.ts";
import { type Ask, Asks } from "./asks.ts";
import { NoteBlock, SaidBlock } from "./block.ts";
import { clean } from "./clean.ts";
import { type LoadedUsage, showPath, usageOf } from "./history.ts";
import type { Attachment } from "./images.ts";
import type { Choice, TerminalOptions } from "./options.ts";
import { Reader, type Todo } from "./reader.ts";
import type { Transcript } from "./transcript.ts";

/** Milliseconds between two looks at what waits and at what sub-agents do. */
const LOOK = 150;

export interface Said {
  text: string;
  images: readonly Attachment[];
}

interface Turn {
  id: string;
  reader: Reader;
  began: number;
  /** The person has asked for its end. */
  cancelled: boolean;
}

export class Session {
  readonly app: App;
  readonly transcript: Transcript;
  readonly asks: Asks;
  readonly #options: TerminalOptions;
  readonly #update: () => void;
  readonly #left = new AbortController();
  #turn: Turn | undefined;
  choice: Choice;
  #fresh = true;
  /** What is asked next, in order, when the turn has ended. */
  readonly queue: Said[] = [];
  /** Steering that has not been taken up yet. */
  steering: string[] = [];
  /** What was done by hand since the last message: it goes along with the next one. */
  byHand: string[] = [];
  todos: Todo[] = [];
  usage: LoadedUsage = { tokens: 0, cost: 0, context: 0 };
  profile: string;
  model: string;
  starting = false;
  /** The response whose tree is being counted. */
  #counted = "";

  constructor(app: App, transcript: Transcript, options: TerminalOptions, update: () => void) {
    this.app = app;
    this.transcript = transcript;
    this.#options = options;
    this.#update = update;
    this.choice = options.choice;
    const far = {
      list: () => options.questions(app),
      answer: (id: string, answer: ElicitationAnswer) => options.answerQuestion(app, id, answer),
    };
    this.asks = new Asks(app, far, update);
    this.profile = options.choice.profile ?? app.config.defaultProfile;
    this.model = options.choice.model ?? "";
    app.onNotice((notice) => {
      const known = notice.itemId !== undefined && this.#turn?.reader.tell(notice.itemId, notice.text, notice.level);
      if (known) update();
    });
  }

  get running(): Turn | undefined {
    return this.#turn;
  }

  get head(): string | undefined {
    return this.choice.from;
  }

  note(text: string, kind: "info" | "warn" | "error" | "plain" = "info"): void {
    this.transcript.add(new NoteBlock(text, kind));
    this.#update();
  }

  fail(error: unknown): void {
    const { message, remedy, code } = toRotundaError(error);
    this.note(
      `[error] ${message}${remedy === undefined ? "" : `\n${remedy}`}${code === "internal" ? " [internal]" : ""}`,
      "error",
    );
  }

  /** Goes to a response: everything above it is shown, and what runs is joined. Resolves with what the person said. */
  async open(id: string): Promise<string[]> {
    this.transcript.clear();
    this.#fresh = false;
    const loaded = await showPath(this.app, id, this.transcript);
    this.todos = loaded.todos;
    const { node } = loaded;
    this.usage = { tokens: 0, cost: 0, context: 0 };
    if (node.endedAt !== null) this.#count(node).catch((error: unknown) => this.fail(error));
    this.profile = this.choice.profile ?? node.profile;
    this.model = this.choice.model ?? node.model;
    if (node.endedAt !== null) {
      this.choice = { ...this.choice, from: id };
      await this.asks.show(id);
    } else await this.#join(node);
    this.#update();
    return loaded.said;
  }

  /** Forgets what it goes on from. */
  clear(): void {
    const { from: _from, ...choice } = this.choice;
    this.choice = choice;
    this.#fresh = false;
    this.todos = [];
    this.byHand = [];
    this.#counted = "";
    this.usage = { tokens: 0, cost: 0, context: 0 };
    this.transcript.clear();
  }

  /** A message of the person: now, or into what runs. Never throws. */
  async say(said: Said): Promise<void> {
    this.transcript.follow();
    if (this.#turn) return this.#steer(said);
    if (this.starting) {
      this.queue.push(said);
      return;
    }
    this.starting = true;
    try {
      await this.#begin(said);
    } catch (error) {
      this.fail(error);
    } finally {
      this.starting = false;
      this.#update();
    }
  }

  async #begin(said: Said): Promise<void> {
    this.transcript.add(new SaidBlock(said.text + said.images.map(({ name }) => `\n[image: ${name}]`).join("")));
    this.#update();
    const prompt = [...this.byHand, said.text].join("\n\n");
    const request = await this.#options.request(prompt, this.choice, this.#fresh);
    if (said.images.length > 0) request.input = [messageOf(prompt, said.images)];
    const node = await this.#options.start(this.app, { ...request, door: "tui", approver: parked });
    this.#fresh = false;
    this.byHand = [];
    this.profile = node.profile;
    this.model = node.model;
    this.#follow(node);
  }

  async #steer({ text, images }: Said): Promise<void> {
    const turn = this.#turn;
    if (!turn) return;
    try {
      await this.app.engine.steer(turn.id, [messageOf(text, images)]);
      this.steering.push(text);
    } catch (error) {
      // It has just ended: then it is the next turn.
      if (toRotundaError(error).code === "response_ended") this.queue.push({ text, images });
      else this.fail(error);
    }
    this.#update();
  }

  async #join(node: ResponseNode): Promise<void> {
    const held = isHeld(await this.app.store.leaseOf(node.id));
    if (!held && (node.status === "in_progress" || node.status === "queued")) await this.#resume(node.id);
    this.#follow(node);
  }

  async #resume(id: string): Promise<void> {
    try {
      await this.app.engine.resume(id, parked);
      this.note(`Going on with ${shortId(id)}, which was left in the middle.`);
    } catch (error) {
      const { code } = toRotundaError(error);
      if (code !== "owned_elsewhere" && code !== "response_ended") throw error;
    }
  }

  #follow(node: ResponseNode): void {
    const turn: Turn = { id: node.id, reader: new Reader(this.transcript), began: node.createdAt, cancelled: false };
    turn.reader.doing = "waiting for the model";
    this.#turn = turn;
    this.asks.watch(node.id);
    const agents = new Agents(this.app, node.id, turn.reader, this.#update);
    this.#watch(turn, agents)
      .catch((error: unknown) => this.fail(error))
      .finally(() => {
        agents.close();
        if (this.#turn === turn) this.#turn = undefined;
        this.asks.watch(undefined);
        this.steering = [];
        this.#update();
        this.#next();
      });
  }

  async #watch(turn: Turn, agents: Agents): Promise<void> {
    const { engine, store } = this.app;
    const { signal } = this.#left;
    let told = false;
    for (;;) {
      for await (const group of engine.watch(turn.id, turn.reader.after, signal).groups()) {
        for (const event of group) {
          turn.reader.read(event);
          if (event.type === "response.output_item.done") this.#took(event.item);
        }
        if (turn.reader.todos) this.todos = turn.reader.todos;
        agents.look();
        this.#update();
      }
      if (signal.aborted) return;
      const node = await store.node(turn.id);
      if (!node) throw new RotundaError("not_found", "the response was deleted");
      if (node.endedAt !== null) return this.#ended(turn, node);
      if (node.error && !told) {
        told = true;
        this.note(`It waits: ${node.error.message}. Raise the budget (rotunda budget set), then /resume.`, "warn");
      }
      await this.#waits(node);
    }
  }

  /** Nobody runs it: it waits for a person, or its process is gone. */
  async #waits(node: ResponseNode): Promise<void> {
    const held = isHeld(await this.app.store.leaseOf(node.id));
    if (node.status === "in_progress" && !held) await this.#resume(node.id);
    await sleep(LOOK, undefined, { signal: this.#left.signal }).catch(() => undefined);
  }

  #took(item: Item): void {
    if (item.type === "message" && item.role === "user") this.steering.shift();
  }

  async #ended(turn: Turn, node: ResponseNode): Promise<void> {
    // A profile may end a turn at a question: what carries the answer out is the next response.
    if (node.status !== "failed") this.choice = { ...this.choice, from: node.id };
    else if (node.previousResponseId) this.choice = { ...this.choice, from: node.previousResponseId };
    for (const text of endText(node, turn.cancelled)) this.note(text, node.status === "failed" ? "error" : "warn");
    if (node.status === "failed" && node.error && turn.reader.after < 2)
      this.note(`[error] ${node.error.message}`, "error");
    await this.#count(node);
    // The profile ends a turn at its questions: they are asked all the same, and the answer begins the next response.
    await this.asks.show(node.id);
  }

  /** Of the whole tree: the screen does not wait for it. */
  async #count(node: ResponseNode): Promise<void> {
    this.#counted = node.id;
    const usage = await usageOf(this.app, node);
    if (this.#counted === node.id) this.usage = usage;
    this.#update();
  }

  #next(): void {
    if (this.#left.signal.aborted) return;
    const next = this.queue.shift();
    if (next) this.say(next).catch(() => undefined);
  }

  /** Answers an approval; what goes on because of it is followed where it belongs to this conversation. Never throws. */
  async decide(ask: Extract<Ask, { kind: "approval" }>, decision: Decision): Promise<void> {
    try {
      const goesOn = await this.asks.decide(ask, decision);
      const { pattern } = ask.approval;
      if (decision.scope === "always") this.note(`${clean(pattern)} is always allowed in this directory from now on.`);
      else if (decision.scope === "session") this.note(`${clean(pattern)} is allowed in this conversation.`);
      if (!goesOn || goesOn.id === this.#turn?.id || goesOn.caller !== null) return;
      const here = goesOn.previousResponseId !== null && goesOn.previousResponseId === this.head;
      if (here && !this.#turn) this.#follow(goesOn);
      else this.note(`${shortId(goesOn.id)} goes on, in another conversation: /resume ${shortId(goesOn.id)} shows it.`);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Calls that wait for a person say so. */
  markAsking(): void {
    for (const ask of this.asks.open) {
      const block = ask.kind === "approval" ? this.#turn?.reader.calls.get(ask.approval.itemId) : undefined;
      if (block?.view.status !== "in_progress") continue;
      block.view.status = "asking";
      block.changed();
    }
  }

  /** Ends the turn that runs. False: none does. */
  cancel(): boolean {
    const turn = this.#turn;
    if (!turn || turn.cancelled) return false;
    turn.cancelled = true;
    turn.reader.doing = "stopping";
    this.app.engine.cancel(turn.id, "cancelled by the user").catch((error: unknown) => this.fail(error));
    this.#update();
    return true;
  }

  /** Stops looking on. What runs in another process runs on. */
  leave(): void {
    this.#left.abort();
    this.asks.close();
  }

  /** The request of something that is no message: a compaction. */
  async run(request: RunRequest): Promise<void> {
    const node = await this.#options.start(this.app, { ...request, door: "tui", approver: parked });
    this.#follow(node);
  }
}

/** One message of the person, with what is attached to it. */
function messageOf(text: string, images: readonly Attachment[]): MessageItem {
  return {
    type: "message",
    id: newId("msg"),
    role: "user",
    status: "completed",
    content: [
      { type: "input_text", text },
      ...images.map(({ url }) => ({ type: "input_image" as const, image_url: url })),
    ],
  };
}

/** What is to be said of an end that was none of the usual. */
function endText(node: ResponseNode, cancelled: boolean): string[] {
  const texts: string[] = [];
  if (node.status === "cancelled") texts.push(cancelled ? "Cancelled." : "Cancelled at another door.");
  if (node.incompleteReason === "max_output_tokens") texts.push("[Response truncated due to length limit]");
  else if (node.incompleteReason === "max_turns") texts.push("[Agent stopped — reached maximum iteration limit]");
  else if (node.incompleteReason !== null && node.status !== "cancelled")
    texts.push(`[incomplete: ${node.incompleteReason}]`);
  if (node.degraded) texts.push("[degraded: the model could not answer; this was made of the tool results]");
  return texts;
}
