/**
 * Config: what the operator decided, loaded, expanded and checked. Each part of the system takes its own
 * piece of it and knows nothing of files.
 */

import type { BudgetConfig } from "./budget.ts";
import type { ModelPrice } from "./model.ts";
import type { PermissionRules } from "./profile.ts";
import type { Limits, PermissionMode } from "./response.ts";
import type { ScheduleConfig } from "./schedule.ts";
import type { Access } from "./tool.ts";

/** Variables by name, as `process.env` has them. */
export type Environment = Readonly<Record<string, string | undefined>>;

export interface ModelConfig {
  id: string;
  /** Up to and including the version segment, as endpoints publish it: `https://api.example.com/v1`. */
  baseUrl: string;
  apiKey?: string;
  /** Name at the endpoint. */
  model: string;
  headers?: Record<string, string>;
  /** Added to every URL (Azure's `api-version`). */
  query?: Record<string, string>;
  /** `reasoning` of the request body (OpenRouter: `{enabled: true}`), or `reasoning_effort` where a string. */
  reasoning?: string | Record<string, unknown>;
  /** Dialect notes. */
  provider?: "openai" | "openrouter";
  temperature?: number;
  maxOutputTokens?: number;
  contextWindow?: number;
  /** Further fields of the request body, verbatim. */
  body?: Record<string, unknown>;
  timeouts?: Partial<ModelTimeouts>;
  /** Calls at once; the rest stand in line. */
  maxConcurrent?: number;
  /** US dollars for a million tokens, for endpoints that do not say what a call has cost. `cached` defaults to `input`. */
  price?: ModelPrice;
  /** Attempts after the first for failures that are safe to repeat. Default 3. */
  retries?: number;
  /** Id of the model that answers when this one is out of reach. */
  fallback?: string;
  origin: "config" | "environment" | "local";
}

/** Seconds. */
export interface ModelTimeouts {
  /** TCP and TLS. Default 10. */
  connect: number;
  /** Until the response headers. Default 120. */
  headers: number;
  /** Between two chunks of a stream. Default 60. */
  idle: number;
  /** The whole call with its retries. Default 600. */
  total: number;
}

export interface ServerToolConfig {
  access?: Access;
  idempotent?: boolean;
}

/** How to log in to an http server (OAuth 2.1). Everything may be left out: what a server can do is found out. */
export interface OAuthConfig {
  /** Of a client that was registered by hand. */
  clientId?: string;
  clientSecret?: string;
  /** PEM: the client signs instead of knowing a secret. */
  privateKey?: string;
  /** Of the signature. Default "ES256". */
  algorithm?: string;
  /** The only authorization server that is trusted with the client. Default: whichever the server names first. */
  issuer?: string;
  /** Asked for, beside those that the server demands. */
  scopes?: string[];
  /** An https address that describes this client (CIMD), for authorization servers that read such. */
  clientMetadataUrl?: string;
  /** Port of `http://127.0.0.1:PORT/oauth/callback`, where a client was registered with it. Default: any. */
  redirectPort?: number;
  /** "authorization_code" (default): a person logs in. "client_credentials": the client is the user. */
  flow?: "authorization_code" | "client_credentials";
  /** Hosts of the login that may lie in a private network. The server's own host always may. */
  privateHosts?: string[];
}

export interface ServerConfig {
  name: string;
  transport: "stdio" | "http";
  /** stdio */
  command?: string;
  args?: string[];
  env?: Record<string, string>;
  cwd?: string;
  /** http */
  url?: string;
  headers?: Record<string, string>;
  /** http. False: never log in. Default: where the server asks for it and no Authorization header is configured. */
  oauth?: OAuthConfig | false;
  /** Old servers: it may ask a model of ours, each time with a person's consent. Default false. */
  sampling?: boolean;
  /** Old servers: it is told the workspace. Default false. */
  roots?: boolean;
  disabled: boolean;
  /** Seconds for one call. Default 120. */
  timeout?: number;
  /** Seconds that the first model call waits for a server without a cached tool list. Default 10. */
  startTimeout?: number;
  /** "safe" (default): repeat only what cannot have run or is marked repeatable; "always": notion-open-agent's way. */
  retry?: "safe" | "always";
  /** stdio: also its files are shut in: it writes only the workspace and a temporary folder. Default false. */
  sandbox?: boolean;
  /** Overrides by glob over the server's own tool names. */
  tools?: Record<string, ServerToolConfig>;
  /** Where it was read, for messages. */
  origin: string;
}

