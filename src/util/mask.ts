/**
 * Masking: a value as a person may see it, with every secret in it hidden.
 *
 * Invariant: at any depth, nothing under a name that means a secret, no variable, header or parameter, and no
 * password in an address or argument is left readable. References such as `${TOKEN}` are names and stay.
 */
import type { Json, JsonObject } from "../types/json.ts";
import { isSecretName, mask, secretsInArguments, secretsInUrl } from "./secrets.ts";

/** Maps all of whose values may be secret, whatever their names. */
const SECRET_MAPS = new Set(["env", "headers", "query", "oauth"]);

export function maskSecrets(value: JsonObject): JsonObject;
export function maskSecrets(value: Json): Json;
export function maskSecrets(value: Json): Json {
  return maskValue(value, false);
}

function maskValue(value: Json | undefined, secret: boolean): Json {
  if (typeof value === "string") return secret ? maskText(value) : maskWithin(value);
  if (Array.isArray(value)) return secret ? value.map((entry) => maskValue(entry, true)) : maskList(value);
  if (typeof value !== "object" || value === null)
    return secret && typeof value === "number" ? "****" : (value ?? null);
  const masked: JsonObject = {};
  for (const [key, entry] of Object.entries(value)) {
    masked[key] = maskValue(entry, secret || SECRET_MAPS.has(key) || isSecretName(snake(key)));
  }
  return masked;
}

/** `openaiApiKey` → `openai_Api_Key`, which the names of variables look like. */
function snake(key: string): string {
  return key.replace(/([a-z0-9])([A-Z])/g, "$1_$2");
}

function maskText(text: string): string {
  return text === "" || /^(?:\$\{\w+\}|\$\w+)$/.test(text) ? text : mask(text);
}

/** An address as people may see it: nothing of its password, whatever characters are in that, and all the rest. */
export function withoutPassword(address: string): string {
  return secretsInUrl(address).reduce((rest, secret) => rest.replaceAll(secret, "***"), address);
}

function maskWithin(text: string): string {
  return secretsInUrl(text).reduce((rest, secret) => rest.replaceAll(secret, mask(secret)), text);
}

function maskList(values: Json[]): Json[] {
  const texts = values.map((entry) => (typeof entry === "string" ? entry : ""));
  const secrets = secretsInArguments(texts).filter((secret) => secret !== "");
  return values.map((entry) => {
    if (typeof entry !== "string") return maskValue(entry, false);
    return secrets.reduce((rest, secret) => rest.replaceAll(secret, mask(secret)), entry);
  });
}
