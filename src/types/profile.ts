/** Profile: who answers. Finta's agent types and SpeakMCP's profiles are one thing. */
import type { Limits, PermissionMode } from "./response.ts";

export interface Profile {
  name: string;
  description: string;
  instructions: string;
  /** Id of a configured model; absent: the default model. */
  model?: string;
  /** As configured; it beats the model's own. */
  temperature?: number;
  maxOutputTokens?: number;
  /** What holds where neither the profile nor the model is configured to say. */
  defaults?: { temperature?: number; maxOutputTokens?: number };
  limits: Limits;
  /** Globs over tool names; absent: all tools. */
  tools?: string[];
  /** Globs over MCP server names; absent: all servers. */
  servers?: string[];
  /** Nothing that the profile runs may write: shell commands see a read-only workspace. */
  readOnly: boolean;
  mode?: PermissionMode;
  /** Advice of the offered tools joins the system prompt. */
  advice: boolean;
  /** Rules that hold before the configuration's own. */
  permissions?: PermissionRules;
}

export interface PermissionRules {
  allow: string[];
  ask: string[];
  deny: string[];
}
