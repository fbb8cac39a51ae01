/**
 * Session: the conversation that a terminal is in, and the turn that runs in it.
 *
 * Invariant: it is an ordinary client of the engine. Whichever process runs a turn, it is watched, steered, answered
 * and cancelled the same way; what is shown stands in the store, and leaving ends nothing that another process runs. At
 * the end of a conversation what other doors add to it is shown, and what is said goes behind all of it.
 */
import type { App } from "../../types/app.ts";
import type { Decision } from "../../types/approval.ts";
import type { RunRequest } from "../../types/engine.ts";
import { toRotundaError } from "../../types/error.ts";
import type { ResponseNode } from "../../types/response.ts";
import type { StoredResponse } from "../../types/store.ts";
import { shortId } from "../../util/ids.ts";
import { parked } from "../../util/parked.ts";
import { Agents } from "./agents.ts";
import { type Ask, Asks } from "./asks.ts";
import { failureText, NoteBlock, SaidBlock } from "./block.ts";
import { clean, cleanLine } from "./clean.ts";
import { Elsewhere, type End, endAt, runsFirst } from "./elsewhere.ts";
import { endTexts, type LoadedPath, readPath, showPath, showResponse } from "./history.ts";
import type { Choice, TerminalOptions } from "./options.ts";
import type { Todo } from "./reader.ts";
import { messageOf, type Said, shownText, takeOut } from "./said.ts";
import type { Transcript } from "./transcript.ts";
import { type Turn, turnIn, watchTurn } from "./turn.ts";
import { Usage } from "./usage.ts";

export class Session {
  readonly app: App;
  readonly transcript: Transcript;
  readonly asks: Asks;
  readonly elsewhere: Elsewhere;
  readonly #options: TerminalOptions;
  readonly #update: () => void;
  readonly #left = new AbortController();
  #turn: Turn | undefined;
  choice: Choice;
  #fresh = true;
  /** What is asked next, in order, when the turn has ended. */
  readonly queue: Said[] = [];
  /** Steering that has not been taken up yet. */
  readonly steering: Said[] = [];
  /** What was done by hand since the last message: it goes along with the next one. */
  byHand: string[] = [];
  todos: Todo[] = [];
  readonly usage: Usage;
  profile: string;
  model: string;
  starting = false;
  /** The last response that was to be gone to. */
  #opening = "";
  /** What was said last was said at another door, and the screen says so. */
  #othersSpeak = false;
  /** When a turn ended that was cancelled here last, in milliseconds since the epoch: what was made before it was queued. */
  #cancelledAt = 0;
  /** Whether the screen may move by itself now. */
  mayMove: () => boolean = () => true;
  /** Takes what was queued when a turn was cancelled. */
  giveBack: (queued: readonly Said[]) => void = () => undefined;

  constructor(app: App, transcript: Transcript, options: TerminalOptions, update: () => void) {
    this.app = app;
    this.transcript = transcript;
    this.#options = options;
    this.#update = update;
    this.choice = options.choice;
    this.asks = new Asks(app, options, update);
    this.elsewhere = new Elsewhere(app, {
      turn: () => this.#turn,
      free: (always) => !this.#turn && (always || !this.starting) && !this.#left.signal.aborted,
      mayMove: () => this.mayMove(),
      append: (said) => this.#append(said),
      update,
    });
    this.usage = new Usage(app);
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

  /** A turn runs, or is about to. */
  get busy(): boolean {
    return this.starting || this.#turn !== undefined;
  }

  get head(): string | undefined {
    return this.choice.from;
  }

  note(text: string, kind: "info" | "warn" | "error" | "plain" = "info"): void {
    this.transcript.add(new NoteBlock(text, kind));
    this.#update();
  }

  fail(error: unknown): void {
    this.note(failureText(error), "error");
  }

  /**
   * Goes to a response, or to the one that it waits for: everything above it is shown, and what runs is joined. Resolves
   * with what the person said. While a turn runs here it stays where it is, and says so. `isEnd`: it was read as the last
   * one of its conversation.
   */
  async open(id: string, isEnd = false): Promise<string[]> {
    if (this.busy) {
      if (this.#turn?.id !== id) this.note("A turn is running: Ctrl-C ends it.", "warn");
      return [];
    }
    this.#opening = id;
    const loaded = await readPath(this.app, await runsFirst(this.app, id));
    const { node } = loaded;
    const end = isEnd ? endAt(node) : await this.elsewhere.find(node);
    // Something else has begun meanwhile.
    if (this.#opening !== id || this.busy) return [];
    this.#show(loaded);
    this.#fresh = false;
    this.usage.clear();
    if (node.endedAt !== null) this.#count(node);
    this.profile = this.choice.profile ?? node.profile;
    this.model = this.choice.model ?? node.model;
    this.#standAt(node.endedAt === null ? node.previousResponseId : node.id, end);
    this.#othersSpeak = false;
    if (node.endedAt !== null) await this.asks.show(node.id);
    else this.#follow(node);
    this.#update();
    return loaded.said;
  }

  #show(loaded: LoadedPath): void {
    this.transcript.clear();
    showPath(this.app, loaded, this.transcript);
    this.todos = loaded.todos;
  }

  /** What is said next goes on from there; null: from nothing. `end`: of the conversation, if it stands at one. */
  #standAt(id: string | null, end?: End): void {
    const { from: _from, ...choice } = this.choice;
    this.choice = id === null ? choice : { ...choice, from: id };
    this.elsewhere.end = end;
  }

  /** A conversation that nobody has said anything in yet. */
  standAtBeginning(conversation: string): void {
    this.#standAt(null, { conversation, id: undefined, failed: undefined });
  }

  /** A turn is over: the next one goes on from it, or from before it where it came to nothing. */
  #standBehind(node: ResponseNode): void {
    const end = endAt(node);
    const before = node.previousResponseId;
    if (node.status !== "failed") this.#standAt(node.id, end);
    else this.#standAt(before, end && { ...end, id: before ?? undefined, failed: node.id });
  }

