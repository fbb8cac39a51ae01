/**
 * The composition root: Config → App. The only file, with main.ts, that knows every part.
 *
 * Invariant: a part that a command does not need is not even imported. What depends on the configuration is held in
 * one object (`InForce`) and read at the moment of use: `reload` replaces that object, and whoever has begun with the
 * old parts ends with them.
 */
import { join } from "node:path";
import { type Database, openDatabase } from "./app-database.ts";
import { openSandbox } from "./app-sandbox.ts";
import { openTracer, withTrace } from "./app-telemetry.ts";
import { ownTools } from "./app-tools.ts";
import { home, stateDirectory, userConfigDirectory } from "./config/paths.ts";
import { createManagedSettings } from "./config/settings.ts";
import { createEngine } from "./engine/engine.ts";
import type { EngineParts } from "./engine/parts.ts";
import type { Hub, Launch } from "./hub/hub-types.ts";
import type { ModelRegistry } from "./models/registry.ts";
import { lazyManagedProfiles } from "./profiles/lazy-managed.ts";
import { createProfiles, type Profiles } from "./profiles/profiles.ts";
import { projectInstructions } from "./profiles/project.ts";
import { findSkills, type Skill, skillsSection } from "./profiles/skills.ts";
import { createLocalRunner } from "./runners/local.ts";
import type { SqliteOptions } from "./store/sqlite.ts";
import { createTools } from "./tools/sources.ts";
import type { App, HubView } from "./types/app.ts";
import type { Config } from "./types/config.ts";
import type { Elicitation } from "./types/elicitation.ts";
import type { Engine } from "./types/engine.ts";
import { RotundaError } from "./types/error.ts";
import type { Notice, Notify } from "./types/event.ts";
import type { Model } from "./types/model.ts";
import type { Runner } from "./types/runner.ts";
import type { ManagedProfiles, ManagedSettings } from "./types/settings.ts";
import type { Tracer } from "./types/telemetry.ts";
import type { Tool, ToolSource } from "./types/tool.ts";
import { ownServer } from "./util/instance.ts";
import { listening } from "./util/listening.ts";
import { type Once, once, onceFor } from "./util/once.ts";
import type { ContainRequest, Sandbox } from "./util/sandbox.ts";
import { createRedactor, type Redact } from "./util/secrets.ts";

/** A configuration, and the variables that it was loaded with. */
export type Loaded = Config & { environment: NodeJS.ProcessEnv };

export interface AppOptions {
  config: Config;
  workspace: string;
  environment: NodeJS.ProcessEnv;
  /** Loads the configuration anew, for `reload`. Default: what is in force is put in force again. */
  load?: () => Promise<Loaded>;
  /** Default: from the environment. */
  stateDirectory?: string;
  notify?: Notify;
  /** Further tools, beside the built-in ones. */
  tools?: readonly Tool[];
  /** Further models; the first one is the default. */
  models?: readonly Model[];
  store?: SqliteOptions;
  /** Responses are left to workers, where the database has a queue for that. */
  queued?: boolean;
  /** Milliseconds since the epoch. */
  now?: () => number;
  /** Milliseconds that a person has to answer a question of an MCP server. Default: five minutes. */
  elicitationPatience?: number;
}

/** Responses that one process runs at once. */
const MOST_RUNS = 1_000;

/** What follows from one configuration. */
interface InForce {
  config: Config;
  environment: NodeJS.ProcessEnv;
  profiles: Profiles;
  redact: Redact;
  /** Of this configuration and of all before it: what they named is still in running calls. */
  secrets: readonly string[];
  registry: Once<ModelRegistry>;
  /** Two configurations with the same models share their registry. */
  modelsKey: string;
  skills: Once<Skill[]>;
  projectInstructions: (folder: string) => Promise<string>;
  sandbox: Once<Sandbox>;
  /** Built-in tools, admin tools, the library's. */
  tools: Once<readonly Tool[]>;
}

export async function createApp(options: AppOptions): Promise<App> {
  const builder = new Builder(options);
  builder.tracer = await openTracer(options.environment, builder.redact);
  const database = await openDatabase({
    address: options.config.database,
    stateDirectory: builder.state,
    sqlite: options.store,
    queued: options.queued === true,
    log: builder.log,
  });
  return builder.build(database);
}

class Builder {
  readonly state: string;
  tracer: Tracer | undefined;
  readonly #options: AppOptions;
  readonly #listeners: Set<Notify>;
  readonly #askListeners = new Set<(elicitation: Elicitation) => void>();
  readonly #registries = new Set<Once<ModelRegistry>>();
  #now: InForce;
  #hub: Promise<Hub> | undefined;
  #madeHub: Hub | undefined;
  #reloading: Promise<void> = Promise.resolve();
  #app: App | undefined;

  constructor(options: AppOptions) {
    this.#options = options;
    this.state = options.stateDirectory ?? stateDirectory(options.environment);
    this.#listeners = new Set<Notify>(options.notify ? [options.notify] : []);
    this.#now = this.#inForce(options.config, options.environment, undefined);
  }

