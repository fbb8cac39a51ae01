/**
 * The client's history: what was acknowledged to it and what it saw, written by nobody but the client.
 *
 * Invariant: an entry is written when the answer has arrived, and never taken back; it is the oracle of what must be
 * there after any crash.
 */
import { appendFileSync } from "node:fs";

/** A line that a tool was to write, and where. */
export interface Effect {
  line: string;
  by: "mcp" | "bash";
  responseId: string;
}

export interface Turn {
  conversationId: string;
  responseId: string;
  text: string;
}

export class History {
  readonly #path: string;
  /** Ids that were told to a client. */
  readonly acknowledged = new Set<string>();
  readonly effects: Effect[] = [];
  readonly turns: Turn[] = [];
  readonly faults: string[] = [];
  /** Counted things: streams put together, retries. */
  readonly counts = new Map<string, number>();

  constructor(path: string) {
    this.#path = path;
  }

  #write(entry: object): void {
    appendFileSync(this.#path, `${JSON.stringify({ at: Date.now(), ...entry })}\n`);
  }

  acknowledge(responseId: string, kind: string): void {
    if (this.acknowledged.has(responseId)) return;
    this.acknowledged.add(responseId);
    this.#write({ acknowledged: responseId, kind });
  }

  expect(effect: Effect): void {
    this.effects.push(effect);
    this.#write({ effect });
  }

  turn(turn: Turn): void {
    this.turns.push(turn);
    this.#write({ turn });
  }

  fault(text: string): void {
    this.faults.push(text);
    this.#write({ fault: text });
  }

  /** Something odd that breaks no promise. */
  note(text: string): void {
    this.#write({ note: text });
  }

  count(what: string, by = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + by);
  }

  of(what: string): number {
    return this.counts.get(what) ?? 0;
  }
}
