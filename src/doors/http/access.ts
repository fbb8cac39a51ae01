/**
 * Access: the one place where a door of HTTP looks something up by its id.
 *
 * Invariant: what belongs to somebody else is answered exactly like what does not exist.
 */
import type { Approval } from "../../types/approval.ts";
import { RotundaError } from "../../types/error.ts";
import type { Conversation, FullResponse, Owner, ResponseNode } from "../../types/response.ts";
import type { RequestContext } from "./context.ts";

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
