/**
 * Managed profiles: made, changed and removed through doors, in SpeakMCP's terms (parity S13–S15, S31, S56).
 *
 * Invariant: only what was made through a door is changed or removed through one: the built-in profiles and those of
 * configuration files are not. Whatever is changed lasts (settings.json) and is in force when the promise resolves.
 */
import type { Config, ProfileConfig, ServerConfig } from "../types/config.ts";
import { RotundaError } from "../types/error.ts";
import type { Json, JsonObject } from "../types/json.ts";
import type { Profile } from "../types/profile.ts";
import type {
  ManagedProfile,
  ManagedProfiles,
  ManagedSettings,
  ProfileChange,
  ProfileExport,
  SettingsFile,
} from "../types/settings.ts";
import { adminToolNames } from "../types/tool.ts";
import { maskSecrets } from "../util/mask.ts";
import { profileId, speakmcpConfigOf, withSpeakmcpConfig } from "../util/speakmcp-profile.ts";
import { matchesList, matchesName } from "../util/text.ts";
import { builtinProfiles } from "./builtin.ts";

export interface ManagedProfilesOptions {
  settings: Pick<ManagedSettings, "read" | "change">;
  /** In force now. */
  profile(name?: string): Promise<Profile>;
  list(): { name: string; description: string }[];
  config(): Config;
  /** Milliseconds since the epoch. */
  now(): number;
}

const MAXIMUM_NAME = 200;
const MAXIMUM_TEXT = 200_000;

export function createManagedProfiles(options: ManagedProfilesOptions): ManagedProfiles {
  return new Manager(options);
}

class Manager implements ManagedProfiles {
  readonly #options: ManagedProfilesOptions;

  constructor(options: ManagedProfilesOptions) {
    this.#options = options;
  }

