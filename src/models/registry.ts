/**
 * The registry: which models there are, and which one a name means.
 *
 * Invariant: a name gives the same model object as long as the registry lives, so that what a model learned
 * about its endpoint holds for every call. Nothing is loaded or asked before a model is wanted.
 */
import type { AgentConfig, LeftOutEntry, ModelConfig } from "../types/config.ts";
import { RotundaError } from "../types/error.ts";
import type { Model, ModelInfo } from "../types/model.ts";
import { INSTANCE_HEADER } from "../util/instance.ts";
import { knownAgents } from "../util/known-agents.ts";
import type { Redact } from "../util/secrets.ts";
import type { AgentLaunch } from "./agent-process.ts";
import { type EnvironmentEndpoint, endpointsOf, keyVariables } from "./environment.ts";
import { HttpClient } from "./http.ts";
import type { FoundServer, LocalServer } from "./local-servers.ts";
import type { RetryTimes } from "./retry.ts";
import { Windows } from "./windows.ts";

export interface ModelRegistryOptions {
  /** The first one is the default. */
  configs: readonly ModelConfig[];
  /** Those that the configuration has and that do not count, to say why. */
  leftOut?: readonly LeftOutEntry[];
  /** Where keys and proxies are named. */
  environment: NodeJS.ProcessEnv;
  /** Look for model servers on this machine where nothing else is named. */
  probeLocal: boolean;
  redact?: Redact;
  /** What this Rotunda is called: sent with every request, so that its server knows its own. */
  instance?: string;
  /** Key of this Rotunda's own server: an endpoint with it is no model. */
  ownKey?: string | undefined;
  /** Default: the usual ports of Ollama, LM Studio, llama.cpp and vLLM. */
  localServers?: readonly LocalServer[];
  times?: RetryTimes;
  /** File that keeps what endpoints say of their models' windows. Default: none. */
  windowsFile?: string;
  /** Other programs' agents. Default: none. */
  agents?: { configs: readonly AgentConfig[]; launch: AgentLaunch };
}

export interface ModelRegistry {
  /**
   * The model that a name means: a configured id or model name, `provider/model`, a model name of an endpoint
   * that the environment has a key for, the id of an agent, `demo`. No name: the default. Rejects with `model_not_found`.
   */
  get(id?: string): Promise<Model>;
  /** `ask`: what comes of asking each endpoint stands in `answer`. */
  list(options?: { ask?: boolean }): Promise<ModelInfo[]>;
  /** Adds a library's model; the first one added is the default. An id that is taken is replaced. */
  register(model: Model): void;
  /** Closes all connections. */
  close(): Promise<void>;
}

/** Milliseconds for which what was found on this machine is taken to be there still. */
const LOCAL_MEMORY = 30_000;
const LIST_TIME = 3_000;

export function createModelRegistry(options: ModelRegistryOptions): ModelRegistry {
  return new Registry(options);
}

class Registry implements ModelRegistry {
  readonly #options: ModelRegistryOptions;
  readonly #http: HttpClient;
  readonly #endpoints: EnvironmentEndpoint[];
  readonly #registered = new Map<string, Model>();
  readonly #models = new Map<string, Promise<Model>>();
  readonly #windows: Windows;
  readonly #defaults = new Map<EnvironmentEndpoint, Promise<string>>();
  #demoModel: Promise<Model> | null = null;
  #local: { at: number; found: Promise<FoundServer[]> } | null = null;

  constructor(options: ModelRegistryOptions) {
    this.#options = options;
    const { environment, instance, ownKey } = options;
    this.#http = new HttpClient({ environment, headers: instance === undefined ? [] : [INSTANCE_HEADER, instance] });
    this.#windows = new Windows(options.windowsFile);
    this.#endpoints = endpointsOf(environment).filter(({ apiKey }) => apiKey === undefined || apiKey !== ownKey);
  }

  register(model: Model): void {
    this.#registered.set(model.id, model);
  }

  async close(): Promise<void> {
    await this.#http.close();
  }

  async get(id?: string): Promise<Model> {
    const isNamed = id !== undefined && id !== "";
    const wanted = isNamed ? id : await this.#defaultId();
    const registered = this.#registered.get(wanted);
    if (registered) return registered;
    const left = this.#leftOut(isNamed ? wanted : undefined);
    if (left) {
      const { kind, name, why, remedy } = left;
      throw new RotundaError("model_not_found", `the ${kind} ${name} is left out: ${why}`, { remedy: `${remedy}.` });
    }
    if (wanted === "demo" && !this.#options.configs.some((config) => config.id === "demo")) return this.#demo();
    const agent = this.#options.configs.some(({ id: known }) => known === wanted)
      ? undefined
      : await this.#agent(wanted);
    if (agent) return agent;
    const config = await this.#configFor(wanted);
    if (!config) throw await this.#notFound(wanted);
    return this.#build(config, new Set());
  }

  /** The entry of that name; without one, the entry that would be the default. */
  #leftOut(name?: string): LeftOutEntry | undefined {
    const entries = this.#options.leftOut?.filter(({ kind }) => kind !== "server") ?? [];
    return entries.find((one) => (name === undefined ? one.isDefault : one.name === name));
  }

