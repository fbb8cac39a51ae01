/**
 * Waiting: until a response has ended, or its client would lose patience.
 *
 * Invariant: whoever waits has an answer in time: the response's, what it waits for, or its id to come again with. A
 * question to a person is put where the person is, if the client can put it; what nobody can answer here stays open.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { App } from "../../types/app.ts";
import type { Approval } from "../../types/approval.ts";
import { toRotundaError } from "../../types/error.ts";
import type { McpCaller } from "../../types/mcp.ts";
import type { FullResponse } from "../../types/response.ts";
import { outermost } from "../../util/outermost.ts";
import type { Asking } from "./asking.ts";
import type { Call } from "./call.ts";

/** Seconds. Clients drop a call that is silent for 60; one that hears of progress is dropped after 300 by some. */
export const PATIENCE = { silent: 50, told: 280 } as const;
/** Milliseconds between two signs of life. */
const SIGN = 5_000;
/** Milliseconds between two looks at a response that has its answer and does not go on yet. */
const LOOK = 50;

export type Outcome =
  | { kind: "ended"; response: FullResponse }
  /** A person must answer first, and cannot be asked here. */
  | { kind: "waiting"; approvals: Approval[] }
  /** The client must be asked, and the request comes again with the answer. */
  | { kind: "ask"; approval: Approval }
  | { kind: "running"; since: number };

export interface WaitOptions {
  app: App;
  call: Call;
  caller: McpCaller;
  asking: Asking | undefined;
  /** Seconds. Default: as long as the client has patience. */
  seconds?: number;
  /** The client has nobody else who could end it: leaving cancels. */
  cancels?: boolean;
}

export async function waitFor(id: string, options: WaitOptions): Promise<Outcome> {
  const { app, call } = options;
  const told = call.tellsProgress;
  const most = told ? PATIENCE.told : PATIENCE.silent;
  const seconds = Math.max(0, Math.min(options.seconds ?? most, most));
  const { signal } = call;
  const cancel = () => {
    if (options.cancels && call.isCancelled()) app.engine.cancel(id, "cancelled by the client").catch(() => undefined);
  };
  if (signal.aborted) cancel();
  signal.addEventListener("abort", cancel, { once: true });
  const signs = told ? new Signs(app, call, id) : undefined;
  try {
    return await follow(id, options, performance.now() + seconds * 1_000);
  } finally {
    signs?.end();
    signal.removeEventListener("abort", cancel);
  }
}

async function follow(id: string, { app, call, caller, asking }: WaitOptions, until: number): Promise<Outcome> {
  for (;;) {
    const node = await patiently(app, call, id, until).catch(async (error: unknown) => {
      // Whoever ran it is gone: it goes on, there or here, and is waited for again.
      if (toRotundaError(error).code !== "response_not_ended" || performance.now() > until) throw error;
      await revived(app, caller, id);
      return "again" as const;
    });
    if (node === "again") continue;
    const response = await app.engine.get(id);
    if (response.endedAt !== null) return { kind: "ended", response };
    if (!node || call.signal.aborted) return { kind: "running", since: response.createdAt };
    const approvals = await questionsOf(app, id);
    const [first] = approvals;
    if (!first && !response.error && performance.now() < until) {
      // It was answered just now, and the process that runs it has not taken that up yet.
      await sleep(LOOK);
      continue;
    }
    if (!first || !asking) return { kind: "waiting", approvals };
    const asked = await asking(first, until - performance.now());
    if (asked === "comes again") return { kind: "ask", approval: first };
    if (asked === "stays open") return { kind: "waiting", approvals };
  }
}

/** The node when it has ended or waits; undefined when time is up or the client has gone. */
async function patiently(app: App, call: Call, id: string, until: number) {
  const { promise: over, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => resolve(undefined), Math.max(0, until - performance.now()));
  const leave = () => resolve(undefined);
  call.signal.addEventListener("abort", leave, { once: true });
  try {
    return await Promise.race([app.engine.wait(id), over]);
  } finally {
    clearTimeout(timer);
    call.signal.removeEventListener("abort", leave);
  }
}

async function revived(app: App, caller: McpCaller, id: string): Promise<void> {
  const node = await app.store.node(id);
  if (node?.endedAt === null) await caller.revive(node).catch(() => undefined);
  await sleep(100);
}

/** What a response, or a sub-agent below it, asks a person. */
export async function questionsOf(app: App, id: string): Promise<Approval[]> {
  const found: Approval[] = [];
  for (const approval of await app.store.approvals({ status: "pending" })) {
    if ((await outermost(app, approval.responseId)) === id) found.push(approval);
  }
  return found;
}

/** Tells a client, every few seconds and at once, that something goes on, and what. */
class Signs {
  readonly #call: Call;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #startedAt = performance.now();
  #doing = "started";
  #characters = 0;

  constructor(app: App, call: Call, id: string) {
    this.#call = call;
    this.#timer = setInterval(() => this.#tell(), SIGN);
    this.#tell();
    this.#listen(app, id).catch((thrown: unknown) => {
      this.#doing = toRotundaError(thrown).code;
    });
  }

  async #listen(app: App, id: string): Promise<void> {
    for await (const event of app.engine.watch(id, -1, this.#stop.signal)) {
      if (event.type === "response.output_text.delta") {
        this.#characters += event.delta.length;
        this.#doing = `${this.#characters} characters of the answer so far`;
      } else if (event.type === "response.output_item.added" && event.item.type === "mcp_call") {
        this.#doing = `calls ${event.item.name}`;
      }
    }
  }

  #tell(): void {
    const seconds = Math.round((performance.now() - this.#startedAt) / 1_000);
    this.#call.progress(seconds, `${seconds} s: ${this.#doing}`);
  }

  end(): void {
    clearInterval(this.#timer);
    this.#stop.abort();
  }
}
