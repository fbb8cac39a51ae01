/**
 * News: what changes anywhere, for pages that are open, so that two of them agree.
 *
 * The store is looked at by one look for all pages of this process, a few times a second and only while a page is
 * open: so it is the same whichever process has written, and on any database.
 * Invariant: news is a hint and holds nothing but ids: whoever hears it reads what he may. What cannot be told in
 * full is told as "all".
 */
import type { App } from "../../types/app.ts";
import type { Conversation, Owner, ResponseNode, Status } from "../../types/response.ts";

export interface NewsEvent {
  type: "response" | "conversation" | "approval" | "elicitation" | "hub" | "settings" | "all";
  id?: string;
  /** Of a response and an approval; "deleted". */
  status?: string;
}

/** `owner`: null where it is everybody's. */
export type NewsListener = (event: NewsEvent, owner: Owner | null) => void;

/** Milliseconds between two looks. */
const PAUSE = 300;
/** The newest ones, whose coming and going is seen. */
const NEWEST = 100;
const MOST_OPEN = 1_000;
const OPEN: readonly Status[] = ["queued", "in_progress", "waiting"];

interface Known {
  id: string;
  owner: Owner;
  /** What is told when it changes. */
  state: string;
}

export class News {
  readonly #app: App;
  readonly #listeners = new Set<NewsListener>();
  readonly #log: (text: string) => void;
  #timer: NodeJS.Timeout | undefined;
  /** Nothing is told of the first look. */
  #first = true;
  #ready = Promise.withResolvers<void>();
  #open = new Map<string, Known>();
  #newest: Known[] = [];
  #conversations: Known[] = [];
  #approvals = new Map<string, Owner>();
  #elicitations = "";
  #servers = new Map<string, string>();
  #config: unknown;

  constructor(app: App, log: (text: string) => void) {
    this.#app = app;
    this.#log = log;
  }

