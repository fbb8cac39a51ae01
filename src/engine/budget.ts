/**
 * Budget: what a model call or a sub-agent may still use, asked before it begins.
 *
 * Invariant: nothing is asked of a model, and no sub-agent is started, beyond a budget that is used up; the response
 * waits instead, and says for what. Where there is no budget and no bound on calls, this costs nothing.
 */
import {
  type Budget,
  type BudgetConfig,
  type BudgetHold,
  type BudgetKey,
  noneSpent,
  type Reserved,
  type Spent,
  usedUp,
} from "../types/budget.ts";
import { RotundaError } from "../types/error.ts";
import type { Model } from "../types/model.ts";
import type { Profile } from "../types/profile.ts";
import type { ResponseError, ResponseNode } from "../types/response.ts";
import { configured } from "../util/configured-budget.ts";
import { KeyedLock } from "../util/keyed-lock.ts";
import type { History } from "./history.ts";
import type { EngineParts } from "./parts.ts";
import type { Run } from "./run.ts";
import { Turnstile } from "./turnstile.ts";
import { usageOf } from "./usage.ts";

/** Tokens that a first call is taken to use; later ones: as much as the one before. */
const FIRST_CALL = 1_000;
/** Milliseconds between two tries of the first in line: what it waits for may become free on another machine. */
const AGAIN = 200;
/** Milliseconds for which it is believed that nobody has set a budget. */
const KNOWN = 1_000;

/** What was reserved. */
interface Allowance {
  /** Counts what was used since, with what is stored next. The first call counts. */
  settle(): void;
}

/** Leave for one call of a model, and who answers it. */
export interface Leave extends Allowance {
  /** The model, or the last one that was asked instead. */
  readonly model: Model;
  /** Another one is asked: leave for it is had first. Rejects with `BudgetReached`. */
  instead(other: Model): Promise<void>;
}

/** A budget that was found used up in the midst of a call. */
export class BudgetReached extends RotundaError {
  readonly error: ResponseError;

  constructor(error: ResponseError) {
    super("budget_reached", error.message);
    this.error = error;
  }
}

const FREE: Allowance = { settle: () => undefined };

export class BudgetGate {
  readonly #parts: EngineParts;
  readonly #history: History;
  readonly #turnstile = new Turnstile();
  /** By response: the calls of one answer start their sub-agents one after the other. */
  readonly #agents = new KeyedLock();
  /** Resolves when a call of this process has settled. */
  #freed: PromiseWithResolvers<void> | undefined;
  /** What runs have used, on its way to the disk: stored later than the next reservation, it would give that back. */
  readonly #settling = new WeakMap<Run, Promise<void>>();
  #setAt = Number.NEGATIVE_INFINITY;
  #anySet: Promise<boolean> = Promise.resolve(false);

  constructor(parts: EngineParts, history: History) {
    this.#parts = parts;
    this.#history = history;
  }

