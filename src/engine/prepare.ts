/**
 * Prepare: everything about a call that must be settled before it may start: its arguments, its tool, the
 * hooks, the rules.
 *
 * Invariant: what a person was asked about is what runs. The digest binds an approval to response, tool
 * and canonical arguments, after hooks have rewritten them.
 */
import { hash } from "node:crypto";
import type { Approval } from "../types/approval.ts";
import type { JsonObject } from "../types/json.ts";
import type { PermissionRules, Profile } from "../types/profile.ts";
import type { PermissionMode } from "../types/response.ts";
import type { CallSubject, Isolation, Tool, ToolResult } from "../types/tool.ts";
import { canonicalJson } from "../util/canonical.ts";
import { parseBounded } from "../util/limits.ts";
import { runHooks } from "./hooks.ts";
import { learnedRules } from "./learned.ts";
import type { CallEntry } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import { judge, patternFor, stricter, unreadable, type Verdict } from "./permissions.ts";
import type { Run } from "./run.ts";

/** Characters of arguments that a tool is ever given. */
const MAXIMUM_ARGUMENTS = 1_048_576;

/** Milliseconds in which a person can answer: a week. */
const APPROVAL_LIFE = 7 * 24 * 3_600_000;

export type Prepared =
  /** It may start. */
  | {
      kind: "ready";
      entry: CallEntry;
      tool: Tool;
      input: JsonObject;
      isolation: Isolation;
      hiddenPaths: string[];
      /** Why it may, for the audit log. */
      allowed: { why: string; approval?: string; approvedBy?: string; sandbox?: string };
    }
  /** A person must answer first. */
  | { kind: "ask"; entry: CallEntry; tool: Tool; input: JsonObject; approval: Approval }
  /** It will not run; the text is the result. */
  | { kind: "refused"; entry: CallEntry; text: string; why: string };

export interface Authority {
  profile: Profile;
  offered: ReadonlyMap<string, Tool>;
  /** The answer of a person to this call, where there is one. */
  answer: { approve: boolean; reason: string | null; approval: Approval } | undefined;
  /** A person has been asked, and has not answered yet: the question stands, whatever the rules say by now. */
  asked: boolean;
}

export async function prepare(parts: EngineParts, run: Run, entry: CallEntry, authority: Authority): Promise<Prepared> {
  const refused = (text: string, why = text): Prepared => ({ kind: "refused", entry, text, why: why.slice(0, 500) });
  const denied = (why: string) => refused(deniedText(why), why);
  const input = parseArguments(entry.item.arguments);
  if (typeof input === "string") return refused(input);
  const name = entry.meta.tool ?? entry.item.name;
  const tool = authority.offered.get(name) ?? (await findOffered(parts, authority, name));
  if (!tool) return refused(unknownTool(name, authority.offered));

  const {
    arguments: rewritten = entry.meta.rewritten ? (JSON.parse(entry.meta.rewritten) as JsonObject) : undefined,
    denied: deniedByHook,
  } = await runHooks(parts, run, "beforeToolCall", { tool: tool.name, arguments: input });
  if (deniedByHook !== undefined) return denied(deniedByHook);
  const final = rewritten ?? input;
  if (rewritten) entry.meta = { ...entry.meta, rewritten: canonicalJson(rewritten) };

  const subject = await subjectOf(tool, final, run.node.workspace);
  if (typeof subject === "string") return refused(subject);
  const verdict = await verdictOn(parts, run, tool, subject, authority);
  if (verdict.effect === "deny") return denied(verdict.why);
  const { answer, asked } = authority;
  // A no stands, whatever a rule that was learned since would allow.
  if (answer?.approve === false) return denied(answer.reason ?? "no reason was given");
  if (asked || (verdict.effect === "ask" && !answer)) {
    return {
      kind: "ask",
      entry,
      tool,
      input: final,
      approval: approvalFor(parts, run, entry, tool, final, subject, verdict),
    };
  }
  // The question may have been put by the response before this one, which returned for it.
  if (verdict.effect === "ask" && answer?.approval.digest !== digestOf(answer?.approval.responseId, tool, final)) {
    return denied("the arguments are not those that were approved");
  }
  const trusted = verdict.byRule || verdict.effect === "ask" || verdict.why === "mode auto";
  const isolation = isolationOf(parts, run, authority.profile, trusted);
  const guarded = withSubject(tool, subject, run, (now) => verdictOn(parts, run, tool, now, authority));
  return {
    kind: "ready",
    entry,
    tool: guarded,
    input: final,
    isolation,
    hiddenPaths: hiddenPaths(parts, run, authority.profile),
    allowed: {
      why: verdict.why,
      ...(answer && { approval: answer.approval.id, approvedBy: answer.approval.decidedBy ?? "" }),
      ...(subject.commands !== undefined && { sandbox: await parts.sandbox.level() }),
    },
  };
}

export function parseArguments(text: string): JsonObject | string {
  if (text.trim() === "") return {};
  try {
    const value = parseBounded(text, MAXIMUM_ARGUMENTS);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
    return "[Error: tool call arguments must be a JSON object]";
  } catch (error) {
    if (error instanceof RangeError) return `[Error: tool call arguments rejected — ${error.message}]`;
    return `[Error: malformed tool call arguments — could not parse JSON: ${text.slice(0, 2_000)}]`;
  }
}

