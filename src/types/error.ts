/**
 * The one error table: code → HTTP status, exit code, retryable. Every error that leaves Rotunda, at any
 * door, is one of these. `docs/errors.md` is checked against this table in both directions.
 */

interface ErrorKind {
  /** HTTP status. */
  http: number;
  /** Exit code of the command line. */
  exit: number;
  /** The same request may work later, unchanged. */
  retryable: boolean;
}

export const errorTable = {
  usage: { http: 400, exit: 2, retryable: false },
  config_invalid: { http: 500, exit: 2, retryable: false },
  not_found: { http: 404, exit: 2, retryable: false },
  ambiguous_id: { http: 400, exit: 2, retryable: false },
  invalid_id: { http: 404, exit: 2, retryable: false },
  unauthorized: { http: 401, exit: 2, retryable: false },
  insufficient_scope: { http: 403, exit: 2, retryable: false },
  host_not_allowed: { http: 403, exit: 2, retryable: false },
  origin_not_allowed: { http: 403, exit: 2, retryable: false },
  method_not_allowed: { http: 405, exit: 2, retryable: false },
  body_too_large: { http: 413, exit: 2, retryable: false },
  unsupported_media_type: { http: 415, exit: 2, retryable: false },
  idempotency_mismatch: { http: 422, exit: 2, retryable: false },
  rate_limited: { http: 429, exit: 4, retryable: true },
  shutting_down: { http: 503, exit: 1, retryable: true },
  config_differs: { http: 409, exit: 1, retryable: false },
  approval_expired: { http: 410, exit: 1, retryable: false },
  model_not_found: { http: 404, exit: 2, retryable: false },
  profile_not_found: { http: 404, exit: 2, retryable: false },
  tool_not_found: { http: 404, exit: 2, retryable: false },
  response_not_ended: { http: 409, exit: 1, retryable: true },
  response_ended: { http: 409, exit: 1, retryable: false },
  approval_settled: { http: 409, exit: 1, retryable: false },
  approval_needed: { http: 403, exit: 3, retryable: false },
  denied: { http: 403, exit: 1, retryable: false },
  budget_reached: { http: 429, exit: 4, retryable: true },
  limit_reached: { http: 429, exit: 4, retryable: false },
  timeout: { http: 504, exit: 124, retryable: true },
  owned_elsewhere: { http: 409, exit: 1, retryable: true },
  cancelled: { http: 499, exit: 130, retryable: false },
  storage_full: { http: 507, exit: 1, retryable: true },
  storage_failed: { http: 500, exit: 1, retryable: true },
  storage_damaged: { http: 500, exit: 1, retryable: false },
  sandbox_missing: { http: 500, exit: 2, retryable: false },
  hub_unreachable: { http: 502, exit: 1, retryable: true },
  upstream_bad_request: { http: 502, exit: 1, retryable: false },
  upstream_auth: { http: 502, exit: 1, retryable: false },
  upstream_model_not_found: { http: 502, exit: 1, retryable: false },
  upstream_unreachable: { http: 502, exit: 5, retryable: true },
  upstream_timeout: { http: 504, exit: 5, retryable: true },
  upstream_rate_limited: { http: 429, exit: 5, retryable: true },
  upstream_failed: { http: 502, exit: 5, retryable: true },
  upstream_protocol: { http: 502, exit: 1, retryable: false },
  upstream_cut: { http: 502, exit: 1, retryable: true },
  context_length_exceeded: { http: 400, exit: 4, retryable: false },
  output_limit: { http: 502, exit: 4, retryable: false },
  empty_response: { http: 502, exit: 1, retryable: true },
  internal: { http: 500, exit: 1, retryable: false },
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof errorTable;

export interface RotundaErrorOptions {
  cause?: unknown;
  /** What the person can do about it, as a full sentence or a command. */
  remedy?: string;
}

/** The only error that a door shows. The message names the cause; the remedy says what to do. */
export class RotundaError extends Error {
  readonly code: ErrorCode;
  readonly remedy: string | undefined;

  constructor(code: ErrorCode, message: string, options: RotundaErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "RotundaError";
    this.code = code;
    this.remedy = options.remedy;
  }
}

/** Any thrown value as a `RotundaError`; an unknown one becomes `internal`. */
export function toRotundaError(thrown: unknown): RotundaError {
  if (thrown instanceof RotundaError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new RotundaError("internal", message, { cause: thrown });
}
