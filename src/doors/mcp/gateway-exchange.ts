/**
 * Exchange: one request of a client that a server answers, and all that the two say to each other until then.
 *
 * Invariant: a question of the server reaches the client that made the request, in its own generation of the protocol:
 * as a request, or (2026-07-28) as a result that asks, with the server's call held open until the client comes again.
 * What is held is bounded in number and time, and belongs to one owner.
 */
import { randomUUID } from "node:crypto";
import type { ServerContext } from "@modelcontextprotocol/server";
import type { GatewayCaller, Generation } from "../../types/gateway.ts";
import { isJsonObject, type JsonObject } from "../../types/json.ts";

/** Milliseconds that a person has. */
export const PATIENCE = 10 * 60_000;
const MOST_HELD = 1_000;
const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/** What questions need of a client. */
const NEEDED: Record<string, string> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

interface AnyJson {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: JsonObject; readonly output: JsonObject };
    validate(value: unknown): { value: JsonObject };
  };
}

/** Takes parameters and results as they are. */
export const anyJson: AnyJson = {
  "~standard": { version: 1, vendor: "rotunda", validate: (value) => ({ value: isJsonObject(value) ? value : {} }) },
};

export interface ExchangeOptions {
  owner: string;
  generation: Generation;
  /** As the client has declared them. */
  capabilities: JsonObject;
  /** The least severe level that it hears of; undefined: whatever comes, or (2026-07-28) nothing. */
  level: () => string | undefined;
}

/** One question that waits for the client to come again. */
interface Question {
  method: string;
  params: JsonObject;
  settle(answer: JsonObject): void;
}

/** Whether a level is told to somebody who wants those from `least` on. */
export function isTold(level: unknown, least: string): boolean {
  return LEVELS.indexOf(String(level)) >= LEVELS.indexOf(least);
}

export function leastOf(levels: readonly string[]): string | undefined {
  return LEVELS.find((level) => levels.includes(level));
}

export class Exchange {
  readonly owner: string;
  readonly #options: ExchangeOptions;
  readonly #end = new AbortController();
  readonly #questions = new Map<string, Question>();
  #context: ServerContext;
  #work: Promise<JsonObject> | undefined;
  #wake: () => void = () => undefined;

  constructor(options: ExchangeOptions, context: ServerContext) {
    this.owner = options.owner;
    this.#options = options;
    this.#context = context;
  }

  /** Aborted when nobody waits for it any more. */
  get signal(): AbortSignal {
    return this.#end.signal;
  }

  abort(): void {
    this.#end.abort();
  }

  begin(work: () => Promise<JsonObject>): void {
    this.#work = work();
    // It may end while nobody looks.
    this.#work.catch(() => undefined);
  }

  /** For this request of the client: the result, or the questions that it must answer first. */
  async round(context: ServerContext, answers: Record<string, unknown> = {}): Promise<JsonObject> {
    this.#context = context;
    const gone = () => this.#end.abort();
    const { signal } = context.mcpReq;
    if (signal.aborted) gone();
    signal.addEventListener("abort", gone, { once: true });
    try {
      for (const [key, { settle }] of this.#questions) {
        const answer = answers[key];
        if (typeof answer !== "object" || answer === null) continue;
        this.#questions.delete(key);
        settle(answer as JsonObject);
      }
      const asked = new Promise<undefined>((resolve) => {
        this.#wake = () => resolve(undefined);
        if (this.#questions.size > 0) resolve(undefined);
      });
      const result = await Promise.race([this.#work, asked]);
      if (result) return result;
      const inputRequests = Object.fromEntries(
        [...this.#questions].map(([key, { method, params }]) => [key, { method, params }]),
      );
      return { resultType: "input_required", inputRequests };
    } finally {
      signal.removeEventListener("abort", gone);
    }
  }

  /** Some question of it waits for the client to come again. */
  get waits(): boolean {
    return this.#questions.size > 0;
  }

  /** As servers see it. `signal` replaces its own. */
  caller(signal: AbortSignal = this.signal): GatewayCaller {
    const { owner, generation, capabilities, level } = this.#options;
    const least = level();
    const wantsProgress = this.#context.mcpReq._meta?.progressToken !== undefined;
    return {
      owner,
      generation,
      capabilities,
      signal,
      ...(generation === "modern" && least !== undefined && { logLevel: least }),
      ...(wantsProgress && { onProgress: (progress) => this.#progress(progress) }),
      notify: (method, params) => this.#notify(method, params),
      ask: (method, params, cancelled) => this.#ask(method, params, cancelled),
    };
  }

  #progress(progress: JsonObject): void {
    // A client that has come again may have another token.
    const progressToken = this.#context.mcpReq._meta?.progressToken;
    if (progressToken !== undefined) this.#say("notifications/progress", { ...progress, progressToken });
  }

  #notify(method: string, params: JsonObject): void {
    if (method === "notifications/message") {
      const least = this.#options.level();
      if (least === undefined && this.#options.generation === "modern") return;
      if (least !== undefined && !isTold(params.level, least)) return;
    }
    this.#say(method, params);
  }

  #say(method: string, params: JsonObject): void {
    this.#context.mcpReq.notify({ method, params }).catch(() => undefined);
  }

  #ask(method: string, params: JsonObject, signal: AbortSignal): Promise<JsonObject> {
    const { generation, capabilities } = this.#options;
    if (capabilities[NEEDED[method] ?? ""] === undefined) {
      const error = new Error(`the client that made this call cannot be asked (${method})`);
      return Promise.reject(Object.assign(error, { code: -32_601 }));
    }
    if (generation === "legacy")
      return this.#context.mcpReq.send({ method, params }, anyJson, { timeout: PATIENCE, signal });
    return new Promise((resolve, reject) => {
      const key = randomUUID();
      const cancel = () => {
        this.#questions.delete(key);
        reject(new Error("it is no longer asked"));
      };
      signal.addEventListener("abort", cancel, { once: true });
      const settle = (answer: JsonObject) => {
        signal.removeEventListener("abort", cancel);
        resolve(answer);
      };
      this.#questions.set(key, { method, params, settle });
      this.#wake();
    });
  }
}

/** Exchanges that wait for their clients to come again. */
export class Held {
  readonly #held = new Map<string, { exchange: Exchange; timer: NodeJS.Timeout }>();

  hold(exchange: Exchange): string {
    const [oldest] = this.#held.keys();
    if (this.#held.size >= MOST_HELD && oldest !== undefined) this.#drop(oldest)?.abort();
    const id = randomUUID();
    const timer = setTimeout(() => this.#drop(id)?.abort(), PATIENCE).unref();
    this.#held.set(id, { exchange, timer });
    return id;
  }

  /** Once; undefined where there is none of this owner. */
  take(id: string, owner: string): Exchange | undefined {
    return this.#held.get(id)?.exchange.owner === owner ? this.#drop(id) : undefined;
  }

  #drop(id: string): Exchange | undefined {
    const held = this.#held.get(id);
    clearTimeout(held?.timer);
    this.#held.delete(id);
    return held?.exchange;
  }

  close(): void {
    for (const id of [...this.#held.keys()]) this.#drop(id)?.abort();
  }
}