  async list(): Promise<ManagedProfile[]> {
    const settings = this.#options.settings.read();
    return Promise.all(this.#options.list().map(({ name }) => this.#describe(name, settings)));
  }

  async get(idOrName: string): Promise<ManagedProfile> {
    const settings = this.#options.settings.read();
    return this.#describe(this.#idOf(idOrName, settings), settings);
  }

  current(): Promise<ManagedProfile> {
    return this.get(this.#currentId());
  }

  /** The default of the HTTP doors, where they have their own. */
  #currentId(): string {
    const { server, defaultProfile } = this.#options.config();
    return server.profile ?? defaultProfile;
  }

  async switch(idOrName: string): Promise<ManagedProfile> {
    const { settings, config } = this.#options;
    const id = this.#idOf(idOrName, settings.read());
    const before = config();
    if (before.defaultProfile !== id || before.server.profile !== undefined) {
      await settings.change((draft) => {
        draft.profile = id;
        if (before.server.profile !== undefined) draft.server = { ...draft.server, profile: id };
      });
    }
    if (this.#currentId() !== id) {
      throw new RotundaError("usage", `the environment says that ${this.#currentId()} is the profile`, {
        remedy: "Take ROTUNDA_PROFILE out of the environment.",
      });
    }
    return this.get(id);
  }

  async create(change: ProfileChange & { name: string }): Promise<ManagedProfile> {
    const name = checkedName(change.name);
    const id = this.#freeId(name);
    const now = this.#options.now();
    // Like SpeakMCP's: no MCP server until it is said which.
    const config = merged({ servers: [] }, change);
    await this.#options.settings.change((draft) => {
      draft.profiles = { ...draft.profiles, [id]: config };
      draft.profileDetails = { ...draft.profileDetails, [id]: { name, createdAt: now, updatedAt: now } };
    });
    return this.get(id);
  }

  async update(idOrName: string, change: ProfileChange): Promise<ManagedProfile> {
    const id = this.#changeable(idOrName, "update");
    const name = change.name === undefined ? undefined : checkedName(change.name);
    const now = this.#options.now();
    await this.#options.settings.change((draft) => {
      draft.profiles = { ...draft.profiles, [id]: merged(draft.profiles?.[id] ?? {}, change) };
      const known = draft.profileDetails?.[id] ?? { name: id, createdAt: now };
      const details = { ...known, ...(name !== undefined && { name }), updatedAt: now };
      draft.profileDetails = { ...draft.profileDetails, [id]: details };
    });
    return this.get(id);
  }

  async remove(idOrName: string): Promise<void> {
    const id = this.#changeable(idOrName, "delete");
    await this.#options.settings.change((draft) => {
      draft.profiles = without(draft.profiles, id);
      draft.profileDetails = without(draft.profileDetails, id);
      if (draft.profile === id) delete draft.profile;
      if (draft.server?.profile === id) {
        const { profile: _profile, ...rest } = draft.server;
        draft.server = rest;
      }
    });
  }

  async export(idOrName: string): Promise<{ profile: ProfileExport }> {
    const described = await this.get(idOrName);
    const profile = await this.#options.profile(described.id);
    const { profiles, servers } = this.#options.config();
    const own = Object.hasOwn(profiles, described.id) ? profiles[described.id] : undefined;
    const { mcpServerConfig, modelConfig } = speakmcpConfigOf(profile);
    const used = servers.filter(({ name }) => !profile.servers || matchesList(profile.servers, [name]));
    return {
      profile: {
        version: 1,
        name: described.name,
        guidelines: described.guidelines,
        ...(described.systemPrompt !== "" && { systemPrompt: described.systemPrompt }),
        ...(mcpServerConfig && { mcpServerConfig }),
        ...(modelConfig && { modelConfig }),
        ...(used.length > 0 && { mcpServers: Object.fromEntries(used.map((one) => [one.name, bare(one)])) }),
        ...(own && { rotunda: { ...own, instructions: described.systemPrompt } as JsonObject }),
      },
    };
  }

  async import(
    value: Json,
    { admin }: { admin: boolean },
  ): Promise<{ profile: ManagedProfile; skippedServers: string[] }> {
    const profile = checkedImport(value);
    const known = new Set(this.#options.config().servers.map((server) => server.name));
    const brought = Object.entries(profile.mcpServers ?? {}).filter(([name]) => !known.has(name));
    const { rotunda } = profile;
    const made = await this.create({
      name: profile.name,
      guidelines: profile.guidelines,
      ...(profile.systemPrompt !== undefined && { systemPrompt: profile.systemPrompt }),
      ...(profile.mcpServerConfig && { mcpServerConfig: profile.mcpServerConfig }),
      ...(profile.modelConfig && { modelConfig: profile.modelConfig }),
      ...(rotunda && { config: admin ? (rotunda as ProfileConfig) : harmless(rotunda as ProfileConfig) }),
    });
    const skippedServers = admin ? [] : brought.map(([name]) => name);
    if (admin && brought.length > 0) {
      await this.#options.settings.change((draft) => {
        const added = brought.map(([name, server]) => [name, { ...server, disabled: true }]);
        draft.mcpServers = { ...draft.mcpServers, ...(Object.fromEntries(added) as Record<string, JsonObject>) };
      });
    }
    return { profile: made, skippedServers };
  }

  // ---- names

  #idOf(idOrName: string, settings: SettingsFile): string {
    const ids = this.#options.list().map(({ name }) => name);
    if (ids.includes(idOrName)) return idOrName;
    const wanted = idOrName.trim().toLowerCase();
    const named = ids.filter((id) => (settings.profileDetails?.[id]?.name ?? id).toLowerCase() === wanted);
    const [id] = named;
    if (id === undefined || named.length > 1) {
      const why = named.length > 1 ? "several profiles are" : "no profile is";
      throw new RotundaError("profile_not_found", `${why} called ${idOrName.slice(0, MAXIMUM_NAME)}`);
    }
    return id;
  }

  #changeable(idOrName: string, verb: "update" | "delete"): string {
    const settings = this.#options.settings.read();
    const id = this.#idOf(idOrName, settings);
    if (isBuiltin(id)) throw new RotundaError("usage", `Cannot ${verb} default profiles`);
    if (!Object.hasOwn(settings.profiles ?? {}, id)) {
      throw new RotundaError("usage", `profile ${id} stands in a configuration file: it is changed there`);
    }
    return id;
  }

  #freeId(name: string): string {
    const taken = new Set(this.#options.list().map((profile) => profile.name));
    const base = profileId(name);
    for (let number = 1; ; number++) {
      const id = number === 1 ? base : `${base}-${number}`;
      if (!taken.has(id)) return id;
    }
  }

  async #describe(id: string, settings: SettingsFile): Promise<ManagedProfile> {
    const profile = await this.#options.profile(id);
    const details = settings.profileDetails?.[id];
    return {
      id,
      name: details?.name ?? id,
      description: profile.description,
      isDefault: isBuiltin(id),
      managed: !isBuiltin(id) && Object.hasOwn(settings.profiles ?? {}, id),
      guidelines: profile.guidelines ?? "",
      systemPrompt: profile.instructions.trim(),
      createdAt: details?.createdAt ?? 0,
      updatedAt: details?.updatedAt ?? 0,
    };
  }
}

