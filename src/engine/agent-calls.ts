/**
 * Agent calls: the tool calls that an external agent makes and runs itself, while it answers.
 *
 * Invariant: such a call is never run by us. Where the agent lets us, it is on disk as `calling` before it starts; a
 * question of the agent is an approval like any other. Where nobody is there to answer, the agent is told to stop, and
 * the response waits.
 */
import type { Approval, Decision } from "../types/approval.ts";
import type { JsonObject } from "../types/json.ts";
import type { AgentVerdict, ModelEvent } from "../types/model.ts";
import type { Profile } from "../types/profile.ts";
import { shortId } from "../util/ids.ts";
import { agentTool, answeredBefore, callAt, judgeAgentCall } from "./agent-judge.ts";
import type { Answer } from "./answer.ts";
import {
  approvalWay,
  type CallSupport,
  INTERRUPTED,
  INTERRUPTED_BY_STOP,
  putAnswer,
  putQuestion,
  settle,
  settleAudited,
} from "./call-tools.ts";
import { clip } from "./clip.ts";
import { runHooks } from "./hooks.ts";
import { type CallEntry, isSettled } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import type { Verdict } from "./permissions.ts";
import { approvalFor, deniedText, parseArguments } from "./prepare.ts";
import type { Run } from "./run.ts";

type Event<T extends ModelEvent["type"]> = Extract<ModelEvent, { type: T }>;
type Question = Event<"call_question">;

interface Known {
  call: Event<"call">;
  /** Set once its arguments are whole. */
  position: number | undefined;
  /** Hooks and rules have been asked about it. */
  judged: boolean;
  began: number;
  allowed: { why: string; approval?: string; approvedBy?: string };
}

/** Milliseconds for which an agent is kept waiting for a person; then it is let go, and asked anew after the answer. */
const HOLD = 600_000;

const NO_OUTCOME = "the agent did not tell what came of it";

export interface AgentSupport {
  profile: Profile;
  askPerson: CallSupport["askPerson"];
}

export class AgentCalls {
  readonly #parts: EngineParts;
  readonly #run: Run;
  readonly #support: AgentSupport;
  readonly #known = new Map<number, Known>();
  readonly #tasks = new Set<Promise<void>>();
  readonly #gone = new AbortController();
  readonly #until: AbortSignal;
  /** Questions are put at once, and waited for one after the other. */
  #asking: Promise<unknown> = Promise.resolve();
  #failure: unknown;
  #answer: Answer;
  readonly #first: number;
  /** A question waits, and nobody is there. */
  #postponed = false;

  constructor(parts: EngineParts, run: Run, support: AgentSupport, answer: Answer) {
    this.#parts = parts;
    this.#run = run;
    this.#support = support;
    this.#answer = answer;
    this.#first = answer.turn;
    this.#until = AbortSignal.any([run.signal, this.#gone.signal]);
  }

  /** Something of the answer has been written. */
  get begun(): boolean {
    return this.#answer.turn > this.#first || this.#answer.begun;
  }

  async write(event: Exclude<ModelEvent, { type: "finish" }>): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    if (event.type === "call_outcome") return this.#outcome(event);
    if (event.type === "call_question") {
      this.#track(this.#question(event));
      return;
    }
    if (event.type === "call") {
      if (this.#over(this.#answer.agentCalls)) this.#answer = this.#answer.following();
      const known = { call: event, position: undefined, judged: false, began: performance.now(), allowed: { why: "" } };
      this.#known.set(event.index, known);
    } else if (event.type !== "call_arguments" && this.#answer.agentCalls.length > 0) {
      this.#answer = this.#answer.following();
    }
    this.#answer.write(event);
  }

  #over(positions: readonly number[]): boolean {
    const items = positions.map((position) => callAt(this.#run, position)?.item);
    return items.length > 0 && items.every((item) => item && isSettled(item));
  }

  #track(task: Promise<void>): void {
    const tracked = task
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => this.#tasks.delete(tracked));
    this.#tasks.add(tracked);
  }

  /** The call is whole and stored. */
  #close(known: Known): CallEntry | undefined {
    known.position ??= this.#answer.closeAgentCall(known.call.index)?.position;
    return known.position === undefined ? undefined : callAt(this.#run, known.position);
  }

  // ---- questions

