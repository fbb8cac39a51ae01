/**
 * A client that does not give up: it repeats a request, with its Idempotency-Key, until there is an answer, and reads a
 * stream on over as many connections and servers as it takes.
 *
 * Invariant: what it hands back was said by a server; what was cut off on the way is never taken for an answer.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Chance } from "./part.ts";

export interface Address {
  url: string;
  token: string;
}

export interface Ask {
  method?: "GET" | "POST";
  body?: object;
  key?: string;
  /** Statuses that are an answer here, though elsewhere they say: ask again. */
  final?: readonly number[];
}

export interface Answered {
  status: number;
  json: unknown;
}

export interface Wire {
  type: string;
  /** Absent where the stream itself, and not the response, has failed. */
  sequence_number?: number;
  response?: { id: string; status: string };
}

/** Statuses that say: ask again. */
const AGAIN = new Set([409, 429, 503]);

export class Client {
  readonly #servers: () => readonly Address[];
  readonly #chance: Chance;
  readonly #patience: number;
  /** Requests that were sent once more. */
  retries = 0;

  /** `patience`: milliseconds after which somebody is at fault. */
  constructor(servers: () => readonly Address[], chance: Chance, patience = 180_000) {
    this.#servers = servers;
    this.#chance = chance;
    this.#patience = patience;
  }

  #send(path: string, { method, body, key }: Ask, signal: AbortSignal): Promise<Response> {
    const { url, token } = this.#chance.one(this.#servers());
    return fetch(`${url}${path}`, {
      method: method ?? (body ? "POST" : "GET"),
      signal,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body && { "content-type": "application/json" }),
        ...(key !== undefined && { "idempotency-key": key }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
  }

  /** Until an answer comes that is one. Throws when nobody gives one in time. */
  async ask(path: string, ask: Ask = {}): Promise<Answered> {
    const until = performance.now() + this.#patience;
    for (let last: unknown; ; this.retries++) {
      if (performance.now() > until)
        throw new Error(`no answer to ${ask.method ?? "a request"} ${path}: ${String(last)}`);
      try {
        const response = await this.#send(path, ask, AbortSignal.timeout(20_000));
        const text = await response.text();
        const again = AGAIN.has(response.status) || text.includes('"code":"storage_failed"');
        if (!again || ask.final?.includes(response.status))
          return { status: response.status, json: JSON.parse(text) as unknown };
        last = `${response.status} ${text.slice(0, 300)}`;
      } catch (error) {
        last = error;
      }
      await sleep(this.#chance.between(5, 40));
    }
  }

  /**
   * Reads a stream once. Each event's text is handed on; the number that comes back says how it ended: "done" (`[DONE]`
   * came), "cut", or the status of a refusal.
   */
  async read(path: string, ask: Ask, heard: (data: string) => boolean): Promise<"done" | "cut" | number> {
    const away = new AbortController();
    try {
      const response = await this.#send(path, ask, AbortSignal.any([away.signal, AbortSignal.timeout(30_000)]));
      if (response.status !== 200 || !response.body) {
        await response.body?.cancel();
        return AGAIN.has(response.status) ? "cut" : response.status;
      }
      let rest = "";
      for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
        rest += piece;
        for (let end = rest.indexOf("\n\n"); end !== -1; end = rest.indexOf("\n\n")) {
          const block = rest.slice(0, end);
          rest = rest.slice(end + 2);
          const data = block
            .split("\n")
            .find((line) => line.startsWith("data: "))
            ?.slice(6);
          if (data === undefined) continue;
          if (data === "[DONE]") return "done";
          if (!heard(data)) return "cut";
        }
      }
      return "cut";
    } catch {
      return "cut";
    } finally {
      away.abort();
    }
  }

  async pause(): Promise<void> {
    await sleep(this.#chance.between(5, 40));
  }

  /** Asks for a response until it has ended. */
  async untilEnd(id: string): Promise<{ status: string; output: WireItem[] }> {
    const until = performance.now() + this.#patience;
    for (;;) {
      const { status, json } = await this.ask(`/v1/responses/${id}`);
      const response = json as { status: string; output: WireItem[] };
      if (status === 200 && !["queued", "in_progress"].includes(response.status)) return response;
      if (status !== 200) throw new Error(`GET ${id}: ${status} ${JSON.stringify(json).slice(0, 300)}`);
      if (performance.now() > until) throw new Error(`response ${id} does not end: ${response.status}`);
      await sleep(25);
    }
  }
}

export interface WireItem {
  id: string;
  type: string;
  name?: string;
  status?: string;
  arguments?: string;
  content?: { text?: string }[];
}
