/**
 * What may be said to an external agent about a call of its own.
 *
 * Invariant: rules hold for an agent's tool as for ours that does the same; deny beats ask beats allow. A mode decides
 * only what the agent asks about: it runs outside of our sandbox, so the sandbox allows nothing here.
 */
import type { Approval } from "../types/approval.ts";
import type { McpCallItem } from "../types/item.ts";
import type { JsonObject } from "../types/json.ts";
import type { AgentCall } from "../types/model.ts";
import type { Profile } from "../types/profile.ts";
import type { Tool } from "../types/tool.ts";
import { flatName, matchesList } from "../util/text.ts";
import { type CallEntry, isCall } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import { UNREADABLE_COMMAND, type Verdict } from "./permissions.ts";
import { digestOf, effectiveMode, isReadOnly, verdictOn } from "./prepare.ts";
import type { Run } from "./run.ts";

/** What stands at a call that a person has allowed when its agent was gone. */
export const ALLOWED_LATER = "not run: a person has allowed it by now. Make the same call again, and it runs.";

/** The agent's tool in the shape that rules are matched against. */
export function agentTool({ server, access }: AgentCall, name: string): Tool {
  return {
    name: flatName(server, name),
    server,
    serverName: name,
    description: "",
    input: { type: "object" },
    access,
    repeatable: false,
    run: () => Promise.reject(new Error("an agent's tool is run by its agent")),
  };
}

/** Ours that does the same. */
function likeOurs(call: AgentCall): Tool | undefined {
  if (call.like === undefined) return undefined;
  return { ...agentTool(call, call.like), name: call.like, server: "rotunda", serverName: call.like };
}

export async function judgeAgentCall(
  parts: EngineParts,
  run: Run,
  profile: Profile,
  call: AgentCall,
  name: string,
): Promise<Verdict> {
  const own = agentTool(call, name);
  const ours = likeOurs(call);
  if (call.access !== "read" && !isOffered(run, profile, own, ours)) {
    return { effect: "deny", why: `profile ${profile.name} does not offer it`, byRule: false };
  }
  // Spread, so that only the sandbox is another.
  const outside: EngineParts = { ...parts, sandbox: { level: async () => "none", network: parts.sandbox.network } };
  const authority = { profile, offered: new Map<string, Tool>(), answer: undefined, asked: false };
  const verdicts = [];
  for (const tool of ours ? [own, ours] : [own]) {
    verdicts.push(await verdictOn(outside, run, tool, call.subject ?? {}, authority));
  }
  const mode = effectiveMode(parts, run, profile);
  const readOnly = isReadOnly(run, profile);
  for (const effect of ["deny", "ask", "allow"] as const) {
    // Ours would run in a read-only sandbox where a rule allows it; an agent's would not.
    if (effect === "ask" && call.access !== "read" && (readOnly || mode === "plan")) {
      const why = readOnly ? "this agent may only read" : "mode plan: nothing is changed";
      return { effect: "deny", why, byRule: false };
    }
    const ruled = verdicts.find((verdict) => verdict.byRule && verdict.effect === effect);
    if (ruled) return ruled;
    const unreadable = effect === "ask" && verdicts.find(({ why }) => why === UNREADABLE_COMMAND);
    if (unreadable) return { ...unreadable, byRule: true };
  }
  if (mode === "auto") return { effect: "allow", why: "mode auto", byRule: false };
  const last = verdicts.at(-1);
  return last?.effect === "allow" ? last : { effect: "ask", why: `agent ${call.server} asks`, byRule: false };
}

function isOffered(run: Run, profile: Profile, own: Tool, ours: Tool | undefined): boolean {
  const { toolFilters = [] } = run.node.settings;
  const lists = profile.tools ? [profile.tools, ...toolFilters] : toolFilters;
  const names = [own, ...(ours ? [ours] : [])].flatMap(({ name, server, serverName }) => [
    name,
    `${server}:${serverName}`,
    `${server}__${serverName}`,
  ]);
  return lists.every((list) => matchesList(list, [...names, own.serverName]));
}

/** An answer that was given to the very same call when its agent was gone, and has not been used since. */
export async function answeredBefore(
  parts: EngineParts,
  run: Run,
  tool: Tool,
  input: JsonObject,
): Promise<Approval | undefined> {
  const { id, previousResponseId } = run.node;
  const used = run.output.filter(isCall).filter(({ item }) => item.error !== ALLOWED_LATER);
  // The parent may have returned for it; then its answers stand in our input.
  const returned = run.input.flatMap(({ item }) =>
    item.type === "mcp_approval_response" ? [item.approval_request_id] : [],
  );
  const asked = await parts.store.approvals({ responseId: id });
  if (previousResponseId !== null && returned.length > 0) {
    const above = await parts.store.approvals({ responseId: previousResponseId });
    asked.push(...above.filter((approval) => returned.includes(approval.id)));
  }
  return asked.find(
    (approval) =>
      approval.status === "allowed" &&
      approval.digest === digestOf(approval.responseId, tool, input) &&
      !used.some(({ item }) => item.approval_request_id === approval.id),
  );
}

/** The call as it is stored now. */
export function callAt(run: Run, position: number): CallEntry | undefined {
  const entry = run.output[position];
  if (!entry || !isCall(entry)) return undefined;
  const item: McpCallItem = { ...entry.item };
  return { ...entry, item, meta: { ...entry.meta } };
}