  get #configured(): readonly BudgetConfig[] {
    return this.#parts.budgets ?? [];
  }

  /** Leave for one model call; an error: that budget is used up. Waits where others are under way. */
  async forCall(run: Run, { profile, model }: { profile: Profile; model: Model }): Promise<Leave | ResponseError> {
    const last = run.output.findLast(({ meta }) => meta.usage !== undefined)?.meta.usage;
    const amount = { tokens: last?.total_tokens ?? FIRST_CALL, cost: last?.cost ?? 0, agents: 0 };
    const first = await this.#ask(run, profile, model, amount);
    if ("code" in first) return first;
    let allowance = first;
    const leave = {
      model,
      settle: () => allowance.settle(),
      instead: async (other: Model) => {
        // Whoever was asked so far has used nothing, and need not be waited for any longer.
        allowance.settle();
        const next = await this.#ask(run, profile, other, amount);
        if ("code" in next) throw new BudgetReached(next);
        allowance = next;
        leave.model = other;
        // It was stopped while it stood in line.
        run.signal.throwIfAborted();
      },
    };
    return leave;
  }

  /** Leave for one sub-agent of a response. It counts before the next one is asked for. */
  forAgent(run: Run, profile: Profile): Promise<ResponseError | undefined> {
    return this.#agents.run(run.node.id, async () => {
      const leave = await this.#ask(run, profile, undefined, { tokens: 0, cost: 0, agents: 1 });
      if ("code" in leave) return leave;
      if (leave === FREE) return undefined;
      leave.settle();
      await run.commit();
      return undefined;
    });
  }

  async #ask(
    run: Run,
    profile: Profile,
    model: Model | undefined,
    amount: Pick<Spent, "tokens" | "cost" | "agents">,
  ): Promise<Allowance | ResponseError> {
    if (!(await this.#mayBeBound(profile, model))) return FREE;
    const holds = await this.#holds(run.node, profile, model);
    await this.#settling.get(run);
    const reserved = await this.#reserve(run, holds, amount);
    if (reserved.kind === "busy") return FREE; // It was stopped while it stood in line.
    if (reserved.kind === "reached") return errorOf(reserved.budget);
    const before = usageOf(run.output);
    let settled = false;
    const settle = () => {
      if (settled || run.failure) return;
      settled = true;
      const { total_tokens, cost = 0 } = usageOf(run.output);
      run.spend({
        keys: holds.map(({ key }) => key),
        tokens: amountOf(total_tokens - before.total_tokens),
        cost: amountOf(cost - (before.cost ?? 0)),
        // Also the time since the last call, in which its tools ran.
        seconds: (run.stopwatch.spent() - run.counted) / 1_000,
        agents: amount.agents,
        at: this.#parts.now(),
      });
      run.counted = run.stopwatch.spent();
      const settling = run.commit().then(
        () => this.#freed?.resolve(),
        () => undefined, // The run tells of it.
      );
      this.#settling.set(run, settling);
    };
    // It was stopped while it stood in line: nobody will make this call.
    if (run.signal.aborted) settle();
    return { settle };
  }

  async #reserve(
    run: Run,
    holds: readonly BudgetHold[],
    amount: Pick<Spent, "tokens" | "cost" | "agents">,
  ): Promise<Reserved> {
    const { store, now } = this.#parts;
    const group = run.node.conversationId ?? run.node.id;
    const reservation = { responseId: run.node.id, holds, amount };
    const crowded = holds.find(({ key }) => this.#turnstile.isCrowded(key));
    let reserved: Reserved = crowded ? { kind: "busy", key: crowded.key } : await store.reserve(reservation, now());
    while (reserved.kind === "busy" && !run.signal.aborted) {
      const { key } = reserved;
      run.stopwatch.pause();
      const leave = await this.#turnstile.enter(key, group, run.signal);
      try {
        reserved = await store.reserve(reservation, now());
        while (reserved.kind === "busy" && reserved.key === key && !run.signal.aborted) {
          await this.#pause(run.signal);
          reserved = await store.reserve(reservation, now());
        }
      } finally {
        leave();
        run.stopwatch.resume();
      }
    }
    return reserved;
  }

  /** Until something was settled here, or may have been elsewhere. */
  async #pause(signal: AbortSignal): Promise<void> {
    const freed = this.#freed ?? Promise.withResolvers<void>();
    this.#freed = freed;
    const timer = setTimeout(freed.resolve, AGAIN);
    const onAbort = () => freed.resolve();
    signal.addEventListener("abort", onAbort, { once: true });
    await freed.promise;
    signal.removeEventListener("abort", onAbort);
    clearTimeout(timer);
    if (this.#freed === freed) this.#freed = undefined;
  }

  async #mayBeBound(profile: Profile, model: Model | undefined): Promise<boolean> {
    if (profile.maxConcurrent !== undefined || model?.maxConcurrent !== undefined) return true;
    return this.#configured.length > 0 || this.#isAnySet();
  }

  #isAnySet(): Promise<boolean> {
    const now = performance.now();
    if (now - this.#setAt > KNOWN) {
      this.#setAt = now;
      this.#anySet = this.#parts.store.budgets(this.#parts.now(), { limit: 1 }).then((all) => all.length > 0);
    }
    return this.#anySet;
  }

  /** All that a call of a response falls under. */
  async #holds(node: ResponseNode, profile: Profile, model: Model | undefined): Promise<BudgetHold[]> {
    const line = await this.#line(node);
    const outermost = line.at(-1) ?? node;
    const [first] = await this.#history.path(outermost.previousResponseId);
    const calls = (most: number | undefined) => (model && most !== undefined ? { calls: most } : {});
    const holds: BudgetHold[] = [
      { key: "all" },
      { key: `token/${node.owner}` },
      { key: `profile/${profile.name}`, ...calls(profile.maxConcurrent) },
      { key: `tree/${first?.responseId ?? outermost.id}` },
      ...line.map(({ id }) => ({ key: `response/${id}` })),
    ];
    if (model) holds.push({ key: `model/${model.id}`, ...calls(model.maxConcurrent) });
    return holds.map((hold) => ({ ...hold, ...configured(this.#configured, hold.key, outermost.id) }));
  }

  /** A response and the callers above it. */
  async #line(node: ResponseNode): Promise<ResponseNode[]> {
    const caller = node.caller && (await this.#parts.store.node(node.caller.responseId));
    return caller ? [node, ...(await this.#line(caller))] : [node];
  }

  /** Whether what a response waits for can be used again. */
  async isFree(key: BudgetKey): Promise<boolean> {
    const now = this.#parts.now();
    const [budget] = await this.#parts.store.budgets(now, { key });
    if (!budget) return true;
    if (budget.set) return usedUp(budget) === undefined;
    const { limits, period } = configured(this.#configured, key, undefined);
    // The configuration has changed its mind: the next call finds out what counts now.
    return !limits || period !== budget.period || usedUp({ ...budget, limits }) === undefined;
  }
}

/** What an endpoint says it has used gives nothing back. */
function amountOf(used: number): number {
  return Number.isFinite(used) && used > 0 ? used : 0;
}

function errorOf(budget: Budget): ResponseError {
  const message = `the budget of ${budget.key} is used up: ${usedUp({ ...budget, spent: { ...noneSpent, ...budget.spent } })}`;
  return { code: "budget_reached", message, budget: budget.key };
}
