/**
 * What goes wrong between us and a model endpoint, as `ModelError`s that say what to do about it.
 *
 * Invariant: no message holds a key; every message that an endpoint wrote has passed the redactor and is cut.
 */
import type { ErrorCode } from "../types/error.ts";
import { ModelError } from "../types/model.ts";
import type { Redact } from "../util/secrets.ts";
import { oneLine } from "../util/text.ts";

export interface UpstreamErrorOptions {
  status?: number;
  partial?: boolean;
  cause?: unknown;
  remedy?: string;
  /** Asking again may help, as long as nothing of the answer was yielded. Default false. */
  repeatable?: boolean;
  /** Milliseconds that the endpoint asked to wait. */
  retryAfter?: number;
  /** What the endpoint said, where it refused the request itself. */
  complaint?: Complaint;
}

/** A `ModelError` with what the retry policy needs to know. */
export class UpstreamError extends ModelError {
  override readonly remedy: string | undefined;
  readonly repeatable: boolean;
  readonly retryAfter: number | undefined;
  readonly complaint: Complaint | undefined;

  constructor(code: ErrorCode, message: string, options: UpstreamErrorOptions = {}) {
    super(code, message, options);
    this.name = "UpstreamError";
    this.remedy = options.remedy;
    this.repeatable = options.repeatable ?? false;
    this.retryAfter = options.retryAfter;
    this.complaint = options.complaint;
  }

  /** The same failure, of which it is now known whether something had been yielded. */
  withPartial(partial: boolean): UpstreamError {
    if (partial === this.partial) return this;
    const { code, message, status, cause, remedy, repeatable, retryAfter } = this;
    return new UpstreamError(code, message, {
      partial,
      repeatable,
      cause,
      ...(status === undefined ? {} : { status }),
      ...(remedy === undefined ? {} : { remedy }),
      ...(retryAfter === undefined ? {} : { retryAfter }),
    });
  }
}

/** Who was asked, for messages. */
export interface Asked {
  /** Host and port. */
  host: string;
  baseUrl: string;
  /** Name at the endpoint. */
  model: string;
  redact: Redact;
}

export function cancelledError(): UpstreamError {
  return new UpstreamError("cancelled", "the model call was cancelled");
}

/** The error for a failed connection, a broken stream or a timeout. `answering`: the headers had come. */
export function connectionError(thrown: Error, asked: Asked, answering: boolean): UpstreamError {
  const code = codeOf(thrown);
  const { host } = asked;
  const cause = thrown;
  if (code === "UND_ERR_HEADERS_TIMEOUT")
    return new UpstreamError("upstream_timeout", `${host} did not begin to answer in time`, {
      cause,
      remedy: "Raise timeouts.headers of the model if it thinks for long before it answers.",
    });
  if (code === "UND_ERR_BODY_TIMEOUT")
    return new UpstreamError("upstream_timeout", `${host} stopped in the middle of its answer`, {
      cause,
      remedy: "Raise timeouts.idle of the model if it pauses for long within an answer.",
    });
  if (code.startsWith("HPE_") || code === "UND_ERR_HEADERS_OVERFLOW")
    return new UpstreamError("upstream_protocol", `${host} does not speak HTTP: ${thrown.message}`, {
      cause,
      remedy: `Check baseUrl (${asked.baseUrl}): is it http or https, and is the port right?`,
    });
  if (code === "UND_ERR_INVALID_ARG")
    return new UpstreamError("upstream_auth", `the request to ${host} cannot be sent: ${thrown.message}`, {
      cause,
      remedy: "A key or header holds characters that no header can carry. Set it again.",
    });
  if (answering)
    return new UpstreamError("upstream_cut", `the connection to ${host} broke in the middle of an answer`, {
      cause,
      repeatable: true,
    });
  return new UpstreamError("upstream_unreachable", `${host} cannot be reached: ${describeCode(code, thrown)}`, {
    cause,
    repeatable: true,
    remedy: `Check that ${asked.baseUrl} is right and that it runs and can be reached from here.`,
  });
}

function codeOf(thrown: Error): string {
  const { code } = thrown as { code?: unknown };
  if (typeof code === "string") return code;
  // Happy eyeballs: one error for each address that was tried.
  if (thrown instanceof AggregateError && thrown.errors[0] instanceof Error) return codeOf(thrown.errors[0]);
  return thrown.cause instanceof Error ? codeOf(thrown.cause) : "";
}

const plainWords: Record<string, string> = {
  ECONNREFUSED: "nothing listens there (connection refused)",
  ENOTFOUND: "its name is unknown (DNS)",
  EAI_AGAIN: "its name cannot be looked up now (DNS)",
  ECONNRESET: "it closed the connection",
  EPIPE: "it closed the connection",
  UND_ERR_SOCKET: "it closed the connection before it answered",
  UND_ERR_CONNECT_TIMEOUT: "no connection in time",
  ETIMEDOUT: "no connection in time",
  EHOSTUNREACH: "no route to it",
  ENETUNREACH: "no network",
};

function describeCode(code: string, thrown: Error): string {
  return plainWords[code] ?? (/CERT|TLS|SSL|SIGNATURE/.test(code) ? `TLS failed (${thrown.message})` : thrown.message);
}

/** What an endpoint said in a body that reports an error. */
export interface Complaint {
  message: string;
  code: string;
  param: string;
}

