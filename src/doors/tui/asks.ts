/**
 * Asks: what waits for the person at this terminal, approvals of a turn and questions of MCP servers.
 *
 * Invariant: the question lies in the store and is answered once, from whichever door is first; one that was answered
 * elsewhere is taken back here. Only a key that was hit after the question stood on the screen answers it.
 */
import type { App } from "../../types/app.ts";
import type { Approval, Decision } from "../../types/approval.ts";
import type { Elicitation, ElicitationAnswer } from "../../types/elicitation.ts";
import type { ResponseNode } from "../../types/response.ts";
import { outermost } from "../../util/outermost.ts";
import { parked } from "../../util/parked.ts";

export type Ask = { kind: "approval"; approval: Approval } | { kind: "question"; elicitation: Elicitation };

/** Milliseconds between two looks for questions. */
const LOOK = 150;

export class Asks {
  readonly #app: App;
  readonly #update: () => void;
  readonly #timer: NodeJS.Timeout;
  readonly #unlisten: () => void;
  /** Outermost response whose questions are asked here. */
  #watched: string | undefined;
  /** Approvals that were asked for by hand (`/approve`). */
  #wanted = new Set<string>();
  /** Left open by the person: not shown again unless asked for. */
  readonly #later = new Set<string>();
  readonly #tops = new Map<string, string>();
  #looking = false;
  open: Ask[] = [];

  constructor(app: App, update: () => void) {
    this.#app = app;
    this.#update = update;
    this.#timer = setInterval(() => this.look(), LOOK);
    this.#timer.unref();
    this.#unlisten = app.onElicitation(() => this.look());
  }

  close(): void {
    clearInterval(this.#timer);
    this.#unlisten();
  }

  watch(responseId: string | undefined): void {
    this.#watched = responseId;
    this.look();
  }

  /** Shows these, whichever response they are of. */
  show(approvals: readonly Approval[]): void {
    for (const { id } of approvals) {
      this.#later.delete(id);
      this.#wanted.add(id);
    }
    this.look();
  }

  look(): void {
    if (this.#looking) return;
    if (this.#watched === undefined && this.#wanted.size === 0 && this.#app.elicitations().length === 0) {
      if (this.open.length > 0) {
        this.open = [];
        this.#update();
      }
      return;
    }
    this.#looking = true;
    this.#search()
      .catch(() => undefined)
      .finally(() => {
        this.#looking = false;
      });
  }

  async #search(): Promise<void> {
    const asks: Ask[] = this.#app
      .elicitations()
      .filter(({ id }) => !this.#later.has(id))
      .map((elicitation) => ({ kind: "question", elicitation }));
    for (const approval of await this.#app.store.approvals({ status: "pending" })) {
      if (this.#later.has(approval.id)) continue;
      const mine = this.#wanted.has(approval.id) || (await this.#topOf(approval.responseId)) === this.#watched;
      if (mine) asks.push({ kind: "approval", approval });
    }
    const before = this.open.map(idOf).join(" ");
    // What is being answered stays the same object while it is open.
    this.open = asks.map((ask) => this.open.find((one) => idOf(one) === idOf(ask)) ?? ask);
    if (this.open.map(idOf).join(" ") !== before) this.#update();
  }

  async #topOf(responseId: string): Promise<string> {
    const known = this.#tops.get(responseId);
    if (known !== undefined) return known;
    const top = await outermost(this.#app, responseId);
    this.#tops.set(responseId, top);
    return top;
  }

  /** Leaves it open, for another door or for later (`/approve`). */
  leave(ask: Ask): void {
    this.#later.add(idOf(ask));
    this.#wanted.delete(idOf(ask));
    this.open = this.open.filter((one) => one !== ask);
  }

  /** Resolves with the response that goes on here now, if one does. */
  async decide(
    { approval }: Extract<Ask, { kind: "approval" }>,
    decision: Decision,
  ): Promise<ResponseNode | undefined> {
    this.open = this.open.filter((ask) => idOf(ask) !== approval.id);
    this.#later.add(approval.id);
    this.#wanted.delete(approval.id);
    await this.#app.engine.decide(approval.id, decision);
    return this.#app.engine.goOn(approval.id, parked);
  }

  answer({ elicitation }: Extract<Ask, { kind: "question" }>, answer: ElicitationAnswer): void {
    this.#app.answerElicitation(elicitation.id, answer);
    this.open = this.open.filter((ask) => idOf(ask) !== elicitation.id);
  }
}

export function idOf(ask: Ask): string {
  return ask.kind === "approval" ? ask.approval.id : ask.elicitation.id;
}
