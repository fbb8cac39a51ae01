/**
 * A real Postgres for tests: one server for each test process, started when it is first wanted, in a folder of its own.
 *
 * Invariant: it never outlives the process that started it for long, and leaves nothing behind. Where the machine has
 * no Postgres, suites say aloud that they are skipped. `ROTUNDA_TEST_POSTGRES`: the address of a server to use instead
 * (its user may make databases).
 */
import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, chownSync, existsSync, globSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export interface PostgresServer {
  /** Of its `postgres` database. */
  url: string;
  /** Of a database on it. */
  urlOf(database: string): string;
  stop(): Promise<void>;
  /** As a power cut would end it; `start` brings it back with the same data. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** Where `initdb` and `postgres` are; undefined: not on this machine. */
export function postgresPrograms(): string | undefined {
  const folders = [
    ...globSync("/usr/lib/postgresql/*/bin").sort().reverse(),
    "/usr/local/bin",
    "/usr/bin",
    "/opt/homebrew/bin",
    ...(process.env.PATH ?? "").split(":"),
  ];
  return folders.find((folder) => existsSync(join(folder, "initdb")) && existsSync(join(folder, "postgres")));
}

export const hasPostgres = process.env.ROTUNDA_TEST_POSTGRES !== undefined || postgresPrograms() !== undefined;

let told = false;

/** Says once that what needs Postgres is skipped. */
export function tellMissing(): void {
  if (hasPostgres || told) return;
  told = true;
  process.stderr.write(
    "\nSKIPPED: no Postgres on this machine; its suites do not run (apt-get install postgresql)\n\n",
  );
}

/** Postgres refuses to run as root: the user that it gets instead. */
function otherUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ["postgres", "nobody"]) {
    const [uid, gid] = ["-u", "-g"].map((flag) => spawnSync("id", [flag, name], { encoding: "utf8" }).stdout.trim());
    if (uid && gid) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error("running as root, and there is no user that could run Postgres");
}

export interface ServerOptions {
  /** Commits wait for the disk. Default false: a crash of the server would lose data, a crash of ours does not. */
  fsync?: boolean;
  settings?: Record<string, string>;
}

/** What test processes that were killed have left behind: the servers ended with them, their folders did not. */
function sweep(): void {
  const hourAgo = Date.now() - 3_600_000;
  for (const folder of globSync(join(tmpdir(), "rotunda-pg-*"))) {
    const old = (statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? hourAgo) < hourAgo;
    if (old && !existsSync(join(folder, "data", "postmaster.pid"))) rmSync(folder, { recursive: true, force: true });
  }
}

export async function startPostgres({ fsync = false, settings = {} }: ServerOptions = {}): Promise<PostgresServer> {
  const bin = postgresPrograms();
  if (bin === undefined) throw new Error("there is no Postgres on this machine");
  const user = otherUser();
  sweep();
  const folder = mkdtempSync(join(tmpdir(), "rotunda-pg-"));
  chmodSync(folder, 0o700);
  if (user) chownSync(folder, user.uid, user.gid);
  const data = join(folder, "data");
  const locale = { env: { ...process.env, LC_ALL: "C.UTF-8", TZ: "UTC" }, cwd: folder, ...user };
  const made = spawnSync(
    join(bin, "initdb"),
    ["-D", data, "-U", "rotunda", "--auth=trust", "-E", "UTF8", "--no-locale", ...(fsync ? [] : ["--no-sync"])],
    { ...locale, encoding: "utf8" },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const all = {
    listen_addresses: "",
    unix_socket_directories: folder,
    fsync: fsync ? "on" : "off",
    full_page_writes: fsync ? "on" : "off",
    max_connections: "200",
    shared_buffers: "64MB",
    autovacuum_naptime: "10s",
    ...settings,
  };
  const args = ["-D", data, ...Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`])];
  let child: ReturnType<typeof spawn> | undefined;
  let said = "";
  const start = async () => {
    // It ends with us, however we end.
    const command = existsSync("/usr/bin/setpriv") ? ["/usr/bin/setpriv", "--pdeathsig", "INT", "--"] : [];
    const [program = "", ...rest] = [...command, join(bin, "postgres"), ...args];
    child = spawn(program, rest, { ...locale, stdio: ["ignore", "ignore", "pipe"] });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-4_000);
    });
    const process = child;
    for (let waited = 0; waited < 30_000; waited += 50) {
      if (process.exitCode !== null) break;
      const ready = spawnSync(join(bin, "pg_isready"), ["-h", folder, "-U", "rotunda", "-d", "postgres", "-q"]);
      if (ready.status === 0) return;
      await sleep(50);
    }
    throw new Error(`Postgres did not start: ${said}`);
  };
  const end = async (signal: NodeJS.Signals) => {
    const process = child;
    if (!process || process.exitCode !== null || process.signalCode !== null) return;
    const ended = new Promise((resolve) => process.once("exit", resolve));
    process.kill(signal);
    await ended;
  };
  await start();
  const urlOf = (database: string) =>
    `postgres://rotunda:secret-of-tests@/${database}?host=${encodeURIComponent(folder)}`;
  return {
    url: urlOf("postgres"),
    urlOf,
    start,
    kill: () => end("SIGQUIT"),
    stop: async () => {
      await end("SIGINT");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

let shared: Promise<PostgresServer> | undefined;

/** The server of this test process. */
export function sharedPostgres(): Promise<PostgresServer> {
  shared ??= begin();
  return shared;
}

/** After all tests of a file. */
export async function stopSharedPostgres(): Promise<void> {
  const server = await shared;
  shared = undefined;
  await server?.stop();
}

async function begin(): Promise<PostgresServer> {
  const given = process.env.ROTUNDA_TEST_POSTGRES;
  if (given === undefined) return startPostgres();
  const urlOf = (database: string) => {
    const url = new URL(given);
    url.pathname = `/${database}`;
    return url.href;
  };
  const nothing = async () => undefined;
  return { url: given, urlOf, stop: nothing, start: nothing, kill: nothing };
}

/** The name of a schema that nobody has used. */
export function freshSchema(): string {
  return `test_${randomBytes(6).toString("hex")}`;
}

/** One statement on a connection of its own. */
export async function query(url: string, text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const { Client } = await import("pg");
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(text, values);
    return rows;
  } finally {
    await client.end();
  }
}
