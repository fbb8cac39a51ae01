/**
 * Turns: responses as the page knows them, the running ones kept up with.
 *
 * Invariant: a turn is a reading of the log. It is told from the first event, or gone on with behind the last event that
 * was seen, so what is shown after a reload or a lost network is what would have been shown without.
 */
import { ask, askJson, RequestError, whenItAnswers, words } from "./api.ts";
import { Cell } from "./cell.ts";
import { pause, readEvents } from "./stream.ts";
import { isEnded, type RunStatus, type WireEvent, type WireItem, type WireResponse, type WireUsage } from "./wire.ts";

export interface TurnHead {
  status: RunStatus;
  model: string;
  previous: string | null;
  conversation: string | null;
  usage: WireUsage | null;
  error: { code: string; message: string } | null;
  incomplete: string | null;
  /** Seconds since the epoch. */
  createdAt: number;
  completedAt: number | null;
}

/** Milliseconds without a sign of life after which a connection is taken for dead; the server sends one every 15 s. */
const SILENCE = 40_000;
/** Streams at once: browsers allow six connections for all of a server's tabs, and the others ask for something too. */
const MOST_STREAMS = 4;
/** Milliseconds between two looks at a turn for which there is none. */
const LOOK = 1_000;
let streams = 0;

export class Turn {
  readonly id: string;
  /** Undefined until something is known of it. */
  readonly head = new Cell<TurnHead | undefined>(undefined);
  readonly input = new Cell<readonly WireItem[]>([]);
  readonly items = new Cell<readonly Cell<WireItem>[]>([]);
  readonly problem = new Cell<string>("");
  /** Set while the connection is lost and looked for again. */
  readonly lost = new Cell(false);
  /** Number of the last event that was seen. */
  #after = -1;
  #byIndex: (Cell<WireItem> | undefined)[] = [];
  #loading: Promise<void> | undefined;
  #following: AbortController | undefined;
  /** Milliseconds of calls by their items, and when those began that were seen to begin. */
  #durations: Record<string, number> = {};
  readonly #begun = new Map<string, number>();
  /** How many show it. */
  #watchers = 0;

  constructor(id: string) {
    this.id = id;
  }

  get ended(): boolean {
    const { value } = this.head;
    return value !== undefined && isEnded(value.status);
  }

