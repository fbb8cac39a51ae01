/**
 * Call tools: runs the calls of one answer.
 *
 * Invariant: a call that may have effects is on disk as `calling` before it starts, so it is never started
 * twice. Reading calls run beside each other; any other waits for all that stand before it, and all that
 * stand behind it wait for it.
 */
import { hash } from "node:crypto";
import type { Approval, Decision } from "../types/approval.ts";
import { toRotundaError } from "../types/error.ts";
import type { ApprovalRequestItem, ApprovalResponseItem, Item, McpCallItem } from "../types/item.ts";
import type { Json } from "../types/json.ts";
import type { Profile } from "../types/profile.ts";
import type { TraceContext } from "../types/telemetry.ts";
import type { Delegation, DelegationResult, Tool, ToolContext, ToolResult } from "../types/tool.ts";
import { newId, shortId } from "../util/ids.ts";
import { clip } from "./clip.ts";
import { runHooks } from "./hooks.ts";
import { answeredApprovals, type CallEntry, isCall, isSettled } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import { deniedText, type Prepared, prepare } from "./prepare.ts";
import type { Run, Stop } from "./run.ts";
import { runTool } from "./spans.ts";

/** A sub-agent waits (for a person who is not at hand, for a budget): so does the call, and the response that made it. */
export class ChildWaiting extends Error {}

export interface CallSupport {
  profile: Profile;
  offered: ReadonlyMap<string, Tool>;
  delegate(run: Run, entry: CallEntry, request: Delegation): Promise<DelegationResult>;
  readOutput(run: Run, reference: string): Promise<string | undefined>;
  /** What a compaction keeps from the model. */
  recall?: NonNullable<ToolContext["recall"]>;
  /** Puts the question and resolves with the answer; undefined if nobody is at hand, or nobody is waited for (any more). */
  askPerson(run: Run, approval: Approval, wait: boolean, until?: AbortSignal): Promise<Decision | undefined>;
}

type Ready = Extract<Prepared, { kind: "ready" }>;
type Asking = Extract<Prepared, { kind: "ask" }>;

export const INTERRUPTED =
  "interrupted, outcome unknown: the call had started when the process that ran it ended. Find out what it did before you repeat it.";

/** Characters of arguments that the audit log keeps beside their digest. */
const AUDITED_ARGUMENTS = 2_000;

/** What happens when a person must answer: the profile's word beats the door's; a sub-agent follows its caller. */
export function approvalWay({ node }: Run, profile: Profile): "wait" | "return" | "deny" {
  const { onApproval = "wait" } = node.settings;
  if (node.caller) return onApproval === "return" ? "deny" : onApproval;
  return profile.onApproval ?? onApproval;
}

/** "waiting": what is left waits for a person. */
export async function callTools(
  parts: EngineParts,
  run: Run,
  calls: readonly CallEntry[],
  support: CallSupport,
): Promise<"done" | "waiting"> {
  const limit = run.node.settings.limits?.callsPerAnswer ?? support.profile.limits.callsPerAnswer;
  for (const entry of calls.slice(limit)) {
    if (!isSettled(entry.item)) settle(run, entry, "incomplete", `not run: more than ${limit} calls in one answer`);
  }
  const { maxToolCalls = Number.POSITIVE_INFINITY } = run.node.settings;
  const before = run.output.filter((entry) => isCall(entry) && isSettled(entry.item)).length;
  const unsettled = calls.slice(0, limit).filter((entry) => !isSettled(entry.item));
  const open = unsettled.slice(0, Math.max(0, maxToolCalls - before));
  for (const entry of unsettled.slice(open.length)) {
    settle(run, entry, "incomplete", `not run: the response may call ${maxToolCalls} tools and has done so`);
  }
  const prepared = await prepareAll(parts, run, open, support);
  await askTogether(parts, run, prepared, support.profile);
  return new Schedule(parts, run, support).run(prepared);
}

