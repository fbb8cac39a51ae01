/**
 * Where a new response begins: its parent in the tree, and the pointer that moves to it.
 *
 * Invariant: a parent has ended; a pointer moves only if it stood at the parent, else a new one is made (a branch).
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { RunRequest } from "../types/engine.ts";
import { RotundaError, toRotundaError } from "../types/error.ts";
import type { NewEvent, RunEvent } from "../types/event.ts";
import type { Entry, McpCallItem } from "../types/item.ts";
import { type Conversation, LOCAL, type Owner, type ResponseNode } from "../types/response.ts";
import type { IdempotencyRecord, Store } from "../types/store.ts";
import { askedOf } from "../util/asked.ts";
import { newId } from "../util/ids.ts";
import { oneLine } from "../util/text.ts";
import { mayHaveSkippedItsTurn } from "../util/turns.ts";
import { type CallEntry, isCall } from "./next.ts";
import type { Room } from "./room.ts";
import type { Run } from "./run.ts";
import { textsOf } from "./text.ts";
import { usageOf } from "./usage.ts";

/** Whether an owner may see what belongs to another: only whoever holds the machine may. */
function mayUse(owner: Owner, of: Owner): boolean {
  return owner === LOCAL || owner === of;
}

/** The node to go on from: named, or the head of the conversation. It must have ended, unless the request may queue. */
async function parentOf(store: Store, request: RunRequest): Promise<ResponseNode | undefined> {
  const { owner = LOCAL } = request;
  let id = request.previousResponseId;
  if (id === undefined && request.conversation && request.conversation !== "new") {
    const conversation = await store.conversation(request.conversation, owner);
    if (!conversation || !mayUse(owner, conversation.owner))
      throw new RotundaError("not_found", `there is no conversation ${request.conversation}`);
    id = conversation.head ?? undefined;
  }
  if (id === undefined) return undefined;
  const parent = await store.node(id);
  if (!parent || !mayUse(owner, parent.owner)) throw new RotundaError("not_found", `there is no response ${id}`);
  const open = request.queue ? undefined : await openAbove(store, parent);
  if (!open) return parent;
  throw new RotundaError("response_not_ended", `response ${open.id} has not ended (it is ${open.status})`, {
    remedy: `Go on with it first: rotunda resume ${open.id.slice(-8)}, or end it: rotunda cancel ${open.id.slice(-8)}`,
  });
}

/**
 * The response on the path that must end before anything goes on from here; undefined: none. One that was cancelled
 * while it was queued has ended, though what it stood behind may not have.
 */
export async function openAbove(store: Store, node: ResponseNode): Promise<ResponseNode | undefined> {
  for (let above: ResponseNode | undefined = node; above; ) {
    if (above.endedAt === null) return above;
    if (!mayHaveSkippedItsTurn(above) || above.previousResponseId === null) return undefined;
    above = await store.node(above.previousResponseId);
  }
  return undefined;
}

/** The pointer that moves: the one named, the parent's if it stands there, else a new one (a branch). */
async function conversationFor(
  store: Store,
  request: RunRequest,
  parent: ResponseNode | undefined,
  id: string,
  now: number,
): Promise<Conversation | null> {
  if (request.caller || request.conversation === null) return null;
  const named = request.conversation ?? (parent?.conversationId || undefined);
  if (named !== undefined && named !== "new") {
    const known = await store.conversation(named, request.owner);
    // Whoever holds the machine may go on from anywhere; but another's conversation is not moved to where its owner
    // could not follow.
    const branches = request.conversation === undefined && known?.head !== parent?.id;
    const own = known?.owner === (request.owner ?? LOCAL);
    if (known && own && !branches) return { ...known, head: id, updatedAt: now };
  }
  const texts = typeof request.input === "string" ? [request.input] : textsOf(request.input);
  const title = oneLine(askedOf(texts), 60);
  const name = request.conversationName ?? null;
  const { workspace, owner = LOCAL } = request;
  const times = { createdAt: now, updatedAt: now };
  return { id: newId("conv", now), owner, name, title, head: id, workspace, metadata: {}, ...times };
}

