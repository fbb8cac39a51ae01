/** Hub types: what the hub is given and what it tells. */

import type { HubLogLine, LoginAnswer, LoginStart } from "../types/app.ts";
import type { ServerConfig } from "../types/config.ts";
import type { Elicitation, ElicitationAnswer } from "../types/elicitation.ts";
import type { Notify } from "../types/event.ts";
import type { Gateway } from "../types/gateway.ts";
import type { Tool, ToolSource } from "../types/tool.ts";
import type { ServerNews } from "./callers.ts";
import type { ElicitationDoor, Elicitations } from "./elicitation.ts";

/** A command of a stdio server, before it is wrapped. */
export interface LaunchRequest {
  server: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  /** Absolute. */
  cwd: string;
}

/** What is really started; a `SandboxedCommand` is one. */
export interface LaunchCommand {
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd: string;
  /** It is the outer end of a pid namespace. Default false. */
  namespaced?: boolean;
  /** Called when the process has ended. */
  release?(): void;
}

/** Turns a server's command into what is really started: the same, or the same inside a sandbox. Asked for each process. */
export type Launch = (request: LaunchRequest) => Promise<LaunchCommand>;

/** What an old server asks a model, within bounds. */
export interface SampleRequest {
  /** Empty: none. */
  system: string;
  messages: { role: "user" | "assistant"; text: string }[];
  maxTokens: number;
  temperature?: number;
}

export interface SampleAnswer {
  text: string;
  /** Id of the model. */
  model: string;
}

/** A person has agreed before it is called. */
export type Sample = (request: SampleRequest, signal: AbortSignal) => Promise<SampleAnswer>;

export interface HubClock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Rejects when the signal is aborted. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export interface HubOptions {
  servers: readonly ServerConfig[];
  stateDir: string;
  /** Directory that servers without a `cwd` start in. Absolute. */
  workspace: string;
  launch: Launch;
  notify: Notify;
  /** Of Rotunda, told to servers. Default "0". */
  version?: string;
  clock?: HubClock;
  /** Where there is none, servers are told that nobody can be asked. */
  elicitation?: ElicitationDoor;
  /** Has a model answer for servers with `sampling: true`. Where there is none, nobody is offered it. */
  sample?: Sample;
  /** A server that worked and was lost is brought back without a call that needs it. Default true. */
  reconnect?: boolean;
}

/** What one connection is given. */
export interface HubEnvironment {
  /** Where manifests are kept. */
  directory: string;
  workspace: string;
  launch: Launch;
  notify: Notify;
  version: string;
  clock: HubClock;
  elicitations: Elicitations | undefined;
  sample: Sample | undefined;
  reconnect: boolean;
  stateDir: string;
  /** Is told each secret that a login brings, so that it is never shown. */
  secret(value: string): void;
  /** Is told what a server says outside of calls. */
  hear(server: string, news: ServerNews): void;
  /** Replaces those. */
  redact(text: string): string;
}

/**
 * disabled: by configuration or by `setEnabled`. needs_login: a person must log in first. configured: nothing is known yet. known: its tools are, from
 * an earlier time; no process. started: being connected. healthy: connected and listed. failed: see `error`.
 * stopped: by `stop`, until it is started again.
 */
export type ServerState =
  | "disabled"
  | "stopped"
  | "needs_login"
  | "configured"
  | "known"
  | "started"
  | "healthy"
  | "failed";

export interface ServerInfo {
  name: string;
  state: ServerState;
  /** There is a live session in this moment. */
  connected: boolean;
  enabled: boolean;
  transport: "stdio" | "http";
  toolCount: number;
  /** Where it was configured. */
  origin: string;
  error?: string;
  /** Of the process that was started: the server, or what wraps it. */
  pid?: number;
  /** Up to 2000 characters. */
  stderrTail?: string;
  /** Lines of stdout that were no messages. */
  skippedLines?: number;
}

export interface ServerTest {
  ok: boolean;
  toolCount: number;
  milliseconds: number;
  error?: string;
  stderrTail?: string;
}

/** A tool of an MCP server. */
export interface HubTool extends Tool {
  /**
   * Set when the server has changed the tool's definition since it was pinned: the difference, for a person.
   * The engine asks again for such a tool whatever the rules say, and calls `accept` when the answer was yes.
   */
  readonly changed?: string;
}

export interface Hub extends ToolSource {
  list(signal?: AbortSignal): Promise<readonly HubTool[]>;
  find(name: string): Promise<HubTool | undefined>;
  servers(): ServerInfo[];
  /** Connects if need be and lists the tools. Never throws for a failing server; `not_found` for an unknown one. */
  test(name: string): Promise<ServerTest>;
  /** Ends the process and connects again. Throws `hub_unreachable`, `not_found`. */
  restart(name: string): Promise<void>;
  /** Ends the process now, and with it its calls; its tools are gone until it is started again. Throws `not_found`. */
  stop(name: string): Promise<void>;
  /** Takes effect at the next `list`; resolves when the calls under way have ended. Throws `not_found`. */
  setEnabled(name: string, enabled: boolean): Promise<void>;
  /** The changed definition of this tool (any accepted spelling) is the pinned one from now on. */
  accept(tool: string): Promise<void>;
  /**
   * These are the servers from now on. One that did not change keeps its process; calls of one that did, or that
   * is gone or turned off, run to their end. Throws `config_invalid` and changes nothing.
   */
  replace(servers: readonly ServerConfig[]): void;
  /** Starts in the background what is enabled and does not run. */
  connect(): void;
  /** The last 500 lines, oldest first. Throws `not_found`. */
  logs(name: string): HubLogLine[];
  clearLogs(name: string): void;
  /** See `HubView`. */
  beginLogin(name: string, redirectUrl: string): Promise<LoginStart>;
  /** Resolves with the server's name. */
  finishLogin(answer: LoginAnswer): Promise<string>;
  login(name: string, show: (start: LoginStart) => void, signal: AbortSignal): Promise<void>;
  logout(name: string): Promise<{ revoked: boolean }>;
  /** A text without what logins have brought. */
  redact(text: string): string;
  /** The servers as they are, for a door that hands them on. */
  gateway(): Promise<Gateway>;
  elicitations(): Elicitation[];
  /** Throws `not_found`, `usage`. */
  answerElicitation(id: string, answer: ElicitationAnswer): void;
}
