/**
 * Managed settings: `settings.json` as doors see it.
 *
 * Invariant: a change is on disk and in force when its promise resolves, or it is neither.
 */
import type { Config } from "../types/config.ts";
import type { JsonObject } from "../types/json.ts";
import type { ManagedSettings } from "../types/settings.ts";
import { maskSecrets } from "../util/mask.ts";
import { changeSettings, readSettings, settingsPath } from "./managed.ts";

export interface SettingsOptions {
  stateDirectory: string;
  reload(): Promise<void>;
  /** In force now. */
  now(): { config: Config; environment: NodeJS.ProcessEnv };
  /** Model calls of the default profile. */
  turns(): Promise<number>;
}

export function createManagedSettings({ stateDirectory, reload, now, turns }: SettingsOptions): ManagedSettings {
  const path = settingsPath(stateDirectory);
  const read = () => readSettings(path) ?? {};
  const change: ManagedSettings["change"] = (mutate) => changeSettings(path, mutate, reload);
  return {
    path,
    read,
    change,
    masked: () => maskSecrets(read() as JsonObject),
    speakmcp: async () => {
      const { speakmcpView } = await import("./speakmcp.ts");
      const { config, environment } = now();
      return speakmcpView(config, read().speakmcp ?? {}, environment, await turns());
    },
    patchSpeakmcp: async (values) => {
      const { patchSpeakmcp } = await import("./speakmcp.ts");
      let updated: string[] = [];
      await change((draft) => {
        updated = patchSpeakmcp(draft, values);
      });
      return updated;
    },
  };
}
