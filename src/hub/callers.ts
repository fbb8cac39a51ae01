/**
 * Callers: which call a server means when it tells or asks something in the middle of one.
 *
 * Invariant: over HTTP it is the call on whose stream it came. Elsewhere the wire does not say it: then it is for a call
 * of the gateway only where all calls under way are of one owner; nobody is ever shown what may be somebody else's.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { GatewayCaller } from "../types/gateway.ts";
import type { JsonObject } from "../types/json.ts";
import type { CallTimers } from "./call-timers.ts";
import { isObject } from "./definitions.ts";

/** A call under way. */
export interface OpenCall {
  /** That it is made for; empty: none. */
  responseId: string;
  /** Set for calls of the gateway. */
  caller?: GatewayCaller;
}

/** Something that a server says outside of any call. */
export type ServerNews = { kind: "tools" | "resources" | "prompts" | "opened" } | { kind: "updated"; uri: string };

/** Requests of servers that a client may answer, and the capability that says so. */
const QUESTIONS: Record<string, string> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

const PASSED_ON = new Set(["notifications/message", "notifications/elicitation/complete"]);

export class Callers {
  readonly #calls = new Set<OpenCall>();
  readonly #stream = new AsyncLocalStorage<OpenCall>();
  readonly #asked = new Map<string | number, AbortController>();
  readonly #timers: CallTimers;
  readonly #tell: (news: ServerNews) => void;

  constructor(timers: CallTimers, tell: (news: ServerNews) => void) {
    this.#timers = timers;
    this.#tell = tell;
  }

  /** Whatever comes on the stream of what `send` sends is for this call. */
  async run<T>(call: OpenCall, send: () => Promise<T>): Promise<T> {
    this.#calls.add(call);
    try {
      return await this.#stream.run(call, send);
    } finally {
      this.#calls.delete(call);
    }
  }

  responseIds(): string[] {
    return [...new Set(this.#meant().map(({ responseId }) => responseId))];
  }

  #meant(): OpenCall[] {
    const exact = this.#stream.getStore();
    return exact && this.#calls.has(exact) ? [exact] : [...this.#calls];
  }

  /** The latest of the calls that may be meant, if they are of one owner of the gateway. */
  #caller(capability?: string): GatewayCaller | undefined {
    const callers = this.#meant().map(({ caller }) => caller);
    const [first] = callers;
    if (!first || !callers.every((caller) => caller?.owner === first.owner)) return undefined;
    if (capability === undefined) return callers.at(-1);
    return callers.findLast((caller) => caller?.capabilities[capability] !== undefined);
  }

  /** From now on hears what comes before the client library does. */
  attach(transport: Transport): void {
    const { onmessage } = transport;
    transport.onmessage = (message, extra) => {
      if (!this.#takes(message, transport)) onmessage?.(message, extra);
    };
  }

  #takes(message: JSONRPCMessage, transport: Transport): boolean {
    if (!("method" in message)) return false;
    const { method } = message;
    const params = isObject(message.params) ? message.params : {};
    if ("id" in message && message.id !== undefined) {
      const caller = QUESTIONS[method] === undefined ? undefined : this.#caller(QUESTIONS[method]);
      if (!caller) return false;
      void this.#ask(caller, { id: message.id, method, params }, transport);
      return true;
    }
    if (PASSED_ON.has(method)) {
      this.#caller()?.notify(method, params);
      return true;
    }
    if (method === "notifications/cancelled") this.#asked.get(String(params.requestId))?.abort();
    else this.#hear(method, params);
    return false;
  }

  #hear(method: string, params: JsonObject): void {
    const [, kind] = /^notifications\/(tools|resources|prompts)\/list_changed$/.exec(method) ?? [];
    if (kind === "tools" || kind === "resources" || kind === "prompts") this.#tell({ kind });
    else if (method === "notifications/resources/updated" && typeof params.uri === "string")
      this.#tell({ kind: "updated", uri: params.uri });
  }

  /** The server's question goes to the client, and the client's answer to the server, whatever it is. */
  async #ask(
    caller: GatewayCaller,
    { id, method, params }: { id: string | number; method: string; params: JsonObject },
    transport: Transport,
  ): Promise<void> {
    const cancel = new AbortController();
    this.#asked.set(String(id), cancel);
    const signal = AbortSignal.any([cancel.signal, caller.signal]);
    let answer: { result: JsonObject } | { error: { code: number; message: string } };
    try {
      answer = { result: await this.#timers.whileAsking(caller.ask(method, params, signal)) };
    } catch (error) {
      const { code, message } = error as { code?: unknown; message?: unknown };
      const known = typeof code === "number" && Number.isSafeInteger(code) ? code : -32_603;
      answer = { error: { code: known, message: typeof message === "string" ? message : "no answer" } };
    } finally {
      this.#asked.delete(String(id));
    }
    if (!cancel.signal.aborted)
      await transport.send({ jsonrpc: "2.0", id, ...answer } as JSONRPCMessage).catch(() => undefined);
  }
}