  async #agent(id: string): Promise<Model | undefined> {
    const { agents, environment } = this.#options;
    // Most names are no agent's: then nothing of agents is loaded.
    if (!agents || ![...agents.configs, ...knownAgents].some((one) => one.id === id)) return undefined;
    const { createAgentModel, findAgent } = await import("./agent-registry.ts");
    const options = { ...agents, environment };
    const config = findAgent(id, options);
    if (!config) return undefined;
    const key = `agent ${id}`;
    const model = this.#models.get(key) ?? createAgentModel(config, options);
    this.#models.set(key, model);
    return model;
  }

  async list({ ask = false }: { ask?: boolean } = {}): Promise<ModelInfo[]> {
    const first = this.#registered.size === 0 && this.#leftOut() ? undefined : await this.#defaultId();
    const infos: ModelInfo[] = [];
    const add = (id: string, model: string, baseUrl: string | null, origin: ModelInfo["origin"]) =>
      infos.push({ id, model, baseUrl, origin, default: id === first });
    for (const model of this.#registered.values()) add(model.id, model.id, null, "library");
    for (const { id, model, baseUrl, origin } of this.#options.configs) add(id, model, baseUrl, origin);
    for (const endpoint of this.#endpoints) {
      const model = await this.#defaultModel(endpoint);
      add(`${endpoint.name}/${model}`, model, endpoint.baseUrl, "environment");
    }
    for (const server of await this.#localFound())
      for (const model of server.models) add(`${server.name}/${model}`, model, server.baseUrl, "local");
    for (const { id, command } of await this.#agents()) {
      if (!infos.some((info) => info.id === id)) add(id, command, null, "agent");
    }
    if (!infos.some(({ id }) => id === "demo")) add("demo", "demo", null, "demo");
    if (ask) await this.#ask(infos.filter(({ origin }) => /^(?:config|environment|local)$/.test(origin)));
    return infos;
  }

  async #ask(infos: readonly ModelInfo[]): Promise<void> {
    const { askEndpoints } = await import("./ask-endpoints.ts");
    const asked = await Promise.all(infos.map(async (info) => ({ info, config: await this.#configFor(info.id) })));
    await askEndpoints(
      this.#http,
      asked.flatMap(({ info, config }) => (config ? [{ info, config }] : [])),
    );
  }

  async #agents(): Promise<AgentConfig[]> {
    const { agents, environment } = this.#options;
    if (!agents) return [];
    const { listAgents } = await import("./agent-registry.ts");
    return listAgents({ ...agents, environment });
  }

  /** Flags and configuration first, then the environment, then this machine, then the demo. */
  async #defaultId(): Promise<string> {
    const [library] = this.#registered.keys();
    const chosen = library ?? this.#options.configs[0]?.id;
    if (chosen !== undefined) return chosen;
    const endpoint = this.#endpoints[0];
    if (endpoint) return `${endpoint.name}/${await this.#defaultModel(endpoint)}`;
    const server = (await this.#localFound())[0];
    return server ? `${server.name}/${server.models[0]}` : "demo";
  }

  #defaultModel(endpoint: EnvironmentEndpoint): Promise<string> {
    if (endpoint.model !== null) return Promise.resolve(endpoint.model);
    let model = this.#defaults.get(endpoint);
    if (!model) {
      model = this.#askForModel(endpoint);
      this.#defaults.set(endpoint, model);
    }
    return model;
  }

  async #askForModel(endpoint: EnvironmentEndpoint): Promise<string> {
    const { listModels } = await import("./local-servers.ts");
    try {
      const [first] = await listModels(this.#http, endpoint.baseUrl, endpoint.apiKey, LIST_TIME);
      if (first !== undefined) return first;
    } catch {
      // It may come up later; until then the usual name stands, and a call says what is wrong.
      this.#defaults.delete(endpoint);
    }
    return endpoint.usualModel;
  }

  #localFound(): Promise<FoundServer[]> {
    if (!this.#options.probeLocal) return Promise.resolve([]);
    const now = Date.now();
    if (this.#local === null || now - this.#local.at > LOCAL_MEMORY) this.#local = { at: now, found: this.#probe() };
    return this.#local.found;
  }

  async #probe(): Promise<FoundServer[]> {
    const { findLocalServers, localServers } = await import("./local-servers.ts");
    return findLocalServers(this.#http, this.#options.localServers ?? localServers(this.#options.environment));
  }

  async #configFor(wanted: string): Promise<ModelConfig | undefined> {
    const { configs } = this.#options;
    const byId = configs.find((config) => config.id === wanted);
    if (byId) return byId;
    const byModel = configs.filter((config) => config.model === wanted);
    if (byModel.length === 1) return byModel[0];
    return (
      this.#fromEnvironment(wanted, "prefixed") ??
      (await this.#fromLocal(wanted)) ??
      this.#fromEnvironment(wanted, "bare")
    );
  }

  #fromEnvironment(wanted: string, form: "prefixed" | "bare"): ModelConfig | undefined {
    const slash = wanted.indexOf("/");
    const prefix = slash < 0 ? "" : wanted.slice(0, slash);
    if (form === "prefixed") {
      const named = this.#endpoints.find((endpoint) => endpoint.name === prefix);
      if (!named) return undefined;
      // OpenRouter's own models are called `openrouter/…` at the endpoint too.
      const whole = wanted === named.usualModel || wanted === named.model;
      return environmentConfig(wanted, named, whole ? wanted : wanted.slice(slash + 1));
    }
    const known = this.#endpoints.find((endpoint) => endpoint.model === wanted || endpoint.names.test(wanted));
    // With configured models beside it, a name that nobody knows is rather a mistake.
    const endpoint = known ?? (this.#options.configs.length === 0 && slash < 0 ? this.#endpoints[0] : undefined);
    return endpoint && environmentConfig(wanted, endpoint, wanted);
  }

  async #fromLocal(wanted: string): Promise<ModelConfig | undefined> {
    for (const { name, baseUrl, models } of await this.#localFound())
      for (const model of models)
        if (wanted === `${name}/${model}` || wanted === model) return { id: wanted, baseUrl, model, origin: "local" };
    return undefined;
  }

  #build(config: ModelConfig, above: Set<string>): Promise<Model> {
    let model = this.#models.get(config.id);
    if (!model) {
      model = this.#make(config, above);
      this.#models.set(config.id, model);
      model.catch(() => this.#models.delete(config.id));
    }
    return model;
  }

  async #make(config: ModelConfig, above: Set<string>): Promise<Model> {
    const { createChatCompletionsModel } = await import("./chat-completions.ts");
    const { redact, times } = this.#options;
    const first = createChatCompletionsModel(config, {
      http: this.#http,
      windows: this.#windows,
      ...(redact === undefined ? {} : { redact }),
      ...(times === undefined ? {} : { times }),
    });
    if (config.fallback === undefined || this.#leftOut(config.fallback)) return first;
    const path = new Set([...above, config.id]);
    if (path.has(config.fallback))
      throw new RotundaError(
        "config_invalid",
        `the fallbacks of model "${config.id}" lead back to "${config.fallback}"`,
        {
          remedy: "Take one of the fallback lines out of the configuration.",
        },
      );
    const other = this.#registered.get(config.fallback);
    const next = other ? undefined : await this.#configFor(config.fallback);
    if (!other && !next && config.fallback !== "demo") {
      throw await this.#notFound(config.fallback, `, which stands in for "${config.id}" (its fallback)`);
    }
    const { withFallback } = await import("./fallback.ts");
    // Built anew, not taken from memory: two builds that wait for each other would wait for ever.
    return withFallback(first, [other ?? (next ? await this.#make(next, path) : await this.#demo())]);
  }

  #demo(): Promise<Model> {
    this.#demoModel ??= import("./demo.ts").then(({ createDemoModel }) => createDemoModel());
    return this.#demoModel;
  }

  /** `role`: why it was wanted, if it was not asked for. */
  async #notFound(wanted: string, role = ""): Promise<RotundaError> {
    const known = (await this.list()).map(({ id }) => id);
    const agent = knownAgents.find(({ id }) => id === wanted);
    const why = agent ? `the program of "${wanted}" was not found` : `there is no model "${wanted}"`;
    return new RotundaError("model_not_found", `${why}${role}; there are: ${known.join(", ")}`, {
      remedy: agent
        ? `Install it, or say in agents.${wanted}.command where it is${wanted === "claude-code" ? " (or CLAUDE_CLI_NAME)" : ""}.`
        : this.#endpoints.length === 0
          ? `Configure it (rotunda init), or set a key such as ${keyVariables.slice(0, 3).join(", ")}.`
          : `Use one of these, or provider/model with one of: ${this.#endpoints.map(({ name }) => name).join(", ")}.`,
    });
  }
}

function environmentConfig(id: string, { baseUrl, apiKey, name }: EnvironmentEndpoint, model: string): ModelConfig {
  return {
    id,
    baseUrl,
    model,
    origin: "environment",
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(name === "openrouter" ? { provider: "openrouter" } : {}),
  };
}
