/**
 * SpeakMCP's settings (parity S6, S18, S19): what each key does here, how it is shown, how it is changed.
 *
 * Invariant: every key of the table can be read and set; keys of which the table says that they do nothing are only
 * kept. No key of the environment is ever among what is kept, and a secret is only ever shown masked.
 */
import type { Config, ModelConfig } from "../types/config.ts";
import { RotundaError } from "../types/error.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { SettingsFile } from "../types/settings.ts";
import { mask } from "../util/secrets.ts";
import { convertServer, isObject } from "./import-servers.ts";

interface Key {
  /** As SpeakMCP had it. */
  usual: Json;
  accepts(value: Json): boolean;
}

const number = (minimum: number, maximum: number) => (value: Json) =>
  typeof value === "number" && Number.isFinite(value) && value >= minimum && value <= maximum;
const whole = (minimum: number, maximum: number) => (value: Json) =>
  Number.isInteger(value) && number(minimum, maximum)(value);
const text = (value: Json) => typeof value === "string" && value.length <= 4_096;
const names = (value: Json) => Array.isArray(value) && value.length <= 2_000 && value.every(text);
const flag = (value: Json) => typeof value === "boolean";

const providers = {
  openai: { variable: "OPENAI", baseUrl: "https://api.openai.com/v1", model: "gpt-5-mini", key: "Openai" },
  groq: { variable: "GROQ", baseUrl: "https://api.groq.com/openai/v1", model: "openai/gpt-oss-120b", key: "Groq" },
  gemini: {
    variable: "GEMINI",
    baseUrl: "https://generativelanguage.googleapis.com/v1beta/openai",
    model: "gemini-flash-latest",
    key: "Gemini",
  },
} as const;

type Provider = keyof typeof providers;

const isProvider = (value: unknown): value is Provider => typeof value === "string" && Object.hasOwn(providers, value);

const isAddress = (value: Json) =>
  value === "" || (typeof value === "string" && /^https?:/.test(value) && URL.canParse(value));

/** In the order in which they are shown. */
const keys: Record<string, Key> = {
  mcpToolsProviderId: { usual: "openai", accepts: isProvider },
  mcpToolsOpenaiModel: { usual: "", accepts: text },
  mcpToolsGroqModel: { usual: "", accepts: text },
  mcpToolsGeminiModel: { usual: "", accepts: text },
  openaiBaseUrl: { usual: "", accepts: isAddress },
  groqBaseUrl: { usual: "", accepts: isAddress },
  geminiBaseUrl: { usual: "", accepts: isAddress },
  openaiApiKey: { usual: "", accepts: text },
  groqApiKey: { usual: "", accepts: text },
  geminiApiKey: { usual: "", accepts: text },
  mcpMaxIterations: { usual: 10, accepts: whole(1, 100) },
  mcpRequireApprovalBeforeToolCall: { usual: false, accepts: flag },
  mcpParallelToolExecution: { usual: true, accepts: flag },
  mcpRuntimeDisabledServers: { usual: [], accepts: names },
  mcpDisabledTools: { usual: [], accepts: names },
  apiRetryCount: { usual: 3, accepts: whole(0, 20) },
  // These are kept, and do nothing.
  apiRetryBaseDelay: { usual: 1_000, accepts: number(0, 3_600_000) },
  apiRetryMaxDelay: { usual: 30_000, accepts: number(0, 3_600_000) },
  mcpContextReductionEnabled: { usual: true, accepts: flag },
  mcpContextTargetRatio: { usual: 0.7, accepts: number(0, 1) },
  mcpContextLastNMessages: { usual: 3, accepts: whole(0, 1_000) },
  mcpContextSummarizeCharThreshold: { usual: 2_000, accepts: whole(0, 10_000_000) },
};

const isSecret = (key: string) => key.endsWith("ApiKey");