/** An external agent that answers as a model. */
export interface AgentConfig {
  /** The model's id. */
  id: string;
  protocol: "claude-code" | "acp";
  /** A name is looked for on the PATH. */
  command: string;
  args?: string[];
  /** Beside the few variables that every agent is given. */
  env?: Record<string, string>;
  /** Default: the directory that the response works in. */
  cwd?: string;
  /** The agent's own model. claude-code: `--model`. acp: a model id that the agent offers. */
  model?: string;
  /** Processes at once; the rest queue. Default 4. */
  maxConcurrent?: number;
  /** claude-code: `--permission-mode`; acp: a mode that the agent offers. Default: by the mode of the response. */
  permissionMode?: string;
  /** Seconds for one answer, without the time spent waiting for a person. Default: the limit of the response. */
  timeout?: number;
}

export interface HookConfig {
  /** A shell command; receives one JSON object on stdin. */
  command: string;
  /** Globs over tool names; absent: every tool. */
  tools?: string[];
  /** Seconds. Default 30. */
  timeout?: number;
  /** A guard: where it fails to say anything, the call is denied. Default false. */
  required?: boolean;
}

export type HookPoint = "beforeToolCall" | "afterToolCall" | "onResponseStart" | "onResponseEnd";

export interface ProfileConfig {
  description?: string;
  /** Text, or a path that begins with `./`, `../` or `/` and ends in `.md` or `.txt`. */
  instructions?: string;
  /** Joins the prompt behind the instructions, also where a caller brings its own. */
  guidelines?: string;
  /** Profile whose settings this one begins with. */
  extends?: string;
  model?: string;
  temperature?: number;
  maxOutputTokens?: number;
  maxTurns?: number;
  limits?: Partial<Limits>;
  /** Model calls at once; the rest stand in line. */
  maxConcurrent?: number;
  /** How long its responses are kept after their end: 30d, 12h, "forever". */
  keep?: string;
  /** Globs over tool names; `!glob` leaves out. */
  tools?: string[];
  /** Globs over MCP server names; `!glob` leaves out. */
  servers?: string[];
  /** Globs over the names of admin tools, which it is offered besides. */
  adminTools?: string[];
  readOnly?: boolean;
  mode?: PermissionMode;
  /** What a response does when a call needs a person. "auto" (default): what its door does. */
  onApproval?: "auto" | "wait" | "return" | "deny";
  /** False: tool calls one after the other. */
  parallel?: boolean;
  advice?: boolean;
  permissions?: Partial<PermissionRules>;
  /** In mode auto, an external agent is started so that it asks nobody. Default false. */
  skipAgentPermissions?: boolean;
}

export interface SandboxConfig {
  /** "auto": the best step that works here; "required": refuse to run without; "none": process groups only. */
  level: "auto" | "required" | "none";
  /** "auto": only for calls that a rule, a person or mode auto allowed. */
  network: "auto" | "on" | "off";
}

/** Of the HTTP door. */
export interface ServerSettings {
  /** Default "127.0.0.1". */
  host: string;
  /** Default 7070; 0: any that is free. */
  port: number;
  /** Origins of pages that may ask, beside our own. Exact, as `https://app.example.com`. */
  cors: string[];
  /** Bytes of a request's body. Default 50 MB. */
  bodyLimit: number;
  /** Default profile of the HTTP doors; absent: `defaultProfile`. */
  profile?: string;
  webhooks: WebhookConfig[];
  /** A shell command that is run when a response waits or ends; one JSON object on its stdin. */
  notify?: string;
  /** Over HTTP, too, servers that start processes may be added, with scope `admin`. Default false. */
  allowRemoteAdmin: boolean;
  /** A proxy in front of it ends TLS: it may listen beyond loopback. Default false. */
  behindProxy: boolean;
}

