/**
 * How long the calls of a response took that another process runs, or ran: as it is stored.
 *
 * Invariant: the clock here says nothing of them, for what is told of them may come all at once.
 */
import type { App } from "../../types/app.ts";
import type { RunEvent } from "../../types/event.ts";

export class CallTimes {
  readonly #app: App;
  readonly #id: string;
  readonly #known = new Map<string, number>();

  constructor(app: App, responseId: string) {
    this.#app = app;
    this.#id = responseId;
  }

  /** Milliseconds, where the event is the outcome of a call and its time is known. */
  async of(event: RunEvent): Promise<number | undefined> {
    if (event.type !== "response.output_item.done" || event.item.type !== "mcp_call") return undefined;
    const { id } = event.item;
    if (!this.#known.has(id)) await this.#read();
    return this.#known.get(id);
  }

  async #read(): Promise<void> {
    // What is damaged is told by whoever shows its content.
    const stored = await this.#app.store.get(this.#id).catch(() => undefined);
    for (const { item, meta } of stored?.entries ?? [])
      if (meta.duration !== undefined) this.#known.set(item.id, meta.duration);
  }
}
