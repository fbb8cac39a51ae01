/** App: what main.ts hands to a door. A door knows this, and nothing of what stands behind it. */
import type { Config } from "./config.ts";
import type { Engine } from "./engine.ts";
import type { Notify } from "./event.ts";
import type { Json } from "./json.ts";
import type { ModelInfo } from "./model.ts";
import type { Store } from "./store.ts";

export interface HubView {
  servers(): HubServerView[];
  test(name: string): Promise<HubServerView>;
  close(): Promise<void>;
}

export interface HubServerView {
  name: string;
  state: string;
  transport: string;
  toolCount: number;
  error?: string;
}

export interface App {
  readonly engine: Engine;
  readonly store: Store;
  profiles(): { name: string; description: string }[];
  readonly config: Config;
  readonly redact: (text: string) => string;
  models(): Promise<ModelInfo[]>;
  /** Undefined where no MCP server is configured. */
  hub(): Promise<HubView | undefined>;
  /** What shuts in the processes that tools start: found out once, by trying. */
  sandboxLevel(): Promise<"bwrap" | "unshare" | "none">;
  /** Adds a listener for passing news; returns its removal. */
  onNotice(listener: Notify): () => void;
  close(): Promise<void>;
}

/** Something of a project file that starts a process, contacts a host, or loosens a rule. */
export interface TrustItem {
  /** "MCP server files", "hook beforeToolCall", … */
  what: string;
  file: string;
  /** In full, before expansion: what a person is shown and what the hash is taken of. */
  content: Json;
}

/** What a door may do before there is an app: look at the configuration, and trust it. */
export interface SetUp {
  /** The configuration in force, with the file or variable that each part comes from. */
  configuration(explicit?: string): Promise<{ config: Config; origins: Record<string, string>; files: string[] }>;
  /** Parts of this directory's files that wait to be trusted. */
  untrusted(): Promise<TrustItem[]>;
  trusted(): { what: string; file: string; trustedAt: string }[];
  trust(items: readonly TrustItem[]): void;
  /** Takes back what was trusted in a file, or below a directory. Returns how much it was. */
  revoke(path: string): number;
  /** A commented rotunda.yaml to begin with. */
  starter(): string;
  /** Any plain value as YAML text. */
  yaml(value: object): Promise<string>;
  stateDirectory: string;
}
