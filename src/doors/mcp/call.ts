/**
 * A call of a tool, as the tools of this door see it: the same for every transport and generation of the protocol.
 *
 * Invariant: only a client that says so cancels; a connection that is lost, or a process that ends, does not.
 */
import type { ServerContext } from "@modelcontextprotocol/server";

export interface Call {
  /** Aborted when it must be answered now, or nobody hears the answer any more. */
  readonly signal: AbortSignal;
  /** Whether that was the client's wish. */
  isCancelled(): boolean;
  /** The client asked to be told of progress. */
  readonly tellsProgress: boolean;
  progress(seconds: number, message: string): void;
}

/** `leaving`: the connection itself ends, with everything on it. */
export function callOf(context: ServerContext, leaving: AbortSignal): Call {
  const { signal: own, _meta: meta, notify } = context.mcpReq;
  const signal = AbortSignal.any([own, leaving]);
  const progressToken = meta?.progressToken;
  let last = -1;
  return {
    signal,
    isCancelled: () => own.aborted && !leaving.aborted,
    tellsProgress: progressToken !== undefined,
    progress(seconds, message) {
      if (progressToken === undefined) return;
      // It must grow with every one (MCP, progress).
      last = Math.max(last + 0.001, seconds);
      const params = { progressToken, progress: last, message };
      notify({ method: "notifications/progress", params }).catch(() => undefined);
    },
  };
}
