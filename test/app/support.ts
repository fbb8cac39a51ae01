/** An app over real files that can load its configuration anew, as main.ts builds it. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config/load.ts";
import type { App } from "../../src/types/app.ts";
import type { Notice } from "../../src/types/event.ts";
import type { Model } from "../../src/types/model.ts";
import { later, modelOf, say, temporaryFolder } from "../support.ts";

export interface Place {
  root: string;
  workspace: string;
  state: string;
  environment: NodeJS.ProcessEnv;
  /** Below the root: "work/…", "home/…", "state/…". */
  put(path: string, content: string | object): void;
  /** The content of settings.json. */
  settings(): Record<string, unknown>;
  settingsMode(): number;
}

export function place(variables: NodeJS.ProcessEnv = {}): Place {
  const root = temporaryFolder();
  const workspace = join(root, "work");
  const state = join(root, "state");
  for (const folder of [workspace, state]) mkdirSync(folder, { recursive: true });
  return {
    root,
    workspace,
    state,
    environment: { HOME: join(root, "home"), PATH: process.env.PATH ?? "", ROTUNDA_HOME: state, ...variables },
    put(path, content) {
      const full = join(root, path);
      mkdirSync(dirname(full), { recursive: true });
      writeFileSync(full, typeof content === "string" ? content : JSON.stringify(content));
    },
    settings: () => JSON.parse(readFileSync(join(state, "settings.json"), "utf8")) as Record<string, unknown>,
    settingsMode: () => statSync(join(state, "settings.json")).mode & 0o777,
  };
}

export interface OpenedApp extends App {
  notices: Notice[];
}

export async function openApp(here: Place, models: Model[] = [modelOf([say("hello")])]): Promise<OpenedApp> {
  const load = () => loadConfig({ workspace: here.workspace, environment: here.environment });
  const config = await load();
  const notices: Notice[] = [];
  const app = await createApp({
    config,
    workspace: here.workspace,
    environment: config.environment,
    load,
    models,
    notify: (notice) => void notices.push(notice),
  });
  later(() => app.close());
  return Object.defineProperties({ notices }, Object.getOwnPropertyDescriptors(app)) as OpenedApp;
}
