/** What can be done with the configuration before there is an app. Invariant: nothing is started. */
import { join } from "node:path";
import type { SetUp } from "../types/app.ts";
import { loadConfig } from "./load.ts";
import { stateDirectory, userConfigDirectory } from "./paths.ts";
import { starter } from "./starter.ts";
import { TrustStore } from "./trust.ts";

export function createSetUp(options: { workspace: string; environment: NodeJS.ProcessEnv }): SetUp {
  const state = stateDirectory(options.environment);
  const store = new TrustStore(state);
  return {
    async configuration(explicit) {
      const flags = explicit === undefined ? {} : { config: explicit };
      const { origins, files, ...config } = await loadConfig({ ...options, flags });
      return { config, origins, files };
    },
    untrusted: async () => (await loadConfig(options)).untrusted,
    trusted: () => store.entries(),
    trust: (items) => store.add(items),
    revoke: (path) => store.revoke(path),
    starter: () => starter,
    yaml: async (value) => (await import("../util/yaml.ts")).stringify(value),
    stateDirectory: state,
    otherPrograms: async () => {
      const { findOtherPrograms } = await import("./other-programs.ts");
      return findOtherPrograms(options.workspace, options.environment);
    },
    userConfig: join(userConfigDirectory(options.environment), "rotunda.yaml"),
    readImport: async (path) => (await import("./import-plan.ts")).readImport(path, options),
  };
}