  /** `ready`: whatever changes from then on is told. */
  listen(listener: NewsListener): { ready: Promise<void>; stop: () => void } {
    this.#listeners.add(listener);
    if (this.#listeners.size === 1) {
      this.#ready = Promise.withResolvers();
      this.#later(0);
    }
    const stop = () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      clearTimeout(this.#timer);
      this.#timer = undefined;
      this.#first = true;
    };
    return { ready: this.#ready.promise, stop };
  }

  #later(pause: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#look().then(
        () => this.#again(),
        (error: Error) => {
          this.#log(`news of what changes cannot be had: ${error.message}`);
          this.#first = true;
          this.#again();
          this.#tell({ type: "all" }, null);
        },
      );
    }, pause).unref();
  }

  #again(): void {
    this.#ready.resolve();
    if (this.#listeners.size > 0) this.#later(PAUSE);
  }

  #tell(event: NewsEvent, owner: Owner | null): void {
    for (const listener of this.#listeners) listener(event, owner);
  }

  async #look(): Promise<void> {
    const first = this.#first;
    const tell: NewsListener = first ? () => undefined : (event, owner) => this.#tell(event, owner);
    await this.#lookAtResponses(tell);
    await this.#lookAtConversations(tell);
    await this.#lookAtApprovals(tell);
    await this.#lookAtServers(tell);
    if (this.#config !== this.#app.config) tell({ type: "settings" }, null);
    this.#config = this.#app.config;
    if (this.#listeners.size > 0) this.#first = false;
  }

  async #lookAtResponses(tell: NewsListener): Promise<void> {
    const { store } = this.#app;
    const newest = (await store.list({ limit: NEWEST })).map(known);
    const open = new Map((await store.list({ status: OPEN, limit: MOST_OPEN })).map((node) => [node.id, known(node)]));
    const told = new Set<string>();
    const say = ({ id, owner }: Pick<Known, "id" | "owner">, status: string) => {
      if (told.has(id)) return;
      told.add(id);
      tell({ type: "response", id, status }, owner);
    };
    for (const one of open.values()) if (this.#open.get(one.id)?.state !== one.state) say(one, one.state);
    for (const one of this.#open.values()) {
      if (open.has(one.id)) continue;
      say(one, (await store.node(one.id))?.status ?? "deleted");
    }
    const { made, gone, isWhole } = compare(this.#newest, newest);
    if (!isWhole) tell({ type: "all" }, null);
    for (const one of made) say(one, one.state);
    for (const one of gone) say(one, "deleted");
    this.#open = open;
    this.#newest = newest;
  }

  async #lookAtConversations(tell: NewsListener): Promise<void> {
    const listed = (await this.#app.store.conversations({ limit: NEWEST })).map(knownConversation);
    const before = new Map(this.#conversations.map((one) => [one.id, one.state]));
    for (const { id, owner, state } of listed) {
      if (before.get(id) !== state) tell({ type: "conversation", id }, owner);
    }
    const now = new Set(listed.map(({ id }) => id));
    // Those that are merely no longer among the last used ones are told of in vain: it is a hint.
    const gone = this.#conversations.filter(({ id }) => !now.has(id));
    for (const { id, owner } of listed.length < NEWEST ? gone : []) {
      tell({ type: "conversation", id, status: "deleted" }, owner);
    }
    this.#conversations = listed;
  }

  async #lookAtApprovals(tell: NewsListener): Promise<void> {
    const { store } = this.#app;
    const pending = await store.approvals({ status: "pending" });
    const now = new Map<string, Owner>();
    for (const { id, responseId } of pending) {
      const before = this.#approvals.get(id);
      const owner = before ?? (await store.node(responseId))?.owner;
      if (owner === undefined) continue;
      now.set(id, owner);
      if (before === undefined) tell({ type: "approval", id, status: "pending" }, owner);
    }
    for (const [id, owner] of this.#approvals) {
      if (now.has(id)) continue;
      const status = (await store.approval(id))?.status ?? "deleted";
      tell({ type: "approval", id, status }, owner);
    }
    this.#approvals = now;
  }

  async #lookAtServers(tell: NewsListener): Promise<void> {
    const asked = this.#app.elicitations().map(({ id }) => id);
    const ids = asked.join(" ");
    if (ids !== this.#elicitations) tell({ type: "elicitation" }, null);
    this.#elicitations = ids;
    const hub = this.#app.config.servers.length > 0 ? await this.#app.hub() : undefined;
    const servers = new Map(hub?.servers().map(({ name, state, toolCount }) => [name, `${state} ${toolCount}`]) ?? []);
    for (const [name, state] of servers) {
      if (this.#servers.get(name) !== state) tell({ type: "hub", id: name, status: state.split(" ")[0] ?? "" }, null);
    }
    for (const name of this.#servers.keys()) {
      if (!servers.has(name)) tell({ type: "hub", id: name, status: "deleted" }, null);
    }
    this.#servers = servers;
  }
}

function known({ id, owner, status }: ResponseNode): Known {
  return { id, owner, state: status };
}

function knownConversation({ id, owner, updatedAt, head, title }: Conversation): Known {
  return { id, owner, state: `${updatedAt} ${head} ${title}` };
}

/** Two listings of the newest. `isWhole`: they meet, so that nothing between them is missing. */
function compare(before: readonly Known[], now: readonly Known[]): { made: Known[]; gone: Known[]; isWhole: boolean } {
  const [old, current] = [new Set(before.map(({ id }) => id)), new Set(now.map(({ id }) => id))];
  const meet = now.findIndex(({ id }) => old.has(id));
  if (meet === -1) return { made: [...now], gone: [], isWhole: before.length === 0 || now.length < NEWEST };
  // Beyond the last one that both have, what is missing has only moved out of sight.
  const last = now.length < NEWEST ? before.length : before.findLastIndex(({ id }) => current.has(id));
  return {
    made: now.slice(0, meet),
    gone: before.slice(0, last).filter(({ id }) => !current.has(id)),
    isWhole: true,
  };
}
