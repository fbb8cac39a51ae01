/**
 * Both databases, for tests that hold on each of them: `describe.each(databases)("on $name", ({ fresh }) => …)`.
 *
 * Where the machine has no Postgres, its half is skipped, and says so.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll } from "vitest";
import { openPostgresStore } from "../../src/store/postgres.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { Store } from "../../src/types/store.ts";
import { later, temporaryFolder } from "../support.ts";
import {
  freshSchema,
  hasPostgres,
  query,
  sharedPostgres,
  stopSharedPostgres,
  tellMissing,
} from "../support-postgres.ts";

type Row = Record<string, unknown>;
type Parameter = string | number | null;

/** Where a database is, for this process and for others. */
export type Place = { file: string } | { url: string; schema: string };

/** What both kinds of store take. */
export interface StoreOptions {
  probe?: (moment: "before" | "after") => void;
  lease?: number;
  portion?: number;
}

/** A database that nobody has opened yet. */
export interface TestDatabase {
  place: Place;
  /** A store on it, closed after the test. */
  open(options?: StoreOptions): Promise<Store>;
  /** A statement behind the store's back; `?` are its parameters, tables are named without their schema. */
  query(sql: string, ...parameters: Parameter[]): Promise<Row[]>;
}

export async function openAt(place: Place, options: StoreOptions = {}): Promise<Store> {
  if ("file" in place) return openSqliteStore(place.file, options);
  return openPostgresStore(place.url, { ...options, schema: place.schema });
}

function databaseAt(place: Place): TestDatabase {
  return {
    place,
    open: async (options) => {
      const store = await openAt(place, options);
      later(() => store.close().catch(() => undefined));
      return store;
    },
    query: async (sql, ...parameters) => ("file" in place ? inFile : inSchema)(place as never, sql, parameters),
  };
}

function inFile({ file }: { file: string }, sql: string, parameters: Parameter[]): Row[] {
  const raw = new DatabaseSync(file, { timeout: 5_000 });
  try {
    return raw.prepare(sql).all(...parameters) as Row[];
  } finally {
    raw.close();
  }
}

function inSchema(
  { url, schema }: { url: string; schema: string },
  sql: string,
  parameters: Parameter[],
): Promise<Row[]> {
  let number = 0;
  const text = sql.replaceAll("?", () => `$${++number}`);
  const at = `${url}${url.includes("?") ? "&" : "?"}options=${encodeURIComponent(`-c search_path=${schema}`)}`;
  return query(at, text, parameters);
}

export interface DatabaseKind {
  name: "SQLite" | "Postgres";
  fresh(): Promise<TestDatabase>;
}

export const sqlite: DatabaseKind = {
  name: "SQLite",
  fresh: async () => databaseAt({ file: join(temporaryFolder(), "rotunda.db") }),
};

export const postgres: DatabaseKind = {
  name: "Postgres",
  fresh: async () => {
    const schema = freshSchema();
    const { url } = await sharedPostgres();
    later(async () => void (await query(url, `DROP SCHEMA IF EXISTS ${schema} CASCADE`)));
    return databaseAt({ url, schema });
  },
};

tellMissing();
afterAll(stopSharedPostgres);

export const databases: readonly DatabaseKind[] = hasPostgres ? [sqlite, postgres] : [sqlite];
