/** App: what main.ts hands to a door. A door knows this, and nothing of what stands behind it. */
import type { Config, Environment } from "./config.ts";
import type { Elicitation, ElicitationAnswer } from "./elicitation.ts";
import type { Engine } from "./engine.ts";
import type { Notify } from "./event.ts";
import type { Gateway } from "./gateway.ts";
import type { Json, JsonObject } from "./json.ts";
import type { ModelInfo } from "./model.ts";
import type { Profile } from "./profile.ts";
import type { Queue } from "./runner.ts";
import type { ManagedProfiles, ManagedSettings, SettingsFile } from "./settings.ts";
import type { Store } from "./store.ts";
import type { Tracer } from "./telemetry.ts";

/** What is unknown by name is `not_found`. */
export interface HubView {
  servers(): HubServerView[];
  /** Starts every server that is used and not running, in the background. */
  connect(): void;
  /** Connects now, whatever its failures; the view tells what came of it. */
  test(name: string): Promise<HubServerView>;
  /** Ends the process and connects again. Throws `hub_unreachable`. */
  restart(name: string): Promise<void>;
  /** Ends the process now, and with it its calls. Its tools are gone until `restart`, `test` or `setEnabled`. */
  stop(name: string): Promise<void>;
  /** Holds from the next listing of tools on, and lasts (settings.json). Calls under way run to their end. */
  setEnabled(name: string, enabled: boolean): Promise<void>;
  /** The last 500 lines, oldest first, redacted. */
  logs(name: string): HubLogLine[];
  clearLogs(name: string): void;
  /**
   * Begins a login to an http server: a person must open the address, and what comes back to `redirectUrl` goes to
   * `finishLogin`. Throws `usage` where the server has no login, `hub_unreachable` where none can be begun.
   */
  beginLogin(name: string, redirectUrl: string): Promise<LoginStart>;
  /** Once for each state, within ten minutes. Throws `not_found` (no such state), `hub_unreachable` (refused). */
  finishLogin(answer: LoginAnswer): Promise<HubServerView>;
  /** The whole login, with a listener of its own on 127.0.0.1; `show` is told where the person must go. */
  login(name: string, show: (start: LoginStart) => void, signal: AbortSignal): Promise<HubServerView>;
  /** Forgets the login; `revoked`: the authorization server was told, and agreed. */
  logout(name: string): Promise<{ revoked: boolean }>;
  /** The servers as they are, for a door that hands them on; the same object for the life of the hub. */
  gateway(): Promise<Gateway>;
  close(): Promise<void>;
}

/** A login that waits for a person. */
export interface LoginStart {
  /** An http(s) address, at which the person logs in; a shell must never see it. */
  authorizationUrl: string;
  /** The secret of this login. */
  state: string;
  redirectUrl: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
}

/** What came back to the redirect address. */
export interface LoginAnswer {
  state: string;
  code?: string;
  /** The issuer, where the authorization server names itself (RFC 9207). */
  iss?: string;
  error?: string;
  /** The server that it is thought to be for. Default: whichever it is for. */
  server?: string;
}

export interface HubServerView {
  name: string;
  /** disabled, stopped, needs_login, configured, known (tools remembered, no process), started, healthy, failed. */
  state: string;
  /** There is a live connection in this very moment. */
  connected: boolean;
  /** It is used: not turned off by configuration or a door. */
  enabled: boolean;
  transport: string;
  toolCount: number;
  error?: string;
}

export interface HubLogLine {
  /** Milliseconds since the epoch. */
  at: number;
  text: string;
}

export interface App {
  readonly engine: Engine;
  readonly store: Store;
  /** Where responses are left to workers. */
  readonly queue: Queue | undefined;
  /** Absolute path of the directory that this app works in. */
  readonly workspace: string;
  readonly stateDirectory: string;
  /** Variables in force: the process's own, and those of `.env` beside them. */
  readonly environment: Environment;
  profiles(): { name: string; description: string }[];
  /** Without a name: the default one. Throws `profile_not_found`. */
  profile(name?: string): Promise<Profile>;
  readonly managedProfiles: ManagedProfiles;
  /** In force now: `reload` puts another object here. */
  readonly config: Config;
  readonly settings: ManagedSettings;
  /**
   * Loads the configuration anew and puts it in force for everything that begins afterwards. Servers that did not
   * change keep their process, and running calls are not cut. An error leaves everything as it was, and is thrown.
   */
  reload(): Promise<void>;
  /** Undefined: nobody asked for telemetry. */
  readonly tracer: Tracer | undefined;
  /** Known secrets of this and all earlier configurations replaced. */
  readonly redact: (text: string) => string;
  /** `ask`: each endpoint is asked for its list of models (GET /models, five seconds); what came of it stands in `answer`. */
  models(options?: { ask?: boolean }): Promise<ModelInfo[]>;
  /** Skills of the workspace and of the user, in the order of their names. */
  skills?(): Promise<{ name: string; description: string }[]>;
  /** Undefined where no MCP server is configured. */
  hub(): Promise<HubView | undefined>;
  /**
   * Says that questions of MCP servers can be answered here, and hears each new one; returns the removal. Servers are
   * told so when they are connected: one that is connected already learns it with its next connection.
   */
  onElicitation(listener: (elicitation: Elicitation) => void): () => void;
  /** Those that wait for an answer, oldest first. */
  elicitations(): Elicitation[];
  /** Throws `not_found` (unknown, answered or expired), `usage` where the content does not fit what was asked. */
  answerElicitation(id: string, answer: ElicitationAnswer): void;
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
  /** Programs of this user that have something which `rotunda import` could take over. */
  otherPrograms(): Promise<OtherProgram[]>;
  /** Where the user's own configuration file belongs. */
  userConfig: string;
  /** What `rotunda import` would take over from a file or folder of another program. Writes nothing. Throws `usage`. */
  readImport(path: string): Promise<ImportPlan>;
}

export interface OtherProgram {
  /** "Cursor", "Codex", … */
  program: string;
  /** What to hand to `rotunda import`. */
  path: string;
  /** MCP servers as they would be taken over, by name: they may hold secrets. */
  servers: Record<string, JsonObject>;
  models: number;
  conversations: number;
  /** What would not be taken over, and why. */
  left: string[];
}

export interface ImportPlan {
  /** What it was recognised as: "SpeakMCP", "Polybrain", … */
  source: string;
  /** To be merged into settings.json: what is there already stays. */
  settings: SettingsFile;
  conversations: ImportedConversation[];
  /** One line each: what becomes of something, or why it is not taken over. No secrets. */
  notes: { taken: boolean; text: string }[];
}

/** A conversation of another program, as turns of ours. */
export interface ImportedConversation {
  /** The id it had. */
  sourceId: string;
  title: string;
  /** Milliseconds since the epoch. */
  createdAt: number;
  updatedAt: number;
  turns: ImportedTurn[];
}

export interface ImportedTurn {
  /** What the person said; null where it begins with an answer. */
  prompt: string | null;
  /** Milliseconds since the epoch. */
  at: number;
  endedAt: number;
  parts: ImportedPart[];
}

export type ImportedPart =
  | { kind: "text"; text: string }
  | { kind: "call"; server: string; tool: string; input: Json; output: string; error: string | null };
