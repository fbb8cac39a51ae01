/**
 * Connection: the life of one configured server. configured → known → started → healthy, or failed.
 *
 * Invariant: at most one session lives or is being opened at a time and all runs share it; a call of a run goes out
 * only if the server still offers the tool with the very definition that the run was shown.
 */
import type { HubLogLine } from "../types/app.ts";
import type { ServerConfig } from "../types/config.ts";
import type { JsonObject } from "../types/json.ts";
import { visible } from "../util/text.ts";
import { describeChange } from "./changes.ts";
import { Circuit } from "./circuit.ts";
import { featuresOf } from "./client-features.ts";
import type { ListedTool } from "./definitions.ts";
import { FailureMemory, type FailureTimes } from "./failure-memory.ts";
import { CallFailure, describe, orCancelled } from "./failures.ts";
import { FirstListing } from "./first-listing.ts";
import type { HubEnvironment, ServerInfo, ServerState } from "./hub-types.ts";
import { KnownTools } from "./known-tools.ts";
import type { ServerLog } from "./logs.ts";
import type { PinnedTool } from "./manifest.ts";
import { accountFor, loginNeed, type OAuthAccount } from "./oauth-account.ts";
import { RefreshTimer } from "./refresh-timer.ts";
import { createScrubber, sessionTarget } from "./server-environment.ts";
import type { CallOptions, Session } from "./session.ts";
import type { StdioTransport } from "./stdio-transport.ts";
import { UnderWay } from "./under-way.ts";

/** Milliseconds. */
const HANDSHAKE_TIMEOUT = 60_000;
const STDERR_SHOWN = 2000;
/** Between two attempts at a server that waits for a login, which it may have ceased to want. */
const LOGIN_PAUSE = 60_000;

export class Connection {
  readonly config: ServerConfig;
  /** Undefined where the server is not logged in to. */
  readonly account: OAuthAccount | undefined;
  readonly #environment: HubEnvironment;
  readonly #circuit = new Circuit();
  readonly #scrub: (text: string) => string;
  readonly #lifetime = new AbortController();
  readonly #known: KnownTools;
  readonly #only: { capabilities: JsonObject } | undefined;
  #session: Session | undefined;
  #opening: Promise<Session> | undefined;
  #closing: Promise<void> = Promise.resolve();
  readonly #retired = new Set<Session>();
  #process: StdioTransport | undefined;
  #error: string | undefined;
  #failed = false;
  #openedAt: number | undefined;
  #triedAt = Number.NEGATIVE_INFINITY;
  readonly #refreshTimer: RefreshTimer;
  readonly #log: ServerLog;
  #reconnectTimer: NodeJS.Timeout | undefined;
  /** It has worked in this process: it is worth bringing back. */
  #worked = false;
  #retiring = false;
  readonly #underWay = new UnderWay();
  readonly #memory: FailureMemory;
  readonly #listing: FirstListing;