  /** Behind what is shown, what was said since; the last of it is joined if it has not ended. */
  async #append(said: readonly StoredResponse[]): Promise<void> {
    const last = said.at(-1);
    if (!last) return;
    const { door, createdAt, endedAt } = last.node;
    if (endedAt === null && createdAt < this.#cancelledAt)
      this.note(`What was queued at ${cleanLine(door, 40)} runs now: Ctrl-C cancels it.`);
    else if (!this.#othersSpeak) this.note("said at another door:");
    this.#othersSpeak = true;
    for (const stored of said) {
      const { todos } = showResponse(stored, this.transcript, stored === last);
      if (todos) this.todos = todos;
    }
    const { node } = last;
    this.profile = this.choice.profile ?? node.profile;
    this.model = this.choice.model ?? node.model;
    this.#fresh = false;
    if (node.endedAt === null) {
      this.#standAt(node.previousResponseId);
      this.#follow(node);
    } else {
      this.#standBehind(node);
      this.#count(node);
      await this.asks.show(node.id);
    }
    this.#update();
  }

  /** Forgets what it goes on from. */
  clear(): void {
    this.#standAt(null);
    this.#othersSpeak = false;
    this.#opening = "";
    this.#fresh = false;
    this.todos = [];
    this.byHand = [];
    this.usage.clear();
    this.transcript.clear();
  }

  /** A message of the person: now, or into what runs. `next`: never into what runs. Never throws. */
  async say(said: Said, next = false): Promise<void> {
    this.transcript.follow();
    if (this.#turn && !next) return this.#steer(said);
    if (this.busy) {
      this.queue.push(said);
      return;
    }
    const shown = new SaidBlock(shownText(said));
    const intoTurn = async () => {
      if (next) this.queue.unshift(said);
      else await this.#steer(said);
    };
    await this.#beginning(async () => {
      try {
        if (await this.#joins()) await intoTurn();
        else await this.#begin(said, shown);
      } catch (error) {
        // It was said at another door in this very moment.
        const joined = toRotundaError(error).code === "response_not_ended" && (await this.#joins().catch(() => false));
        if (!joined) return this.fail(error);
        this.transcript.remove(shown);
        await intoTurn();
      }
    });
  }

  /** Nothing else begins meanwhile; what was said then is next, where nothing has begun after all. */
  async #beginning(work: () => Promise<void>): Promise<void> {
    this.starting = true;
    await work().finally(() => {
      this.starting = false;
      this.#update();
      if (!this.#turn) this.#next();
    });
  }

  /** Goes to where the conversation is by now. Resolves with whether something runs there. */
  async #joins(): Promise<boolean> {
    await this.elsewhere.catchUp(true);
    return this.#turn !== undefined;
  }

  async #begin(said: Said, shown: SaidBlock): Promise<void> {
    this.transcript.add(shown);
    this.#update();
    const prompt = [...this.byHand, said.text].join("\n\n");
    const request = await this.#options.request(prompt, this.choice, this.#fresh);
    if (said.images.length > 0) request.input = [messageOf({ ...said, text: prompt })];
    const { head } = this;
    const node = await this.#start(request);
    this.#fresh = false;
    this.#othersSpeak = false;
    this.byHand = [];
    this.profile = node.profile;
    this.model = node.model;
    // Something was said at another door just before.
    if (node.previousResponseId !== (head ?? null)) this.#show(await readPath(this.app, node.id));
    this.#follow(node);
  }

