/**
 * A model behind an endpoint that speaks chat completions.
 *
 * Invariant: a stream ends with one `finish` event or throws an `UpstreamError`; after a cancel, a `return` or
 * an error nothing of it is left: no socket, no timer, no listener.
 */
import type { ModelConfig } from "../types/config.ts";
import { RotundaError } from "../types/error.ts";
import type { Model, ModelEvent, ModelRequest } from "../types/model.ts";
import { createRedactor, type Redact } from "../util/secrets.ts";
import { ChatCompletionsExchange, type ChatEndpoint } from "./chat-completions-exchange.ts";
import { RequestRenderer } from "./chat-completions-request.ts";
import type { HttpClient } from "./http.ts";
import { CircuitBreaker, type RetryTimes, realTimes, withRetries } from "./retry.ts";
import { cancelledError, UpstreamError } from "./upstream-error.ts";
import { Windows } from "./windows.ts";

export interface ModelDependencies {
  http: HttpClient;
  /** Applied to every message of an error, besides the model's own key and headers. */
  redact?: Redact;
  /** Default: the real ones. */
  times?: RetryTimes;
  /** Default: what is learned is forgotten with the model. */
  windows?: Windows;
}

/** Throws `config_invalid` for a base URL that is none. Opens nothing until the first stream. */
export function createChatCompletionsModel(config: ModelConfig, dependencies: ModelDependencies): Model {
  const baseUrl = config.baseUrl.replace(/\/+$/, "").replace(/\/chat\/completions$/, "");
  const key = `${baseUrl}|${config.model}`;
  const url = parseUrl(`${baseUrl}/chat/completions`, config);
  for (const [name, value] of Object.entries(config.query ?? {})) url.searchParams.set(name, value);
  const headers = [...headersOf(config), ...dependencies.http.headers];
  const own = createRedactor(secretsOf(config));
  const redact: Redact = (text) => own(dependencies.redact ? dependencies.redact(text) : text);
  const timeouts = { connect: 10, headers: 120, idle: 60, total: 600, ...config.timeouts };
  const endpoint: ChatEndpoint = {
    http: dependencies.http,
    asked: { host: url.host, baseUrl, model: config.model, redact },
    origin: url.origin,
    path: url.pathname + url.search,
    headers,
    connectTimeout: timeouts.connect * 1000,
    headersTimeout: timeouts.headers * 1000,
    idleTimeout: timeouts.idle * 1000,
    totalTimeout: timeouts.total * 1000,
    retries: config.retries ?? 3,
    renderer: new RequestRenderer(config, key, url.hostname),
    breaker: new CircuitBreaker(),
    times: dependencies.times ?? realTimes,
  };
  const windows = dependencies.windows ?? new Windows();
  endpoint.onTooLong = (message) => windows.learn(key, message);
  return {
    id: config.id,
    key,
    get contextWindow() {
      // A server on this machine is mostly started with less than its model can take.
      return windows.of(key, config.model, config.contextWindow, config.origin !== "local");
    },
    ...(config.maxConcurrent === undefined ? {} : { maxConcurrent: config.maxConcurrent }),
    ...(config.price === undefined ? {} : { price: config.price }),
    stream: (request, signal) => new AnswerStream(endpoint, request, signal),
  };
}

function parseUrl(text: string, config: ModelConfig): URL {
  const url = URL.parse(text);
  if (url && (url.protocol === "http:" || url.protocol === "https:")) return url;
  throw new RotundaError("config_invalid", `baseUrl of model "${config.id}" is not an http(s) URL: ${config.baseUrl}`, {
    remedy: "Give it as the endpoint publishes it, for example https://api.example.com/v1",
  });
}

