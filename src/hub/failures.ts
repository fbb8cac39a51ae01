/**
 * Failures: every way in which one attempt at a call can fail, sorted by the only question that matters for
 * another attempt: can the call have run?
 *
 * Invariant: "not_run" is said only where the server cannot have acted on the call; in doubt it is "unknown".
 */
import { isObject } from "./definitions.ts";
import type { HubClock } from "./hub-types.ts";

export type FailureKind =
  /** It cannot have run: another attempt is safe. */
  | "not_run"
  /** It cannot have run and another attempt is useless: the tool is gone or changed, the server keeps failing. */
  | "refused"
  /** The server rejected the arguments or the name (-32602, -32601): for the model. */
  | "rejected"
  /** The server answered with another error, or with something that is no result: it may have run. */
  | "answered"
  /** It was sent and no answer came: it may have run. */
  | "unknown"
  | "timed_out"
  | "cancelled";

interface CallFailureOptions {
  cause?: unknown;
  sessionLost?: boolean;
  listStale?: boolean;
  needsLogin?: boolean;
}

export class CallFailure extends Error {
  readonly kind: FailureKind;
  /** The session is of no more use; the next attempt needs a new one. */
  readonly sessionLost: boolean;
  /** The tool list is out of date. */
  readonly listStale: boolean;
  /** Nothing works before a person has logged in. */
  readonly needsLogin: boolean;

  constructor(kind: FailureKind, message: string, options: CallFailureOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "CallFailure";
    this.kind = kind;
    this.sessionLost = options.sessionLost ?? false;
    this.listStale = options.listStale ?? false;
    this.needsLogin = options.needsLogin ?? false;
  }
}

/** Resolves when the work is settled, when so many milliseconds are over or when the signal is aborted. */
export async function settledWithin(
  work: Promise<unknown>,
  milliseconds: number,
  clock: HubClock,
  signal: AbortSignal | undefined,
): Promise<void> {
  const timer = new AbortController();
  const stop = signal ? AbortSignal.any([signal, timer.signal]) : timer.signal;
  const settled = work.catch(() => undefined);
  await Promise.race([settled, clock.sleep(milliseconds, stop).catch(() => undefined)]);
  timer.abort();
}

/** What is shared by many callers, for one that may give up waiting for it. */
export async function orCancelled<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const cancelled = new CallFailure("cancelled", "the call was cancelled before it was sent");
  if (signal.aborted) throw cancelled;
  let stop: (() => void) | undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(cancelled);
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    if (stop) signal.removeEventListener("abort", stop);
  }
}

/** Error code of a server that was sent headers which do not match its schema: it has not acted. */
const HEADER_MISMATCH = -32020;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const URL_ELICITATION = -32042;

/** Reasons for which no connection was ever made. */
const NEVER_CONNECTED = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "CERT_HAS_EXPIRED",
]);

/** Sorts whatever an attempt threw. Works on names and codes, so that the client library need not be loaded. */
export function toFailure(thrown: unknown): CallFailure {
  if (thrown instanceof CallFailure) return thrown;
  if (!(thrown instanceof Error)) return new CallFailure("unknown", String(thrown));
  const code: unknown = "code" in thrown ? thrown.code : undefined;
  const status: unknown = "status" in thrown ? thrown.status : undefined;
  const message = describe(thrown);
  if (typeof status === "number") return fromStatus(status, message, thrown);
  if (typeof code === "number") return fromProtocol(code, message, thrown);
  switch (code) {
    case "REQUEST_TIMEOUT":
      return new CallFailure("timed_out", message, { cause: thrown });
    case "NOT_CONNECTED":
      return new CallFailure("not_run", message, { cause: thrown, sessionLost: true });
    case "CONNECTION_CLOSED":
      return new CallFailure("unknown", message, { cause: thrown, sessionLost: true });
    case "UNSUPPORTED_RESULT_TYPE":
      return new CallFailure("refused", "the server asks for input from a person, which is not enabled", {
        cause: thrown,
      });
    case "CAPABILITY_NOT_SUPPORTED":
      return new CallFailure("refused", "the server asks for something that is not enabled", { cause: thrown });
    case "INPUT_REQUIRED_ROUNDS_EXCEEDED":
    case "INVALID_RESULT":
    case "CLIENT_HTTP_UNEXPECTED_CONTENT":
      return new CallFailure("answered", message, { cause: thrown });
    default:
  }
  if (message === "Not connected") return new CallFailure("not_run", message, { cause: thrown, sessionLost: true });
  const network = networkCode(thrown);
  if (network !== undefined) {
    const kind = NEVER_CONNECTED.has(network) ? "not_run" : "unknown";
    return new CallFailure(kind, message, { cause: thrown, sessionLost: true });
  }
  return new CallFailure("unknown", message, { cause: thrown });
}

function fromStatus(status: number, message: string, cause: Error): CallFailure {
  if (status === 429) return new CallFailure("not_run", message, { cause });
  // Every other refusal below 500 comes before the call, and would come again; 408 says that time ran out.
  if (status < 500 && status !== 408) return new CallFailure("refused", message, { cause });
  return new CallFailure("unknown", message, { cause });
}

function fromProtocol(code: number, message: string, cause: Error): CallFailure {
  if (code === INVALID_PARAMS || code === METHOD_NOT_FOUND) return new CallFailure("rejected", message, { cause });
  if (code === HEADER_MISMATCH) return new CallFailure("not_run", message, { cause, listStale: true });
  if (code === URL_ELICITATION) {
    const links = elicitedLinks(cause);
    return new CallFailure("refused", `${message}${links}`, { cause });
  }
  return new CallFailure("answered", message, { cause });
}

/** Links that a server wants a person to open: shown, never opened. */
function elicitedLinks(error: Error): string {
  const data: unknown = "data" in error ? error.data : undefined;
  if (!isObject(data) || !Array.isArray(data.elicitations)) return "";
  const urls = data.elicitations.flatMap((each) => (isObject(each) && typeof each.url === "string" ? [each.url] : []));
  return urls.length === 0 ? "" : ` (a person would have to open ${urls.slice(0, 5).join(", ")})`;
}

function networkCode(error: Error): string | undefined {
  let cause: unknown = error;
  for (let depth = 0; depth < 4 && cause instanceof Error; depth++) {
    const code: unknown = "code" in cause ? cause.code : undefined;
    if (typeof code === "string" && cause !== error) return code;
    if (cause instanceof AggregateError && cause.errors[0] instanceof Error) cause = cause.errors[0];
    else cause = cause.cause;
  }
  return error instanceof TypeError ? "" : undefined;
}

const MAX_MESSAGE = 1000;

/** An error's message with those of its causes and its HTTP status: `fetch failed` alone tells nobody anything. */
export function describe(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const status = "status" in thrown && typeof thrown.status === "number" ? `HTTP ${thrown.status}` : "";
  const parts = [status, thrown.message.slice(0, MAX_MESSAGE)];
  let cause: unknown = thrown.cause;
  for (let depth = 0; depth < 3 && cause instanceof Error; depth++) {
    const inner = cause instanceof AggregateError && cause.errors[0] instanceof Error ? cause.errors[0] : cause;
    const message = inner.message.slice(0, MAX_MESSAGE);
    if (message !== "" && !parts.some((part) => part.includes(message))) parts.push(message);
    cause = cause.cause;
  }
  return parts.filter((part) => part !== "").join(": ") || thrown.name;
}
