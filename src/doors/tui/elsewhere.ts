/**
 * Elsewhere: what other doors add to the conversation that this screen stands at the end of, and what they have queued
 * behind the turn that runs in it.
 *
 * Invariant: it only reads. A conversation has gone on only where its head is another one by now and what is above that
 * one holds the answer that the screen stands at; who stands at an older answer is left there. What is followed is the
 * first that has not ended: the others wait behind it.
 */
import type { App } from "../../types/app.ts";
import type { RunRequest } from "../../types/engine.ts";
import { LOCAL, type ResponseNode } from "../../types/response.ts";
import type { StoredResponse } from "../../types/store.ts";
import { mayHaveSkippedItsTurn } from "../../util/turns.ts";
import { cleanLine } from "./clean.ts";
import type { Turn } from "./turn.ts";

/** Milliseconds between two looks. */
const LOOK = 1_000;
/** Responses that are looked through for the one that the screen stands at. */
const MOST = 200;

/** The end of a conversation. */
export interface End {
  /** Id of a conversation, or the name of one that may not be there yet. */
  conversation: string;
  /** The response that is gone on from; undefined: nothing has been said that was answered. */
  id: string | undefined;
  /** A turn of this screen behind it that has failed: where it has said something, it is the head all the same. */
  failed: string | undefined;
}

/** A response as the end of its conversation; undefined where it is in none of this machine's. */
export function endAt({ id, owner, conversationId }: ResponseNode): End | undefined {
  return conversationId === null || owner !== LOCAL
    ? undefined
    : { conversation: conversationId, id, failed: undefined };
}

/** What another door has queued behind the turn that runs here: the beginning of what it asks, on one line. */
export interface Queued {
  id: string;
  door: string;
  text: string;
}

/** The response that has to end before another one begins, or that one itself where it waits for none. */
export async function runsFirst({ store }: App, id: string): Promise<string> {
  let first = id;
  for (let node = await store.node(id); node; ) {
    if (node.endedAt === null) first = node.id;
    else if (!mayHaveSkippedItsTurn(node)) break;
    node = node.previousResponseId === null ? undefined : await store.node(node.previousResponseId);
  }
  return first;
}

/** The screen that stands there. */
export interface Follower {
  /** What runs in it. */
  turn(): Turn | undefined;
  /** Nothing runs in it and nothing begins; `always`: it may be about to begin. */
  free(always: boolean): boolean;
  /** Nobody has scrolled, and nothing covers it. */
  mayMove(): boolean;
  /** Shows what was said, oldest first, and joins the last of it if it has not ended. */
  append(said: readonly StoredResponse[]): Promise<void>;
  update(): void;
}

export class Elsewhere {
  readonly #app: App;
  readonly #screen: Follower;
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<void> | undefined;
  #wentOn = false;
  #end: End | undefined;
  /** The head that was seen last is the turn of this screen that has failed. */
  #atFailed = false;
  /** The turn that runs, and what waits behind it. */
  #behind: { turn: string; queued: readonly Queued[] } | undefined;

