/**
 * One chat: a path of the tree, from its root to where it stands, and what is sent behind it.
 *
 * Invariant: the path follows from the tree that the server tells, and from nothing else; what a person sends carries a
 * key of its own, so that sending it again after a lost network does it once.
 */
import { askedOf } from "../util/asked.ts";
import { ask, askJson, RequestError, words } from "./api.ts";
import { Cell } from "./cell.ts";
import { OWN_DOOR } from "./format.ts";
import { conversations, lookAgain } from "./shared.ts";
import { pause } from "./stream.ts";
import { cancelTurn, type Turn, type TurnHead, turnOf } from "./turn.ts";
import {
  isEnded,
  moment,
  type Part,
  type TreeNode,
  type WireConversation,
  type WireItem,
  type WireResponse,
  type WireTree,
} from "./wire.ts";

export interface ChatPath {
  /** Ids of responses, the oldest first. */
  ids: readonly string[];
  /** Responses of sub-agents, by the item that called them. */
  called: ReadonlyMap<string, readonly TreeNode[]>;
  /** How many children each response of the path has: more than one is a branch. */
  children: ReadonlyMap<string, number>;
  nodes: ReadonlyMap<string, TreeNode>;
}

const NOTHING: ChatPath = { ids: [], called: new Map(), children: new Map(), nodes: new Map() };

export interface Sending {
  text: string;
  attachments: readonly Part[];
  /** `model` of the request; undefined: as before. */
  model?: string;
  profile?: string;
}

/** Turns that are shown at first, and how many more each time. */
export const PAGE = 30;

export class Chat {
  readonly path = new Cell<ChatPath>(NOTHING);
  readonly loaded = new Cell(false);
  readonly problem = new Cell("");
  /** How many of the last turns are shown. */
  readonly shown = new Cell(PAGE);
  /** What was sent and has not been acknowledged yet. */
  readonly sending = new Cell<Sending | undefined>(undefined);
  /** Stands for the head of a turn where there is none. */
  readonly noHead = new Cell<TurnHead | undefined>(undefined);
  conversation: string | null;
  /** Where a chat without a conversation goes on from. */
  response: string | null;
  #number = 0;
  readonly #stop = new AbortController();

  constructor(conversation: string | null, response: string | null) {
    this.conversation = conversation;
    this.response = response;
    this.loaded.set(conversation === null && response === null);
  }

  leave(): void {
    this.#stop.abort();
  }

  /** It is shown no more. */
  get left(): boolean {
    return this.#stop.signal.aborted;
  }

  get last(): Turn | undefined {
    const id = this.path.value.ids.at(-1);
    return id === undefined ? undefined : turnOf(id);
  }

  /** Of the path, what has not ended, the oldest first: the first runs, the others wait behind it. */
  get open(): Turn[] {
    return this.path.value.ids.map(turnOf).filter((turn) => turn.head.value !== undefined && !turn.ended);
  }

  /** The door that a turn came through. What has just been sent does not stand in the tree yet. */
  doorOf({ id }: Turn): string {
    return this.path.value.nodes.get(id)?.door ?? OWN_DOOR;
  }

  /**
   * Ends what runs. What waits behind it must not begin instead: it is taken back before, and handed over, the oldest
   * first. What another door has queued is that door's: resolves with the first of it, which begins.
   */
  async stop(onHeld: (held: readonly WireItem[]) => void): Promise<Turn | undefined> {
    const [running, ...queued] = this.open;
    const held: WireItem[] = [];
    let next: Turn | undefined;
    try {
      for (const turn of queued.reverse()) {
        if (this.doorOf(turn) !== OWN_DOOR) {
          next = turn;
          continue;
        }
        // What another's stands behind must stay in the tree.
        if (next) await cancelTurn(turn.id);
        else await ask(`/v1/responses/${turn.id}`, { method: "DELETE" });
        held.unshift(...turn.input.value);
        if (!next) this.#takeBack(turn);
      }
    } finally {
      if (held.length > 0) onHeld(held);
    }
    if (running) await cancelTurn(running.id);
    return next;
  }

