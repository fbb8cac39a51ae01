/**
 * The engine: all that a door may know.
 *
 * Invariant: nothing leaves `start` before the response and its input are on disk; a response is run by at
 * most one process at a time; what a door can do here, every door can do.
 */
import type { Approval, Decision } from "../types/approval.ts";
import type { Approver, Engine, Judgement, RunRequest } from "../types/engine.ts";
import { RotundaError, toRotundaError } from "../types/error.ts";
import { isEnd, type RunEvent } from "../types/event.ts";
import type { Entry, Item } from "../types/item.ts";
import type { JsonObject } from "../types/json.ts";
import type { FullResponse, ResponseNode } from "../types/response.ts";
import type { Tool, ToolResult } from "../types/tool.ts";
import { isId, isIdPart, newId } from "../util/ids.ts";
import { newOwner } from "../util/owner.ts";
import { oneLine } from "../util/text.ts";
import { advance, hasNews, toolsOf, usageOf } from "./advance.ts";
import { conversationFor, parentOf } from "./begin.ts";
import { delegate, readOutput } from "./delegate.ts";
import { directCall, judgeCall } from "./direct-call.ts";
import { History } from "./history.ts";
import { sessionOf } from "./learned.ts";
import { finishedTurns } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import { Pulse } from "./pulse.ts";
import { recover } from "./recover.ts";
import { Run } from "./run.ts";
import { inputEntries, outputText } from "./text.ts";

export function createEngine(parts: EngineParts): Engine {
  return new LocalEngine(parts);
}

class LocalEngine implements Engine {
  readonly #parts: EngineParts;
  readonly #owner = newOwner();
  readonly #runs = new Map<string, Run>();
  readonly #resuming = new Map<string, Promise<Run>>();
  readonly #history: History;
  readonly #pulse: Pulse;
  #stopping = false;

  constructor(parts: EngineParts) {
    this.#parts = parts;
    this.#history = new History(parts.store);
    this.#pulse = new Pulse(parts, this.#owner, this.#runs);
  }

  // ---- begin

