/**
 * Errors of this door: whatever was thrown as an error of JSON-RPC.
 *
 * Invariant: the message names the cause, `data.code` is one of ours (src/types/error.ts), and `data.remedy` says what
 * can be done about it.
 */
import { RequestError } from "@agentclientprotocol/sdk/unstable";
import { type ErrorCode, type RotundaError, toRotundaError } from "../../types/error.ts";

const INVALID_REQUEST = -32_600;
const INVALID_PARAMS = -32_602;
const INTERNAL = -32_603;

/** Mistakes of whoever asks. */
const MISTAKES: ReadonlySet<ErrorCode> = new Set([
  "usage",
  "not_found",
  "ambiguous_id",
  "invalid_id",
  "model_not_found",
  "profile_not_found",
  "tool_not_found",
]);

export function invalidParams(message: string): RequestError {
  return new RequestError(INVALID_PARAMS, `Invalid params: ${message}`, { code: "usage" });
}

/** A request that is right, at the wrong moment. */
export function refused(message: string): RequestError {
  return new RequestError(INVALID_REQUEST, `Invalid request: ${message}`, { code: "response_not_ended" });
}

export function unknownSession(id: string): RequestError {
  const shown = id.slice(0, 100);
  return new RequestError(-32_002, `Resource not found: there is no session ${shown}`, { sessionId: shown });
}

export function toRequestError(thrown: unknown, details: Record<string, string> = {}): RequestError {
  if (thrown instanceof RequestError) return thrown;
  const error: RotundaError = toRotundaError(thrown);
  const { code, remedy } = error;
  const data = { code, ...(remedy !== undefined && { remedy }), ...details };
  return new RequestError(MISTAKES.has(code) ? INVALID_PARAMS : INTERNAL, error.message, data);
}