  #takeBack(turn: Turn): void {
    this.#number++;
    const path = this.path.value;
    const ids = path.ids.filter((id) => id !== turn.id);
    if (this.response === turn.id) this.response = ids.at(-1) ?? null;
    this.path.set({ ...path, ids });
    lookAgain();
  }

  async load(): Promise<void> {
    const number = ++this.#number;
    const query = this.conversation
      ? `conversation=${encodeURIComponent(this.conversation)}`
      : this.response
        ? `response=${encodeURIComponent(this.response)}`
        : undefined;
    if (query === undefined) return;
    try {
      const tree = await askJson<WireTree>(`/v1/tree?${query}`);
      const ids = await pathTo(this.conversation ? tree.current : this.response, tree);
      if (this.conversation) ids.push(...(await this.#failed(this.conversation, ids.at(-1) ?? null, tree)));
      // Another look was begun later.
      if (number !== this.#number) return;
      this.#take(tree, ids);
      this.problem.set("");
    } catch (error) {
      if (number === this.#number) this.problem.set(words(error));
    }
    this.loaded.set(true);
  }

  /**
   * The answer behind the path that failed, where it was the last thing that happened: a conversation goes on from
   * before it, but whoever asked wants to see what became of it.
   */
  async #failed(conversation: string, last: string | null, tree: WireTree): Promise<string[]> {
    if (last === null) {
      type Answer = { data: WireResponse[] };
      const { data } = await askJson<Answer>("/v1/responses?status=failed&limit=50").catch(
        (): Answer => ({ data: [] }),
      );
      const first = data.find((one) => one.conversation?.id === conversation && one.previous_response_id === null);
      return first ? [first.id] : [];
    }
    const behind = tree.nodes.filter((node) => node.previous_response_id === last && node.caller === null);
    const newest = behind.sort((a, b) => moment(a.created_at) - moment(b.created_at)).at(-1);
    return newest?.status === "failed" && newest.conversation_id === conversation ? [newest.id] : [];
  }

  #take(tree: WireTree, ids: string[]): void {
    const called = new Map<string, TreeNode[]>();
    const children = new Map<string, number>();
    for (const node of tree.nodes) {
      if (node.caller) called.set(node.caller.item_id, [...(called.get(node.caller.item_id) ?? []), node]);
      if (node.previous_response_id) {
        children.set(node.previous_response_id, (children.get(node.previous_response_id) ?? 0) + 1);
      }
    }
    this.path.set({ ids, called, children, nodes: new Map(tree.nodes.map((node) => [node.id, node])) });
  }

  /** Something has changed somewhere: is it of this chat? */
  async look(): Promise<void> {
    const { last } = this;
    if (last && !last.ended) await last.refresh().catch(() => undefined);
    const mine = conversations.value.find(({ id }) => id === this.conversation);
    const same = this.conversation === null || (mine?.head !== undefined && mine.head === last?.id);
    if (!same || (last && this.#tellsMore(last))) await this.load();
  }

  /** The tree knows what the path does not: how a turn ended, or what it has called. */
  #tellsMore(last: Turn): boolean {
    const node = this.path.value.nodes.get(last.id);
    if (!node || isEnded(node.status) !== last.ended) return true;
    return !last.ended && last.items.value.some(({ value }) => value.name === "task" && value.status === "calling");
  }

  /** Adds a response behind the path before the server is asked for the tree. A tree that is on its way may not know it. */
  #append(id: string): void {
    this.#number++;
    const path = this.path.value;
    if (!path.ids.includes(id)) this.path.set({ ...path, ids: [...path.ids, id] });
  }

  /** Resolves with the response that was begun, once it is on disk. */
  async send(sending: Sending): Promise<WireResponse> {
    this.sending.set(sending);
    try {
      if (this.conversation === null && this.response === null) await this.#beginConversation(sending);
      const response = await this.#post(sending);
      const turn = turnOf(response.id);
      turn.input.set([{ type: "message", id: "", role: "user", content: contentOf(sending) }]);
      turn.begin(response);
      if (this.response !== null) this.response = response.id;
      this.#append(response.id);
      lookAgain();
      return response;
    } finally {
      this.sending.set(undefined);
    }
  }

  async #beginConversation(sending: Sending): Promise<void> {
    const text = askedOf(contentOf(sending).map((part) => part.text ?? ""));
    const made = await askJson<WireConversation>("/v1/conversations", { body: {} });
    this.conversation = made.id;
    const title = text.replace(/\s+/g, " ").trim().slice(0, 60);
    if (title !== "") await ask(`/v1/conversations/${made.id}`, { body: { title } }).catch(() => undefined);
  }

  async #post(sending: Sending): Promise<WireResponse> {
    const { model, profile } = sending;
    const body = {
      input: [{ type: "message", role: "user", content: contentOf(sending) }],
      background: true,
      ...(model !== undefined ? { model } : profile !== undefined && { model: `profile/${profile}` }),
      ...(this.conversation !== null ? { conversation: this.conversation } : { previous_response_id: this.response }),
    };
    const headers = {
      "idempotency-key": crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`,
      ...(model !== undefined && profile !== undefined && { "x-rotunda-profile": profile }),
    };
    for (let attempt = 0; ; attempt++) {
      try {
        return await askJson<WireResponse>("/v1/responses", { body, headers });
      } catch (error) {
        const passing = error instanceof RequestError && (error.status === 0 || error.status === 503);
        if (!passing || attempt >= 8 || this.left) throw error;
        await pause(Math.min(3_000, 300 * 2 ** attempt), this.#stop.signal);
      }
    }
  }

  async steer(sending: Sending): Promise<void> {
    const running = this.open[0] ?? this.last;
    if (!running) return;
    const input = [{ type: "message", role: "user", content: contentOf(sending) }];
    await ask(`/v1/responses/${running.id}/steer`, { body: { input } });
  }
}

function contentOf({ text, attachments }: Sending): Part[] {
  // What was asked stands first: titles and excerpts are made of that.
  return [...(text === "" ? [] : [{ type: "input_text", text }]), ...attachments];
}

/** Ids from the root down. What the tree leaves out because it is long is asked for one by one. */
async function pathTo(id: string | null, tree: WireTree): Promise<string[]> {
  const nodes = new Map(tree.nodes.map((node) => [node.id, node]));
  const ids: string[] = [];
  const seen = new Set<string>();
  for (let at = id; at !== null && !seen.has(at); ) {
    seen.add(at);
    ids.unshift(at);
    const node = nodes.get(at);
    if (node) at = node.previous_response_id;
    else at = (await askJson<WireResponse>(`/v1/responses/${at}`).catch(() => undefined))?.previous_response_id ?? null;
  }
  return ids;
}
