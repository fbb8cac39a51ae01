/**
 * Elsewhere: what other doors add to the conversation that this screen stands at the end of.
 *
 * Invariant: it only reads. A conversation has gone on only where its head is another one by now and what is above that
 * one holds the answer that the screen stands at; who stands at an older answer is left there.
 */
import type { App } from "../../types/app.ts";
import type { RunRequest } from "../../types/engine.ts";
import { LOCAL, type ResponseNode } from "../../types/response.ts";
import type { StoredResponse } from "../../types/store.ts";

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

/** The screen that stands there. */
export interface Follower {
  /** Nothing runs in it and nothing begins; `always`: it may be about to begin. */
  free(always: boolean): boolean;
  /** Nobody has scrolled, and nothing covers it. */
  mayMove(): boolean;
  /** Shows what was said, oldest first, and joins the last of it if it runs. */
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

  /** Follows what was added, where the screen may move. */
  look(): void {
    if (!this.#looking && this.#screen.free(false)) this.catchUp(false).catch(() => undefined);
  }

  /** `always`: wherever the person looks. */
  async catchUp(always: boolean): Promise<void> {
    while (this.#looking !== undefined) await this.#looking.catch(() => undefined);
    this.#looking = this.#goOn(always).finally(() => {
      this.#looking = undefined;
    });
    await this.#looking;
  }

  async #goOn(always: boolean): Promise<void> {
    const said = await this.#added();
    if (!this.#screen.free(always)) return;
    const wentOn = said.length > 0 && !always && !this.#screen.mayMove();
    const isNews = wentOn !== this.#wentOn;
    this.#wentOn = wentOn;
    if (!wentOn && said.length > 0) await this.#screen.append(said);
    else if (isNews) this.#screen.update();
  }

  /** Of a response that is the last of its conversation; undefined: it is not. */
  async find(node: ResponseNode): Promise<End | undefined> {
    const end = endAt(node);
    const known = end && (await this.#app.store.conversation(end.conversation));
    return known?.head === node.id ? end : undefined;
  }

  /** What stands behind the end by now, oldest first; empty where that is nothing, or the screen has gone elsewhere. */
  async #added(): Promise<StoredResponse[]> {
    const { store } = this.#app;
    const end = this.#end;
    if (!end) return [];
    const head = (await store.conversation(end.conversation))?.head ?? undefined;
    this.#atFailed = head !== undefined && head === end.failed;
    if (head === end.id || this.#atFailed) return [];
    const ids = head === undefined ? [] : await this.#between(end, head);
    const read = await Promise.all(ids.map((id) => store.get(id)));
    if (this.#end !== end) return [];
    // Its head is elsewhere in the tree, or gone: this is its end no more.
    if (ids.length === 0) this.#end = undefined;
    return read.every((one) => one !== undefined) ? read : [];
  }

  /** Ids from behind the end down to the head; empty where they do not belong together. */
  async #between({ id, failed }: End, head: string): Promise<string[]> {
    const ids: string[] = [];
    for (let at: string | null = head; ids.length < MOST; ) {
      if (at === null) return id === undefined && failed === undefined ? ids.reverse() : [];
      if (at === id || at === failed) return ids.reverse();
      ids.push(at);
      at = (await this.#app.store.node(at))?.previousResponseId ?? null;
    }
    return [];
  }
}
