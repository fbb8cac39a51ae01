/**
 * Load: files, environment and flags become one `Config`.
 *
 * Invariant: strongest first: flags, environment, settings.json, project files, user files. A part of a project file that
 * starts a process, contacts a host or loosens a rule counts only once it is trusted; what is left out is
 * told in one line each.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TrustItem } from "../types/app.ts";
import { type Config, DEFAULT_COMPACTION, DEFAULT_SERVER, type HookPoint, type ModelConfig } from "../types/config.ts";
import { RotundaError } from "../types/error.ts";
import type { JsonObject } from "../types/json.ts";
import type { SettingsFile } from "../types/settings.ts";
import { keepOf } from "../util/duration.ts";
import { isSecretName, secretsInArguments, secretsInUrl, withoutScheme } from "../util/secrets.ts";
import { checked } from "./check.ts";
import { readEnvFile } from "./env-file.ts";
import { type ConfigFile, findPlaces, readConfigFile } from "./files.ts";
import { leaveOut, orLeftOut, settleLeftOut } from "./left-out.ts";
import { asConfigFile, readSettings, settingsPath } from "./managed.ts";
import { baselineOf, type FileParts, inOwnShape, normalize, type Part } from "./normalize.ts";
import { stateDirectory } from "./paths.ts";
import { polybrainMessages, polybrainModel, withPolybrainNames } from "./polybrain.ts";
import { TrustStore } from "./trust.ts";

export interface LoadOptions {
  workspace: string;
  environment: NodeJS.ProcessEnv;
  /** Where settings.json is. Default: as the environment says. */
  stateDirectory?: string;
  flags?: { config?: string; apiKey?: string; apiBaseUrl?: string; model?: string; database?: string };
}

export interface LoadedConfig extends Config {
  /** Where each top-level part comes from: `models.main` → file. */
  origins: Record<string, string>;
  /** Parts that wait to be trusted. */
  untrusted: TrustItem[];
  /** Variables in force: the process's own, and those of `.env` beside them. */
  environment: NodeJS.ProcessEnv;
  files: string[];
  /** SpeakMCP's settings, as they were set. */
  speakmcp: JsonObject;
}

export async function loadConfig(options: LoadOptions): Promise<LoadedConfig> {
  const { workspace, flags = {} } = options;
  const own = withPolybrainNames(withSpeakmcpNames(options.environment));
  const state = stateDirectory(own);
  const trust = new TrustStore(state);
  const envFile = readEnvFile(workspace, own, trust);
  const { environment } = envFile;
  const settingsFile = settingsPath(options.stateDirectory ?? state);
  const settings = readSettings(settingsFile) ?? {};
  const untrusted: TrustItem[] = [...envFile.missed];
  const used = new Map<string, string>();
  const found: ConfigFile[] = [];
  const managed = asConfigFile(settingsFile, settings);
  if (Object.keys(settings).length > 0) found.push(managed);
  for (const place of findPlaces(workspace, environment, flags.config)) found.push(await readConfigFile(place));
  const read = [];
  for (const file of found) read.push({ file, raw: await checked(file, inOwnShape(file), state) });
  const user = baselineOf(read.flatMap(({ file, raw }) => (file.project ? [] : [raw])));
  const files = read.map(({ file, raw }) => {
    return normalize(
      file,
      raw,
      { environment, used, untrusted: envFile.untrusted, lenient: file.kind === "finta" },
      user,
    );
  });
  const config = emptyConfig(environment);
  const accept = <T>(part: Part<T>): T | undefined => {
    const { of = "", waiting = [] } = part.variables ?? {};
    const isTrusted = part.trust === null || trust.isTrusted(part.trust);
    if (isTrusted && waiting.length === 0) return orLeftOut(config, part);
    untrusted.push(...waiting.filter((item) => !untrusted.includes(item)));
    if (part.trust && !isTrusted) untrusted.push(part.trust);
    else
      config.warnings.push(`${of} is left out until you trust ${waiting.map(({ what }) => what).join(", ")} of .env`);
    if (part.entry) {
      const { kind, name } = part.entry;
      leaveOut(config, { kind, name, why: "it waits for your trust", remedy: "rotunda trust" });
    }
    return undefined;
  };
  for (const parts of files) merge(config, parts, accept);
  const [first] = config.models;
  const speakmcp = settings.speakmcp && (await import("./speakmcp.ts"));
  applySettings(config, settings, managed.path);
  speakmcp?.applySpeakmcp(config, config.speakmcp, environment, managed.path);
  applyEnvironment(config, environment);
  const theirs = polybrainModel(environment);
  const messages = polybrainMessages(environment);
  if (messages !== undefined && /^$|polybrain/.test(config.origins["compaction.strategy"] ?? "")) {
    config.compaction = { ...DEFAULT_COMPACTION, ...config.compaction, strategy: "first-last", messages };
    config.origins["compaction.strategy"] = "POLYBRAIN_TRUNCATE_LIMIT";
  }
  if (theirs) config.models = [theirs, ...config.models.filter(({ id }) => id !== theirs.id)];
  applyFlags(config, flags, environment);
  speakmcp?.applyIterations(config, config.speakmcp);
  if (config.leftOut) settleLeftOut(config, first, environment.ROTUNDA_MODEL);
  const systemPrompt = readOptional(join(workspace, "system-prompt.txt"))?.trim();
  if (systemPrompt) config.systemPrompt = systemPrompt;
  config.untrusted = untrusted;
  config.warnings.push(
    ...untrusted.map((item) => `${item.file}: ${item.what} is left out until you trust it: rotunda trust`),
  );
  config.secrets = secretsOf(config, used, { ...envFile.variables, ...environment });
  return config;
}

