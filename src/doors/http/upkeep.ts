/**
 * Upkeep: what a server does beside answering requests. It goes on with what was left behind, connects MCP servers,
 * lets approvals expire, and tells webhooks and the notify command what happens.
 *
 * Invariant: none of it holds up listening or a request, and nothing of it is loaded before it is needed; a part that
 * fails is told of in the log, and the others go on.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { App } from "../../types/app.ts";
import { toRotundaError } from "../../types/error.ts";
import type { ResponseNode } from "../../types/response.ts";
import { type Once, once } from "../../util/once.ts";
import { counted } from "../../util/text.ts";
import type { Deliveries, DeliveriesOptions } from "./deliveries.ts";
import type { Services } from "./services.ts";
import type { TakenUp } from "./take-up.ts";
import type { Timetable } from "./timetable.ts";

export interface UpkeepOptions extends Pick<DeliveriesOptions, "delays" | "beat"> {
  /** Milliseconds between two looks for approvals whose time is over. Default: a minute. */
  expiry?: number;
  /** Milliseconds after which a queue that nobody works on is told of. Default: half a minute. */
  unworked?: number;
}

/** Milliseconds between two looks for responses whose budget can be used again. */
const BUDGETS = 5_000;
/** Milliseconds between two looks for what others left behind. */
const TAKE_OVER = 5_000;
/** Milliseconds between two looks for what is due by schedule. */
const CLOCK = 1_000;
/** Milliseconds between two looks for what has been kept long enough. */
const RETENTION = 3_600_000;
/** Milliseconds after which a queue that nobody works on is told of, and between two words about it. */
const UNWORKED = 30_000;
const UNWORKED_AGAIN = 300_000;
/** Responses of that queue that are looked at. */
const UNWORKED_LOOKED_AT = 100;
/** Milliseconds from listening to the first upkeep. */
const SETTLING = 100;
/** Milliseconds that deliveries have when the server ends: it has ten seconds for everything. */
const PATIENCE = 1_000;

export class Upkeep {
  readonly #app: App;
  readonly #services: Services;
  readonly #expiry: number;
  readonly #deliveries: Once<Deliveries>;
  readonly #timetable: Once<Timetable>;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  #budgetTimer: NodeJS.Timeout | undefined;
  #going = false;
  #keepTimer: NodeJS.Timeout | undefined;
  #clock: NodeJS.Timeout | undefined;
  #ticking = false;
  #takeOverTimer: NodeJS.Timeout | undefined;
  #taking = false;
  #expiring = false;
  readonly #unworked: number;
  #unworkedAt = Number.NEGATIVE_INFINITY;
  #unlisten: (() => void) | undefined;

