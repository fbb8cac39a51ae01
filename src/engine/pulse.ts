/**
 * Pulse: notices what other processes wrote, and keeps this process's leases alive.
 *
 * Invariant: with nothing to notice and nothing to keep, no timer runs.
 */
import type { Approval } from "../types/approval.ts";
import type { Item } from "../types/item.ts";
import type { Lease } from "../types/store.ts";
import { newId } from "../util/ids.ts";
import { isHeld } from "../util/process-name.ts";
import type { EngineParts } from "./parts.ts";
import type { Run } from "./run.ts";

const BEAT = 50;
/** Milliseconds between two looks at whether the process that runs a response lives. */
const LOOK = 1_000;

export class Pulse {
  readonly #parts: EngineParts;
  readonly #processName: string;
  readonly #runs: ReadonlyMap<string, Run>;
  readonly #approvals = new Map<string, (approval: Approval) => void>();
  readonly #waiting = new Set<() => void>();
  #timer: NodeJS.Timeout | null = null;
  #version = -1;
  #renewed = 0;
  #busy = false;
  /** Something came while we were reading: it is looked at again. */
  #again = false;

  constructor(parts: EngineParts, processName: string, runs: ReadonlyMap<string, Run>) {
    this.#parts = parts;
    this.#processName = processName;
    this.#runs = runs;
  }

  start(): void {
    if (this.#timer) return;
    this.#renewed = performance.now();
    this.#timer = setInterval(() => this.#beat(), BEAT);
    this.#timer.unref();
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }

  #beat(): void {
    if (performance.now() - this.#renewed > this.#parts.store.renewEvery) {
      this.#renewed = performance.now();
      this.#parts.store.renew(this.#processName).catch((error: unknown) => this.#report(error));
    }
    try {
      const version = this.#parts.store.version();
      if (version === this.#version) return;
      this.#version = version;
    } catch (error) {
      this.#report(error);
      return;
    }
    this.look();
  }

  /** Reads what is meant for the runs of this process. */
  look(): void {
    this.#again = this.#busy;
    if (this.#busy) return;
    this.#busy = true;
    this.#read()
      .catch((error: unknown) => this.#report(error))
      .finally(() => {
        this.#busy = false;
        if (this.#again) this.look();
      });
  }

  #report(error: unknown): void {
    const text = error instanceof Error ? error.message : String(error);
    this.#parts.notify({ responseId: null, level: "warn", topic: "engine", text });
  }

  async #read(): Promise<void> {
    const { store } = this.#parts;
    await this.obey([...this.#runs.values()]);
    for (const id of [...this.#approvals.keys()]) {
      const approval = await store.approval(id);
      if (approval && approval.status !== "pending") this.tell(approval);
    }
  }

  /** Does with runs what was wished for them, here or elsewhere, since somebody last looked. */
  async obey(runs: readonly Run[]): Promise<void> {
    if (runs.length === 0) return;
    for (const control of await this.#parts.store.takeControls(runs.map(({ node }) => node.id))) {
      const run = runs.find(({ node }) => node.id === control.responseId);
      if (control.kind === "cancel") {
        const message = control.reason ?? "cancelled";
        run?.stop({ status: "cancelled", error: { code: "cancelled", message } });
      } else if (run) this.steer(run, control.items ?? []);
    }
  }

  /** Takes effect when the calls that are under way have ended: the next prompt holds it. False: the run has ended. */
  steer(run: Run, items: readonly Item[]): boolean {
    if (run.node.endedAt !== null || run.failure) return false;
    const turn = run.output.reduce((highest, entry) => Math.max(highest, entry.turn), 0);
    for (const item of items) {
      const steering = { ...item, id: item.id || newId("msg") };
      const position = run.output.length;
      run.emit({ type: "response.output_item.added", output_index: position, item: steering });
      run.put({ side: "output", position, turn, item: steering, meta: { synthetic: "steer" } });
      run.emit({ type: "response.output_item.done", output_index: position, item: steering });
    }
    return true;
  }

  /** Resolves with the answer to an approval, given anywhere; undefined when `signal` ends the wait. */
  settled(id: string, signal: AbortSignal): Promise<Approval | undefined> {
    return new Promise((resolve) => {
      const done = (approval: Approval | undefined) => {
        this.#approvals.delete(id);
        signal.removeEventListener("abort", onAbort);
        resolve(approval);
      };
      const onAbort = () => done(undefined);
      signal.addEventListener("abort", onAbort, { once: true });
      this.#approvals.set(id, done);
    });
  }

  tell(approval: Approval): void {
    this.#approvals.get(approval.id)?.(approval);
  }

  /** Resolves when another process may have written something of a response. */
  async change(id: string, signal?: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = () => resolve();
    this.#waiting.add(wake);
    signal?.addEventListener("abort", wake, { once: true });
    this.#parts.store.changed(id, LOOK).then(wake, wake);
    await promise;
    signal?.removeEventListener("abort", wake);
    this.#waiting.delete(wake);
  }

  /** Whoever waits for a change looks again. */
  wake(): void {
    for (const wake of this.#waiting) wake();
  }

  /** Whether another process runs a response. */
  isAlive(lease: Lease | undefined): boolean {
    return lease?.process !== this.#processName && isHeld(lease);
  }
}
