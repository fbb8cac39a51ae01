/**
 * Copies out of SQLite and into it.
 *
 * Invariant: a response is pasted whole or not at all, after what it stands on, with the very texts that its hash is
 * taken over; what is here already is never changed.
 */
import { setImmediate } from "node:timers/promises";
import type {
  CopiedTable,
  Copying,
  CopyWish,
  EntryCopy,
  EventsCopy,
  FoundCopy,
  Pasted,
  RecordCopy,
  ResponseCopy,
} from "../types/copy.ts";
import { bareCopy, foundCopy, isRefusal, Judge, partsOf, type Standing, soundOnes } from "./copy-check.ts";
import { checkRecord, NOTE_DELETED, pageQuery, pasteRecord, type Statement } from "./copy-tables.ts";
import { OUTPUT, PLACES, type ResponseRow } from "./rows.ts";
import type { Parameter, SqliteDatabase } from "./sqlite-database.ts";

const SELECT = `SELECT responses.*, parent.hash AS parent_hash FROM responses
  LEFT JOIN responses AS parent ON parent.id = responses.previous_response_id`;

export class SqliteCopying implements Copying {
  readonly #db: SqliteDatabase;
  readonly #erase: () => Promise<void>;

  /** `erase` erases what the table `erasing` names. */
  constructor(db: SqliteDatabase, erase: () => Promise<void>) {
    this.#db = db;
    this.#erase = erase;
  }

  // ---- out of it

  async last(): Promise<number> {
    return this.#db.one<{ last: number | null }>("SELECT max(number) AS last FROM responses")?.last ?? 0;
  }

