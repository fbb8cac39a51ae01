/** Fingerprint: whether two processes would run a response under the same configuration, keys included. */
import { hash } from "node:crypto";
import type { Config } from "../types/config.ts";
import { canonicalJson } from "./canonical.ts";

/** SHA-256 (hexadecimal) over all of it that a run depends on. It tells nothing about what it was made of. */
export function configFingerprint(config: Config): string {
  const { models, servers, profiles, defaultProfile, permissions, hooks, sandbox, toolOutputLimit, advice } = config;
  const { agents, toolSearchAbove, disabledTools, parallel, database } = config;
  const known = { models, servers, profiles, defaultProfile, permissions, hooks, sandbox, toolOutputLimit, advice };
  const parts = { ...known, agents, toolSearchAbove, disabledTools, parallel, database };
  return hash("sha256", canonicalJson(JSON.parse(JSON.stringify([parts, config.systemPrompt ?? null]))));
}

/** Tells two databases apart and names none: the address may hold a password. Undefined: the built-in one. */
export function databaseFingerprint(address: string | undefined): string {
  return hash("sha256", address ?? "").slice(0, 16);
}
