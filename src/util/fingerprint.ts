/** Fingerprint: whether two processes would run a response under the same configuration, keys included. */
import { hash } from "node:crypto";
import type { Config } from "../types/config.ts";
import { canonicalJson } from "./canonical.ts";

/** SHA-256 (hexadecimal) over all of it that a run depends on. It tells nothing about what it was made of. */
export function configFingerprint(config: Config): string {
  const { models, servers, profiles, defaultProfile, permissions, hooks, sandbox, toolOutputLimit, advice } = config;
  const { agents, toolSearchAbove, disabledTools, parallel } = config;
  const known = { models, servers, profiles, defaultProfile, permissions, hooks, sandbox, toolOutputLimit, advice };
  const parts = { ...known, agents, toolSearchAbove, disabledTools, parallel };
  return hash("sha256", canonicalJson(JSON.parse(JSON.stringify([parts, config.systemPrompt ?? null]))));
}
