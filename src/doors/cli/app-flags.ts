/** Flags that shape the app itself, and what main.ts hands to this door. */
import type { Readable, Writable } from "node:stream";
import type { App, SetUp } from "../../types/app.ts";
import type { Config } from "../../types/config.ts";
import type { DatabaseDoctor } from "../../types/doctor.ts";
import type { Elicitation, ElicitationAnswer } from "../../types/elicitation.ts";
import type { RunRequest } from "../../types/engine.ts";
import type { Notify } from "../../types/event.ts";
import type { McpCaller } from "../../types/mcp.ts";
import type { PermissionMode, ResponseNode } from "../../types/response.ts";
import type { Store } from "../../types/store.ts";

export interface AppFlags {
  config?: string;
  apiKey?: string;
  apiBaseUrl?: string;
  model?: string;
  /** postgres://… */
  database?: string;
  /** Responses are left to workers, where the database has a queue for that. */
  queued?: boolean;
}

/** How the HTTP door is opened: see its own options. */
export interface ServeFlags {
  host: string;
  port: number;
  auth: "token" | "none";
  cors: readonly string[];
  hosts: readonly string[];
  behindProxy: boolean;
  allowRemoteAdmin: boolean;
  bodyLimit: number;
  accessLog: boolean;
  version: string;
}

/** What a process takes from the queue. */
export interface WorkFlags {
  /** Responses at once. */
  concurrency: number;
  /** Only those of these profiles; absent: all. */
  profiles?: readonly string[];
  /** Where whoever watches it may ask how it fares; absent: nowhere. */
  health?: { host: string; port: number };
}

/** What takes work of a queue. */
export interface OpenWorker {
  /** Of its health check, where it has one. */
  healthAddress: string | undefined;
  /** No more is taken. Resolves when what runs has come to its end. */
  drain(): Promise<void>;
}

/** A database beside the app's. */
export interface OpenDatabase {
  store: Store;
  close(): Promise<void>;
}

export interface Served {
  /** Resolves with the address. Throws `usage`. */
  listen(): Promise<string>;
  /** Everybody who reaches it may do everything. */
  readonly open: boolean;
  /** A link that signs in at the page, once, within 15 minutes; undefined where nobody needs to. */
  signInLink(): string | undefined;
  /** Goes on with what a process that is gone has left behind. */
  takeUp(tell: (text: string) => void): Promise<unknown>;
  close(options: { seconds: number }): Promise<void>;
}

/** The app of another directory, or of a configuration file that was named. */
export type AppOf = (workspace: string, configuration?: string) => Promise<App>;

/** What a configuration becomes for one app: its servers, and what is secret about them. */
export type ChangeConfig = (config: Config) => Pick<Config, "servers" | "secrets">;

/** How the ACP door is opened: see its own options. */
export interface AcpFlags {
  input: Readable;
  output: Writable;
  version: string;
  newApp(workspace: string, change: ChangeConfig): Promise<App>;
  base(): Promise<App>;
  start(app: App, request: RunRequest): Promise<ResponseNode>;
  wanted: { profile?: string; model?: string; permissions?: PermissionMode };
  configuration?: string;
}

export interface OpenAcp {
  /** Resolves when the client has gone, or `close` was called, and nothing of ours is left. */
  closed: Promise<void>;
  close(): void;
}

/** How the MCP door is opened over stdin and stdout: see its own options. */
export interface McpFlags {
  input: Readable;
  output: Writable;
  version: string;
  caller: McpCaller;
  /** The bridge's later names for its tools as well. */
  oldNames: boolean;
  tell(text: string): void;
}

export interface OpenMcp {
  /** Resolves when the client has gone, or `close` was called. */
  closed: Promise<void>;
  close(): void;
}

/** What a turn at the screen of the terminal goes on from, and who answers it. */
export interface TerminalChoice {
  from?: string;
  model?: string;
  profile?: string;
}

/** How the screen of the terminal is opened: see its own options. */
export interface TerminalFlags {
  app(): Promise<App>;
  request(prompt: string, choice: TerminalChoice, fresh: boolean): Promise<RunRequest>;
  start(app: App, request: RunRequest): Promise<ResponseNode>;
  exportTo(responseId: string, file: string): Promise<string>;
  questions(app: App): Promise<Elicitation[]>;
  answerQuestion(app: App, id: string, answer: ElicitationAnswer): Promise<void>;
  choice: TerminalChoice;
  goesOn: boolean;
  colour: boolean;
  version: string;
  divert(listener: ((text: string) => void) | undefined): void;
}

/** Builds what a command needs, when it needs it. */
export interface Makers {
  app(flags: AppFlags, notify: Notify, workspace: string, change?: ChangeConfig): Promise<App>;
  setUp(): Promise<SetUp>;
  /** Of the database of the state directory, whether it can be opened or not. */
  doctor(): Promise<DatabaseDoctor>;
  /**
   * postgres://…, "sqlite" (the one of the state directory), or the path of a SQLite file. "there": it must exist; "made":
   * else it is made. Throws `usage`, `storage_failed`.
   */
  database(address: string, wanted: "there" | "made"): Promise<OpenDatabase>;
  serve(app: App, flags: ServeFlags, appFor: AppOf): Promise<Served>;
  /** Begins to run what is in the app's queue. Throws `usage` where it has none. */
  work(
    app: App,
    flags: WorkFlags,
    appFor: (node: ResponseNode) => Promise<App>,
    tell: (text: string) => void,
  ): Promise<OpenWorker>;
  acp(flags: AcpFlags): Promise<OpenAcp>;
  mcp(flags: McpFlags): Promise<OpenMcp>;
  /** Resolves with the exit code when the person has left. */
  terminal(flags: TerminalFlags): Promise<number>;
}
