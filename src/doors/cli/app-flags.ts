/** Flags that shape the app itself, and what main.ts hands to this door. */
import type { App, SetUp } from "../../types/app.ts";
import type { Notify } from "../../types/event.ts";

export interface AppFlags {
  config?: string;
  apiKey?: string;
  apiBaseUrl?: string;
  model?: string;
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

export interface Served {
  /** Resolves with the address. Throws `usage`. */
  listen(): Promise<string>;
  /** Everybody who reaches it may do everything. */
  readonly open: boolean;
  /** Goes on with what a process that is gone has left behind. */
  takeUp(tell: (text: string) => void): Promise<unknown>;
  close(options: { seconds: number }): Promise<void>;
}

/** The app of another directory, or of a configuration file that was named. */
export type AppOf = (workspace: string, configuration?: string) => Promise<App>;

/** Builds what a command needs, when it needs it. */
export interface Makers {
  app(flags: AppFlags, notify: Notify, workspace: string): Promise<App>;
  setUp(): Promise<SetUp>;
  serve(app: App, flags: ServeFlags, appFor: AppOf): Promise<Served>;
}
