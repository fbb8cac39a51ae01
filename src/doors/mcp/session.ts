/**
 * What the tools of one server have in common: who calls, how a turn is started, waited for and told.
 *
 * Invariant: a response is durable before its id is told; whatever goes wrong is a result with `isError`, in words that
 * say what and why, never an error of the protocol.
 */
import type { RequestStateCodec, ServerContext } from "@modelcontextprotocol/server";
import type { App } from "../../types/app.ts";
import type { RunRequest } from "../../types/engine.ts";
import { RotundaError } from "../../types/error.ts";
import type { McpCaller } from "../../types/mcp.ts";
import type { ResponseNode } from "../../types/response.ts";
import { askAgain, askingOf, cameAgain, type Pending } from "./asking.ts";
import { type Call, callOf } from "./call.ts";
import type { Answer, Result } from "./results.ts";
import { asTask, followsTasks, taskOf } from "./tasks.ts";
import { traceOfCall } from "./trace.ts";
import { type Outcome, waitFor } from "./waiting.ts";

export interface SessionOptions {
  caller: McpCaller;
  era: "legacy" | "modern";
  /** What the client of a connection can do; of the modern protocol each request says it. */
  capabilities(): object;
  codec: RequestStateCodec<Pending>;
  leaving: AbortSignal;
}

/** Asked for by the client, and the same for every tool that starts a turn. */
export interface Turn {
  request: Omit<RunRequest, "workspace" | "door" | "owner">;
  idempotencyKey?: string | undefined;
  workingDirectory?: string | undefined;
}

const META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

export class Session {
  readonly #options: SessionOptions;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  get caller(): McpCaller {
    return this.#options.caller;
  }

  call(context: ServerContext): Call {
    return callOf(context, this.#options.leaving);
  }

  capabilities(context: ServerContext): Record<string, unknown> {
    const { era, capabilities } = this.#options;
    if (era === "legacy") return { ...capabilities() };
    const envelope = context.mcpReq.envelope as Record<string, object> | undefined;
    return { ...envelope?.[META_CAPABILITIES] };
  }

  async #node(app: App, id: string): Promise<ResponseNode> {
    const node = await app.store.node(id);
    if (!node) throw new RotundaError("not_found", `there is no response ${id}`);
    return node;
  }

  async start(app: App, { request, idempotencyKey, workingDirectory }: Turn): Promise<ResponseNode> {
    const { caller } = this.#options;
    const { createHash } = await import("node:crypto");
    const digest = () => createHash("sha256").update(JSON.stringify(request)).digest("hex");
    const trace = traceOfCall();
    return caller.start(app, {
      ...request,
      workspace: workingDirectory ?? caller.workspace,
      door: "mcp",
      owner: caller.owner,
      settings: { onApproval: "wait", ...request.settings, ...(trace && { trace }) },
      ...(idempotencyKey !== undefined && { idempotency: { key: `mcp ${idempotencyKey}`, digest: digest() } }),
    });
  }

  /**
   * Starts a turn (or goes on with the one of a request that was sent again) and waits for it as long as the client
   * has patience; `tell` makes the result of what came of it.
   */
  async answer(
    context: ServerContext,
    tell: (outcome: Outcome, id: string, app: App) => Result | Promise<Result>,
    begin: () => Promise<{ app: App; id: string; seconds?: number; cancels?: boolean }>,
  ): Promise<Answer> {
    const { caller, era, codec } = this.#options;
    const known = await cameAgain(await caller.app(), caller, context);
    const begun = known ? { app: await caller.app(), id: known.responseId, cancels: true } : await begin();
    const { app, id } = begun;
    if (!known && begun.cancels && followsTasks(context)) return asTask(taskOf(await this.#node(app, id)));
    const capabilities = this.capabilities(context);
    const asking = known?.unanswered ? undefined : askingOf({ caller, context, era, capabilities });
    const outcome = await waitFor(id, { ...begun, caller, call: this.call(context), asking });
    if (outcome.kind === "ask") return askAgain(codec, outcome.approval, id, context);
    return tell(outcome, id, app);
  }
}
