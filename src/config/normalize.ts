/**
 * From what a file holds to the parts of a configuration, whatever the file's own shape.
 *
 * Invariant: each part is valid by `schema.ts`; what a part needs trust for is named beside it.
 */
import type { TrustItem } from "../types/app.ts";
import type { BudgetConfig } from "../types/budget.ts";
import type {
  AgentConfig,
  HookConfig,
  HookPoint,
  LeftOutEntry,
  McpSettings,
  ModelConfig,
  OAuthConfig,
  ProfileConfig,
  ServerConfig,
  ServerSettings,
} from "../types/config.ts";
import { RotundaError } from "../types/error.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { PermissionMode } from "../types/response.ts";
import type { ScheduleConfig } from "../types/schedule.ts";
import { adminToolNames } from "../types/tool.ts";
import { knownAgents } from "../util/known-agents.ts";
import { matchesName } from "../util/text.ts";
import { EntryFault, type Expansion, expand, waitingFor } from "./expand.ts";
import { besideFile, type ConfigFile } from "./files.ts";
import { fromPolybrain } from "./polybrain.ts";
import type { RawConfig } from "./schema.ts";
import { isLoopback } from "./trust.ts";

/** A part, and the item that must be trusted before it counts; null: it may always count. */
export interface Part<T> {
  /** Expanded only when it counts: an unset variable of a part that is left out is no error. */
  value: () => T;
  trust: TrustItem | null;
  /** What refers to variables, and which of them must be trusted before it counts. */
  variables?: { of: string; waiting: TrustItem[] };
  /** One of many: where its value is an `EntryFault`, the others go on without it. `quiet`: nobody wants it anyway. */
  entry?: { kind: LeftOutEntry["kind"]; name: string; quiet?: boolean };
}

/** What the user's own files say, which a file of the workspace may not loosen untrusted. */
export interface Baseline {
  mode: PermissionMode;
  /** Of `mode` and the modes of all profiles. */
  strictestMode: PermissionMode;
  profiles: readonly string[];
  /** They say who answers where nobody is named. */
  choosesProfile: boolean;
}

/** Strictest first. */
const MODES: readonly PermissionMode[] = ["plan", "ask", "accept-edits", "auto"];

function loosens(mode: PermissionMode | undefined, than: PermissionMode): boolean {
  return mode !== undefined && MODES.indexOf(mode) > MODES.indexOf(than);
}

/** Of the user's files, strongest first. */
export function baselineOf(files: readonly RawConfig[]): Baseline {
  const mode = files.find((file) => file.permissions?.mode)?.permissions?.mode ?? "ask";
  const profiles = files.flatMap((file) => Object.entries(file.profiles ?? {}));
  const modes = [mode, ...profiles.map(([, profile]) => profile.mode)];
  const names = profiles.map(([name]) => name);
  return {
    mode,
    strictestMode: MODES.find((one) => modes.includes(one)) ?? mode,
    profiles: names,
    choosesProfile: names.includes("general") || files.some((file) => file.profile !== undefined),
  };
}

export interface FileParts {
  file: ConfigFile;
  models: Part<ModelConfig>[];
  agents: Part<AgentConfig>[];
  servers: Part<ServerConfig>[];
  hooks: Part<{ point: HookPoint; hook: HookConfig }>[];
  permissions: Part<{ allow: string[]; ask: string[]; deny: string[]; mode?: PermissionMode }>[];
  sandbox: Part<NonNullable<RawConfig["sandbox"]>>[];
  profiles: Part<{ name: string; profile: ProfileConfig }>[];
  profile: Part<string>[];
  server: Part<Partial<ServerSettings>>[];
  mcp: Part<Partial<McpSettings>>[];
  budgets: Part<BudgetConfig[]>[];
  /** How long everything is kept: a file of the workspace must not have it deleted. */
  keep: Part<string>[];
  /** Where everything that is said goes. */
  database: Part<string>[];
  /** What is started without anybody's asking needs trust. */
  schedules: Part<ScheduleConfig[]>[];
  plain: Pick<RawConfig, "compaction" | "maxRuns" | "toolOutputLimit" | "toolSearchAbove" | "advice">;
}

type RawModel = NonNullable<RawConfig["models"]>[number];
type RawAgent = NonNullable<RawConfig["agents"]>[string];
type RawServer = NonNullable<RawConfig["mcpServers"]>[string];
type RawProfile = NonNullable<RawConfig["profiles"]>[string];
type RawPermissions = NonNullable<RawConfig["permissions"]>;

