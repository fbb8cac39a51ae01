/**
 * Approvals, elicitations and learned rules over HTTP (parity S33, S36), and the emergency stop (S23).
 *
 * Invariant: exactly one answer wins, whichever door it comes through; what waits for it goes on at once.
 */
import type { Approval, LearnedRule } from "../../types/approval.ts";
import type { Elicitation } from "../../types/elicitation.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import { isId } from "../../util/ids.ts";
import { type Origin, originsOf } from "../../util/origins.ts";
import { mayAdminister, ownApproval, ownerFilter } from "./access.ts";
import type { RequestContext } from "./context.ts";
import { DoorError } from "./errors.ts";
import { goOn } from "./go-on.ts";
import type { Handler } from "./routes.ts";
import { argumentsOf } from "./speakmcp-messages.ts";
import type { AnswerApproval, AnswerElicitation } from "./speakmcp-schemas.ts";

function wireApproval(approval: Approval, server: string, origin: Origin | undefined) {
  const { id, tool, responseId, why, pattern, createdAt, expiresAt, digest } = approval;
  return {
    approvalId: id,
    id,
    toolName: tool,
    serverLabel: server,
    arguments: argumentsOf(approval.arguments),
    digest,
    responseId,
    why,
    pattern,
    createdAt,
    expiresAt,
    ...origin,
  };
}

export const listApprovals: Handler = async (context) => {
  const pending = await context.app.store.approvals({ status: "pending", ...ownerFilter(context) });
  const tools = new Map((await context.app.engine.tools()).map((tool) => [tool.name, tool.server]));
  const now = Date.now();
  const valid = pending.filter(({ expiresAt }) => expiresAt > now);
  const origins = await originsOf(
    context.app,
    valid.slice(0, MOST_ORIGINS).map(({ responseId }) => responseId),
  );
  const approvals = [];
  let size = 0;
  for (const approval of valid) {
    size += approval.arguments.length;
    if (approvals.length > 0 && (approvals.length === MOST_LISTED || size > MOST_CHARACTERS)) break;
    const server = tools.get(approval.tool) ?? "rotunda";
    approvals.push(wireApproval(approval, server, origins.get(approval.responseId)));
  }
  context.json(200, { approvals, has_more: approvals.length < valid.length });
};

/** Of one listing, the oldest first: a run that asks without end must not hold up the server with its questions. */
const MOST_LISTED = 1_000;
/** Of so many questions that nobody reads them, only the first ones say whose they are. */
const MOST_ORIGINS = 100;
const MOST_CHARACTERS = 2_000_000;

export const answerApproval: Handler<AnswerApproval> = async (context, body) => {
  const { approvalId: id, approved, reason, scope = "once" } = body;
  if (typeof id !== "string" || id === "") throw new DoorError("usage", "Missing or invalid approvalId");
  if (typeof approved !== "boolean") throw new DoorError("usage", "Missing or invalid approved boolean");
  const unknown = new RotundaError("not_found", "Approval not found or already resolved");
  if (!isId(id)) throw unknown;
  const approval = await ownApproval(context, id).catch(() => {
    throw unknown;
  });
  if (scope === "always" && !mayAdminister(context)) {
    throw new RotundaError("insufficient_scope", 'An answer with scope "always" needs the scope admin');
  }
  const { app, identity } = context;
  const by = { by: identity.name, who: identity.owner, door: "http" };
  const decision = { decision: approved ? "allow" : "deny", scope, ...by } as const;
  try {
    await app.engine.decide(id, { ...decision, ...(reason !== undefined && { reason }) });
  } catch (error) {
    // A crash may have come between an answer and what follows from it: that is made up for here.
    const { code } = toRotundaError(error);
    if (code === "approval_settled" || code === "approval_expired") await goOn(context.services, approval);
    throw error;
  }
  const goesOn = await goOn(context.services, approval);
  context.json(200, { success: true, approvalId: id, approved, ...(goesOn && { responseId: goesOn.id }) });
};