/** A name in another of the accepted spellings, if what it names is offered. */
async function findOffered(parts: EngineParts, authority: Authority, name: string): Promise<Tool | undefined> {
  const found = await parts.tools.find(name);
  return found && authority.offered.get(found.name);
}

function unknownTool(name: string, offered: ReadonlyMap<string, Tool>): string {
  const names = [...offered.keys()];
  const shown = names.slice(0, 50).join(", ");
  return `unknown tool "${name.slice(0, 200)}"; available: ${shown}${names.length > 50 ? ", …" : ""}`;
}

async function subjectOf(tool: Tool, input: JsonObject, workspace: string): Promise<CallSubject | string> {
  try {
    return (await tool.subject?.(input, workspace)) ?? {};
  } catch (error) {
    return `[Tool error: ${error instanceof Error ? error.message : String(error)}]`;
  }
}

/**
 * Calls of one answer are judged together, and an earlier one can change where a path of a later one leads (by a
 * link, by renaming a folder): such a call is judged anew in the moment in which it starts.
 */
function withSubject(
  tool: Tool,
  judged: CallSubject,
  run: Run,
  verdictOnNow: (subject: CallSubject) => Promise<Verdict>,
): Tool {
  if (!judged.paths) return tool;
  const runJudged: Tool["run"] = async (input, context): Promise<ToolResult> => {
    const now = await subjectOf(tool, input, run.node.workspace);
    if (typeof now === "string") return { text: now, isError: true };
    if (canonicalJson(now.paths) !== canonicalJson(judged.paths)) {
      const { effect, why } = await verdictOnNow(now);
      if (effect !== "allow") return { text: deniedText(`its path leads elsewhere by now; ${why}`), isError: true };
    }
    return tool.run(input, context);
  };
  return Object.create(tool, { run: { value: runJudged } }) as Tool;
}

export async function verdictOn(
  parts: EngineParts,
  run: Run,
  tool: Tool,
  subject: CallSubject,
  { profile }: Authority,
): Promise<Verdict> {
  const { bounds } = run.node.settings;
  const rules: PermissionRules[] = [parts.permissions];
  if (bounds) rules.unshift({ allow: [], ask: bounds.ask, deny: bounds.deny });
  if (profile.permissions) rules.unshift(profile.permissions);
  const question = {
    tool,
    subject,
    workspace: run.node.workspace,
    mode: effectiveMode(parts, run, profile),
    readOnly: isReadOnly(run, profile),
    rules,
    sandbox: () => parts.sandbox.level(),
  };
  const verdict = await judge(question);
  // What was learned from answers only ever spares a question that no rule of the configuration asks.
  if (verdict.effect !== "ask" || verdict.byRule) return verdict;
  const allow = (await learnedRules(parts.store, run.node)).map((rule) => rule.rule);
  return allow.length === 0 ? verdict : judge({ ...question, rules: [...rules, { allow, ask: [], deny: [] }] });
}

/** The caller's wish for an outermost response; a sub-agent never gets more than its parent had. */
export function effectiveMode(parts: EngineParts, run: Run, profile: Profile): PermissionMode {
  const wished = run.node.settings.mode;
  const own = profile.mode ?? parts.permissions.mode;
  if (wished === undefined) return own;
  return run.node.caller ? stricter(wished, profile.mode ?? wished) : wished;
}

export function isReadOnly(run: Run, profile: Profile): boolean {
  return profile.readOnly || run.node.settings.readOnly === true;
}

function isolationOf(parts: EngineParts, run: Run, profile: Profile, trusted: boolean): Isolation {
  const { network } = parts.sandbox;
  return {
    readOnly: isReadOnly(run, profile) || effectiveMode(parts, run, profile) === "plan",
    network: network === "on" || (network === "auto" && trusted),
  };
}

function hiddenPaths(parts: EngineParts, run: Run, profile: Profile): string[] {
  return unreadable([
    ...parts.permissions.deny,
    ...(profile.permissions?.deny ?? []),
    ...(run.node.settings.bounds?.deny ?? []),
  ]);
}

export function approvalFor(
  parts: EngineParts,
  run: Run,
  entry: CallEntry,
  tool: Tool,
  input: JsonObject,
  subject: CallSubject,
  verdict: Verdict,
): Approval {
  const text = canonicalJson(input);
  return {
    id: "",
    responseId: run.node.id,
    itemId: entry.item.id,
    tool: tool.name,
    arguments: parts.redact(text),
    digest: digestOf(run.node.id, tool, input),
    why: verdict.why,
    pattern: patternFor(tool, subject, run.node.workspace),
    status: "pending",
    reason: null,
    decidedBy: null,
    createdAt: parts.now(),
    expiresAt: parts.now() + APPROVAL_LIFE,
    decidedAt: null,
  };
}

export function digestOf(responseId: string | undefined, tool: Tool, input: JsonObject): string {
  return hash("sha256", canonicalJson([responseId ?? "", tool.name, input]));
}

export function deniedText(reason: string): string {
  return `The call was DENIED: ${reason}. Do not try it again in another form; ask the user how to proceed.`;
}