  readonly #notify: Notify = (notice: Notice) => {
    const told = withTrace({ ...notice, text: this.redact(notice.text) }, this.tracer);
    for (const listener of this.#listeners) listener(told);
  };

  /** What logins have brought is secret as well. */
  readonly redact: Redact = (text) => this.#now.redact(this.#madeHub ? this.#madeHub.redact(text) : text);

  #inForce(config: Config, environment: NodeJS.ProcessEnv, before: InForce | undefined): InForce {
    const { workspace } = this.#options;
    const secrets = [...new Set([...(before?.secrets ?? []), ...config.secrets])];
    const modelsKey = JSON.stringify([config.models, config.agents, config.leftOut, environment]);
    const registry = before?.modelsKey === modelsKey ? before.registry : this.#registryOf(config, environment);
    const skills = once(() => findSkills(workspace, home(environment)));
    const made: InForce = {
      config,
      environment,
      profiles: createProfiles({ ...config, configured: config.profiles }),
      redact: createRedactor(secrets),
      secrets,
      registry,
      modelsKey,
      skills,
      projectInstructions: onceFor(async (folder) =>
        [await projectInstructions(folder), skillsSection(await skills())].filter((text) => text !== "").join("\n\n"),
      ),
      sandbox:
        before?.config.sandbox.level === config.sandbox.level
          ? before.sandbox
          : once(() => openSandbox(config.sandbox.level, this.#notify)),
      tools: once(() => this.#ownTools(made)),
    };
    return made;
  }

  #registryOf({ models: configs, agents: named = [], leftOut = [] }: Config, environment: NodeJS.ProcessEnv) {
    const registry = once(async () => {
      const { createModelRegistry } = await import("./models/registry.ts");
      // Agents end with us, and with all that they start; files and network they see as we do.
      const agents = {
        configs: named,
        launch: async (asked: ContainRequest) => (await this.#now.sandbox()).contain(asked),
      };
      const windowsFile = join(this.state, "windows.json");
      const parts = { configs, leftOut, environment, agents, windowsFile, ...ownServer(this.state) };
      const made = createModelRegistry({ ...parts, probeLocal: true, redact: this.redact });
      for (const model of this.#options.models ?? []) made.register(model);
      return made;
    });
    // Runs that began with an older one may still ask its models.
    this.#registries.add(registry);
    return registry;
  }

  #ownTools({ profiles, skills, environment }: InForce): Promise<readonly Tool[]> {
    return ownTools({
      sandbox: () => this.#now.sandbox(),
      hidden: [this.state, userConfigDirectory(environment)],
      profiles: profiles.list(),
      skills,
      app: () => {
        if (!this.#app) throw new RotundaError("internal", "the app is not built yet");
        return this.#app;
      },
      further: this.#options.tools ?? [],
    });
  }

  // ---- the hub

  /** Undefined as long as it would have nothing to do: then nothing of it is loaded. */
  #hubIf(wanted: boolean): Promise<Hub | undefined> {
    if (!this.#hub && !wanted) return Promise.resolve(undefined);
    this.#hub ??= this.#makeHub();
    return this.#hub;
  }

  readonly #hubForTools = () => this.#hubIf(this.#now.config.servers.some((server) => !server.disabled));

  async #makeHub(): Promise<Hub> {
    const { createHub } = await import("./hub/hub.ts");
    const { workspace, elicitationPatience: patience } = this.#options;
    this.#madeHub = createHub({
      servers: this.#now.config.servers,
      stateDir: this.state,
      workspace,
      launch: this.#launch,
      notify: this.#notify,
      sample: async (request, signal) => {
        const { createSampler } = await import("./hub/sampling.ts");
        return createSampler(async () => (await this.#now.registry()).get(), Date.now)(request, signal);
      },
      elicitation: {
        open: () => this.#askListeners.size > 0,
        asked: (elicitation) => {
          for (const listener of this.#askListeners) listener(elicitation);
        },
        ...(patience !== undefined && { patience }),
      },
    });
    return this.#madeHub;
  }

  /** Stdio servers live in a process namespace of their own, so that none outlives us; more only where it is asked for. */
  readonly #launch: Launch = async ({ server, command, args, env, cwd }) => {
    const { config, sandbox } = this.#now;
    const { workspace } = this.#options;
    const ladder = await sandbox();
    const strict = config.servers.some((one) => one.name === server && one.sandbox === true);
    if (!strict) return ladder.contain({ command, args, env, cwd });
    return ladder.wrap({ command, args, env, cwd, workspace, readOnly: false, network: true, guardAbsent: false });
  };

  async #hubView(settings: ManagedSettings): Promise<HubView | undefined> {
    const hub = await this.#hubIf(this.#now.config.servers.length > 0);
    if (!hub) return undefined;
    const { createHubView } = await import("./hub/view.ts");
    return createHubView(hub, {
      redact: this.redact,
      setEnabled: async (name, enabled) => {
        await settings.change((draft) => {
          draft.enabledServers = { ...draft.enabledServers, [name]: enabled };
        });
        // Where nothing loads the configuration anew, the change has not reached the hub.
        if (!this.#options.load) await hub.setEnabled(name, enabled);
      },
    });
  }

  // ---- reload

  #reload(): Promise<void> {
    const next = this.#reloading.then(() => this.#reloadNow());
    this.#reloading = next.catch(() => undefined);
    return next;
  }

  async #reloadNow(): Promise<void> {
    const before = this.#now;
    const loaded = (await this.#options.load?.()) ?? { ...before.config, environment: before.environment };
    const next = this.#inForce(loaded, loaded.environment, before);
    // Whatever could be wrong must show before anything is changed.
    await next.profiles.get();
    await this.#hub;
    this.#madeHub?.replace(loaded.servers);
    this.#now = next;
    for (const text of loaded.warnings.filter((warning) => !before.config.warnings.includes(warning))) {
      this.#notify({ responseId: null, level: "warn", topic: "config", text });
    }
  }

  // ---- what doors are handed

  #settings(): ManagedSettings {
    return createManagedSettings({
      stateDirectory: this.state,
      reload: () => this.#reload(),
      now: () => this.#now,
      turns: async () => (await this.#now.profiles.get()).limits.turns,
    });
  }

  #managedProfiles(settings: ManagedSettings): ManagedProfiles {
    return lazyManagedProfiles(async () => {
      const { createManagedProfiles } = await import("./profiles/managed.ts");
      return createManagedProfiles({
        settings,
        profile: (name) => this.#now.profiles.get(name),
        list: () => this.#now.profiles.list(),
        config: () => this.#now.config,
        now: this.#options.now ?? Date.now,
      });
    });
  }