const HOOK_POINTS: readonly HookPoint[] = ["beforeToolCall", "afterToolCall", "onResponseStart", "onResponseEnd"];

export function normalize(
  file: ConfigFile,
  raw: RawConfig,
  expansion: Omit<Expansion, "file">,
  user: Baseline,
): FileParts {
  const within: Expansion = { ...expansion, file: file.path };
  const needs = (what: string, content: unknown): TrustItem | null =>
    file.project ? { what, file: file.path, content: content as Json } : null;
  return {
    file,
    models: (raw.models ?? []).map((model, index) => ({
      value: () => modelOf(expand(model as unknown as Json, within, `models[${index}]`) as unknown as RawModel),
      entry: { kind: "model", name: model.id },
      // What a variable puts into an address can make it another host's.
      trust: isLoopback(model.baseUrl) && !model.baseUrl.includes("$") ? null : needs(`model ${model.id}`, model),
      variables: {
        of: `model ${model.id}`,
        waiting: waitingFor(model as unknown as Json, within, `models[${index}]`),
      },
    })),
    agents: Object.entries(raw.agents ?? {}).map(([id, agent]) => ({
      value: () => agentOf(id, expand(agent as unknown as Json, within, `agents.${id}`) as unknown as RawAgent, file),
      entry: { kind: "agent", name: id },
      trust: needs(`agent ${id}`, agent),
      variables: { of: `agent ${id}`, waiting: waitingFor(agent as unknown as Json, within, `agents.${id}`) },
    })),
    servers: Object.entries(raw.mcpServers ?? {}).map(([name, server]) => ({
      value: () => serverOf(name, expandServer(name, server, within), file),
      entry: { kind: "server", name, quiet: server.disabled === true || server.enabled === false },
      trust: needs(`MCP server ${name}`, server),
      variables: {
        of: `MCP server ${name}`,
        waiting: waitingFor(expandable(server, within), within, `mcpServers.${name}`),
      },
    })),
    hooks: HOOK_POINTS.flatMap((point) =>
      (raw.hooks?.[point] ?? []).map((hook) => {
        const value = (typeof hook === "string" ? { command: hook } : hook) as HookConfig;
        return { value: () => ({ point, hook: value }), trust: needs(`hook ${point}`, value) };
      }),
    ),
    permissions: permissionParts(raw, needs, user.mode),
    sandbox: raw.sandbox ? [{ value: () => raw.sandbox ?? {}, trust: needs("sandbox", raw.sandbox) }] : [],
    profiles: Object.entries(raw.profiles ?? {}).map(([name, profile]) => ({
      value: () => ({ name, profile: profileOf(file, profile) }),
      trust:
        user.profiles.includes(name) ||
        loosens(profile.mode, user.strictestMode) ||
        profile.permissions?.allow ||
        profile.skipAgentPermissions ||
        profile.keep !== undefined ||
        namesAdminTools(profile)
          ? needs(`profile ${name}`, profile)
          : null,
    })),
    profile: [raw.profile ?? []].flat().map((name) => ({
      value: () => name,
      trust: user.choosesProfile ? needs("default profile", name) : null,
    })),
    server: serverParts(raw, within, needs),
    // Who answers may be an agent, which is a process: as with a default profile, a project's word needs trust.
    mcp: raw.mcp ? [{ value: () => raw.mcp as Partial<McpSettings>, trust: needs("mcp", raw.mcp) }] : [],
    // What a file of the workspace says could loosen what the user has said.
    budgets: raw.budgets ? [{ value: () => raw.budgets as BudgetConfig[], trust: needs("budgets", raw.budgets) }] : [],
    keep: raw.keep === undefined ? [] : [{ value: () => raw.keep as string, trust: needs("keep", raw.keep) }],
    database: databaseParts(raw, within, needs),
    schedules: raw.schedules
      ? [{ value: () => raw.schedules as ScheduleConfig[], trust: needs("schedules", raw.schedules) }]
      : [],
    plain: {
      ...(raw.maxRuns !== undefined && { maxRuns: raw.maxRuns }),
      ...(raw.compaction && { compaction: raw.compaction }),
      ...(raw.toolOutputLimit !== undefined && { toolOutputLimit: raw.toolOutputLimit }),
      ...(raw.toolSearchAbove !== undefined && { toolSearchAbove: raw.toolSearchAbove }),
      ...(raw.advice !== undefined && { advice: raw.advice }),
    },
  };
}

