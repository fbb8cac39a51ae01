/**
 * Agent events: what a process says at its own pace, as the stream that a model gives.
 *
 * Invariant: events come out in the order in which they went in; what is put in after the end is dropped.
 */
import { ModelError, type ModelEvent } from "../types/model.ts";

/** Characters of text and reasoning of one answer. */
const MAX_TEXT = 16_000_000;

export class AgentEvents implements AsyncIterable<ModelEvent> {
  readonly #events: ModelEvent[] = [];
  #wake: (() => void) | undefined;
  #ended = false;
  #failure: ModelError | undefined;
  #text = 0;
  /** Something was put in. */
  begun = false;

  push(event: ModelEvent): void {
    if (this.#ended) return;
    this.begun = true;
    if ("delta" in event) this.#text += event.delta.length;
    this.#events.push(event);
    if (this.#text > MAX_TEXT) this.fail(new ModelError("output_limit", `an answer of over ${MAX_TEXT} characters`));
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  fail(failure: ModelError): void {
    if (this.#ended) return;
    this.#failure = failure;
    this.end();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ModelEvent> {
    for (;;) {
      const event = this.#events.shift();
      if (event) {
        yield event;
        continue;
      }
      if (this.#ended) break;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    if (this.#failure) throw this.#failure;
  }
}

/** Time that runs only while nobody is asked. */
export class AgentTimer {
  readonly #onEnd: () => void;
  #left: number;
  #since = Date.now();
  #questions = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `left` in milliseconds; infinite: never. */
  constructor(left: number, onEnd: () => void) {
    this.#left = left;
    this.#onEnd = onEnd;
    this.#run();
  }

  #run(): void {
    this.#since = Date.now();
    // Longer than Node's timers can wait.
    if (this.#left > 2_147_483_647) return;
    this.#timer = setTimeout(this.#onEnd, Math.max(0, this.#left));
    this.#timer.unref();
  }

  pause(): void {
    if (this.#questions++ > 0) return;
    clearTimeout(this.#timer);
    this.#left -= Date.now() - this.#since;
  }

  resume(): void {
    if (--this.#questions === 0) this.#run();
  }

  stop(): void {
    // Whatever resumes it later starts nothing.
    this.#questions = Number.POSITIVE_INFINITY;
    clearTimeout(this.#timer);
  }
}