  async #steer(said: Said): Promise<void> {
    const turn = this.#turn;
    if (!turn) return;
    this.steering.push(said);
    this.#update();
    try {
      await this.app.engine.steer(turn.id, [messageOf(said)]);
    } catch (error) {
      const at = this.steering.indexOf(said);
      // The end of the turn has made it the next one.
      if (at === -1) return;
      this.steering.splice(at, 1);
      if (toRotundaError(error).code === "response_ended") {
        this.queue.push(said);
        if (!this.#turn) this.#next();
      } else this.fail(error);
    }
    this.#update();
  }

  #follow(node: ResponseNode): void {
    const turn = turnIn(this.transcript, node);
    this.#turn = turn;
    this.elsewhere.look();
    this.asks.watch(node.id);
    const agents = new Agents(this.app, node.id, turn.reader, this.#update);
    this.#watch(turn, agents)
      .catch((error: unknown) => this.fail(error))
      .finally(() => {
        agents.close();
        if (this.#turn !== turn) return;
        this.#turn = undefined;
        this.asks.watch(undefined);
        this.#update();
        this.#next();
      });
  }

  async #watch(turn: Turn, agents: Agents): Promise<void> {
    const node = await watchTurn(turn, {
      app: this.app,
      signal: this.#left.signal,
      note: (text, kind) => this.note(text, kind),
      heard: (events) => {
        // What steers it lies before the model: the reader has it now.
        for (const event of events) if (event.type === "response.output_item.done") takeOut(this.steering, event.item);
        if (turn.reader.todos) this.todos = turn.reader.todos;
        agents.look();
        this.#update();
      },
    });
    if (node) await this.#ended(turn, node);
  }

  async #ended(turn: Turn, node: ResponseNode): Promise<void> {
    // A profile may end a turn at a question: what carries the answer out is the next response.
    this.#standBehind(node);
    for (const text of endTexts(node, !turn.cancelled)) this.note(text, node.status === "failed" ? "error" : "warn");
    // What came too late to steer it is the next turn.
    this.queue.unshift(...this.steering.splice(0));
    if (node.status === "cancelled") {
      turn.reader.brokenOff();
      this.#holdQueue();
      if (turn.cancelled) this.#cancelledAt = node.endedAt ?? 0;
    }
    if (node.status === "failed" && node.error && turn.reader.after < 2)
      this.note(`[error] ${node.error.message}`, "error");
    this.#count(node);
    // The profile ends a turn at its questions: they are asked all the same, and the answer begins the next response.
    await this.asks.show(node.id);
  }

  /** The screen does not wait for it. */
  #count(node: ResponseNode): void {
    this.usage.count(node).then(this.#update, (error: unknown) => this.fail(error));
  }

  #next(): void {
    if (this.#left.signal.aborted) return;
    const next = this.queue.shift();
    if (next) this.say(next, true).catch(() => undefined);
    else this.elsewhere.look();
  }

  /** What was to come after a turn that was cancelled is the person's again. */
  #holdQueue(): void {
    const queued = this.queue.splice(0);
    if (queued.length > 0) this.giveBack(queued);
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

  /** Ends the turn that runs. False: none does. */
  cancel(): boolean {
    const turn = this.#turn;
    if (!turn || turn.cancelled) return false;
    turn.cancelled = true;
    turn.reader.doing = "stopping";
    this.#holdQueue();
    this.app.engine.cancel(turn.id, "cancelled by the user").catch((error: unknown) => this.fail(error));
    this.#update();
    return true;
  }

  /** Stops looking on. What runs in another process runs on. */
  leave(): void {
    this.#left.abort();
    this.elsewhere.close();
    this.asks.close();
  }

  /** The request of something that is no message: a compaction. */
  async run(request: RunRequest): Promise<void> {
    await this.#beginning(async () => this.#follow(await this.#start(request)));
  }

  #start(request: RunRequest): Promise<ResponseNode> {
    this.elsewhere.goBehind(request);
    return this.#options.start(this.app, { ...request, door: "tui", approver: parked });
  }
}
