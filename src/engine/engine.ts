/**
 * The engine: all that a door may know.
 *
 * Invariant: nothing leaves `start` before the response and its input are on disk; a response is run by at
 * most one process at a time; what a door can do here, every door can do.
 */
import type { Approval, Decision } from "../types/approval.ts";
import type {
  Approver,
  DirectCallOptions,
  Engine,
  EventStream,
  Judgement,
  RecordRequest,
  RunRequest,
  Upkeep,
} from "../types/engine.ts";
import { RotundaError, toRotundaError } from "../types/error.ts";
import type { Item } from "../types/item.ts";
import type { JsonObject } from "../types/json.ts";
import type { FullResponse, Owner, ResponseNode } from "../types/response.ts";
import type { IdKind } from "../types/store.ts";
import type { Tool, ToolResult } from "../types/tool.ts";
import { KeyedLock } from "../util/keyed-lock.ts";
import { parked } from "../util/parked.ts";
import { newProcessName } from "../util/process-name.ts";
import { advance, hasNews, toolsOf } from "./advance.ts";
import { askPerson, type Desk } from "./ask-person.ts";
import { afterCut, again, awaitTurn, leaveWaiting } from "./begin.ts";
import { BudgetGate } from "./budget.ts";
import { cancelAll } from "./cancel-all.ts";
import { createResponse } from "./create.ts";
import { childOfReturned, expire, outermost, settle, settleAnswers } from "./decide.ts";
import { delegate, readOutput } from "./delegate.ts";
import { DirectCalls, judgeCall } from "./direct-call.ts";
import { History } from "./history.ts";
import { existingNode, fullResponse, hasEnded, resolveId } from "./lookup.ts";
import type { EngineParts } from "./parts.ts";
import { Pulse } from "./pulse.ts";
import { recordRun } from "./record.ts";
import { take } from "./recover.ts";
import { Room } from "./room.ts";
import { Run, type Stop } from "./run.ts";
import { SetAside } from "./set-aside.ts";
import { outputText } from "./text.ts";
import { createUpkeep } from "./upkeep.ts";
import { Watch, type WatchParts } from "./watch.ts";

export function createEngine(parts: EngineParts): Engine {
  return new LocalEngine(parts);
}

class LocalEngine implements Engine {
  readonly #parts: EngineParts;
  readonly #processName = newProcessName();
  readonly #runs = new Map<string, Run>();
  readonly #resuming = new Map<string, Promise<ResponseNode>>();
  readonly #history: History;
  readonly #budgets: BudgetGate;
  readonly #pulse: Pulse;
  readonly #room: Room;
  readonly #directCalls: DirectCalls;
  readonly #linear = new KeyedLock();
  readonly #aside = new SetAside();
  readonly upkeep: Upkeep;
  readonly #watching: WatchParts;
  readonly #desk: Desk;
  #beginning = 0; // Responses of this process that are being stored.
  #stopping = false;

