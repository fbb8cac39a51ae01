/**
 * Bodies: read within bounds.
 *
 * Invariant: never more than the limit is held of one body, nor more than the door's budget of all of them; a body
 * that says it is too long is refused before a byte of it is read.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { RotundaError } from "../../types/error.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";

const WITHOUT_BYTES = Buffer.alloc(0);

/** Whether the request has a body at all, empty ones aside. */
export function hasBody({ headers }: IncomingMessage): boolean {
  if (headers["transfer-encoding"] !== undefined) return true;
  const length = headers["content-length"];
  return length !== undefined && length !== "0";
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;
const CHARSET = /;\s*charset\s*=\s*"?([^\s;"]*)/i;

/** Throws `unsupported_media_type` where a body is no plain UTF-8 JSON. */
export function requireJson({ headers }: IncomingMessage): void {
  const type = headers["content-type"] ?? "";
  if (!JSON_TYPE.test(type) || !/^utf-?8$/i.test(CHARSET.exec(type)?.[1] ?? "utf-8")) {
    throw new RotundaError("unsupported_media_type", "The body must be JSON: content-type application/json, in UTF-8.");
  }
  const encoding = headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") {
    throw new RotundaError("unsupported_media_type", `The content-encoding ${encoding.slice(0, 40)} is not taken.`);
  }
}

export interface Body {
  bytes: Buffer;
  /** SHA-256 (hexadecimal) over method, path and body; only where it was asked for. */
  digest: string | undefined;
}

/** Reads the whole body. Throws `body_too_large`, `rate_limited` where too much is held already, `cancelled`. */
export function readBody(context: RequestContext, withDigest = false): Promise<Body> {
  const { request, services } = context;
  const limit = context.route?.bodyLimit ?? services.bodyLimit;
  const announced = Number(request.headers["content-length"] ?? 0);
  const digest = withDigest ? createHash("sha256").update(`${request.method} ${context.path}\n`) : undefined;
  if (announced > limit) return Promise.reject(tooLarge(limit));
  if (!hasBody(request)) return Promise.resolve({ bytes: WITHOUT_BYTES, digest: digest?.digest("hex") });
  context.continue();
  const { bodies } = services;
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (failure?: Error) => {
      request.off("data", onData).off("end", onEnd).off("close", onClose).off("error", onClose);
      bodies.held -= size;
      if (failure) reject(failure);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      bodies.held += chunk.length;
      chunks.push(chunk);
      digest?.update(chunk);
      if (size > limit) settle(tooLarge(limit));
      else if (bodies.held > bodies.most) settle(tooMany());
    };
    const onEnd = () => {
      settle();
      const [only = WITHOUT_BYTES] = chunks;
      resolve({ bytes: chunks.length > 1 ? Buffer.concat(chunks, size) : only, digest: digest?.digest("hex") });
    };
    const onClose = () => settle(new RotundaError("cancelled", "The client left before its request was whole."));
    request.on("data", onData).on("end", onEnd).on("close", onClose).on("error", onClose);
  });
}

function tooLarge(limit: number): RotundaError {
  return new RotundaError("body_too_large", `The body is longer than ${limit} bytes.`);
}

function tooMany(): DoorError {
  return new DoorError("rate_limited", "Too many large requests at once.", { retryAfter: 1 });
}
