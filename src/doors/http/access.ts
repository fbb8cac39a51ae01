/**
 * Access: the one place where a door of HTTP looks something up by its id.
 *
 * Invariant: what belongs to somebody else is answered exactly like what does not exist.
 */
import type { Approval } from "../../types/approval.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import type { Conversation, FullResponse, Owner, ResponseNode } from "../../types/response.ts";
import { isId } from "../../util/ids.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";

function sees({ identity }: RequestContext, owner: Owner): boolean {
  return identity.local || identity.owner === owner;
}

/** Whether it may do what needs `admin`: never over a network, unless the operator said so. */
export function mayAdminister({ identity, remote, services }: RequestContext): boolean {
  return identity.scopes.includes("admin") && (!remote || services.allowRemoteAdmin);
}

/** Whose rows a listing shows: all of them for the local token. */
export function ownerFilter({ identity }: RequestContext): { owner?: Owner } {
  return identity.local ? {} : { owner: identity.owner };
}

/** Throws `not_found`: also for what was not to be stored and has ended, but for the connection that still holds it. */
export async function ownNode(context: RequestContext, id: string): Promise<ResponseNode> {
  const node = await context.app.store.node(id);
  const gone = node && node.settings.store === false && node.endedAt !== null && !context.held?.has(id);
  if (!node || gone || !sees(context, node.owner)) throw new RotundaError("not_found", `there is no response ${id}`);
  return node;
}

/**
 * The response that a request goes on from. OpenAI answers 400 for one that is not there, not 404: the path is there, and
 * what is wrong is a field.
 */
export async function ownPrevious(context: RequestContext, id: string): Promise<ResponseNode> {
  try {
    if (isId(id)) return await ownNode(context, id);
  } catch (error) {
    if (toRotundaError(error).code !== "not_found") throw error;
  }
  const text = `Previous response with id '${id.slice(0, 80)}' not found.`;
  throw new DoorError("usage", text, { param: "previous_response_id", wireCode: "previous_response_not_found" });
}

/** Throws `not_found`. */
export async function ownResponse(context: RequestContext, id: string): Promise<FullResponse> {
  await ownNode(context, id);
  return context.app.engine.get(id);
}

/** Throws `not_found`. */
export async function ownConversation(context: RequestContext, id: string): Promise<Conversation> {
  const conversation = await context.app.store.conversation(id, context.identity.owner);
  if (!conversation || !sees(context, conversation.owner))
    throw new RotundaError("not_found", `there is no conversation ${id}`);
  return conversation;
}

/** Throws `not_found`. */
export async function ownApproval(context: RequestContext, id: string): Promise<Approval> {
  const approval = await context.app.store.approval(id);
  const node = approval && (await context.app.store.node(approval.responseId));
  if (!node || !sees(context, node.owner)) throw new RotundaError("not_found", `there is no approval ${id}`);
  return approval as Approval;
}
