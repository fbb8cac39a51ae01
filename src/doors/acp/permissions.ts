/**
 * The person at the editor: who answers approvals.
 *
 * Invariant: what is shown is the whole call, with every invisible character made visible; an answer counts only for
 * an option that was offered; a question that another door has answered is taken back.
 */
import type { AgentContext, PermissionOption, SessionUpdate, ToolCallUpdate } from "@agentclientprotocol/sdk/unstable";
import type { Approval, Decision } from "../../types/approval.ts";
import type { McpCallItem } from "../../types/item.ts";
import { LOCAL } from "../../types/response.ts";
import { visible } from "../../util/text.ts";
import { argumentsContent, describeCall, differencesOf, textContent } from "./tool-calls.ts";
import type { KnownCall } from "./updates.ts";

export interface PermissionContext {
  client: AgentContext;
  sessionId: string;
  workspace: string;
  /** Resolves when the editor knows the call; undefined where it is none of this turn, as those of sub-agents are. */
  known(approval: Approval): Promise<KnownCall | undefined>;
  /** The call as it is stored. */
  stored(approval: Approval): Promise<McpCallItem | undefined>;
  tell(update: SessionUpdate): Promise<void>;
  /** A call that the editor would otherwise not have heard of has been shown to it. */
  shown(approval: Approval): void;
  /** The person has turned the whole turn off. */
  cancel(): void;
}

const BY = { by: "editor", who: LOCAL, door: "acp" };

const DECISIONS: Record<string, Decision> = {
  "allow-once": { decision: "allow", scope: "once", ...BY },
  "allow-session": { decision: "allow", scope: "session", ...BY },
  "allow-always": { decision: "allow", scope: "always", ...BY },
  "reject-once": { decision: "deny", ...BY },
};

/** Rejects where nobody has answered: then the approval stays open. */
export async function askEditor(
  context: PermissionContext,
  approval: Approval,
  signal: AbortSignal,
): Promise<Decision> {
  const { client, sessionId } = context;
  const toolCall = await questionOf(context, approval);
  signal.throwIfAborted();
  const options = optionsOf(approval);
  const { outcome } = await client.request(
    "session/request_permission",
    { sessionId, toolCall, options },
    { cancellationSignal: signal, stopWaitingOnCancel: true },
  );
  if (outcome.outcome === "cancelled") {
    // By the protocol this is what a client answers when its person has cancelled the turn.
    if (!signal.aborted) context.cancel();
    throw new Error("the question was cancelled");
  }
  const { optionId } = outcome;
  const decision = options.some((option) => option.optionId === optionId) ? DECISIONS[optionId] : undefined;
  if (!decision) throw new Error(`the client chose an option that was not offered: ${optionId.slice(0, 60)}`);
  return decision;
}

async function questionOf(context: PermissionContext, approval: Approval): Promise<ToolCallUpdate> {
  const known = await context.known(approval);
  const item = known?.item ?? (await context.stored(approval));
  // What is decided about are the canonical arguments, a hook's changes included.
  const call = {
    server_label: item?.server_label ?? "",
    name: item?.name ?? approval.tool,
    arguments: approval.arguments,
  };
  const { name, ...described } = describeCall(call, context.workspace);
  if (!known) {
    const { title, kind } = described;
    const toolCallId = approval.itemId;
    await context.tell({ sessionUpdate: "tool_call", toolCallId, title, kind, name, status: "pending" });
    context.shown(approval);
  }
  const differences = await differencesOf(call, context.workspace);
  const content = [...(differences ?? argumentsContent(call)), textContent(visible(`(${approval.why})`))];
  return { toolCallId: approval.itemId, ...described, status: "pending", content };
}

function optionsOf({ pattern }: Approval): PermissionOption[] {
  const options: PermissionOption[] = [{ optionId: "allow-once", name: "Allow once", kind: "allow_once" }];
  // Where nothing narrow can be learned from an answer, it is for this call only.
  if (!pattern.endsWith("()")) {
    const rule = visible(pattern);
    options.push(
      { optionId: "allow-session", name: `Allow ${rule} in this session`, kind: "allow_always" },
      { optionId: "allow-always", name: `Always allow ${rule}`, kind: "allow_always" },
    );
  }
  options.push({ optionId: "reject-once", name: "Reject", kind: "reject_once" });
  return options;
}
