/** Commands about responses: resume, log, show, cancel. */
import type { App } from "../../types/app.ts";
import type { Approver, Engine } from "../../types/engine.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import type { Item } from "../../types/item.ts";
import type { FullResponse, ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { outermost, rootOf } from "../../util/outermost.ts";
import { isHeld } from "../../util/process-name.ts";
import { counted, oneLine, visible } from "../../util/text.ts";
import { approverFor, type CommandContext, interruptible } from "./context.ts";
import { outline, treeLines, usedText } from "./outline.ts";
import { followTurn, type OutputFormat } from "./turn.ts";

export interface ResumeFlags {
  outputFormat: OutputFormat;
  stream: boolean;
  verbose: boolean;
}

/** Exit code after SIGTERM. */
const TERMINATED = 143;

/** Goes on with one response, or with every one that was left behind. */
export async function resume(context: CommandContext, id: string | undefined, flags: ResumeFlags): Promise<number> {
  const app = await context.app();
  const ids = id === undefined ? await leftBehind(app) : [await app.engine.resolveId(id, "response")];
  if (ids.length === 0) {
    const waiting = (await app.store.approvals({ status: "pending" })).length;
    const text =
      waiting > 0
        ? `what has not ended waits for an answer (${waiting}): rotunda approvals`
        : "every response has ended.";
    context.streams.err(`Nothing to resume: ${text}\n`);
    return 0;
  }
  let worst = 0;
  for (const one of ids) {
    worst = Math.max(worst, await resumeOne(context, app, one, flags));
    if (worst === TERMINATED) break;
  }
  return worst;
}

/** Responses that could go on and that no living process has; sub-agents go on with their callers. */
async function leftBehind(app: App): Promise<string[]> {
  const open = await app.store.list({ status: ["queued", "in_progress", "waiting"], limit: 1_000 });
  const waiting = new Set<string>();
  for (const { responseId } of await app.store.approvals({ status: "pending" }))
    waiting.add(await outermost(app, responseId));
  const abandoned: string[] = [];
  for (const node of open.filter((one) => one.caller === null && !waiting.has(one.id))) {
    if (!isHeld(await app.store.leaseOf(node.id))) abandoned.unshift(node.id);
  }
  return abandoned;
}

export async function resumeOne(context: CommandContext, app: App, id: string, flags: ResumeFlags): Promise<number> {
  const top = await outermost(app, id);
  return goOn(context, app, top, flags, (engine, approver) => engine.resume(top, approver));
}

/** Follows what `begin` sets going to its end; what does not go on here is no failure. */
export async function goOn(
  context: CommandContext,
  app: App,
  top: string,
  flags: ResumeFlags,
  begin: (engine: Engine, approver: Approver | undefined) => Promise<ResponseNode | undefined>,
): Promise<number> {
  const found = await app.store.node(top);
  const own = found ? await context.appFor(found) : app;
  const interrupt = interruptible(own);
  try {
    const told = await lastSequence(own, top);
    const node = await begin(own.engine, await approverFor(context));
    if (!node) return 0;
    context.streams.err(`Going on with ${shortId(node.id)}\n`);
    const { outputFormat: format, stream, verbose } = flags;
    // A person has seen what came before; a program that reads events gets all of them.
    const after = format === "stream-json" || node.id !== top ? -1 : told;
    const tell = (text: string) => context.say("info", text);
    const options = { format, stream, verbose, streams: context.streams, tell, interrupt, after };
    return (await followTurn(own, node, options)).exitCode;
  } finally {
    interrupt.dispose();
  }
}

async function lastSequence(app: App, id: string): Promise<number> {
  for (let last = -1; ; ) {
    const events = await app.store.events(id, last, 5_000);
    const end = events.at(-1);
    if (!end) return last;
    last = end.sequence_number;
  }
}

export async function log(context: CommandContext, id: string | undefined, flags: { json?: boolean; limit: number }) {
  const app = await context.app();
  const roots = await rootsFor(app, id, flags.limit);
  if (flags.json) {
    const trees = [];
    for (const root of roots)
      trees.push(
        (await treeLines(app, root)).map(({ node, question, compacted }) => ({ ...node, question, compacted })),
      );
    context.streams.out(`${JSON.stringify(trees.flat())}\n`);
    return 0;
  }
  if (roots.length === 0) context.streams.err("Nothing has been said yet.\n");
  const here = id === undefined ? "" : await app.engine.resolveId(id, "response");
  for (const root of roots) context.streams.out(await outline(app, root, here));
  return 0;
}

async function rootsFor(app: App, id: string | undefined, limit: number): Promise<string[]> {
  if (id !== undefined) return [await rootOf(app, await app.engine.resolveId(id, "response"))];
  return (await app.store.list({ roots: true, limit })).map((node) => node.id).reverse();
}

/** Of a conversation, by name or id, its last answer. Throws `not_found`, which says of one that was deleted that it was. */
async function found(app: App, id: string): Promise<FullResponse> {
  const conversation = id.startsWith("conv_") ? await app.engine.resolveId(id, "conversation") : id;
  const { head } = (await app.store.conversation(conversation)) ?? {};
  if (head === null) throw new RotundaError("not_found", `nothing is left of the conversation ${id}`);
  if (head !== undefined) return app.engine.get(head);
  try {
    return await app.engine.get(await app.engine.resolveId(id, "response"));
  } catch (thrown) {
    if (toRotundaError(thrown).code !== "not_found") throw thrown;
    const [gone, other] = await (await app.store.browsing()).deleted(id);
    if (!gone || other) throw thrown;
    const day = new Date(gone.at).toISOString().slice(0, 10);
    throw new RotundaError("not_found", `response ${gone.id} was deleted on ${day}`);
  }
}

export async function show(
  context: CommandContext,
  id: string,
  flags: { json?: boolean; full?: boolean },
): Promise<number> {
  const app = await context.app();
  const response = await found(app, id);
  const { out, outStyle } = context.streams;
  if (flags.json) {
    out(`${JSON.stringify(response)}\n`);
    return 0;
  }
  out(`${outStyle.bold(response.id)}\n${facts(response)}\n`);
  const below = await app.store.usedBelow(response.id);
  if (below.responses > 1) {
    const all = usedText({ total_tokens: below.tokens, cost: below.cost });
    out(`  with all below: ${all} in ${counted(below.responses, "response")}\n`);
  }
  for (const item of [...response.input, ...response.output]) {
    const whole = flags.full && item.type === "mcp_call" ? await app.store.output(item.id) : undefined;
    out(`\n${outStyle.cyan(heading(item))}\n${visible(whole ?? body(item))}\n`);
  }
  return 0;
}

function facts(node: ResponseNode): string {
  const facts: [string, string | number | null][] = [
    ["status", node.incompleteReason ? `${node.status} (${node.incompleteReason})` : node.status],
    ["previous", node.previousResponseId],
    ["caller", node.caller?.responseId ?? null],
    ["conversation", node.conversationId],
    ["profile", node.profile],
    ["model", node.model],
    ["workspace", node.workspace],
    ["created", new Date(node.createdAt).toISOString()],
    ["ended", node.endedAt === null ? null : new Date(node.endedAt).toISOString()],
    ["used", node.usage.total_tokens === 0 ? null : usedText(node.usage)],
    ["hash", node.hash],
    ["error", node.error ? `${node.error.code}: ${node.error.message}` : null],
  ];
  return facts.flatMap(([name, value]) => (value === null ? [] : [`  ${name}: ${visible(String(value))}`])).join("\n");
}

function heading(item: Item): string {
  const status = "status" in item && item.status !== "completed" ? ` [${item.status}]` : "";
  if (item.type === "message") return `${item.role}${status}`;
  if (item.type === "mcp_call") return `call ${visible(item.name)} (${shortId(item.id)})${status}`;
  return `${item.type}${status}`;
}

function body(item: Item): string {
  switch (item.type) {
    case "message":
      return item.content
        .map((part) => ("text" in part ? part.text : part.type === "refusal" ? part.refusal : "[image]"))
        .join("");
    case "reasoning":
      return item.content.map((part) => part.text).join("");
    case "mcp_call":
      return `${oneLine(item.arguments, 2_000)}\n${item.output ?? item.error ?? "(no outcome yet)"}`;
    case "mcp_approval_response":
      return item.approve ? "allowed" : `denied: ${item.reason ?? ""}`;
    case "function_call":
    case "mcp_approval_request":
      return `${item.name} ${item.arguments}`;
    case "function_call_output":
      return item.output;
    case "compaction": {
      const { covers } = item;
      const range = covers
        ? `[${counted(covers.items, "item")}, ${shortId(covers.from)} to ${shortId(covers.to)}]\n`
        : "";
      return `${range}${item.summary}`;
    }
  }
}

export async function cancel(
  context: CommandContext,
  id: string | undefined,
  flags: { all?: boolean },
): Promise<number> {
  const app = await context.app();
  if (flags.all) {
    if (id !== undefined) throw new RotundaError("usage", "which one: that response, or --all?");
    const count = await app.engine.cancelAll("cancelled by the user");
    context.streams.err(`Cancelled ${count}.\n`);
    return 0;
  }
  if (id === undefined) throw new RotundaError("usage", "which response? Give its id, or --all");
  const full = await app.engine.resolveId(id, "response");
  await app.engine.cancel(full, "cancelled by the user");
  context.streams.err(`Cancelled ${full}.\n`);
  return 0;
}
