/**
 * Settings: what was changed through doors while the server runs, kept in `settings.json` of the state directory.
 *
 * Invariant: the strongest of the files: defaults < configuration files < settings.json < environment < flags. What
 * came from the environment is never written into it.
 */
import type { ProfileConfig } from "./config.ts";
import type { Json, JsonObject } from "./json.ts";

/** The file's content: rotunda.yaml's own keys (in its shape, before expansion), and the four below. */
export interface SettingsFile {
  models?: JsonObject[];
  mcpServers?: Record<string, JsonObject>;
  profiles?: Record<string, ProfileConfig>;
  /** The default profile. */
  profile?: string;
  server?: JsonObject;
  permissions?: JsonObject;
  /** By name, of whatever file a server is: true, it is used; false, it is not. */
  enabledServers?: Record<string, boolean>;
  /** What SpeakMCP shows of a profile and a `ProfileConfig` has no place for, by id. */
  profileDetails?: Record<string, ProfileDetails>;
  /** SpeakMCP's settings under SpeakMCP's names, as they were set. */
  speakmcp?: JsonObject;
  /** Keys that this version does not know are kept. */
  [key: string]: unknown;
}

export interface ProfileDetails {
  /** As people see it; the id is what configuration and commands call it. */
  name: string;
  /** Milliseconds since the epoch. */
  createdAt: number;
  updatedAt: number;
}

export interface ManagedSettings {
  /** Absolute path of the file, whether it exists or not. */
  readonly path: string;
  /** A copy of what is in the file now. Throws `config_invalid` where it is damaged. */
  read(): SettingsFile;
  /**
   * Changes the file and puts the change in force, as one; changes wait for each other. Where the new settings cannot
   * be put in force, the file is as before and the error is thrown.
   */
  change(mutate: (settings: SettingsFile) => void): Promise<void>;
  /** The file's content with every secret as `****` and at most its last four characters. */
  masked(): JsonObject;
  /** SpeakMCP's view (parity S18): every key with the value in force, secrets masked. */
  speakmcp(): Promise<JsonObject>;
  /**
   * Sets SpeakMCP's keys (parity S19); resolves with the names of those that were taken. Unknown keys, values of a
   * wrong kind and masked secrets are passed over. Throws `usage` where nothing remains.
   */
  patchSpeakmcp(values: JsonObject): Promise<string[]>;
}

/** Keys of `patchSpeakmcp` that say where something is sent or what is started: a remote door needs `admin` for them. */
export const steeringSettings: readonly string[] = ["openaiBaseUrl", "groqBaseUrl", "geminiBaseUrl", "mcpConfig"];

/** A profile as SpeakMCP shows it (parity S13, S14). */
export interface ManagedProfile {
  /** What configuration, commands and `RunRequest.profile` call it. */
  id: string;
  name: string;
  description: string;
  /** Built in: it cannot be changed or removed. */
  isDefault: boolean;
  /** It was made through a door, so it can be changed and removed there. Others stand in configuration files. */
  managed: boolean;
  guidelines: string;
  systemPrompt: string;
  /** Milliseconds since the epoch; 0 where nobody knows. */
  createdAt: number;
  updatedAt: number;
}

/** What can be said of a profile. Undefined: as it is; null: taken back. */
export interface ProfileChange {
  name?: string;
  guidelines?: string;
  systemPrompt?: string | null;
  /** SpeakMCP's `{disabledServers, enabledServers, disabledTools, allServersDisabledByDefault}`. */
  mcpServerConfig?: JsonObject | null;
  /** SpeakMCP's `{mcpToolsProviderId, mcpToolsOpenaiModel, …}`. */
  modelConfig?: JsonObject | null;
  /** Our own keys, which win over the above. They can loosen rules: a remote door needs `admin` for them. */
  config?: ProfileConfig;
}

/** SpeakMCP's export (parity S31), with our own keys under `rotunda`. Variables, headers and sign-ins are left out. */
export interface ProfileExport {
  version: 1;
  name: string;
  guidelines: string;
  systemPrompt?: string;
  mcpServerConfig?: JsonObject;
  modelConfig?: JsonObject;
  mcpServers?: Record<string, JsonObject>;
  rotunda?: JsonObject;
}

export interface ManagedProfiles {
  list(): Promise<ManagedProfile[]>;
  /** By id, or by name. Throws `profile_not_found`. */
  get(idOrName: string): Promise<ManagedProfile>;
  /** The default profile. */
  current(): Promise<ManagedProfile>;
  /** Makes it the default profile. Throws `profile_not_found`; `usage` where the environment says another. */
  switch(idOrName: string): Promise<ManagedProfile>;
  /** Unless `change` says otherwise it may use no MCP server (parity S56). */
  create(change: ProfileChange & { name: string }): Promise<ManagedProfile>;
  /** Throws `usage`: "Cannot update default profiles", or that it stands in a file. */
  update(id: string, change: ProfileChange): Promise<ManagedProfile>;
  /** Throws `usage`: "Cannot delete default profiles", or that it stands in a file. */
  remove(id: string): Promise<void>;
  export(id: string): Promise<{ profile: ProfileExport }>;
  /**
   * A new profile. Only with `admin` are servers that it brings along and that are not known added (disabled), and do
   * its rules, mode and admin tools count: that decides what may be done on this machine. Throws `usage`.
   */
  import(profile: Json, options: { admin: boolean }): Promise<{ profile: ManagedProfile; skippedServers: string[] }>;
}
