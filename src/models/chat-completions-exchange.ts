/**
 * One request to a chat-completions endpoint and the reading of its answer.
 *
 * Invariant: `send` settles once. An answer is taken for one only if it has the shape of one: a page of HTML,
 * an empty body or a redirect is an error, whatever the status says.
 */
import type { Dispatcher } from "undici";
import type { ModelEvent } from "../types/model.ts";
import type { TraceContext } from "../types/telemetry.ts";
import { AnswerReader } from "./chat-completions-answer.ts";
import type { RequestRenderer } from "./chat-completions-request.ts";
import { Exchange, type HttpClient, type HttpHeaders, type Receiver } from "./http.ts";
import type { CircuitBreaker, RetryTimes } from "./retry.ts";
import { EventStreamReader, LineTooLong } from "./sse.ts";
import { type Asked, connectionError, readComplaint, statusError, UpstreamError } from "./upstream-error.ts";

/** Bytes of one event of a stream. */
const MAX_EVENT = 4 * 1024 * 1024;
/** Bytes of an answer in one JSON body. */
const MAX_BODY = 16 * 1024 * 1024;
/** Bytes of an error's body; the rest of it is not read. */
const MAX_ERROR = 64 * 1024;
/** Milliseconds for the usage and `[DONE]` after the finish reason. */
const FINISH_GRACE = 5_000;
/** Milliseconds for the end of the body after `[DONE]`, so that the connection can be used again. */
const END_GRACE = 1_000;

/** What does not change from call to call. Times are in milliseconds. */
export interface ChatEndpoint {
  http: HttpClient;
  asked: Asked;
  origin: string;
  path: string;
  headers: string[];
  connectTimeout: number;
  headersTimeout: number;
  idleTimeout: number;
  totalTimeout: number;
  retries: number;
  renderer: RequestRenderer;
  breaker: CircuitBreaker;
  times: RetryTimes;
  /** Told what the endpoint said when a prompt was too long for it. */
  onTooLong?: (message: string) => void;
}

export interface EventSink {
  emit(event: ModelEvent): void;
  /** After each chunk, when its events have been emitted. */
  flush(): void;
}