function emptyConfig(environment: NodeJS.ProcessEnv): LoadedConfig {
  return {
    models: [],
    servers: [],
    profiles: {},
    defaultProfile: "general",
    permissions: { allow: [], ask: [], deny: [], mode: "ask" },
    hooks: {},
    sandbox: { level: "auto", network: "auto" },
    server: { ...DEFAULT_SERVER },
    mcp: { oldNames: false },
    disabledTools: [],
    toolOutputLimit: 8_000,
    advice: true,
    warnings: [],
    secrets: [],
    origins: {},
    untrusted: [],
    environment,
    files: [],
    speakmcp: {},
  };
}

/** Adds a weaker file's parts to what is there. */
function merge(config: LoadedConfig, parts: FileParts, accept: <T>(part: Part<T>) => T | undefined): void {
  const from = parts.file.path;
  config.files.push(from);
  const first = (key: string) => {
    if (key in config.origins) return false;
    config.origins[key] = from;
    return true;
  };
  for (const part of parts.models) {
    const model = accept(part);
    if (!model) continue;
    const isSecond = config.origins[`models.${model.id}`] === from;
    if (isSecond) config.warnings.push(`${from}: two models have the id ${model.id}; only the first one counts`);
    else if (first(`models.${model.id}`)) config.models.push(model);
  }
  for (const part of parts.agents) {
    const agent = accept(part);
    if (agent && first(`agents.${agent.id}`)) config.agents = [...(config.agents ?? []), agent];
  }
  for (const part of parts.servers) {
    const server = accept(part);
    if (server && first(`mcpServers.${server.name}`)) config.servers.push(server);
  }
  for (const part of parts.profiles) {
    const named = accept(part);
    if (named && first(`profiles.${named.name}`)) config.profiles[named.name] = named.profile;
  }
  for (const part of parts.hooks) {
    const known = accept(part);
    if (!known) continue;
    const point: HookPoint = known.point;
    config.hooks[point] = [...(config.hooks[point] ?? []), known.hook];
  }
  for (const part of parts.permissions) {
    const rules = accept(part);
    if (!rules) continue;
    for (const effect of ["allow", "ask", "deny"] as const) config.permissions[effect].push(...rules[effect]);
    if (rules.mode && first("permissions.mode")) config.permissions.mode = rules.mode;
  }
  for (const part of parts.sandbox) {
    const sandbox = accept(part);
    if (sandbox?.level && first("sandbox.level")) config.sandbox.level = sandbox.level;
    if (sandbox?.network && first("sandbox.network")) config.sandbox.network = sandbox.network;
  }
  for (const part of parts.profile) {
    const profile = accept(part);
    if (profile !== undefined && first("profile")) config.defaultProfile = profile;
  }
  for (const part of parts.server) {
    for (const [key, value] of Object.entries(accept(part) ?? {})) {
      if (value !== undefined && first(`server.${key}`)) Object.assign(config.server, { [key]: value });
    }
  }
  for (const part of parts.mcp) {
    for (const [key, value] of Object.entries(accept(part) ?? {})) {
      if (value !== undefined && first(`mcp.${key}`)) Object.assign(config.mcp, { [key]: value });
    }
  }
  // Weaker files come later, and the last word on a budget counts: so theirs stand first.
  for (const part of parts.budgets) config.budgets = [...(accept(part) ?? []), ...(config.budgets ?? [])];
  for (const part of parts.database) {
    const database = accept(part);
    if (database !== undefined && first("database")) config.database = database;
  }
  for (const part of parts.schedules) config.schedules = [...(config.schedules ?? []), ...(accept(part) ?? [])];
  for (const part of parts.keep) {
    const keep = accept(part);
    if (keep !== undefined && first("keep") && keep !== "forever") config.keep = keepOf(keep);
  }
  const { compaction = {}, toolOutputLimit, toolSearchAbove, advice } = parts.plain;
  const { maxRuns } = parts.plain;
  if (maxRuns !== undefined && first("maxRuns")) config.maxRuns = maxRuns;
  for (const [key, value] of Object.entries(compaction)) {
    if (first(`compaction.${key}`)) config.compaction = { ...DEFAULT_COMPACTION, ...config.compaction, [key]: value };
  }
  if (toolOutputLimit !== undefined && first("toolOutputLimit")) config.toolOutputLimit = toolOutputLimit;
  if (toolSearchAbove !== undefined && first("toolSearchAbove")) config.toolSearchAbove = toolSearchAbove;
  if (advice !== undefined && first("advice")) config.advice = advice;
}

