/**
 * RequestContext: one request, as a handler sees it.
 *
 * Invariant: it is answered once; every answer carries the request id and the security headers, and an answer
 * after an accepted turn never invites a client to post that turn again.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { App } from "../../types/app.ts";
import type { RequestSpan } from "../../types/telemetry.ts";
import { readBody } from "./body.ts";
import { describeError } from "./errors.ts";
import { type Identity, NOBODY } from "./identity.ts";
import type { Release } from "./limits.ts";
import type { Route } from "./routes.ts";
import type { Services } from "./services.ts";
import { openStream, type StreamOptions } from "./sse.ts";

/** Further header lines of an answer, by lower-case name. */
export type Headers = Readonly<Record<string, string>>;

/** On every answer. */
const ALWAYS = [
  ["x-content-type-options", "nosniff"],
  ["content-security-policy", "default-src 'none'; frame-ancestors 'none'"],
  ["cache-control", "no-store"],
] as const;

/** Statuses after which SDKs post again by themselves. */
function invitesRetry(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

export class RequestContext {
  readonly app: App;
  readonly services: Services;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Milliseconds of the monotonic clock at which it came. */
  readonly startedAt = performance.now();
  /** Without the query, not decoded. */
  readonly path: string;
  readonly requestId: string;
  /** The route that it is for; undefined until one is found. */
  route: Route | undefined;
  params: Readonly<Record<string, string>> = {};
  /** Who asks. Before it is known, and on open routes: nobody. */
  identity: Identity;
  /** It came from another machine, as far as can be told: see `--allow-remote-admin`. */
  remote = true;
  /** Set it when a turn was accepted: no later answer makes the client's SDK post it again. */
  accepted = false;
  /** The response that it has started, for the log. */
  responseId: string | undefined;
  /** Where somebody traces it. */
  span: RequestSpan | undefined;
  /** Key and digest of the request, on routes that declare `idempotent: "response"`, where the client sent a key. */
  idempotency: { key: string; digest: string } | undefined;
  /** Whose content the answer holds, where that is not the object that it is: when it is deleted, so is a kept answer. */
  about: string | undefined;
  /** Status and text of the answer, once there is one that is no stream. */
  answer: { status: number; body: string } | undefined;
  /** Milliseconds of the monotonic clock at which that answer was given. */
  answeredAt: number | undefined;
  /** Ended responses that are not stored, and that this connection may still go on from; most hold none. */
  held: Set<string> | undefined;
  /** It has become a connection of another protocol. */
  switched = false;
  /** Header lines that the door adds (CORS), name and value in turn. */
  readonly extraHeaders: string[] = [];
  /** The query as it was written, without its question mark. */
  readonly search: string;
  #query: URLSearchParams | undefined;
  #abort: AbortController | undefined;
  #gone = false;
  #reserved = false;
  #continued = false;
  #held = false;
  #write: (() => void) | undefined;

  constructor(services: Services, request: IncomingMessage, response: ServerResponse, requestId: string) {
    this.services = services;
    this.app = services.app;
    this.request = request;
    this.response = response;
    this.requestId = requestId;
    this.identity = NOBODY;
    const target = request.url ?? "/";
    const mark = target.indexOf("?");
    this.path = mark === -1 ? target : target.slice(0, mark);
    this.search = mark === -1 ? "" : target.slice(mark + 1);
  }

  get query(): URLSearchParams {
    this.#query ??= new URLSearchParams(this.search);
    return this.#query;
  }

  /** The address as the client wrote it. The host has passed the list of allowed ones. */
  get url(): URL {
    return new URL(this.request.url ?? "/", `http://${this.request.headers.host ?? "localhost"}`);
  }

  /** Aborted when the client has gone away before it had its answer, or when its stream is closed by us. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#gone) this.#abort.abort("client_gone");
    }
    return this.#abort.signal;
  }

  /** Without a signal to be made: whether the client has gone away. */
  get gone(): boolean {
    return this.#gone;
  }

  /** The door calls it; handlers listen to `signal`. */
  abort(reason: string): void {
    if (reason === "client_gone") this.#gone = true;
    this.#abort?.abort(reason);
  }

  /** Answers with JSON. A request that was answered before is left as it is. */
  json(status: number, value: unknown, headers?: Headers): void {
    this.#send(status, "application/json; charset=utf-8", JSON.stringify(value), headers);
  }

  text(status: number, contentType: string, text: string, headers?: Headers): void {
    this.#send(status, contentType, text, headers);
  }

  /** Answers without a body. */
  empty(status: number, headers?: Headers): void {
    this.#send(status, undefined, "", headers);
  }

  /** Answers with an error in the route's style. */
  error(thrown: unknown): void {
    const { status, body, headers } = describeError(thrown, this);
    this.json(status, body, headers);
  }

  /** Answers with a stream of events; resolves when it has ended, whoever ended it. */
  stream(options: StreamOptions): Promise<void> {
    return openStream(this, options);
  }

  /** The raw body within the limit, for routes without a schema. Throws `body_too_large` and what reading throws. */
  async readBody(): Promise<Buffer> {
    return (await readBody(this)).bytes;
  }

  /**
   * One more run of this identity; call what it resolves with when the run has ended. Throws `rate_limited`
   * when it has too many, or has used what it may use in a day.
   */
  acquireRun(): Promise<Release> {
    return this.services.limits.acquireRun(this.identity);
  }

  /** Takes a place for an event stream until the answer has ended. Throws `rate_limited`. `stream` does it by itself. */
  reserveStream(): void {
    if (this.#reserved) return;
    this.#reserved = true;
    const free = this.services.streams.reserve(this.identity);
    this.response.once("close", free);
  }

  /** Tells a client that waits with its body (`expect: 100-continue`) to send it. */
  continue(): void {
    if (this.#continued || this.request.headers.expect === undefined) return;
    this.#continued = true;
    this.response.writeContinue();
  }

  /** Header lines of an answer, name and value in turn. */
  headerLines(status: number, headers: Headers = {}): string[] {
    const lines = ["x-request-id", this.requestId];
    for (const [name, value] of ALWAYS) if (headers[name] === undefined) lines.push(name, value);
    if (this.accepted && invitesRetry(status)) lines.push("x-should-retry", "false");
    for (const name in headers) lines.push(name, headers[name] ?? "");
    if (this.extraHeaders.length > 0) lines.push(...this.extraHeaders);
    if (this.services.draining || this.#leavesBody()) lines.push("connection", "close");
    return lines;
  }

  /** For a handler that writes on the raw response: its headers are set, and none of them is sent yet. */
  setHeaders(): void {
    const lines = this.headerLines(200);
    for (let at = 0; at < lines.length; at += 2) this.response.setHeader(lines[at] ?? "", lines[at + 1] ?? "");
  }

  /** Much of the body was not read, or has not even been sent: the connection cannot be used again. */
  #leavesBody(): boolean {
    const { complete, headers } = this.request;
    if (complete) return false;
    if (headers.expect !== undefined && !this.#continued) return true;
    return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 65_536;
  }

  /** Until `releaseAnswer` an answer is kept back. */
  holdAnswer(): void {
    this.#held = true;
  }

  releaseAnswer(): void {
    this.#held = false;
    this.#write?.();
    this.#write = undefined;
  }

  #send(status: number, contentType: string | undefined, body: string, headers?: Headers): void {
    if (this.answer || this.response.headersSent || this.response.destroyed) return;
    this.answer = { status, body };
    this.answeredAt = performance.now();
    const write = () => {
      const lines = this.headerLines(status, headers);
      if (contentType !== undefined) lines.push("content-type", contentType);
      if (status !== 204 && status !== 304) lines.push("content-length", String(Buffer.byteLength(body)));
      const leavesBody = this.#leavesBody();
      this.response.writeHead(status, lines);
      if (leavesBody) this.#endSlowly(body);
      else this.response.end(body);
    };
    if (this.#held) this.#write = write;
    else write();
  }

  /**
   * To close while the client still sends would make its system throw our answer away. So the answer goes out whole,
   * and the connection ends a little later; what still comes is not kept.
   */
  #endSlowly(body: string): void {
    const { request, response } = this;
    response.write(body);
    const end = () => {
      clearTimeout(timer);
      if (!response.writableEnded) response.end();
      request.socket.destroySoon();
    };
    const timer = setTimeout(end, 1_000).unref();
    request.once("end", end).once("close", () => clearTimeout(timer));
    request.resume();
  }
}
