/**
 * Streams of events to clients.
 *
 * Invariant: an event is never split over two writes; whatever became ready in one turn of the event loop rides in
 * one write. A reader that does not read suspends the source: no stream holds more than a socket's buffer and about
 * 64 kB. A stream ends when its source ends, its client leaves, its token is taken back or the door closes.
 */
import type { Token } from "../../types/token.ts";
import type { Headers, RequestContext } from "./context.ts";
import { DoorError, describeError } from "./errors.ts";
import { type Identity, isInForce } from "./identity.ts";

/** Why we, and not the source or the client, ended a stream. */
export type CloseReason = "shutting_down" | "revoked" | "too_slow";

export interface StreamOptions {
  /**
   * Whole events as text (`frame` makes one), in order. `signal` is aborted when the client has gone away
   * ("client_gone") or the stream was closed by us: the source should end then.
   */
  frames(signal: AbortSignal): AsyncIterable<string>;
  headers?: Headers;
  /** The last event where we end it. Default: none, the connection just ends. */
  closing?(reason: CloseReason): string | undefined;
  /** The last event where the source threw. Default: an `error` event as the Responses stream has it. */
  failed?(thrown: unknown): string | undefined;
}

/** One event. Without a name it is the bare `data:` line of chat completions. */
export function frame(event: string | undefined, data: string): string {
  return event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`;
}

/** The JSON of each event of a text of whole frames; `[DONE]` is none. */
export function* dataOf(frames: string): Iterable<string> {
  for (const one of frames.split("\n\n")) {
    const at = one.startsWith("data: ") ? 0 : one.indexOf("\ndata: ") + 1;
    const data = one.slice(at + "data: ".length);
    if (data.startsWith("{")) yield data;
  }
}

/** Characters that may wait for the socket before the source is suspended. */
const PENDING = 65_536;
/** Streams that are written in one turn of the event loop. */
const AT_ONCE = 32;
/** Milliseconds. */
const STALLED = 300_000;
const TICK = 400;

const HEADERS: Headers = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store, no-transform",
  "x-accel-buffering": "no",
};

interface OpenStream {
  readonly context: RequestContext;
  readonly options: StreamOptions;
  pending: string;
  /** We write the chunks of the body ourselves. */
  chunked: boolean;
  /** Waits in the list of streams that are written at the end of this turn. */
  listed: boolean;
  stalledSince: number | undefined;
  wrote: number;
  ended: boolean;
  resume: (() => void) | undefined;
  finish: () => void;
}

export type TokenLookup = (id: string) => Promise<Token | undefined>;

/** All open streams of a door. */
export class Streams {
  readonly #open = new Set<OpenStream>();
  readonly #slots = new Map<string, number>();
  #listed: OpenStream[] = [];
  #timer: NodeJS.Timeout | undefined;
  #checking = false;
  readonly #token: TokenLookup;
  readonly #comment: number;

  /** `comment`: seconds of silence after which a stream says that it still lives. */
  constructor(token: TokenLookup, comment = 15) {
    this.#token = token;
    this.#comment = comment * 1_000;
  }

  get count(): number {
    return this.#open.size;
  }

  /** A place for one more stream; call what it gives when it is free again. Throws `rate_limited`. */
  reserve(identity: Identity): () => void {
    const used = this.#slots.get(identity.owner) ?? 0;
    if (used >= identity.limits.streams) {
      throw new DoorError("rate_limited", `This token has ${used} event streams open; more are not allowed.`, {
        retryAfter: 1,
      });
    }
    this.#slots.set(identity.owner, used + 1);
    let free = false;
    return () => {
      if (free) return;
      free = true;
      const left = (this.#slots.get(identity.owner) ?? 1) - 1;
      if (left === 0) this.#slots.delete(identity.owner);
      else this.#slots.set(identity.owner, left);
    };
  }

  /** Resolves when it has ended, whoever ended it. */
  async serve(context: RequestContext, options: StreamOptions): Promise<void> {
    const { response, request } = context;
    if (response.destroyed || response.headersSent) return;
    response.writeHead(200, context.headerLines(200, { ...HEADERS, ...options.headers }));
    if (request.method === "HEAD") {
      response.end();
      return;
    }
    // Node writes a chunk as four pieces; as one it costs half as much.
    const chunked = response.chunkedEncoding;
    response.chunkedEncoding = false;
    const { promise: closed, resolve: finish } = Promise.withResolvers<void>();
    const stream: OpenStream = {
      context,
      options,
      pending: "",
      chunked,
      listed: false,
      stalledSince: undefined,
      wrote: performance.now(),
      ended: false,
      resume: undefined,
      finish,
    };
    this.#add(stream);
    response.once("close", () => this.#remove(stream));
    this.#list(stream);
    const iterator = options.frames(context.signal)[Symbol.asyncIterator]();
    // A source that does not heed the signal must not keep the request: what it does then is its own affair.
    await Promise.race([this.#pump(stream, iterator), closed]);
    if (stream.ended) iterator.return?.()?.then(undefined, () => undefined);
    else this.#end(stream);
  }

  /** Ends streams by ourselves: all of them, or those of one token. */
  close(reason: CloseReason, owner?: string): void {
    for (const stream of [...this.#open]) {
      if (owner === undefined || stream.context.identity.owner === owner) this.#close(stream, reason);
    }
  }

  /** Ends those of one session of the page. */
  closeSession(name: string): void {
    for (const stream of [...this.#open]) {
      if (stream.context.identity.session?.name === name) this.#close(stream, "revoked");
    }
  }

  async #pump(stream: OpenStream, iterator: AsyncIterator<string>): Promise<void> {
    try {
      while (!stream.ended) {
        const next = await iterator.next();
        if (next.done === true || stream.ended) return;
        stream.pending += next.value;
        this.#list(stream);
        if (stream.pending.length >= PENDING || stream.stalledSince !== undefined) await this.#written(stream);
      }
    } catch (thrown) {
      if (stream.ended) return;
      stream.pending += this.#failure(stream, thrown);
    }
  }

  #failure({ context, options }: OpenStream, thrown: unknown): string {
    const { status, body } = describeError(thrown, context);
    if (options.failed) return options.failed(thrown) ?? "";
    const { error } = body as { error: { message?: string; code?: string } | string };
    const { message, code } = typeof error === "string" ? { message: error, code: String(status) } : error;
    return frame("error", JSON.stringify({ type: "error", code, message, param: null }));
  }

  #list(stream: OpenStream): void {
    if (stream.listed) return;
    stream.listed = true;
    if (this.#listed.push(stream) === 1) setImmediate(() => this.#writeAll());
  }

  #writeAll(): void {
    const listed = this.#listed;
    // The rest waits for the next turn: between them requests are accepted, one in each, and what has come is read.
    this.#listed = listed.length > AT_ONCE ? listed.slice(AT_ONCE) : [];
    if (this.#listed.length > 0) setImmediate(() => this.#writeAll());
    const now = performance.now();
    const count = Math.min(listed.length, AT_ONCE);
    for (let at = 0; at < count; at++) {
      const stream = listed[at];
      if (!stream) continue;
      stream.listed = false;
      if (!stream.ended && stream.stalledSince === undefined) this.#write(stream, now);
    }
  }

  #write(stream: OpenStream, now: number): void {
    const { response } = stream.context;
    const text = stream.pending;
    stream.pending = "";
    stream.wrote = now;
    if (text === "") response.flushHeaders();
    else if (!response.write(bodyOf(stream, text))) {
      stream.stalledSince = now;
      response.once("drain", () => {
        stream.stalledSince = undefined;
        if (stream.pending !== "") this.#list(stream);
        this.#wake(stream);
      });
      return;
    }
    this.#wake(stream);
  }

  #wake(stream: OpenStream): void {
    stream.resume?.();
    stream.resume = undefined;
  }

  #written(stream: OpenStream): Promise<void> {
    return new Promise((resolve) => {
      stream.resume = resolve;
    });
  }

  #end(stream: OpenStream): void {
    if (stream.ended) return;
    stream.ended = true;
    const { response } = stream.context;
    const end = stream.chunked ? "0\r\n\r\n" : "";
    response.end(bodyOf(stream, stream.pending) + end);
    stream.pending = "";
  }

  #close(stream: OpenStream, reason: CloseReason): void {
    if (stream.ended) return;
    const { response } = stream.context;
    // Whoever does not read will not read the farewell either.
    if (stream.stalledSince === undefined) stream.pending += stream.options.closing?.(reason) ?? "";
    this.#end(stream);
    stream.context.abort(reason);
    stream.finish();
    this.#wake(stream);
    setTimeout(() => response.destroy(), 1_000).unref();
  }

  #add(stream: OpenStream): void {
    this.#open.add(stream);
    this.#timer ??= setInterval(() => this.#tick(), TICK).unref();
  }

  #remove(stream: OpenStream): void {
    stream.ended = true;
    this.#open.delete(stream);
    stream.finish();
    this.#wake(stream);
    if (this.#open.size > 0 || !this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #tick(): void {
    const now = performance.now();
    const owners = new Set<string>();
    for (const stream of [...this.#open]) {
      const { session } = stream.context.identity;
      if (session && session.expiresAt <= Date.now()) this.#close(stream, "revoked");
      if (stream.context.identity.token) owners.add(stream.context.identity.owner);
      if (stream.stalledSince !== undefined) {
        if (now - stream.stalledSince > STALLED) this.#close(stream, "too_slow");
      } else if (now - stream.wrote > this.#comment && !stream.ended) {
        stream.pending += ": keep-alive\n\n";
        this.#list(stream);
      }
    }
    if (owners.size === 0 || this.#checking) return;
    this.#checking = true;
    const done = () => {
      this.#checking = false;
    };
    this.#dropRevoked(owners).then(done, done);
  }

  async #dropRevoked(owners: ReadonlySet<string>): Promise<void> {
    for (const owner of owners) {
      // A store that cannot be read for a moment closes nobody's stream.
      const token = await this.#token(owner).catch(() => "unknown" as const);
      if (token !== "unknown" && (!token || !isInForce(token, Date.now()))) this.close("revoked", owner);
    }
  }
}

/** Line ends to Python's `splitlines`, with which many clients read a stream; JSON may have them raw, and need not. */
const BREAKS = /[\u0085\u2028\u2029]/g;

function escaped(one: string): string {
  return `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** A text as the body has it on the wire. */
function bodyOf({ chunked }: OpenStream, events: string): string {
  const text = events.replace(BREAKS, escaped);
  if (!chunked || text === "") return text;
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}

/** Answers with a stream; resolves when it has ended. Throws `rate_limited` before anything was sent. */
export async function openStream(context: RequestContext, options: StreamOptions): Promise<void> {
  context.reserveStream();
  await context.services.streams.serve(context, options);
}