  constructor(app: App, screen: Follower) {
    this.#app = app;
    this.#screen = screen;
    this.#timer = setInterval(() => this.look(), LOOK);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** The conversation has gone on, and the screen stays where the person looks. */
  get wentOn(): boolean {
    return this.#wentOn;
  }

  /** What other doors have queued behind the turn that runs here, the next one first. */
  get queued(): readonly Queued[] {
    const behind = this.#behind;
    return behind && behind.turn === this.#screen.turn()?.id ? behind.queued : [];
  }

  /** The end that the screen stands at; undefined: it stands at an older answer, or nowhere. */
  get end(): End | undefined {
    return this.#end;
  }

  set end(end: End | undefined) {
    this.#end = end;
    this.#wentOn = false;
  }

  /** The name of a conversation that nobody has said anything in yet. */
  get beginning(): string | undefined {
    const { id, failed, conversation } = this.#end ?? { id: "" };
    return id === undefined && failed === undefined ? conversation : undefined;
  }

  /** At the end of a conversation a request goes on with it, whatever is added to it in this very moment. */
  goBehind(request: RunRequest): void {
    const end = this.#end;
    if (!end || this.beginning !== undefined || request.previousResponseId !== end.id) return;
    request.conversation = end.conversation;
    // What was said before it failed is no part of what is gone on from.
    if (!this.#atFailed) delete request.previousResponseId;
  }

  /** Follows what was added, where the screen may move; while a turn runs, sees what is queued behind it. */
  look(): void {
    const turn = this.#screen.turn();
    if (this.#looking !== undefined || !(turn || this.#screen.free(false))) return;
    const looking = turn ? this.#once(() => this.#lookBehind(turn)) : this.catchUp(false);
    looking.catch(() => undefined);
  }

  /** `always`: wherever the person looks. */
  async catchUp(always: boolean): Promise<void> {
    while (this.#looking !== undefined) await this.#looking.catch(() => undefined);
    await this.#once(() => this.#goOn(always));
  }

  #once(look: () => Promise<void>): Promise<void> {
    this.#looking = look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #lookBehind({ id, conversation }: Turn): Promise<void> {
    const { store } = this.#app;
    const head = conversation === null ? undefined : (await store.conversation(conversation))?.head;
    const nodes = head === undefined || head === null || head === id ? [] : await this.#between([id], head);
    const waiting = nodes?.filter(({ endedAt }) => endedAt === null) ?? [];
    const known = this.#behind?.turn === id ? this.#behind.queued : [];
    if (waiting.map((node) => node.id).join(" ") === known.map((one) => one.id).join(" ")) return;
    const said =
      waiting.length > 0 ? await (await store.browsing()).excerpts(waiting.map((node) => node.id)) : undefined;
    const queued = waiting.map(({ id, door }) => ({
      id,
      door: cleanLine(door, 40),
      text: cleanLine(said?.get(id)?.prompt ?? "(no text)"),
    }));
    this.#behind = { turn: id, queued };
    this.#screen.update();
  }

  async #goOn(always: boolean): Promise<void> {
    const said = await this.#added();
    if (!this.#screen.free(always)) return;
    const wentOn = said.length > 0 && !always && !this.#screen.mayMove();
    const isNews = wentOn !== this.#wentOn;
    this.#wentOn = wentOn;
    if (!wentOn && said.length > 0) await this.#screen.append(said);
    else if (isNews) this.#screen.update();
    const turn = this.#screen.turn();
    if (turn) await this.#lookBehind(turn).catch(() => undefined);
  }

  /** Of a response that is the last of its conversation; undefined: it is not. */
  async find(node: ResponseNode): Promise<End | undefined> {
    const end = endAt(node);
    const known = end && (await this.#app.store.conversation(end.conversation));
    return known?.head === node.id ? end : undefined;
  }

  /**
   * What stands behind the end by now, oldest first, up to what has not ended; empty where that is nothing, or the screen
   * has gone elsewhere.
   */
  async #added(): Promise<StoredResponse[]> {
    const { store } = this.#app;
    const end = this.#end;
    if (!end) return [];
    const head = (await store.conversation(end.conversation))?.head ?? undefined;
    this.#atFailed = head !== undefined && head === end.failed;
    if (head === end.id || this.#atFailed) return [];
    const ends = [end.id, end.failed].filter((id) => id !== undefined);
    const nodes = head === undefined ? [] : await this.#between(ends, head);
    if (!nodes) return [];
    const open = nodes.findIndex(({ endedAt }) => endedAt === null);
    const read = await Promise.all(nodes.slice(0, open === -1 ? undefined : open + 1).map(({ id }) => store.get(id)));
    if (this.#end !== end) return [];
    // Its head is elsewhere in the tree, or gone: this is its end no more.
    if (nodes.length === 0) this.#end = undefined;
    return read.every((one) => one !== undefined) ? read : [];
  }

  /**
   * From behind one of these (none: from the root) down to the head; empty where they do not belong together. Undefined:
   * the head was deleted in this very moment, and is another one now.
   */
  async #between(ends: readonly string[], head: string): Promise<ResponseNode[] | undefined> {
    const nodes: ResponseNode[] = [];
    for (let at: string | null = head; nodes.length < MOST; ) {
      if (at === null) return ends.length === 0 ? nodes.reverse() : [];
      if (ends.includes(at)) return nodes.reverse();
      const node: ResponseNode | undefined = await this.#app.store.node(at);
      if (!node) return at === head ? undefined : [];
      nodes.push(node);
      at = node.previousResponseId;
    }
    return [];
  }
}
