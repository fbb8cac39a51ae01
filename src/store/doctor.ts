/** The doctor of a SQLite database. Nothing of it is loaded before it is asked for. */
import type { DatabaseDoctor } from "../types/doctor.ts";

/** `path` is the database file; it need not be one that can be opened. */
export function createDatabaseDoctor(path: string): DatabaseDoctor {
  return {
    examine: async (tell = () => undefined) => (await import("./doctor-examine.ts")).examine(path, tell),
    repair: async (tell = () => undefined) => (await import("./doctor-repair.ts")).repair(path, tell),
  };
}