/** What settings.json has beside the keys of a configuration file. */
function applySettings(config: LoadedConfig, { enabledServers = {}, speakmcp = {} }: SettingsFile, path: string): void {
  for (const server of config.servers) {
    const enabled = Object.hasOwn(enabledServers, server.name) ? enabledServers[server.name] : undefined;
    if (enabled === undefined) continue;
    server.disabled = !enabled;
    config.origins[`mcpServers.${server.name}.enabled`] = path;
  }
  config.speakmcp = speakmcp;
  for (const key of Object.keys(speakmcp)) config.origins[`speakmcp.${key}`] = path;
}

/** SpeakMCP's own variables stand in for the usual ones where those are not set (parity S4). */
function withSpeakmcpNames(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { SPEAKMCP_OPENAI_API_KEY: openai, SPEAKMCP_GROQ_API_KEY: groq, SPEAKMCP_GEMINI_API_KEY: gemini } = environment;
  const { SPEAKMCP_PORT: port, SPEAKMCP_BIND: host } = environment;
  const theirs = {
    OPENAI_API_KEY: openai,
    GROQ_API_KEY: groq,
    GEMINI_API_KEY: gemini,
    ROTUNDA_PORT: port,
    ROTUNDA_HOST: host,
  };
  const meant = Object.entries(theirs).filter(([name, value]) => value && !environment[name]);
  return meant.length === 0 ? environment : { ...environment, ...Object.fromEntries(meant) };
}

