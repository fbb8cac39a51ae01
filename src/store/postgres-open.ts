/**
 * Bringing a Postgres database to our newest schema.
 *
 * Invariant: any number of processes may do this at once: whoever holds the lock does it, all at once or not at all. A
 * schema of a newer version is left as it is.
 */
import type { ClientBase } from "pg";
import { RotundaError } from "../types/error.ts";
import { withoutPassword } from "../util/mask.ts";
import { checkServer } from "./postgres-connection.ts";
import type { PostgresDatabase } from "./postgres-database.ts";
import { migrations } from "./postgres-schema.ts";

export async function prepareDatabase(db: PostgresDatabase, url: string): Promise<void> {
  const client = await db.connect().catch((error: unknown) => {
    throw db.explain(error);
  });
  try {
    await checkServer(client, url);
    if ((await versionOf(client, db)) === migrations.length) return;
    await migrate(client, db, url);
  } catch (error) {
    throw db.explain(error);
  } finally {
    client.end().catch(() => undefined);
  }
}

/** How many steps have run; 0 also where there is no schema yet. */
async function versionOf(client: Pick<ClientBase, "query">, db: PostgresDatabase): Promise<number> {
  // From the catalogue itself: what a session remembers of names may be older than the lock that it waited for.
  const there = await client.query(
    `SELECT 1 FROM pg_class AS made JOIN pg_namespace AS space ON space.oid = made.relnamespace
     WHERE space.nspname = $1 AND made.relname = 'migrations'`,
    [db.schema],
  );
  if (there.rows.length === 0) return 0;
  const { rows } = await client.query<{ version: number | null }>(
    `SELECT max(number) AS version FROM ${db.table("migrations")}`,
  );
  return rows[0]?.version ?? 0;
}

async function migrate(client: ClientBase, db: PostgresDatabase, url: string): Promise<void> {
  // Whoever else does it may take its time.
  await client.query("SET lock_timeout = 0; SET statement_timeout = 0");
  await client.query("BEGIN ISOLATION LEVEL READ COMMITTED");
  await client.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`rotunda migrations ${db.schema}`]);
  const from = await versionOf(client, db);
  if (from > migrations.length) {
    throw new RotundaError("storage_failed", `the database ${withoutPassword(url)} was made by a newer Rotunda`, {
      remedy: `Upgrade Rotunda, or give it another schema of the database than "${db.schema}".`,
    });
  }
  // Asked first: the right to make schemas is not needed where it is there.
  const { rows } = await client.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [db.schema]);
  if (rows.length === 0) await client.query(`CREATE SCHEMA "${db.schema}"`);
  await client.query(`CREATE TABLE IF NOT EXISTS ${db.table("migrations")} (number integer PRIMARY KEY)`);
  for (const [index, step] of migrations.entries()) {
    if (index < from) continue;
    await client.query(db.expand(step));
    await client.query(`INSERT INTO ${db.table("migrations")} VALUES ($1)`, [index + 1]);
  }
  await client.query("COMMIT");
}