async function prepareAll(
  parts: EngineParts,
  run: Run,
  open: readonly CallEntry[],
  support: CallSupport,
): Promise<Prepared[]> {
  const answered = answeredApprovals([...run.input, ...run.output]);
  const prepared: Prepared[] = [];
  for (const stored of open) {
    const entry: CallEntry = { ...stored, item: { ...stored.item }, meta: { ...stored.meta } };
    const tool = support.offered.get(entry.meta.tool ?? "");
    if (entry.item.status === "calling" && tool?.repeatable !== true) {
      settle(run, entry, "incomplete", INTERRUPTED);
      continue;
    }
    const request = entry.item.approval_request_id;
    const approve = request === null ? undefined : answered.get(request);
    const reason = request === null || approve !== false ? null : reasonOf(run, request);
    const approval = request === null ? undefined : await parts.store.approval(request);
    const answer = approve === undefined || !approval ? undefined : { approve, reason, approval };
    const asked = request !== null && answer === undefined;
    prepared.push(await prepare(parts, run, entry, { ...support, answer, asked }));
  }
  return prepared;
}

function reasonOf(run: Run, request: string): string | null {
  for (const { item } of [...run.input, ...run.output]) {
    if (item.type === "mcp_approval_response" && item.approval_request_id === request) return item.reason;
  }
  return null;
}

/** All questions of one answer are put before the first is waited for: a person sees them together. */
async function askTogether(
  parts: EngineParts,
  run: Run,
  prepared: readonly Prepared[],
  profile: Profile,
): Promise<void> {
  const asking = prepared.filter((call): call is Asking => call.kind === "ask");
  if (asking.length === 0) return;
  if (approvalWay(run, profile) === "deny") return;
  for (const call of asking) {
    const known = call.entry.item.approval_request_id;
    if (known !== null) {
      call.approval = (await parts.store.approval(known)) ?? call.approval;
      continue;
    }
    putQuestion(run, call.entry, call.approval);
  }
  await run.commit();
}

/** Puts the question of an approval about a call into the log, and the approval with it. */
export function putQuestion(run: Run, entry: CallEntry, approval: Approval): void {
  const item: ApprovalRequestItem = {
    type: "mcp_approval_request",
    id: newId("mcpr"),
    server_label: entry.item.server_label,
    name: entry.item.name,
    arguments: approval.arguments,
  };
  approval.id = item.id;
  entry.item.approval_request_id = item.id;
  run.put(entry);
  addItem(run, entry.turn, item);
  run.ask(approval);
}

/** Puts the answer to an approval into the log. */
export function putAnswer(run: Run, turn: number, approvalId: string, decision: Decision): void {
  const item: ApprovalResponseItem = {
    type: "mcp_approval_response",
    id: newId("mcpa"),
    approval_request_id: approvalId,
    approve: decision.decision === "allow",
    reason: decision.reason ?? null,
  };
  addItem(run, turn, item);
}

function addItem(run: Run, turn: number, item: Item): void {
  const position = run.output.length;
  run.emit({ type: "response.output_item.added", output_index: position, item });
  run.put({ side: "output", position, turn, item, meta: {} });
  run.emit({ type: "response.output_item.done", output_index: position, item });
}

/** Gives a call its outcome: item, entry and events in one batch. */
export function settle(run: Run, entry: CallEntry, status: "completed" | "failed" | "incomplete", text: string): void {
  const item: McpCallItem = { ...entry.item, status };
  if (status === "incomplete") item.error = text;
  else {
    item.output = text;
    item.error = status === "failed" ? text : null;
  }
  const at = { output_index: entry.position, item_id: item.id };
  if (status !== "incomplete") {
    run.emit({ type: status === "completed" ? "response.mcp_call.completed" : "response.mcp_call.failed", ...at });
  }
  run.put({ ...entry, item });
  run.emit({ type: "response.output_item.done", output_index: entry.position, item });
}

