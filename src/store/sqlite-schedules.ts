/** Schedules. Invariant: one that is changed is as whoever changed it saw it, else it stays as it is. */
import type { Schedule } from "../types/schedule.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

/** The base of `Records`: its methods are the store's. */
export class Schedules {
  readonly #db: SqliteDatabase;

  constructor(db: SqliteDatabase) {
    this.#db = db;
  }

  /** Those that are due at a moment; without one, all by name. */
  async schedules(dueAt?: number): Promise<Schedule[]> {
    const rows =
      dueAt === undefined
        ? this.#db.all<{ body: string }>("SELECT body FROM schedules ORDER BY name, id")
        : this.#db.all<{ body: string }>("SELECT body FROM schedules WHERE next_at <= ? ORDER BY next_at", dueAt);
    return rows.map(({ body }) => JSON.parse(body) as Schedule);
  }

  saveSchedule(schedule: Schedule, seenAt?: number | null): Promise<boolean> {
    return this.#db.write(() => {
      const row = this.#db.one<{ next_at: number | null }>("SELECT next_at FROM schedules WHERE id = ?", schedule.id);
      if (seenAt !== undefined && (!row || row.next_at !== seenAt)) return false;
      this.#db.run(
        `INSERT INTO schedules (id, owner, name, next_at, body) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, name = excluded.name, next_at = excluded.next_at, body = excluded.body`,
        schedule.id,
        schedule.owner,
        schedule.name,
        schedule.enabled ? schedule.nextAt : null,
        JSON.stringify(schedule),
      );
      return true;
    });
  }

  removeSchedule(id: string): Promise<boolean> {
    return this.#db.write(() => this.#db.run("DELETE FROM schedules WHERE id = ?", id) > 0);
  }
}
