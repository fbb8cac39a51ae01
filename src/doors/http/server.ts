/**
 * The HTTP door: Node's server, what every request passes through, and the end of it all.
 *
 * Invariant: a request is answered exactly once, in JSON unless its route says otherwise; the order of the checks is
 * host, origin, route, token, scope, rate, body; nothing that a client sends ends the process.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { App } from "../../types/app.ts";
import { RotundaError } from "../../types/error.ts";
import { newId } from "../../util/ids.ts";
import { instanceOf } from "../../util/instance.ts";
import { ensureLocalToken } from "../../util/local-token.ts";
import { nodeHttp } from "../../util/node-http.ts";
import { Authenticator } from "./authenticate.ts";
import { RequestContext } from "./context.ts";
import { createHardenedServer, isLoopback, TIMEOUTS, type Timeouts } from "./hardening.ts";
import { Limits, type UsageToday } from "./limits.ts";
import { createLog } from "./log.ts";
import { Metrics } from "./metrics.ts";
import { Origins } from "./origins.ts";
import { Pipeline } from "./pipeline.ts";
import { Router } from "./router.ts";
import type { Route } from "./routes.ts";
import type { Services } from "./services.ts";
import { Sessions } from "./sessions.ts";
import { Streams } from "./sse.ts";
import { allRoutes } from "./table.ts";
import type { WebSockets } from "./websocket.ts";

export interface HttpDoorOptions {
  /** Default "127.0.0.1", which like "localhost" also means ::1 where there is one. */
  host?: string;
  /** Default 7070; 0: any that is free. */
  port?: number;
  /** Default "token". "none" only on loopback: whoever reaches the port may do everything. */
  auth?: "token" | "none";
  /** Origins of pages that may ask, beside our own. */
  cors?: readonly string[];
  /** Further names under which we are reached: a proxy's. With or without a port. */
  hosts?: readonly string[];
  /** A proxy in front ends TLS: needed to listen beyond loopback. */
  behindProxy?: boolean;
  /** Routes that need `admin` may be used from other machines. */
  allowRemoteAdmin?: boolean;
  /** Default: that of the state directory, made if there is none. */
  localToken?: string;
  /** Bytes of a body. Default 50 MB. */
  bodyLimit?: number;
  /** One line of the log, without its end. Default: to stderr, in the background. */
  log?: (line: string) => void;
  /** One line for each request. Default true. */
  accessLog?: boolean;
  version?: string;
  timeouts?: Partial<Timeouts>;
  /** Seconds of silence after which a stream says that it still lives. Default 15. */
  streamComment?: number;
  /** Milliseconds that a WebSocket may be open. Default: an hour. */
  socketLife?: number;
  /** Default: what the store has counted. */
  usageToday?: UsageToday;
  /** Default: there is only the one app. */
  appFor?: Services["appFor"];
  /** The servers of MCP behind `/mcp`. They are not closed with the door. */
  mcp?: Services["mcp"];
  /** Beside those of the table. */
  routes?: readonly Route[];
}

export interface HttpDoor {
  /** Resolves with the address when it is listening. Throws `usage` where the port is taken or may not be had. */
  listen(): Promise<string>;
  /** `http://127.0.0.1:7070`. Throws before `listen`. */
  readonly address: string;
  /** True where everybody who reaches the port may do everything. */
  readonly open: boolean;
  readonly services: Services;
  readonly router: Router;
  /**
   * Takes nothing new, lets what runs come to its end for some seconds (default 8), then ends streams and answers the
   * rest with 503. The app stays open.
   */
  close(options?: { seconds?: number }): Promise<void>;
}

/** Throws `usage` where the options would open the door wider than was meant. */
export function createHttpDoor(app: App, options: HttpDoorOptions = {}): HttpDoor {
  const { host = "127.0.0.1", auth = "token", behindProxy = false } = options;
  if (auth === "none" && (behindProxy || !isLoopback(host))) {
    throw new RotundaError(
      "usage",
      "Without a token it listens on loopback only: --auth none goes with neither another --host nor --behind-proxy.",
    );
  }
  if (!isLoopback(host) && !behindProxy) {
    throw new RotundaError("usage", `To listen on ${host} would send tokens over the network in the clear.`, {
      remedy: "Put a proxy that ends TLS in front of it, and say --behind-proxy.",
    });
  }
  // What is no origin and no name is said before anything listens.
  new Origins(options.port ?? 0, options.hosts ?? [], options.cors ?? []);
  return new Door(app, { ...options, host, auth, behindProxy });
}

class Door implements HttpDoor {
  readonly services: Services;
  readonly router = new Router();
  readonly open: boolean;
  readonly #options: HttpDoorOptions & { host: string };
  readonly #servers: Server[] = [];
  readonly #pipeline: Pipeline;
  readonly #inFlight = new Set<RequestContext>();
  /** Those of one connection that have no whole answer yet. */
  readonly #waiting = new WeakMap<Socket, Set<RequestContext>>();
  #watch: NodeJS.Timeout | undefined;
  #connections = 0;
  #address: string | undefined;
  #whenIdle: (() => void) | undefined;
  readonly #closeLog: () => void;
  #webSockets: WebSockets | undefined;

