/**
 * Deliveries: takes events from the outbox and tells them to webhooks and the notify command.
 *
 * Invariant: an event is delivered at least once, by one server at a time, whichever process ran the response; what is
 * not delivered when the server ends is on disk, and is delivered by the next one. A target that does not answer holds
 * up no other, and never has more than four attempts under way.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../../types/config.ts";
import { toRotundaError } from "../../types/error.ts";
import type { Delivery } from "../../types/outbox.ts";
import type { Store } from "../../types/store.ts";
import { newProcessName } from "../../util/process-name.ts";
import { type Target, webhookTargets } from "./webhooks.ts";

export interface DeliveriesOptions {
  store: Store;
  /** Asked again and again: a reload puts another one in force. */
  config(): Config;
  /** The directory that the notify command runs in. */
  workspace: string;
  version: string;
  log(entry: Record<string, unknown>): void;
  /** Milliseconds before each further attempt; when none is left, the event is given up. */
  delays?: readonly number[];
  /** Milliseconds between two looks into the outbox. Default 500. */
  beat?: number;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A day, all together. */
const DELAYS = [5_000, 30_000, 2 * MINUTE, 10 * MINUTE, HOUR / 2, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 8 * HOUR];
const AT_ONCE = 4;
/** How long events are kept for a server that is not there. */
const SUBSCRIBED = 72 * HOUR;

export class Deliveries {
  readonly #options: DeliveriesOptions;
  readonly #process = newProcessName();
  readonly #delays: readonly number[];
  readonly #stop = new AbortController();
  readonly #underWay = new Map<string, number>();
  readonly #attempts = new Set<Promise<void>>();
  readonly #looking = new Set<string>();
  #targets: readonly Target[] = [];
  #config: Config | undefined;
  #subscribed = Number.NEGATIVE_INFINITY;
  #busy = false;
  #closing = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DeliveriesOptions) {
    this.#options = options;
    this.#delays = options.delays ?? DELAYS;
  }

  /** From now on what ends anywhere is written down for our targets. Throws `config_invalid`. */
  async subscribe(): Promise<void> {
    const config = this.#options.config();
    if (config !== this.#config) {
      const before = this.#targets;
      this.#targets = await this.#targetsOf(config);
      this.#config = config;
      const gone = before.filter(({ target }) => !this.#targets.some((one) => one.target === target));
      if (gone.length > 0) await this.#options.store.subscribe(gone, 0);
    }
    await this.#options.store.subscribe(this.#targets, Date.now() + SUBSCRIBED);
    this.#subscribed = performance.now();
  }

  async #targetsOf({ server }: Config): Promise<Target[]> {
    const targets = webhookTargets(server, this.#options.version);
    const { notify } = server;
    if (notify === undefined || notify.trim() === "") return targets;
    const { notifyTarget } = await import("./notify.ts");
    return [...targets, notifyTarget(notify, this.#options.workspace)];
  }

  /** Begins to deliver. */
  start(): void {
    this.#timer ??= setInterval(() => this.#beat(), this.#options.beat ?? 500).unref();
    this.#beat();
  }

  #beat(): void {
    if (this.#busy || this.#closing) return;
    this.#busy = true;
    this.#look()
      .catch((thrown: unknown) => this.#say("error", toRotundaError(thrown).message))
      .finally(() => {
        this.#busy = false;
      });
  }

  async #look(): Promise<void> {
    const changed = this.#options.config() !== this.#config;
    if (changed || performance.now() - this.#subscribed > HOUR) {
      try {
        await this.subscribe();
      } catch (thrown) {
        // What was in force before stays so, and the fault is told once.
        this.#config = this.#options.config();
        this.#say("error", toRotundaError(thrown).message);
      }
    }
    await Promise.all(this.#targets.map((target) => this.#fetch(target)));
  }

  /** Takes what is due for a target, as far as it has room. */
  async #fetch(target: Target): Promise<void> {
    const { target: key } = target;
    if (this.#looking.has(key) || this.#closing) return;
    this.#looking.add(key);
    try {
      const room = AT_ONCE - (this.#underWay.get(key) ?? 0);
      for (const delivery of await this.#options.store.takeDeliveries(key, room, this.#process)) {
        this.#underWay.set(key, (this.#underWay.get(key) ?? 0) + 1);
        const attempt = this.#attempt(target, delivery).finally(() => this.#attempts.delete(attempt));
        this.#attempts.add(attempt);
      }
    } finally {
      this.#looking.delete(key);
    }
  }

  /** Never rejects. */
  async #attempt(target: Target, delivery: Delivery): Promise<void> {
    const { target: key, name } = target;
    try {
      await this.#options.store.settleDelivery(...(await this.#tell(target, delivery)));
    } catch (thrown) {
      // It is due again when the time for which it was taken is over.
      this.#say("error", `${name}: ${toRotundaError(thrown).message}`);
    }
    this.#underWay.set(key, (this.#underWay.get(key) ?? 1) - 1);
    await this.#fetch(target).catch(() => undefined);
  }

  async #tell(target: Target, { event, ...delivery }: Delivery): Promise<[Delivery, number | null]> {
    const outcome = this.#stop.signal.aborted
      ? { done: false as const, why: "", again: true }
      : await target.deliver(event, this.#stop.signal);
    const now = Date.now();
    if (outcome.done) return [{ ...delivery, event }, null];
    // An attempt that we have cut is none.
    if (outcome.again && this.#stop.signal.aborted) return [{ ...delivery, event }, now];
    const attempts = delivery.attempts + 1;
    const delay = outcome.again ? this.#delays[delivery.attempts] : undefined;
    const what = `${target.name}: ${event.type} ${event.id} not delivered (attempt ${attempts}): ${outcome.why}`;
    if (delay === undefined) {
      this.#say("error", `${what}; it is given up`);
      return [{ ...delivery, event }, null];
    }
    // Not all at once where many have failed together.
    const wait = Math.max(delay * (0.8 + 0.4 * Math.random()), (outcome.after ?? 0) * 1_000);
    this.#say("warn", `${what}; again in ${Math.round(wait / 1_000)} s`);
    return [{ ...delivery, attempts, event }, now + Math.round(wait)];
  }

  #say(level: "warn" | "error", text: string): void {
    this.#options.log({ level, topic: "webhooks", text });
  }

  /** Takes nothing new; gives what is under way so many milliseconds, then leaves it to the next server. */
  async close(patience: number): Promise<void> {
    clearInterval(this.#timer);
    this.#closing = true;
    const timer = setTimeout(() => this.#stop.abort(), patience);
    while (this.#attempts.size > 0 || this.#looking.size > 0 || this.#busy) {
      await Promise.allSettled(this.#attempts.size > 0 ? [...this.#attempts] : [sleep(5)]);
    }
    clearTimeout(timer);
  }
}
