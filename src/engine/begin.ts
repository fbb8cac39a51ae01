/**
 * Where a new response begins: its parent in the tree, and the pointer that moves to it.
 *
 * Invariant: a parent has ended; a pointer moves only if it stood at the parent, else a new one is made (a branch).
 */
import type { RunRequest } from "../types/engine.ts";
import { RotundaError } from "../types/error.ts";
import type { Conversation, ResponseNode } from "../types/response.ts";
import type { Store } from "../types/store.ts";
import { newId } from "../util/ids.ts";
import { oneLine } from "../util/text.ts";
import { textOf } from "./text.ts";

/** The node to go on from: named, or the head of the conversation. It must have ended. */
export async function parentOf(store: Store, request: RunRequest): Promise<ResponseNode | undefined> {
  let id = request.previousResponseId;
  if (id === undefined && request.conversation && request.conversation !== "new") {
    const conversation = await store.conversation(request.conversation);
    if (!conversation) throw new RotundaError("not_found", `there is no conversation ${request.conversation}`);
    id = conversation.head ?? undefined;
  }
  if (id === undefined) return undefined;
  const parent = await store.node(id);
  if (!parent) throw new RotundaError("not_found", `there is no response ${id}`);
  if (parent.endedAt !== null) return parent;
  throw new RotundaError("response_not_ended", `response ${id} has not ended (it is ${parent.status})`, {
    remedy: `Go on with it first: rotunda resume ${id.slice(-8)}, or end it: rotunda cancel ${id.slice(-8)}`,
  });
}

/** The pointer that moves: the one named, the parent's if it stands there, else a new one (a branch). */
export async function conversationFor(
  store: Store,
  request: RunRequest,
  parent: ResponseNode | undefined,
  id: string,
  now: number,
): Promise<Conversation | null> {
  if (request.caller || request.conversation === null) return null;
  const named = request.conversation ?? (parent?.conversationId || undefined);
  if (named !== undefined && named !== "new") {
    const known = await store.conversation(named);
    const branches = request.conversation === undefined && known?.head !== parent?.id;
    if (known && !branches) return { ...known, head: id, updatedAt: now };
  }
  const title = oneLine(typeof request.input === "string" ? request.input : textOf(request.input), 60);
  const name = request.conversationName ?? null;
  const { workspace } = request;
  return { id: newId("conv", now), name, title, head: id, workspace, createdAt: now, updatedAt: now };
}