  #engineParts(store: App["store"], runner: Runner, tools: ToolSource): EngineParts {
    const builder = this;
    return {
      store,
      runner,
      models: { get: async (id) => (await this.#now.registry()).get(id) },
      tools,
      get profiles() {
        return builder.#now.profiles;
      },
      get permissions() {
        return builder.#now.config.permissions;
      },
      get hooks() {
        return builder.#now.config.hooks;
      },
      runHook: async (...call) => (await import("./util/hook-process.ts")).runHook(...call),
      sandbox: {
        level: async () => (await this.#now.sandbox()).level,
        get network() {
          return builder.#now.config.sandbox.network;
        },
      },
      projectInstructions: (folder) => this.#now.projectInstructions(folder),
      get keep() {
        return builder.#now.config.keep;
      },
      get budgets() {
        return builder.#now.config.budgets;
      },
      get compaction() {
        return builder.#now.config.compaction;
      },
      get toolOutputLimit() {
        return builder.#now.config.toolOutputLimit;
      },
      get toolSearchAbove() {
        return builder.#now.config.toolSearchAbove;
      },
      tracer: this.tracer,
      redact: this.redact,
      notify: this.#notify,
      now: this.#options.now ?? Date.now,
    };
  }

  readonly log = (text: string) => this.#notify({ responseId: null, level: "warn", topic: "engine", text });

  build(database: Database): App {
    const { store, queue } = database;
    const builder = this;
    const tools = createTools({
      own: () => this.#now.tools(),
      hub: this.#hubForTools,
      madeHub: async () => this.#hub,
      disabled: () => this.#now.config.disabledTools,
    });
    const limit = this.#now.config.maxRuns ?? MOST_RUNS;
    const runner = queue ?? createLocalRunner({ limit, run: (id) => engine.run(id) });
    const engine: Engine = createEngine(this.#engineParts(store, runner, tools));
    const settings = this.#settings();
    const app: App = {
      engine,
      store,
      queue,
      workspace: this.#options.workspace,
      stateDirectory: this.state,
      get environment() {
        return builder.#now.environment;
      },
      profiles: () => this.#now.profiles.list(),
      profile: (name) => this.#now.profiles.get(name),
      managedProfiles: this.#managedProfiles(settings),
      get config() {
        return builder.#now.config;
      },
      settings,
      reload: () => this.#reload(),
      tracer: this.tracer,
      redact: this.redact,
      models: async (asked) => (await this.#now.registry()).list(asked),
      skills: async () => (await this.#now.skills()).map(({ name, description }) => ({ name, description })),
      hub: () => this.#hubView(settings),
      onElicitation: (listener) => listening(this.#askListeners, listener),
      elicitations: () => this.#madeHub?.elicitations() ?? [],
      answerElicitation: (id, answer) => {
        if (!this.#madeHub)
          throw new RotundaError("not_found", `no elicitation ${id.slice(0, 60)} waits for an answer`);
        this.#madeHub.answerElicitation(id, answer);
      },
      sandboxLevel: async () => (await this.#now.sandbox()).level,
      onNotice: (listener) => listening(this.#listeners, listener),
      close: async () => {
        await engine.stop();
        await tools.close();
        for (const registry of this.#registries) if (registry.made()) await (await registry()).close();
        await database.close();
        await this.tracer?.close();
      },
    };
    this.#app = app;
    return app;
  }
}
