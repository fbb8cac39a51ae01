/**
 * Claude Code as a model: one process of its command line for each answer, the prompt on its stdin.
 *
 * Invariant: every answer is a session of its own (`--fork-session`), which no later one writes to: so any response of
 * the tree can be gone on with, more than once. A tool starts only after we were told of it and have said so.
 */
import { randomUUID } from "node:crypto";
import type { AgentConfig } from "../types/config.ts";
import type { Usage } from "../types/item.ts";
import type { Json, JsonObject } from "../types/json.ts";
import { type AgentVerdict, type Model, ModelError, type ModelEvent } from "../types/model.ts";
import type { ProcessExit } from "../util/process-tree.ts";
import * as wire from "./agent-claude-wire.ts";
import { AgentEvents, AgentTimer } from "./agent-events.ts";
import { type AgentParts, type AgentTask, settingOf } from "./agent-parts.ts";
import { AgentProcess } from "./agent-process.ts";
import { agentPrompt, withoutSession } from "./agent-prompt.ts";
import { claudeLists, claudeTool } from "./agent-tools.ts";

const TITLE = "Claude Code";

/** Milliseconds that it has to end by itself once it has answered. */
const PATIENCE = 5_000;
/** Characters of an output that is no stream of ours. */
const PLAIN_LIMIT = 1_000_000;

const nothing: Usage = wire.usageOf({});

export function createClaudeModel(config: AgentConfig, parts: AgentParts): Model {
  const key = `agent/claude-code/${config.id}`;
  return {
    id: config.id,
    key,
    agent: true,
    async *stream(request, signal) {
      const setting = settingOf(request);
      const cwd = config.cwd ?? setting.workspace;
      const prompt = agentPrompt(request, key, cwd);
      const task = { config, parts, request, setting, cwd, prompt, signal };
      try {
        yield* new ClaudeTurn(task).run();
      } catch (thrown) {
        // The session was deleted, or never written: the whole path is told instead.
        if (!prompt.session || !(thrown instanceof SessionLost)) throw thrown;
        request.onRetry?.(`${thrown.message}; telling it the whole conversation instead`);
        yield* new ClaudeTurn({ ...task, prompt: withoutSession(request) }).run();
      }
    },
  };
}

class SessionLost extends ModelError {}

/** Of one tool call that it makes. */
interface Call {
  index: number;
  /** We have told of its outcome. */
  over: boolean;
}

class ClaudeTurn {
  readonly #task: AgentTask;
  readonly #events = new AgentEvents();
  readonly #calls = new Map<string, Call>();
  readonly #answered = new Set<string>();
  readonly #session: string;
  #process: AgentProcess | undefined;
  #timer: AgentTimer | undefined;
  /** Ids of messages whose text came in pieces. */
  readonly #streamed = new Set<string>();
  #message = "";
  /** Of finished model calls, and of the one under way. */
  #used = nothing;
  #using = nothing;
  #told = nothing;
  #said = false;
  #plain = "";
  #result: wire.ClaudeResult | undefined;
  #understood = false;
  #postponed = false;

  constructor(task: AgentTask) {
    this.#task = task;
    this.#session = randomUUID();
  }