  constructor(services: Services, { expiry = 60_000, unworked = UNWORKED, ...options }: UpkeepOptions = {}) {
    const { app, workspace, version, log } = services;
    this.#app = app;
    this.#services = services;
    this.#expiry = expiry;
    this.#unworked = unworked;
    this.#timetable = once(async () => new (await import("./timetable.ts")).Timetable(services));
    this.#deliveries = once(async () => {
      const module = await import("./deliveries.ts");
      const config = () => app.config;
      return new module.Deliveries({ store: app.store, config, workspace, version, log, ...options });
    });
  }

  /** Before anything listens, connects or runs. Throws `config_invalid` where a webhook could never work. */
  async prepare(): Promise<void> {
    // Servers learn when they are connected that there is somebody to ask: the questions are listed over HTTP.
    this.#unlisten = this.#app.onElicitation(() => undefined);
    const { webhooks, notify } = this.#app.config.server;
    if (webhooks.length > 0 || notify !== undefined) await (await this.#deliveries()).subscribe();
  }

  /** When the server listens. Resolves when what was left behind is taken up. */
  async start(tell: (text: string) => void): Promise<TakenUp> {
    // The first requests come first: whatever was left behind has waited already.
    await sleep(SETTLING, undefined, { ref: false });
    if (this.#closed) return { resumed: 0, interrupted: 0, failed: 0 };
    this.#connect().catch((thrown: unknown) => this.#say("MCP servers were not started", thrown));
    const { appFor, limits } = this.#services;
    const [{ takeUp }, deliveries] = await Promise.all([import("./take-up.ts"), this.#deliveries()]);
    if (this.#closed) return { resumed: 0, interrupted: 0, failed: 0 };
    deliveries.start();
    this.#timer = setInterval(() => this.#expire(), this.#expiry).unref();
    const taken = await takeUp({
      app: this.#app,
      appFor,
      tell,
      resumed: ({ id, owner }, app) => limits.holdRun(owner, app.engine.wait(id)),
    });
    this.#expire();
    this.#budgetTimer = setInterval(() => this.#goOn(), BUDGETS).unref();
    this.#keepTimer = setInterval(() => this.#prune(), RETENTION).unref();
    this.#prune();
    this.#clock = setInterval(() => this.#tick(), CLOCK).unref();
    this.#tick();
    if (this.#app.queue) this.#takeOverTimer = setInterval(() => this.#takeOver(), TAKE_OVER).unref();
    return taken;
  }

  #tick(): void {
    if (this.#ticking || this.#closed) return;
    this.#ticking = true;
    this.#timetable()
      .then((timetable) => timetable.tick())
      .catch((thrown: unknown) => this.#say("what is due by schedule was not started", thrown))
      .finally(() => {
        this.#ticking = false;
      });
  }

  /** Of a database that machines share: what a process elsewhere left behind. */
  #takeOver(): void {
    if (this.#taking || this.#closed) return;
    this.#taking = true;
    (async () => {
      const left = await this.#app.store.abandoned(1_000);
      if (left.length === 0) return;
      await this.#tellUnworked(left);
      const { takeUpNodes } = await import("./take-up.ts");
      const { appFor, limits } = this.#services;
      await takeUpNodes(
        {
          app: this.#app,
          appFor,
          tell: (text) => this.#services.log({ level: "warn", text }),
          resumed: ({ id, owner }, app) => limits.holdRun(owner, app.engine.wait(id)),
        },
        left,
      );
    })()
      .catch((thrown: unknown) => this.#say("what others left behind was not taken up", thrown))
      .finally(() => {
        this.#taking = false;
      });
  }

  /** What nobody takes out of the queue would wait for ever, and nobody knew why. */
  async #tellUnworked(left: readonly ResponseNode[]): Promise<void> {
    const now = Date.now();
    if (now - this.#unworkedAt < UNWORKED_AGAIN) return;
    const queued = left.filter(({ status, createdAt }) => status === "queued" && now - createdAt > this.#unworked);
    // What stands behind another turn waits for that, and not for a worker.
    const first: ResponseNode[] = [];
    for (const node of queued.slice(0, UNWORKED_LOOKED_AT)) {
      const parent = node.previousResponseId === null ? undefined : await this.#app.store.node(node.previousResponseId);
      if (!parent || parent.endedAt !== null) first.push(node);
    }
    if (first.length === 0) return;
    this.#unworkedAt = now;
    const profiles = [...new Set(first.map(({ profile }) => profile))].join(", ");
    const text = `${counted(first.length, "response")} queued for more than ${this.#unworked / 1_000} s (${profiles}): does a worker run that takes them?`;
    this.#services.log({ level: "warn", text });
  }

  #prune(): void {
    const { config, engine, store } = this.#app;
    if (this.#closed) return;
    const configured = config.keep !== undefined || Object.values(config.profiles).some((profile) => profile.keep);
    (async () => {
      if (configured || (await store.conversations({ limit: 1, kept: true })).length > 0) await engine.upkeep.prune();
    })().catch((thrown: unknown) => this.#say("what is old was not deleted", thrown));
  }

  /** A budget may have been raised elsewhere, or have begun anew. */
  #goOn(): void {
    if (this.#going || this.#closed) return;
    this.#going = true;
    (async () => {
      // Without any that waits, what lets it go on is not even loaded.
      if ((await this.#app.store.list({ status: ["waiting"], limit: 1 })).length === 0) return;
      await (await import("./go-on.ts")).goOnWithinBudgets(this.#services);
    })()
      .catch((thrown: unknown) => this.#say("what waits for a budget does not go on", thrown))
      .finally(() => {
        this.#going = false;
      });
  }

  /** Not even the hub is loaded where there is nothing to connect to. */
  async #connect(): Promise<void> {
    if (this.#app.config.servers.some((server) => !server.disabled)) (await this.#app.hub())?.connect();
  }

  #expire(): void {
    if (this.#expiring || this.#closed) return;
    this.#expiring = true;
    expireApprovals(this.#services)
      .catch((thrown: unknown) => this.#say("approvals did not expire", thrown))
      .finally(() => {
        this.#expiring = false;
      });
  }

  #say(what: string, thrown: unknown): void {
    this.#services.log({ level: "error", text: `${what}: ${toRotundaError(thrown).message}` });
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#timer);
    clearInterval(this.#budgetTimer);
    clearInterval(this.#keepTimer);
    clearInterval(this.#clock);
    clearInterval(this.#takeOverTimer);
    this.#unlisten?.();
    if (this.#deliveries.made()) await (await this.#deliveries()).close(PATIENCE);
  }
}

/** Counted as denied; one that cannot go on keeps no other from it. */
async function expireApprovals(services: Services): Promise<void> {
  const expired = await services.app.engine.expireApprovals();
  if (expired.length === 0) return;
  const { goOn } = await import("./go-on.ts");
  for (const approval of expired) {
    await goOn(services, approval).catch((thrown: unknown) => {
      const text = `response ${approval.responseId} does not go on: ${toRotundaError(thrown).message}`;
      services.log({ level: "error", text });
    });
  }
}
