/** `rotunda acp` as an editor drives it: the built program, the protocol library's client side, raw lines. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable, Writable } from "node:stream";
import {
  type ClientContext,
  type ContentBlock,
  client,
  type InitializeRequest,
  type McpServer,
  ndJsonStream,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SendRequestOptions,
  type SessionUpdate,
} from "@agentclientprotocol/sdk/unstable";
import { startUpstream, type Upstream, type UpstreamScript } from "../../src/testing/upstream.ts";
import { later, temporaryFolder } from "../support.ts";

const PROGRAM = join(import.meta.dirname, "..", "..", "bin", "rotunda.js");

export interface Place {
  workspace: string;
  environment: NodeJS.ProcessEnv;
  upstream: Upstream;
}

/** An empty home, a workspace, and a configuration with a scripted model. */
export async function place(script: UpstreamScript, config: object = {}): Promise<Place> {
  const root = temporaryFolder();
  const workspace = join(root, "work");
  mkdirSync(workspace);
  mkdirSync(join(root, "home"));
  const upstream = await startUpstream(script);
  later(() => upstream.close());
  const model = { id: "test-model", baseUrl: upstream.url, apiKey: "sk-test-0123456789", contextWindow: 1000 };
  writeFileSync(join(root, "rotunda.json"), JSON.stringify({ models: [model], ...config }));
  const environment = {
    PATH: process.env.PATH,
    HOME: join(root, "home"),
    ROTUNDA_HOME: join(root, "state"),
    ROTUNDA_CONFIG: join(root, "rotunda.json"),
    OLLAMA_HOST: "http://127.0.0.1:9",
  };
  return { workspace, environment, upstream };
}

export interface Program {
  pid: number;
  stdin: Writable;
  stdout: Readable;
  /** Code or signal. */
  exit: Promise<number | string>;
  errors(): string;
  kill(signal: NodeJS.Signals): void;
}

export function start(at: Place, flags: string[] = []): Program {
  const child = spawn(process.execPath, [PROGRAM, "acp", ...flags], {
    cwd: at.workspace,
    env: at.environment,
    stdio: ["pipe", "pipe", "pipe"],
  });
  later(() => void child.kill("SIGKILL"));
  child.stdin.on("error", () => undefined);
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  const exit = once(child, "exit").then(([code, signal]) => (code ?? signal) as number | string);
  return {
    pid: child.pid ?? 0,
    stdin: child.stdin,
    stdout: child.stdout,
    exit,
    errors: () => errors,
    kill: (signal) => void child.kill(signal),
  };
}

/** An option's id; "cancelled"; or undefined: never answered. */
export type Answer = string | undefined;

export interface Editor {
  program: Program;
  agent: ClientContext;
  /** In the order in which they came. */
  updates: SessionUpdate[];
  questions: RequestPermissionRequest[];
  /** Questions that were taken back. */
  withdrawn: RequestPermissionRequest[];
  /** Every line that came on stdout. */
  lines(): string[];
  /** Begins a session in the workspace; its id. */
  session(mcpServers?: McpServer[]): Promise<string>;
  /** Resolves with why it stopped. */
  prompt(sessionId: string, prompt: string | ContentBlock[], options?: SendRequestOptions): Promise<string>;
  texts(kind?: "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk"): string;
  /** What is known of each call in the end, in the order in which they came. */
  calls(): Record<string, unknown>[];
}

export interface EditorOptions {
  answer?: (question: RequestPermissionRequest) => Answer;
  capabilities?: InitializeRequest["clientCapabilities"];
  flags?: string[];
  elicit?: (params: unknown) => object;
}

/** Connects an editor, and greets. */
export async function openEditor(at: Place, options: EditorOptions = {}): Promise<Editor> {
  const program = start(at, options.flags);
  const updates: SessionUpdate[] = [];
  const questions: RequestPermissionRequest[] = [];
  const withdrawn: RequestPermissionRequest[] = [];
  let said = "";
  const seen = new PassThrough();
  program.stdout.on("data", (chunk: Buffer) => {
    said += chunk.toString("utf8");
    seen.write(chunk);
  });
  program.stdout.on("end", () => seen.end());
  const app = client({ name: "test" })
    .onNotification("session/update", ({ params }) => void updates.push(params.update))
    .onRequest("elicitation/create", ({ params }) => (options.elicit?.(params) ?? { action: "cancel" }) as never)
    .onRequest("session/request_permission", async ({ params, signal }): Promise<RequestPermissionResponse> => {
      questions.push(params);
      const answer = options.answer?.(params);
      if (answer === "cancelled") return { outcome: { outcome: "cancelled" } };
      if (answer !== undefined) return { outcome: { outcome: "selected", optionId: answer } };
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      withdrawn.push(params);
      return { outcome: { outcome: "cancelled" } };
    });
  const output = Writable.toWeb(program.stdin) as WritableStream<Uint8Array>;
  const connection = app.connect(ndJsonStream(output, Readable.toWeb(seen) as unknown as ReadableStream<Uint8Array>));
  const { agent } = connection;
  const clientCapabilities = options.capabilities ?? {};
  await agent.request("initialize", { protocolVersion: 1, clientCapabilities });
  return {
    program,
    agent,
    updates,
    questions,
    withdrawn,
    lines: () => said.split("\n").filter((line) => line !== ""),
    async session(mcpServers = []) {
      const { sessionId } = await agent.request("session/new", { cwd: at.workspace, mcpServers });
      return sessionId;
    },
    async prompt(sessionId, given, sending) {
      const prompt: ContentBlock[] = typeof given === "string" ? [{ type: "text", text: given }] : given;
      const { stopReason } = await agent.request("session/prompt", { sessionId, prompt }, sending);
      return stopReason;
    },
    texts(kind = "agent_message_chunk") {
      const chunks = updates.flatMap((update) => (update.sessionUpdate === kind ? [update.content] : []));
      return chunks.map((content) => (content.type === "text" ? content.text : `[${content.type}]`)).join("");
    },
    calls() {
      const calls = new Map<string, Record<string, unknown>>();
      for (const update of updates) {
        if (update.sessionUpdate !== "tool_call" && update.sessionUpdate !== "tool_call_update") continue;
        const { sessionUpdate, toolCallId, ...rest } = update;
        if (sessionUpdate === "tool_call" && calls.has(toolCallId))
          throw new Error(`${toolCallId} was announced twice`);
        if (sessionUpdate === "tool_call_update" && !calls.has(toolCallId)) throw new Error(`${toolCallId} is unknown`);
        calls.set(toolCallId, { ...calls.get(toolCallId), ...rest });
      }
      return [...calls.values()];
    },
  };
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1_000; tries++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("it did not come true");
}

/** What the built program says to a command. */
export async function rotunda(at: Place, args: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [PROGRAM, ...args], { cwd: at.workspace, env: at.environment });
  let [out, err] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  child.stdin.end();
  const [code] = (await once(child, "close")) as [number | null];
  return { code, out, err };
}