export class ChatCompletionsExchange implements Receiver {
  readonly #endpoint: ChatEndpoint;
  readonly #sink: EventSink;
  readonly #answer: AnswerReader;
  readonly #settled = Promise.withResolvers<void>();
  #exchange: Exchange | null = null;
  #events: EventStreamReader | null = null;
  #mode: "headers" | "unknown" | "events" | "json" | "error" | "over" = "headers";
  #status = 0;
  #headers: HttpHeaders = {};
  #body: Buffer[] = [];
  #length = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(endpoint: ChatEndpoint, sink: EventSink) {
    this.#endpoint = endpoint;
    this.#sink = sink;
    this.#answer = new AnswerReader((event) => sink.emit(event), endpoint.asked);
  }

  /** Resolves when the finish event has been emitted; rejects with an `UpstreamError`. */
  send(pool: Dispatcher, body: string, trace?: TraceContext): Promise<void> {
    const { origin, path, headersTimeout, idleTimeout } = this.#endpoint;
    const headers = trace ? [...this.#endpoint.headers, ...traceHeaders(trace)] : this.#endpoint.headers;
    this.#exchange = new Exchange(
      pool,
      origin,
      { path, method: "POST", headers, body, headersTimeout, idleTimeout },
      this,
    );
    return this.#settled.promise;
  }

  pause(): void {
    this.#exchange?.pause();
  }

  resume(): void {
    this.#exchange?.resume();
  }

  /** Closes the socket, unless the answer is complete and the connection about to be free again. */
  stop(): void {
    if (this.#mode === "over") return;
    this.#fail(new UpstreamError("cancelled", "the model call was stopped"));
  }

  onStart(status: number, headers: HttpHeaders): void {
    this.#status = status;
    this.#headers = headers;
    const encoding = headers["content-encoding"];
    if (status !== 200) this.#mode = "error";
    else if (encoding !== undefined && encoding !== "identity")
      this.#fail(this.#protocolError(`answered in an encoding that was not asked for (${String(encoding)})`));
    else this.#mode = "unknown";
  }

  onData(chunk: Buffer): void {
    try {
      this.#read(chunk);
    } catch (thrown) {
      this.#fail(this.#asFailure(thrown));
    }
    this.#sink.flush();
  }

  #read(chunk: Buffer): void {
    if (this.#mode === "unknown") this.#chooseMode(chunk);
    if (this.#mode === "events") this.#events?.push(chunk);
    else if (this.#mode === "json" || this.#mode === "error") this.#collect(chunk);
    if (this.#mode !== "events") return;
    if (this.#answer.done) this.#complete();
    else if (this.#answer.finishReason !== undefined && this.#timer === undefined)
      this.#timer = setTimeout(() => {
        this.#complete();
        this.#exchange?.abort();
        this.#sink.flush();
      }, FINISH_GRACE);
  }

  /** By the first character rather than by the content type, which many endpoints get wrong. */
  #chooseMode(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && isBlank(chunk[at])) at++;
    const first = chunk[at];
    const type = String(this.#headers["content-type"] ?? "");
    if (first === undefined && !type.includes("event-stream")) return;
    if (first === OPENING_BRACE) this.#mode = "json";
    else if (first === LESS_THAN || /text\/html/i.test(type))
      this.#fail(this.#protocolError("answered with a page of HTML"));
    else {
      this.#mode = "events";
      this.#events = new EventStreamReader((data) => this.#answer.readData(data), MAX_EVENT);
    }
  }

  #collect(chunk: Buffer): void {
    this.#body.push(chunk);
    this.#length += chunk.length;
    if (this.#mode === "error") {
      if (this.#length > MAX_ERROR) this.#fail(this.#statusError());
    } else if (this.#length > MAX_BODY)
      throw new UpstreamError("output_limit", `${this.#endpoint.asked.host} sent an answer of over ${MAX_BODY} bytes`);
  }

  onEnd(): void {
    if (this.#mode === "over") {
      if (this.#exchange) lingering.delete(this.#exchange);
      return;
    }
    try {
      if (this.#mode === "error") throw this.#statusError();
      if (this.#mode === "unknown") throw this.#protocolError("answered with an empty body");
      if (this.#mode === "json") this.#readWhole();
      else this.#events?.end();
      this.#complete();
    } catch (thrown) {
      this.#fail(this.#asFailure(thrown));
    }
    this.#sink.flush();
  }

  onError(error: Error): void {
    if (this.#mode === "over") return;
    // The answer itself was complete; only its ceremony is missing.
    if (this.#answer.finishReason !== undefined) {
      this.#complete();
      this.#sink.flush();
    } else if (this.#mode === "error") this.#fail(this.#statusError());
    else this.#fail(connectionError(error, this.#endpoint.asked, this.#mode !== "headers"));
  }

  #readWhole(): void {
    const text = Buffer.concat(this.#body).toString("utf8");
    let whole: unknown;
    try {
      whole = JSON.parse(text);
    } catch {
      throw this.#protocolError("answered with JSON that cannot be read");
    }
    const answer = whole as Parameters<AnswerReader["read"]>[0];
    if (!Array.isArray(answer.choices) && !answer.error)
      throw this.#protocolError(`answered with something else than a completion: ${text.slice(0, 200)}`);
    this.#answer.read(answer, text);
    // A whole body is whole, also where it does not say why it ended.
    this.#answer.done = true;
  }

  /** Emits the finish event. Throws `upstream_cut` where the answer was not finished. */
  #complete(): void {
    const event = this.#answer.finish();
    this.#mode = "over";
    this.#body = [];
    clearTimeout(this.#timer);
    if (this.#exchange) linger(this.#exchange);
    this.#sink.emit(event);
    this.#settled.resolve();
  }

  #fail(failure: UpstreamError): void {
    if (this.#mode === "over") return;
    this.#mode = "over";
    this.#body = [];
    clearTimeout(this.#timer);
    this.#exchange?.abort();
    this.#settled.reject(failure);
  }

  #statusError(): UpstreamError {
    const { asked, times } = this.#endpoint;
    const complaint = readComplaint(Buffer.concat(this.#body).toString("utf8"));
    return statusError(this.#status, this.#headers, complaint, asked, times.now());
  }

  #protocolError(what: string): UpstreamError {
    const { asked } = this.#endpoint;
    return new UpstreamError("upstream_protocol", asked.redact(`${asked.host} ${what}`), {
      status: this.#status,
      remedy: `Check that baseUrl (${asked.baseUrl}) is an endpoint for chat completions, up to and including its version segment.`,
    });
  }

  #asFailure(thrown: unknown): UpstreamError {
    if (thrown instanceof UpstreamError) return thrown;
    const { host } = this.#endpoint.asked;
    if (thrown instanceof LineTooLong) return new UpstreamError("output_limit", `${host}: ${thrown.message}`);
    return new UpstreamError("internal", `reading the answer of ${host} failed: ${String(thrown)}`, { cause: thrown });
  }
}

function traceHeaders({ traceparent, tracestate }: TraceContext): string[] {
  return ["traceparent", traceparent, ...(tracestate === undefined ? [] : ["tracestate", tracestate])];
}

const lingering = new Map<Exchange, number>();
let sweeping = false;

/** Ends an exchange whose answer is complete, if its body does not end by itself. One timer serves them all. */
function linger(exchange: Exchange): void {
  if (exchange.over) return;
  lingering.set(exchange, Date.now());
  if (!sweeping) setTimeout(sweep, END_GRACE).unref();
  sweeping = true;
}

function sweep(): void {
  const old = Date.now() - END_GRACE;
  for (const [exchange, since] of lingering) {
    if (!exchange.over && since > old) continue;
    exchange.abort();
    lingering.delete(exchange);
  }
  sweeping = lingering.size > 0;
  if (sweeping) setTimeout(sweep, END_GRACE).unref();
}

const OPENING_BRACE = 123;
const LESS_THAN = 60;

function isBlank(byte: number | undefined): boolean {
  return byte === 32 || byte === 10 || byte === 13 || byte === 9;
}
