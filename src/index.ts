/**
 * Rotunda as a library: `import { createRotunda } from "rotunda"`.
 *
 * Invariant: what a program does through this is what every door does: the same engine, the same tree.
 *
 * @example
 * const rotunda = await createRotunda({ workspace: process.cwd() });
 * const { text } = await rotunda.run("What does this project do?");
 * await rotunda.close();
 */
import { createApp } from "./app.ts";
import { loadConfig } from "./config/load.ts";
import { inputMessages } from "./engine/text.ts";
import type { App } from "./types/app.ts";
import type { Environment } from "./types/config.ts";
import type { Approver, RunRequest } from "./types/engine.ts";
import { RotundaError } from "./types/error.ts";
import type { Notify, RunEvent } from "./types/event.ts";
import type { Model } from "./types/model.ts";
import type { FullResponse, RunSettings } from "./types/response.ts";
import type { Tool } from "./types/tool.ts";

export type { App } from "./types/app.ts";
export type { Approval, Decision } from "./types/approval.ts";
export type { Approver, Engine, RunRequest } from "./types/engine.ts";
export { errorTable, RotundaError } from "./types/error.ts";
export type { Notice, Notify, RunEvent } from "./types/event.ts";
export type { Entry, Item } from "./types/item.ts";
export type { Model, ModelEvent, ModelRequest } from "./types/model.ts";
export { ModelError } from "./types/model.ts";
export type { FullResponse, ResponseNode, RunSettings } from "./types/response.ts";
export type { Tool, ToolContext, ToolResult } from "./types/tool.ts";

export interface RotundaOptions {
  /** Directory that tools work in, and whose configuration is read. Default: the current one. */
  workspace?: string;
  /** Where the database is. Default: as for the command line. */
  stateDirectory?: string;
  /** Default: `process.env`. */
  environment?: Environment;
  /** A configuration file instead of those that are found. */
  config?: string;
  tools?: readonly Tool[];
  /** The first one is the default model. */
  models?: readonly Model[];
  /** Hears passing news of every run. */
  logger?: Notify;
}

export interface RunOptions {
  /** Id of a response to go on from. */
  from?: string;
  conversation?: string | null;
  profile?: string;
  model?: string;
  settings?: RunSettings;
  approver?: Approver;
  /** Called for each event once it is durable. */
  onEvent?: (event: RunEvent) => void;
  /** Hears the news of this run and of no other. */
  logger?: Notify;
  /** Cancels the run. */
  signal?: AbortSignal;
}

export interface RunResult {
  /** What the model said at last. */
  text: string;
  response: FullResponse;
}

/** One message of the history that `chat` takes and gives. */
export interface ChatMessage {
  role: "user" | "assistant" | "system";
  content: string;
}

export interface Rotunda extends App {
  /** Runs one turn to its end. Throws where it fails, with the error of the table. */
  run(prompt: string, options?: RunOptions): Promise<RunResult>;
  /** notion-open-agent's form (parity N23): history in, history out. */
  chat(message: string, history?: readonly ChatMessage[]): Promise<{ response: string; history: ChatMessage[] }>;
}

export async function createRotunda(options: RotundaOptions = {}): Promise<Rotunda> {
  const workspace = options.workspace ?? process.cwd();
  const flags = options.config === undefined ? {} : { config: options.config };
  const environment = options.environment ?? process.env;
  const state = options.stateDirectory === undefined ? {} : { stateDirectory: options.stateDirectory };
  const load = () => loadConfig({ workspace, environment, flags, ...state });
  const config = await load();
  const app = await createApp({
    config,
    workspace,
    environment: config.environment,
    load,
    ...state,
    ...(options.tools && { tools: options.tools }),
    ...(options.models && { models: options.models }),
    ...(options.logger && { notify: options.logger }),
  });
  const run = (prompt: string, runOptions: RunOptions = {}) => runTurn(app, workspace, prompt, runOptions);
  const library: Omit<Rotunda, keyof App> = {
    run,
    async chat(message, history = []) {
      const input = inputMessages([...history, { role: "user", content: message }]);
      const { text } = await runTurn(app, workspace, input, { conversation: null });
      const said: ChatMessage[] = [
        { role: "user", content: message },
        { role: "assistant", content: text },
      ];
      return { response: text, history: [...history, ...said] };
    },
  };
  // What of the app changes with a reload is read through its getters: a copy of the values would grow old.
  return Object.defineProperties(library, Object.getOwnPropertyDescriptors(app)) as Rotunda;
}

async function runTurn(
  app: App,
  workspace: string,
  input: RunRequest["input"],
  options: RunOptions,
): Promise<RunResult> {
  const { engine } = app;
  const { from, onEvent, logger, signal, ...rest } = options;
  const started = await engine.start({
    input,
    workspace,
    door: "library",
    ...rest,
    ...(from !== undefined && { previousResponseId: await engine.resolveId(from, "response") }),
  });
  const { id } = started;
  const removeLogger = logger && app.onNotice((notice) => notice.responseId === id && logger(notice));
  const onAbort = () => {
    engine.cancel(id, "cancelled by the caller").catch(() => undefined);
  };
  if (signal?.aborted) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    // Nobody listens: then there is no need to hand over every event.
    if (onEvent) for await (const event of engine.watch(id)) onEvent(event);
    await engine.wait(id);
  } finally {
    signal?.removeEventListener("abort", onAbort);
    removeLogger?.();
  }
  const response = await engine.get(id);
  if (response.status === "failed" || response.status === "cancelled") {
    throw new RotundaError(
      response.error?.code ?? "internal",
      response.error?.message ?? `the response ${response.status}`,
    );
  }
  return { text: engine.textOf(response), response };
}
