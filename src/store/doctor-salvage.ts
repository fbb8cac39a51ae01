/**
 * Salvage: what can still be read of a database whose pages are broken, in a new file.
 *
 * Invariant: the damaged file is only read. A row is copied as it is or not at all; each table is read from both ends
 * towards the damage, then by halves, then by the keys that its indexes know.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { tablesOf } from "./doctor-examine.ts";
import { PLACES } from "./rows.ts";

type Row = Record<string, string | number | null>;

/** Statements that may fail on one table, so that what is broken throughout does not take for ever. */
const MOST_FAILURES = 20_000;
/** Rows behind the last one that can be read, where nobody knows how many there were. */
const BEYOND = 65_536;

/** Copies every table of the newest schema. Returns how many rows of each are lost, as far as anybody knows. */
export function salvage(
  from: DatabaseSync,
  to: DatabaseSync,
  tell: (share: number, what: string) => void,
): Record<string, number> {
  const lost: Record<string, number> = {};
  const tables = tablesOf(to);
  for (const [index, table] of tables.entries()) {
    tell(index / tables.length, `copying ${table}`);
    to.exec("BEGIN");
    to.exec(`DELETE FROM "${table}"`);
    const count = new TableCopy(from, to, table).run();
    if (count > 0) lost[table] = count;
    to.exec("COMMIT");
  }
  return lost;
}

interface Column {
  name: string;
  type: string;
  pk: number;
}

class TableCopy {
  readonly #from: DatabaseSync;
  readonly #to: DatabaseSync;
  readonly #table: string;
  readonly #columns: Column[];
  readonly #insert: StatementSync;
  /** The one integer column that is the row's number; undefined: the key is something else. */
  readonly #number: string | undefined;
  readonly #key: string[];
  #failures = 0;
  #lost = 0;

  constructor(from: DatabaseSync, to: DatabaseSync, table: string) {
    this.#from = from;
    this.#to = to;
    this.#table = table;
    this.#columns = to.prepare(`PRAGMA table_info("${table}")`).all() as unknown as Column[];
    const keys = this.#columns.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
    this.#key = keys.map(({ name }) => name);
    const [only] = keys;
    this.#number = keys.length === 1 && only?.type === "INTEGER" ? only.name : this.#hasRowid(to) ? "rowid" : undefined;
    const names = this.#columns.map(({ name }) => `"${name}"`);
    const places = names.map(() => "?").join(", ");
    this.#insert = to.prepare(`INSERT OR IGNORE INTO "${table}" (${names.join(", ")}) VALUES (${places})`);
  }

  #hasRowid(to: DatabaseSync): boolean {
    const [row] = to.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").all(this.#table);
    return !String(row?.sql).includes("WITHOUT ROWID");
  }

  #put(row: Row): void {
    try {
      this.#insert.run(...this.#columns.map(({ name }) => row[name] ?? null));
    } catch {
      // What no longer fits its own table was not stored so.
      this.#lost++;
    }
  }

  /** Rows until the first that cannot be read; the last one that could, and whether that was all. */
  #scan(order: "ASC" | "DESC"): { last: Row | undefined; whole: boolean } {
    const columns = this.#number === undefined ? this.#key : [this.#number];
    const by = columns.map((name) => `${name === "rowid" ? name : `"${name}"`} ${order}`).join(", ");
    const at = this.#number === undefined ? "*" : `*, ${this.#number} AS number_`;
    let last: Row | undefined;
    try {
      for (const row of this.#from.prepare(`SELECT ${at} FROM "${this.#table}" ORDER BY ${by}`).iterate()) {
        last = row as Row;
        this.#put(last);
      }
      return { last, whole: true };
    } catch {
      return { last, whole: false };
    }
  }

  run(): number {
    const forward = this.#scan("ASC");
    if (forward.whole) return this.#lost;
    const backward = this.#scan("DESC");
    if (backward.whole) return this.#lost;
    // Where neither end can be read it is the root that is broken, and no way leads to anything.
    if (this.#number !== undefined && (forward.last ?? backward.last)) {
      const [first, last] = this.#bounds(forward.last, backward.last);
      this.#halves(first, last);
    } else this.#lost++;
    this.#byIndexes();
    return Math.max(1, this.#lost);
  }

  #bounds(forward: Row | undefined, backward: Row | undefined): [number, number] {
    const first = Number(forward?.number_ ?? 0) + 1;
    if (backward !== undefined) return [first, Number(backward.number_) - 1];
    // Responses are copied first: behind the last of them nobody has an item or an event.
    const most = Number(this.#to.prepare("SELECT max(number) AS most FROM responses").get()?.most ?? 0);
    return [first, this.#granule() === 1 ? first + BEYOND : (most + 1) * PLACES];
  }

  /** The entries and events of one response lie together: where they cannot be read, they are lost together. */
  #granule(): number {
    return this.#table === "entries" || this.#table === "events" ? PLACES : 1;
  }

  #halves(first: number, last: number): void {
    if (first > last || this.#failures > MOST_FAILURES) return;
    try {
      const sql = `SELECT * FROM "${this.#table}" WHERE ${this.#number} BETWEEN ? AND ?`;
      const rows = this.#from.prepare(sql).all(first, last) as Row[];
      for (const row of rows) this.#put(row);
    } catch {
      this.#failures++;
      const granule = this.#granule();
      if (Math.floor(first / granule) === Math.floor(last / granule)) {
        this.#lost++;
        return;
      }
      const middle = Math.floor((first + last) / 2 / granule) * granule;
      const end = middle > first ? middle - 1 : first;
      this.#halves(first, end);
      this.#halves(end + 1, last);
    }
  }

  /** An index that is whole knows keys to which no way through the table leads any more. */
  #byIndexes(): void {
    const columns = this.#number === undefined ? this.#key : [this.#number];
    const names = columns.map((name) => (name === "rowid" ? name : `"${name}"`));
    const find = this.#from.prepare(
      `SELECT * FROM "${this.#table}" WHERE ${names.map((name) => `${name} = ?`).join(" AND ")}`,
    );
    for (const { name } of this.#indexes()) {
      try {
        const sql = `SELECT ${names.join(", ")} FROM "${this.#table}" INDEXED BY "${String(name)}"`;
        for (const row of this.#from.prepare(sql).iterate())
          this.#fetch(find, Object.values(row) as (string | number)[]);
      } catch {
        // It is broken as well, or does not hold every row.
      }
    }
  }

  #indexes(): Row[] {
    try {
      return this.#from.prepare(`PRAGMA index_list("${this.#table}")`).all() as Row[];
    } catch {
      return [];
    }
  }

  #fetch(find: StatementSync, key: (string | number)[]): void {
    if (this.#failures > MOST_FAILURES) return;
    try {
      const row = find.get(...key);
      if (row) this.#put(row as Row);
    } catch {
      this.#failures++;
    }
  }
}