  async start(request: RunRequest): Promise<ResponseNode> {
    if (this.#stopping) throw new RotundaError("cancelled", "the engine is stopping");
    const { store } = this.#parts;
    const now = this.#parts.now();
    const id = newId("resp", now);
    const profile = await this.#parts.profiles.get(request.profile);
    const model = await this.#parts.models.get(request.model ?? profile.model);
    const parent = await parentOf(store, request);
    const conversation = await conversationFor(store, request, parent, id, now);
    const caller = request.caller ? await store.node(request.caller.responseId) : undefined;
    const node: ResponseNode = {
      id,
      previousResponseId: parent?.id ?? null,
      caller: request.caller ?? null,
      conversationId: conversation?.id ?? null,
      profile: profile.name,
      model: model.id,
      status: "in_progress",
      incompleteReason: null,
      error: null,
      degraded: false,
      usage: usageOf([]),
      settings: request.settings ?? {},
      workspace: request.workspace,
      door: request.door,
      depth: caller ? caller.depth + 1 : 0,
      createdAt: now,
      endedAt: null,
      waited: 0,
      ran: 0,
      hash: null,
    };
    const input = inputEntries(request.input);
    const events: RunEvent[] = [
      { type: "response.created", sequence_number: 0 },
      { type: "response.in_progress", sequence_number: 1 },
    ];
    await store.create({ node, input, events, owner: this.#owner, conversation });
    const options = { approver: request.approver, now: this.#parts.now, nextSequence: events.length, events };
    const run = new Run(store, node, input, { owner: this.#owner, fence: 1 }, options);
    request.onStart?.(id);
    this.#begin(run);
    return node;
  }

  #begin(run: Run): void {
    this.#runs.set(run.node.id, run);
    this.#pulse.start();
    run.finished = this.#conduct(run);
  }

  async #conduct(run: Run): Promise<void> {
    await advance(this.#parts, run, {
      history: this.#history,
      delegate: (parent, entry, request) => delegate(this.#parts, this, parent, entry, request),
      readOutput: (reader, reference) => readOutput(this.#parts, this.#history, reader, reference),
      askPerson: (asking, approval) => this.#askPerson(asking, approval),
    });
    this.#runs.delete(run.node.id);
    if (this.#runs.size === 0) this.#pulse.stop();
    try {
      if (!run.ended && !run.failure) await this.#parts.store.release(run.node.id, run.lease);
    } catch (error) {
      // The lease ends by itself; whoever waits learns it from the store.
      run.failure = toRotundaError(error);
    }
    run.wake();
    await this.#answeredMeanwhile(run);
  }

  /** An answer that came between the last look and the release found nobody to go on: so we do. */
  async #answeredMeanwhile(run: Run): Promise<void> {
    if (run.node.status !== "waiting" || run.failure || run.stopped || this.#stopping) return;
    try {
      if (await hasNews(this.#parts, run)) await this.resume(run.node.id, run.approver);
    } catch {
      // Another process was quicker.
    }
  }

  async resume(id: string, approver?: Approver): Promise<ResponseNode> {
    const { store } = this.#parts;
    const active = this.#runs.get(id);
    if (active) return active.node;
    if (this.#stopping) throw new RotundaError("cancelled", "the engine is stopping");
    const node = await store.node(id);
    if (!node) throw new RotundaError("not_found", `there is no response ${id}`);
    if (node.endedAt !== null) {
      throw new RotundaError("response_ended", `response ${id} has already ended (${node.status})`);
    }
    // Without its model it would only fail: better that it stays as it is.
    await this.#parts.models.get(node.model);
    const resuming = this.#resuming.get(id) ?? this.#take(id, approver);
    this.#resuming.set(id, resuming);
    try {
      const run = await resuming;
      if (!this.#runs.has(id) && !run.ended && !run.stopped) {
        const waited = Math.max(0, this.#parts.now() - run.node.createdAt - run.node.ran);
        run.patch({ status: "in_progress", waited });
        this.#begin(run);
      }
      return run.node;
    } finally {
      this.#resuming.delete(id);
    }
  }

  /** The response as a run of this process. What is stored is read only once it is ours: before, it may still change. */
  async #take(id: string, approver: Approver | undefined): Promise<Run> {
    const { store } = this.#parts;
    const lease = await store.claim(id, this.#owner);
    const stored = lease && (await store.get(id));
    if (!stored)
      throw new RotundaError("owned_elsewhere", `response ${id} is being run by another process, or has ended`);
    return recover({ store, stored, lease, approver, now: this.#parts.now });
  }

  // ---- watch

  async *watch(id: string, after = -1, signal?: AbortSignal): AsyncIterable<RunEvent> {
    const { store } = this.#parts;
    let cursor = after;
    for (;;) {
      const run = this.#runs.get(id);
      const events = run?.after(cursor) ?? (await store.events(id, cursor, 500));
      for (const event of events) {
        cursor = event.sequence_number;
        yield event;
        if (isEnd(event)) return;
      }
      if (signal?.aborted) return;
      if (events.length > 0) continue;
      if (run) {
        await (this.#runs.has(id) ? run.changed() : Promise.resolve());
        if (run.failure) throw run.failure;
      } else if (!(await this.#lives(id))) {
        // It waits for a person, or its process is gone: what is stored has been told.
        if ((await store.events(id, cursor, 1)).length === 0) return;
      } else await this.#pulse.change();
    }
  }

  /** It is run by some process. */
  async #lives(id: string): Promise<boolean> {
    const lease = await this.#parts.store.leaseOf(id);
    return lease !== undefined && (await this.#pulse.isAlive(lease.owner));
  }

  async wait(id: string): Promise<ResponseNode> {
    for (;;) {
      const run = this.#runs.get(id);
      if (run) {
        await run.finished;
        if (run.failure) throw run.failure;
      }
      const node = await this.#parts.store.node(id);
      if (!node) throw new RotundaError("not_found", `there is no response ${id}`);
      if (node.endedAt !== null || node.status === "waiting") return node;
      if (!(await this.#lives(id))) {
        if (this.#stopping) return node;
        throw new RotundaError("response_not_ended", `response ${id} was interrupted`, {
          remedy: `rotunda resume ${id.slice(-8)}`,
        });
      }
      await this.#pulse.change();
    }
  }

  async get(id: string): Promise<FullResponse> {
    const stored = await this.#parts.store.get(id);
    if (!stored) throw new RotundaError("not_found", `there is no response ${id}`);
    const items = (side: Entry["side"]) =>
      stored.entries.filter((entry) => entry.side === side).map(({ item }) => item);
    return { ...stored.node, input: items("input"), output: items("output"), turns: finishedTurns(stored.entries) };
  }

  textOf(response: FullResponse): string {
    return outputText(response);
  }

  // ---- approvals

  async #askPerson(run: Run, approval: Approval): Promise<Decision | undefined> {
    const { store } = this.#parts;
    const settled = decisionOf(await store.approval(approval.id));
    const { approver } = run;
    if (settled || !approver) return settled;
    const line = this.#line(run);
    for (const one of line) one.stopwatch.pause();
    run.patch({ status: "waiting" });
    const aside = new AbortController();
    const signal = AbortSignal.any([run.signal, aside.signal]);
    try {
      // Whoever answers first, here or in another process, is in the store; an approver that fails is nobody.
      const person = (async () => this.decide(approval.id, await approver(approval, signal)))().catch(() => undefined);
      await Promise.race([this.#pulse.settled(approval.id, signal), person]);
    } finally {
      aside.abort();
      for (const one of line) one.stopwatch.resume();
    }
    run.patch({ status: "in_progress" });
    return decisionOf(await store.approval(approval.id));
  }

  /** The run and the callers above it: while a person is asked, none of them spends time. */
  #line(run: Run): Run[] {
    const above = run.node.caller && this.#runs.get(run.node.caller.responseId);
    return above ? [run, ...this.#line(above)] : [run];
  }

  async decide(approvalId: string, decision: Decision): Promise<Approval> {
    const { store } = this.#parts;
    const pending = await store.approval(approvalId);
    if (!pending) throw new RotundaError("not_found", `there is no approval ${approvalId}`);
    const now = this.#parts.now();
    const settled: Approval = {
      ...pending,
      status: decision.decision === "allow" ? "allowed" : "denied",
      reason: decision.reason ?? null,
      decidedBy: decision.by,
      decidedAt: now,
    };
    if (!(await store.settleApproval(settled))) {
      throw new RotundaError("approval_settled", `approval ${approvalId} has already been answered`);
    }
    if (decision.decision === "allow" && decision.scope && decision.scope !== "once") {
      const { scope } = decision;
      const node = await store.node(pending.responseId);
      const holder = scope === "session" ? await sessionOf(store, node) : (node?.workspace ?? "");
      await store.addRule({ id: newId("rule", now), scope, holder, rule: pending.pattern, createdAt: now });
    }
    this.#pulse.tell(settled);
    return settled;
  }

  // ---- steer, cancel, call, stop

  async steer(id: string, items: Item[]): Promise<void> {
    const node = await this.#parts.store.node(id);
    if (!node) throw new RotundaError("not_found", `there is no response ${id}`);
    if (node.endedAt !== null) throw new RotundaError("response_ended", `response ${id} has already ended`);
    await this.#parts.store.sendControl({ responseId: id, kind: "steer", reason: null, items });
    this.#pulse.look();
  }

  async cancel(id: string, reason: string): Promise<void> {
    const run = this.#runs.get(id);
    if (run) {
      run.stop({ status: "cancelled", error: { code: "cancelled", message: reason } });
      await run.finished;
      return;
    }
    const node = await this.#parts.store.node(id);
    if (!node) throw new RotundaError("not_found", `there is no response ${id}`);
    if (node.endedAt !== null) throw new RotundaError("response_ended", `response ${id} has already ended`);
    if (await this.#lives(id)) {
      await this.#parts.store.sendControl({ responseId: id, kind: "cancel", reason, items: null });
      return;
    }
    await this.#cancelStored(id, reason);
  }

  /** Nobody runs it: it is taken only to be ended. */
  async #cancelStored(id: string, reason: string): Promise<void> {
    const { store } = this.#parts;
    for (const child of await store.list({ callerResponseId: id, limit: 1_000 })) {
      if (child.endedAt === null) await this.cancel(child.id, reason);
    }
    const run = await this.#take(id, undefined);
    run.stop({ status: "cancelled", error: { code: "cancelled", message: reason } });
    this.#begin(run);
    await run.finished;
  }

  async cancelAll(reason: string): Promise<number> {
    const open = await this.#parts.store.list({ status: ["queued", "in_progress", "waiting"], limit: 100_000 });
    // A sub-agent is cancelled by its caller.
    const ids = new Set(open.map((node) => node.id));
    const outer = open.filter((node) => node.caller === null || !ids.has(node.caller.responseId));
    const outcomes = await Promise.allSettled(outer.map((node) => this.cancel(node.id, reason)));
    return outcomes.filter((outcome) => outcome.status === "fulfilled").length;
  }

  call(
    tool: string,
    input: JsonObject,
    options: { workspace: string; signal?: AbortSignal; by: string },
  ): Promise<ToolResult> {
    return directCall(this.#parts, tool, input, options);
  }

  judge(tool: string, input: JsonObject, options: Parameters<Engine["judge"]>[2]): Promise<Judgement> {
    return judgeCall(this.#parts, tool, input, options);
  }

  async tools(profile?: string): Promise<readonly Tool[]> {
    const all = await this.#parts.tools.list();
    return profile === undefined ? all : toolsOf(await this.#parts.profiles.get(profile), all);
  }

  async resolveId(part: string, kind: "response" | "conversation" | "approval" | "item"): Promise<string> {
    if (isId(part)) return part;
    if (!isIdPart(part)) {
      throw new RotundaError("invalid_id", `"${oneLine(part, 40)}" is not an id, nor four or more characters of one`);
    }
    const found = await this.#parts.store.resolve(part, [kind]);
    const [id] = found;
    if (id === undefined) throw new RotundaError("not_found", `no ${kind} has an id that begins or ends with ${part}`);
    if (found.length > 1) throw new RotundaError("ambiguous_id", `${part} fits several: ${found.join(", ")}`);
    return id;
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    const runs = [...this.#runs.values()];
    for (const run of runs) run.stop({ status: "shutdown" });
    await Promise.all(runs.map((run) => run.finished));
    this.#pulse.stop();
  }
}

function decisionOf(approval: Approval | undefined): Decision | undefined {
  if (!approval || approval.status === "pending") return undefined;
  const reason = approval.reason === null ? {} : { reason: approval.reason };
  return { decision: approval.status === "allowed" ? "allow" : "deny", by: approval.decidedBy ?? "", ...reason };
}
