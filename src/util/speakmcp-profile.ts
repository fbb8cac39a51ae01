/**
 * SpeakMCP's words for what a profile may use ↔ ours.
 *
 * Invariant: what one direction writes, the other reads back to the same.
 */
import type { ProfileConfig } from "../types/config.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { Profile } from "../types/profile.ts";
import type { ProfileChange } from "../types/settings.ts";
import { literal } from "./path-pattern.ts";

const modelKeys = { openai: "mcpToolsOpenaiModel", groq: "mcpToolsGroqModel", gemini: "mcpToolsGeminiModel" } as const;

/** What configuration accepts as a profile's name, and a person would still recognise. */
export function profileId(name: string): string {
  const plain = name
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .replace(/[^A-Za-z0-9_-]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .toLowerCase();
  return plain === "" || plain === "__proto__" ? "profile" : plain.slice(0, 60);
}

/** The profile's keys after `mcpServerConfig` and `modelConfig` of a change. */
export function withSpeakmcpConfig(before: ProfileConfig, change: ProfileChange): ProfileConfig {
  const config: ProfileConfig = { ...before };
  const { mcpServerConfig: servers, modelConfig: model } = change;
  if (servers === null) delete config.servers;
  if (servers) applyServers(config, servers);
  if (model === null) delete config.model;
  const chosen = model && modelOf(model);
  if (chosen) config.model = chosen;
  return config;
}

function applyServers(config: ProfileConfig, wish: JsonObject): void {
  const { allServersDisabledByDefault, enabledServers, disabledServers, disabledTools } = wish;
  const off = texts(disabledServers).map((name) => `!${literal(name)}`);
  if (allServersDisabledByDefault === true) config.servers = texts(enabledServers).map(literal);
  else if (off.length > 0) config.servers = off;
  else if (allServersDisabledByDefault === false || disabledServers !== undefined) delete config.servers;
  if (disabledTools === undefined) return;
  const kept = (config.tools ?? []).filter((glob) => !glob.startsWith("!"));
  const tools = [...kept, ...texts(disabledTools).map((name) => `!${literal(name)}`)];
  if (tools.length > 0) config.tools = tools;
  else delete config.tools;
}

function modelOf(wish: JsonObject): string | undefined {
  for (const [provider, key] of Object.entries(modelKeys)) {
    const chosen = wish.mcpToolsProviderId === undefined || wish.mcpToolsProviderId === provider;
    const model = wish[key];
    if (chosen && typeof model === "string" && model !== "") return `${provider}/${model}`;
  }
  return undefined;
}

/** A profile in SpeakMCP's words; what cannot be said in them is left out. */
export function speakmcpConfigOf(profile: Profile): { mcpServerConfig?: JsonObject; modelConfig?: JsonObject } {
  const serverConfig: JsonObject = {};
  const { servers, tools = [], model = "" } = profile;
  if (servers) {
    const off = servers.filter((glob) => glob.startsWith("!")).map(plain);
    const on = servers.filter((glob) => !glob.startsWith("!"));
    if (on.length > 0 || off.length === 0) {
      serverConfig.allServersDisabledByDefault = true;
      serverConfig.enabledServers = on.map(plain);
    } else serverConfig.disabledServers = off;
  }
  const disabledTools = tools.filter((glob) => glob.startsWith("!")).map(plain);
  if (disabledTools.length > 0) serverConfig.disabledTools = disabledTools;
  const [, provider = "", name = ""] = /^(openai|groq|gemini)\/(.+)$/.exec(model) ?? [];
  const key = Object.hasOwn(modelKeys, provider) ? modelKeys[provider as keyof typeof modelKeys] : undefined;
  return {
    ...(Object.keys(serverConfig).length > 0 && { mcpServerConfig: serverConfig }),
    ...(key !== undefined && { modelConfig: { mcpToolsProviderId: provider, [key]: name } }),
  };
}

/** `!a\*b` → `a*b`. */
function plain(glob: string): string {
  return glob.replace(/^!/, "").replace(/\\([*?\\])/g, "$1");
}

function texts(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}
