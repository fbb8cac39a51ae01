/**
 * The app's own tools: built-in, admin, skills, the library's. Part of the composition root.
 *
 * Invariant: what they reach of the app is asked for at the moment of use.
 */
import type { Profiles } from "./profiles/profiles.ts";
import type { Skill } from "./profiles/skills.ts";
import type { App } from "./types/app.ts";
import type { Tool } from "./types/tool.ts";
import type { Sandbox } from "./util/sandbox.ts";

export interface OwnToolsOptions {
  sandbox(): Promise<Sandbox>;
  /** Absolute paths that no tool may see. */
  hidden: string[];
  profiles: ReturnType<Profiles["list"]>;
  skills(): Promise<Skill[]>;
  app(): App;
  /** Further tools, beside the built-in ones. */
  further: readonly Tool[];
}

export async function ownTools(options: OwnToolsOptions): Promise<readonly Tool[]> {
  const { sandbox, hidden, profiles, app } = options;
  const [{ createBuiltinTools }, { createAdminTools }] = await Promise.all([
    import("./tools/builtin.ts"),
    import("./tools/admin.ts"),
  ]);
  const builtin = createBuiltinTools({ sandbox, profiles, hidden });
  const skills = await options.skills();
  if (skills.length > 0) builtin.push((await import("./tools/skill.ts")).createSkillTool(skills));
  const admin = createAdminTools({
    sandbox,
    hidden,
    servers: async () => (await app().hub())?.servers() ?? [],
    setEnabled: async (name, enabled) => (await app().hub())?.setEnabled(name, enabled),
    profiles: {
      list: () => app().managedProfiles.list(),
      switch: (name) => app().managedProfiles.switch(name),
      current: () => app().managedProfiles.current(),
    },
    settings: () => app().settings.speakmcp(),
    cancelAll: (reason) => app().engine.cancelAll(reason),
  });
  return [...builtin, ...admin, ...options.further];
}