/** Puts the kept keys in force. Weaker than the environment, stronger than every file. */
export function applySpeakmcp(
  config: Config & { origins: Record<string, string> },
  kept: JsonObject,
  environment: NodeJS.ProcessEnv,
  origin: string,
): void {
  const model = modelOf(kept, environment);
  if (model) {
    config.models = [model, ...config.models.filter((one) => one.id !== model.id)];
    config.origins[`models.${model.id}`] = origin;
  }
  for (const named of modelsOfProfiles(config, kept, environment)) config.models.push(named);
  if (kept.mcpRequireApprovalBeforeToolCall === true) config.permissions.ask.push("*");
  if (kept.mcpParallelToolExecution === false) config.parallel = false;
  if (names(kept.mcpDisabledTools ?? null)) config.disabledTools = kept.mcpDisabledTools as string[];
  const { apiRetryCount: retries } = kept;
  if (typeof retries === "number") for (const one of config.models) one.retries ??= retries;
}

/** `mcpMaxIterations`: once it is known which profile is the default one. */
export function applyIterations(config: Config, kept: JsonObject): void {
  const { mcpMaxIterations: turns } = kept;
  if (typeof turns !== "number") return;
  const known = Object.hasOwn(config.profiles, config.defaultProfile) ? config.profiles[config.defaultProfile] : {};
  config.profiles[config.defaultProfile] = { ...known, limits: { ...known?.limits, turns } };
}

/** The default model that the keys mean: of a provider that was chosen, or has a model or a key, and can be reached. */
function modelOf(kept: JsonObject, environment: NodeJS.ProcessEnv): ModelConfig | undefined {
  const said = (provider: Provider) =>
    [`mcpTools${providers[provider].key}Model`, `${provider}ApiKey`, `${provider}BaseUrl`].some((key) =>
      filled(kept[key]),
    );
  const chosen = isProvider(kept.mcpToolsProviderId)
    ? kept.mcpToolsProviderId
    : (Object.keys(providers) as Provider[]).find(said);
  if (chosen === undefined) return undefined;
  const { apiKey, baseUrl, model } = endpointOf(chosen, kept, environment);
  // Without a key and at the provider's own address nothing would ever answer.
  if (apiKey === undefined && baseUrl === providers[chosen].baseUrl) return undefined;
  return { id: `${chosen}/${model}`, baseUrl, model, origin: "config", ...(apiKey !== undefined && { apiKey }) };
}

/** Profiles may name other models of a provider whose key is kept here: the registry knows only those of variables. */
function modelsOfProfiles(config: Config, kept: JsonObject, environment: NodeJS.ProcessEnv): ModelConfig[] {
  const wanted = new Set(Object.values(config.profiles).map((profile) => profile.model ?? ""));
  return [...wanted].flatMap((id): ModelConfig[] => {
    const [, provider, model = ""] = /^([a-z]+)\/(.+)$/.exec(id) ?? [];
    if (!isProvider(provider) || !filled(kept[`${provider}ApiKey`])) return [];
    if (config.models.some((one) => one.id === id)) return [];
    const { apiKey, baseUrl } = endpointOf(provider, kept, environment);
    return [{ id, baseUrl, model, origin: "config", ...(apiKey !== undefined && { apiKey }) }];
  });
}

function endpointOf(provider: Provider, kept: JsonObject, environment: NodeJS.ProcessEnv) {
  const { variable, baseUrl: usual, model, key } = providers[provider];
  const variables = provider === "gemini" ? [`${variable}_API_KEY`, "GOOGLE_API_KEY"] : [`${variable}_API_KEY`];
  const addresses = provider === "openai" ? [`${variable}_BASE_URL`, "OPENAI_API_BASE_URL"] : [`${variable}_BASE_URL`];
  const first = (candidates: (string | undefined)[]) => candidates.map((one) => one?.trim()).find(filled);
  return {
    apiKey: first([...variables.map((name) => environment[name]), kept[`${provider}ApiKey`] as string | undefined]),
    baseUrl: inOurDialect(
      first([...addresses.map((name) => environment[name]), kept[`${provider}BaseUrl`] as string | undefined]) ?? usual,
    ),
    model: first([environment[`${variable}_MODEL`], kept[`mcpTools${key}Model`] as string | undefined]) ?? model,
  };
}

