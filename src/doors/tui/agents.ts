/**
 * Agents: what the sub-agents of a turn do, below the calls that started them.
 *
 * Invariant: it only reads, from the store and the events, in whichever process they run.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { App } from "../../types/app.ts";
import type { RunEvent } from "../../types/event.ts";
import type { ResponseNode } from "../../types/response.ts";
import { type AgentView, callOf, isOver } from "./call-block.ts";
import type { Reader } from "./reader.ts";

/** Milliseconds between two looks for new sub-agents. */
const LOOK = 200;

/** Calls of something that may have started sub-agents. */
interface Parent {
  responseId: string;
  attach(itemId: string, agent: AgentView): boolean;
}

export class Agents {
  readonly #app: App;
  readonly #id: string;
  readonly #reader: Reader;
  readonly #update: () => void;
  readonly #stop = new AbortController();
  readonly #known = new Set<string>();
  #looking = false;

  constructor(app: App, id: string, reader: Reader, update: () => void) {
    this.#app = app;
    this.#id = id;
    this.#reader = reader;
    this.#update = update;
  }

  close(): void {
    this.#stop.abort();
  }

  /** Looks for sub-agents while a call of `task` runs. */
  look(): void {
    if (this.#looking || !this.#tasks().some((block) => !isOver(block.view))) return;
    this.#looking = true;
    this.#search().then(
      () => {
        this.#looking = false;
      },
      () => {
        this.#looking = false;
      },
    );
  }

  #tasks() {
    return [...this.#reader.calls.values()].filter(({ view }) => view.label === "task");
  }

  async #search(): Promise<void> {
    const attach = (itemId: string, agent: AgentView) => {
      const block = this.#reader.calls.get(itemId);
      if (block) block.view.agent = agent;
      block?.changed();
      return block !== undefined;
    };
    const parents = new Map<string, Parent>([[this.#id, { responseId: this.#id, attach }]]);
    for (;;) {
      const open = this.#tasks().some((block) => !isOver(block.view));
      if (this.#stop.signal.aborted || !open) return;
      for (const parent of parents.values()) await this.#children(parent, parents);
      this.#update();
      await sleep(LOOK, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    }
  }

  async #children(parent: Parent, parents: Map<string, Parent>): Promise<void> {
    for (const node of await this.#app.store.list({ callerResponseId: parent.responseId, limit: 50 })) {
      if (this.#known.has(node.id) || !node.caller) continue;
      const view: AgentView = { profile: node.profile, status: node.status, tokens: 0, calls: [], text: "" };
      if (!parent.attach(node.caller.itemId, view)) continue;
      this.#known.add(node.id);
      parents.set(node.id, {
        responseId: node.id,
        attach: (itemId, agent) => {
          const call = view.calls.find(({ id }) => id === itemId);
          if (call) call.agent = agent;
          return call !== undefined;
        },
      });
      this.#follow(node, view).catch(() => undefined);
    }
  }

  async #follow(node: ResponseNode, view: AgentView): Promise<void> {
    const { engine, store } = this.#app;
    for (let after = -1; !this.#stop.signal.aborted; ) {
      for await (const event of engine.watch(node.id, after, this.#stop.signal)) {
        readInto(view, event);
        after = event.sequence_number;
        this.#update();
      }
      const now = await store.node(node.id);
      if (!now) return;
      view.status = now.status;
      view.tokens = now.usage.total_tokens;
      if (now.endedAt !== null) return;
      await sleep(LOOK, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    }
  }
}

/** One event of a sub-agent, into what is shown of it. */
export function readInto(view: AgentView, event: RunEvent): void {
  if (event.type === "response.output_item.added" && event.item.type === "mcp_call") {
    view.calls.push(callOf(event.item, Date.now()));
    view.text = "";
  } else if (event.type === "response.output_text.delta") view.text = (view.text + event.delta).slice(-600);
  else if (event.type === "response.mcp_call_arguments.done" || event.type === "response.mcp_call.in_progress") {
    const call = view.calls.find(({ id }) => id === event.item_id);
    if (call && "arguments" in event) call.arguments = event.arguments;
    else if (call) call.status = "calling";
  } else if (event.type === "response.output_item.done" && event.item.type === "mcp_call") {
    const { item } = event;
    const call = view.calls.find(({ id }) => id === item.id);
    if (!call) return;
    call.status = item.status;
    call.output = item.output?.slice(0, 2_000);
    call.error = item.error ?? undefined;
    if (call.began !== undefined) call.took = Date.now() - call.began;
  }
}