/** Names and values in turn, as the dispatcher takes them. */
export function headersOf(config: ModelConfig): string[] {
  const given = new Map<string, string>();
  for (const [name, value] of Object.entries(config.headers ?? {})) given.set(name.toLowerCase(), value);
  // An empty `api-key` header asks for the key there too, as Azure takes it.
  if (given.get("api-key") === "" && config.apiKey) given.set("api-key", config.apiKey);
  if (config.apiKey && !given.has("authorization")) given.set("authorization", `Bearer ${config.apiKey}`);
  if (!given.has("user-agent")) given.set("user-agent", "rotunda");
  given.set("accept", "text/event-stream, application/json");
  given.set("content-type", "application/json");
  return [...given].flat();
}

function secretsOf(config: ModelConfig): string[] {
  const secrets = config.apiKey ? [config.apiKey] : [];
  for (const [name, value] of Object.entries(config.headers ?? {}))
    if (/auth|key|token|secret|cookie/i.test(name)) secrets.push(value, value.replace(/^\w+ /, ""));
  return secrets;
}

/** Unread events above which deltas are joined. */
const CROWDED = 1_000;
/** Characters that may wait for a slow reader before the socket is paused. */
const HIGH_WATER = 256 * 1024;

class AnswerStream implements AsyncIterableIterator<ModelEvent> {
  readonly #endpoint: ChatEndpoint;
  readonly #request: ModelRequest;
  readonly #signal: AbortSignal;
  readonly #queue: ModelEvent[] = [];
  #head = 0;
  #waiting: PromiseWithResolvers<IteratorResult<ModelEvent>> | null = null;
  #state: "new" | "open" | "ended" | "failed" = "new";
  #failure: UpstreamError | null = null;
  #yielded = false;
  #queued = 0;
  #exchange: ChatCompletionsExchange | null = null;
  #timer: NodeJS.Timeout | undefined;
  #waitControl: AbortController | null = null;