export interface Placed {
  node: ResponseNode;
  parent: ResponseNode | undefined;
  /** The pointer that moves to it. */
  conversation: Conversation | null;
}

/** Where a request's response stands in the tree. Throws `not_found`, `response_not_ended`. */
export async function place(
  store: Store,
  asked: RunRequest,
  made: { profile: string; model: string; now: number },
): Promise<Placed> {
  const id = newId("resp", made.now);
  const parent = await parentOf(store, asked);
  const request = parent && parent.endedAt !== null && hasAnswers(asked) ? { ...asked, owner: parent.owner } : asked;
  const conversation = await conversationFor(store, request, parent, id, made.now);
  const caller = request.caller ? await store.node(request.caller.responseId) : undefined;
  const node = newNode(request, {
    ...made,
    id,
    previousResponseId: parent?.id ?? null,
    conversationId: conversation?.id ?? null,
    depth: caller ? caller.depth + 1 : 0,
  });
  return { node, parent, conversation };
}

/** Whoever answers for another: what comes of the answer belongs to whom the question came from. */
function hasAnswers({ input }: RunRequest): boolean {
  return typeof input !== "string" && input.some((item) => item.type === "mcp_approval_response");
}

/** The node of a request, before anything of it has run. */
function newNode(
  request: RunRequest,
  {
    id,
    now,
    ...given
  }: Pick<ResponseNode, "id" | "profile" | "model" | "previousResponseId" | "conversationId" | "depth"> & {
    now: number;
  },
): ResponseNode {
  return {
    ...given,
    id,
    owner: request.owner ?? LOCAL,
    caller: request.caller ?? null,
    status: "in_progress",
    incompleteReason: null,
    error: null,
    degraded: false,
    usage: usageOf([]),
    settings: request.settings ?? {},
    workspace: request.workspace,
    door: request.door,
    createdAt: now,
    endedAt: null,
    waited: 0,
    ran: 0,
    restarts: 0,
    hash: null,
  };
}

/**
 * The calls of a response that has returned for approval, as the first entries of its child: what was answered is
 * carried out (or refused) there, before the model is asked again.
 */
export async function answeredCalls(store: Store, parent: ResponseNode, input: readonly Entry[]): Promise<CallEntry[]> {
  const requests = input.flatMap(({ item }) =>
    item.type === "mcp_approval_response" ? [item.approval_request_id] : [],
  );
  if (requests.length === 0) return [];
  const stored = await store.get(parent.id);
  const calls = (stored?.entries ?? []).filter(isCall);
  const answered = calls.filter(
    ({ item }) => item.approval_request_id !== null && requests.includes(item.approval_request_id),
  );
  // Where an agent is taken up again, so that it makes the call that it was allowed.
  const raw = calls.findLast(({ meta }) => meta.agent && meta.raw !== undefined)?.meta.raw;
  return answered.map((entry, position): CallEntry => {
    const item: McpCallItem = { ...entry.item, id: newId("mcp"), status: "in_progress", output: null, error: null };
    const { tool, rewritten, model, agent } = entry.meta;
    const known = { ...(tool && { tool }), ...(rewritten && { rewritten }), ...(model && { model }) };
    const meta = { ...known, ...(agent && { agent }), callId: item.id };
    const last = position === answered.length - 1;
    return {
      side: "output",
      position,
      turn: 1,
      item,
      meta: last ? { ...meta, finish: "tool_calls", ...(raw && { raw }) } : meta,
    };
  });
}

/** The log of a new response. Calls that it begins with are told of like any other item. */
export function firstEvents(node: ResponseNode, calls: readonly CallEntry[]): RunEvent[] {
  const events: NewEvent[] = [
    { type: "response.created" },
    { type: node.status === "queued" ? "response.queued" : "response.in_progress" },
  ];
  for (const { position: output_index, item } of calls) {
    events.push({ type: "response.output_item.added", output_index, item: { ...item, arguments: "" } });
    const { id: item_id, arguments: text } = item;
    events.push({ type: "response.mcp_call_arguments.done", output_index, item_id, arguments: text });
  }
  return events.map((event, sequence_number) => ({ ...event, sequence_number }) as RunEvent);
}

