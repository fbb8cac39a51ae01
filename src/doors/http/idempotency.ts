/**
 * Idempotency-Key on requests that start no response: the second request gets the first one's answer.
 *
 * Invariant: of requests with one key and one body, of one owner, at most one is carried out at a time, and none
 * after one whose answer is kept (24 hours). Another body with the same key is refused, whatever it is. What an answer
 * tells of a response goes when that response is deleted; the key stays taken.
 */
import { RotundaError } from "../../types/error.ts";
import type { RequestContext } from "./context.ts";

const KEPT = 24 * 3_600_000;

interface Answer {
  status: number;
  body: string;
}

interface InFlight {
  digest: string;
  /** It is being carried out. Before, it is still asked whether there is an answer already. */
  running: boolean;
  /** Undefined where there was no answer that can be given again. */
  answer: Promise<Answer | undefined>;
}

/** The key of a request, if it has one. Throws `usage` where it is none. */
export function keyOf({ request }: RequestContext): string | undefined {
  const key = request.headers["idempotency-key"];
  if (key === undefined) return undefined;
  if (typeof key !== "string" || !/^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/.test(key)) {
    throw new RotundaError("usage", "An Idempotency-Key is 1 to 255 printable ASCII characters.");
  }
  return key;
}

/** What a repetition tells nothing about: the request may well be carried out the next time. */
function isKept({ status }: Answer): boolean {
  return status < 500 && status !== 408 && status !== 409 && status !== 429;
}

export class Idempotency {
  readonly #inFlight = new Map<string, InFlight>();

  /** Carries out `run`, or answers as the first request with this key was answered. Throws `idempotency_mismatch`. */
  async once(context: RequestContext, key: string, digest: string, run: () => Promise<void>): Promise<void> {
    const name = `${context.identity.owner}\n${key}`;
    for (;;) {
      const first = this.#inFlight.get(name);
      if (!first) return this.#first(context, { name, key, digest, run });
      if (first.running && first.digest !== digest) throw mismatch();
      const answer = await first.answer;
      if (answer && first.digest === digest) return again(context, answer);
    }
  }

  async #first(
    context: RequestContext,
    { name, key, digest, run }: { name: string; key: string; digest: string; run: () => Promise<void> },
  ): Promise<void> {
    const { store } = context.app;
    const { owner } = context.identity;
    const { promise, resolve } = Promise.withResolvers<Answer | undefined>();
    const entry: InFlight = { digest, running: false, answer: promise };
    this.#inFlight.set(name, entry);
    let kept: Answer | undefined;
    try {
      const record = await store.idempotency(owner, key);
      if (record && record.digest !== digest) throw mismatch();
      if (record && !record.answer) throw new RotundaError("not_found", "What this key led to has been deleted.");
      kept = record?.answer ?? undefined;
      if (kept) return again(context, kept);
      entry.running = true;
      // The answer leaves when it is on disk: else a crash could let an acknowledged request be carried out twice.
      context.holdAnswer();
      await run().catch((thrown: unknown) => context.error(thrown));
      if (!context.answer || !isKept(context.answer)) return;
      kept = context.answer;
      const expiresAt = Date.now() + KEPT;
      await store.saveIdempotency({ owner, key, digest, responseId: toldOf(context, kept), answer: kept, expiresAt });
    } finally {
      this.#inFlight.delete(name);
      resolve(kept);
      context.releaseAnswer();
    }
  }
}

/** The response whose deletion erases a kept answer; null where it tells of none. */
function toldOf({ about }: RequestContext, { body }: Answer): string | null {
  return about ?? /^\{"id":"(resp_\w{26})"/.exec(body.slice(0, 60))?.[1] ?? null;
}

function again(context: RequestContext, { status, body }: Answer): void {
  context.text(status, JSON_TYPE, body, { "idempotent-replayed": "true" });
}

const JSON_TYPE = "application/json; charset=utf-8";

function mismatch(): RotundaError {
  return new RotundaError("idempotency_mismatch", "This Idempotency-Key was used for another request.");
}
