/**
 * Part `upgrade`: databases of every earlier schema are opened by the program of today, which is killed before and
 * after every statement of the upgrade.
 *
 * Invariant: afterwards the schema is the newest, every row is what it was, every response agrees with its hash, and a
 * server goes on with what was left behind.
 */
import { spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { createDatabaseDoctor } from "../src/store/doctor.ts";
import { migrations } from "../src/store/schema.ts";
import { openSqliteStore } from "../src/store/sqlite.ts";
import type { Build } from "./build.ts";
import { none, type Outcome, type Part, type Setting, together } from "./part.ts";
import { ended } from "./server.ts";

interface Line {
  table: string;
  row: Record<string, string | number | null>;
}

const data = fileURLToPath(new URL("./data", import.meta.url));

/** Rows that the code of a schema, or of the next one that was kept, has made. */
function linesFor(version: number): Line[] {
  const kept = readdirSync(data).flatMap((name) => Number(/^schema-(\d+)\.jsonl$/.exec(name)?.[1] ?? []));
  const best = kept.filter((one) => one >= version).sort((a, b) => a - b)[0] ?? Math.max(...kept);
  const text = readFileSync(join(data, `schema-${best}.jsonl`), "utf8");
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);
}

function makeOld(path: string, version: number): void {
  const db = new DatabaseSync(path);
  db.exec("PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; BEGIN");
  for (const step of migrations.slice(0, version)) db.exec(step);
  for (const { table, row } of linesFor(version)) {
    const columns = db
      .prepare(`PRAGMA table_info("${table}")`)
      .all()
      .map(({ name }) => String(name));
    const known = Object.entries(row).filter(([name]) => columns.includes(name));
    if (columns.length === 0) continue;
    const names = known.map(([name]) => `"${name}"`).join(", ");
    const places = known.map(() => "?").join(", ");
    db.prepare(`INSERT OR REPLACE INTO "${table}" (${names}) VALUES (${places})`).run(
      ...known.map(([, value]) => value),
    );
  }
  db.exec(`PRAGMA user_version = ${version}; COMMIT`);
  db.close();
}

/** All rows of the tables that there were, by their columns of then, as text. */
function contents(path: string, before?: Map<string, { columns: string[]; rows: string }>) {
  const db = new DatabaseSync(path, { readOnly: true });
  const found = new Map<string, { columns: string[]; rows: string }>();
  const tables = before
    ? [...before.keys()]
    : db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        .all()
        .map(({ name }) => String(name));
  for (const table of tables) {
    const columns =
      before?.get(table)?.columns ??
      db
        .prepare(`PRAGMA table_info("${table}")`)
        .all()
        .map(({ name }) => String(name));
    const list = columns.map((name) => `"${name}"`).join(", ");
    found.set(table, { columns, rows: JSON.stringify(db.prepare(`SELECT ${list} FROM "${table}" ORDER BY 1`).all()) });
  }
  const version = Number(db.prepare("PRAGMA user_version").get()?.user_version);
  db.close();
  return { tables: found, version };
}

async function open(build: Build, path: string, at: number, moment: string) {
  const child = spawn(process.execPath, [build.program("open"), path, String(at), moment], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  return ended(child, 60_000);
}

/** The small tables that every opening may tidy up. */
const TIDIED = new Set(["tail", "erasure", "erasing"]);

async function judge(
  path: string,
  before: ReturnType<typeof contents>,
  where: string,
  faults: string[],
): Promise<void> {
  const after = contents(path, before.tables);
  if (after.version !== migrations.length) faults.push(`${where}: schema ${after.version}`);
  for (const [table, { rows }] of before.tables) {
    if (!TIDIED.has(table) && after.tables.get(table)?.rows !== rows)
      faults.push(`${where}: rows of ${table} have changed`);
  }
  const { damaged, pages, unreadable, rows } = await createDatabaseDoctor(path).examine();
  const wrong = [
    ...damaged.map(({ id, why }) => `${id} ${why}`),
    ...pages,
    ...rows,
    ...(unreadable ? [unreadable] : []),
  ];
  if (wrong.length > 0) faults.push(`${where}: ${wrong.join("; ")}`);
}

async function run({ build, tell, cycles }: Setting): Promise<Outcome> {
  const faults: string[] = [];
  let points = 0;
  let killed = 0;
  const folder = mkdtempSync(join(build.folder, "upgrade-"));
  for (let version = 1; version < migrations.length; version++) {
    const old = join(folder, `schema-${version}.db`);
    makeOld(old, version);
    const before = contents(old);
    const whole = join(folder, `whole-${version}.db`);
    copyFileSync(old, whole);
    const { out, said } = await open(build, whole, 0, "before");
    const statements = Number(out);
    if (!(statements > 0)) faults.push(`schema ${version}: ${said}`);
    await judge(whole, before, `schema ${version}, undisturbed`, faults);
    const all = Array.from({ length: statements }, (_, index) => index + 1).flatMap((at) => [
      { at, moment: "before" },
      { at, moment: "after" },
    ]);
    const chosen = cycles === undefined ? all : all.filter((_, index) => index % Math.ceil(all.length / cycles) === 0);
    await together(chosen, 2, async ({ at, moment }) => {
      const path = join(folder, `killed-${version}-${at}-${moment}.db`);
      copyFileSync(old, path);
      const { signal } = await open(build, path, at, moment);
      points++;
      if (signal === "SIGKILL") killed++;
      const where = `schema ${version}, killed ${moment} statement ${at}`;
      const store = await openSqliteStore(path).catch((error: unknown) => {
        faults.push(`${where}: ${String(error)}`);
      });
      await store?.close();
      if (store) await judge(path, before, where, faults);
      for (const end of ["", "-wal", "-shm"]) rmSync(path + end, { force: true });
    });
    tell(`schema ${version}: ${statements} statements`);
  }
  if (killed < points) faults.push(`only ${killed} of ${points} were killed`);
  return {
    faults,
    figures: [
      { what: "earlier schemas", value: migrations.length - 1 },
      { what: "upgrades killed at a statement", value: killed },
      none("rows changed, responses damaged, databases that could not be opened", faults.length),
    ],
  };
}

export const upgrade: Part = {
  name: "upgrade",
  about: "every earlier schema, killed at each statement of its upgrade",
  rows: ["P1"],
  run,
};