function databaseParts(
  { database }: RawConfig,
  within: Expansion,
  needs: (what: string, content: unknown) => TrustItem | null,
): FileParts["database"] {
  if (database === undefined) return [];
  const waiting = waitingFor(database, within, "database");
  const value = () => expand(database, within, "database") as string;
  return [{ value, trust: needs("database", database), variables: { of: "database", waiting } }];
}

/** The port and the size of a body may always count; who is let in, told or run needs trust. */
function serverParts(
  { server: all }: RawConfig,
  within: Expansion,
  needs: (what: string, content: unknown) => TrustItem | null,
): FileParts["server"] {
  if (!all) return [];
  const { port, bodyLimit, ...rest } = all;
  const harmless = { ...(port !== undefined && { port }), ...(bodyLimit !== undefined && { bodyLimit }) };
  const parts: FileParts["server"] = [{ value: () => harmless, trust: null }];
  if (Object.keys(rest).length === 0) return parts;
  const { webhooks } = rest;
  parts.push({
    value: () => {
      const expanded = webhooks && expand(webhooks as unknown as Json, within, "server.webhooks");
      return { ...rest, ...(expanded && { webhooks: expanded }) } as Partial<ServerSettings>;
    },
    trust: needs("server", rest),
    variables: { of: "server", waiting: waitingFor(webhooks as unknown as Json, within, "server.webhooks") },
  });
  return parts;
}

function namesAdminTools({ adminTools, tools = [] }: RawProfile): boolean {
  const named = tools.filter((glob) => !/^[*?!]/.test(glob));
  return adminTools !== undefined || named.some((glob) => adminToolNames.some((name) => matchesName(glob, name)));
}

/** What tightens counts at once; what loosens needs trust. */
function permissionParts(
  raw: RawConfig,
  needs: (what: string, content: unknown) => TrustItem | null,
  than: PermissionMode,
) {
  const { mode, allow = [], ask = [], deny = [] }: RawPermissions = raw.permissions ?? {};
  const asks = [...ask];
  if (raw.hooks?.bash_confirm) asks.push("bash");
  asks.push(...(raw.hooks?.tool_confirm ?? []));
  const isLoose = loosens(mode, than);
  const tight = { allow: [], ask: asks, deny, ...(mode !== undefined && !isLoose && { mode }) };
  const parts: FileParts["permissions"] = [{ value: () => tight, trust: null }];
  if (allow.length > 0 || isLoose) {
    const loose = { allow, ask: [], deny: [], ...(mode !== undefined && isLoose && { mode }) };
    parts.push({ value: () => loose, trust: needs("permissions", { allow, ...(isLoose && { mode }) }) });
  }
  return parts;
}

function modelOf({ model, modelName, ...rest }: RawModel): ModelConfig {
  const { timeouts, ...others } = rest;
  if (!URL.canParse(rest.baseUrl) || !/^https?:/.test(rest.baseUrl)) {
    throw new RotundaError("config_invalid", `model ${rest.id}: baseUrl is not an http address`);
  }
  const value = { ...others, model: model ?? modelName ?? rest.id, origin: "config" as const };
  return (timeouts ? { ...value, timeouts } : value) as ModelConfig;
}

function agentOf(id: string, raw: RawAgent, file: ConfigFile): AgentConfig {
  const usual = knownAgents.find((known) => known.id === id);
  const { protocol = usual?.protocol ?? "acp", command, args, cwd, ...rest } = raw;
  const own = command ?? (protocol === "claude-code" ? "claude" : usual?.command);
  if (own === undefined) throw new RotundaError("config_invalid", `agent ${id} in ${file.path}: it needs a command`);
  // Another program has other arguments.
  const given = args ?? (command === undefined ? usual?.args : undefined);
  return {
    ...(rest as Omit<AgentConfig, "id" | "protocol" | "command">),
    id,
    protocol,
    command: /^\.{1,2}\//.test(own) ? besideFile(file, own) : own,
    ...(given && { args: given }),
    ...(cwd !== undefined && { cwd: besideFile(file, cwd) }),
  };
}

/** What variables are expanded in. Finta did it in `env` only, and unset ones to nothing (parity F15). */
function expandable(server: RawServer, { lenient }: Expansion): Json {
  return (lenient ? { env: server.env ?? {} } : server) as Json;
}

function expandServer(name: string, server: RawServer, within: Expansion): RawServer {
  const expanded = expand(expandable(server, within), within, `mcpServers.${name}`) as RawServer;
  return { ...server, ...expanded };
}

