/**
 * Run: the execution of one response in this process: its items in memory, its pen on the log.
 *
 * Invariant: an event reaches a watcher only after the commit that holds it; events are published in the
 * order of their numbers. Once a commit has failed nothing further is written or published.
 */

import type { Approval } from "../types/approval.ts";
import type { AuditEntry } from "../types/audit.ts";
import type { Spending } from "../types/budget.ts";
import type { Approver } from "../types/engine.ts";
import { type RotundaError, toRotundaError } from "../types/error.ts";
import type { DeltaType, NewEvent, RunEvent } from "../types/event.ts";
import type { Entry } from "../types/item.ts";
import type { EndedStatus, IncompleteReason, ResponseError, ResponseNode } from "../types/response.ts";
import type { Batch, Lease, Store } from "../types/store.ts";
import type { TraceContext } from "../types/telemetry.ts";
import { Stopwatch } from "./stopwatch.ts";

/** Why a run was told to stop from outside its loop. */
export interface Stop {
  /** "shutdown": it does not end, and can be resumed. */
  status: EndedStatus | "shutdown";
  reason?: IncompleteReason;
  error?: ResponseError;
  /** It ends because a person must answer; the answer starts its child. */
  returned?: boolean;
}

/** What most batches have of most things; never written to. */
const NOTHING: never[] = [];
Object.freeze(NOTHING);

/** A run with more events keeps those of the last two commits for its watchers; older ones are read from the store. */
const SHORT = 64;

export class Run {
  node: ResponseNode;
  readonly input: readonly Entry[];
  readonly output: Entry[] = [];
  readonly lease: Lease;
  readonly approver: Approver | undefined;
  readonly stopwatch: Stopwatch;
  stopped: Stop | null = null;
  failure: RotundaError | null = null;
  ended = false;
  /** Milliseconds of its time that budgets have counted. */
  counted: number;
  /** It may have sub-agents, whose tokens count against its limit. */
  delegated = false;
  /** Its span, or that of whoever asked for it. */
  trace: TraceContext | undefined;
  /** Resolves when the loop has left this process, whatever the reason. */
  finished: Promise<void> = Promise.resolve();
  readonly #store: Store;
  readonly #controller = new AbortController();
  /** What all watchers wait for. */
  #change: PromiseWithResolvers<void> | null = null;
  #batch: Batch | null = null;
  #written: Promise<void> = Promise.resolve();
  #nextSequence: number;
  #published: number;
  /** The newest, without a gap. */
  #recent: RunEvent[];
  /** Of the last commit. */
  #last: readonly RunEvent[] = [];
  #isLong = false;

  constructor(store: Store, node: ResponseNode, input: readonly Entry[], lease: Lease, options: RunOptions) {
    this.#store = store;
    this.node = node;
    this.input = input;
    this.lease = lease;
    this.approver = options.approver;
    this.stopwatch = new Stopwatch(node.ran);
    this.counted = node.ran;
    this.#recent = options.events;
    this.#nextSequence = options.nextSequence;
    this.#published = options.nextSequence;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Ends the loop at its next step and whatever it waits for at once. The first stop counts. */
  stop(stop: Stop): void {
    if (this.stopped || this.ended) return;
    this.stopped = stop;
    this.#controller.abort(stop.status);
  }

  // ---- the pen

  emit(event: NewEvent): void {
    this.#add({ ...event, sequence_number: this.#nextSequence } as RunEvent);
    if (!("delta" in event)) this.#store.hurry();
  }

  /** A piece of an item's text: by far the most frequent event. */
  emitDelta(type: DeltaType, output_index: number, item_id: string, delta: string): void {
    this.#add({ type, output_index, item_id, content_index: 0, delta, sequence_number: this.#nextSequence });
  }

  #add(event: RunEvent): void {
    const batch = this.#open();
    this.#nextSequence++;
    if (batch.events === NOTHING) batch.events = [event];
    else batch.events.push(event);
  }

  /** A new entry, or a new form of one that is there. */
  put(entry: Entry): void {
    this.output[entry.position] = entry;
    const batch = this.#open();
    if (batch.entries === NOTHING) batch.entries = [];
    const { entries } = batch;
    // A call's forms often follow each other within one commit: only the last of them is written.
    const known = entries.findLastIndex((one) => one.position === entry.position);
    const copy = { ...entry, item: { ...entry.item }, meta: { ...entry.meta } };
    if (known < 0) entries.push(copy);
    else entries[known] = copy;
    this.#store.hurry();
  }

  keepWhole(itemId: string, text: string): void {
    const batch = this.#open();
    batch.outputs = [...batch.outputs, { itemId, text }];
  }

  ask(approval: Approval): void {
    const batch = this.#open();
    batch.approvals = [...batch.approvals, approval];
  }

  /** With what is stored of a model call: what it has used. Settles what was reserved for it. */
  spend(spent: Spending): void {
    const batch = this.#open();
    batch.spent = [...(batch.spent ?? []), spent];
  }

  audit(entry: AuditEntry): void {
    const batch = this.#open();
    batch.audits = [...batch.audits, entry];
  }

  patch(change: Partial<ResponseNode>): void {
    this.node = { ...this.node, ...change };
    const batch = this.#open();
    batch.node = { ...batch.node, ...change };
    this.#store.hurry();
  }

  /** Resolves when everything written so far is on disk and published. Rejects with the storage's error. */
  async commit(): Promise<void> {
    this.#store.hurry();
    await this.#written;
    if (this.failure) throw this.failure;
  }

  #open(): Batch {
    if (this.failure) throw this.failure;
    if (this.#batch && !this.#batch.sealed) return this.#batch;
    const batch: Batch = {
      responseId: this.node.id,
      fence: this.lease.fence,
      sealed: false,
      events: NOTHING,
      entries: NOTHING,
      outputs: NOTHING,
      approvals: NOTHING,
      audits: NOTHING,
      node: null,
    };
    this.#batch = batch;
    this.#written = this.#store.append(batch, false).then(
      () => this.#publish(batch),
      (error: unknown) => this.#fail(error),
    );
    return batch;
  }

  #publish(batch: Batch): void {
    if (batch.events.length === 0) return;
    this.#isLong ||= this.#recent.length + batch.events.length > SHORT;
    // What lives for a moment only is not copied about by the garbage collector.
    if (this.#isLong) this.#recent = [...this.#last, ...batch.events];
    else this.#recent.push(...batch.events);
    this.#last = batch.events;
    this.#published += batch.events.length;
    this.wake();
  }

  #fail(error: unknown): void {
    this.failure ??= toRotundaError(error);
    this.#controller.abort("storage");
    this.wake();
  }

  // ---- the watchers

  wake(): void {
    this.#change?.resolve();
    this.#change = null;
  }

  /** Resolves at the next publication, when the run leaves this process, or when somebody wakes its watchers. */
  changed(): Promise<void> {
    this.#change ??= Promise.withResolvers();
    return this.#change.promise;
  }

  /** Published events after a number; undefined where memory does not go back so far. */
  after(sequence: number): RunEvent[] | undefined {
    if (sequence >= this.#published - 1) return [];
    const first = this.#recent[0]?.sequence_number;
    if (first === undefined || sequence + 1 < first) return undefined;
    return this.#recent.slice(sequence + 1 - first);
  }
}

export interface RunOptions {
  approver: Approver | undefined;
  nextSequence: number;
  /** The newest events, already committed, that end at `nextSequence - 1`. */
  events: RunEvent[];
}
