/** Flags that shape the app itself, and what main.ts hands to this door. */
import type { App, SetUp } from "../../types/app.ts";
import type { Notify } from "../../types/event.ts";

export interface AppFlags {
  config?: string;
  apiKey?: string;
  apiBaseUrl?: string;
  model?: string;
}

/** Builds what a command needs, when it needs it. */
export interface Makers {
  app(flags: AppFlags, notify: Notify, workspace: string): Promise<App>;
  setUp(): Promise<SetUp>;
}