/** Reads the error of a body in any of the common shapes. */
export function readComplaint(text: string): Complaint {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    const plain = /^\s*</.test(text) ? text.replace(/<(style|script)[\s\S]*?<\/\1>|<[^>]*>/gi, " ") : text;
    return { message: oneLine(plain, 500), code: "", param: "" };
  }
  return complaintOf(body);
}

/** The same for a body that was parsed already. */
export function complaintOf(body: unknown): Complaint {
  // Google wraps its errors into an array, several gateways put a string in place of the object.
  const outer = (Array.isArray(body) ? body[0] : body) as Record<string, unknown> | null | undefined;
  const error = outer?.error ?? outer?.detail ?? outer;
  if (typeof error === "string") return { message: oneLine(error, 1000), code: "", param: "" };
  const fields = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
  const metadata = fields.metadata as Record<string, unknown> | undefined;
  const inner = typeof metadata?.raw === "string" ? ` (${metadata.raw})` : "";
  const message = typeof fields.message === "string" ? fields.message : JSON.stringify(error ?? "");
  const code = [fields.code, fields.type, fields.status].filter((value) => typeof value === "string").join(" ");
  const window = typeof fields.n_ctx === "number" ? ` (n_ctx = ${fields.n_ctx})` : "";
  return {
    message: oneLine(message + inner + window, 1000),
    code,
    param: typeof fields.param === "string" ? fields.param : "",
  };
}

const contextWords =
  /context_length|context length|context window|maximum context|too many tokens|prompt is too long|input is too long|token limit|exceed_context|request too large|exceeds the (?:available )?(?:context|maximum number of tokens)|input token count|maximum (?:prompt|model) length|context limit|max_new_tokens. must|reduce the length of the (?:messages|prompt)/i;

const quotaWords = /insufficient_quota|billing_hard_limit|credit balance|insufficient (?:credits|balance)/i;

/** The error for an answer with a status that is not 200. `headers` are lower-case. */
export function statusError(
  status: number,
  headers: Record<string, string | string[] | undefined>,
  complaint: Complaint,
  asked: Asked,
  now: number,
): UpstreamError {
  const said = asked.redact(complaint.message || "no reason given");
  const message = `${asked.host} answered ${status} for model "${asked.model}": ${said}`;
  const retryAfter = readRetryAfter(headers, now);
  const told = headers["x-should-retry"];
  const repeatable = told === "true" || (told !== "false" && repeatableStatus(status));
  // Who cannot see says so with any of these (llama.cpp 500, OpenRouter 404).
  const seen = isAboutImages(complaint.message) ? { complaint } : {};
  const base = { status, repeatable, ...(retryAfter === undefined ? {} : { retryAfter }) };
  if (status === 401 || status === 403)
    return new UpstreamError("upstream_auth", message, {
      status,
      remedy: `Check the key for ${asked.host}, and that it may use this model.`,
    });
  if (status === 413 || ((status === 400 || status === 422 || status === 500) && isContextLength(complaint)))
    return new UpstreamError("context_length_exceeded", message, {
      status,
      remedy:
        "The conversation is longer than the model can read: sum it up (rotunda compact), branch earlier, or use another model.",
    });
  if (status === 404)
    return new UpstreamError("upstream_model_not_found", message, {
      status,
      ...seen,
      remedy: `Check the model name "${asked.model}" and baseUrl ${asked.baseUrl}.`,
    });
  if (status === 402 || (status === 429 && quotaWords.test(`${complaint.code} ${complaint.message}`)))
    return new UpstreamError("upstream_rate_limited", message, {
      status,
      remedy: `The account at ${asked.host} has no credit left. Check its plan and billing.`,
    });
  if (status === 429)
    return new UpstreamError("upstream_rate_limited", message, { ...base, remedy: "Wait, or use another model." });
  if (status === 408)
    return new UpstreamError("upstream_timeout", message, { ...base, remedy: "Try again, or use another model." });
  if (status >= 300 && status < 400)
    return new UpstreamError("upstream_protocol", asked.redact(`${message} (redirect to ${headers.location})`), {
      status,
      remedy: "Redirects are not followed: set baseUrl to where the endpoint really is.",
    });
  if (status >= 500 || status === 409)
    return new UpstreamError("upstream_failed", message, {
      ...base,
      ...seen,
      remedy: "Try again later, or set a fallback model.",
    });
  return new UpstreamError("upstream_bad_request", message, {
    ...base,
    complaint,
    remedy: "The endpoint refused the request: see its reason, and the model's settings in the configuration.",
  });
}

/** Whether an endpoint complains of images. */
export function isAboutImages(said: string): boolean {
  return /\bimages?\b|image_url|multi-?modal|vision|mmproj/i.test(said);
}

function isContextLength(complaint: Complaint): boolean {
  return contextWords.test(complaint.code) || contextWords.test(complaint.message);
}

function repeatableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 425 || status === 429 || status >= 500;
}

/** Milliseconds to wait by `retry-after-ms` or `retry-after` (seconds or an HTTP date); undefined: not said. */
export function readRetryAfter(
  headers: Record<string, string | string[] | undefined>,
  now: number,
): number | undefined {
  const precise = first(headers["retry-after-ms"]);
  if (precise !== undefined && precise.trim() !== "" && Number(precise) >= 0) return Number(precise);
  const value = first(headers["retry-after"]);
  if (value === undefined || value.trim() === "") return undefined;
  const seconds = Number(value);
  if (!Number.isNaN(seconds)) return seconds >= 0 ? seconds * 1000 : undefined;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

function first(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
