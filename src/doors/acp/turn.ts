/**
 * A turn: one prompt, from the start of its response to its end.
 *
 * Invariant: a prompt is on disk before anything of it is told; what its conversation has not ended is gone on with
 * first; what was cancelled ends `cancelled`, wherever it runs.
 */
import type { AgentContext, PromptResponse, SessionUpdate, StopReason } from "@agentclientprotocol/sdk/unstable";
import type { App } from "../../types/app.ts";
import type { Approval } from "../../types/approval.ts";
import type { Approver, RunRequest } from "../../types/engine.ts";
import { RotundaError, toRotundaError } from "../../types/error.ts";
import type { RunEvent } from "../../types/event.ts";
import type { McpCallItem } from "../../types/item.ts";
import type { IncompleteReason, ResponseNode } from "../../types/response.ts";
import { shortId } from "../../util/ids.ts";
import { toRequestError } from "./errors.ts";
import { askEditor } from "./permissions.ts";
import { finishedCall, type KnownCall, Updates } from "./updates.ts";

export interface TurnOptions {
  app: App;
  client: AgentContext;
  sessionId: string;
  workspace: string;
  /** The client shows where a summary took the place of what was said. */
  compaction: boolean;
  /** Starts it where it outlives this process, if there is such a place. */
  start(app: App, request: RunRequest): Promise<ResponseNode>;
  /** Of the response that the session was loaded in the middle of: what has been told of it. */
  told?: Told;
}

/** What an editor has been told of a response that has not ended. */
export interface Told {
  id: string;
  /** Number of the last event. */
  after: number;
  updates: Updates;
}

/** Limits that a person may lift, and what the protocol calls them. */
const STOPS: Partial<Record<IncompleteReason, StopReason>> = {
  max_turns: "max_turn_requests",
  max_time: "max_turn_requests",
  max_calls: "max_turn_requests",
  repeated_calls: "max_turn_requests",
  max_tokens: "max_tokens",
  max_output_tokens: "max_tokens",
  content_filter: "refusal",
};

export class Turn {
  readonly #options: TurnOptions;
  readonly #responses = new Map<string, Updates>();
  /** Calls of sub-agents that the editor has been asked about: item → response. */
  readonly #children = new Map<string, string>();
  readonly #over = new AbortController();
  #cancelled = false;

  constructor(options: TurnOptions) {
    this.#options = options;
  }

  /** Whether a response is one of this turn. */
  has(responseId: string): boolean {
    return this.#responses.has(responseId);
  }

  /** Whether the editor knows a call of it. */
  hasDescribed(responseId: string, itemId: string): boolean {
    return this.#responses.get(responseId)?.hasDescribed(itemId) ?? false;
  }

  /** Ends it; what was said so far stays. */
  cancel(): void {
    this.#cancelled = true;
    this.#over.abort();
    for (const id of this.#responses.keys()) this.#end(id);
  }

  #end(id: string): void {
    // One that has ended needs no end.
    this.#options.app.engine.cancel(id, "cancelled at the editor").catch(() => undefined);
  }

  /** Throws an error of JSON-RPC where the response fails. `begun` is called when it is on disk. */
  async run(request: RunRequest, begun: () => Promise<void>): Promise<{ answer: PromptResponse; ended: ResponseNode }> {
    const { store } = this.#options.app;
    const conversation = await store.conversation(this.#options.sessionId);
    const head = conversation?.head ? await store.node(conversation.head) : undefined;
    const open = head && head.endedAt === null ? head : undefined;
    const node = await this.#start({ ...request, approver: this.#approver }, open !== undefined);
    await begun();
    if (open) await this.#goOn(open);
    let ended = await this.#follow(node.id);
    // A profile may end a turn at a question instead of waiting: the answer starts the next response.
    for (let next = await this.#answered(ended); next; next = await this.#answered(ended)) {
      this.#track(next.id);
      ended = await this.#follow(next.id);
    }
    const usage = usageOf(ended);
    if (this.#cancelled) return { answer: { stopReason: "cancelled", usage }, ended };
    if (ended.status === "waiting") throw await this.#waits(ended);
    if (ended.status === "failed" && ended.error)
      throw toRequestError(new RotundaError(ended.error.code, ended.error.message), { responseId: ended.id });
    return { answer: { stopReason: stopOf(ended), usage }, ended };
  }

  async #start(request: RunRequest, open: boolean): Promise<ResponseNode> {
    const { app, start } = this.#options;
    // Behind one that has not ended it waits in this process.
    const queued = () => app.engine.start({ ...request, queue: true });
    const node = open
      ? await queued()
      : await start(app, request).catch((error: unknown) => {
          if (toRotundaError(error).code === "response_not_ended") return queued();
          throw error;
        });
    this.#track(node.id);
    return node;
  }

  #track(id: string): Updates {
    const { told, workspace, compaction } = this.#options;
    const updates = told?.id === id ? told.updates : new Updates(workspace, { compaction });
    this.#responses.set(id, updates);
    // It may have been cancelled before it had an id.
    if (this.#cancelled) this.#end(id);
    return updates;
  }

  /** What was left behind in the middle, by a crash or at a question, comes to its end first. */
  async #goOn({ id }: ResponseNode): Promise<void> {
    this.#track(id);
    await this.#resume(id);
    const { told } = this.#options;
    const ended = await this.#follow(id, told?.id === id ? told.after : -1);
    if (ended.endedAt === null) throw await this.#waits(ended);
  }

