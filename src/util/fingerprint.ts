/** Fingerprint: whether two processes would run a response under the same configuration, keys included. */
import { hash } from "node:crypto";
import type { Config } from "../types/config.ts";
import { canonicalJson } from "./canonical.ts";

/** SHA-256 (hexadecimal) over all of it that a run depends on. It tells nothing about what it was made of. */
export function configFingerprint(config: Config): string {
  const { warnings: _warnings, server: _server, secrets: _secrets, ...rest } = config;
  const { models, servers, profiles, defaultProfile, permissions, hooks, sandbox, toolOutputLimit, advice } = rest;
  const parts = { models, servers, profiles, defaultProfile, permissions, hooks, sandbox, toolOutputLimit, advice };
  return hash("sha256", canonicalJson(JSON.parse(JSON.stringify([parts, config.systemPrompt ?? null]))));
}
