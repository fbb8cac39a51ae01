/**
 * Polybrain's configuration: `.polybrain.yaml` and its variables, read where they are (parity P11 to P13).
 *
 * Invariant: the three variables of a model win over the file, as they did; what is wrong is said in Polybrain's words,
 * and with the file.
 */
import type { ModelConfig } from "../types/config.ts";
import { RotundaError } from "../types/error.ts";
import type { Json, JsonObject } from "../types/json.ts";
import { isJsonObject } from "../types/json.ts";

const PROVIDERS = ["openai", "openrouter"];

/** In the shape of rotunda.yaml. */
export function fromPolybrain(raw: JsonObject, path: string): JsonObject {
  const wrong = (what: string) => new RotundaError("config_invalid", `${path}: ${what}`);
  const given = Array.isArray(raw.models) ? raw.models : [];
  const models = given.map((model): JsonObject => {
    const fields = isJsonObject(model) ? model : {};
    for (const field of ["id", "modelName", "baseUrl"]) {
      if (typeof fields[field] !== "string" || fields[field] === "") throw wrong(`Model must have '${field}' field`);
    }
    const { id, modelName, baseUrl, apiKey, provider } = fields;
    if (provider !== undefined && !PROVIDERS.includes(String(provider))) {
      throw wrong(`Invalid provider '${String(provider)}'. Must be 'openai' or 'openrouter'`);
    }
    const kept = {
      id,
      model: modelName,
      baseUrl,
      provider: provider ?? "openai",
      ...(apiKey !== undefined && { apiKey }),
    };
    return Object.fromEntries(Object.entries(kept).map(([key, value]) => [key, braced(value)]));
  });
  const { truncateLimit: messages } = raw;
  return {
    models,
    ...(raw.httpPort !== undefined && { server: { port: raw.httpPort } }),
    ...(messages !== undefined && { compaction: { strategy: "first-last", messages } }),
  };
}

/** Only `${VAR}` was a variable; a dollar sign alone was one. */
function braced(value: Json | undefined): Json | undefined {
  return typeof value === "string" ? value.replaceAll(/\$(?!\{)/g, "$$$$") : value;
}

/** `POLYBRAIN_HTTP_PORT` stands in for our own variable. */
export function withPolybrainNames(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { POLYBRAIN_HTTP_PORT: port, ROTUNDA_PORT: own } = environment;
  return port && !own ? { ...environment, ROTUNDA_PORT: port } : environment;
}

/** `POLYBRAIN_TRUNCATE_LIMIT`: it won over the file. Throws `config_invalid`. */
export function polybrainMessages({ POLYBRAIN_TRUNCATE_LIMIT: limit }: NodeJS.ProcessEnv): number | undefined {
  if (!limit) return undefined;
  if (!/^\d{1,9}$/.test(limit) || Number(limit) < 2) {
    throw new RotundaError("config_invalid", `POLYBRAIN_TRUNCATE_LIMIT is ${limit}; it can be a number from 2 up`);
  }
  return Number(limit);
}

/** The one model that the variables name, if all three are set: it is the default. */
export function polybrainModel(environment: NodeJS.ProcessEnv): ModelConfig | undefined {
  const { POLYBRAIN_BASE_URL: baseUrl, POLYBRAIN_API_KEY: apiKey, POLYBRAIN_MODEL_NAME: model } = environment;
  if (!baseUrl || !apiKey || !model) return undefined;
  return { id: model, model, baseUrl, apiKey, provider: "openai", origin: "environment" };
}
