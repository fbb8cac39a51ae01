/** Idempotency keys as rows, on any database. */
import type { IdempotencyRecord } from "../types/store.ts";

export interface IdempotencyRow {
  owner: string;
  key: string;
  digest: string;
  response_id: string | null;
  status: number | null;
  answer: string | null;
  expires_at: number;
}

export function recordOf(row: IdempotencyRow): IdempotencyRecord {
  const { owner, key, digest, response_id: responseId, status, answer: body, expires_at: expiresAt } = row;
  return {
    owner,
    key,
    digest,
    responseId,
    answer: status === null || body === null ? null : { status, body },
    expiresAt,
  };
}

/** Every so many keys those that have expired are swept, at most so many at a time. */
export const SWEEP_EVERY = 16;
export const SWEEP_LIMIT = 64;
