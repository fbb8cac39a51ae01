/**
 * The composition root: Config → App. The only file, with main.ts, that knows every part.
 *
 * Invariant: a part that a command does not need is not even imported.
 */
import { join } from "node:path";
import { home, stateDirectory, userConfigDirectory } from "./config/paths.ts";
import { createEngine } from "./engine/engine.ts";
import type { Launch } from "./hub/hub-types.ts";
import { createProfiles, type Profiles } from "./profiles/profiles.ts";
import { projectInstructions } from "./profiles/project.ts";
import { findSkills, type Skill, skillsSection } from "./profiles/skills.ts";
import { openSqliteStore, type SqliteOptions } from "./store/sqlite.ts";
import type { App } from "./types/app.ts";
import type { Config } from "./types/config.ts";
import { RotundaError } from "./types/error.ts";
import type { Notice, Notify } from "./types/event.ts";
import type { Model } from "./types/model.ts";
import type { Tool, ToolSource } from "./types/tool.ts";
import type { Sandbox } from "./util/sandbox.ts";
import { createRedactor } from "./util/secrets.ts";

export interface AppOptions {
  config: Config;
  workspace: string;
  environment: NodeJS.ProcessEnv;
  /** Default: from the environment. */
  stateDirectory?: string;
  notify?: Notify;
  /** Further tools, beside the built-in ones. */
  tools?: readonly Tool[];
  /** Further models; the first one is the default. */
  models?: readonly Model[];
  store?: SqliteOptions;
  /** Milliseconds since the epoch. */
  now?: () => number;
}

export async function createApp(options: AppOptions): Promise<App> {
  const { config, workspace, environment } = options;
  const state = options.stateDirectory ?? stateDirectory(environment);
  const redact = createRedactor(config.secrets);
  const listeners = new Set<Notify>(options.notify ? [options.notify] : []);
  const notify = (notice: Notice) => {
    for (const listener of listeners) listener({ ...notice, text: redact(notice.text) });
  };
  const store = await openSqliteStore(join(state, "rotunda.db"), options.store);
  const profiles = createProfiles({ ...config, configured: config.profiles });
  const sandbox = once(async () => {
    const { detectSandbox } = await import("./util/sandbox.ts");
    const found = await detectSandbox(config.sandbox.level);
    if (found.level === "none") {
      const text =
        "No sandbox on this machine: shell commands run unprotected, and ask unless a rule allows them (rotunda doctor)";
      notify({ responseId: null, level: "warn", topic: "tools", text });
    }
    return found;
  });
  const registry = once(async () => {
    const { createModelRegistry } = await import("./models/registry.ts");
    const made = createModelRegistry({ configs: config.models, environment, probeLocal: true, redact });
    for (const model of options.models ?? []) made.register(model);
    return made;
  });
  const hub = once(async () => {
    if (!config.servers.some((server) => !server.disabled)) return undefined;
    const { createHub } = await import("./hub/hub.ts");
    const launch = hubLauncher(sandbox, config, workspace);
    return createHub({ servers: config.servers, stateDir: state, workspace, launch, notify });
  });
  const hubView = once(async () => {
    const made = await hub();
    if (!made) return undefined;
    const test = async (name: string) => {
      await made.test(name);
      const found = made.servers().find((server) => server.name === name);
      if (!found) throw new RotundaError("not_found", `there is no MCP server ${name}`);
      return found;
    };
    return { servers: () => made.servers(), test, close: () => made.close() };
  });
  const skills = once(() => findSkills(workspace, home(environment)));
  const tools = createTools(options, {
    skills,
    sandbox,
    profiles,
    hub,
    hidden: [state, userConfigDirectory(environment)],
  });
  const engine = createEngine({
    store,
    models: { get: async (id) => (await registry()).get(id) },
    tools,
    profiles,
    permissions: config.permissions,
    hooks: config.hooks,
    runHook: async (...call) => (await import("./util/hook-process.ts")).runHook(...call),
    sandbox: { level: async () => (await sandbox()).level, network: config.sandbox.network },
    projectInstructions: once1(async (folder) =>
      [await projectInstructions(folder), skillsSection(await skills())].filter((text) => text !== "").join("\n\n"),
    ),
    toolOutputLimit: config.toolOutputLimit,
    redact,
    notify,
    now: options.now ?? Date.now,
  });
  return {
    engine,
    store,
    profiles: profiles.list,
    config,
    redact,
    models: async () => (await registry()).list(),
    hub: hubView,
    sandboxLevel: async () => (await sandbox()).level,
    onNotice(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async close() {
      await engine.stop();
      await tools.close();
      if (registry.made()) await (await registry()).close();
      await store.close();
    },
  };
}

interface ToolParts {
  skills: () => Promise<Skill[]>;
  /** What no command may see. */
  hidden: string[];
  sandbox: () => Promise<Sandbox>;
  profiles: Profiles;
  hub: () => Promise<ToolSource | undefined>;
}

/** Built-in tools first, then the library's, then the hub's. The same array as long as its content is the same. */
function createTools(options: AppOptions, { skills, sandbox, profiles, hub, hidden }: ToolParts): ToolSource {
  const own = once(async () => {
    const { createBuiltinTools } = await import("./tools/builtin.ts");
    const builtin = createBuiltinTools({ sandbox, profiles: profiles.list(), hidden });
    const found = await skills();
    if (found.length > 0) builtin.push((await import("./tools/skill.ts")).createSkillTool(found));
    return [...builtin, ...(options.tools ?? [])];
  });
  let fromHub: readonly Tool[] = [];
  let all: readonly Tool[] | undefined;
  return {
    async list(signal) {
      const source = await hub();
      const served = source ? await source.list(signal) : fromHub;
      if (all && served === fromHub) return all;
      fromHub = served;
      all = [...(await own()), ...served];
      return all;
    },
    async find(name) {
      const bare = name.replace(/^rotunda(?::|__)/, "");
      return (await own()).find((tool) => tool.name === bare) ?? (await (await hub())?.find(name));
    },
    async accept(name) {
      await (await hub())?.accept?.(name);
    },
    async close() {
      await (await hub())?.close();
    },
  };
}

/** Stdio servers live in a process namespace of their own, so that none outlives us; more only where it is asked for. */
function hubLauncher(sandbox: () => Promise<Sandbox>, config: Config, workspace: string): Launch {
  return async ({ server, command, args, env, cwd }) => {
    const ladder = await sandbox();
    const strict = config.servers.some((one) => one.name === server && one.sandbox === true);
    if (!strict) return ladder.contain({ command, args, env, cwd });
    return ladder.wrap({ command, args, env, cwd, workspace, readOnly: false, network: true, guardAbsent: false });
  };
}

/** Makes it at the first call; `made` tells whether there was one. */
function once<T>(make: () => Promise<T>): (() => Promise<T>) & { made(): boolean } {
  let made: Promise<T> | undefined;
  const get = () => {
    made ??= make();
    return made;
  };
  return Object.assign(get, { made: () => made !== undefined });
}

function once1<T>(make: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const made = new Map<string, Promise<T>>();
  return (key) => {
    const known = made.get(key) ?? make(key);
    made.set(key, known);
    return known;
  };
}
