/**
 * One lane of a WebSocket: its responses come one after the other.
 *
 * Invariant: what is not to be stored lives as long as the lane may go on from it, which is until its next response
 * has ended, a try to go on from it has failed, or the connection has gone; then it is erased.
 */
import { RotundaError } from "../../types/error.ts";
import type { ResponseNode } from "../../types/response.ts";
import type { RequestContext } from "./context.ts";
import { describeError } from "./errors.ts";
import { cancelOnLeave, eraseUnstored } from "./responses.ts";
import { placeAnswers } from "./responses-history.ts";
import { requestOf } from "./responses-request.ts";
import type { CreateResponse } from "./responses-schemas.ts";
import { responseFrames } from "./responses-stream.ts";
import { wrong } from "./responses-tools.ts";
import { dataOf } from "./sse.ts";

/** `response.create` without what only the transport has (Open Responses, "WebSocket Transport"). */
export interface Turn {
  body: CreateResponse;
  /** False: the input is put into the tree, and no model is asked. */
  generate: boolean;
  /** Called when it waits no longer. */
  begins(): void;
}

export interface LaneParts {
  /** Of the handshake: who asks, and from where. */
  context: RequestContext;
  /** Resolves when there is room for more. */
  send(data: string): Promise<void>;
}

/** What a client is told of a turn that never became a response. */
export function errorMessage(thrown: unknown, context: RequestContext): string {
  const { status, body } = describeError(thrown, context);
  return JSON.stringify({ type: "error", status, error: (body as { error: unknown }).error });
}

export class Lane {
  readonly #parts: LaneParts;
  #last: Promise<void> = Promise.resolve();
  /** The response that is not stored and can be gone on from. */
  #held: string | undefined;
  /** Turns that have come and have not ended. */
  waiting = 0;

  constructor(parts: LaneParts) {
    this.#parts = parts;
  }

  /** Nothing runs or waits in it, and there is nothing that only it could go on from. */
  get isOver(): boolean {
    return this.waiting === 0 && this.#held === undefined;
  }

  /** Resolves when it has ended; never rejects. */
  add(turn: Turn): Promise<void> {
    this.waiting++;
    this.#last = this.#last.then(async () => {
      turn.begins();
      await this.#run(turn);
      this.waiting--;
    });
    return this.#last;
  }

  /** The connection has gone. */
  async close(): Promise<void> {
    await this.#last;
    await this.#hold(undefined);
  }

  async #run(turn: Turn): Promise<void> {
    const { context, send } = this.#parts;
    if (context.gone) return;
    const from = turn.body.previous_response_id ?? undefined;
    try {
      const node = await this.#start(turn);
      await this.#tell(node);
      const { status } = (await context.app.store.node(node.id)) ?? node;
      if (node.settings.store === false && status !== "failed") await this.#hold(node.id);
      else if (status === "failed") await this.#failed(from, node);
      else await this.#hold(undefined);
    } catch (thrown) {
      await this.#failed(from).catch(() => undefined);
      await send(errorMessage(thrown, context));
    }
  }

  async #start({ body: given, generate }: Turn): Promise<ResponseNode> {
    const { context } = this.#parts;
    if (given.background) {
      throw wrong("background", "Over a WebSocket nothing runs in the background: post it to /v1/responses.");
    }
    if (context.services.draining) throw new RotundaError("shutting_down", "The server is shutting down.");
    const body = await placeAnswers(context, given);
    const release = await context.acquireRun();
    try {
      const request = await requestOf(context, body);
      const { engine } = context.app;
      const node = generate ? await engine.start(request) : await engine.record(request);
      context.responseId = node.id;
      engine.wait(node.id).then(release, release);
      return node;
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Resolves when the last event was told, or the client has gone. */
  async #tell({ id, settings }: ResponseNode): Promise<void> {
    const { context, send } = this.#parts;
    const { app, signal } = context;
    const leave = cancelOnLeave(context, id);
    try {
      const frames = responseFrames({ app, id, after: -1, atEnd: async () => undefined }, signal);
      for await (const text of frames) for (const data of dataOf(text)) await send(data);
    } finally {
      leave();
      if (signal.aborted && settings.store === false) await eraseUnstored(context, id);
    }
  }

  async #failed(from: string | undefined, node?: ResponseNode): Promise<void> {
    const { context } = this.#parts;
    if (from !== undefined && from === this.#held) await this.#hold(undefined);
    if (node) await eraseUnstored(context, node.id);
  }

  async #hold(id: string | undefined): Promise<void> {
    const { context } = this.#parts;
    const before = this.#held;
    this.#held = id;
    if (id !== undefined) {
      context.held ??= new Set();
      context.held.add(id);
    }
    if (before === undefined || before === id) return;
    context.held?.delete(before);
    await eraseUnstored(context, before);
  }
}
