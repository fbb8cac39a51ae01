/**
 * Model endpoints that the environment names by the usual variables.
 *
 * Invariant: nothing is sent anywhere to find them; a key is used for its own endpoint only.
 */

/** An endpoint with a key, before a model is chosen. */
export interface EnvironmentEndpoint {
  /** First part of its models' ids: `openai/gpt-5-mini`. */
  name: string;
  baseUrl: string;
  apiKey: string | undefined;
  /** Named by a variable; null: the endpoint's list is asked, because its base URL is not the usual one. */
  model: string | null;
  /** What the provider is known to have. */
  usualModel: string;
  /** Bare names that are this provider's. */
  names: RegExp;
}

interface Provider {
  name: string;
  /** Beginning of its variables: `<prefix>_API_KEY`, `_BASE_URL`, `_MODEL`. */
  prefix: string;
  baseUrl: string;
  model: string;
  names: RegExp;
  /** Further names of the same variables. */
  otherKeys?: string[];
  otherBaseUrls?: string[];
}

/** In the order in which the default is chosen. */
const providers: readonly Provider[] = [
  {
    name: "openai",
    prefix: "OPENAI",
    baseUrl: "https://api.openai.com/v1",
    model: "gpt-5-mini",
    names: /^(?:gpt-|chatgpt-|o\d)/,
    otherBaseUrls: ["OPENAI_API_BASE_URL", "OPENAI_API_BASE"],
  },
  {
    name: "anthropic",
    prefix: "ANTHROPIC",
    baseUrl: "https://api.anthropic.com/v1",
    model: "claude-sonnet-4-5",
    names: /^claude/,
  },
  {
    name: "openrouter",
    prefix: "OPENROUTER",
    baseUrl: "https://openrouter.ai/api/v1",
    model: "openrouter/auto",
    names: /^[a-z0-9~.-]+\/./,
  },
  {
    name: "gemini",
    prefix: "GEMINI",
    baseUrl: "https://generativelanguage.googleapis.com/v1beta/openai",
    model: "gemini-flash-latest",
    names: /^(?:models\/)?gem(?:ini|ma)/,
    otherKeys: ["GOOGLE_API_KEY"],
  },
  {
    name: "fireworks",
    prefix: "FIREWORKS",
    baseUrl: "https://api.fireworks.ai/inference/v1",
    model: "accounts/fireworks/models/deepseek-v3p1",
    names: /^accounts\//,
  },
  {
    name: "groq",
    prefix: "GROQ",
    baseUrl: "https://api.groq.com/openai/v1",
    model: "openai/gpt-oss-120b",
    names: /^(?:llama-|groq\/)/,
  },
  {
    name: "deepseek",
    prefix: "DEEPSEEK",
    baseUrl: "https://api.deepseek.com/v1",
    model: "deepseek-chat",
    names: /^deepseek-/,
  },
  {
    name: "mistral",
    prefix: "MISTRAL",
    baseUrl: "https://api.mistral.ai/v1",
    model: "mistral-large-latest",
    names: /^(?:mi[sn]i?stral|codestral|magistral|devstral|pixtral)/,
  },
  { name: "xai", prefix: "XAI", baseUrl: "https://api.x.ai/v1", model: "grok-4", names: /^grok/ },
  {
    name: "together",
    prefix: "TOGETHER",
    baseUrl: "https://api.together.xyz/v1",
    model: "openai/gpt-oss-120b",
    names: /^$/,
  },
  { name: "cerebras", prefix: "CEREBRAS", baseUrl: "https://api.cerebras.ai/v1", model: "gpt-oss-120b", names: /^$/ },
];

/** The usual variables of keys, for messages. */
export const keyVariables: readonly string[] = providers.map(({ prefix }) => `${prefix}_API_KEY`);

/** The endpoints whose key (or, for a server without keys, base URL) is set, in order of preference. */
export function endpointsOf(environment: NodeJS.ProcessEnv): EnvironmentEndpoint[] {
  return providers.flatMap((provider) => {
    const { name, prefix, names } = provider;
    const apiKey = read(environment, [`${prefix}_API_KEY`, ...(provider.otherKeys ?? [])]);
    const baseUrl = read(environment, [`${prefix}_BASE_URL`, ...(provider.otherBaseUrls ?? [])]);
    // Only OpenAI's variables are used for servers that want no key.
    if (apiKey === undefined && !(prefix === "OPENAI" && baseUrl !== undefined)) return [];
    const elsewhere = baseUrl !== undefined && trimmed(baseUrl) !== provider.baseUrl;
    const model = read(environment, [`${prefix}_MODEL`]) ?? (elsewhere ? null : provider.model);
    const url = baseUrl === undefined ? provider.baseUrl : withVersion(trimmed(baseUrl), prefix);
    return [{ name, baseUrl: url, apiKey, model, usualModel: provider.model, names }];
  });
}

/** Anthropic's own SDKs take the base URL without its version. */
function withVersion(baseUrl: string, prefix: string): string {
  return prefix === "ANTHROPIC" && !/\/v\d/.test(baseUrl) ? `${baseUrl}/v1` : baseUrl;
}

function trimmed(baseUrl: string): string {
  return baseUrl.replace(/\/+$/, "");
}

function read(environment: NodeJS.ProcessEnv, names: string[]): string | undefined {
  for (const name of names) {
    const value = environment[name]?.trim();
    if (value) return value;
  }
  return undefined;
}