/** What the first request with the same idempotency key has led to. */
export async function firstOf(store: Store, known: IdempotencyRecord, digest: string): Promise<ResponseNode> {
  if (known.digest !== digest || known.responseId === null) {
    throw new RotundaError("idempotency_mismatch", "the idempotency key was used for another request", {
      remedy: "Give every request a key of its own, and the same one only to its repetitions.",
    });
  }
  const node = await store.node(known.responseId);
  if (!node) throw new RotundaError("not_found", `there is no response ${known.responseId}`);
  return node;
}

/**
 * The child that carries a response's answers out, where there is one already. Throws `approval_settled` where more than
 * answers was said: that would be lost.
 */
export function childOf(store: Store, known: IdempotencyRecord, input: readonly Entry[]): Promise<ResponseNode> {
  if (input.every(({ item }) => item.type === "mcp_approval_response")) return firstOf(store, known, "");
  const text = `the answers are already being carried out, by response ${known.responseId}`;
  throw new RotundaError("approval_settled", text);
}

/** The request for a child of this response by whoever asked for it, at the same door and with the same settings. */
export function childWith<Input extends RunRequest["input"]>(
  node: ResponseNode,
  input: Input,
): RunRequest & { input: Input } {
  const { foreground: _foreground, ...settings } = node.settings;
  return {
    input,
    previousResponseId: node.id,
    ...(node.conversationId === null && { conversation: null }),
    profile: node.profile,
    model: node.model,
    settings,
    workspace: node.workspace,
    door: node.door,
    owner: node.owner,
  };
}

/** The request that goes on after an answer that a crash has cut. */
export const afterCut = (node: ResponseNode): RunRequest =>
  childWith(node, "Your answer was cut off. Go on where it stopped.");

/** Milliseconds between two looks at a parent that another process runs, or that waits for a person. */
const LOOK = 250;

/** A queued run waits here until all that it stands behind has ended; any other goes straight on. */
export async function awaitTurn(store: Store, run: Run, runs: ReadonlyMap<string, Run>, room: Room): Promise<void> {
  const { status, previousResponseId: parent } = run.node;
  if (status !== "queued") return;
  let ahead = parent === null ? undefined : await store.node(parent).catch(() => undefined);
  run.stopwatch.pause();
  const stopped = new Promise<void>((resolve) => {
    if (run.signal.aborted) resolve();
    run.signal.addEventListener("abort", () => resolve(), { once: true });
  });
  while (ahead && !run.stopped && !run.failure) {
    // What cannot be read now has not ended, as far as we know.
    const now: ResponseNode | undefined = await store.node(ahead.id).catch(() => ahead);
    if (now && now.endedAt === null) {
      room.stands(run);
      const other = runs.get(now.id);
      await Promise.race([stopped, other ? other.finished : sleep(LOOK, undefined, { ref: false })]);
      continue;
    }
    const above: string | null = !now || mayHaveSkippedItsTurn(now) ? ahead.previousResponseId : null;
    ahead = above === null ? undefined : await store.node(above).catch(() => undefined);
  }
  room.goes(run);
  run.stopwatch.resume();
  if (run.stopped || run.failure) return;
  run.patch({ status: "in_progress" });
  run.emit({ type: "response.in_progress" });
}

/** Another process was quicker with a turn of the same conversation: this one goes behind it. */
export async function again<T>(go: () => Promise<T>): Promise<T> {
  for (let left = 50; ; left--) {
    try {
      return await go();
    } catch (error) {
      if (left === 0 || toRotundaError(error).code !== "owned_elsewhere") throw error;
    }
  }
}

/** A response that waited is left to whoever takes it next. */
export async function leaveWaiting(store: Store, run: Run): Promise<void> {
  run.stopwatch.stop();
  run.patch({ status: "in_progress", error: null });
  await run.commit();
  await store.release(run.node.id, run.lease);
}
