/**
 * Errors: the one place that turns whatever was thrown into an answer.
 *
 * Invariant: an error that is not one of ours never tells what it was, except to the log; a message never holds a
 * registered secret.
 */
import { type ErrorCode, errorTable, RotundaError, type RotundaErrorOptions } from "../../types/error.ts";
import type { Headers, RequestContext } from "./context.ts";
import type { ErrorStyle } from "./routes.ts";

export interface DoorErrorOptions extends RotundaErrorOptions {
  /** The part of the request that is wrong: `input[0].role`. */
  param?: string;
  /** Whole seconds, from 1. */
  retryAfter?: number;
  headers?: Headers;
  /** Where the wire's word for the error differs from ours. */
  wireCode?: string;
}

/** A `RotundaError` with what only HTTP has a place for. */
export class DoorError extends RotundaError {
  readonly param: string | null;
  readonly headers: Headers;
  readonly wireCode: string | undefined;

  constructor(code: ErrorCode, message: string, options: DoorErrorOptions = {}) {
    super(code, message, options);
    this.name = "DoorError";
    this.param = options.param ?? null;
    this.wireCode = options.wireCode;
    this.headers = {
      ...options.headers,
      ...(options.retryAfter !== undefined && { "retry-after": String(Math.max(1, Math.ceil(options.retryAfter))) }),
    };
  }
}

/** The one answer to every credential that opens nothing. */
export function unauthorized(message = "Incorrect or missing API key."): DoorError {
  return new DoorError("unauthorized", message, {
    wireCode: "invalid_api_key",
    headers: { "www-authenticate": "Bearer" },
  });
}

export interface ErrorAnswer {
  status: number;
  body: unknown;
  headers: Headers;
}

/** What is answered for a thrown value. Faults of our own go to the log, with the request's id. */
export function describeError(thrown: unknown, context: RequestContext): ErrorAnswer {
  const known = thrown instanceof RotundaError ? thrown : undefined;
  const code: ErrorCode = known?.code ?? "internal";
  const status = errorTable[code].http;
  if (code === "internal" || !known) logFault(thrown, context);
  const message = messageOf(code, known, context);
  const door = known instanceof DoorError ? known : undefined;
  const param = door?.param ?? (code === "model_not_found" ? "model" : null);
  const headers: Record<string, string> = { ...door?.headers };
  if ((status === 429 || status === 503) && headers["retry-after"] === undefined) headers["retry-after"] = "1";
  const style = context.route?.style ?? "openai";
  return { status, headers, body: errorBody(style, { status, code: door?.wireCode ?? code, message, param }) };
}

/** Where the database is, and what it says, is for whoever looks after the server: it stands in the log. */
function messageOf(code: ErrorCode, known: RotundaError | undefined, context: RequestContext): string {
  if (code === "internal") return "Internal Server Error";
  if (code === "storage_failed" && !context.identity.local) {
    logFault(known, context);
    return "The server's database has failed.";
  }
  return context.app.redact((known?.message ?? "").toWellFormed());
}

interface ErrorParts {
  status: number;
  code: string;
  message: string;
  param: string | null;
}

export function errorBody(style: ErrorStyle, { status, code, message, param }: ErrorParts): unknown {
  if (style === "plain") return { error: status === 401 ? "Unauthorized" : message };
  if (style === "jsonrpc")
    return { jsonrpc: "2.0", id: null, error: { code: rpcCode(status), message, data: { code } } };
  return { error: { message, type: errorType(status), param, code } };
}

/** OpenAI's classes of errors. */
function errorType(status: number): string {
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

function rpcCode(status: number): number {
  if (status >= 500) return -32603;
  return status === 400 ? -32600 : -32000;
}

function logFault(thrown: unknown, context: RequestContext): void {
  const text = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
  context.services.metrics.faults++;
  context.services.log({ level: "error", request_id: context.requestId, route: context.route?.path, fault: text });
}
