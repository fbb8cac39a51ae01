/**
 * The app's database, and the queue beside it: part of the composition root.
 *
 * Invariant: an address without a scheme never leaves this machine; apps of one process that share a Postgres database
 * share its connections and its queue, which end with the last of them.
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { openSqliteStore, type SqliteOptions } from "./store/sqlite.ts";
import { RotundaError } from "./types/error.ts";
import type { Queue } from "./types/runner.ts";
import type { Store } from "./types/store.ts";

export interface DatabaseOptions {
  /** postgres://…; absent: SQLite in the state directory. */
  address: string | undefined;
  stateDirectory: string;
  sqlite: SqliteOptions | undefined;
  /** Responses are left to workers (this process may be one). Only Postgres has a queue for that. */
  queued: boolean;
  log(text: string): void;
}

export interface Database {
  store: Store;
  queue: Queue | undefined;
  close(): Promise<void>;
}

/** Throws `config_invalid`, `storage_failed`. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { address } = options;
  if (address === undefined) {
    const store = await openSqliteStore(join(options.stateDirectory, "rotunda.db"), options.sqlite);
    return { store, queue: undefined, close: () => store.close() };
  }
  if (!/^postgres(?:ql)?:\/\//.test(address)) {
    throw new RotundaError("config_invalid", "database is no address that begins with postgres://", {
      remedy: "Leave it out for the built-in database, or write postgres://user:password@host:5432/name",
    });
  }
  return openShared(address, options);
}

/** A database by its address: postgres://…, "sqlite" (the state directory's), or the path of a SQLite file. */
export async function openNamedDatabase(
  address: string,
  stateDirectory: string,
  wanted: "there" | "made",
): Promise<Pick<Database, "store" | "close">> {
  if (/^[a-z]\w*:\/\//i.test(address)) {
    return openDatabase({ address, stateDirectory, sqlite: undefined, queued: false, log: () => undefined });
  }
  const path = address === "sqlite" ? join(stateDirectory, "rotunda.db") : resolve(address);
  if (wanted === "there" && !existsSync(path)) throw new RotundaError("usage", `there is no database ${path}`);
  const store = await openSqliteStore(path);
  return { store, close: () => store.close() };
}

interface Shared {
  opened: Promise<Pick<Database, "store" | "queue">>;
  users: number;
}

const shared = new Map<string, Shared>();

async function openShared(address: string, { queued, log, sqlite }: DatabaseOptions): Promise<Database> {
  const key = `${queued ? "queued" : "direct"} ${address}`;
  let entry = shared.get(key);
  if (!entry) {
    entry = { opened: openPostgres(address, queued, log, sqlite?.probe), users: 0 };
    shared.set(key, entry);
  }
  const { opened } = entry;
  entry.users++;
  const leave = async () => {
    if (!entry || --entry.users > 0) return;
    shared.delete(key);
    const { store, queue } = await opened;
    await queue?.close();
    await store.close();
  };
  try {
    return { ...(await opened), close: leave };
  } catch (error) {
    shared.delete(key);
    throw error;
  }
}

async function openPostgres(
  address: string,
  queued: boolean,
  log: (text: string) => void,
  probe: SqliteOptions["probe"],
) {
  const { openPostgresStore } = await import("./store/postgres.ts");
  const { url, schema } = withoutSchema(address);
  if (!queued) return { store: await openPostgresStore(url, { schema, probe }), queue: undefined };
  const { createPgBossQueue } = await import("./runners/pg-boss.ts");
  let store: Store | undefined;
  const queue = createPgBossQueue({ url: url, schema, log }, async (id) => (await store?.children(id)) ?? []);
  store = await openPostgresStore(url, { schema, probe, enqueue: (...made) => queue.enqueue(...made) });
  return { store, queue };
}

/** The schema may be named in the address (`?schema=name`). With a socket's folder as its host, it is no URL to the standard. */
function withoutSchema(address: string): { url: string; schema: string } {
  const [, before = "", name = "", after = ""] = /^([^?]*\?(?:.*&)?)schema=(\w+)(?:&(.*))?$/.exec(address) ?? [];
  if (name === "") return { url: address, schema: "rotunda" };
  return { url: `${before}${after}`.replace(/[?&]$/, ""), schema: name };
}
