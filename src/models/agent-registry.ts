/**
 * Which external agents there are: the configured ones, and those whose program is found by itself.
 *
 * Invariant: looking for them starts nothing and writes nothing; an agent that the configuration names beats the one
 * that is found by the same id.
 */
import { join } from "node:path";
import type { AgentConfig } from "../types/config.ts";
import type { Model } from "../types/model.ts";
import { type KnownAgent, knownAgents } from "../util/known-agents.ts";
import { type AgentLaunch, findProgram } from "./agent-process.ts";

/** Where a person is, what a terminal can do, how the network is reached: nothing secret of ours. */
const INHERITED = new Set(
  [
    "HOME PATH SHELL TERM COLORTERM LANG LANGUAGE USER LOGNAME TMPDIR TZ",
    "XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR",
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy",
    "NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR DISABLE_AUTOUPDATER DISABLE_TELEMETRY DISABLE_ERROR_REPORTING",
    "SystemRoot ComSpec PATHEXT TEMP TMP APPDATA LOCALAPPDATA USERPROFILE",
  ].flatMap((line) => line.split(" ")),
);

/** They tell a program that it was started by another of its kind, and that is not so. */
const NOT_INHERITED = new Set(["CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID"]);

export interface AgentOptions {
  configs: readonly AgentConfig[];
  environment: NodeJS.ProcessEnv;
  launch: AgentLaunch;
}

/** A configured agent, or a built-in one whose program is there. */
export function findAgent(id: string, { configs, environment }: AgentOptions): AgentConfig | undefined {
  const configured = configs.find((config) => config.id === id);
  if (configured) return configured;
  const known = knownAgents.find((one) => one.id === id);
  return known && isThere(known, environment) ? withoutVariables(known) : undefined;
}

export function listAgents({ configs, environment }: AgentOptions): AgentConfig[] {
  const found = knownAgents.filter((known) => {
    return !configs.some(({ id }) => id === known.id) && isThere(known, environment);
  });
  return [...configs, ...found.map(withoutVariables)];
}

/** Whoever names a program wants to hear that it is missing. */
function isThere(config: KnownAgent, environment: NodeJS.ProcessEnv): boolean {
  const named = config.id === "claude-code" && environment.CLAUDE_CLI_NAME;
  return Boolean(named) || programOf(config, environment) !== undefined;
}

function withoutVariables({ variables: _variables, ...config }: KnownAgent): AgentConfig {
  return config;
}

/** The program's absolute path; undefined: it is not there. */
function programOf({ protocol, command }: AgentConfig, environment: NodeJS.ProcessEnv): string | undefined {
  if (protocol !== "claude-code" || command !== "claude") return findProgram(command, environment);
  // As the Claude bridge did (parity C6): a name or an absolute path, else the local installation, else the PATH.
  const named = environment.CLAUDE_CLI_NAME;
  if (named) return findProgram(named, environment);
  const home = environment.HOME ?? "";
  const local = home === "" ? undefined : findProgram(join(home, ".claude", "local", "claude"), environment);
  return local ?? findProgram(command, environment);
}

export async function createAgentModel(config: AgentConfig, options: AgentOptions): Promise<Model> {
  const { environment, launch } = options;
  const parts = {
    // What is not found is named as it was looked for.
    program: () => programOf(config, environment) ?? namedProgram(config, environment),
    environment: () => agentEnvironment(config, environment),
    launch,
  };
  if (config.protocol === "claude-code") {
    const { createClaudeModel } = await import("./agent-claude.ts");
    return createClaudeModel(config, parts);
  }
  const { createAcpModel } = await import("./agent-acp.ts");
  return createAcpModel(config, parts);
}

function namedProgram({ protocol, command }: AgentConfig, environment: NodeJS.ProcessEnv): string {
  return (protocol === "claude-code" && command === "claude" && environment.CLAUDE_CLI_NAME) || command;
}

function agentEnvironment(config: AgentConfig, environment: NodeJS.ProcessEnv): Record<string, string> {
  const own = knownAgents.filter(
    ({ id, protocol }) => id === config.id || (protocol === "claude-code" && protocol === config.protocol),
  );
  const prefixes = own.flatMap(({ variables }) => variables);
  // With these it answers through a cloud, whose names it needs.
  if (prefixes.includes("CLAUDE_")) {
    if (environment.CLAUDE_CODE_USE_BEDROCK) prefixes.push("AWS_");
    if (environment.CLAUDE_CODE_USE_VERTEX) prefixes.push("GOOGLE_", "CLOUD_ML_", "VERTEX_");
  }
  const given: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    const allowed = INHERITED.has(name) || name.startsWith("LC_") || prefixes.some((prefix) => name.startsWith(prefix));
    // A value that begins with "()" is an exported shell function: code.
    if (allowed && value !== undefined && !NOT_INHERITED.has(name) && !value.startsWith("()")) given[name] = value;
  }
  return { ...given, ...config.env };
}
