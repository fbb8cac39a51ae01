/** The outbox's events and their life, on any database. */
import type { OutboxEvent, OutboxEventType } from "../types/outbox.ts";
import type { ResponseNode } from "../types/response.ts";
import { newId } from "../util/ids.ts";

/** Milliseconds that a delivery may take before somebody else tries it: longer than any attempt. */
export const TAKEN = 90_000;
/** Milliseconds after which nobody wants to hear of it any more. */
export const LIFE = 3 * 24 * 3_600_000;
/** Rows of one target at most; the oldest go first. */
export const MOST = 10_000;

export interface SubscriptionRow {
  target: string;
  events: string | null;
}

export interface OutboxRow {
  sequence: number;
  target: string;
  attempts: number;
  body: string;
}

export function outboxEvent(
  type: OutboxEventType,
  node: ResponseNode,
  approvals: OutboxEvent["approvals"],
): OutboxEvent {
  const at = Date.now();
  const { id: responseId, conversationId, owner, profile, model, door, status, error, incompleteReason } = node;
  return {
    id: newId("evt", at),
    type,
    at,
    responseId,
    conversationId,
    owner,
    profile,
    model,
    door,
    status: type === "response.waiting" ? "waiting" : status,
    error,
    incompleteReason,
    approvals,
  };
}

/** Targets that want to hear of a kind of event. */
export function targetsOf(type: OutboxEventType, subscriptions: readonly SubscriptionRow[]): string[] {
  return subscriptions
    .filter(({ events }) => events === null || (JSON.parse(events) as string[]).includes(type))
    .map(({ target }) => target);
}