  async #question(event: Question): Promise<void> {
    const known = this.#known.get(event.index);
    const entry = known && this.#close(known);
    if (!known || !entry) return event.answer({ decision: "deny", reason: "the call is not known" });
    try {
      event.answer(await this.#verdict(event, known, entry));
    } catch (error) {
      // Whatever went wrong on our side: the call must not start.
      event.answer({ decision: "deny", reason: "it could not be recorded" });
      throw error;
    }
  }

  async #verdict(event: Question, known: Known, entry: CallEntry): Promise<AgentVerdict> {
    const input = parseArguments(entry.item.arguments);
    if (typeof input === "string") return this.#deny(known, input);
    const { agent } = known.call;
    const tool = entry.meta.tool ?? entry.item.name;
    if (!known.judged) {
      known.judged = true;
      const hooked = await runHooks(this.#parts, this.#run, "beforeToolCall", { tool, arguments: input });
      if (hooked.denied !== undefined) return this.#deny(known, hooked.denied);
      if (hooked.arguments) return this.#deny(known, "a hook rewrites its arguments, which this agent cannot take");
    }
    if (!agent) return { decision: "own" };
    const verdict = await judgeAgentCall(this.#parts, this.#run, this.#support.profile, agent, known.call.name);
    known.allowed = { why: verdict.why };
    // A mode does not stop an agent that reads by what only it knows to be reading; a rule does.
    if (verdict.effect === "deny" && (verdict.byRule || !event.started)) return this.#deny(known, verdict.why);
    if (event.asks && verdict.effect === "ask") return this.#ask(event, known, input, verdict);
    if (!event.asks && verdict.effect === "ask" && verdict.byRule) return { decision: "ask", reason: verdict.why };
    const decision = event.asks ? "allow" : "own";
    if (!event.asks) known.allowed = { why: "the agent's own rules" };
    return (await this.#begin(known)) ? { decision } : { decision: "deny", reason: "it was stopped" };
  }

  #deny(known: Known, why: string): AgentVerdict {
    known.allowed = { why: why.slice(0, 500) };
    return { decision: "deny", reason: deniedText(why) };
  }

  /** From here on nobody knows what it has done until its outcome is told. */
  async #begin(known: Known, approval?: Approval): Promise<boolean> {
    const entry = known.position === undefined ? undefined : callAt(this.#run, known.position);
    if (!entry || this.#run.stopped) return false;
    if (isSettled(entry.item)) return true;
    if (approval) {
      entry.item.approval_request_id = approval.id;
      known.allowed = { ...known.allowed, approval: approval.id, approvedBy: approval.decidedBy ?? "" };
    }
    const at = { output_index: entry.position, item_id: entry.item.id };
    if (entry.item.status !== "calling") this.#run.emit({ type: "response.mcp_call.in_progress", ...at });
    entry.item.status = "calling";
    this.#run.put(entry);
    await this.#run.commit();
    return true;
  }

  async #ask(event: Question, known: Known, input: JsonObject, verdict: Verdict): Promise<AgentVerdict> {
    const run = this.#run;
    const { agent, name } = known.call;
    const entry = known.position === undefined ? undefined : callAt(run, known.position);
    if (!entry || !agent) return { decision: "deny", reason: "the call is not known" };
    const tool = agentTool(agent, name);
    const before = await answeredBefore(this.#parts, run, tool, input);
    if (before) return (await this.#begin(known, before)) ? { decision: "allow" } : this.#deny(known, "it was stopped");
    const way = approvalWay(run, this.#support.profile);
    if (way === "deny") return this.#deny(known, `${verdict.why}, and nobody is there to ask`);
    const why = event.why === undefined ? verdict.why : `${verdict.why}: ${event.why}`;
    const subject = agent.subject ?? {};
    const approval = approvalFor(this.#parts, run, entry, tool, input, subject, {
      ...verdict,
      why: this.#parts.redact(why).slice(0, 1_000),
    });
    // It has not started after all.
    entry.item.status = "in_progress";
    putQuestion(run, entry, approval);
    await run.commit();
    const until = AbortSignal.any([this.#until, AbortSignal.timeout(HOLD)]);
    const answered = this.#asking.then(() => this.#support.askPerson(run, approval, way === "wait", until));
    this.#asking = answered.catch(() => undefined);
    const decision = await answered;
    if (run.stopped) return { decision: "deny", reason: "it was stopped" };
    // The agent may be gone in the meantime; then whoever goes on with the response carries the answer out.
    if (!decision || this.#gone.signal.aborted) {
      this.#postponed = true;
      return { decision: "later" };
    }
    return this.#answered(known, entry, approval, decision);
  }

  async #answered(known: Known, entry: CallEntry, approval: Approval, decision: Decision): Promise<AgentVerdict> {
    putAnswer(this.#run, entry.turn, approval.id, decision);
    const settled = { ...approval, decidedBy: decision.by };
    if (decision.decision === "deny") {
      known.allowed = { why: "a person", approval: approval.id, approvedBy: decision.by };
      return { decision: "deny", reason: deniedText(decision.reason ?? "no reason was given") };
    }
    return (await this.#begin(known, settled)) ? { decision: "allow" } : { decision: "deny", reason: "it was stopped" };
  }

  // ---- outcomes

  async #outcome({ index, failed, output }: Event<"call_outcome">): Promise<void> {
    const known = this.#known.get(index);
    if (!known || !this.#close(known)) return;
    const { redact, toolOutputLimit } = this.#parts;
    let text = redact(output === "" ? "(no output)" : output);
    const { item, meta } = this.#close(known) ?? {};
    const tool = meta?.tool ?? known.call.name;
    const input = parseArguments(item?.arguments ?? "");
    const facts = { tool, arguments: typeof input === "string" ? {} : input, output: text };
    const hooked = await runHooks(this.#parts, this.#run, "afterToolCall", facts);
    if (hooked.output !== undefined) text = redact(hooked.output);
    const entry = this.#close(known);
    if (!entry || isSettled(entry.item)) return;
    const clipped = clip(text, toolOutputLimit, shortId(entry.item.id));
    entry.meta.duration = Math.round(performance.now() - known.began);
    if (clipped.wholeLength !== undefined) {
      entry.meta.wholeLength = clipped.wholeLength;
      this.#run.keepWhole(entry.item.id, text);
    }
    const ran = entry.item.status === "calling" || !failed;
    const decided = { decision: ran ? "allow" : "deny", ...known.allowed };
    settleAudited(this.#parts, this.#run, entry, failed ? "failed" : "completed", clipped.text, decided);
  }

  /** Calls that were made and have no outcome. One that waits for a person is left to wait. */
  #settleOpen(text: string): void {
    this.#answer.closeAgentCalls();
    for (const known of this.#known.values()) {
      const entry = this.#close(known);
      if (!entry || isSettled(entry.item)) continue;
      if (this.#postponed && entry.item.status === "in_progress" && entry.item.approval_request_id !== null) continue;
      settle(this.#run, entry, "incomplete", text);
    }
  }

  // ---- the end

  /** The agent has said that it is done. */
  async finish(event: Event<"finish">): Promise<void> {
    await Promise.all(this.#tasks);
    if (this.#failure !== undefined) throw this.#failure;
    this.#settleOpen(this.#postponed ? INTERRUPTED : NO_OUTCOME);
    if (this.#postponed) {
      this.#leave(event);
      return;
    }
    if (this.#answer.agentCalls.length > 0) this.#answer = this.#answer.following();
    this.#answer.finish(event);
    // What steered it came too late for the agent: it is asked once more.
    for (const entry of [...this.#run.output]) {
      if (entry.meta.synthetic !== "steer" || entry.turn < this.#first) continue;
      this.#run.put({ ...entry, turn: this.#answer.turn });
    }
  }

  /** It stops in the middle: what it has used is kept with its last call. */
  #leave({ usage, raw }: Event<"finish">): void {
    const last = callAt(this.#run, this.#answer.agentCalls.at(-1) ?? -1);
    if (!last) return;
    if (raw !== undefined) last.meta.raw = raw;
    const { usage: before } = last.meta;
    if (usage && before) {
      last.meta.usage = {
        ...before,
        output_tokens: before.output_tokens + usage.output_tokens,
        input_tokens: before.input_tokens + usage.input_tokens,
        total_tokens: before.total_tokens + usage.total_tokens,
        ...(usage.cost !== undefined && { cost: usage.cost }),
      };
    } else if (usage) last.meta.usage = usage;
    this.#run.put(last);
  }

  /** The agent is gone, by its own fault or by our word. */
  async cut(): Promise<void> {
    this.#gone.abort();
    await Promise.all(this.#tasks);
    this.#answer.closeAgentCalls();
    this.#answer.cut();
    // Whoever goes on with the response after a shutdown tells what became of them.
    if (this.#run.stopped?.status === "shutdown") return;
    this.#postponed = false;
    this.#settleOpen(this.#run.stopped ? `interrupted: ${INTERRUPTED_BY_STOP}` : INTERRUPTED);
  }
}
