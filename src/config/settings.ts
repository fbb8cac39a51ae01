/**
 * Managed settings: `settings.json` as doors see it.
 *
 * Invariant: a change is on disk and in force when its promise resolves, or it is neither.
 */
import type { Config } from "../types/config.ts";
import { RotundaError } from "../types/error.ts";
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
  const leftOut = () => (now().config.leftOut ?? []).map(({ kind, name }) => `${kind} ${name}`);
  /** What would be left out at once is refused: whoever makes it hears why. */
  const change: ManagedSettings["change"] = async (mutate) => {
    const before = leftOut();
    let isRefused = false;
    const apply = async () => {
      await reload();
      const { models = [], mcpServers = {} } = read();
      const ours = [
        ...models.map(({ id }) => `model ${id}`),
        ...Object.keys(mcpServers).map((name) => `server ${name}`),
      ];
      const fresh = ours.find((one) => leftOut().includes(one) && !before.includes(one));
      if (fresh === undefined) return;
      isRefused = true;
      const entry = now().config.leftOut?.find(({ kind, name }) => `${kind} ${name}` === fresh);
      throw new RotundaError("config_invalid", `${fresh}: ${entry?.why}`, { remedy: `${entry?.remedy}.` });
    };
    try {
      await changeSettings(path, mutate, apply);
    } catch (error) {
      if (isRefused) await reload();
      throw error;
    }
  };
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