  async belonging(ids: readonly string[], whole: boolean): Promise<number[]> {
    const columns = "node.number, node.id, node.previous_response_id, node.caller_response_id";
    const from = (condition: string) => `UNION SELECT ${columns} FROM found JOIN responses AS node ON ${condition}`;
    const rows = this.#db.all<{ number: number }>(
      `WITH RECURSIVE found (number, id, previous, caller) AS (
         SELECT ${columns} FROM responses AS node WHERE id IN (SELECT value FROM json_each(?))
         ${from("node.id IN (found.previous, found.caller)")}
         ${from("node.caller_response_id = found.id")}
         ${whole ? from("node.previous_response_id = found.id") : ""})
       SELECT number FROM found ORDER BY number`,
      JSON.stringify(ids),
    );
    return rows.map(({ number }) => number);
  }

  async responses(wish: CopyWish): Promise<FoundCopy[]> {
    const found: FoundCopy[] = [];
    for (const row of this.#rows(wish)) {
      // Reading a page must not hold up everybody else.
      if (found.length % 10 === 9) await setImmediate();
      found.push(this.#load(row));
    }
    return found;
  }

  #rows(wish: CopyWish): (ResponseRow & { parent_hash: string | null })[] {
    if ("after" in wish) {
      const where = "WHERE responses.number > ? AND responses.number <= ? ORDER BY responses.number LIMIT ?";
      return this.#db.all(`${SELECT} ${where}`, wish.after, wish.upTo, wish.limit);
    }
    const [column, values] = "ids" in wish ? ["id", wish.ids] : ["number", wish.numbers];
    const where = `WHERE responses.${column} IN (SELECT value FROM json_each(?)) ORDER BY responses.number`;
    return this.#db.all(`${SELECT} ${where}`, JSON.stringify(values));
  }

  #load(row: ResponseRow & { parent_hash: string | null }): FoundCopy {
    const copy = bareCopy(row);
    const { items, log } = partsOf(copy);
    const range = [row.number * PLACES, row.number * PLACES + PLACES - 1] as const;
    if (items) {
      copy.entries = this.#db.all<EntryCopy>(
        `SELECT key >> 23 & 1 AS side, key & 8388607 AS position, turn, item, meta FROM entries
         WHERE key BETWEEN ? AND ? ORDER BY key`,
        ...range,
      );
    }
    if (log) {
      copy.events = this.#db.all<EventsCopy>(
        "SELECT key & 16777215 AS first, last, body FROM events WHERE key BETWEEN ? AND ? ORDER BY key",
        ...range,
      );
      copy.outputs = this.#db.all("SELECT item_id, text FROM outputs WHERE response_id = ? ORDER BY item_id", row.id);
      copy.approvals = this.#db.all("SELECT id, status, body FROM approvals WHERE response_id = ? ORDER BY id", row.id);
    }
    return foundCopy(row.number, copy);
  }

  async records(table: CopiedTable, after: RecordCopy | undefined, limit: number): Promise<RecordCopy[]> {
    return this.#run(pageQuery(table, after, limit));
  }

  #run({ sql, parameters }: Statement): RecordCopy[] {
    const rows = this.#db.all<RecordCopy>(sql.replace(/\{(\w+)\}/g, "$1"), ...parameters);
    return rows.map((row) => ({ ...row }));
  }

  // ---- into it

  async paste(copies: readonly ResponseCopy[]): Promise<Pasted[]> {
    const { sound, refusal } = soundOnes(copies);
    const outcomes = await this.#db.write(() => {
      const done: Pasted[] = [];
      const judge = new Judge();
      try {
        for (const copy of sound) done.push(this.#paste(copy, judge));
      } catch (error) {
        // What came before it in this transaction stays: a refusal comes before the first change.
        if (!isRefusal(error)) throw error;
        return { done, error };
      }
      return { done, error: refusal };
    });
    if (outcomes.error !== undefined) throw outcomes.error;
    return outcomes.done;
  }

  #paste(copy: ResponseCopy, judge: Judge): Pasted {
    const outcome = judge.judge(copy, this.#standing(copy.id), this.#standing(copy.previous_response_id));
    if (outcome) return outcome;
    this.#insert(copy);
    return { kind: "pasted" };
  }

  #standing(id: string | null): Standing | undefined {
    const sql = "SELECT id, hash, ended_at, body = '' AS erased FROM responses WHERE id = ?";
    const row = id === null ? undefined : this.#db.one<Omit<Standing, "erased"> & { erased: number }>(sql, id);
    return row && { ...row, erased: row.erased === 1 };
  }

  #insert(copy: ResponseCopy): void {
    const add = (sql: string, ...parameters: Parameter[]) => void this.#db.run(sql, ...parameters);
    const number = this.#db.insert(
      `INSERT INTO responses (id, owner, previous_response_id, caller_response_id, caller_item_id, conversation_id,
         status, body, created_at, ended_at, deleted_at, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      copy.id,
      copy.owner,
      copy.previous_response_id,
      copy.caller_response_id,
      copy.caller_item_id,
      copy.conversation_id,
      copy.status,
      copy.body,
      copy.created_at,
      copy.ended_at,
      copy.deleted_at,
      copy.hash,
    );
    for (const { side, position, turn, item, meta } of copy.entries) {
      const key = number * PLACES + side * OUTPUT + position;
      add("INSERT INTO entries (key, turn, item, meta) VALUES (?, ?, ?, ?)", key, turn, item, meta);
    }
    for (const { first, last, body } of copy.events) {
      add("INSERT INTO events (key, last, body) VALUES (?, ?, ?)", number * PLACES + first, last, body);
    }
    // An output or an approval is its own response's: nobody else's is written over.
    for (const { item_id, text } of copy.outputs) {
      const sql = "INSERT INTO outputs (item_id, response_id, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
      add(sql, item_id, copy.id, text);
    }
    for (const { id, status, body } of copy.approvals) {
      const columns = "(id, response_id, status, body, told) VALUES (?, ?, ?, ?, 1)";
      add(`INSERT INTO approvals ${columns} ON CONFLICT DO NOTHING`, id, copy.id, status, body);
    }
  }

  async pasteRecords(table: CopiedTable, rows: readonly RecordCopy[]): Promise<Pasted[]> {
    for (const row of rows) checkRecord(table, row);
    return this.#db.write(() => rows.map((row) => this.#pasteRecord(table, row)));
  }

  #pasteRecord(table: CopiedTable, row: RecordCopy): Pasted {
    const steps = pasteRecord(table, row, Date.now());
    for (let step = steps.next(); ; step = steps.next(this.#run(step.value))) {
      if (step.done) return step.value;
    }
  }

  async settle(): Promise<void> {
    await this.#db.write(() => this.#run({ sql: NOTE_DELETED, parameters: [] }));
    await this.#erase();
  }
}
