/**
 * Advance: the loop. Ask what is next, do it, until the response ends, waits for a person, or leaves this
 * process.
 *
 * Invariant: it never throws; whatever happens, the run's fate is on disk, or the run is left as a crash
 * would leave it.
 */
import { RotundaError, toRotundaError } from "../types/error.ts";
import type { Model, ToolDefinition } from "../types/model.ts";
import type { Profile } from "../types/profile.ts";
import type { EndedStatus, Limits } from "../types/response.ts";
import type { RunSpan } from "../types/telemetry.ts";
import type { Tool } from "../types/tool.ts";
import { matchesList } from "../util/text.ts";
import { settleAgentCalls, settleLost } from "./agent-resume.ts";
import { ask } from "./ask.ts";
import type { BudgetGate } from "./budget.ts";
import { approvalWay, type CallSupport, callTools, settle } from "./call-tools.ts";
import { Compactor } from "./compact.ts";
import { droppedFrom } from "./compacted.ts";
import type { History } from "./history.ts";
import { runHooks } from "./hooks.ts";
import { answeredApprovals, finishedTurns, isCall, isSettled, next } from "./next.ts";
import type { EngineParts } from "./parts.ts";
import { withRecall } from "./recall.ts";
import type { Run, Stop } from "./run.ts";
import { beginSpan } from "./spans.ts";
import { RETURNED } from "./text.ts";
import { narrowed, TOOL_SEARCH_ABOVE } from "./tool-search.ts";
import { usageOf } from "./usage.ts";

export interface AdvanceSupport extends Pick<CallSupport, "delegate" | "readOutput" | "askPerson"> {
  history: History;
  budgets: BudgetGate;
}

interface Offer {
  /** What it was made of. */
  all: readonly Tool[];
  tools: readonly Tool[];
  offered: ReadonlyMap<string, Tool>;
  definitions: readonly ToolDefinition[];
}

/** What stays the same for a whole run. */
interface Setting {
  profile: Profile;
  model: Model;
  limits: Limits;
  projectInstructions: string;
  above: Awaited<ReturnType<History["path"]>>;
}

export async function advance(parts: EngineParts, run: Run, support: AdvanceSupport): Promise<void> {
  let span: RunSpan | undefined;
  try {
    span = beginSpan(parts, run);
    // Stopped before its turn came: its parent may not have ended yet, so nothing of it is read.
    if (run.stopped) {
      await end(parts, run, run.stopped, support);
      return;
    }
    const setting = await prepareSetting(parts, run, support);
    run.stopwatch.limit(setting.limits.seconds * 1_000, () => run.stop({ status: "incomplete", reason: "max_time" }));
    const denied = run.output.length === 0 ? (await runHooks(parts, run, "onResponseStart", {})).denied : undefined;
    const stop: Stop | "waiting" =
      denied === undefined
        ? await loop(parts, run, setting, support)
        : { status: "failed", error: { code: "denied", message: denied } };
    if (stop === "waiting") await wait(run);
    else await end(parts, run, stop, support);
  } catch (thrown) {
    await failed(parts, run, thrown, support);
  } finally {
    run.stopwatch.stop();
    span?.end(run.node);
  }
}

async function prepareSetting(parts: EngineParts, run: Run, support: AdvanceSupport): Promise<Setting> {
  const { node } = run;
  const profile = await parts.profiles.get(node.profile);
  return {
    profile,
    model: await parts.models.get(node.model),
    limits: { ...profile.limits, ...node.settings.limits },
    projectInstructions: await parts.projectInstructions(node.workspace),
    above: await support.history.path(node.previousResponseId),
  };
}

