/**
 * Elicitations: questions of servers that wait for a person.
 *
 * Invariant: each is answered once, by a person, by the end of its time or of its call (both `cancel`); a server
 * has at most 20 open at once; a link is shown, and never opened here.
 */
import type { Elicitation, ElicitationAnswer } from "../types/elicitation.ts";
import { RotundaError } from "../types/error.ts";
import type { JsonObject } from "../types/json.ts";
import { newId } from "../util/ids.ts";
import { visible } from "../util/text.ts";
import { contentFault, formFault, withDefaults } from "./elicitation-schema.ts";

/** Milliseconds that a person has. */
const PATIENCE = 5 * 60 * 1000;
const MAX_OPEN = 20;
const MAX_MESSAGE = 4_000;

/** Who can answer. */
export interface ElicitationDoor {
  /** Whether there is anybody, in this moment. */
  open(): boolean;
  asked(elicitation: Elicitation): void;
  /** Milliseconds. Default: five minutes. */
  patience?: number;
}

/** What a server asks, as far as it is looked at. */
export interface ElicitationRequest {
  mode?: string | undefined;
  message: string;
  requestedSchema?: unknown;
  url?: string | undefined;
}

interface Open {
  elicitation: Elicitation;
  settle(answer: ElicitationAnswer): void;
}

export class Elicitations {
  readonly #door: ElicitationDoor;
  readonly #now: () => number;
  readonly #open = new Map<string, Open>();

  constructor(door: ElicitationDoor, now: () => number) {
    this.#door = door;
    this.#now = now;
  }

  /** Whether servers are told that they can ask. */
  get offered(): boolean {
    return this.#door.open();
  }

  /** A server's question; resolves with the answer, never rejects. */
  ask(
    server: string,
    request: ElicitationRequest,
    signal: AbortSignal,
    responseIds: readonly string[] = [],
  ): Promise<ElicitationAnswer> {
    const open = [...this.#open.values()].filter(({ elicitation }) => elicitation.server === server).length;
    if (!this.#door.open() || open >= MAX_OPEN || signal.aborted) return Promise.resolve({ action: "cancel" });
    const made = this.#made(server, request);
    // What cannot be shown as it is meant is refused, not bent.
    if (!made) return Promise.resolve({ action: "decline" });
    const elicitation: Elicitation = { ...made, responseIds: [...responseIds] };
    return new Promise((resolve) => {
      const settle = (answer: ElicitationAnswer) => {
        if (!this.#open.delete(elicitation.id)) return;
        clearTimeout(timer);
        signal.removeEventListener("abort", cancel);
        resolve(answer);
      };
      const cancel = () => settle({ action: "cancel" });
      const timer = setTimeout(cancel, this.#door.patience ?? PATIENCE).unref();
      signal.addEventListener("abort", cancel, { once: true });
      this.#open.set(elicitation.id, { elicitation, settle });
      this.#door.asked(elicitation);
    });
  }

  #made(server: string, { mode = "form", message, requestedSchema, url }: ElicitationRequest): Elicitation | undefined {
    const now = this.#now();
    const base = {
      id: newId("eli", now),
      server,
      message: visible(message.slice(0, MAX_MESSAGE)),
      createdAt: now,
      expiresAt: now + (this.#door.patience ?? PATIENCE),
    };
    if (mode === "url") {
      if (url === undefined || !/^https?:\/\//i.test(url) || !URL.canParse(url)) return undefined;
      return { ...base, mode, requestedSchema: null, url: new URL(url).href };
    }
    if (mode !== "form" || formFault(requestedSchema) !== undefined) return undefined;
    return { ...base, mode, requestedSchema: requestedSchema as JsonObject, url: null };
  }

  /** Oldest first. */
  pending(): Elicitation[] {
    return [...this.#open.values()].map(({ elicitation }) => elicitation);
  }

  /** Throws `not_found`, `usage`. */
  answer(id: string, answer: ElicitationAnswer): void {
    const open = this.#open.get(id);
    if (!open) throw new RotundaError("not_found", `no elicitation ${id.slice(0, 60)} waits for an answer`);
    const { requestedSchema } = open.elicitation;
    if (answer.action !== "accept" || requestedSchema === null) {
      open.settle({ action: answer.action });
      return;
    }
    const content = withDefaults(requestedSchema, answer.content ?? {});
    const fault = contentFault(requestedSchema, content);
    if (fault !== undefined) throw new RotundaError("usage", `the content does not fit: ${fault}`);
    open.settle({ action: "accept", content });
  }

  close(): void {
    for (const { settle } of [...this.#open.values()]) settle({ action: "cancel" });
  }
}