  /** It is shown from now on: read, and followed while it runs. Returns what ends that. */
  watch(): () => void {
    this.#watchers++;
    this.#follow();
    this.#loadOnce();
    return () => {
      if (--this.#watchers > 0) return;
      this.#following?.abort();
      this.#following = undefined;
    };
  }

  #loadOnce(): void {
    this.#loading ??= this.#load().catch((error: unknown) => {
      this.#loading = undefined;
      this.problem.set(words(error));
      if (error instanceof RequestError && error.status === 0)
        whenItAnswers(() => {
          if (this.#watchers > 0) this.#loadOnce();
        });
    });
  }

  async #load(): Promise<void> {
    const input = askJson<{ data: WireItem[] }>(`/v1/responses/${this.id}/input_items?order=asc&limit=100`);
    const [{ data }, response] = await Promise.all([input, this.#ask()]);
    this.input.set(data);
    this.problem.set("");
    this.begin(response);
  }

  async #ask(): Promise<WireResponse> {
    const response = await askJson<WireResponse>(`/v1/responses/${this.id}?durations=true`);
    this.#durations = { ...this.#durations, ...response.rotunda_durations };
    return response;
  }

  /** What the server said of it last. Where its end has not come, it is followed as long as it is shown. */
  begin(response: WireResponse): void {
    this.#setHead(response);
    if (isEnded(response.status)) this.#setOutput(response.output ?? []);
    else this.#follow();
  }

  /** What has ended stays so: an older answer of the server may come later. */
  #setHead(response: WireResponse): void {
    const status = response.rotunda_status ?? response.status;
    if (this.ended && !isEnded(status)) return;
    this.head.set({
      status,
      model: response.model,
      previous: response.previous_response_id,
      conversation: response.conversation?.id ?? null,
      usage: response.usage,
      error: response.error,
      incomplete: response.incomplete_details?.reason ?? null,
      createdAt: response.created_at,
      completedAt: response.completed_at,
    });
  }

  #setOutput(output: readonly WireItem[]): void {
    this.#byIndex = output.map((one, index) => {
      const known = this.#byIndex[index];
      const item = this.#timed(one);
      if (known?.value.id !== item.id) return new Cell(item);
      known.set(item);
      return known;
    });
    this.#show();
  }

  #timed(item: WireItem): WireItem {
    const duration = this.#durations[item.id];
    return duration === undefined ? item : { ...item, duration };
  }

  /** A call has begun, or come to its end, before our eyes: about so long it took. */
  #clock({ type, item_id: id = "", item }: WireEvent): void {
    if (type === "response.mcp_call.in_progress") this.#begun.set(id, performance.now());
    const begun = this.#begun.get(item?.id ?? "");
    if (item && type === "response.output_item.done" && begun !== undefined)
      this.#durations[item.id] ??= performance.now() - begun;
  }

  /** A message that a crash has cut is said anew from its beginning: the stored response has no text of it either. */
  #supersede(before: number): void {
    for (const cell of this.#byIndex.slice(0, before)) {
      const { value } = cell ?? {};
      if (!cell || value?.type !== "message" || value.role !== "assistant" || value.status === "completed") continue;
      cell.set({ ...value, status: "incomplete", content: [] });
    }
  }

  /** What came in a burst behind a lost connection was not measured: the server knows it. */
  #settleTimes(): void {
    this.#ask().then(
      ({ output = [] }) => this.#setOutput(output),
      () => undefined,
    );
  }

  #show(): void {
    this.items.set(this.#byIndex.filter((cell) => cell !== undefined));
  }

  /** Looks anew at how it stands: it may wait, or have ended, without that being an event. */
  async refresh(): Promise<void> {
    if (this.ended) return;
    const response = await this.#ask();
    if (this.ended) return;
    if (isEnded(response.status)) return this.begin(response);
    this.#setHead(response);
    // No stream was read yet: one that is, tells it all once more.
    if (this.#after < 0 && response.output) this.#setOutput(response.output);
  }

  #follow(): void {
    if (this.#following || this.#watchers === 0 || this.head.value === undefined || this.ended) return;
    const stop = new AbortController();
    this.#following = stop;
    this.problem.set("");
    this.#keepUp(stop.signal)
      .catch((error: unknown) => this.problem.set(words(error)))
      .finally(() => {
        if (this.#following === stop) this.#following = undefined;
      });
  }

  async #keepUp(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted && !this.ended) {
      await untilSeen(signal);
      const before = this.#after;
      const isFree = streams < MOST_STREAMS;
      try {
        await (isFree ? this.#read(signal) : pause(LOOK, signal));
        if (signal.aborted) return;
        this.lost.set(false);
        if (this.ended) return;
        await this.refresh();
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof RequestError && error.status >= 400 && error.status < 500 && error.status !== 429)
          throw error.status === 401 ? new Error("The session ended: sign in again, and it goes on.") : error;
        if (document.visibilityState === "visible") this.#lose();
      }
      failures = this.#after > before || !isFree ? 0 : failures + 1;
      await pause(Math.min(250 * 2 ** Math.min(failures, 4), 3_000), signal);
    }
  }

  /** Any answer of the server says that the connection is back. */
  #lose(): void {
    this.lost.set(true);
    whenItAnswers(() => this.lost.set(false));
  }

  /** One connection. A tab that nobody sees holds none: browsers allow six for all tabs together. */
  async #read(stop: AbortSignal): Promise<void> {
    const connection = new AbortController();
    const cut = () => connection.abort();
    const hidden = () => {
      if (document.visibilityState === "hidden") cut();
    };
    let silence = setTimeout(cut, SILENCE);
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(cut, SILENCE);
      this.lost.set(false);
    };
    stop.addEventListener("abort", cut);
    addEventListener("offline", cut);
    document.addEventListener("visibilitychange", hidden);
    const from = this.#after < 0 ? "" : `&starting_after=${this.#after}`;
    streams++;
    try {
      for await (const data of readEvents(`/v1/responses/${this.id}?stream=true${from}`, connection.signal, alive)) {
        if (data === "[DONE]") {
          if (!this.ended) await this.refresh();
          return;
        }
        this.apply(JSON.parse(data) as WireEvent);
      }
    } finally {
      streams--;
      clearTimeout(silence);
      stop.removeEventListener("abort", cut);
      removeEventListener("offline", cut);
      document.removeEventListener("visibilitychange", hidden);
    }
  }

  apply(event: WireEvent): void {
    if (event.sequence_number <= this.#after) return;
    this.#after = event.sequence_number;
    const { type, output_index: index = -1 } = event;
    const cell = this.#byIndex[index];
    this.#clock(event);
    if (type.endsWith(".delta")) {
      if (cell) cell.set(withDelta(cell.value, event));
    } else if (event.item && type.startsWith("response.output_item.")) {
      const item = this.#timed(event.item);
      if (cell) cell.set(item);
      else {
        this.#byIndex[index] = new Cell(item);
        if (item.type === "message" && item.role === "assistant") this.#supersede(index);
        this.#show();
      }
    } else if (event.response) {
      this.#setHead(event.response);
      if (isEnded(event.response.status)) this.#setOutput(event.response.output ?? []);
      if (isEnded(event.response.status) && this.#begun.size > 0) this.#settleTimes();
    } else if (type === "response.mcp_call.in_progress" && cell) cell.set({ ...cell.value, status: "calling" });
    else if (type.endsWith("_arguments.done") && cell) cell.set({ ...cell.value, arguments: event.arguments ?? "" });
  }
}

function withDelta(item: WireItem, { type, delta = "", content_index = 0 }: WireEvent): WireItem {
  if (type.endsWith("arguments.delta")) return { ...item, arguments: (item.arguments ?? "") + delta };
  if (type.endsWith("input.delta")) return { ...item, input: (item.input ?? "") + delta };
  const kind = type.includes("reasoning") ? "reasoning_text" : type.includes("refusal") ? "refusal" : "output_text";
  const content = [...(item.content ?? [])];
  const part = content[content_index] ?? { type: kind, text: "" };
  if (kind === "refusal") content[content_index] = { ...part, refusal: (part.refusal ?? "") + delta };
  else content[content_index] = { ...part, text: (part.text ?? "") + delta };
  return { ...item, content };
}

function untilSeen(signal: AbortSignal): Promise<void> {
  if (document.visibilityState === "visible") return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      if (document.visibilityState !== "visible" && !signal.aborted) return;
      document.removeEventListener("visibilitychange", end);
      signal.removeEventListener("abort", end);
      resolve();
    };
    document.addEventListener("visibilitychange", end);
    signal.addEventListener("abort", end);
  });
}

const known = new Map<string, Turn>();
/** Turns that are remembered beyond those that are shown. */
const MOST = 3_000;

export function turnOf(id: string): Turn {
  let turn = known.get(id);
  if (turn) return turn;
  if (known.size >= MOST) {
    for (const [oldest, old] of known) {
      if (known.size < MOST / 2) break;
      if (old.ended) known.delete(oldest);
    }
  }
  turn = new Turn(id);
  known.set(id, turn);
  return turn;
}

export async function cancelTurn(id: string): Promise<void> {
  await ask(`/v1/responses/${id}/cancel`, { method: "POST" });
}