  async *run(): AsyncGenerator<ModelEvent> {
    const { id, maxConcurrent = 4 } = this.#task.config;
    const agentProcess = await AgentProcess.start({
      id,
      title: TITLE,
      maximum: maxConcurrent,
      command: {
        command: this.#task.parts.program(),
        args: this.#arguments(),
        env: this.#task.parts.environment(),
        cwd: this.#task.cwd,
      },
      launch: this.#task.parts.launch,
      signal: this.#task.signal,
      onWait: (text) => this.#task.request.onRetry?.(text),
      onLine: (line) => this.#read(line),
    });
    this.#process = agentProcess;
    this.#timer = this.#startTimer(agentProcess);
    void agentProcess.ended.then((exit) => this.#ended(exit));
    agentProcess.send(wire.initialize(this.#instructions()));
    agentProcess.send({
      type: "user",
      message: { role: "user", content: this.#task.prompt.parts.map(wire.blockOf) },
      parent_tool_use_id: null,
      session_id: "",
    });
    try {
      yield* this.#events;
    } finally {
      this.#timer.stop();
      // Whoever stops listening wants no more of it.
      await agentProcess.kill();
    }
  }

  #startTimer(agentProcess: AgentProcess): AgentTimer {
    const { timeout = Number.POSITIVE_INFINITY } = this.#task.config;
    const { deadline = Number.POSITIVE_INFINITY } = this.#task.request;
    const left = Math.min(timeout * 1_000, deadline - Date.now());
    return new AgentTimer(left, () => {
      const text = `${TITLE} execution timed out after ${durationText(left)}`;
      void agentProcess.kill(new ModelError("upstream_timeout", text));
    });
  }

  #arguments(): string[] {
    const { mode, readOnly, skipPermissions } = this.#task.setting;
    const { args = [], model, permissionMode } = this.#task.config;
    const all = ["-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"];
    all.push("--include-partial-messages", "--permission-prompt-tool", "stdio");
    const bound = mode === "plan" || readOnly;
    if (bound) all.push("--permission-mode", "plan");
    else if (mode === "auto" && skipPermissions) all.push("--dangerously-skip-permissions");
    else all.push("--permission-mode", permissionMode ?? (mode === "accept-edits" ? "acceptEdits" : "default"));
    if (model !== undefined) all.push("--model", model);
    const { session } = this.#task.prompt;
    if (session) all.push("--resume", session.session, "--fork-session");
    all.push("--session-id", this.#session);
    if (this.#task.request.toolChoice === "none") all.push("--tools", "");
    const { allowed, disallowed } = claudeLists(this.#task.setting, this.#task.config.id);
    for (const name of allowed) all.push("--allowedTools", name);
    for (const name of disallowed) all.push("--disallowedTools", name);
    return [...args, ...all];
  }

  #instructions(): string {
    const { instructions, format } = this.#task.request;
    if (!format || format.type === "text") return instructions;
    const shape =
      format.type === "json_schema" ? ` It must fit this JSON Schema: ${JSON.stringify(format.schema)}` : "";
    return `${instructions}\n\nYour final answer is one JSON value and nothing else, without a code fence.${shape}`.trim();
  }

  // ---- what it says

  #read(line: string): void {
    if (line.trim() === "") return;
    const message = wire.readClaudeLine(line);
    if (!message) {
      if (this.#plain.length < PLAIN_LIMIT) this.#plain += `${line}\n`;
      return;
    }
    this.#understood = true;
    switch (message.kind) {
      case "delta":
        this.#streamed.add(this.#message);
        this.#say(message.type, message.text);
        break;
      case "usage":
        this.#use(message);
        break;
      case "assistant":
        this.#hear(message);
        break;
      case "retry":
        this.#task.request.onRetry?.(message.text);
        break;
      case "results":
        for (const { callId, failed, output } of message.results) this.#settle(callId, failed, output);
        break;
      case "tool_starts":
        this.#ask(message, false, "");
        break;
      case "asks":
        this.#ask(message, true, message.why);
        break;
      case "unknown_request":
        this.#process?.send(wire.refused(message.request, `not supported here: ${message.subtype}`));
        break;
      case "withdrawn":
        this.#answered.add(message.request);
        break;
      case "end":
        void this.#end(message.result);
        break;
      default:
    }
  }

  #say(type: "text" | "reasoning", delta: string): void {
    if (delta === "") return;
    if (type === "text") this.#said = true;
    this.#events.push({ type, delta });
  }

  #use({ started, message, usage }: { started: boolean; message: string; usage: JsonObject }): void {
    const now = wire.usageOf(usage);
    if (started) {
      this.#message = message;
      this.#said = false;
      this.#used = wire.addUsage(this.#used, this.#using);
      this.#using = now;
    } else {
      // It repeats what is known, or tells the output alone.
      const output_tokens = Math.max(now.output_tokens, this.#using.output_tokens);
      this.#using = { ...this.#using, output_tokens, total_tokens: this.#using.input_tokens + output_tokens };
    }
  }

  #hear({ message, blocks, inner, synthetic }: Extract<wire.ClaudeMessage, { kind: "assistant" }>): void {
    for (const block of blocks) {
      const { type } = block;
      if (type === "tool_use" && typeof block.id === "string" && typeof block.name === "string") {
        this.#begin(block.id, block.name, wire.asObject(block.input));
      } else if (inner || synthetic || this.#streamed.has(message)) continue;
      else if (type === "text" && typeof block.text === "string") this.#say("text", block.text);
      else if (type === "thinking" && typeof block.thinking === "string") this.#say("reasoning", block.thinking);
    }
  }

  #begin(callId: string, name: string, input: JsonObject): Call {
    const known = this.#calls.get(callId);
    if (known) return known;
    const call: Call = { index: this.#calls.size, over: false };
    this.#calls.set(callId, call);
    const used = wire.addUsage(this.#used, this.#using);
    const usage = wire.usageSince(used, this.#told);
    this.#told = used;
    const { index } = call;
    const tool = claudeTool(name, input, this.#task.cwd);
    const agent = { server: this.#task.config.id, ...tool, usage, raw: this.#raw() };
    this.#events.push({ type: "call", index, callId, name, agent });
    this.#events.push({ type: "call_arguments", index, delta: JSON.stringify(input) });
    return call;
  }

  /** Where it can be taken up again. */
  #raw(): Json {
    const { count, covers } = this.#task.prompt;
    return { session: this.#session, cwd: this.#task.cwd, count, covers };
  }

  #settle(callId: string, failed: boolean, output: string): void {
    const call = this.#calls.get(callId);
    if (!call || call.over || this.#postponed) return;
    call.over = true;
    this.#events.push({ type: "call_outcome", index: call.index, failed, output });
  }

  // ---- what it asks

  #ask(
    { request, callId, name, input }: { request: string; callId: string; name: string; input: JsonObject },
    asks: boolean,
    why: string,
  ): void {
    const { index } = this.#begin(callId, name, input);
    if (asks) this.#timer?.pause();
    const answer = (verdict: AgentVerdict) => {
      if (asks) this.#timer?.resume();
      if (this.#answered.has(request)) return;
      this.#answered.add(request);
      if (verdict.decision === "later") this.#postponed = true;
      const said = asks ? wire.permissionAnswer(verdict, input) : wire.startAnswer(verdict);
      this.#process?.send(wire.answered(request, said));
    };
    this.#events.push({ type: "call_question", index, asks, ...(why !== "" && { why }), answer });
  }

  // ---- the end

  async #end(result: wire.ClaudeResult): Promise<void> {
    if (this.#result) return;
    this.#result = result;
    // Its session is on disk only when it has ended.
    await this.#process?.close(PATIENCE);
  }

  #ended(exit: ProcessExit): void {
    this.#timer?.stop();
    const failure = this.#failure(exit);
    if (failure) {
      this.#events.fail(failure);
      return;
    }
    const text = this.#result?.text ?? this.#plain.trim();
    if (!this.#said && text !== "" && !this.#postponed) this.#say("text", text);
    const { reason = "stop", reasonRaw = "", usage = nothing } = this.#result ?? {};
    this.#events.push({
      type: "finish",
      reason: this.#postponed ? "tool_calls" : reason,
      ...(reasonRaw !== "" && { reasonRaw }),
      usage: wire.usageSince(usage, this.#told),
      ...(this.#result && { raw: this.#raw() }),
    });
    this.#events.end();
  }

  #failure({ exitCode, signalName }: ProcessExit): ModelError | undefined {
    const { killed, stderr = "" } = this.#process ?? {};
    const partial = this.#events.begun;
    if (this.#task.signal.aborted) return new ModelError("cancelled", "the model call was cancelled", { partial });
    if (killed) return killed;
    const result = this.#result;
    if (result && (!result.failed || this.#postponed)) return undefined;
    const said = [stderr, ...(result?.errors ?? []), result?.text ?? ""].filter((text) => text !== "");
    const why = [...new Set(said)].join("\n").slice(-4_000);
    if (this.#task.prompt.session && !partial && /No conversation found|not a UUID|session ID/i.test(why)) {
      return new SessionLost("upstream_failed", why.split("\n")[0] ?? "");
    }
    if (exitCode !== 0 || result) {
      const how = exitCode === null ? `was ended by ${signalName ?? "a signal"}` : `failed with exit code ${exitCode}`;
      return new ModelError(wire.codeOf(result?.status ?? 0), `${TITLE} ${how}: ${why}`, { partial });
    }
    const plain = this.#plain.trim();
    // Older versions answered in plain words.
    if (!this.#understood && plain !== "" && !/^[[{]/.test(plain)) return undefined;
    const problem = plain === "" ? "it ended without a result" : "its output is not JSON";
    const text = `Failed to parse Claude response: ${problem}\nOutput: ${plain.slice(0, 1_000)}`;
    return new ModelError("upstream_protocol", text, { partial });
  }
}

function durationText(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1_000);
  if (seconds >= 60 && seconds % 60 === 0) return `${seconds / 60} minutes`;
  return seconds >= 1 ? `${seconds} seconds` : `${Math.round(milliseconds)} ms`;
}
