/**
 * The database that a part runs on: SQLite in the place, or one of its own on a Postgres server.
 *
 * Invariant: what a part makes on a server is gone when it ends, and a server that was started for it as well.
 */
import pg from "pg";
import { openNamedDatabase } from "../src/app-database.ts";
import type { Store } from "../src/types/store.ts";
import { type PostgresServer, startPostgres } from "../test/support-postgres.ts";
import type { Place } from "./server.ts";

export interface PartDatabase {
  /** For the configuration; undefined: the built-in one. */
  address: string | undefined;
  /** A store of this process's own on it. */
  open(place: Place): Promise<Store>;
  drop(): Promise<void>;
}

let server: Promise<PostgresServer> | undefined;
let count = 0;

/** `wanted`: "sqlite", "postgres" (a server is started), or the address of a server whose user may make databases. */
export async function partDatabase(wanted: string): Promise<PartDatabase> {
  if (wanted === "sqlite") {
    return { address: undefined, open: (place) => opened(place.database, place), drop: async () => undefined };
  }
  if (wanted === "postgres") server ??= startPostgres({ fsync: true });
  const own = wanted === "postgres" ? await server : undefined;
  const base = own?.url ?? wanted;
  const name = `reliability_${process.pid}_${++count}`;
  await statement(base, `CREATE DATABASE ${name}`);
  const address = own?.urlOf(name) ?? withDatabase(base, name);
  return {
    address,
    open: (place) => opened(address, place),
    drop: () => statement(base, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

function withDatabase(base: string, name: string): string {
  const address = new URL(base);
  address.pathname = `/${name}`;
  return address.href;
}

async function opened(address: string, place: Place): Promise<Store> {
  const { store, close } = await openNamedDatabase(address, place.state, "there");
  // Whoever closes the store means the connections behind it too.
  return new Proxy(store, {
    get: (target, name) => {
      if (name === "close") return close;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

async function statement(address: string, sql: string): Promise<void> {
  const client = new pg.Client(address);
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

/** Ends a server that was started here. */
export async function endServer(): Promise<void> {
  await (await server)?.stop();
}