function isBuiltin(id: string): boolean {
  return builtinProfiles.some((profile) => profile.name === id);
}

function checkedName(name: unknown): string {
  const trimmed = typeof name === "string" ? name.trim() : "";
  if (trimmed === "" || trimmed.length > MAXIMUM_NAME) {
    throw new RotundaError("usage", "a profile needs a name of at most 200 characters");
  }
  return trimmed;
}

/** The profile's keys after a change; what goes back to its default is left out. */
function merged(before: ProfileConfig, change: ProfileChange): ProfileConfig {
  for (const text of [change.guidelines, change.systemPrompt]) {
    if ((text?.length ?? 0) > MAXIMUM_TEXT) {
      throw new RotundaError("usage", `a profile's text is longer than ${MAXIMUM_TEXT} characters`);
    }
  }
  const config: ProfileConfig = { ...withSpeakmcpConfig(before, change), ...change.config };
  const { guidelines, systemPrompt } = change;
  if (guidelines !== undefined) config.guidelines = guidelines;
  if (config.guidelines === "") delete config.guidelines;
  if (systemPrompt) config.instructions = systemPrompt;
  else if (systemPrompt !== undefined) delete config.instructions;
  if (config.instructions === "") delete config.instructions;
  return config;
}

/** What of a profile neither loosens a rule nor reaches for more than another profile could. */
function harmless(config: ProfileConfig): ProfileConfig {
  const { mode: _mode, permissions, adminTools: _admin, extends: _extends, limits: _limits, tools, ...rest } = config;
  const { ask = [], deny = [] } = permissions ?? {};
  const named = tools?.filter((glob) => !adminToolNames.some((name) => matchesName(glob, name)) || /^[*?!]/.test(glob));
  return { ...rest, ...(named && { tools: named }), ...(permissions && { permissions: { ask, deny } }) };
}

function without<T>(map: Record<string, T> | undefined, key: string): Record<string, T> {
  return Object.fromEntries(Object.entries(map ?? {}).filter(([name]) => name !== key));
}

/** A server without what is secret or of this machine only. */
function bare({ transport, command, args, url, timeout, disabled }: ServerConfig): JsonObject {
  return maskSecrets({
    transport: transport === "http" ? "streamableHttp" : "stdio",
    ...(command !== undefined && { command }),
    ...(args && { args: [...args] }),
    ...(url !== undefined && { url }),
    ...(timeout !== undefined && { timeout: timeout * 1_000 }),
    ...(disabled && { disabled }),
  });
}

function checkedImport(value: Json): ProfileExport {
  const wrong = (what: string) => new RotundaError("usage", `Invalid profile: ${what}`);
  if (!isObject(value)) throw wrong("it is not an object");
  if (value.version !== 1) throw wrong("its version is not 1");
  if (typeof value.name !== "string" || value.name.trim() === "") throw wrong("it has no name");
  for (const key of ["guidelines", "systemPrompt"]) {
    if (value[key] !== undefined && typeof value[key] !== "string") throw wrong(`${key} is not text`);
  }
  for (const key of ["mcpServerConfig", "modelConfig", "mcpServers", "rotunda"]) {
    if (value[key] !== undefined && !isObject(value[key])) throw wrong(`${key} is not an object`);
  }
  return { ...value, guidelines: value.guidelines ?? "" } as unknown as ProfileExport;
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