export const listRules: Handler = async (context) => {
  context.json(200, { object: "list", data: await visibleRules(context) });
};

/** Of a token, only those of its own conversations; a workspace's belong to whoever holds the machine. */
async function visibleRules(context: RequestContext): Promise<LearnedRule[]> {
  const rules = await context.app.store.rules();
  if (context.identity.local || mayAdminister(context)) return rules;
  const own: LearnedRule[] = [];
  for (const rule of rules) {
    const { store } = context.app;
    const holder = (await store.node(rule.holder)) ?? (await store.conversation(rule.holder, context.identity.owner));
    if (rule.scope === "session" && holder?.owner === context.identity.owner) own.push(rule);
  }
  return own;
}

export const removeRule: Handler = async (context) => {
  const { id = "" } = context.params;
  const { app, identity } = context;
  const known = (await visibleRules(context)).find((rule) => rule.id === id);
  if (!known || !(await app.store.removeRule(id))) throw new RotundaError("not_found", `there is no rule ${id}`);
  const details = { rule: known.rule, scope: known.scope, removed: true };
  const entry = { who: identity.owner, door: "http", responseId: null, at: Date.now(), details };
  await app.store.audit({ action: "settings", ...entry });
  context.json(200, { id, deleted: true });
};

/** Those that it may see: its own calls', and everybody's for whoever holds the machine or administers it. */
async function visibleElicitations(context: RequestContext): Promise<Elicitation[]> {
  const { app, identity } = context;
  const pending = app.elicitations();
  if (identity.local || mayAdminister(context)) return pending;
  const own: Elicitation[] = [];
  for (const elicitation of pending) {
    const { responseIds = [] } = elicitation;
    const owners = await Promise.all(responseIds.map(async (id) => (await app.store.node(id))?.owner));
    // Where it could be for somebody else's call too, it is not shown.
    if (owners.length > 0 && owners.every((owner) => owner === identity.owner)) own.push(elicitation);
  }
  return own;
}

export const listElicitations: Handler = async (context) => {
  const pending = await visibleElicitations(context);
  context.json(200, { elicitations: pending, pending });
};

export const answerElicitation: Handler<AnswerElicitation> = async (context, body) => {
  const { id = "" } = context.params;
  const { app, identity } = context;
  const elicitation = (await visibleElicitations(context)).find((one) => one.id === id);
  if (!elicitation) throw new RotundaError("not_found", `no elicitation ${id} waits for an answer`);
  const { action, content } = body;
  const answer = { action, ...(content !== undefined && { content: content as Record<string, never> }) };
  app.answerElicitation(id, answer);
  const { server, responseIds = [] } = elicitation;
  const [only = "", ...others] = responseIds;
  const responseId = only === "" || others.length > 0 ? null : only;
  // What was said may be secret, and is the server's affair.
  const details = { elicitation: id, server, decision: action };
  const entry = { who: identity.owner, door: "http", responseId, at: Date.now(), details };
  await app.store.audit({ action: "elicitation", ...entry });
  context.json(200, { success: true });
};

/** Sampling is never offered to servers, so nothing of it is ever pending. */
export const listSampling: Handler = (context) => context.json(200, { pending: [] });

export const answerSampling: Handler = () => {
  throw new RotundaError("not_found", "Sampling request not found or already resolved");
};

export const emergencyStop: Handler = async (context) => {
  const { app, identity } = context;
  const all = identity.local || mayAdminister(context);
  const stopped = await app.engine.cancelAll("emergency stop", all ? undefined : identity.owner);
  const entry = { who: identity.owner, door: "http", responseId: null, at: Date.now(), details: { stopped } };
  // They are stopped, whether there is room on the disk to write that down or not.
  await app.store.audit({ action: "emergency_stop", ...entry }).catch((thrown: unknown) => {
    context.services.log({ level: "error", text: `emergency stop: ${toRotundaError(thrown).message}` });
  });
  const text = "Emergency stop executed";
  context.json(200, { success: true, message: text, processesKilled: stopped, processesRemaining: 0 });
};
