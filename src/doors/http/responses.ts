/**
 * `/v1/responses`: create, read, cancel, delete, steer, go on.
 *
 * Invariant: an answer leaves only after the response is on disk; whoever waits for a foreground response and goes
 * away cancels it, unless the request had an idempotency key, whose repetition will find the answer.
 */
import { RotundaError } from "../../types/error.ts";
import type { Item } from "../../types/item.ts";
import type { FullResponse, ResponseNode } from "../../types/response.ts";
import { ownApproval, ownerFilter, ownNode, ownResponse } from "./access.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import { goOn, resume } from "./go-on.ts";
import { readInput } from "./input-items.ts";
import { page, readPage } from "./paging.ts";
import { placeAnswers } from "./responses-history.ts";
import { responseObject } from "./responses-object.ts";
import { requestOf } from "./responses-request.ts";
import type { CreateResponse } from "./responses-schemas.ts";
import { responseFrames } from "./responses-stream.ts";
import type { Handler } from "./routes.ts";
import { wireItem } from "./wire-items.ts";

export const createResponse: Handler<CreateResponse> = async (context, given) => {
  const known = await knownAnswers(context);
  if (known) return deliver(context, known, { background: true, stream: given.stream === true });
  const body = await placeAnswers(context, given);
  const answered = await answersOnly(context, body);
  if (answered) return deliver(context, answered, { background: true, stream: body.stream === true });
  // What cannot be streamed must not run either.
  if (body.stream) context.reserveStream();
  const release = await context.acquireRun();
  let started: ResponseNode;
  try {
    started = await context.app.engine.start(await requestOf(context, body));
  } catch (error) {
    release();
    throw error;
  }
  context.accepted = true;
  context.responseId = started.id;
  context.app.engine.wait(started.id).then(release, release);
  return deliver(context, started, { background: body.background === true, stream: body.stream === true });
};

/**
 * A response that waits for a person cannot be gone on from; but when all that the client sends is the answer that
 * it waits for, that answer is what it means.
 */
async function answersOnly(context: RequestContext, body: CreateResponse): Promise<ResponseNode | undefined> {
  const { input, previous_response_id: id } = body;
  if (!id || !Array.isArray(input) || input.length === 0) return undefined;
  if (!input.every((item) => item.type === "mcp_approval_response")) return undefined;
  const node = await ownNode(context, id).catch(() => undefined);
  if (!node || node.endedAt !== null) return undefined;
  if (!context.identity.scopes.includes("approve")) {
    throw new DoorError("insufficient_scope", "this token may not answer approvals", { param: "input" });
  }
  for (const item of await readInput(input, async () => undefined)) {
    if (item.type !== "mcp_approval_response") continue;
    const { approval_request_id: approval, approve, reason } = item;
    const asked = await ownApproval(context, approval);
    const by = { by: context.identity.name, who: context.identity.owner, door: "http" };
    const decision = { decision: approve ? "allow" : "deny", ...by } as const;
    await context.app.engine.decide(approval, { ...decision, ...(reason !== null && { reason }) });
    await goOn(context.services, asked);
  }
  await keepAnswers(context, node.id);
  return node;
}

/** The response that the same answers, under the same key, have gone to before. */
async function knownAnswers({ app, identity, idempotency }: RequestContext): Promise<ResponseNode | undefined> {
  const record = idempotency && (await app.store.idempotency(identity.owner, `${ANSWERS}${idempotency.key}`));
  if (!record || record.digest !== idempotency.digest || record.responseId === null) return undefined;
  return app.store.node(record.responseId);
}

/** No header can hold it: these keys are ours, beside those of requests that start a response. */
const ANSWERS = "\u0000answers ";
const KEY_LIFE = 24 * 3_600_000;

async function keepAnswers({ app, identity, idempotency }: RequestContext, responseId: string): Promise<void> {
  if (!idempotency) return;
  const { key, digest } = idempotency;
  const record = { owner: identity.owner, key: `${ANSWERS}${key}`, digest, responseId, answer: null };
  await app.store.saveIdempotency({ ...record, expiresAt: Date.now() + KEY_LIFE });
}

interface Delivery {
  background: boolean;
  stream: boolean;
}