  constructor(app: App, options: HttpDoorOptions & { host: string; auth: "token" | "none"; behindProxy: boolean }) {
    this.#options = options;
    this.open = options.auth === "none";
    const metrics = new Metrics();
    const output = options.log ? { line: options.log, close: () => undefined } : createLog();
    this.#closeLog = output.close;
    const bodyLimit = options.bodyLimit ?? 50_000_000;
    const lookUp = (id: string) => app.store.token(id);
    const token = this.open ? undefined : (options.localToken ?? ensureLocalToken(app.stateDirectory));
    const authenticator = new Authenticator(token, lookUp);
    this.services = {
      app,
      workspace: app.workspace,
      version: options.version ?? "0",
      instance: instanceOf(app.stateDirectory),
      appFor: options.appFor ?? (async () => app),
      mcp: options.mcp,
      allowRemoteAdmin: options.allowRemoteAdmin ?? false,
      limits: new Limits(options.usageToday ?? ((owner) => app.store.usedOn(owner, Date.now())), (node) =>
        metrics.ended(node),
      ),
      streams: new Streams(lookUp, options.streamComment),
      sessions: new Sessions({
        localToken: token,
        identify: (text) => authenticator.identifyToken(text),
        store: app.store,
        behindProxy: options.behindProxy,
      }),
      metrics,
      bodyLimit,
      bodies: { held: 0, most: Math.max(8 * bodyLimit, 64_000_000) },
      routes: [...allRoutes, ...(options.routes ?? [])],
      connections: () => this.#connections,
      log: (entry) => output.line(app.redact(JSON.stringify({ time: new Date().toISOString(), ...entry }))),
      accessLog: options.accessLog === false ? undefined : output.line,
      draining: false,
    };
    for (const route of this.services.routes) this.router.add(route, metrics.route(route.method, route.path));
    this.#pipeline = new Pipeline({
      services: this.services,
      router: this.router,
      authenticator,
      behindProxy: options.behindProxy,
      allowRemoteAdmin: options.allowRemoteAdmin ?? false,
    });
  }

  get address(): string {
    if (this.#address === undefined) throw new Error("the door does not listen yet");
    return this.#address;
  }

  async listen(): Promise<string> {
    const { host, port = 7070 } = this.#options;
    const both = host === "127.0.0.1" || host === "localhost";
    const first = await this.#listenOn(both ? "127.0.0.1" : host, port);
    if (both) await this.#listenAlso("::1", first.port);
    const shown = host.includes(":") ? `[${host}]` : host;
    this.#address = `http://${shown}:${first.port}`;
    const names = [...(this.#options.hosts ?? []), ...(host === "0.0.0.0" || host === "::" ? [] : [host])];
    const origins = new Origins(first.port, names, this.#options.cors ?? []);
    this.#pipeline.origins = origins;
    this.services.sessions.origins = origins;
    process.on("unhandledRejection", this.#onUnhandled);
    this.#watch = setInterval(() => this.#dropStuck(), 10_000).unref();
    return this.#address;
  }

  /** IPv6 may be turned off; whoever holds the port there already would be taken for us. */
  async #listenAlso(host: string, port: number): Promise<void> {
    try {
      await this.#listenOn(host, port);
    } catch (error) {
      const { code } = (error as Error).cause as NodeJS.ErrnoException;
      if (code === "EADDRNOTAVAIL" || code === "EAFNOSUPPORT" || code === "EINVAL") return;
      await this.close({ seconds: 0 });
      throw error;
    }
  }

  #listenOn(host: string, port: number): Promise<AddressInfo> {
    const server = createHardenedServer({
      handle: this.#handle,
      timeouts: { ...TIMEOUTS, ...this.#options.timeouts },
      isAnswering: (socket) => {
        const [first, second] = this.#waiting.get(socket) ?? [];
        return second !== undefined || first?.response.headersSent === true;
      },
      switches: isWebSocket,
      onSwitch: this.#switch,
      onMalformed: () => void this.services.metrics.malformed++,
      onConnection: (socket) => {
        this.#connections++;
        socket.once("close", () => this.#connections--);
      },
    });
    return new Promise((resolve, reject) => {
      server.once("error", (error: NodeJS.ErrnoException) => reject(cannotListen(host, port, error)));
      server.listen({ host, port, backlog: 1_024 }, () => {
        this.#servers.push(server);
        server.removeAllListeners("error");
        server.on("error", (error) => this.services.log({ level: "error", fault: error.message }));
        resolve(server.address() as AddressInfo);
      });
    });
  }

  readonly #handle = (request: IncomingMessage, response: ServerResponse): void => {
    const context = new RequestContext(this.services, request, response, requestIdOf(request));
    const { socket } = request;
    const written = socket.bytesWritten;
    this.#inFlight.add(context);
    const waiting = this.#waiting.get(socket) ?? new Set();
    this.#waiting.set(socket, waiting.add(context));
    response.once("close", () => {
      this.#inFlight.delete(context);
      waiting.delete(context);
      if (!response.writableFinished) context.abort("client_gone");
      this.#pipeline.record(context, socket.bytesWritten - written);
      if (this.#inFlight.size === 0) this.#whenIdle?.();
    });
    const answer = () =>
      this.#pipeline.answer(context).catch((thrown: unknown) => {
        if (response.headersSent && !response.writableEnded && !context.answer) response.destroy();
        else if (!context.gone) context.error(thrown);
      });
    const { tracer } = this.services.app;
    if (!tracer || UNTRACED.has(context.path)) return void answer();
    const { method = "GET", headers } = request;
    context.span = tracer.request({ method, path: context.path, headers, host: headers.host ?? "" });
    void context.span.within(answer);
  };

  /** A handshake: refused as any request is, or its connection becomes a WebSocket. */
  readonly #switch = (request: IncomingMessage, socket: Socket, head: Buffer): void => {
    const response = new (nodeHttp().ServerResponse)(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    socket.on("error", () => socket.destroy());
    // Nodes before 24.9 ask nobody whether to switch.
    if (!isWebSocket(request)) {
      response.once("finish", () => endSoon(socket));
      this.#handle(request, response);
      return;
    }
    const context = new RequestContext(this.services, request, response, requestIdOf(request));
    const accept = async () => {
      await this.#pipeline.admitSocket(context, "responses:write");
      const { bodyLimit } = this.services;
      this.#webSockets ??= new (await import("./websocket.ts")).WebSockets(bodyLimit, this.#options.socketLife);
      await this.#webSockets.accept(context, { request, socket, head });
    };
    accept()
      .catch((thrown: unknown) => {
        context.error(thrown);
        endSoon(socket);
      })
      .finally(() => this.#pipeline.record(context, socket.bytesWritten));
  };

  /** Answers that nobody fetches must not pile up. */
  #dropStuck(): void {
    const before = performance.now() - FETCHED;
    for (const { answeredAt, response } of this.#inFlight) {
      if (answeredAt !== undefined && answeredAt < before) response.destroy();
    }
  }

  readonly #onUnhandled = (reason: unknown): void => {
    this.services.metrics.unhandledRejections++;
    const fault = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
    this.services.log({ level: "error", unhandled_rejection: fault });
  };

  async close({ seconds = 8 }: { seconds?: number } = {}): Promise<void> {
    this.services.draining = true;
    const closed = this.#servers.map((server) => new Promise((resolve) => server.close(resolve)));
    const patience = sleep(seconds * 1_000, undefined, { ref: false });
    await Promise.all([this.#idle(seconds * 1_000), Promise.race([this.#webSockets?.drain(), patience])]);
    this.services.streams.close("shutting_down");
    for (const context of this.#inFlight)
      context.error(new RotundaError("shutting_down", "The server is shutting down."));
    await this.#idle(500);
    await this.#webSockets?.close();
    for (const server of this.#servers) server.closeAllConnections();
    await Promise.all(closed);
    process.off("unhandledRejection", this.#onUnhandled);
    clearInterval(this.#watch);
    this.services.metrics.close();
    this.#closeLog();
  }

  async #idle(milliseconds: number): Promise<void> {
    if (this.#inFlight.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#whenIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#whenIdle = undefined;
  }
}

/** Nobody reads this socket any more: what the client does with its own end is not waited for. */
function endSoon(socket: Socket): void {
  socket.resume().end();
  setTimeout(() => socket.destroy(), 500).unref();
}

function cannotListen(host: string, port: number, error: NodeJS.ErrnoException): RotundaError {
  const where = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const reasons: Record<string, string> = {
    EADDRINUSE: `Port ${port} is in use: something else listens on ${where}.`,
    EACCES: `This user may not listen on ${where}.`,
    EADDRNOTAVAIL: `This machine has no address ${host}.`,
  };
  return new RotundaError("usage", reasons[error.code ?? ""] ?? `Cannot listen on ${where}: ${error.message}`, {
    cause: error,
    ...(error.code === "EADDRINUSE" && { remedy: "Choose another one with --port, or see rotunda status." }),
  });
}

/** Asked every few seconds by what watches the process. */
const UNTRACED = new Set(["/healthz", "/readyz", "/metrics"]);

/** Milliseconds that a client has to fetch an answer that is no stream. */
const FETCHED = 300_000;

/** `/v1/responses` is the one address that is also a WebSocket's. */
function isWebSocket({ method, url, headers }: IncomingMessage): boolean {
  if (method !== "GET" || headers.upgrade?.toLowerCase() !== "websocket") return false;
  return url === "/v1/responses" || url?.startsWith("/v1/responses?") === true;
}

const GIVEN_ID = /^[\w.:-]{1,128}$/;

function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers["x-request-id"];
  return typeof given === "string" && GIVEN_ID.test(given) ? given : newId("req");
}
