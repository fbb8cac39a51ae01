/** What every external agent is made of. Invariant: the program is looked for anew with each answer. */
import { type AgentSetting, ModelError, type ModelRequest } from "../types/model.ts";
import type { AgentLaunch } from "./agent-process.ts";

export interface AgentParts {
  /** The program, found anew for each answer: an absolute path, or what was looked for in vain. */
  program(): string;
  environment(): Record<string, string>;
  launch: AgentLaunch;
}

export function settingOf({ agent }: ModelRequest): AgentSetting {
  if (!agent) throw new ModelError("internal", "an agent was asked without its setting");
  return agent;
}
