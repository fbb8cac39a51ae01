/**
 * SpeakMCP's `config.json` and `profiles.json` (parity S4–S6, S31) → settings of ours.
 *
 * Invariant: what is not taken over is named; no value of a secret is ever part of a note; a key that the environment
 * holds too is not copied out of the file, into which SpeakMCP had copied it from there.
 */
import type { ImportPlan } from "../types/app.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { ProfileChange, SettingsFile } from "../types/settings.ts";
import { isSecretName } from "../util/secrets.ts";
import { profileId, withSpeakmcpConfig } from "../util/speakmcp-profile.ts";
import { convertServer, escapeReferences, isObject } from "./import-servers.ts";
import { patchSpeakmcp } from "./speakmcp.ts";

type Notes = ImportPlan["notes"];

/** Keys that are kept, and mean nothing here. */
const IDLE = /^(?:apiRetry(?:Base|Max)Delay|mcpContext\w+)$/;

export function isSpeakmcpConfig(value: JsonObject): boolean {
  return (
    isObject(value.mcpConfig) ||
    Object.keys(value).some((key) => /^(?:mcpTools[A-Z]|remoteServer[A-Z]|mcpMaxIter)/.test(key))
  );
}

export function isSpeakmcpProfiles(value: JsonObject): boolean {
  return Array.isArray(value.profiles) && value.profiles.every((one) => isObject(one) && "name" in one);
}

export function takeConfig(
  config: JsonObject,
  settings: SettingsFile,
  notes: Notes,
  environment: NodeJS.ProcessEnv,
): void {
  const inEnvironment = new Set(Object.values(environment).filter((value) => value !== undefined && value.length >= 8));
  for (const [key, value] of Object.entries(config)) {
    if (value === undefined || value === null || value === "") continue;
    if (isSecretName(key) && typeof value === "string" && inEnvironment.has(value)) {
      notes.push({ taken: false, text: `${key}: the environment has it already, so it is not written into a file` });
    } else if (key === "mcpConfig") takeServers(value, settings, notes);
    else if (key === "modelPresets") takePresets(value, settings, notes);
    else if (key.startsWith("remoteServer")) takeDoor(key, value, settings, notes);
    else takeKey(key, value, settings, notes);
  }
}

function takeKey(key: string, value: Json, settings: SettingsFile, notes: Notes): void {
  try {
    patchSpeakmcp(settings, { [key]: value });
    notes.push({ taken: true, text: IDLE.test(key) ? `${key}: kept, but it does nothing here` : key });
  } catch {
    notes.push({ taken: false, text: `${key}: nothing here corresponds to it, or its value is of another kind` });
  }
}

function takeServers(mcpConfig: Json, settings: SettingsFile, notes: Notes): void {
  const servers = isObject(mcpConfig) && isObject(mcpConfig.mcpServers) ? mcpConfig.mcpServers : {};
  for (const [name, entry] of Object.entries(servers)) {
    const converted = convertServer(entry, true);
    if ("why" in converted) {
      notes.push({ taken: false, text: `MCP server ${name}: ${converted.why}` });
      continue;
    }
    // SpeakMCP expanded no variables: a dollar sign is one.
    settings.mcpServers = { ...settings.mcpServers, [name]: escapeReferences(converted.server) as JsonObject };
    notes.push({ taken: true, text: `MCP server ${name}` });
    for (const lost of converted.lost) notes.push({ taken: false, text: `MCP server ${name}: ${lost}` });
  }
}

function takePresets(presets: Json, settings: SettingsFile, notes: Notes): void {
  for (const preset of Array.isArray(presets) ? presets.filter(isObject) : []) {
    const { name, baseUrl, apiKey, mcpToolsModel: model } = preset;
    if (typeof name !== "string" || typeof baseUrl !== "string" || typeof model !== "string" || model === "") {
      notes.push({ taken: false, text: `model preset ${String(name ?? preset.id)}: it has no address or no model` });
      continue;
    }
    const key = typeof apiKey === "string" && apiKey !== "" ? { apiKey } : {};
    const entry = escapeReferences({ id: profileId(name), baseUrl, model, ...key }) as JsonObject;
    settings.models = [...(settings.models ?? []), entry];
    notes.push({ taken: true, text: `model preset ${name}: model ${profileId(name)}` });
  }
}

function takeDoor(key: string, value: Json, settings: SettingsFile, notes: Notes): void {
  const server: JsonObject = {};
  const origins = Array.isArray(value)
    ? value.filter((one) => typeof one === "string" && /^https?:\/\/[^/*]+$/.test(one))
    : [];
  if (key === "remoteServerPort" && Number.isInteger(value)) server.port = value;
  else if (key === "remoteServerBindAddress" && typeof value === "string") server.host = value;
  else if (key === "remoteServerCorsOrigins" && origins.length > 0) server.cors = origins;
  else {
    const why =
      key === "remoteServerApiKey"
        ? "make a token instead: rotunda token add NAME --events speakmcp"
        : "nothing here corresponds to it";
    notes.push({ taken: false, text: `${key}: ${why}` });
    return;
  }
  settings.server = { ...settings.server, ...server };
  notes.push({ taken: true, text: key });
  if (key === "remoteServerCorsOrigins" && Array.isArray(value) && origins.length < value.length) {
    notes.push({ taken: false, text: `${key}: origins with a wildcard; name them one by one` });
  }
}

export function takeProfiles(file: JsonObject, settings: SettingsFile, notes: Notes): void {
  const ids = new Map<string, string>();
  for (const profile of Array.isArray(file.profiles) ? file.profiles.filter(isObject) : []) {
    const { name, guidelines, systemPrompt } = profile;
    if (typeof name !== "string") continue;
    if (profile.isDefault === true && !guidelines && !systemPrompt) {
      ids.set(String(profile.id), "general");
      continue;
    }
    const id = freeId(profileId(name), settings);
    ids.set(String(profile.id), id);
    const change: ProfileChange = {
      ...(isObject(profile.mcpServerConfig) && { mcpServerConfig: profile.mcpServerConfig }),
      ...(isObject(profile.modelConfig) && { modelConfig: profile.modelConfig }),
    };
    const config = withSpeakmcpConfig({}, change);
    if (typeof guidelines === "string" && guidelines !== "") config.guidelines = guidelines;
    if (typeof systemPrompt === "string" && systemPrompt !== "") config.instructions = systemPrompt;
    settings.profiles = { ...settings.profiles, [id]: config };
    const [createdAt, updatedAt] = [profile.createdAt, profile.updatedAt].map((at) =>
      typeof at === "number" ? at : 0,
    );
    settings.profileDetails = {
      ...settings.profileDetails,
      [id]: { name, createdAt: createdAt ?? 0, updatedAt: updatedAt ?? 0 },
    };
    notes.push({ taken: true, text: `profile ${name}${id === name ? "" : `: called ${id}`}` });
    if (isObject(profile.skillsConfig)) {
      notes.push({ taken: false, text: `profile ${name}: its skills; put SKILL.md files into ~/.agents/skills` });
    }
  }
  const current = ids.get(String(file.currentProfileId));
  if (current === undefined) return;
  settings.profile = current;
  notes.push({ taken: true, text: `the current profile: ${current}` });
}

/** The built-in names are taken; two of one name are told apart by a number. */
function freeId(base: string, settings: SettingsFile): string {
  const taken = new Set(["general", "explore", "plan", "execute", ...Object.keys(settings.profiles ?? {})]);
  for (let number = 1; ; number++) {
    const id = number === 1 ? base : `${base}-${number}`;
    if (!taken.has(id)) return id;
  }
}
