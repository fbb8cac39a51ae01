/**
 * Decide: what an answer to an approval does to the response that asked.
 *
 * Invariant: an approval is answered once, whoever is first; a response that returned for approval gets one child,
 * however many doors try.
 */
import type { Approval, Decision } from "../types/approval.ts";
import type { Engine, RunRequest } from "../types/engine.ts";
import { RotundaError } from "../types/error.ts";
import type { ApprovalResponseItem, Item } from "../types/item.ts";
import type { ResponseNode } from "../types/response.ts";
import type { NewResponse, Store } from "../types/store.ts";
import { newId } from "../util/ids.ts";
import { childWith } from "./begin.ts";
import { sessionOf } from "./learned.ts";
import type { EngineParts } from "./parts.ts";
import { itemsOf, RETURNED } from "./text.ts";

/** Undefined as long as nobody has answered. */
export function decisionOf(approval: Approval | undefined): Decision | undefined {
  if (!approval || approval.status === "pending") return undefined;
  const reason = approval.reason === null ? {} : { reason: approval.reason };
  return { decision: approval.status === "allowed" ? "allow" : "deny", by: approval.decidedBy ?? "", ...reason };
}

export async function settle(parts: EngineParts, id: string, decision: Decision): Promise<Approval> {
  const { store } = parts;
  const pending = await store.approval(id);
  if (!pending) throw new RotundaError("not_found", `there is no approval ${id}`);
  const now = parts.now();
  if (pending.status === "expired" || (pending.status === "pending" && pending.expiresAt <= now)) {
    if (pending.status === "pending") await letExpire(store, pending, now);
    throw new RotundaError("approval_expired", `approval ${id} has expired`);
  }
  const settled: Approval = {
    ...pending,
    status: decision.decision === "allow" ? "allowed" : "denied",
    reason: decision.reason ?? null,
    decidedBy: decision.by,
    decidedAt: now,
  };
  if (!(await store.settleApproval(settled))) {
    throw new RotundaError("approval_settled", `approval ${id} has already been answered`);
  }
  const { tool, digest, responseId } = pending;
  const { decision: answer, scope = "once", by, who = by, door = by } = decision;
  const details = { approval: id, tool, digest, decision: answer, scope, approver: by };
  await store.audit({ action: "approval", who, door, responseId, at: now, details });
  if (answer === "allow" && scope !== "once") {
    const node = await store.node(responseId);
    const holder = scope === "session" ? await sessionOf(store, node) : (node?.workspace ?? "");
    await store.addRule({ id: newId("rule", now), scope, holder, rule: pending.pattern, createdAt: now });
  }
  return settled;
}

/** Undefined where somebody has answered in the meantime. */
async function letExpire(store: Store, approval: Approval, at: number): Promise<Approval | undefined> {
  const reason = "nobody answered in time";
  const settled: Approval = { ...approval, status: "expired", reason, decidedBy: "expiry", decidedAt: at };
  if (!(await store.settleApproval(settled))) return undefined;
  const { id, tool, digest, responseId } = approval;
  const details = { approval: id, tool, digest, decision: "deny", approver: "expiry" };
  await store.audit({ action: "approval", who: "expiry", door: "expiry", responseId, at, details });
  return settled;
}

/** Settles all whose time is over; resolves with those. */
export async function expire(parts: EngineParts): Promise<Approval[]> {
  const now = parts.now();
  const over: Approval[] = [];
  for (const approval of await parts.store.approvals({ status: "pending" })) {
    if (approval.expiresAt > now) continue;
    const settled = await letExpire(parts.store, approval, now);
    if (settled) over.push(settled);
  }
  return over;
}

/** The response that a person or a program started, above a sub-agent's. */
export async function outermost(store: Store, node: ResponseNode): Promise<ResponseNode> {
  const caller = node.caller && (await store.node(node.caller.responseId));
  return caller ? outermost(store, caller) : node;
}

/**
 * The approvals that an ended response has returned for: none where it ended otherwise, and none that it has carried
 * out itself before it returned.
 */
async function returnedFor(store: Store, node: ResponseNode): Promise<Approval[]> {
  const output = (await store.get(node.id))?.entries.map(({ item }) => item) ?? [];
  const returned = new Set(
    output.flatMap((item) => (item.type === "mcp_call" && item.error === RETURNED ? [item.approval_request_id] : [])),
  );
  return (await store.approvals({ responseId: node.id })).filter(({ id }) => returned.has(id));
}

function isAnswered({ status }: Approval): boolean {
  return status !== "pending" && status !== "withdrawn";
}

/**
 * The key that the child takes that carries the answers out, whichever door starts it: so there is one. No header can
 * hold it, and it outlives the child: what was carried out once is not carried out again when that is deleted.
 */
export function childKey({ id }: ResponseNode): NonNullable<NewResponse["idempotency"]> {
  return { key: `\u0000child of ${id}`, digest: "", expiresAt: Number.MAX_SAFE_INTEGER };
}

/**
 * The request of the child of a response that has returned for approval; undefined where answers are missing, or
 * where it has not returned.
 */
export async function childOfReturned(
  store: Store,
  node: ResponseNode,
): Promise<(RunRequest & { input: Item[] }) | undefined> {
  const asked = await returnedFor(store, node);
  const answered = asked.filter(isAnswered);
  if (answered.length === 0 || asked.some(({ status }) => status === "pending")) return undefined;
  return childWith(node, answered.map(answerItem));
}

function answerItem({ id, status, reason }: Approval): ApprovalResponseItem {
  const approve = status === "allowed";
  return { type: "mcp_approval_response", id: newId("mcpa"), approval_request_id: id, approve, reason };
}

/**
 * The input of a request, with the answers in it settled. What was asked together is carried out together: what
 * the input leaves unanswered is withdrawn, and what another door has answered joins it.
 */
export async function settleAnswers(
  engine: Engine,
  store: Store,
  request: RunRequest,
  parent: ResponseNode | undefined,
): Promise<Item[]> {
  const items = itemsOf(request.input);
  const answers = items.filter((item) => item.type === "mcp_approval_response");
  if (answers.length === 0) return items;
  const asked = parent ? await store.approvals({ responseId: parent.id }) : [];
  const unknown = answers.find((answer) => !asked.some(({ id }) => id === answer.approval_request_id));
  if (unknown) {
    const where = parent ? `response ${parent.id}` : "a response without a predecessor";
    throw new RotundaError("not_found", `${where} has no approval ${unknown.approval_request_id}`);
  }
  for (const { approval_request_id: id, approve, reason } of answers) {
    const decision = approve ? "allow" : "deny";
    const by = { by: request.owner ?? request.door, door: request.door };
    await engine.decide(id, { decision, ...by, ...(reason !== null && { reason }) });
  }
  const returned = parent && parent.endedAt !== null ? await returnedFor(store, parent) : [];
  for (const approval of asked) {
    if (answers.some((answer) => answer.approval_request_id === approval.id)) continue;
    const withdrawn = { ...approval, status: "withdrawn" as const, decidedAt: Date.now() };
    if (approval.status === "pending") await store.settleApproval(withdrawn);
    const now = returned.some(({ id }) => id === approval.id) ? await store.approval(approval.id) : undefined;
    if (now && isAnswered(now)) items.push(answerItem(now));
  }
  return items;
}
