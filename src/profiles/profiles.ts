/**
 * Profiles: the built-in ones and those of the configuration.
 *
 * Invariant: a configured profile that extends a read-only one is read-only, whatever else it says, and keeps
 * the rules of the one that it extends.
 */
import { readFile } from "node:fs/promises";
import type { ProfileConfig } from "../types/config.ts";
import { RotundaError } from "../types/error.ts";
import type { Profile } from "../types/profile.ts";
import { instructionsFile } from "../util/instructions-file.ts";
import { builtinProfiles } from "./builtin.ts";

export interface ProfilesOptions {
  configured: Record<string, ProfileConfig>;
  defaultProfile: string;
  /** Replaces the general profile's instructions. */
  systemPrompt?: string;
  /** False: tools' advice stays out of every prompt. */
  advice: boolean;
  /** False: no profile calls tools beside each other. */
  parallel?: boolean;
}

export interface Profiles {
  /** Throws `profile_not_found`. Without a name: the default. */
  get(name?: string): Promise<Profile>;
  list(): { name: string; description: string }[];
}

export function createProfiles(options: ProfilesOptions): Profiles {
  const known = new Map<string, Promise<Profile>>();
  const names = () => [...new Set([...builtinProfiles.map(({ name }) => name), ...Object.keys(options.configured)])];

  async function make(name: string, above: readonly string[]): Promise<Profile> {
    const config = Object.hasOwn(options.configured, name) ? options.configured[name] : undefined;
    const builtin = builtinProfiles.find((profile) => profile.name === name);
    if (!config && !builtin) {
      const text = `there is no profile ${name.slice(0, 100)}; there are: ${names().join(", ")}`;
      throw new RotundaError("profile_not_found", text);
    }
    if (above.includes(name)) {
      throw new RotundaError(
        "config_invalid",
        `profiles extend each other in a circle: ${[...above, name].join(" → ")}`,
      );
    }
    const base = builtin ?? (await make(config?.extends ?? "general", [...above, name]));
    const profile: Profile = config ? await merge(name, base, config) : { ...base };
    if (name === "general" && options.systemPrompt !== undefined && config?.instructions === undefined) {
      profile.instructions = options.systemPrompt;
      delete profile.generic;
    }
    if (!options.advice) profile.advice = false;
    if (options.parallel === false) profile.parallel = false;
    return profile;
  }

  return {
    get(name = options.defaultProfile) {
      let profile = known.get(name);
      if (!profile) {
        profile = make(name, []);
        // Clients may ask for any name: what there is not must not be kept.
        if (names().includes(name)) known.set(name, profile);
      }
      return profile;
    },
    list: () =>
      names().map((name) => ({
        name,
        description:
          options.configured[name]?.description ??
          builtinProfiles.find((profile) => profile.name === name)?.description ??
          "",
      })),
  };
}

async function merge(name: string, base: Profile, config: ProfileConfig): Promise<Profile> {
  const { maxTurns, limits, instructions, readOnly, permissions, onApproval, extends: _extends, ...rest } = config;
  const merged: Profile = {
    ...base,
    ...rest,
    name,
    limits: { ...base.limits, ...(maxTurns !== undefined && { turns: maxTurns }), ...limits },
    readOnly: base.readOnly || readOnly === true,
  };
  if (onApproval === "auto") delete merged.onApproval;
  else if (onApproval !== undefined) merged.onApproval = onApproval;
  if (instructions !== undefined) {
    merged.instructions = await instructionsText(name, instructions);
    delete merged.generic;
  }
  if (permissions) {
    const { allow = [], ask = [], deny = [] } = base.permissions ?? {};
    merged.permissions = {
      allow: [...allow, ...(permissions.allow ?? [])],
      ask: [...ask, ...(permissions.ask ?? [])],
      deny: [...deny, ...(permissions.deny ?? [])],
    };
  }
  return merged;
}

/** Text, or the path of a file (made absolute when the configuration was read). */
async function instructionsText(profile: string, text: string): Promise<string> {
  if (!instructionsFile.test(text)) return text;
  try {
    return (await readFile(text, "utf8")).trim();
  } catch (error) {
    throw new RotundaError("config_invalid", `the instructions of profile ${profile} cannot be read from ${text}`, {
      cause: error,
    });
  }
}
