/** What the tail's tests share: streams that say numbered words, and what the files hold of them. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { RunEvent } from "../../src/types/event.ts";
import type { MessageItem } from "../../src/types/item.ts";
import type { Store } from "../../src/types/store.ts";
import { newId } from "../../src/util/ids.ts";
import { batchOf, begin, nodeOf } from "./support.ts";

/** A response that is being said, and every event that was handed in for it. */
export class Speaker {
  readonly id: string;
  readonly events: RunEvent[];
  /** Of its lease. */
  fence = 1;
  readonly #item: MessageItem;

  private constructor(id: string, item: MessageItem) {
    this.id = id;
    this.#item = item;
    this.events = [{ type: "response.created", sequence_number: 0 }];
  }

  /** Begun in the store, with its message added. */
  static async start(store: Store): Promise<Speaker> {
    const { node } = await begin(store, nodeOf());
    const item: MessageItem = {
      type: "message",
      id: newId("msg"),
      role: "assistant",
      status: "in_progress",
      content: [],
    };
    const speaker = new Speaker(node.id, item);
    const added = { type: "response.output_item.added" as const, output_index: 0, item };
    await store.append(batchOf(node.id, { events: [speaker.next(added)] }), true);
    return speaker;
  }

  next(event: object): RunEvent {
    const numbered = { ...event, sequence_number: this.events.length } as RunEvent;
    this.events.push(numbered);
    return numbered;
  }

  delta(text: string): RunEvent {
    const at = { output_index: 0, item_id: this.#item.id, content_index: 0 };
    return this.next({ type: "response.output_text.delta", ...at, delta: text });
  }

  /** Resolves when these words are on disk; `now` false: they wait for company. */
  say(store: Store, words: readonly string[], now = true): Promise<void> {
    const events = words.map((word) => this.delta(word));
    return store.append(batchOf(this.id, { events, fence: this.fence }), now);
  }

  get text(): string {
    return this.events.map((event) => ("delta" in event ? event.delta : "")).join("");
  }

  /** The rest of its events, its item and its end, in one commit. */
  async end(store: Store): Promise<void> {
    const { text } = this;
    const part = { type: "output_text" as const, text, annotations: [] };
    const item: MessageItem = { ...this.#item, status: "completed", content: [part] };
    const events = [
      this.next({ type: "response.output_item.done", output_index: 0, item }),
      this.next({ type: "response.completed", status: "completed" }),
    ];
    const entry = { side: "output" as const, position: 0, turn: 1, item, meta: {} };
    const node = { status: "completed" as const, endedAt: Date.now(), hash: "due" };
    await store.append(batchOf(this.id, { events, entries: [entry], node, fence: this.fence }), true);
  }
}

/** Rows of the tail, and of the log of one response, in the file. */
export function rowsIn(folder: string, id = ""): { tail: number; events: number } {
  const raw = new DatabaseSync(join(folder, "rotunda.db"), { readOnly: true });
  try {
    const events = "(SELECT count(*) FROM events, responses WHERE id = ? AND events.key >> 24 = number)";
    const row = raw.prepare(`SELECT (SELECT count(*) FROM tail) AS tail, ${events} AS events`).get(id);
    return { tail: Number(row?.tail), events: Number(row?.events) };
  } finally {
    raw.close();
  }
}
