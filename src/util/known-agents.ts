/** External agents that are known by their ids: what is started for them when the configuration does not say. */

export interface KnownAgent {
  id: string;
  protocol: "claude-code" | "acp";
  command: string;
  args?: string[];
  /** Beginnings of the names of variables that are its own, and that its process is given. */
  variables: string[];
}

/** A program that only speaks through a package runner is not among them: what is installed is the person's to say. */
export const knownAgents: readonly KnownAgent[] = [
  { id: "claude-code", protocol: "claude-code", command: "claude", variables: ["ANTHROPIC_", "CLAUDE_"] },
  { id: "codex", protocol: "acp", command: "codex-acp", variables: ["OPENAI_", "CODEX_"] },
  { id: "gemini", protocol: "acp", command: "gemini", args: ["--acp"], variables: ["GEMINI_", "GOOGLE_"] },
  { id: "opencode", protocol: "acp", command: "opencode", args: ["acp"], variables: ["OPENCODE_"] },
];
