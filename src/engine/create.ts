/**
 * Create: a request becomes a response on disk.
 *
 * Invariant: it and its input are durable when this resolves; a second request with the same idempotency key makes
 * nothing.
 */
import type { RunRequest } from "../types/engine.ts";
import type { RunEvent } from "../types/event.ts";
import type { Entry, Item } from "../types/item.ts";
import { LOCAL, type ResponseNode } from "../types/response.ts";
import { answeredCalls, childOf, firstEvents, firstOf, openAbove, place } from "./begin.ts";
import { childKey } from "./decide.ts";
import type { CallEntry } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import { placeInTrace } from "./spans.ts";
import { entriesOf } from "./text.ts";

/** Milliseconds that an idempotency key holds. */
const KEY_LIFE = 24 * 3_600_000;

export interface Created {
  node: ResponseNode;
  input: Entry[];
  /** Answered calls of its parent, which it carries out first. */
  calls: CallEntry[];
  events: RunEvent[];
  /** Its process; null: a runner gives it one. */
  process: string | null;
}

/**
 * `answers` gives the input, with what was answered about the parent's calls settled; `processFor` decides who runs it.
 * Resolves with a node alone where the key has led to one before.
 */
export async function createResponse(
  parts: EngineParts,
  request: RunRequest,
  answers: (parent: ResponseNode | undefined) => Promise<Item[]>,
  processFor: (node: ResponseNode) => string | null,
): Promise<Created | { known: ResponseNode }> {
  const { store } = parts;
  const before = request.idempotency && (await store.idempotency(request.owner ?? LOCAL, request.idempotency.key));
  if (before) return { known: await firstOf(store, before, request.idempotency?.digest ?? "") };
  const now = parts.now();
  const profile = await parts.profiles.get(request.profile);
  const model = await parts.models.get(request.model ?? profile.model);
  const { node, parent, conversation } = await place(store, request, { profile: profile.name, model: model.id, now });
  placeInTrace(parts, node);
  const input = entriesOf(await answers(parent), request.settings?.compact !== undefined);
  // One that has not ended waits for its answers itself, and carries them out itself.
  const calls = parent && parent.endedAt !== null ? await answeredCalls(store, parent, input) : [];
  const process = processFor(node);
  if (process === null || (parent && (await openAbove(store, parent)))) node.status = "queued";
  const events = firstEvents(node, calls);
  const key = request.idempotency && { ...request.idempotency, expiresAt: now + KEY_LIFE };
  const answered = parent && calls.length > 0 ? childKey(parent) : undefined;
  const idempotency = answered ?? key;
  const made = { node, input: [...input, ...calls], events, process, conversation };
  const linear = request.conversation !== undefined && request.previousResponseId === undefined;
  const known = await store.create({ ...made, linear, ...(idempotency && { idempotency }) });
  if (known) {
    return { known: await (answered ? childOf(store, known, input) : firstOf(store, known, key?.digest ?? "")) };
  }
  if (answered && key) {
    await store.saveIdempotency({ ...key, owner: request.owner ?? LOCAL, responseId: node.id, answer: null });
  }
  return { node, input, calls, events, process };
}