  constructor(parts: EngineParts) {
    this.#parts = parts;
    this.#history = new History(parts.store);
    this.#budgets = new BudgetGate(parts, this.#history);
    this.upkeep = createUpkeep(parts, {
      history: this.#history,
      budgets: this.#budgets,
      runs: async (id) => this.#runs.has(id) || this.#lives(id),
      resume: (...again) => this.resume(...again),
    });
    this.#room = new Room(this.#runs, parts.runner);
    this.#directCalls = new DirectCalls(parts);
    this.#pulse = new Pulse(parts, this.#processName, this.#runs);
    this.#desk = {
      store: parts.store,
      runs: this.#runs,
      settled: (...approval) => this.#pulse.settled(...approval),
      decide: (...answer) => this.decide(...answer),
    };
    this.#watching = {
      store: parts.store,
      runOf: (id) => this.#runs.get(id),
      lives: (id) => this.#lives(id),
      change: (id, signal) => this.#pulse.change(id, signal),
      stopping: () => this.#stopping,
    };
  }

  // ---- begin

  start(request: RunRequest): Promise<ResponseNode> {
    const answers = (parent?: ResponseNode) => settleAnswers(this, this.#parts.store, request, parent);
    return this.#inLine(request, () => this.#start(request, answers));
  }

  /** Of two turns that come at once for one conversation, the second stands behind the first. */
  #inLine<T>({ conversation, previousResponseId }: RunRequest, go: () => Promise<T>): Promise<T> {
    const linear = conversation && conversation !== "new" && previousResponseId === undefined;
    return linear ? this.#linear.run(conversation, () => again(go)) : go();
  }

  async #start(
    request: RunRequest,
    answers: (parent: ResponseNode | undefined) => Promise<Item[]>,
  ): Promise<ResponseNode> {
    if (this.#stopping) throw new RotundaError("shutting_down", "the engine is stopping");
    const { store, runner } = this.#parts;
    // A sub-agent runs where its caller runs; whoever has a person at hand runs it here.
    const here = request.caller !== undefined || (request.approver !== undefined && request.approver !== parked);
    let begins = 0;
    const created = await createResponse(this.#parts, request, answers, (node) => {
      if (!here && runner?.takes(node, this.#room.taken + this.#beginning)) return null;
      this.#beginning += ++begins;
      return this.#processName;
    }).finally(() => {
      this.#beginning -= begins;
    });
    if ("known" in created) return created.known;
    const { node, input, calls, events, process } = created;
    request.onStart?.(node.id);
    if (process === null) {
      runner?.created(node);
      return node;
    }
    const options = { approver: request.approver, nextSequence: events.length, events };
    const run = new Run(store, node, input, { process, fence: 1 }, options);
    run.output.push(...calls);
    this.#begin(run);
    return node;
  }

  async record(request: RecordRequest): Promise<ResponseNode> {
    const run = await this.#inLine(request, () => recordRun(this.#parts, request, this.#processName));
    this.#history.ended(run);
    return run.node;
  }

  #begin(run: Run): void {
    if (this.#stopping) run.stop({ status: "shutdown" });
    this.#runs.set(run.node.id, run);
    this.#pulse.start();
    run.finished = this.#conduct(run);
  }

  async #conduct(run: Run): Promise<void> {
    await awaitTurn(this.#parts.store, run, this.#runs, this.#room);
    await advance(this.#parts, run, {
      history: this.#history,
      budgets: this.#budgets,
      delegate: (...call) => delegate(this.#parts, this, ...call, this.#budgets),
      readOutput: (reader, reference) => readOutput(this.#parts, this.#history, reader, reference),
      askPerson: (...asking) => askPerson(this.#desk, ...asking),
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
    if (run.failure) void this.#aside.takeUpLater(run, this, () => this.#stopping);
    this.#parts.runner?.left(run.node, this.#room.taken);
    await this.#answeredMeanwhile(run);
  }

  /** An answer that came between the last look and the release found nobody to go on: so we do. */
  async #answeredMeanwhile(run: Run): Promise<void> {
    if (run.node.status !== "waiting" || run.failure || run.stopped || this.#stopping) return;
    try {
      if (await hasNews(this.#parts, run)) await this.run(run.node.id, run.approver);
    } catch {
      // Another process was quicker.
    }
  }

  /** Through the runner, where there is one that takes it; else here. */
  async resume(id: string, approver?: Approver): Promise<ResponseNode> {
    const { runner, store } = this.#parts;
    const node = runner && !this.#runs.has(id) ? await existingNode(store, id) : undefined;
    const here = !node || node.caller !== null || (approver !== undefined && approver !== parked);
    if (here || node.endedAt !== null || !runner?.takes(node, this.#room.taken)) return this.run(id, approver);
    if (this.#pulse.isAlive(await store.leaseOf(id))) return node;
    // From now on it does not wait any more, for whoever asks.
    if (node.status === "waiting") await leaveWaiting(store, await this.#take(id));
    await runner.submit(node);
    return existingNode(store, id);
  }

  async run(id: string, approver?: Approver): Promise<ResponseNode> {
    const { store } = this.#parts;
    const active = this.#runs.get(id);
    if (active) return active.node;
    if (this.#stopping) throw new RotundaError("shutting_down", "the engine is stopping");
    const node = await existingNode(store, id);
    if (node.incompleteReason === "interrupted") return this.start(afterCut(node));
    if (node.endedAt !== null) throw hasEnded(id, node.status);
    // Without its model it would only fail.
    await this.#parts.models.get(node.model);
    const begun = this.#runs.get(id);
    if (begun) return begun.node;
    const resuming = this.#resuming.get(id) ?? this.#beginAgain(id, approver);
    this.#resuming.set(id, resuming);
    try {
      return await resuming;
    } finally {
      this.#resuming.delete(id);
    }
  }

  async #beginAgain(id: string, approver: Approver | undefined): Promise<ResponseNode> {
    const run = await this.#take(id, approver);
    // What steers it may have come while nobody ran it.
    await this.#pulse.obey([run]);
    const waited = Math.max(0, this.#parts.now() - run.node.createdAt - run.node.ran);
    // One that waits behind its parent goes on waiting there.
    run.patch(run.node.status === "queued" ? { waited } : { status: "in_progress", waited, error: null });
    this.#begin(run);
    return run.node;
  }

  #take(id: string, approver?: Approver): Promise<Run> {
    return take(this.#parts.store, id, this.#processName, approver);
  }

  // ---- watch

  watch(id: string, after = -1, signal?: AbortSignal): EventStream {
    return new Watch(this.#watching, id, after, signal);
  }

  async #lives(id: string): Promise<boolean> {
    const { store, runner } = this.#parts;
    const node = runner && (await store.node(id));
    if (node && node.endedAt === null && runner?.keeps(node)) return true;
    return this.#pulse.isAlive(await store.leaseOf(id));
  }

  async wait(id: string): Promise<ResponseNode> {
    for (;;) {
      const run = this.#runs.get(id);
      if (run) {
        await run.finished;
        if (run.failure) throw run.failure;
        if (run.ended) return run.node; // As it was committed: nobody need read it back.
      }
      const node = await existingNode(this.#parts.store, id);
      if (node.endedAt !== null || node.status === "waiting" || (this.#stopping && !run)) return node;
      if (!this.#parts.runner?.keeps(node) && !(await this.#lives(id))) {
        if (this.#stopping) return node;
        // It may have left its process just now.
        const now = await existingNode(this.#parts.store, id);
        if (now.endedAt !== null || now.status === "waiting") return now;
        throw new RotundaError("response_not_ended", `response ${id} was interrupted`, {
          remedy: `rotunda resume ${id.slice(-8)}`,
        });
      }
      await this.#pulse.change(id);
    }
  }

  get(id: string): Promise<FullResponse> {
    return fullResponse(this.#parts.store, id);
  }

  textOf(response: FullResponse): string {
    return outputText(response);
  }

  // ---- approvals

  async decide(approvalId: string, decision: Decision): Promise<Approval> {
    const settled = await settle(this.#parts, approvalId, decision);
    this.#pulse.tell(settled);
    return settled;
  }

  async goOn(approvalId: string, approver?: Approver): Promise<ResponseNode | undefined> {
    const { store } = this.#parts;
    const approval = await store.approval(approvalId);
    const node = approval && (await store.node(approval.responseId));
    if (!node) throw new RotundaError("not_found", `there is no approval ${approvalId}`);
    if (node.endedAt !== null) {
      const request = await childOfReturned(store, node);
      return request && this.#start({ ...request, ...(approver && { approver }) }, async () => request.input);
    }
    const top = await outermost(store, node);
    if (this.#runs.has(top.id) || top.endedAt !== null || (await this.#lives(top.id))) return undefined;
    return this.resume(top.id, approver);
  }

  async expireApprovals(): Promise<Approval[]> {
    const expired = await expire(this.#parts);
    for (const approval of expired) this.#pulse.tell(approval);
    return expired;
  }

  // ---- steer, cancel, call, stop

  async steer(id: string, items: Item[]): Promise<void> {
    const node = await existingNode(this.#parts.store, id);
    const run = this.#runs.get(id);
    if (node.endedAt !== null || (run && !this.#pulse.steer(run, items))) throw hasEnded(id);
    if (run) await run.commit();
    else await this.#parts.store.sendControl({ responseId: id, kind: "steer", reason: null, items });
  }

  async cancel(id: string, reason: string): Promise<void> {
    const open = this.#runs.has(id) || (await existingNode(this.#parts.store, id)).endedAt === null;
    if (!open) throw hasEnded(id);
    await this.#end(id, { status: "cancelled", error: { code: "cancelled", message: reason } });
  }

  /** Ends it wherever it is run: here, in another process, or nowhere. Then it is taken only to be ended. */
  async #end(id: string, stop: Stop): Promise<void> {
    const { store } = this.#parts;
    const active = this.#runs.get(id);
    (active ?? this.#aside.of(id))?.stop(stop);
    await active?.finished;
    // It may have begun to wait at the very moment, and left without an end.
    if (active?.ended || this.#stopping || (await store.node(id))?.endedAt !== null) return;
    if (this.#pulse.isAlive(await store.leaseOf(id))) {
      const reason = stop.error?.message ?? null;
      return store.sendControl({ responseId: id, kind: "cancel", reason, items: null });
    }
    for (const child of await store.list({ callerResponseId: id, limit: 1_000 })) {
      if (child.endedAt === null) await this.#end(child.id, stop);
    }
    const run = await this.#take(id).catch(async (error: unknown) => {
      // A worker was quicker: it is told, as if it had had it all along.
      if (!this.#pulse.isAlive(await store.leaseOf(id))) throw error;
    });
    if (!run) return this.#end(id, stop);
    run.stop(stop);
    this.#begin(run);
    await run.finished;
    if (run.failure) throw run.failure;
  }

  async interrupt(id: string): Promise<void> {
    if (this.#runs.has(id) || this.#pulse.isAlive(await this.#parts.store.leaseOf(id))) {
      throw new RotundaError("owned_elsewhere", `response ${id} is being run`);
    }
    const message = "the process that ran it ended before it did";
    await this.#end(id, { status: "incomplete", reason: "interrupted", error: { code: "cancelled", message } });
  }

  async delete(id: string): Promise<void> {
    const { store } = this.#parts;
    const node = await existingNode(store, id);
    if (node.endedAt === null) {
      await this.cancel(id, "it was deleted");
      await this.wait(id);
    }
    await store.delete(id);
    this.#history.forget();
  }

  async cancelAll(reason: string, owner?: Owner): Promise<number> {
    this.#directCalls.stop(reason, owner);
    return cancelAll(this, this.#parts.store, reason, owner);
  }

  call(tool: string, input: JsonObject, options: DirectCallOptions): Promise<ToolResult> {
    return this.#directCalls.call(tool, input, options);
  }

  judge(tool: string, input: JsonObject, options: Parameters<Engine["judge"]>[2]): Promise<Judgement> {
    return judgeCall(this.#parts, tool, input, options);
  }

  async tools(profile?: string): Promise<readonly Tool[]> {
    const all = await this.#parts.tools.list();
    return profile === undefined ? all : toolsOf(await this.#parts.profiles.get(profile), all);
  }

  resolveId(part: string, kind: IdKind): Promise<string> {
    return resolveId(this.#parts.store, part, kind);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#pulse.wake();
    const runs = [...this.#runs.values()];
    for (const run of runs) run.stop({ status: "shutdown" });
    await Promise.all(runs.map((run) => run.finished));
    this.#pulse.stop();
  }
}
