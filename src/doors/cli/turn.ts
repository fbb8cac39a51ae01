/**
 * One turn at the command line: start or resume a response, print it, and turn its end into an exit code.
 *
 * Invariant: the first Ctrl-C cancels the turn, the second leaves at once; SIGTERM leaves the response so
 * that it can be resumed.
 */
import type { App } from "../../types/app.ts";
import { type ErrorCode, errorTable } from "../../types/error.ts";
import type { ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { oneLine, visible } from "../../util/text.ts";
import { JsonPrinter, type Printer, StreamJsonPrinter, type Streams, TextPrinter } from "./printer.ts";

export type OutputFormat = "text" | "json" | "stream-json";

export interface TurnOptions {
  format: OutputFormat;
  stream: boolean;
  verbose: boolean;
  streams: Streams;
  /** Cancels the turn; the caller listens to signals. */
  interrupt: AbortSignal;
  /** Print from behind this number on. Default -1. */
  after?: number;
}

export interface TurnResult {
  node: ResponseNode;
  exitCode: number;
}

/** Follows a response that has been started, to its end. */
export async function followTurn(app: App, started: ResponseNode, options: TurnOptions): Promise<TurnResult> {
  const { engine } = app;
  const began = performance.now();
  const printer = printerFor(started.id, options);
  const onInterrupt = () => {
    engine.cancel(started.id, "cancelled by the user").catch(() => undefined);
  };
  if (options.interrupt.aborted) onInterrupt();
  options.interrupt.addEventListener("abort", onInterrupt, { once: true });
  try {
    for await (const event of engine.watch(started.id, options.after ?? -1)) printer.event(event);
    const node = await engine.wait(started.id);
    printer.end(await engine.get(node.id), performance.now() - began);
    if (node.status === "waiting") await tellWaiting(app, node, options.streams);
    return { node, exitCode: exitCodeOf(node) };
  } finally {
    options.interrupt.removeEventListener("abort", onInterrupt);
  }
}

function printerFor(id: string, { format, streams, stream, verbose }: TurnOptions): Printer {
  if (format === "json") return new JsonPrinter(streams);
  if (format === "stream-json") return new StreamJsonPrinter(streams, id);
  return new TextPrinter(streams, { stream, verbose });
}

async function tellWaiting(app: App, node: ResponseNode, streams: Streams): Promise<void> {
  streams.err("\nThe response waits for a person, and nobody here can answer:\n");
  for (const approval of await app.store.approvals({ status: "pending" })) {
    if ((await outermost(app, approval.responseId)) !== node.id) continue;
    const id = shortId(approval.id);
    streams.err(`  ${approval.tool} ${visible(oneLine(approval.arguments, 300))}\n`);
    streams.err(`    rotunda approve ${id}   or   rotunda deny ${id}\n`);
  }
}

/** The response that a person started, above a sub-agent's. */
export async function outermost(app: App, id: string): Promise<string> {
  const caller = (await app.store.node(id))?.caller;
  return caller ? outermost(app, caller.responseId) : id;
}

/** Exit codes of design.md 7.4. */
function exitCodeOf(node: ResponseNode): number {
  switch (node.status) {
    case "completed":
      return 0;
    case "waiting":
      return 3;
    case "cancelled":
      return 130;
    case "failed":
      return errorTable[(node.error?.code ?? "internal") as ErrorCode].exit;
    case "incomplete":
      if (node.incompleteReason === "max_time") return 124;
      return node.incompleteReason === "stream_cut" || node.incompleteReason === "interrupted" ? 1 : 4;
    default:
      return 1;
  }
}