async function loop(
  parts: EngineParts,
  run: Run,
  setting: Setting,
  support: AdvanceSupport,
): Promise<Stop | "waiting"> {
  let offer: Offer | undefined;
  const compactor = new Compactor(parts, run, { ...support, ...setting });
  const recall = async () => droppedFrom([...setting.above, support.history.current(run)]);
  settleLost(run);
  if (run.node.settings.compact) return compactor.byHand();
  for (;;) {
    if (run.failure) throw run.failure;
    if (run.stopped) return run.stopped;
    const tokens = await tokensSpent(parts, run);
    const seconds = run.stopwatch.spent() / 1_000;
    const step = next({ output: run.output, limits: setting.limits, seconds, tokens });
    if (step.kind === "end") return { ...step };
    const all = await parts.tools.list(run.signal);
    if (offer?.all !== all) offer = offerOf(all, run, setting.profile);
    const narrow = narrowed(offer, parts.toolSearchAbove ?? TOOL_SEARCH_ABOVE, setting.above, run);
    const held = step.kind === "ask" && (await compactor.before(narrow.definitions));
    if (held) return held;
    const shown = withRecall(narrow, setting.above, run);
    if (step.kind === "ask") {
      // A little later than our own limit, which is the one that should end it.
      const deadline = parts.now() + setting.limits.seconds * 1_000 - run.stopwatch.spent() + 1_000;
      const leave = await support.budgets.forCall(run, setting);
      if (run.stopped) return run.stopped;
      if ("code" in leave) {
        run.patch({ error: leave });
        return "waiting";
      }
      const stop = await ask(parts, run, step, { ...support, ...setting, ...shown, deadline, leave });
      leave.settle();
      if (stop === "waiting") return stop;
      const longer = stop && (await compactor.after(stop, shown.definitions));
      if (longer && longer !== "again") return longer;
      if (stop && !longer) return stop;
    } else {
      const own = step.calls.some(({ meta }) => meta.agent);
      const outcome = await (own ? settleAgentCalls : callTools)(parts, run, step.calls, {
        ...support,
        ...setting,
        ...shown,
        recall,
      });
      // What was answered in the meantime is not waited for.
      if (outcome === "waiting" && !run.stopped && !(await hasNews(parts, run))) {
        if (run.node.error) return "waiting"; // For a budget: nobody need answer anything.
        return approvalWay(run, setting.profile) === "return" ? { status: "completed", returned: true } : "waiting";
      }
    }
  }
}

const offers = new WeakMap<readonly Tool[], Map<string, Offer>>();

/** Clients send tools of their own: what was made of them is not kept for ever. */
const OFFER_LIMIT = 500;

/** The tools of a profile, narrowed by the run's own filters. The same objects as long as nothing changes. */
function offerOf(all: readonly Tool[], run: Run, profile: Profile): Offer {
  const { toolFilters = [], toolChoice, clientTools = [], bounds } = run.node.settings;
  const key = JSON.stringify([
    profile.name,
    profile.tools,
    profile.servers,
    profile.adminTools,
    profile.readOnly,
    run.node.caller === null,
    toolFilters,
    bounds?.servers,
    toolChoice === "none",
    clientTools,
  ]);
  const known = offers.get(all) ?? new Map<string, Offer>();
  offers.set(all, known);
  let offer = known.get(key);
  if (!offer) {
    const clients = new Set(clientTools.map(({ name }) => name));
    const allowed =
      toolChoice === "none" ? [] : toolsOf(profile, all, toolFilters, bounds?.servers, run.node.caller === null);
    // Where both have a tool of the same name, the client means its own.
    const tools = allowed.filter(({ name }) => !clients.has(name));
    const definitions: ToolDefinition[] = tools.map(({ name, description, input }) => ({ name, description, input }));
    for (const { name, description = "", parameters = { type: "object" }, strict } of clientTools) {
      definitions.push({ name, description, input: parameters, ...(strict === true && { strict }) });
    }
    if (known.size >= OFFER_LIMIT) known.clear();
    offer = { all, tools, definitions, offered: new Map(tools.map((tool) => [tool.name, tool])) };
    known.set(key, offer);
  }
  return offer;
}

/** The tools that a profile may use. Admin tools are for outermost responses, and only where the profile names them. */
export function toolsOf(
  profile: Profile,
  all: readonly Tool[],
  filters: readonly string[][] = [],
  servers: readonly string[][] = [],
  outermost = true,
): Tool[] {
  const serverLists = profile.servers ? [profile.servers, ...servers] : servers;
  const lists = profile.tools ? [profile.tools, ...filters] : filters;
  return all.filter((tool) => {
    if (profile.readOnly && tool.access === "write") return false;
    if (tool.server !== "rotunda" && !serverLists.every((list) => matchesList(list, [tool.server]))) return false;
    const names = [tool.name, `${tool.server}:${tool.serverName}`, `${tool.server}__${tool.serverName}`];
    if (tool.admin) return outermost && namesAdmin(profile, tool) && filters.every((list) => matchesList(list, names));
    return lists.every((list) => matchesList(list, names));
  });
}

