/**
 * One turn at the command line: start or resume a response, print it, and turn its end into an exit code.
 *
 * Invariant: the first Ctrl-C cancels the turn, the second leaves at once; SIGTERM leaves the response so
 * that it can be resumed.
 */
import type { App } from "../../types/app.ts";
import type { RunRequest } from "../../types/engine.ts";
import { type ErrorCode, errorTable } from "../../types/error.ts";
import type { IncompleteReason, ResponseNode, Status } from "../../types/response.ts";
import type { Lease } from "../../types/store.ts";
import { shortId } from "../../util/ids.ts";
import { outermost } from "../../util/outermost.ts";
import { isHeld } from "../../util/process-name.ts";
import { readServerFile } from "../../util/server-file.ts";
import { oneLine, visible } from "../../util/text.ts";
import { CallTimes } from "./call-times.ts";
import type { Interrupt } from "./context.ts";
import { JsonPrinter, type Printer, StreamJsonPrinter, type Streams, TextPrinter } from "./printer.ts";
import { endpointOf, Silence } from "./silence.ts";

export type OutputFormat = "text" | "json" | "stream-json";

export interface TurnOptions {
  format: OutputFormat;
  stream: boolean;
  verbose: boolean;
  streams: Streams;
  /** One line on stderr. */
  tell: (text: string) => void;
  /** Cancels the turn; the caller listens to signals. */
  interrupt: Interrupt;
  /** Print from behind this number on. Default -1. */
  after?: number;
}

export interface TurnResult {
  node: ResponseNode;
  exitCode: number;
}

/** In the server of this machine, if there is one that can, so that it outlives this terminal; else here. */
export async function startTurn(app: App, request: RunRequest): Promise<ResponseNode> {
  try {
    if (readServerFile(app.stateDirectory)) {
      const { startInServer } = await import("./remote.ts");
      const started = await startInServer(app, request);
      if (started) return started;
    }
    return await app.engine.start(request);
  } catch (thrown) {
    throw await (await import("./unfinished.ts")).explained(app, thrown);
  }
}

/** Follows a response that has been started, to its end. */
export async function followTurn(app: App, started: ResponseNode, options: TurnOptions): Promise<TurnResult> {
  const { engine } = app;
  const began = performance.now();
  const elsewhere = isElsewhere(await app.store.leaseOf(started.id));
  const printer = printerFor(started.id, options, !elsewhere);
  const times = elsewhere && options.format === "text" ? new CallTimes(app, started.id) : undefined;
  const silence = new Silence(app, started.id, options.tell);
  const onInterrupt = () => {
    engine.cancel(started.id, "cancelled by the user").catch(() => undefined);
  };
  const { signal } = options.interrupt;
  if (signal.aborted) onInterrupt();
  signal.addEventListener("abort", onInterrupt, { once: true });
  try {
    for await (const event of engine.watch(started.id, options.after ?? -1)) {
      silence.event(event);
      printer.event(event, await times?.of(event));
    }
    const node = await engine.wait(started.id);
    silence.end();
    if (options.interrupt.terminated()) {
      const goesOn = isElsewhere(await app.store.leaseOf(node.id));
      const where = goesOn ? "It goes on in the server. See it: rotunda show" : "Stopped. Go on with: rotunda resume";
      options.streams.err(`${where} ${shortId(node.id)}\n`);
      return { node, exitCode: 143 };
    }
    const full = await engine.get(node.id);
    const last = full.output.at(-1);
    // A call that was cut off was ours.
    const isTheirs = last?.type !== "mcp_call" || last.status === "completed";
    const late = node.incompleteReason === "max_time" && isTheirs ? await endpointOf(app, node) : undefined;
    printer.end(full, performance.now() - began, late);
    if (node.status === "waiting") await tellWaiting(app, node, options.streams);
    return { node, exitCode: exitCodeOf(node) };
  } finally {
    silence.end();
    signal.removeEventListener("abort", onInterrupt);
  }
}

function printerFor(id: string, { format, streams, stream, verbose }: TurnOptions, measured: boolean): Printer {
  if (format === "json") return new JsonPrinter(streams);
  if (format === "stream-json") return new StreamJsonPrinter(streams, id);
  return new TextPrinter(streams, { stream, verbose, measured });
}

async function tellWaiting(app: App, node: ResponseNode, streams: Streams): Promise<void> {
  if (node.error) {
    streams.err(`\nThe response waits: ${visible(node.error.message)}.\n`);
    if (node.error.budget) streams.err(`  rotunda budget set ${visible(node.error.budget)} …   raises it; then\n`);
    streams.err(`  rotunda resume ${shortId(node.id)}\n`);
    return;
  }
  streams.err("\nThe response waits for a person, and nobody here can answer:\n");
  for (const approval of await app.store.approvals({ status: "pending" })) {
    if ((await outermost(app, approval.responseId)) !== node.id) continue;
    const id = shortId(approval.id);
    streams.err(`  ${approval.tool} ${visible(oneLine(approval.arguments, 300))}\n`);
    streams.err(`    rotunda approve ${id}   or   rotunda deny ${id}\n`);
  }
}

/** Another process has it. */
function isElsewhere(lease: Lease | undefined): boolean {
  if (lease === undefined || lease.process.split("/")[1] === String(process.pid)) return false;
  return isHeld(lease);
}

/** Exit codes of design.md 7.4. */
function exitCodeOf(node: ResponseNode): number {
  const { status, incompleteReason: reason } = node;
  if (status === "completed") return 0;
  return errorTable[codeOf(status, reason, node.error?.code)].exit;
}

function codeOf(status: Status, reason: IncompleteReason | null, code: ErrorCode | undefined): ErrorCode {
  if (status === "waiting") return code ?? "approval_needed";
  if (status === "cancelled") return "cancelled";
  if (status !== "incomplete" || reason === "stream_cut" || reason === "interrupted") return code ?? "internal";
  return reason === "max_time" ? "timeout" : "limit_reached";
}
