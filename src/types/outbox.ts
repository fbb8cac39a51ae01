/**
 * Outbox: what is told to the outside about outermost responses (those without a caller): that one waits for a person,
 * or has ended.
 *
 * Invariant: an event is written in the transaction that makes it true, once for each target that wants it, and stays
 * until its delivery is settled: so it is delivered at least once, whichever process dies in between.
 */
import type { IncompleteReason, Owner, ResponseError, Status } from "./response.ts";

export const outboxEvents = [
  "response.waiting",
  "response.completed",
  "response.failed",
  "response.incomplete",
  "response.cancelled",
] as const;

export type OutboxEventType = (typeof outboxEvents)[number];

export interface OutboxEvent {
  /** `evt_…`: the same at every attempt and for every target. */
  id: string;
  type: OutboxEventType;
  /** Milliseconds since the epoch. */
  at: number;
  /** The outermost response. */
  responseId: string;
  conversationId: string | null;
  owner: Owner;
  profile: string;
  model: string;
  door: string;
  status: Status;
  error: ResponseError | null;
  incompleteReason: IncompleteReason | null;
  /**
   * Of `response.waiting`: what was asked anew, by the response itself or a sub-agent below it. Of an ended response:
   * what it returned for approval.
   */
  approvals: { id: string; responseId: string; tool: string }[];
}

/** Who is told. A target without `events` hears all of them. */
export interface Subscription {
  /** A digest of the address or command: neither is ever stored. */
  target: string;
  events: readonly OutboxEventType[] | null;
}

/** One event on its way to one target, taken by one process. */
export interface Delivery {
  sequence: number;
  target: string;
  /** Before this one. */
  attempts: number;
  event: OutboxEvent;
}
