/** Managed profiles that are made when something is first asked of them. Invariant: they are made once. */
import type { ManagedProfiles } from "../types/settings.ts";
import { once } from "../util/once.ts";

export function lazyManagedProfiles(make: () => Promise<ManagedProfiles>): ManagedProfiles {
  const made = once(make);
  return {
    list: async () => (await made()).list(),
    get: async (name) => (await made()).get(name),
    current: async () => (await made()).current(),
    switch: async (name) => (await made()).switch(name),
    create: async (change) => (await made()).create(change),
    update: async (id, change) => (await made()).update(id, change),
    remove: async (id) => (await made()).remove(id),
    export: async (id) => (await made()).export(id),
    import: async (profile, how) => (await made()).import(profile, how),
  };
}