/** SpeakMCP spoke Google's own dialect, at the root of the same host. */
function inOurDialect(baseUrl: string): string {
  const trimmed = baseUrl.replace(/\/+$/, "");
  return /^https:\/\/generativelanguage\.googleapis\.com(?:\/v1(?:beta)?)?$/.test(trimmed)
    ? providers.gemini.baseUrl
    : trimmed;
}

function filled(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "";
}

/** Every key with its value in force. */
export function speakmcpView(
  config: Config,
  kept: JsonObject,
  environment: NodeJS.ProcessEnv,
  turns: number,
): JsonObject {
  const view: JsonObject = {};
  for (const [key, { usual }] of Object.entries(keys)) view[key] = kept[key] ?? usual;
  for (const provider of Object.keys(providers) as Provider[]) {
    const { apiKey, baseUrl, model } = endpointOf(provider, kept, environment);
    view[`mcpTools${providers[provider].key}Model`] = model;
    view[`${provider}BaseUrl`] = baseUrl;
    view[`${provider}ApiKey`] = apiKey === undefined ? "" : mask(apiKey);
  }
  view.mcpMaxIterations = turns;
  view.mcpRequireApprovalBeforeToolCall = config.permissions.ask.includes("*");
  view.mcpRuntimeDisabledServers = config.servers.filter((server) => server.disabled).map((server) => server.name);
  view.mcpDisabledTools = [...config.disabledTools];
  return view;
}

/** Takes what can be taken of `values` into the file; the names of what was taken. Throws `usage` where that is nothing. */
export function patchSpeakmcp(settings: SettingsFile, values: JsonObject): string[] {
  const updated: string[] = [];
  const kept: JsonObject = { ...settings.speakmcp };
  for (const [key, value] of Object.entries(values)) {
    const known = Object.hasOwn(keys, key) ? keys[key] : undefined;
    // What was read masked and sent back is no new secret.
    if (value === undefined || !known?.accepts(value) || (isSecret(key) && /^\*{4}/.test(String(value)))) continue;
    if (key === "mcpRuntimeDisabledServers") disableServers(settings, value as string[]);
    else kept[key] = value;
    updated.push(key);
  }
  if (isObject(values.mcpConfig) && addServers(settings, values.mcpConfig)) updated.push("mcpConfig");
  if (updated.length === 0) throw new RotundaError("usage", "No valid settings to update");
  settings.speakmcp = kept;
  return updated;
}

/** These and no others are turned off by a door. */
function disableServers(settings: SettingsFile, disabled: readonly string[]): void {
  const states = Object.entries(settings.enabledServers ?? {}).filter(([, enabled]) => enabled);
  settings.enabledServers = Object.fromEntries([
    ...states,
    ...disabled.map((name): [string, boolean] => [name, false]),
  ]);
}

function addServers(settings: SettingsFile, mcpConfig: JsonObject): boolean {
  const { mcpServers } = mcpConfig;
  if (!isObject(mcpServers)) return false;
  for (const [name, entry] of Object.entries(mcpServers)) {
    const converted = convertServer(entry, true);
    if ("why" in converted) throw new RotundaError("usage", `MCP server ${name}: ${converted.why}`);
    const known = settings.mcpServers?.[name] ?? {};
    settings.mcpServers = { ...settings.mcpServers, [name]: withSecretsOf(known, converted.server) };
  }
  return true;
}

/** A masked variable or header means the one that is there. */
function withSecretsOf(known: JsonObject, server: JsonObject): JsonObject {
  const whole = { ...server };
  for (const key of ["env", "headers"]) {
    const [before, now] = [known[key], server[key]];
    if (!isObject(now)) continue;
    const entries = Object.entries(now).map(([name, value]) => {
      const masked = typeof value === "string" && /^\*{4}/.test(value);
      return [name, masked && isObject(before) ? before[name] : value];
    });
    whole[key] = Object.fromEntries(entries) as JsonObject;
  }
  return whole;
}
