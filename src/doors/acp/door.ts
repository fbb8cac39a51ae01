/**
 * The ACP door: Rotunda as the agent of an editor, over stdin and stdout.
 *
 * Invariant: nothing but messages of the protocol is written to the output; when the input ends, everything that this
 * process started ends with it, and what runs is left so that it can be gone on with.
 */
import type { Readable, Writable } from "node:stream";
import {
  type AgentApp,
  type AgentContext,
  agent,
  type InitializeRequest,
  type InitializeResponse,
  PROTOCOL_VERSION,
} from "@agentclientprotocol/sdk/unstable";
import type { App } from "../../types/app.ts";
import { Apps, type NewApp } from "./apps.ts";
import type { Choices } from "./choices.ts";
import { answerElicitations } from "./elicitations.ts";
import { toRequestError } from "./errors.ts";
import { jsonLines } from "./lines.ts";
import type { Features, SessionOptions } from "./session.ts";
import { Sessions } from "./sessions.ts";

export interface AcpOptions {
  input: Readable;
  output: Writable;
  /** Of Rotunda, told to clients. */
  version: string;
  newApp: NewApp;
  /** An app to look things up with, of whatever directory; not closed here. */
  base(): Promise<App>;
  /** Starts a turn where it outlives this process, if there is such a place; else in this one. */
  start: SessionOptions["start"];
  /** What sessions begin with. */
  wanted: Partial<Choices>;
  /** Absolute path of the configuration file that was named. */
  configuration?: string;
}

export interface AcpDoor {
  /** Resolves when the client has gone, or `close` was called, and nothing of ours is left. */
  closed: Promise<void>;
  close(): void;
}

export function openAcpDoor(options: AcpOptions): AcpDoor {
  const door = new Door(options);
  const connection = door.app.connect(jsonLines(options.input, options.output));
  const closed = connection.closed.then(async () => {
    // Whoever waits for a line waits no longer: an open pipe would keep the process.
    options.input.destroy();
    await door.end();
  });
  return { closed, close: () => connection.close() };
}

class Door {
  readonly app: AgentApp;
  readonly #options: AcpOptions;
  #client: AgentContext | undefined;
  #features: Features = featuresOf({ protocolVersion: PROTOCOL_VERSION });
  #sessions: Sessions | undefined;

  constructor(options: AcpOptions) {
    this.#options = options;
    this.app = agent({ name: "rotunda" });
    this.app.onConnect(({ client }) => {
      this.#client = client;
    });
    this.#answerInitialize();
    this.#answerOpening();
    this.#answerSessions();
    this.#answerPrompts();
  }

  async end(): Promise<void> {
    await this.#sessions?.closeAll();
  }

  /** They are made with what `initialize` has told of the client. */
  get #all(): Sessions {
    this.#sessions ??= this.#makeSessions();
    return this.#sessions;
  }

  #makeSessions(): Sessions {
    const { newApp, base, start, wanted, configuration } = this.#options;
    const client = this.#client;
    if (!client) throw new Error("the connection is not open yet");
    const features = this.#features;
    const apps = new Apps(newApp, (app) => answerElicitations(app, client, features, this.#all));
    const common = { apps, base, client, features, start, wanted };
    return new Sessions({ ...common, ...(configuration !== undefined && { configuration }) });
  }

  #answerInitialize(): void {
    this.app.onRequest("initialize", ({ params }) => {
      this.#features = featuresOf(params);
      return capabilities(this.#options.version);
    });
  }

  #answerOpening(): void {
    this.app.onRequest("session/new", ({ params }) =>
      answering(async () => {
        const session = await this.#all.begin(params);
        soon(() => session.tellCommands());
        return { sessionId: session.id, ...(await session.state()) };
      }),
    );
    this.app.onRequest("session/load", ({ params }) =>
      answering(async () => {
        const session = await this.#all.takeUp(params.sessionId, params, { replay: true });
        soon(() => session.tellCommands());
        return session.state();
      }),
    );
    this.app.onRequest("session/resume", ({ params }) =>
      answering(async () => {
        const session = await this.#all.takeUp(params.sessionId, params, { replay: false });
        soon(() => session.tellCommands());
        return session.state();
      }),
    );
    this.app.onRequest("session/fork", ({ params }) =>
      answering(async () => {
        const session = await this.#all.fork(params.sessionId, params);
        soon(() => session.tellCommands());
        return { sessionId: session.id, ...(await session.state()) };
      }),
    );
  }

  #answerSessions(): void {
    this.app.onRequest("session/list", ({ params }) => answering(() => this.#all.list(params)));
    this.app.onRequest("session/close", ({ params }) => answering(() => this.#all.close(params.sessionId)));
    this.app.onRequest("session/delete", ({ params }) => answering(() => this.#all.delete(params.sessionId)));
    this.app.onRequest("session/set_mode", ({ params }) =>
      answering(() => this.#all.get(params.sessionId).setMode(params.modeId)),
    );
    this.app.onRequest("session/set_config_option", ({ params }) =>
      answering(async () => ({
        configOptions: await this.#all.get(params.sessionId).choose(params.configId, params.value),
      })),
    );
  }

  #answerPrompts(): void {
    this.app.onRequest("session/prompt", ({ params, signal }) =>
      answering(async () => {
        const session = this.#all.get(params.sessionId);
        const answer = session.prompt(params);
        // The client takes the request back. (An end of the connection aborts it too, but takes nothing back.)
        const cancel = () => signal.reason?.code === REQUEST_CANCELLED && session.cancel();
        signal.addEventListener("abort", cancel, { once: true });
        try {
          return await answer;
        } finally {
          signal.removeEventListener("abort", cancel);
        }
      }),
    );
    this.app.onNotification("session/cancel", ({ params }) => {
      // One that is not open has nothing to cancel, and a notification has no answer.
      this.#sessions?.find(params.sessionId)?.cancel();
    });
  }
}

const REQUEST_CANCELLED = -32_800;

async function answering<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toRequestError(error);
  }
}

/** Behind the answer to the request at hand: before it, the client does not know the session yet. */
function soon(work: () => Promise<void>): void {
  setImmediate(() => {
    // The client may have gone in the meantime.
    work().catch(() => undefined);
  });
}

function featuresOf({ clientCapabilities }: InitializeRequest): Features {
  const { session, elicitation } = clientCapabilities ?? {};
  return {
    notices: session?.notices != null,
    compaction: session?.compaction != null,
    elicitationForm: elicitation?.form != null,
    elicitationUrl: elicitation?.url != null,
  };
}

/** What is promised here is done. */
function capabilities(version: string): InitializeResponse {
  return {
    protocolVersion: PROTOCOL_VERSION,
    agentInfo: { name: "rotunda", title: "Rotunda", version },
    authMethods: [],
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: true, audio: false, embeddedContext: true },
      mcpCapabilities: { http: true, sse: false },
      sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {}, fork: {} },
    },
  };
}
