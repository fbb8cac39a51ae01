/**
 * Any agent that speaks the Agent Client Protocol (v1) as a model: one process for each answer.
 *
 * Invariant: no file and no terminal of ours is offered: the agent uses its own, and asks through permissions. One
 * process answers one request, and is dead with all that it started when the answer ends.
 */
import type {
  AnyMessage,
  ClientContext,
  ContentBlock,
  PromptResponse,
  RequestPermissionRequest,
  RequestPermissionResponse,
  SessionNotification,
} from "@agentclientprotocol/sdk/unstable";
import type { AgentConfig } from "../types/config.ts";
import type { FinishReason, Usage } from "../types/item.ts";
import { type AgentVerdict, type Model, ModelError, type ModelEvent } from "../types/model.ts";
import { AcpCalls } from "./agent-acp-calls.ts";
import { type OpenedSession, openSession } from "./agent-acp-session.ts";
import { AgentEvents, AgentTimer } from "./agent-events.ts";
import { type AgentParts, type AgentTask, settingOf } from "./agent-parts.ts";
import { AgentProcess } from "./agent-process.ts";
import { agentPrompt, type PromptPart } from "./agent-prompt.ts";

/** Milliseconds for the handshake and the session. */
const START_TIME = 120_000;
/** Milliseconds that it has to end by itself once it has answered. */
const PATIENCE = 3_000;
const AUTH_REQUIRED = -32_000;

export function createAcpModel(config: AgentConfig, parts: AgentParts): Model {
  const key = `agent/acp/${config.id}`;
  return {
    id: config.id,
    key,
    agent: true,
    async *stream(request, signal) {
      const setting = settingOf(request);
      const cwd = config.cwd ?? setting.workspace;
      const prompt = agentPrompt(request, key, cwd);
      yield* new AcpTurn({ config, parts, request, setting, cwd, prompt, signal }).run();
    },
  };
}

class AcpTurn {
  readonly #task: AgentTask;
  readonly #events = new AgentEvents();
  readonly #calls: AcpCalls;
  #opened: OpenedSession | undefined;
  #process: AgentProcess | undefined;
  #timer: AgentTimer | undefined;
  #agent: ClientContext | undefined;
  #incoming: ReadableStreamDefaultController<AnyMessage> | undefined;
  /** Before the prompt, updates only repeat what was. */
  #live = false;
  #replayed = new Set<string>();
  #cost: number | undefined;
  #costBefore: number | undefined;
  #plan = "";
  #postponed = false;
  #done = false;

