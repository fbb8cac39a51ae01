/**
 * Delegate: a sub-agent is a response of its own, below the call that asked for it.
 *
 * Invariant: one call has one child, however often it is resumed; a child never has more rights than its
 * parent: the stricter mode, the tools of both, read-only if either is.
 */
import type { Engine, RunRequest } from "../types/engine.ts";
import { toRotundaError } from "../types/error.ts";
import type { Delegation, DelegationResult } from "../types/tool.ts";
import { tokensSpent } from "./advance.ts";
import type { BudgetGate } from "./budget.ts";
import { approvalWay, ChildWaiting } from "./call-tools.ts";
import type { History } from "./history.ts";
import type { CallEntry } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import { effectiveMode, isReadOnly } from "./prepare.ts";
import type { Run } from "./run.ts";
import { outputText } from "./text.ts";

export async function delegate(
  parts: EngineParts,
  engine: Engine,
  parent: Run,
  entry: CallEntry,
  request: Delegation,
  gate: BudgetGate,
): Promise<DelegationResult> {
  const children = await parts.store.list({ callerResponseId: parent.node.id, limit: 1_000 });
  const known = children.find((child) => child.caller?.itemId === entry.item.id);
  if (known && known.endedAt === null) await goOn(engine, known.id, parent);
  parent.delegated = true;
  const spent = known ? undefined : await gate.forAgent(parent, await parts.profiles.get(parent.node.profile));
  if (spent) {
    parent.patch({ error: spent });
    throw new ChildWaiting(parent.node.id);
  }
  const id = known?.id ?? (await engine.start(await childRequest(parts, parent, entry, request))).id;
  const onAbort = () => {
    const reason = parent.stopped?.error?.message ?? "the response that asked for it was stopped";
    // A shutdown stops the child by itself, and leaves it to be resumed.
    if (parent.stopped?.status !== "shutdown") engine.cancel(id, reason).catch(() => undefined);
  };
  if (parent.signal.aborted) onAbort();
  parent.signal.addEventListener("abort", onAbort, { once: true });
  try {
    const node = await engine.wait(id);
    if (node.status === "waiting") {
      if (node.error) parent.patch({ error: node.error });
      throw new ChildWaiting(id);
    }
    const ended = await engine.get(id);
    const status = node.status as DelegationResult["status"];
    return { responseId: id, status, text: outputText(ended), error: node.error?.message ?? node.incompleteReason };
  } finally {
    parent.signal.removeEventListener("abort", onAbort);
  }
}

/** Another process may have it already: then its end is waited for like any other. */
async function goOn(engine: Engine, id: string, parent: Run): Promise<void> {
  try {
    await engine.resume(id, parent.approver);
  } catch (error) {
    const { code } = toRotundaError(error);
    if (code !== "owned_elsewhere" && code !== "response_ended") throw error;
  }
}

async function childRequest(
  parts: EngineParts,
  parent: Run,
  entry: CallEntry,
  request: Delegation,
): Promise<RunRequest> {
  const profile = await parts.profiles.get(parent.node.profile);
  const child = await parts.profiles.get(request.profile);
  const { toolFilters = [], parallel, bounds, foreground } = parent.node.settings;
  const limit = parent.node.settings.limits?.tokens ?? profile.limits.tokens;
  const tokens = Math.min(child.limits.tokens, Math.max(0, limit - (await tokensSpent(parts, parent))));
  const turns = Math.min(request.maxTurns ?? child.limits.turns, child.limits.turns);
  return {
    input: request.task,
    caller: { responseId: parent.node.id, itemId: entry.item.id },
    profile: request.profile,
    model: child.model ?? parent.node.model,
    settings: {
      mode: effectiveMode(parts, parent, profile),
      readOnly: isReadOnly(parent, profile),
      toolFilters: profile.tools ? [...toolFilters, profile.tools] : toolFilters,
      bounds: {
        deny: [...(bounds?.deny ?? []), ...(profile.permissions?.deny ?? [])],
        ask: [...(bounds?.ask ?? []), ...(profile.permissions?.ask ?? [])],
        servers: [...(bounds?.servers ?? []), ...(profile.servers ? [profile.servers] : [])],
      },
      onApproval: approvalWay(parent, profile),
      ...(foreground && { foreground }),
      ...(parallel !== undefined && { parallel }),
      limits: { turns, tokens },
    },
    workspace: parent.node.workspace,
    door: parent.node.door,
    owner: parent.node.owner,
    ...(parent.approver && { approver: parent.approver }),
  };
}

/** Only outputs of the reader's own path: an id from elsewhere is as good as unknown. */
export async function readOutput(
  parts: EngineParts,
  history: History,
  run: Run,
  reference: string,
): Promise<string | undefined> {
  const above = await history.path(run.node.previousResponseId);
  // What a client answered to its own call may have been cut as well.
  const matches = [...above.flatMap((node) => node.entries), ...run.input, ...run.output].flatMap(({ item }) => {
    if (item.type !== "mcp_call" && item.type !== "function_call_output") return [];
    return matchesReference(item.id, reference) ? item : [];
  });
  const [match] = matches;
  if (!match || matches.length > 1) return undefined;
  // It may be an output of a moment ago, still on its way to the disk.
  await run.commit();
  return (await parts.store.output(match.id)) ?? match.output ?? undefined;
}

function matchesReference(id: string, reference: string): boolean {
  return reference.length >= 4 && (id.endsWith(reference) || id.startsWith(reference));
}