async function deliver(context: RequestContext, node: ResponseNode, { background, stream }: Delivery): Promise<void> {
  const { engine } = context.app;
  const { id } = node;
  const erase = async () => {
    if (node.settings.store === false) await eraseUnstored(context, id);
  };
  if (stream) {
    const leave = background ? () => undefined : cancelOnLeave(context, id);
    try {
      await streamFrom(context, id, -1, erase);
    } finally {
      leave();
      await erase();
    }
    return;
  }
  if (background) return context.json(200, responseObject(await engine.get(id)));
  const leave = cancelOnLeave(context, id);
  try {
    await engine.wait(id);
    const answer = responseObject(await engine.get(id));
    await erase();
    context.json(200, answer);
  } finally {
    leave();
    // Also where the client has gone before the end.
    await erase();
  }
}

/** `atEnd` is done before the last event is told. */
function streamFrom(
  context: RequestContext,
  id: string,
  after: number,
  atEnd: () => Promise<void> = async () => undefined,
): Promise<void> {
  const { app } = context;
  return context.stream({ frames: (signal) => responseFrames({ app, id, after, atEnd }, signal) });
}

/** Cancels the response when the client goes away before its end. Returns what takes that back. */
export function cancelOnLeave(context: RequestContext, id: string): () => void {
  if (context.idempotency) return () => undefined;
  const { signal } = context;
  const cancel = () => {
    if (signal.reason !== "client_gone") return;
    context.app.engine.cancel(id, "the client went away").catch(() => undefined);
  };
  if (signal.aborted) cancel();
  signal.addEventListener("abort", cancel, { once: true });
  return () => signal.removeEventListener("abort", cancel);
}

/** `store: false`: what was told is all that remains. A run that is still going is erased when it has ended. */
export async function eraseUnstored(context: RequestContext, id: string): Promise<void> {
  const { app } = context;
  const node = await app.store.node(id);
  if (node?.settings.store !== false) return;
  if (node.endedAt === null) await app.engine.wait(id).catch(() => undefined);
  if ((await app.store.node(id))?.endedAt) await app.engine.delete(id);
}

export const getResponse: Handler = async (context) => {
  const { query } = context;
  const response = await ownResponse(context, context.params.id ?? "");
  // The contract has no word for a response that waits for a person: there it is in progress.
  const waits = response.status === "waiting" && { rotunda_status: response.status };
  if (query.get("stream") !== "true") {
    const times = query.get("durations") === "true" && { rotunda_durations: await durationsOf(context, response.id) };
    return context.json(200, { ...responseObject(response), ...waits, ...times });
  }
  const after = query.get("starting_after");
  const number = after === null ? -1 : Number(after);
  if (after !== null && !/^\d{1,15}$/.test(after)) {
    throw new DoorError("usage", "starting_after is the number of an event, from 0.", { param: "starting_after" });
  }
  await revive(context, response);
  return streamFrom(context, response.id, number);
};

/** Milliseconds that its calls took, by the ids of their items. */
async function durationsOf({ app }: RequestContext, id: string): Promise<Record<string, number>> {
  const { entries = [] } = (await app.store.get(id)) ?? {};
  const known = entries.flatMap(({ item, meta }) => (meta.duration === undefined ? [] : [[item.id, meta.duration]]));
  return Object.fromEntries(known) as Record<string, number>;
}

/** One that was left behind by a process that is gone, and that nobody has taken up yet, goes on here. */
async function revive({ app, services }: RequestContext, response: FullResponse): Promise<void> {
  if (response.endedAt !== null || response.status === "queued") return;
  // With a queue, what waits has left all processes, and its answer puts it in again.
  if (app.queue && response.status === "waiting") return;
  await resume(services, response).catch(() => undefined);
}

export const usageOfResponse: Handler = async (context) => {
  const { id, usage } = await ownResponse(context, context.params.id ?? "");
  const { responses, tokens, cost } = await context.app.store.usedBelow(id);
  context.json(200, { object: "response.usage", id, usage, below: { responses, total_tokens: tokens, cost } });
};

