/**
 * Chat completions as SpeakMCP's own clients know them (parity S10, S11): the conversation with every answer, and a
 * stream of `progress`, `done` and `error`.
 *
 * Invariant: each stream ends with exactly one `done` or `error`; what a `progress` shows is stored.
 */
import type { App } from "../../types/app.ts";
import { isEnd, type RunEvent } from "../../types/event.ts";
import type { Item } from "../../types/item.ts";
import type { Json } from "../../types/json.ts";
import type { ResponseNode } from "../../types/response.ts";
import { completionObject, failureOf } from "./chat-object.ts";
import type { RequestContext } from "./context.ts";
import { argumentsOf, callName, messagesOf, pathItems, type SpeakmcpMessage } from "./speakmcp-messages.ts";

export interface SpeakmcpAnswer {
  stream: boolean;
  /** What the client calls the conversation, where it has a name. */
  name: string | undefined;
}

export async function answerSpeakmcp(context: RequestContext, node: ResponseNode, how: SpeakmcpAnswer): Promise<void> {
  const { app } = context;
  const conversation = how.name ?? node.conversationId ?? node.id;
  if (how.stream) {
    await context.stream({ frames: (signal) => progressFrames(app, node, conversation, signal) });
    return;
  }
  await app.engine.wait(node.id);
  const response = await app.engine.get(node.id);
  const history = await historyOf(app, node.id);
  context.json(200, {
    ...completionObject(response),
    conversation_id: conversation,
    conversation_history: history,
  });
}

/** Without the ids, as SpeakMCP gives it with an answer. */
async function historyOf(app: App, id: string): Promise<Omit<SpeakmcpMessage, "id">[]> {
  return messagesOf(await pathItems(app, id)).map(({ id: _id, ...message }) => message);
}

interface Step {
  id: string;
  type: "thinking" | "tool_call" | "tool_result" | "tool_approval" | "completion";
  title: string;
  status: "pending" | "in_progress" | "completed" | "error";
  timestamp: number;
  content?: string;
  toolCall?: { name: string; arguments: Json };
  toolResult?: { success: boolean; content: string; error?: string };
}

const frame = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;

async function* progressFrames(
  app: App,
  node: ResponseNode,
  conversation: string,
  signal: AbortSignal,
): AsyncIterable<string> {
  const progress = new Progress(app, node, conversation);
  for await (const event of app.engine.watch(node.id, -1, signal)) {
    if (progress.take(event)) yield frame({ type: "progress", data: await progress.data() });
    if (!isEnd(event)) continue;
    const response = await app.engine.get(node.id);
    const failure = failureOf(response);
    if (failure) {
      yield frame({ type: "error", data: { message: app.redact(failure.message) } });
      return;
    }
    const content = app.engine.textOf(response);
    yield frame({ type: "progress", data: { ...(await progress.data()), isComplete: true, finalContent: content } });
    const history = await historyOf(app, node.id);
    const data = { content, conversation_id: conversation, conversation_history: history, model: node.model };
    yield frame({ type: "done", data });
  }
}

class Progress {
  readonly #app: App;
  readonly #node: ResponseNode;
  readonly #conversation: string;
  readonly #steps = new Map<string, Step>();
  readonly #turns = new Set<string>();
  #pending: { approvalId: string; toolName: string; arguments: Json } | undefined;

  constructor(app: App, node: ResponseNode, conversation: string) {
    this.#app = app;
    this.#node = node;
    this.#conversation = conversation;
  }

  /** True: there is something new to show. */
  take(event: RunEvent): boolean {
    if (event.type === "response.in_progress") return true;
    if (event.type !== "response.output_item.added" && event.type !== "response.output_item.done") return false;
    return this.#takeItem(event.item, event.type === "response.output_item.done");
  }

  #takeItem(item: Item, done: boolean): boolean {
    const timestamp = Date.now();
    if (item.type === "mcp_call") {
      const name = callName(item);
      const toolCall = { name, arguments: argumentsOf(item.arguments) };
      const settled = item.status === "completed" || item.status === "failed" || item.status === "incomplete";
      const status = !settled ? "in_progress" : item.status === "completed" ? "completed" : "error";
      this.#steps.set(item.id, {
        id: item.id,
        type: "tool_call",
        title: `Executing ${name}`,
        status,
        timestamp,
        toolCall,
      });
      if (settled) this.#addResult(item, name, timestamp);
      return true;
    }
    if (item.type === "mcp_approval_request") {
      this.#pending = { approvalId: item.id, toolName: item.name, arguments: argumentsOf(item.arguments) };
      const title = `Approval needed: ${item.name}`;
      this.#steps.set(item.id, { id: item.id, type: "tool_approval", title, status: "pending", timestamp });
      return true;
    }
    if (item.type === "mcp_approval_response") this.#pending = undefined;
    if (item.type === "message" && item.role === "assistant" && !done) {
      this.#turns.add(item.id);
      this.#steps.set(item.id, {
        id: item.id,
        type: "thinking",
        title: "Agent response",
        status: "in_progress",
        timestamp,
      });
      return true;
    }
    const step = this.#steps.get(item.id);
    if (step && item.type === "message") {
      step.status = "completed";
      step.content = item.content.map((part) => ("text" in part ? part.text : "")).join("");
    }
    return step !== undefined;
  }

  #addResult(item: Extract<Item, { type: "mcp_call" }>, name: string, timestamp: number): void {
    const success = item.status === "completed";
    const content = item.output ?? item.error ?? "";
    const id = `${item.id}-result`;
    this.#steps.set(id, {
      id,
      type: "tool_result",
      title: `${name} ${success ? "succeeded" : "failed"}`,
      status: success ? "completed" : "error",
      timestamp,
      toolResult: { success, content, ...(!success && { error: item.error ?? content }) },
    });
  }

  async data() {
    const turns = (await this.#app.profile(this.#node.profile)).limits.turns;
    return {
      sessionId: this.#node.id,
      conversationId: this.#conversation,
      currentIteration: Math.max(1, this.#turns.size),
      maxIterations: this.#node.settings.limits?.turns ?? turns,
      steps: [...this.#steps.values()],
      isComplete: false,
      conversationHistory: await historyOf(this.#app, this.#node.id),
      ...(this.#pending && { pendingToolApproval: this.#pending }),
    };
  }
}
