/**
 * The sessions of one connection: begun, taken up, branched, closed, listed.
 *
 * Invariant: an id is one of a conversation of this machine's owner, or it is unknown; a session that was opened twice
 * is one session.
 */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import type {
  AgentContext,
  ListSessionsRequest,
  ListSessionsResponse,
  McpServer,
  SessionInfo,
} from "@agentclientprotocol/sdk/unstable";
import type { App } from "../../types/app.ts";
import { type Conversation, LOCAL } from "../../types/response.ts";
import { isId, newId } from "../../util/ids.ts";
import { visible } from "../../util/text.ts";
import type { Apps } from "./apps.ts";
import { type Choices, firstChoices } from "./choices.ts";
import { invalidParams, refused, unknownSession } from "./errors.ts";
import { serversOf } from "./servers.ts";
import { type Features, Session, type SessionOptions } from "./session.ts";

export interface SessionsOptions {
  apps: Apps;
  /** An app to look things up with, of whatever directory. */
  base(): Promise<App>;
  client: AgentContext;
  features: Features;
  start: SessionOptions["start"];
  wanted: Partial<Choices>;
  configuration?: string;
}

/** What the requests that open a session have in common. */
export interface Place {
  cwd: string;
  mcpServers?: McpServer[];
  additionalDirectories?: string[];
}

interface Open {
  session: Session;
  release(): Promise<void>;
}

const PAGE = 50;

export class Sessions {
  readonly #options: SessionsOptions;
  readonly #open = new Map<string, Open>();

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  find(id: string): Session | undefined {
    return this.#open.get(id)?.session;
  }

  /** One that is open here. Throws an error of JSON-RPC. */
  get(id: string): Session {
    const session = this.find(id);
    if (!session) throw unknownSession(id);
    return session;
  }

  /** The one that runs any of these responses; undefined: none. */
  running(responseIds: readonly string[]): Session | undefined {
    for (const { session } of this.#open.values()) if (responseIds.some((id) => session.runs(id))) return session;
    return undefined;
  }

  /** The only one whose app this is; undefined where there are several. */
  onlyOf(app: App): Session | undefined {
    const its = [...this.#open.values()].filter(({ session }) => session.app === app);
    return its.length === 1 ? its[0]?.session : undefined;
  }

  async begin(place: Place): Promise<Session> {
    const session = await this.#make(place, newId("conv"));
    const now = Date.now();
    const times = { createdAt: now, updatedAt: now };
    const { id, cwd: workspace } = session;
    await session.app.store.saveConversation({ ...emptyConversation(id), workspace, ...times });
    return session;
  }

  async takeUp(id: string, place: Place, { replay }: { replay: boolean }): Promise<Session> {
    const conversation = await this.#find(id);
    if (this.#open.get(id)?.session.busy) throw refused("a prompt of this session is still running");
    await this.#drop(id);
    const session = await this.#make(place, conversation.id);
    await session.takeUp(replay);
    return session;
  }

  /** A new conversation on the same response: from there on they go apart. Nothing is copied. */
  async fork(id: string, place: Place): Promise<Session> {
    const { title, metadata, head } = await this.#find(id);
    const session = await this.#make(place, newId("conv"));
    const { store } = session.app;
    const node = head === null ? undefined : await store.node(head);
    // What has not ended stays the first one's alone.
    const from = node && node.endedAt === null ? node.previousResponseId : head;
    const now = Date.now();
    const rest = { title, metadata, head: from, createdAt: now, updatedAt: now };
    await store.saveConversation({ ...emptyConversation(session.id), workspace: session.cwd, ...rest });
    await session.takeUp(false);
    return session;
  }

  /** Ends what it runs. One in which nothing was said goes away. */
  async close(id: string): Promise<void> {
    const open = this.#open.get(id);
    if (!open) throw unknownSession(id);
    await open.session.end();
    const { store } = open.session.app;
    const conversation = await store.conversation(id);
    if (conversation?.head === null) await store.removeConversation(id);
    await this.#drop(id);
  }

  /** Its responses stay in the tree. */
  async delete(id: string): Promise<void> {
    await this.#find(id);
    await this.find(id)?.end();
    const { store } = await this.#lookUp();
    await store.removeConversation(id);
    await this.#drop(id);
  }

  async list({ cwd, cursor }: ListSessionsRequest): Promise<ListSessionsResponse> {
    if (typeof cursor === "string" && !isId(cursor)) throw invalidParams("the cursor is none of ours");
    const { store } = await this.#lookUp();
    const workspace = typeof cwd === "string" ? await realpath(cwd).catch(() => cwd) : undefined;
    const found = await store.conversations({
      limit: PAGE,
      owner: LOCAL,
      ...(workspace !== undefined && { workspace }),
      ...(typeof cursor === "string" && { before: cursor }),
    });
    const last = found.length === PAGE ? found.at(-1) : undefined;
    const sessions = found.filter(({ head, workspace: at }) => head !== null && isAbsolute(at)).map(infoOf);
    return { sessions, ...(last && { nextCursor: last.id }) };
  }

  /** Lets go of everything; what runs is left so that it can be gone on with. */
  async closeAll(): Promise<void> {
    await Promise.all([...this.#open.keys()].map((id) => this.#drop(id)));
  }

  async #drop(id: string): Promise<void> {
    const open = this.#open.get(id);
    this.#open.delete(id);
    await open?.release();
  }

  async #make(place: Place, id: string): Promise<Session> {
    const { apps, client, features, start, wanted, configuration } = this.#options;
    if ((place.additionalDirectories ?? []).length > 0)
      throw invalidParams("additionalDirectories: a session works in one directory");
    const cwd = await directory(place.cwd);
    const { app, release } = await apps.take(cwd, serversOf(place.mcpServers ?? []));
    try {
      const choices = await firstChoices(app, wanted);
      const common = { id, cwd, app, client, features, start, choices };
      const session = new Session({ ...common, ...(configuration !== undefined && { configuration }) });
      this.#open.set(id, { session, release });
      return session;
    } catch (error) {
      await release();
      throw error;
    }
  }

  async #find(id: string): Promise<Conversation> {
    const conversation = isId(id) ? await (await this.#lookUp()).store.conversation(id) : undefined;
    // Another's conversation could be read here, and not be gone on with.
    if (!conversation || conversation.owner !== LOCAL) throw unknownSession(id);
    return conversation;
  }

  /** All apps of a state directory have one store. */
  async #lookUp(): Promise<App> {
    for (const { session } of this.#open.values()) return session.app;
    return this.#options.base();
  }
}

function emptyConversation(id: string): Omit<Conversation, "workspace" | "createdAt" | "updatedAt"> {
  return { id, owner: LOCAL, name: null, title: "", head: null, metadata: {} };
}

function infoOf({ id: sessionId, workspace: cwd, title, updatedAt }: Conversation): SessionInfo {
  const shown = title === "" ? {} : { title: visible(title) };
  return { sessionId, cwd, ...shown, updatedAt: new Date(updatedAt).toISOString() };
}

async function directory(cwd: string): Promise<string> {
  if (!isAbsolute(cwd)) throw invalidParams(`cwd: ${cwd.slice(0, 200)} is not an absolute path`);
  try {
    const real = await realpath(cwd);
    if ((await stat(real)).isDirectory()) return real;
  } catch {
    // Told below.
  }
  throw invalidParams(`cwd: ${cwd.slice(0, 200)} is no directory`);
}