/** `*` alone names everything, and so nothing in particular. */
function namesAdmin({ adminTools = [], tools = [] }: Profile, { name }: Tool): boolean {
  const named = tools.filter((glob) => !/^[*?!]/.test(glob));
  return matchesList(adminTools, [name]) || (named.length > 0 && matchesList(named, [name]));
}

/** Of the response and of all the sub-agents below it. */
export async function tokensSpent(parts: EngineParts, run: Run): Promise<number> {
  const own = usageOf(run.output).total_tokens;
  return run.delegated ? own + (await tokensBelow(parts, run.node.id)) : own;
}

async function tokensBelow(parts: EngineParts, id: string): Promise<number> {
  let tokens = 0;
  for (const child of await parts.store.list({ callerResponseId: id, limit: 1_000 })) {
    tokens += child.usage.total_tokens + (await tokensBelow(parts, child.id));
  }
  return tokens;
}

/** Left as it is, for whoever goes on with it. */
async function wait(run: Run): Promise<void> {
  run.patch({ status: "waiting", usage: usageOf(run.output), ran: run.stopwatch.spent() });
  await run.commit();
}

/** A question of this run was answered elsewhere, and the run has not recorded it yet. */
export async function hasNews(parts: EngineParts, run: Run): Promise<boolean> {
  const recorded = answeredApprovals(run.output);
  const asked = await parts.store.approvals({ responseId: run.node.id });
  return asked.some(({ id, status }) => status !== "pending" && status !== "withdrawn" && !recorded.has(id));
}

async function end(parts: EngineParts, run: Run, stop: Stop, support: AdvanceSupport): Promise<void> {
  if (stop.status === "shutdown") {
    run.patch({ ran: run.stopwatch.spent() });
    await run.commit();
    return;
  }
  const why = stop.returned ? RETURNED : "not run: the response has ended";
  for (const entry of run.output) if (isCall(entry) && !isSettled(entry.item)) settle(run, entry, "incomplete", why);
  if (!stop.returned) await withdraw(parts, run);
  // A response that was stopped has its end as well.
  await runHooks(parts, run, "onResponseEnd", { status: stop.status }, new AbortController().signal);
  finish(parts, run, stop.status, stop);
  await run.commit();
  tellEnd(parts, run);
  run.ended = true;
  support.history.ended(run);
}

/** For logs: how each response ended, and what it took. */
function tellEnd(parts: EngineParts, { node, output }: Run): void {
  const why = node.incompleteReason ?? node.error?.code;
  const { total_tokens, cost } = node.usage;
  const money = cost === undefined ? "" : `, $${Number(cost.toPrecision(4))}`;
  const text = `response ${node.status}${why ? ` (${why})` : ""}: ${finishedTurns(output)} model calls, ${total_tokens} tokens${money}, ${node.ran} ms`;
  parts.notify({ responseId: node.id, level: "debug", topic: "engine", text });
}

/** Nobody need answer any more. */
async function withdraw(parts: EngineParts, run: Run): Promise<void> {
  if (!run.output.some((entry) => entry.item.type === "mcp_approval_request")) return;
  for (const approval of await parts.store.approvals({ status: "pending", responseId: run.node.id })) {
    run.ask({ ...approval, status: "withdrawn", decidedAt: parts.now() });
  }
}

/** The end of a response: its columns and its last event. */
export function finish(parts: EngineParts, run: Run, status: EndedStatus, stop: Stop): void {
  run.patch({
    status,
    incompleteReason: stop.reason ?? null,
    error: stop.error ?? null,
    usage: usageOf(run.output),
    endedAt: Math.max(parts.now(), run.node.createdAt),
    ran: run.stopwatch.spent(),
  });
  if (status === "failed" && stop.error) run.emit({ type: "error", ...stop.error });
  const type = status === "completed" || status === "failed" ? (`response.${status}` as const) : "response.incomplete";
  run.emit({ type, status });
}

/** A fault of ours, of the store or of a part: the response fails with it, if it can still be written. */
async function failed(parts: EngineParts, run: Run, thrown: unknown, support: AdvanceSupport): Promise<void> {
  const error = toRotundaError(thrown);
  const message = parts.redact(error.message);
  if (run.failure) {
    parts.notify({ responseId: run.node.id, level: "error", topic: "engine", text: message });
    return;
  }
  try {
    await end(parts, run, { status: "failed", error: { code: error.code, message } }, support);
  } catch (second) {
    run.failure ??= second instanceof RotundaError ? second : error;
    parts.notify({ responseId: run.node.id, level: "error", topic: "engine", text: message });
  }
}
