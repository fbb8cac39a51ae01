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
import type { TerminalOptions } from "./options.ts";

/** How questions of MCP servers to runs of another process of this machine are asked for, and answered. */
type FarQuestions = Pick<TerminalOptions, "questions" | "answerQuestion">;

/** `elsewhere`: it is no question of this screen's conversation. */
export type Ask =
  | { kind: "approval"; approval: Approval; elsewhere?: boolean }
  | { kind: "question"; elicitation: Elicitation };

/** Milliseconds between two looks for questions. */
const LOOK = 150;
/** The same, where another process is asked. */
const FAR_LOOK = 500;

export class Asks {
  readonly #app: App;
  readonly #far: FarQuestions;
  readonly #update: () => void;
  readonly #timer: NodeJS.Timeout;
  readonly #unlisten: () => void;
  /** Outermost response whose questions are asked here. */
  #watched: string | undefined;
  /** What was asked for by hand (`/approve`). */
  readonly #wanted = new Set<string>();
  /** Of a response that this screen stands at. */
  readonly #own = new Set<string>();
  /** Left open by the person, or answered: not shown again unless asked for. */
  readonly #later = new Set<string>();
  /** Left open by the person. */
  readonly #left = new Set<string>();
  readonly #tops = new Map<string, string>();
  #looking = false;
  #farAsked: Elicitation[] = [];
  #farLooked = Number.NEGATIVE_INFINITY;
  open: Ask[] = [];
  /** The run that is watched waits for an answer to a question that the person has left for later. */
  waits = false;

  constructor(app: App, far: FarQuestions, update: () => void) {
    this.#app = app;
    this.#far = far;
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

  /** Shows all that waits, or what waits of one response; resolves with how much it is. */
  async show(responseId?: string): Promise<number> {
    const approvals = await this.#app.store.approvals({ status: "pending", ...(responseId && { responseId }) });
    const far = responseId === undefined ? await this.#far.questions(this.#app) : [];
    const questions = responseId === undefined ? [...this.#app.elicitations(), ...far] : [];
    const ids = new Set([...approvals, ...questions].map(({ id }) => id));
    for (const id of ids) {
      this.#later.delete(id);
      this.#left.delete(id);
      this.#wanted.add(id);
      if (responseId !== undefined) this.#own.add(id);
    }
    this.#farLooked = Number.NEGATIVE_INFINITY;
    this.look();
    return ids.size;
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
    const questions = [...this.#app.elicitations(), ...(await this.#farQuestions())];
    const asks: Ask[] = questions
      .filter(({ id }) => !this.#later.has(id))
      .map((elicitation) => ({ kind: "question", elicitation }));
    const approvals = await this.#app.store.approvals({ status: "pending" });
    let waits = questions.some(({ id }) => this.#left.has(id));
    for (const approval of approvals) {
      const { id } = approval;
      const here = this.#own.has(id) || (await this.#topOf(approval.responseId)) === this.#watched;
      waits ||= here && this.#left.has(id);
      if (this.#later.has(id)) continue;
      if (here || this.#wanted.has(id)) asks.push({ kind: "approval", approval, elsewhere: !here });
    }
    this.waits = waits;
    const waiting = new Set([...questions, ...approvals].map(({ id }) => id));
    for (const id of this.#wanted) if (!waiting.has(id)) this.#wanted.delete(id);
    const before = this.open.map(idOf).join(" ");
    // What was answered while it was looked for is over; what is being answered stays the same object while it is open.
    const open = asks.filter((ask) => !this.#later.has(idOf(ask)));
    this.open = open.map((ask) => this.open.find((one) => idOf(one) === idOf(ask)) ?? ask);
    if (this.open.map(idOf).join(" ") !== before) this.#update();
  }

  /** Those for the run that is watched, where another process has it, and those that are wanted. */
  async #farQuestions(): Promise<Elicitation[]> {
    const now = performance.now();
    if (now - this.#farLooked < FAR_LOOK) return this.#farAsked;
    this.#farLooked = now;
    const watched = this.#watched;
    const lease = watched === undefined ? undefined : await this.#app.store.leaseOf(watched);
    const elsewhere = lease !== undefined && lease.process.split("/")[1] !== String(process.pid);
    const wanted = [...this.#wanted].some((id) => id.startsWith("eli_"));
    const all = elsewhere || wanted ? await this.#far.questions(this.#app) : [];
    const mine = await Promise.all(
      all.map(async ({ id, responseIds = [] }) => {
        if (this.#wanted.has(id)) return true;
        const tops = await Promise.all(responseIds.filter((one) => one !== "").map((one) => this.#topOf(one)));
        return watched !== undefined && tops.includes(watched);
      }),
    );
    this.#farAsked = all.filter((_, index) => mine[index]);
    return this.#farAsked;
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
    this.#left.add(idOf(ask));
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
    try {
      await this.#app.engine.decide(approval.id, decision);
    } catch (error) {
      // If it still waits, it is asked once more.
      this.#later.delete(approval.id);
      throw error;
    }
    return this.#app.engine.goOn(approval.id, parked);
  }

  /** Throws `usage` where the content does not fit what was asked. */
  async answer({ elicitation }: Extract<Ask, { kind: "question" }>, answer: ElicitationAnswer): Promise<void> {
    const { id } = elicitation;
    if (this.#app.elicitations().some((one) => one.id === id)) this.#app.answerElicitation(id, answer);
    else await this.#far.answerQuestion(this.#app, id, answer);
    this.#later.add(id);
    this.#wanted.delete(id);
    this.open = this.open.filter((ask) => idOf(ask) !== id);
  }
}

export function idOf(ask: Ask): string {
  return ask.kind === "approval" ? ask.approval.id : ask.elicitation.id;
}
