/** Profile: who answers. Finta's agent types and SpeakMCP's profiles are one thing. */
import type { Limits, PermissionMode } from "./response.ts";

export interface Profile {
  name: string;
  description: string;
  instructions: string;
  /** The instructions say only what an agent with a prompt of its own knows without them. */
  generic?: true;
  /** Joins the prompt behind the instructions, also where a caller brings its own. */
  guidelines?: string;
  /** Id of a configured model; absent: the default model. */
  model?: string;
  /** As configured; it beats the model's own. */
  temperature?: number;
  maxOutputTokens?: number;
  /** What holds where neither the profile nor the model is configured to say. */
  defaults?: { temperature?: number; maxOutputTokens?: number };
  limits: Limits;
  /** How long its responses are kept after their end: 30d, 12h, "forever". Absent: as the configuration says for all. */
  keep?: string;
  /** Model calls at once, of all that share the database; the rest stand in line. */
  maxConcurrent?: number;
  /** False: tool calls one after the other. */
  parallel?: boolean;
  /** Globs over tool names, `!glob` leaves out; absent: all tools. */
  tools?: string[];
  /** Globs over MCP server names, `!glob` leaves out; absent: all servers. */
  servers?: string[];
  /** Nothing that the profile runs may write: shell commands see a read-only workspace. */
  readOnly: boolean;
  mode?: PermissionMode;
  /** What a response does when a call needs a person. Absent: what its door does by default. */
  onApproval?: "wait" | "return" | "deny";
  /** Tools that no profile is offered unless it names them (admin tools), by glob. */
  adminTools?: string[];
  /** Advice of the offered tools joins the system prompt. */
  advice: boolean;
  /** In mode auto, an external agent is started so that it asks nobody. */
  skipAgentPermissions?: boolean;
  /** Rules that hold before the configuration's own. */
  permissions?: PermissionRules;
}

export interface PermissionRules {
  allow: string[];
  ask: string[];
  deny: string[];
}