export const listResponses: Handler = async (context) => {
  const { limit, after } = readPage(context, "desc");
  const wanted = context.query.get("status");
  const known = ["queued", "in_progress", "waiting", "completed", "incomplete", "failed", "cancelled"] as const;
  const status = known.find((one) => one === wanted);
  if (wanted !== null && wanted !== "running" && !status) {
    throw new DoorError("usage", `status can be running, ${known.join(", ")}.`, { param: "status" });
  }
  // Somebody else's response is no place in this list, as one that does not exist is none.
  if (after !== undefined && !(await ownNode(context, after).catch(() => undefined))) {
    return context.json(200, page([], false));
  }
  const open = ["queued", "in_progress", "waiting"] as const;
  const nodes = await context.app.store.list({
    ...ownerFilter(context),
    limit: limit + 1,
    ...(after !== undefined && { before: after }),
    ...(wanted === "running" ? { status: open } : status && { status: [status] }),
  });
  const said = await (await context.app.store.browsing()).excerpts(nodes.map(({ id }) => id));
  const shown = nodes.slice(0, limit).map((node) => {
    // What can be megabytes for each is in the response itself.
    const {
      instructions: _i,
      tools: _t,
      text: _x,
      output: _o,
      ...fields
    } = responseObject({
      ...node,
      input: [],
      output: [],
      turns: 0,
    });
    const { status: rotunda_status, profile, door, workspace } = node;
    const ours = { prompt_excerpt: said.get(node.id)?.prompt ?? null, cost: node.usage.cost ?? null };
    return { ...fields, rotunda_status, profile, door, workspace, ...ours };
  });
  context.json(200, page(shown, nodes.length > limit));
};

export const cancelResponse: Handler = async (context) => {
  const node = await ownNode(context, context.params.id ?? "");
  // Cancelling twice is the same as once (OpenAI reference).
  if (node.endedAt === null) {
    await context.app.engine.cancel(node.id, "cancelled by the client").catch((error: unknown) => {
      if (!(error instanceof RotundaError && error.code === "response_ended")) throw error;
    });
    await context.app.engine.wait(node.id);
    const { identity } = context;
    await context.app.store.audit({
      action: "cancel",
      who: identity.owner,
      door: "http",
      responseId: node.id,
      at: Date.now(),
      details: {},
    });
  }
  context.json(200, responseObject(await context.app.engine.get(node.id)));
};

export const deleteResponse: Handler = async (context) => {
  const node = await ownNode(context, context.params.id ?? "");
  await context.app.engine.delete(node.id);
  const entry = { who: context.identity.owner, door: "http", responseId: node.id, at: Date.now(), details: {} };
  await context.app.store.audit({ action: "delete", ...entry });
  context.json(200, { id: node.id, object: "response", deleted: true });
};

export const listInputItems: Handler = async (context) => {
  const response = await ownResponse(context, context.params.id ?? "");
  context.json(200, pageOfItems(context, response.input));
};

/** A page of items in the wire's order of listing. */
export function pageOfItems(context: RequestContext, items: readonly Item[]) {
  const { limit, after, order } = readPage(context, "desc");
  const ordered = order === "desc" ? [...items].reverse() : items;
  const from = after === undefined ? 0 : ordered.findIndex((item) => item.id === after) + 1;
  if (after !== undefined && from === 0)
    throw new DoorError("usage", "after names no item of this list.", { param: "after" });
  return page(ordered.slice(from, from + limit).map(wireItem), ordered.length > from + limit);
}

export const steerResponse: Handler<{ input: string | unknown[] }> = async (context, body) => {
  const node = await ownNode(context, context.params.id ?? "");
  const items = await readInput(body.input, async () => undefined);
  if (items.length === 0 || items.some((item) => item.type !== "message" || item.role === "assistant")) {
    throw new DoorError("usage", "Only messages of the user can steer a run.", { param: "input" });
  }
  await context.app.engine.steer(node.id, items);
  context.json(200, responseObject(await context.app.engine.get(node.id)));
};

export const resumeResponse: Handler = async (context) => {
  const node = await ownNode(context, context.params.id ?? "");
  const release = await context.acquireRun();
  let id: string;
  try {
    const resumed = await resume(context.services, node);
    id = resumed.node.id;
    resumed.app.engine.wait(id).then(release, release);
  } catch (error) {
    release();
    throw error;
  }
  context.accepted = true;
  context.responseId = id;
  context.json(200, responseObject(await context.app.engine.get(id)));
};
