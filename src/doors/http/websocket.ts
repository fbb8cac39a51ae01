/**
 * `/v1/responses` over a WebSocket (Open Responses, "WebSocket Transport"; OpenAI, "WebSocket mode").
 *
 * Invariant: a message that starts a response is the body of a POST, and what comes back are the events of its stream,
 * one a message; responses of one lane (`stream_id`) come one after the other. A client that has gone cancels what it
 * waits for. Who may connect was decided before this is called, and is looked at again while it is open.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type WebSocket, WebSocketServer } from "ws";
import { RotundaError } from "../../types/error.ts";
import type { Json, JsonObject } from "../../types/json.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import { isInForce } from "./identity.ts";
import { parseJsonBody } from "./json-body.ts";
import { createResponse } from "./responses-schemas.ts";
import { wrong } from "./responses-tools.ts";
import { checkBody } from "./validate.ts";
import { errorMessage, Lane, type Turn } from "./websocket-lane.ts";

/** Milliseconds; the limit that OpenAI has. */
const LIFE = 3_600_000;
const PING = 20_000;
const LOOK = 1_000;
/** A client that takes nothing for so long is not there. */
const STALLED = 300_000;
/** Turns of one connection that wait before nothing more is read from it. */
const MOST_WAITING = 16;
const MOST_LANES = 32;
/** Bytes that may wait for the socket before the source is suspended. */
const PENDING = 65_536;

/** Milliseconds that a server which ends waits for its connections. */
const LEAVING = 4_000;

interface Handshake {
  request: IncomingMessage;
  socket: Socket;
  /** What came behind it. */
  head: Buffer;
}