  async #resume(id: string): Promise<void> {
    try {
      await this.#options.app.engine.resume(id, this.#approver);
    } catch (error) {
      const { code } = toRotundaError(error);
      // It runs in another process, or has just ended.
      if (code !== "owned_elsewhere" && code !== "response_ended") throw error;
    }
  }

  async #follow(id: string, from = -1): Promise<ResponseNode> {
    const { engine } = this.#options.app;
    const updates = this.#responses.get(id) ?? this.#track(id);
    let after = from;
    for (let attempts = 0; ; attempts++) {
      for await (const group of engine.watch(id, after).groups()) {
        for (const update of await updates.of(group)) await this.#tell(update);
        updates.sent();
        await this.#settleChildren(group);
        after = group.at(-1)?.sequence_number ?? after;
      }
      try {
        return await engine.wait(id);
      } catch (error) {
        // Whoever ran it is gone: it is gone on with here, once.
        if (attempts > 0 || toRotundaError(error).code !== "response_not_ended") throw error;
        await this.#resume(id);
      }
    }
  }

  #tell(update: SessionUpdate): Promise<void> {
    const { client, sessionId } = this.#options;
    return client.notify("session/update", { sessionId, update });
  }

  // ---- approvals

  readonly #approver: Approver = (approval, signal) => {
    const { client, sessionId, workspace, app } = this.#options;
    return askEditor(
      {
        client,
        sessionId,
        workspace,
        known: (one) => this.#known(one, signal),
        stored: (one) => storedCall(app, one.responseId, one.itemId),
        tell: (update) => this.#tell(update),
        shown: (one) => this.#children.set(one.itemId, one.responseId),
        cancel: () => this.cancel(),
      },
      approval,
      signal,
    );
  };

  async #known({ responseId, itemId }: Approval, signal: AbortSignal): Promise<KnownCall | undefined> {
    const updates = this.#responses.get(responseId);
    if (!updates) return undefined;
    const gone = Promise.withResolvers<void>();
    const leave = () => gone.resolve();
    signal.addEventListener("abort", leave, { once: true });
    await Promise.race([updates.described(itemId), gone.promise]);
    signal.removeEventListener("abort", leave);
    return updates.call(itemId);
  }

  /** Calls of sub-agents get their end with the call that started the sub-agent. */
  async #settleChildren(group: readonly RunEvent[]): Promise<void> {
    if (this.#children.size === 0) return;
    if (!group.some((event) => event.type === "response.output_item.done" && event.item.type === "mcp_call")) return;
    for (const [itemId, responseId] of this.#children) {
      const item = await storedCall(this.#options.app, responseId, itemId);
      if (!item || item.status === "in_progress" || item.status === "calling") continue;
      this.#children.delete(itemId);
      await this.#tell(finishedCall(item));
    }
  }

  /** Asks what an ended response has returned for; the response that carries the answers out, if there is one. */
  async #answered(node: ResponseNode): Promise<ResponseNode | undefined> {
    const { id, endedAt } = node;
    const { engine, store } = this.#options.app;
    if (endedAt === null || this.#cancelled) return undefined;
    const pending = await store.approvals({ status: "pending", responseId: id });
    for (const approval of pending) {
      const decision = await this.#approver(approval, this.#over.signal).catch(() => undefined);
      if (this.#cancelled) return undefined;
      if (!decision) throw await this.#waits(node);
      await engine.decide(approval.id, decision);
    }
    const last = pending.at(-1);
    return last && (await engine.goOn(last.id, this.#approver));
  }

  async #waits({ id, error }: ResponseNode): Promise<Error> {
    if (error) return toRequestError(new RotundaError(error.code, error.message), { responseId: id });
    const [approval] = await this.#options.app.store.approvals({ status: "pending", responseId: id });
    const what = approval ? `${approval.tool} needs an approval` : "a call needs an approval";
    const name = shortId(approval?.id ?? id);
    const remedy = `Answer it at any door (rotunda approve ${name}, rotunda deny ${name}), or with the next prompt.`;
    return toRequestError(new RotundaError("approval_needed", `${what}, and nobody has answered`, { remedy }), {
      responseId: id,
    });
  }
}

async function storedCall(app: App, responseId: string, itemId: string): Promise<McpCallItem | undefined> {
  const stored = await app.store.get(responseId);
  for (const { item } of stored?.entries ?? []) if (item.type === "mcp_call" && item.id === itemId) return item;
  return undefined;
}

function stopOf({ status, incompleteReason: reason, error }: ResponseNode): StopReason {
  if (status === "completed") return "end_turn";
  if (status === "cancelled") return "cancelled";
  const stop = reason === null ? undefined : STOPS[reason];
  if (stop) return stop;
  throw toRequestError(new RotundaError(error?.code ?? "internal", error?.message ?? `the answer is ${reason}`));
}

function usageOf({ usage }: ResponseNode): NonNullable<PromptResponse["usage"]> {
  return {
    totalTokens: usage.total_tokens,
    inputTokens: usage.input_tokens,
    outputTokens: usage.output_tokens,
    cachedReadTokens: usage.input_tokens_details.cached_tokens,
    thoughtTokens: usage.output_tokens_details.reasoning_tokens,
  };
}