function serverOf(name: string, raw: RawServer, file: ConfigFile): ServerConfig {
  const url = raw.url ?? raw.serverUrl;
  const wrong = (what: string) => new RotundaError("config_invalid", `MCP server ${name} in ${file.path}: ${what}`);
  if (name === "" || name === "rotunda") throw wrong("this name is reserved");
  if (raw.command === undefined && url === undefined) throw wrong("it needs a command or a url");
  if (raw.command !== undefined && url !== undefined) throw wrong("it has both a command and a url");
  const kind = raw.type ?? raw.transport ?? "";
  if (/^(?:sse|websocket)$/i.test(kind)) {
    const why = `its transport ${kind} is not supported`;
    // What other programs' files hold is mostly an old entry of a server that has long had the newer transport too.
    const remedy =
      'Give its Streamable HTTP address as url (often /mcp in place of /sse), with "type": "http", or a command';
    throw new EntryFault(`MCP server ${name} in ${file.path}: ${why}`, why, remedy);
  }
  return {
    name,
    transport: url === undefined ? "stdio" : "http",
    disabled: raw.disabled === true || raw.enabled === false,
    origin: file.path,
    ...(raw.command !== undefined && { command: raw.command }),
    ...(raw.args && { args: raw.args }),
    ...(raw.env && { env: raw.env }),
    ...(raw.cwd !== undefined && { cwd: besideFile(file, raw.cwd) }),
    ...(url !== undefined && { url }),
    ...(raw.headers && { headers: raw.headers }),
    ...(raw.timeout !== undefined && { timeout: raw.timeout }),
    ...(raw.startTimeout !== undefined && { startTimeout: raw.startTimeout }),
    ...(raw.retry && { retry: raw.retry }),
    ...(raw.sandbox !== undefined && { sandbox: raw.sandbox }),
    ...(raw.tools && { tools: raw.tools as NonNullable<ServerConfig["tools"]> }),
    ...(raw.oauth !== undefined && { oauth: oauthOf(raw.oauth) }),
    ...(raw.sampling !== undefined && { sampling: raw.sampling }),
    ...(raw.roots !== undefined && { roots: raw.roots }),
  };
}

function oauthOf(raw: NonNullable<RawServer["oauth"]>): OAuthConfig | false {
  if (typeof raw === "boolean") return raw ? {} : false;
  const { scope, callbackPort, ...rest } = raw;
  const scopes = rest.scopes ?? scope?.split(" ").filter((word) => word !== "");
  const redirectPort = rest.redirectPort ?? callbackPort;
  return {
    ...(rest as OAuthConfig),
    ...(scopes && { scopes }),
    ...(redirectPort !== undefined && { redirectPort }),
  };
}

function profileOf(file: ConfigFile, profile: RawProfile): ProfileConfig {
  const { instructions } = profile;
  const isPath = instructions !== undefined && /^\.{0,2}\/[^\n]*\.(?:md|txt)$/.test(instructions);
  return (isPath ? { ...profile, instructions: besideFile(file, instructions) } : profile) as ProfileConfig;
}

/** The file's content in the shape of rotunda.yaml. */
export function inOwnShape({ kind, raw, path }: ConfigFile): JsonObject {
  if (kind === "rotunda") return raw;
  if (kind === "finta") return fromFinta(raw, path);
  if (kind === "polybrain") return fromPolybrain(raw, path);
  // `servers` is VS Code's word, and notion-open-agent's.
  return { mcpServers: raw.mcpServers ?? raw.servers ?? {} };
}

function fromFinta(raw: JsonObject, path: string): JsonObject {
  const { servers } = asObject(raw.mcp);
  // Finta has a list; the form of all others is understood too.
  const mcpServers: JsonObject = { ...asObject(raw.mcpServers), ...asObject(servers) };
  for (const entry of Array.isArray(servers) ? servers : []) {
    const { name, ...server } = asObject(entry);
    if (typeof name !== "string" || !/^[A-Za-z0-9_-]+$/.test(name)) {
      throw new RotundaError("config_invalid", `${path}: an MCP server's name must match ^[A-Za-z0-9_-]+$`);
    }
    mcpServers[name] = server;
  }
  const { bash_confirm, tool_confirm } = asObject(raw.hooks);
  const hooks: JsonObject = {};
  if (bash_confirm !== undefined) hooks.bash_confirm = bash_confirm;
  if (tool_confirm !== undefined) hooks.tool_confirm = tool_confirm;
  return { mcpServers, hooks };
}

function asObject(value: Json | undefined): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}