export class WebSockets {
  readonly #server: WebSocketServer;
  readonly #open = new Set<Connection>();
  /** Of connections that have gone, and whose responses still end or are erased. */
  readonly #leaving = new Set<Promise<void>>();
  /** What to do where the library finds that a handshake is none. */
  readonly #refusals = new WeakMap<IncomingMessage, (why: string) => void>();
  readonly #life: number;
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  /** `life`: milliseconds that a connection may be open. Default: an hour. */
  constructor(bodyLimit: number, life = LIFE) {
    this.#life = life;
    this.#server = new WebSocketServer({
      noServer: true,
      maxPayload: bodyLimit,
      perMessageDeflate: false,
      autoPong: false,
      handleProtocols: () => false,
    });
    this.#server.on("wsClientError", (error, _socket, request) => this.#refusals.get(request)?.(error.message));
  }

  /**
   * Takes over the socket of a handshake that was found in order. Resolves when the connection has gone. Throws
   * `rate_limited`, `shutting_down`, `usage` while it can still be answered.
   */
  async accept(context: RequestContext, { request, socket, head }: Handshake): Promise<void> {
    if (context.services.draining) throw new RotundaError("shutting_down", "The server is shutting down.");
    // Whoever has gone already would never be heard to go.
    if (socket.destroyed) return;
    const free = context.services.streams.reserve(context.identity);
    await new Promise<void>((resolve, reject) => {
      const left = () => {
        free();
        resolve();
      };
      socket.once("close", left);
      this.#refusals.set(request, (why) => {
        socket.off("close", left);
        free();
        reject(new DoorError("usage", `${why}.`, { headers: { "sec-websocket-version": "13" } }));
      });
      this.#server.handleUpgrade(request, socket, head, (webSocket) => {
        socket.off("close", left);
        context.response.detachSocket(socket);
        context.switched = true;
        context.answeredAt = performance.now();
        const connection = new Connection(context, webSocket, socket, this.#life);
        this.#open.add(connection);
        this.#timer ??= setInterval(() => this.#look(), LOOK).unref();
        webSocket.once("close", () => {
          this.#open.delete(connection);
          if (this.#open.size === 0) clearInterval(this.#timer);
          if (this.#open.size === 0) this.#timer = undefined;
          free();
          const closed = connection.closed().catch(() => undefined);
          this.#leaving.add(closed);
          closed.finally(() => this.#leaving.delete(closed)).then(resolve, resolve);
        });
      });
    });
  }

  /** Those that wait for nothing end now, the others when they have what they wait for. Resolves when all have. */
  async drain(): Promise<void> {
    await Promise.all([...this.#open].map((connection) => connection.drain()));
  }

  /** Ends all of them. Resolves when what they have left behind is in order, or after some seconds. */
  async close(): Promise<void> {
    const ended = [...this.#open].map((connection) => {
      connection.end(1001, "the server is shutting down");
      return connection.gone;
    });
    const left = Promise.all(ended).then(() => Promise.all(this.#leaving));
    await Promise.race([left, sleep(LEAVING, undefined, { ref: false })]);
  }

  #look(): void {
    const now = performance.now();
    for (const connection of this.#open) connection.look(now);
    if (this.#looking) return;
    this.#looking = true;
    const done = () => {
      this.#looking = false;
    };
    this.#dropRevoked().then(done, done);
  }

  async #dropRevoked(): Promise<void> {
    for (const connection of this.#open) {
      const { app, identity } = connection.context;
      if (!identity.token) continue;
      const token = await app.store.token(identity.owner);
      if (!token || !isInForce(token, Date.now())) connection.end(1008, "the token is no longer in force");
    }
  }
}

class Connection {
  readonly context: RequestContext;
  readonly #socket: WebSocket;
  readonly #lanes = new Map<string, Lane>();
  readonly #expiresAt: number;
  readonly gone: Promise<void>;
  /** Bytes of the message that is not whole yet, as far as they are known. */
  #partial = 0;
  /** Bytes that count in the door's budget of bodies. */
  #held = 0;
  #reading: Promise<void> = Promise.resolve();
  #waiting = 0;
  #paused = false;
  #draining = false;
  #expired = false;
  #heardAt = performance.now();
  #pingedAt = performance.now();
  #takenAt = performance.now();

  constructor(context: RequestContext, socket: WebSocket, wire: Socket, life: number) {
    this.context = context;
    this.#socket = socket;
    this.#expiresAt = performance.now() + life;
    socket.on("message", (data, isBinary) => this.#message(data as Buffer, isBinary));
    // Before the library reads them: what it has begun to put together is held as well.
    wire.prependListener("data", (chunk: Buffer) => this.#received(chunk.length));
    // Who does not read is not answered: the answers would pile up.
    socket.on("ping", (data) => {
      if (socket.bufferedAmount < PENDING && socket.readyState === socket.OPEN) socket.pong(data);
    });
    socket.on("pong", () => {
      this.#heardAt = performance.now();
    });
    // Too long, or no text: the library closes it with the code that says so.
    socket.on("error", () => undefined);
    this.gone = new Promise((resolve) => {
      socket.once("close", () => {
        this.#hold(-this.#partial);
        this.#partial = 0;
        context.abort("client_gone");
        resolve();
      });
    });
  }

  /** What it has left behind is put in order. */
  async closed(): Promise<void> {
    await this.#reading;
    await Promise.all([...this.#lanes.values()].map((lane) => lane.close()));
  }

  async drain(): Promise<void> {
    this.#draining = true;
    this.#endIfIdle();
    await this.gone;
  }

  end(code: number, reason: string): void {
    this.#socket.close(code, reason);
    // Whoever does not answer the farewell is not there.
    setTimeout(() => this.#socket.terminate(), 1_000).unref();
  }

  look(now: number): void {
    if (now >= this.#expiresAt && !this.#expired) {
      this.#expired = true;
      this.#endIfIdle();
    }
    if (this.#socket.bufferedAmount === 0) this.#takenAt = now;
    if (now - this.#takenAt > STALLED) this.#socket.terminate();
    // Nothing is read from it: its answer could not be heard.
    if (this.#paused) this.#heardAt = now;
    if (now - this.#heardAt > 3 * PING) this.#socket.terminate();
    if (now - this.#pingedAt < PING) return;
    this.#pingedAt = now;
    this.#socket.ping();
  }

  #endIfIdle(): void {
    if (this.#waiting > 0) return;
    if (this.#draining) this.end(1001, "the server is shutting down");
    else if (this.#expired) {
      void this.#refuse(limitReached());
      this.end(1001, "open for too long");
    }
  }

  #hold(bytes: number): void {
    this.#held += bytes;
    this.context.services.bodies.held += bytes;
  }

  #received(bytes: number): void {
    const { bodies } = this.context.services;
    this.#partial += bytes;
    this.#hold(bytes);
    // Small messages are not made to suffer for the large ones of others.
    if (bodies.held > bodies.most && this.#held > PENDING && this.#socket.readyState === this.#socket.OPEN)
      this.end(1013, "too many large requests at once");
  }

  #message(data: Buffer, isBinary: boolean): void {
    this.#heardAt = performance.now();
    const size = data.length;
    this.#hold(size - this.#partial);
    this.#partial = 0;
    // It has been told that this is the end.
    if (this.#socket.readyState !== this.#socket.OPEN) {
      this.#hold(-size);
      return;
    }
    let held = size;
    const release = () => {
      this.#hold(-held);
      held = 0;
    };
    this.#waiting++;
    if (this.#waiting >= MOST_WAITING && !this.#paused) {
      this.#paused = true;
      this.#socket.pause();
    }
    // In the order in which they came, though a long one takes longer to read.
    this.#reading = this.#reading.then(async () => {
      const ended = await this.#begin(data, isBinary, release).catch((thrown: unknown) => this.#refuse(thrown));
      (ended?.last ?? Promise.resolve()).then(
        () => this.#ended(release),
        () => this.#ended(release),
      );
    });
  }

  #ended(release: () => void): void {
    release();
    this.#waiting--;
    if (this.#paused && this.#waiting < MOST_WAITING / 2) {
      this.#paused = false;
      this.#socket.resume();
    }
    this.#endIfIdle();
  }

  /** `last` resolves when its response has ended. */
  async #begin(data: Buffer, isBinary: boolean, begins: () => void): Promise<{ last: Promise<void> }> {
    this.context.services.limits.countRequest(this.context.identity);
    if (this.#expired) throw limitReached();
    if (isBinary) throw wrong("type", "Messages are JSON in text frames.");
    const { lane, turn } = await readMessage(await parseJsonBody(data));
    const known = this.#lanes.get(lane);
    if (known) return { last: known.add({ ...turn, begins }) };
    if (this.#lanes.size >= MOST_LANES) this.#dropLane();
    if (this.#lanes.size >= MOST_LANES) {
      throw new DoorError("rate_limited", `A connection has ${MOST_LANES} streams at most.`, {
        wireCode: "websocket_stream_limit_reached",
        param: "stream_id",
      });
    }
    const mark = lane === "" ? "" : `"stream_id":${JSON.stringify(lane)},`;
    const made = new Lane({ context: this.context, send: (text) => this.#send(`{${mark}${text.slice(1)}`) });
    this.#lanes.set(lane, made);
    return { last: made.add({ ...turn, begins }) };
  }

  #dropLane(): void {
    for (const [name, lane] of this.#lanes) if (lane.isOver) return void this.#lanes.delete(name);
  }

  async #refuse(thrown: unknown): Promise<undefined> {
    await this.#send(errorMessage(thrown, this.context));
  }

  /** One message. Resolves when there is room for more, or nobody to tell. */
  #send(text: string): Promise<void> {
    const socket = this.#socket;
    if (socket.readyState !== socket.OPEN) return Promise.resolve();
    if (socket.bufferedAmount < PENDING) {
      socket.send(text);
      return Promise.resolve();
    }
    return new Promise((resolve) => socket.send(text, () => resolve()));
  }
}

function limitReached(): DoorError {
  const text = "This connection has been open for as long as one may be: open another one to go on.";
  return new DoorError("usage", text, { wireCode: "websocket_connection_limit_reached" });
}

/** Fields of the envelope, and those that only HTTP has a use for: to stream is what this transport does. */
async function readMessage(value: Json): Promise<{ lane: string; turn: Omit<Turn, "begins"> }> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new RotundaError("usage", "A message is a JSON object with a type.");
  const { type, stream: _stream, stream_options: _options, stream_id: lane = "", generate, ...rest } = value;
  if (type !== "response.create") {
    const shown = JSON.stringify(type ?? null).slice(0, 60);
    throw new DoorError("usage", `Messages of type ${shown} are not understood: send response.create.`, {
      param: "type",
      wireCode: "invalid_value",
    });
  }
  if (typeof lane !== "string" || lane.length > 64)
    throw wrong("stream_id", "stream_id is a text of up to 64 characters.");
  const body = (await checkBody(createResponse, rest as JsonObject)) as Turn["body"];
  return { lane, turn: { body, generate: generate !== false } };
}