  constructor(task: AgentTask) {
    const { config, cwd } = task;
    this.#task = task;
    this.#calls = new AcpCalls(
      config.id,
      cwd,
      this.#events,
      () => this.#raw(),
      (why) => void this.#process?.kill(new ModelError("denied", why, { partial: true })),
    );
  }

  async *run(): AsyncGenerator<ModelEvent> {
    const { id, args = [], maxConcurrent = 4 } = this.#task.config;
    const sdk = await import("@agentclientprotocol/sdk/unstable");
    const readable = new ReadableStream<AnyMessage>({
      start: (controller) => {
        this.#incoming = controller;
      },
    });
    const agentProcess = await AgentProcess.start({
      id,
      title: id,
      maximum: maxConcurrent,
      command: { command: this.#task.parts.program(), args, env: this.#task.parts.environment(), cwd: this.#task.cwd },
      launch: this.#task.parts.launch,
      signal: this.#task.signal,
      onWait: (text) => this.#task.request.onRetry?.(text),
      onLine: (line) => this.#receive(line),
    });
    this.#process = agentProcess;
    const writable = new WritableStream<AnyMessage>({ write: (message) => agentProcess.send(message) });
    const connection = sdk
      .client({ name: "rotunda" })
      .onRequest(sdk.methods.client.session.requestPermission, ({ params }) => this.#permission(params))
      .onNotification(sdk.methods.client.session.update, ({ params }) => this.#update(params))
      .connect({ readable, writable });
    this.#agent = connection.agent;
    void agentProcess.ended.then(({ exitCode, signalName }) => {
      this.#timer?.stop();
      this.#fail(this.#ending(exitCode, signalName));
    });
    void this.#converse(connection.agent, agentProcess);
    try {
      yield* this.#events;
    } finally {
      this.#timer?.stop();
      connection.close();
      await agentProcess.kill();
      this.#opened?.release();
    }
  }

  /** What is no message is skipped: programs print words of their own. */
  #receive(line: string): void {
    if (!line.trimStart().startsWith("{")) return;
    try {
      this.#incoming?.enqueue(JSON.parse(line) as AnyMessage);
    } catch {
      // Not JSON, or nobody reads any more.
    }
  }

  #fail(error: ModelError): void {
    if (!this.#done) this.#events.fail(error);
  }

  #ending(exitCode: number | null, signalName: string | null): ModelError {
    const { killed, stderr = "" } = this.#process ?? {};
    const partial = this.#events.begun;
    if (this.#task.signal.aborted) return new ModelError("cancelled", "the model call was cancelled", { partial });
    if (killed) return killed;
    const how = exitCode === null ? `was ended by ${signalName ?? "a signal"}` : `failed with exit code ${exitCode}`;
    return new ModelError("upstream_failed", `${this.#task.config.id} ${how}: ${stderr.slice(-4_000)}`, { partial });
  }

  // ---- the conversation

  async #converse(agent: ClientContext, agentProcess: AgentProcess): Promise<void> {
    try {
      await this.#open(agent, agentProcess);
      this.#timer = this.#startTimer(agentProcess);
      this.#live = true;
      const prompt = this.#blocks();
      const response = await agent.request("session/prompt", { sessionId: this.#sessionId, prompt });
      this.#timer.stop();
      await this.#end(response, agentProcess);
    } catch (thrown) {
      // Where the process has ended, that is the reason, with what it wrote.
      const exited = await Promise.race([agentProcess.ended, new Promise((resolve) => setTimeout(resolve, 200, null))]);
      if (exited === null) this.#fail(this.#failureOf(thrown));
    }
  }

  #failureOf(thrown: unknown): ModelError {
    if (thrown instanceof ModelError) return thrown;
    const { id } = this.#task.config;
    const { code, message = String(thrown), data } = thrown as { code?: number; message?: string; data?: unknown };
    const partial = this.#events.begun;
    if (code === AUTH_REQUIRED) {
      return new ModelError("upstream_auth", `${id} needs a login: start it once by itself and log in`, { partial });
    }
    const details = data === undefined ? "" : ` ${JSON.stringify(data).slice(0, 1_000)}`;
    const stderr = this.#process?.stderr ?? "";
    const words = stderr === "" ? "" : `\n${stderr.slice(-2_000)}`;
    return new ModelError("upstream_failed", `${id} answered with an error: ${message}${details}${words}`, { partial });
  }

  #startTimer(agentProcess: AgentProcess): AgentTimer {
    const { id, timeout = Number.POSITIVE_INFINITY } = this.#task.config;
    const { deadline = Number.POSITIVE_INFINITY } = this.#task.request;
    const left = Math.min(timeout * 1_000, deadline - Date.now());
    return new AgentTimer(left, () => {
      void agentProcess.kill(new ModelError("upstream_timeout", `${id} execution timed out after ${left} ms`));
    });
  }

  async #open(agent: ClientContext, agentProcess: AgentProcess): Promise<void> {
    const text = `${this.#task.config.id} did not open a session in time`;
    const late = setTimeout(() => void agentProcess.kill(new ModelError("upstream_timeout", text)), START_TIME);
    try {
      this.#opened = await openSession({
        agent,
        ...this.#task,
        replayed: () => this.#replayed.size,
        told: (error) => this.#failureOf(error).message,
      });
    } finally {
      clearTimeout(late);
    }
  }

  get #sessionId(): string {
    return this.#opened?.session.session ?? "";
  }

  #blocks(): ContentBlock[] {
    const { instructions } = this.#task.request;
    const { prompt = this.#task.prompt } = this.#opened ?? {};
    const blocks = prompt.parts.map(blockOf);
    // Only a new session has not heard them.
    if (instructions === "" || prompt.session) return blocks;
    return [{ type: "text", text: `<instructions>\n${instructions}\n</instructions>` }, ...blocks];
  }

  #raw() {
    return this.#opened ? { ...this.#opened.session } : null;
  }

  async #end({ stopReason, usage }: PromptResponse, agentProcess: AgentProcess): Promise<void> {
    this.#done = true;
    // Its session is on disk only when it has ended.
    await agentProcess.close(PATIENCE);
    if (this.#task.signal.aborted || agentProcess.killed) {
      this.#done = false;
      this.#fail(this.#ending(null, null));
      return;
    }
    const cost = this.#cost === undefined ? undefined : this.#cost - (this.#costBefore ?? 0);
    this.#events.push({
      type: "finish",
      reason: this.#postponed ? "tool_calls" : finishOf(stopReason),
      reasonRaw: stopReason,
      ...((usage || cost !== undefined) && { usage: { ...usageOf(usage), ...(cost !== undefined && { cost }) } }),
      raw: this.#raw(),
    });
    this.#events.end();
  }

  // ---- what it tells

  #update({ update }: SessionNotification): void {
    if (update.sessionUpdate === "usage_update") {
      if (update.cost?.currency === "USD") this.#setCost(update.cost.amount);
      return;
    }
    if (!this.#live) {
      if (update.sessionUpdate === "user_message_chunk")
        this.#replayed.add(update.messageId ?? `${this.#replayed.size}`);
      return;
    }
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
      case "agent_thought_chunk": {
        const { content, sessionUpdate } = update;
        const type = sessionUpdate === "agent_message_chunk" ? "text" : "reasoning";
        const delta = content.type === "text" ? content.text : content.type === "resource_link" ? content.uri : "";
        if (delta !== "") this.#events.push({ type, delta });
        break;
      }
      case "tool_call":
      case "tool_call_update":
        if (!this.#postponed) this.#calls.update(update);
        break;
      case "plan": {
        const text = update.entries.map(({ status, content }) => `- [${status}] ${content}`).join("\n");
        if (text !== this.#plan && text !== "") this.#calls.plan(text);
        this.#plan = text;
        break;
      }
      default:
    }
  }

  #setCost(amount: number): void {
    if (this.#live) this.#cost = amount;
    else this.#costBefore = amount;
  }

  #permission({ toolCall, options }: RequestPermissionRequest): Promise<RequestPermissionResponse> {
    const pick = (...kinds: string[]): RequestPermissionResponse => {
      const option = kinds.flatMap((kind) => options.filter((one) => one.kind === kind))[0];
      return option
        ? { outcome: { outcome: "selected", optionId: option.optionId } }
        : { outcome: { outcome: "cancelled" } };
    };
    this.#timer?.pause();
    return new Promise((resolve) => {
      const answer = ({ decision }: AgentVerdict) => {
        this.#timer?.resume();
        if (decision === "later") {
          this.#postponed = true;
          void this.#agent?.notify("session/cancel", { sessionId: this.#sessionId }).catch(() => undefined);
          resolve({ outcome: { outcome: "cancelled" } });
        } else if (decision === "deny") resolve(pick("reject_once", "reject_always"));
        // Always is for us to remember: the agent asks each time.
        else resolve(pick("allow_once", "allow_always"));
      };
      this.#calls.ask(toolCall, answer);
    });
  }
}

function blockOf(part: PromptPart): ContentBlock {
  if (part.type === "text") return { type: "text", text: part.text };
  const [, mimeType, data] = /^data:([^;,]+);base64,(.*)$/s.exec(part.url) ?? [];
  return mimeType && data ? { type: "image", mimeType, data } : { type: "text", text: `[image: ${part.url}]` };
}

function finishOf(reason: string): FinishReason {
  if (reason === "max_tokens") return "length";
  if (reason === "refusal") return "content_filter";
  return reason === "end_turn" ? "stop" : "other";
}

function usageOf(usage: PromptResponse["usage"]): Usage {
  const { inputTokens = 0, outputTokens = 0, cachedReadTokens, thoughtTokens, totalTokens } = usage ?? {};
  return {
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    total_tokens: totalTokens ?? inputTokens + outputTokens,
    input_tokens_details: { cached_tokens: cachedReadTokens ?? 0 },
    output_tokens_details: { reasoning_tokens: thoughtTokens ?? 0 },
  };
}
