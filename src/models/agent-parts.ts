/** What every external agent is made of. Invariant: the program is looked for anew with each answer. */
import type { AgentConfig } from "../types/config.ts";
import { type AgentSetting, ModelError, type ModelRequest } from "../types/model.ts";
import type { AgentLaunch } from "./agent-process.ts";
import type { AgentPrompt } from "./agent-prompt.ts";

export interface AgentParts {
  /** The program, found anew for each answer: an absolute path, or what was looked for in vain. */
  program(): string;
  environment(): Record<string, string>;
  launch: AgentLaunch;
}

/** One answer that an external agent is asked for. */
export interface AgentTask {
  config: AgentConfig;
  parts: AgentParts;
  request: ModelRequest;
  setting: AgentSetting;
  /** Where it works: an absolute path. */
  cwd: string;
  prompt: AgentPrompt;
  signal: AbortSignal;
}

export function settingOf({ agent }: ModelRequest): AgentSetting {
  if (!agent) throw new ModelError("internal", "an agent was asked without its setting");
  return agent;
}
