/**
 * Silence: says on stderr whom a turn waits for, when nothing comes.
 *
 * Invariant: it is said once a turn, and only while nothing of ours runs: a tool or a sub-agent has been told of when it
 * began.
 */
import type { App } from "../../types/app.ts";
import type { RunEvent } from "../../types/event.ts";
import type { ResponseNode } from "../../types/response.ts";
import { visible } from "../../util/text.ts";

/** Milliseconds without any event. */
const PATIENCE = 4_000;

export class Silence {
  readonly #app: App;
  readonly #id: string;
  readonly #tell: (text: string) => void;
  /** Items that have begun and not ended. */
  readonly #open = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(app: App, id: string, tell: (text: string) => void) {
    this.#app = app;
    this.#id = id;
    this.#tell = tell;
    this.#arm();
  }

  event(event: RunEvent): void {
    if (event.type === "response.output_item.added") this.#open.add(event.item.id);
    if (event.type === "response.output_item.done") this.#open.delete(event.item.id);
    if (!this.#isOver) this.#arm();
  }

  end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#open.size === 0) this.#timer = setTimeout(() => this.#say().catch(() => undefined), PATIENCE).unref();
  }

  async #say(): Promise<void> {
    const node = await this.#app.store.node(this.#id);
    if (!node || (node.status !== "in_progress" && node.status !== "queued")) return;
    const whom = node.status === "queued" ? "its turn in the queue" : `${await endpointOf(this.#app, node)} to answer`;
    if (this.#isOver || this.#open.size > 0) return;
    this.end();
    this.#tell(`waiting for ${whom} …`);
  }
}

/** The host that is asked, else the model's name: `127.0.0.1:11434`. */
export async function endpointOf(app: App, { model }: Pick<ResponseNode, "model">): Promise<string> {
  const configured = app.config.models.find(({ id }) => id === model)?.baseUrl;
  const address = configured ?? (await app.models()).find(({ id }) => id === model)?.baseUrl;
  return visible(typeof address === "string" && URL.canParse(address) ? new URL(address).host : model);
}