  /** `only`: for clients of the gateway that can do this, beside the connection that all others share. */
  constructor(config: ServerConfig, environment: HubEnvironment, log: ServerLog, only?: { capabilities: JsonObject }) {
    this.config = config;
    this.#environment = environment;
    this.#log = log;
    this.#only = only;
    const scrub = createScrubber(config);
    this.#scrub = (text) => environment.redact(scrub(text));
    this.account = accountFor(config, environment);
    this.#refreshTimer = new RefreshTimer(environment.clock, () => this.#refresh());
    this.#known = new KnownTools({
      config,
      directory: environment.directory,
      keeps: only === undefined,
      now: () => environment.clock.now(),
      warn: (text) => this.#say("warn", text),
      onChange: () => environment.hear(config.name, { kind: "tools" }),
    });
    const { clock, directory } = environment;
    this.#memory = new FailureMemory(directory, this.#known.key, only === undefined, () => clock.now());
    const say = (text: string) => this.#say("warn", text);
    this.#listing = new FirstListing({
      config,
      clock,
      memory: this.#memory,
      say,
      explain: (why) => this.#explain(why),
    });
  }

  get state(): ServerState {
    if (this.#session) return "healthy";
    if (this.#opening) return this.#listing.late === undefined ? "started" : "failed";
    if (this.account?.needsLogin) return "needs_login";
    if (this.#failed || this.#memory.recent) return "failed";
    return this.tools ? "known" : "configured";
  }

  /** Tools of the last listing, in order; undefined while there has never been one. */
  get tools(): readonly PinnedTool[] | undefined {
    return this.#known.tools;
  }

  /** The live one. */
  get session(): Session | undefined {
    return this.#session;
  }

  /** A list without tools would never be asked for again: nothing of it can be called. */
  get #remembered(): boolean {
    return (this.tools?.length ?? 0) > 0;
  }

  info(): ServerInfo {
    const tail = this.#stderrTail();
    const { pid, skipped } = this.#process ?? {};
    const { state } = this;
    const failure = state === "failed" ? (this.#listing.late ?? this.#memory.recent?.why) : undefined;
    const known = state === "known" ? undefined : (this.#error ?? failure);
    const error = state === "needs_login" ? this.account?.loginRequired().message : known;
    return {
      name: this.config.name,
      state,
      connected: this.#session !== undefined,
      enabled: true,
      transport: this.config.transport,
      toolCount: this.tools?.length ?? 0,
      origin: this.config.origin,
      ...(error === undefined ? {} : { error }),
      ...(pid === undefined ? {} : { pid }),
      ...(tail === "" ? {} : { stderrTail: tail }),
      ...(skipped ? { skippedLines: skipped } : {}),
    };
  }

  /** Starts the server in the background, if nothing is known of it and its failures allow it. */
  begin(): void {
    if (this.#remembered || this.#session || this.#opening) return;
    if (this.#circuit.mayStart(this.#environment.clock.now())) this.open().catch(() => undefined);
  }

  /** Waits for the first listing, if there is one to wait for (see `FirstListing`); never rejects. */
  async listed(signal: AbortSignal | undefined, only = false): Promise<void> {
    const opening = this.#opening;
    if (this.#remembered || !opening || this.#openedAt === undefined) return;
    await this.#listing.wait(opening, this.#openedAt, signal, only);
  }

  /** The session, opened if need be; many callers share one opening. Throws `CallFailure`. */
  async open(): Promise<Session> {
    if (this.#lifetime.signal.aborted) throw new CallFailure("refused", "the hub is closed");
    if (this.#session) return this.#session;
    if (this.#opening) return this.#opening;
    const now = this.#environment.clock.now();
    if (this.account?.needsLogin && now - this.#triedAt < LOGIN_PAUSE)
      throw new CallFailure("refused", this.account.loginRequired().message, { needsLogin: true });
    const wait = this.#circuit.refusedFor(now);
    if (wait > 0) {
      const message = `the server keeps failing (${this.#error ?? "unknown"}); next attempt in ${Math.ceil(wait / 1000)} s`;
      throw new CallFailure("refused", message);
    }
    this.#openedAt ??= now;
    this.#triedAt = now;
    const opening = this.#start().finally(() => {
      if (this.#opening === opening) this.#opening = undefined;
    });
    this.#opening = opening;
    return opening;
  }

  async #start(): Promise<Session> {
    const signal = this.#lifetime.signal;
    const { clock } = this.#environment;
    const began = clock.now();
    try {
      await this.#closing;
      // Neither child processes nor HTTP are loaded where remembered lists are enough.
      const { openSession } = await import("./session.ts");
      const session = await openSession({
        target: sessionTarget(this.config, this.#environment, this.account),
        version: this.#environment.version,
        era: this.#only ? "legacy" : this.#known.era,
        only: this.#only,
        timeout: Math.max(HANDSHAKE_TIMEOUT, (this.config.startTimeout ?? 0) * 1000),
        signal,
        onToolsChanged: () => this.#refreshTimer.announce(),
        onNews: (news) => this.#environment.hear(this.config.name, news),
        onClosed: () => this.#lost(session),
        onProcess: (transport) => {
          this.#process = transport;
          transport.log = {
            stderr: (piece) => this.#log.addOutput(clock.now(), piece),
            skipped: (line) => this.#log.addSkipped(clock.now(), line),
          };
        },
        features: featuresOf(this.config, this.#environment),
      });
      try {
        signal.throwIfAborted();
        this.#known.take(await session.listTools(signal), session.era);
      } catch (error) {
        await session.close();
        throw error;
      }
      await this.account?.settle();
      this.#session = session;
      this.#failed = false;
      this.#worked = true;
      this.#error = undefined;
      this.#memory.forget();
      this.#environment.hear(this.config.name, { kind: "opened" });
      this.#say("info", `Connected to server: ${this.config.name} (${this.tools?.length ?? 0} tools)`);
      return session;
    } catch (error) {
      const need = loginNeed(error, this.account);
      if (need) {
        await this.account?.note(need, false).catch(() => undefined);
        this.#waitForLogin(need.message);
        throw new CallFailure("refused", need.message, { cause: error, needsLogin: true });
      }
      const { startFailure } = await import("./start-failure.ts");
      const { text, ...times } = startFailure(error, this.config, clock.now() - began, this.#process?.stderr ?? "");
      const why = this.#scrub(text);
      this.#fail(why, why, times);
      throw new CallFailure("not_run", why);
    }
  }

  /** One attempt at a call. Throws `CallFailure`. */
  call(tool: ListedTool, input: JsonObject, options: CallOptions): Promise<unknown> {
    return this.use(options.signal, (session) => {
      const offered = this.tools?.find((each) => each.name === tool.name);
      const [server, name] = [this.config.name, visible(tool.name)];
      if (!offered) throw new CallFailure("refused", `the server ${server} no longer offers the tool ${name}`);
      if (offered.fingerprint !== tool.fingerprint) {
        const change = describeChange(tool, offered);
        const message = `the server ${server} has changed the tool ${name} since it was offered; nothing was run\n${change}`;
        throw new CallFailure("refused", message);
      }
      return session.callTool(tool, input, options);
    });
  }

  /** Whatever is done with a session counts as a call. Throws `CallFailure`. */
  async use<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T> {
    if (this.#retiring) throw new CallFailure("refused", `the server ${this.config.name} is turned off or has changed`);
    return this.#underWay.track(this.#use(signal, work));
  }

  async #use<T>(signal: AbortSignal, work: (session: Session) => Promise<T>): Promise<T> {
    // The opening is shared: a caller that gives up leaves it to the others.
    const live = signal.aborted ? undefined : this.#session;
    const session = live ?? (await orCancelled(() => this.open(), signal));
    try {
      const result = await work(session);
      this.#circuit.succeed();
      return result;
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
      if (error.needsLogin) this.#loggedOut(session, error.message);
      else if (error.sessionLost) this.#drop(session, error.message);
      else if (error.listStale) await this.#refresh();
      else if (error.kind === "rejected" || error.kind === "answered") this.#circuit.succeed();
      throw error.sessionLost ? new CallFailure(error.kind, this.#explain(error.message), { cause: error }) : error;
    }
  }

  /** A person has seen the change of a tool: its present definition is the pinned one from now on. */
  accept(name: string): void {
    this.#known.accept(name);
  }

  async #refresh(): Promise<void> {
    const session = this.#session;
    if (!session) return;
    try {
      this.#known.take(await session.listTools(this.#lifetime.signal), session.era);
    } catch (error) {
      if (this.#session === session) this.#say("warn", `${this.config.name}: tool list not read: ${describe(error)}`);
    }
  }

  #lost(session: Session): void {
    if (this.#session === session)
      this.#drop(session, `the server ${this.#process?.ending ?? "closed the connection"}`);
  }

  #drop(session: Session, why: string): void {
    if (this.#session !== session) return;
    this.#session = undefined;
    this.#fail(why);
    if (session.process) this.#closing = session.close();
    else this.#retire(session);
  }

  /** Over HTTP the calls of a session are independent: those under way keep it until they end. */
  #retire(session: Session): void {
    this.#retired.add(session);
    void session
      .idle()
      .then(() => session.close())
      .finally(() => this.#retired.delete(session));
  }

  /** It works, and does not let us in: neither the circuit nor a new connection has anything to do with it. */
  #waitForLogin(why: string): void {
    this.#failed = false;
    this.#error = this.#scrub(visible(why));
    this.#say("warn", this.#error);
  }

  #loggedOut(session: Session, why: string): void {
    if (this.#session !== session) return;
    this.#session = undefined;
    this.#retire(session);
    this.#waitForLogin(why);
  }

  #fail(why: string, told = this.#explain(visible(why)), times: FailureTimes = {}): void {
    if (this.#lifetime.signal.aborted) return;
    this.#failed = true;
    this.#error = this.#scrub(visible(why));
    this.#memory.note(this.#error, times);
    this.#circuit.fail(this.#environment.clock.now(), this.#process?.flooded ?? false);
    this.#say("warn", `MCP server ${this.config.name} failed: ${told}`);
    this.#scheduleReconnect();
  }

  /** What worked is brought back by itself, after the circuit's delay; each failure doubles it. */
  #scheduleReconnect(): void {
    if (!this.#worked || this.#retiring || this.#reconnectTimer || !this.#environment.reconnect) return;
    const wait = this.#circuit.waitFor(this.#environment.clock.now());
    this.#reconnectTimer = setTimeout(() => {
      this.#reconnectTimer = undefined;
      if (!this.#session) this.open().catch(() => undefined);
    }, wait).unref();
  }

  #stderrTail(): string {
    return this.#scrub(
      visible(this.#process?.stderr ?? "")
        .trim()
        .slice(-STDERR_SHOWN),
    );
  }

  #explain(why: string): string {
    const last = this.#stderrTail().split("\n").slice(-5).join("\n").slice(-500);
    return last === "" ? this.#scrub(why) : `${this.#scrub(why)}; its last words: ${last}`;
  }

  #say(level: "info" | "warn", text: string): void {
    this.#log.add(this.#environment.clock.now(), text);
    this.#environment.notify({ responseId: null, level, topic: "mcp", text });
  }

  /** Ends the process and starts it again, whatever its failures; resolves when it is healthy. */
  async restart(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    const session = this.#session;
    this.#session = undefined;
    if (session) this.#closing = session.close();
    await this.retry();
  }

  /** Connects now, whatever its failures. */
  async retry(): Promise<void> {
    this.#circuit.succeed();
    this.#triedAt = Number.NEGATIVE_INFINITY;
    await this.open();
  }

  /** Takes no more calls; those under way run to their end, then it closes. */
  async retire(): Promise<void> {
    this.#retiring = true;
    await this.#underWay.idle();
    await this.close();
  }

  logs(): HubLogLine[] {
    return this.#log.read(this.#scrub);
  }

  async close(): Promise<void> {
    clearTimeout(this.#reconnectTimer);
    this.#lifetime.abort(new Error("the hub is closed"));
    this.#refreshTimer.stop();
    await this.#opening?.catch(() => undefined);
    const sessions = [this.#session, ...this.#retired];
    this.#session = undefined;
    await Promise.all(sessions.map((session) => session?.close()));
    await this.#closing;
    await this.#known.saved();
  }
}
