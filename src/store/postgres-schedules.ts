/** Schedules on Postgres. Invariant: one that is changed is as whoever changed it saw it, else it stays as it is. */
import type { Schedule } from "../types/schedule.ts";
import type { Reader, Transaction } from "./postgres-database.ts";

/** Those that are due at a moment; without one, all by name. */
export async function listSchedules(reader: Reader, dueAt?: number): Promise<Schedule[]> {
  const rows =
    dueAt === undefined
      ? await reader.all<{ body: string }>("SELECT body FROM {schedules} ORDER BY name, id")
      : await reader.all<{ body: string }>("SELECT body FROM {schedules} WHERE next_at <= $1 ORDER BY next_at", dueAt);
  return rows.map(({ body }) => JSON.parse(body) as Schedule);
}

/** Inside a transaction. */
export async function saveSchedule(
  transaction: Transaction,
  schedule: Schedule,
  seenAt?: number | null,
): Promise<boolean> {
  const sql = "SELECT next_at FROM {schedules} WHERE id = $1 FOR UPDATE";
  const row = await transaction.one<{ next_at: number | null }>(sql, schedule.id);
  if (seenAt !== undefined && (!row || row.next_at !== seenAt)) return false;
  transaction.send(
    `INSERT INTO {schedules} (id, owner, name, next_at, body) VALUES ($1, $2, $3, $4, $5)
     ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, name = excluded.name, next_at = excluded.next_at, body = excluded.body`,
    schedule.id,
    schedule.owner,
    schedule.name,
    schedule.enabled ? schedule.nextAt : null,
    JSON.stringify(schedule),
  );
  return true;
}