  constructor(endpoint: ChatEndpoint, request: ModelRequest, signal: AbortSignal) {
    this.#endpoint = endpoint;
    this.#request = request;
    this.#signal = signal;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<ModelEvent>> {
    if (this.#state === "new") this.#begin();
    const value = this.#take();
    if (value) return Promise.resolve({ value, done: false });
    if (this.#state === "failed") {
      this.#state = "ended";
      return Promise.reject(this.#failure);
    }
    if (this.#state === "ended") return Promise.resolve({ value: undefined, done: true });
    this.#waiting ??= Promise.withResolvers();
    return this.#waiting.promise;
  }

  /** The reader has enough: the socket is closed. */
  return(): Promise<IteratorResult<ModelEvent>> {
    this.#queue.length = 0;
    this.#head = 0;
    if (this.#state !== "ended") this.#stop("ended");
    return Promise.resolve({ value: undefined, done: true });
  }

  /** The signal was aborted. */
  handleEvent(): void {
    this.#fail(cancelledError());
  }

  #begin(): void {
    this.#state = "open";
    if (this.#signal.aborted) {
      this.#fail(cancelledError());
      return;
    }
    this.#signal.addEventListener("abort", this, { once: true });
    const { times, totalTimeout, asked } = this.#endpoint;
    const now = times.now();
    const deadline = Math.min(now + totalTimeout, this.#request.deadline ?? Number.POSITIVE_INFINITY);
    const left = timerFor(deadline - now);
    this.#timer = setTimeout(() => {
      const message = `${asked.host} did not finish its answer within ${Math.round(left / 1000)} s`;
      this.#fail(new UpstreamError("upstream_timeout", message, { partial: this.#yielded }));
    }, left);
    this.#run(deadline).catch((thrown: unknown) => this.#fail(asUpstreamError(thrown)));
  }

  async #run(deadline: number): Promise<void> {
    const { retries, times, breaker, asked } = this.#endpoint;
    const onRetry = this.#request.onRetry;
    const waitSignal = () => this.#waitSignal();
    await withRetries(() => this.#attempt(), {
      retries,
      deadline,
      times,
      breaker,
      host: asked.host,
      onRetry: onRetry && ((text) => onRetry.call(this.#request, asked.redact(text))),
      get signal() {
        return waitSignal();
      },
    });
    this.#stop("ended");
  }

  /** One attempt as the retry policy counts them: a body that the endpoint refuses may be put right within it. */
  async #attempt(): Promise<void> {
    const { http, origin, connectTimeout, renderer } = this.#endpoint;
    const pool = await http.pool(origin, connectTimeout);
    for (;;) {
      if (this.#state !== "open") throw cancelledError();
      const exchange = new ChatCompletionsExchange(this.#endpoint, this);
      this.#exchange = exchange;
      try {
        return await exchange.send(pool, renderer.render(this.#request), this.#request.trace);
      } catch (thrown) {
        const failure = asUpstreamError(thrown);
        if (failure.code === "context_length_exceeded") this.#endpoint.onTooLong?.(failure.message);
        if (failure.complaint && renderer.learn(failure.complaint, this.#request)) continue;
        throw failure.withPartial(this.#yielded);
      }
    }
  }

  #waitSignal(): AbortSignal {
    this.#waitControl ??= new AbortController();
    if (this.#state !== "open") this.#waitControl.abort();
    return this.#waitControl.signal;
  }

  /** Takes an event from the exchange. Called many times per chunk; `flush` follows. */
  emit(event: ModelEvent): void {
    this.#yielded = true;
    const last = this.#queue.length - this.#head > CROWDED ? this.#queue[this.#queue.length - 1] : undefined;
    if ("delta" in event) this.#queued += event.delta.length;
    // What the endpoint sent as one delta stays one, unless a slow reader lets them pile up.
    if (last && "delta" in event && "delta" in last && last.type === event.type && sameCall(last, event))
      last.delta += event.delta;
    else this.#queue.push(event);
  }

  /** A chunk has been read: whoever waits may go on. */
  flush(): void {
    const waiting = this.#waiting;
    if (waiting) {
      const value = this.#take();
      if (!value) return;
      this.#waiting = null;
      waiting.resolve({ value, done: false });
    }
    if (this.#queued > HIGH_WATER) this.#exchange?.pause();
  }

  #take(): ModelEvent | undefined {
    const event = this.#queue[this.#head];
    if (event === undefined) return undefined;
    if ("delta" in event) this.#queued -= event.delta.length;
    this.#head++;
    if (this.#head === this.#queue.length) {
      this.#queue.length = 0;
      this.#head = 0;
      this.#exchange?.resume();
    }
    return event;
  }

  /** What was read before stays readable; then the error comes. */
  #fail(failure: UpstreamError): void {
    if (this.#state !== "open") return;
    this.#failure = failure.withPartial(this.#yielded);
    this.#stop("failed");
  }

  #stop(state: "ended" | "failed"): void {
    this.#state = state;
    clearTimeout(this.#timer);
    this.#signal.removeEventListener("abort", this);
    this.#waitControl?.abort();
    this.#exchange?.stop();
    const waiting = this.#waiting;
    if (!waiting) return;
    this.#waiting = null;
    const value = this.#take();
    if (value) waiting.resolve({ value, done: false });
    else if (state === "ended") waiting.resolve({ value: undefined, done: true });
    else {
      this.#state = "ended";
      waiting.reject(this.#failure);
    }
  }
}

/**
 * Timers of one length share a list in Node, so long ones are rounded down to a quarter of a second. More than
 * a timer can hold would fire at once.
 */
function timerFor(left: number): number {
  const bounded = Math.min(Math.max(0, left), 2 ** 31 - 1);
  return bounded > 10_000 ? bounded - (bounded % 250) : bounded;
}

function sameCall(one: ModelEvent, other: ModelEvent): boolean {
  return one.type !== "call_arguments" || (other.type === "call_arguments" && one.index === other.index);
}

function asUpstreamError(thrown: unknown): UpstreamError {
  if (thrown instanceof UpstreamError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new UpstreamError("internal", message, { cause: thrown });
}