function applyEnvironment(config: LoadedConfig, environment: NodeJS.ProcessEnv): void {
  const mode = environment.ROTUNDA_MODE;
  if (mode) {
    if (mode !== "ask" && mode !== "accept-edits" && mode !== "plan" && mode !== "auto") {
      throw new RotundaError("config_invalid", `ROTUNDA_MODE is ${mode}; it can be ask, accept-edits, plan or auto`);
    }
    config.permissions.mode = mode;
    config.origins["permissions.mode"] = "ROTUNDA_MODE";
  }
  if (environment.ROTUNDA_PROFILE) {
    config.defaultProfile = environment.ROTUNDA_PROFILE;
    config.origins.profile = "ROTUNDA_PROFILE";
  }
  if (environment.ROTUNDA_DATABASE) {
    config.database = environment.ROTUNDA_DATABASE;
    config.origins.database = "ROTUNDA_DATABASE";
  }
  const { ROTUNDA_HOST: host, ROTUNDA_PORT: port } = environment;
  if (host) {
    config.server.host = host;
    config.origins["server.host"] = "ROTUNDA_HOST";
  }
  if (port) {
    if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
      throw new RotundaError("config_invalid", `ROTUNDA_PORT is ${port}; it can be a number from 0 to 65535`);
    }
    config.server.port = Number(port);
    config.origins["server.port"] = "ROTUNDA_PORT";
  }
  const wished = config.models.findIndex((model) => model.id === environment.ROTUNDA_MODEL);
  if (wished > 0) config.models.unshift(...config.models.splice(wished, 1));
}

/** `--api-base-url` and `--api-key` make a model of their own, or change the configured one that `--model` names. */
function applyFlags(
  config: LoadedConfig,
  flags: NonNullable<LoadOptions["flags"]>,
  environment: NodeJS.ProcessEnv,
): void {
  const { apiKey, apiBaseUrl, model, database } = flags;
  if (database !== undefined) {
    config.database = database;
    config.origins.database = "flags";
  }
  if (apiKey === undefined && apiBaseUrl === undefined) return;
  const known = config.models.find((one) => one.id === model);
  const key = apiKey ?? known?.apiKey ?? environment.OPENAI_API_KEY;
  const made: ModelConfig = {
    id: model ?? environment.OPENAI_MODEL ?? "gpt-4-turbo",
    model: model ?? environment.OPENAI_MODEL ?? "gpt-4-turbo",
    origin: "config",
    ...known,
    baseUrl:
      apiBaseUrl ??
      known?.baseUrl ??
      environment.OPENAI_BASE_URL ??
      environment.OPENAI_API_BASE_URL ??
      "https://api.openai.com/v1",
    ...(key !== undefined && { apiKey: key }),
  };
  config.models = [made, ...config.models.filter((one) => one !== known)];
  config.origins[`models.${made.id}`] = "flags";
}

function readOptional(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/** Wherever a secret may stand: keys, headers, addresses, arguments, and variables whose names say so. */
function secretsOf(config: LoadedConfig, used: ReadonlyMap<string, string>, environment: NodeJS.ProcessEnv): string[] {
  const secrets: string[] = [];
  const addHeaders = (headers: Record<string, string> = {}) => {
    secrets.push(...Object.values(headers).map(withoutScheme));
  };
  const addNamed = (values: Iterable<[string, string | undefined]>) => {
    for (const [name, value = ""] of values)
      secrets.push(...(isSecretName(name) ? [value] : []), ...secretsInUrl(value));
  };
  for (const model of config.models) {
    secrets.push(model.apiKey ?? "", ...secretsInUrl(model.baseUrl));
    addHeaders(model.headers);
    addNamed(Object.entries(model.query ?? {}));
  }
  for (const server of config.servers) {
    secrets.push(...secretsInUrl(server.url ?? ""), ...secretsInArguments(server.args ?? []));
    addHeaders(server.headers);
    const { clientSecret = "", privateKey = "" } = server.oauth || {};
    secrets.push(clientSecret, privateKey);
    addNamed(Object.entries(server.env ?? {}));
  }
  for (const { args = [], env = {} } of config.agents ?? []) {
    secrets.push(...secretsInArguments(args));
    addNamed(Object.entries(env));
  }
  secrets.push(...secretsInUrl(config.database ?? ""));
  for (const { url, secret } of config.server.webhooks) secrets.push(secret, ...secretsInUrl(url));
  addNamed(Object.entries(config.speakmcp).map(([key, value]) => [key, typeof value === "string" ? value : ""]));
  addNamed(used);
  addNamed(Object.entries(environment));
  return [...new Set(secrets.filter((value) => value.length >= 6))];
}