export const DEFAULT_SERVER: Readonly<ServerSettings> = {
  host: "127.0.0.1",
  port: 7070,
  cors: [],
  bodyLimit: 50_000_000,
  webhooks: [],
  allowRemoteAdmin: false,
  behindProxy: false,
};

export interface WebhookConfig {
  url: string;
  /** Key of the signature. */
  secret: string;
  /** Absent: every event. */
  events?: string[];
}

/** Of the MCP door. */
export interface McpSettings {
  /** Who answers `ask` where nobody is named: a model, an agent or `profile/NAME`. */
  askModel?: string;
  /** Whose instructions, tools and limits hold where only a model is named. Default: that of the HTTP doors. */
  profile?: string;
  /** The bridge's later names for its tools as well. Default false. */
  oldNames: boolean;
  gateway?: GatewaySettings;
}

/** Of the addresses that hand on the MCP servers. */
export interface GatewaySettings {
  /** False: tools, prompts and resources have their own names where no other server has the same. Default true. */
  prefix?: boolean;
  /** In place of all tools, one that finds them and one that calls them. Default: above `toolSearchAbove`. */
  toolSearch?: boolean;
  /** Characters of text of a tool's result; the rest is read back in pieces. Default 50,000. */
  outputLimit?: number;
}

/** How prompts are kept within the window of their model. */
export interface CompactionConfig {
  /** "summary" (default): the model sums up older items. "first-last": they are left out. "none": a prompt that is too long is an error. */
  strategy: "summary" | "first-last" | "none";
  /** Share of the window at which it happens. Default 0.8. */
  at: number;
  /** Share of the window that the newest items may fill and stay as they are. Default 0.25. */
  keep: number;
  /** Id of the model that sums up. Default: the one that answers. */
  model?: string;
  /** first-last: messages above which those in the middle are left out. Default 500. */
  messages?: number;
}

export const DEFAULT_COMPACTION: Readonly<CompactionConfig> = { strategy: "summary", at: 0.8, keep: 0.25 };

/** An entry that a file has and that does not count; everything else goes on without it. */
export interface LeftOutEntry {
  kind: "model" | "agent" | "server";
  name: string;
  /** A clause that follows "it is left out: ". */
  why: string;
  remedy: string;
  /** It would be the model that answers where none is named. */
  isDefault?: boolean;
}

export interface Config {
  models: ModelConfig[];
  /** Beside those that are found by themselves. */
  agents?: AgentConfig[];
  servers: ServerConfig[];
  profiles: Record<string, ProfileConfig>;
  defaultProfile: string;
  /** Replaces the general profile's instructions (`system-prompt.txt`). */
  systemPrompt?: string;
  permissions: PermissionRules & { mode: PermissionMode };
  hooks: Partial<Record<HookPoint, HookConfig[]>>;
  sandbox: SandboxConfig;
  server: ServerSettings;
  mcp: McpSettings;
  /** postgres://… with its password; absent: SQLite in the state directory. */
  database?: string;
  budgets?: BudgetConfig[];
  schedules?: ScheduleConfig[];
  /** Responses that one process runs at once; background ones beyond it stay in the database. Default 1,000. */
  maxRuns?: number;
  /** Milliseconds that responses are kept after their end, where profile and conversation do not say. Absent: for ever. */
  keep?: number;
  /** Default: `DEFAULT_COMPACTION`. */
  compaction?: CompactionConfig;
  /** Tools that nobody is offered, in any accepted spelling of their names. */
  disabledTools: string[];
  /** False: tool calls one after the other, whatever the profile. */
  parallel?: boolean;
  /** Characters of a tool's result that a model is shown. Default 8000. */
  toolOutputLimit: number;
  /**
   * Tokens (about) of tool schemas of one model call above which MCP tools are not offered but found with `tool_search`.
   * Default 10,000.
   */
  toolSearchAbove?: number;
  /** Advice of the offered tools joins the system prompt. */
  advice: boolean;
  /** Absent: nothing was left out. */
  leftOut?: LeftOutEntry[];
  /** One line each: what was left out and why. */
  warnings: string[];
  /** Values of keys, tokens and headers in force: never shown, logged or stored. */
  secrets: string[];
}
