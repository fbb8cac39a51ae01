/** Commands about responses: resume, log, cancel. */
import type { App } from "../../types/app.ts";
import type { Approver, Engine } from "../../types/engine.ts";
import { RotundaError } from "../../types/error.ts";
import type { ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { outermost } from "../../util/outermost.ts";
import { isHeld } from "../../util/process-name.ts";
import { approverFor, type CommandContext, interruptible } from "./context.ts";
import { headOf, named, responseNamed } from "./named.ts";
import { treeLines, treeOf, treeText } from "./outline.ts";
import { latestTrees } from "./trees.ts";
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
  const ids = id === undefined ? await leftBehind(app) : [await responseNamed(app, id)];
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

/** `wanted`: only the tree that holds a response, or a conversation. Else those that were spoken in last, the newest at the end. */
export async function log(
  context: CommandContext,
  wanted: string | undefined,
  flags: { json?: boolean; limit: number },
) {
  const app = await context.app();
  const here = wanted === undefined ? "" : await placeOf(app, wanted);
  const trees = wanted === undefined ? await latestTrees(app, flags.limit) : [await treeOf(app, here)];
  const { out, err } = context.streams;
  if (flags.json) {
    const lines = await Promise.all(trees.map(async (tree) => (tree ? treeLines(app, tree) : [])));
    const nodes = lines.flat().map(({ node, question, compacted }) => ({ ...node, question, compacted }));
    out(`${JSON.stringify(nodes)}\n`);
    return 0;
  }
  if (trees.length === 0) err("Nothing has been said yet.\n");
  for (const tree of trees) if (tree) out(await treeText(app, tree, here));
  return 0;
}

async function placeOf(app: App, wanted: string): Promise<string> {
  const found = await named(app, wanted);
  return "response" in found ? found.response : headOf(found.conversation);
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
  const full = await responseNamed(app, id);
  await app.engine.cancel(full, "cancelled by the user");
  context.streams.err(`Cancelled ${full}.\n`);
  return 0;
}
