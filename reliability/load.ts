/**
 * The mixed load: clients that stream with reconnects, wait for background work, call tools with effects, answer
 * approvals and converse, each noting what it was told.
 *
 * Invariant: every check is made against the client's own history or against files of effects; the server's word
 * alone proves nothing.
 */
import type { Client, Wire, WireItem } from "./client.ts";
import { answerTo, question, type Wish } from "./endpoint.ts";
import type { Effect, History } from "./history.ts";
import type { Chance } from "./part.ts";

const MODEL = "test-model";

export interface LoadOptions {
  client: Client;
  history: History;
  chance: Chance;
  /** Stands before every line of an effect and every key. */
  name: string;
}

export class Load {
  readonly #client: Client;
  readonly #history: History;
  readonly #chance: Chance;
  readonly #name: string;
  #number = 0;
  #stopped = false;

  constructor({ client, history, chance, name }: LoadOptions) {
    this.#client = client;
    this.#history = history;
    this.#chance = chance;
    this.#name = name;
  }

  /** Begins nothing new; `run` resolves when what was begun has come to its end. */
  stop(): void {
    this.#stopped = true;
  }

  /** So many clients at once, until `stop`. */
  async run(clients: number): Promise<void> {
    await Promise.all(
      Array.from({ length: clients }, async () => {
        while (!this.#stopped) await this.once();
      }),
    );
  }

  /** One errand, whatever comes. What cannot be finished is a fault. */
  async once(
    kind = this.#chance.one(["stream", "stream", "background", "effects", "approval", "turns", "chat"]),
  ): Promise<void> {
    const errands: Record<string, () => Promise<void>> = {
      stream: () => this.#stream(),
      background: () => this.#background(),
      effects: () => this.#effects(),
      approval: () => this.#approval(),
      turns: () => this.#turns(),
      chat: () => this.#chat(),
    };
    try {
      await errands[kind]?.();
      this.#history.count(kind);
    } catch (error) {
      this.#history.fault(`${kind}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  #next(): string {
    return `${this.#name}-${++this.#number}`;
  }

  #body(wish: Wish, more: object = {}): object {
    return { model: MODEL, input: question(wish), background: true, ...more };
  }

  async #start(wish: Wish, kind: string, more: object = {}): Promise<string> {
    const { status, json } = await this.#client.ask("/v1/responses", {
      body: this.#body(wish, more),
      key: this.#next(),
    });
    const { id } = json as { id: string };
    if (status !== 200) throw new Error(`not taken: ${status} ${JSON.stringify(json).slice(0, 300)}`);
    this.#history.acknowledge(id, kind);
    return id;
  }

  // ---- streams

  async #stream(): Promise<void> {
    const wish = { words: this.#chance.between(5, 60), delay: this.#chance.between(0, 8) };
    const events: string[] = [];
    let id = "";
    const hear = (atMost: number) => {
      let heard = 0;
      return (data: string): boolean => {
        const event = JSON.parse(data) as Wire;
        // The server says that it cannot go on with this stream: as if it were cut.
        if (event.sequence_number === undefined) {
          this.#history.count("errors");
          this.#history.note(data);
          return false;
        }
        if (event.sequence_number !== events.length) {
          this.#history.fault(`stream ${id}: ${event.sequence_number} came after ${events.length - 1}`);
          return false;
        }
        events.push(data);
        if (event.response && id === "") {
          id = event.response.id;
          this.#history.acknowledge(id, "stream");
        }
        return ++heard < atMost;
      };
    };
    const key = this.#next();
    for (let end: string | number = "cut", tries = 0; end !== "done"; tries++) {
      if (typeof end === "number" || tries > 2_000) throw new Error(`stream ${id} does not end: ${end}`);
      if (tries > 0) await this.#client.pause();
      // Now and then the line goes dead on the client's side.
      const atMost = this.#chance.next() < 0.2 ? this.#chance.between(1, 20) : Number.POSITIVE_INFINITY;
      end =
        id === ""
          ? await this.#client.read("/v1/responses", { body: this.#body(wish, { stream: true }), key }, hear(atMost))
          : await this.#client.read(
              `/v1/responses/${id}?stream=true&starting_after=${events.length - 1}`,
              {},
              hear(atMost),
            );
      if (end === "cut") this.#history.count("cuts");
    }
    this.#checkStream(id, events, wish);
    await this.#replay(id, events);
  }

  #checkStream(id: string, events: readonly string[], wish: Wish): void {
    const last = JSON.parse(events.at(-1) ?? "{}") as Wire;
    if (!/^response\.(completed|incomplete|failed)$/.test(last.type))
      this.#history.fault(`stream ${id} ends with ${last.type}`);
    if (last.type === "response.failed")
      this.#history.fault(`stream ${id} failed: ${JSON.stringify(last).slice(0, 400)}`);
    if (last.type !== "response.completed") {
      this.#history.count("interrupted");
      return;
    }
    const deltas = new Map<string, string>();
    let item = "";
    for (const event of events.map((data) => JSON.parse(data) as { type: string; item_id: string; delta: string })) {
      if (event.type !== "response.output_text.delta") continue;
      item = event.item_id;
      deltas.set(item, (deltas.get(item) ?? "") + event.delta);
    }
    if (deltas.get(item) !== answerTo(wish))
      this.#history.fault(`stream ${id} says ${JSON.stringify(deltas.get(item))}`);
  }

  /** Whoever reads it from the beginning sees what the first reader put together out of its parts. */
  async #replay(id: string, events: readonly string[]): Promise<void> {
    const until = performance.now() + 60_000;
    while (performance.now() < until) {
      const again: string[] = [];
      const end = await this.#client.read(`/v1/responses/${id}?stream=true`, {}, (data) => again.push(data) > 0);
      if (end !== "done") {
        await this.#client.pause();
        continue;
      }
      const differs = events.findIndex((data, index) => again[index] !== data);
      if (differs === -1 && again.length === events.length) return this.#history.count("streams whole");
      throw new Error(`stream ${id}: event ${differs} was ${events[differs]} and is ${again[differs]}`);
    }
    throw new Error(`stream ${id} cannot be read again`);
  }

  // ---- the rest

  async #background(): Promise<void> {
    const wish = {
      words: this.#chance.between(3, 30),
      delay: this.#chance.between(0, 5),
      latency: this.#chance.between(0, 30),
    };
    const id = await this.#start(wish, "background");
    this.#checkEnd(id, await this.#client.untilEnd(id), wish);
  }

  #checkEnd(id: string, { status, output }: { status: string; output: WireItem[] }, wish: Wish): void {
    if (status === "incomplete") {
      this.#history.count("interrupted");
      return;
    }
    const said = output.findLast(({ type }) => type === "message")?.content?.[0]?.text;
    if (status !== "completed" || said !== answerTo(wish)) {
      this.#history.fault(`response ${id} is ${status} and says ${JSON.stringify(said)}`);
    }
  }

  async #effects(): Promise<void> {
    const lines: Omit<Effect, "responseId">[] = [
      { line: this.#next(), by: "mcp" },
      { line: this.#next(), by: "bash" },
    ];
    const calls = lines.map(({ line, by }): NonNullable<Wish["calls"]>[number] =>
      by === "mcp" ? ["counter__append", { line }] : ["bash", { command: `echo ${line} >> effects.log` }],
    );
    const wish = { calls };
    const id = await this.#start(wish, "effects");
    for (const effect of lines) this.#history.expect({ ...effect, responseId: id });
    this.#checkEnd(id, await this.#client.untilEnd(id), wish);
  }

  async #approval(): Promise<void> {
    const line = this.#next();
    const wish: Wish = { calls: [["counter__append_asked", { line }]] };
    const id = await this.#start(wish, "approval");
    this.#history.expect({ line, by: "mcp", responseId: id });
    for (;;) {
      const { json } = await this.#client.ask("/v1/tool-approvals");
      const { approvals } = json as { approvals: { approvalId: string; responseId: string }[] };
      const asked = approvals.find(({ responseId }) => responseId === id);
      if (asked) {
        const body = { approvalId: asked.approvalId, approved: true };
        // Whoever repeats an answer that was cut off is told that there is one already.
        const { status, json: told } = await this.#client.ask("/v1/tool-approval", { body, final: [409] });
        if (![200, 404, 409, 410].includes(status)) throw new Error(`approval: ${status} ${JSON.stringify(told)}`);
        break;
      }
      const { json: now } = await this.#client.ask(`/v1/responses/${id}`);
      if (!["queued", "in_progress"].includes((now as { status: string }).status)) break;
      await this.#client.pause();
    }
    this.#checkEnd(id, await this.#client.untilEnd(id), wish);
  }

  async #turns(): Promise<void> {
    const made = await this.#client.ask("/v1/conversations", { body: {}, key: this.#next() });
    const { id: conversation } = made.json as { id: string };
    for (let turn = this.#chance.between(1, 4); turn > 0; turn--) {
      const wish: Wish = { words: 2, latency: this.#chance.between(0, 20) };
      const text = `${this.#next()} ${question(wish)}`;
      const id = await this.#start(wish, "turn", { conversation, input: text });
      this.#history.turn({ conversationId: conversation, responseId: id, text });
      this.#checkEnd(id, await this.#client.untilEnd(id), wish);
    }
    const { json } = await this.#client.ask(`/v1/conversations/${conversation}/items?limit=100&order=asc`);
    const { data } = json as { data: { role?: string; content?: { text?: string }[] }[] };
    const heard = data.filter(({ role }) => role === "user").map(({ content }) => content?.[0]?.text);
    const said = this.#history.turns
      .filter(({ conversationId }) => conversationId === conversation)
      .map(({ text }) => text);
    if (JSON.stringify(heard) !== JSON.stringify(said)) {
      throw new Error(`conversation ${conversation} has ${JSON.stringify(heard)}, said was ${JSON.stringify(said)}`);
    }
  }

  /** In the foreground, as most clients ask: the repetition finds the answer of the first one. */
  async #chat(): Promise<void> {
    const wish = { words: this.#chance.between(2, 10), latency: this.#chance.between(0, 40) };
    const body = { model: MODEL, messages: [{ role: "user", content: question(wish) }] };
    const key = this.#next();
    const first = await this.#client.ask("/v1/chat/completions", { body, key });
    const second = await this.#client.ask("/v1/chat/completions", { body, key });
    const told = ({ json, status }: typeof first) => {
      const { id, choices } = json as { id?: string; choices?: { message: { content: string } }[] };
      return { id, status, text: choices?.[0]?.message.content };
    };
    const [one, two] = [told(first), told(second)];
    if (one.status === 200 && (one.id !== two.id || one.text !== two.text)) {
      throw new Error(`the same key: first ${JSON.stringify(one)}, then ${JSON.stringify(two)}`);
    }
    if (one.status === 200 && one.text !== answerTo(wish)) this.#history.count("interrupted");
  }
}