/** The outcome, and its record in the audit log: one batch. */
export function settleAudited(
  parts: EngineParts,
  run: Run,
  entry: CallEntry,
  status: "completed" | "failed" | "incomplete",
  text: string,
  decided: { [key: string]: Json },
): void {
  settle(run, entry, status, text);
  const { node } = run;
  const written = entry.meta.rewritten ?? entry.item.arguments;
  const details = {
    tool: entry.meta.tool ?? entry.item.name,
    item: entry.item.id,
    arguments: parts.redact(written).slice(0, AUDITED_ARGUMENTS),
    argumentsDigest: hash("sha256", written),
    ...decided,
    status,
    resultDigest: hash("sha256", text),
  };
  run.audit({ action: "tool_call", who: node.owner, door: node.door, responseId: node.id, at: parts.now(), details });
}

class Schedule {
  readonly #parts: EngineParts;
  readonly #run: Run;
  readonly #support: CallSupport;
  #waiting = false;

  constructor(parts: EngineParts, run: Run, support: CallSupport) {
    this.#parts = parts;
    this.#run = run;
    this.#support = support;
  }

  async run(prepared: readonly Prepared[]): Promise<"done" | "waiting"> {
    const together: Promise<void>[] = [];
    for (const call of prepared) {
      const alone = !this.#mayRunBeside(call);
      if (alone) await Promise.all(together.splice(0));
      if (this.#run.stopped) break;
      const task = this.#one(call);
      if (!alone) together.push(task);
      else {
        await task;
        // What stands behind a call that waits for a person waits for it too.
        if (this.#waiting) break;
      }
    }
    await Promise.all(together);
    return this.#waiting ? "waiting" : "done";
  }

  #mayRunBeside(call: Prepared): boolean {
    if ((this.#run.node.settings.parallel ?? this.#support.profile.parallel) === false) return false;
    if (call.kind === "refused") return true;
    return call.tool.parallel ?? call.tool.access === "read";
  }

  async #one(call: Prepared): Promise<void> {
    if (call.kind === "refused") {
      this.#settle(call, "failed", this.#parts.redact(call.text), { decision: "deny", why: call.why });
      return;
    }
    if (call.kind === "ready") {
      await this.#execute(call);
      return;
    }
    const way = approvalWay(this.#run, this.#support.profile);
    if (way === "deny") {
      const why = `${call.approval.why}, and nobody is there to ask`;
      this.#settle(call, "failed", deniedText(why), { decision: "deny", why });
      return;
    }
    const decision = await this.#support.askPerson(this.#run, call.approval, way === "wait");
    if (!decision) {
      this.#waiting = true;
      return;
    }
    if (this.#run.stopped) return;
    putAnswer(this.#run, call.entry.turn, call.approval.id, decision);
    const approval: Approval = { ...call.approval, decidedBy: decision.by };
    const answer = { approve: decision.decision === "allow", reason: decision.reason ?? null, approval };
    if (answer.approve && call.tool.changed !== undefined) await this.#parts.tools.accept?.(call.tool.name);
    const again = await prepare(this.#parts, this.#run, call.entry, {
      ...this.#support,
      answer,
      asked: false,
    });
    await this.#one(again);
  }

  async #execute(call: Ready): Promise<void> {
    const { entry, tool } = call;
    const run = this.#run;
    const began = performance.now();
    entry.item = { ...entry.item, status: "calling" };
    run.put(entry);
    run.emit({ type: "response.mcp_call.in_progress", output_index: entry.position, item_id: entry.item.id });
    // A call that may be repeated needs no proof that it had started.
    if (!tool.repeatable) await run.commit();
    if (run.stopped) return;
    let result: ToolResult;
    try {
      const work = runTool(this.#parts, run, call, (trace) => tool.run(call.input, this.#context(call, trace)));
      result = checkedResult(await abortable(work, run.signal));
      // A tool that we have cut off ourselves has no outcome: whoever goes on with the response says so.
      if (result.isError && stopOf(run)?.status === "shutdown") return;
    } catch (error) {
      if (error instanceof ChildWaiting) {
        this.#waiting = true;
        return;
      }
      const stop = stopOf(run);
      if (stop) {
        if (stop.status !== "shutdown") {
          this.#settle(call, "incomplete", `interrupted: ${INTERRUPTED_BY_STOP}`, {
            decision: "allow",
            ...call.allowed,
          });
        }
        return;
      }
      result = { text: `[Tool error: ${toRotundaError(error).message}]`, isError: true };
    }
    await this.#record(call, result, Math.round(performance.now() - began));
  }

  async #record(call: Ready, result: ToolResult, duration: number): Promise<void> {
    const { entry, tool, input } = call;
    const { redact } = this.#parts;
    let text = redact(result.text === "" ? "(no output)" : result.text);
    const hooked = await runHooks(this.#parts, this.#run, "afterToolCall", {
      tool: tool.name,
      arguments: input,
      output: text,
    });
    if (hooked.output !== undefined) text = redact(hooked.output);
    // Whoever has put other words in the place of a result has not seen its images.
    else if (result.images) entry.meta = { ...entry.meta, images: result.images };
    const clipped = clip(text, this.#parts.toolOutputLimit, shortId(entry.item.id));
    entry.meta = { ...entry.meta, duration };
    if (clipped.wholeLength !== undefined) {
      entry.meta.wholeLength = clipped.wholeLength;
      this.#run.keepWhole(entry.item.id, text);
    }
    this.#settle(call, result.isError ? "failed" : "completed", clipped.text, { decision: "allow", ...call.allowed });
    if (result.display) {
      const { id: responseId } = this.#run.node;
      const notice = { responseId, level: "info", topic: "tools", itemId: entry.item.id } as const;
      this.#parts.notify({ ...notice, text: redact(result.display.text) });
    }
  }

  #settle(
    { entry }: Prepared,
    status: "completed" | "failed" | "incomplete",
    text: string,
    decided: { [key: string]: Json },
  ): void {
    settleAudited(this.#parts, this.#run, entry, status, text, decided);
  }

  #context(call: Ready, trace: TraceContext | undefined): ToolContext {
    const { node, signal } = this.#run;
    return {
      workspace: node.workspace,
      signal,
      responseId: node.id,
      itemId: call.entry.item.id,
      profile: node.profile,
      depth: node.depth,
      isolation: call.isolation,
      hiddenPaths: call.hiddenPaths,
      progress: (text) =>
        this.#parts.notify({
          responseId: node.id,
          level: "debug",
          topic: "tools",
          text: this.#parts.redact(text),
          itemId: call.entry.item.id,
        }),
      delegate: (request) => this.#support.delegate(this.#run, call.entry, request),
      readOutput: (reference) => this.#support.readOutput(this.#run, reference),
      ...(trace && { trace }),
      ...(this.#support.recall && { recall: this.#support.recall }),
    };
  }
}

/** A library's tool may answer anything. */
function checkedResult(result: unknown): ToolResult {
  if (typeof result === "object" && result !== null && typeof (result as ToolResult).text === "string") {
    return result as ToolResult;
  }
  return { text: "[Tool error: the tool gave no result with a text]", isError: true };
}

/** Read anew: it changes while the tool runs. */
function stopOf(run: Run): Stop | null {
  return run.stopped;
}

export const INTERRUPTED_BY_STOP = "the response was stopped while the call ran; what it did until then is not known";

/** A tool that does not listen to its signal must not hold up a cancel. Its late result is dropped. */
async function abortable(work: Promise<ToolResult>, signal: AbortSignal): Promise<ToolResult> {
  if (signal.aborted) signal.throwIfAborted();
  return new Promise<ToolResult>((resolve, reject) => {
    const grace = () => setTimeout(() => reject(new Error("stopped")), 500).unref();
    signal.addEventListener("abort", grace, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", grace));
  });
}
