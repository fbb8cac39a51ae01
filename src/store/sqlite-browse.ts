/** Browsing on SQLite. Invariant: of an item no more is taken out of the file than is looked at. */
import type { StoreFacts } from "../types/browsing.ts";
import { LOCAL, type Owner } from "../types/response.ts";
import {
  type BodyRow,
  type BrowseSource,
  type ItemRow,
  type LinkRow,
  plainWords,
  type Range,
  type SaidRow,
  SEARCHED,
} from "./browse.ts";
import { type NodeRow, OUTPUT, PLACES } from "./rows.ts";
import type { Parameter, SqliteDatabase } from "./sqlite-database.ts";

const LINK = "responses.number, responses.id, responses.owner, responses.deleted_at";

/** The last text of one side, said by `role`; from its first text on. */
function lastText(role: "user" | "assistant"): string {
  const [from, to] = role === "user" ? [0, OUTPUT - 1] : [OUTPUT, PLACES - 1];
  return `(SELECT substr(item, instr(item, '"text":"'), 1500) FROM entries
    WHERE key BETWEEN number * ${PLACES} + ${from} AND number * ${PLACES} + ${to}
      AND instr(item, '"role":"${role}"') > 0 AND instr(item, '"text":"') > 0 AND instr(item, '"text":""') = 0
      AND instr(meta, '"synthetic":') = 0
    ORDER BY key DESC LIMIT 1)`;
}

function beginning(part: string): [length: number, text: string] {
  const start = part.includes("_") ? part : `resp_${part}`;
  return [start.length, start];
}

export class SqliteBrowseSource implements BrowseSource {
  readonly #db: SqliteDatabase;

  constructor(db: SqliteDatabase) {
    this.#db = db;
  }

  async facts(): Promise<StoreFacts> {
    const [found] = this.#db.all<Omit<StoreFacts, "server"> & { version: string }>(
      `SELECT sqlite_version() AS version, count(*) AS responses, count(*) FILTER (WHERE status = 'queued') AS queued
       FROM responses WHERE deleted_at IS NULL`,
    );
    const { version = "", responses = 0, queued = 0 } = found ?? {};
    return { server: `SQLite ${version}`, responses, queued };
  }

  async deleted(part: string): Promise<{ id: string; at: number }[]> {
    return this.#db.all(
      `SELECT id, deleted_at AS at FROM responses WHERE deleted_at IS NOT NULL
         AND (substr(id, ?) = ? OR substr(id, 1, ?) = ?) LIMIT 10`,
      -part.length,
      part,
      ...beginning(part),
    );
  }

  async above(id: string, most: number): Promise<LinkRow[]> {
    return this.#db.all<LinkRow>(
      `WITH RECURSIVE above (id, step) AS (
         SELECT ?, 1
         UNION ALL SELECT coalesce(previous_response_id, caller_response_id), step + 1
           FROM above JOIN responses USING (id)
           WHERE step < ? AND coalesce(previous_response_id, caller_response_id) IS NOT NULL)
       SELECT ${LINK} FROM above JOIN responses USING (id) ORDER BY step`,
      id,
      most,
    );
  }

  async below(id: string, most: number): Promise<LinkRow[]> {
    return this.#db.all<LinkRow>(
      `WITH RECURSIVE below (id) AS (
         SELECT ?
         UNION SELECT responses.id FROM below JOIN responses ON previous_response_id = below.id
         UNION SELECT responses.id FROM below JOIN responses ON caller_response_id = below.id
         LIMIT ${most})
       SELECT ${LINK} FROM below JOIN responses USING (id)`,
      id,
    );
  }

  async nodes(numbers: readonly number[]): Promise<NodeRow[]> {
    const sql = "SELECT * FROM responses WHERE number IN (SELECT value FROM json_each(?)) AND deleted_at IS NULL";
    return this.#db.all<NodeRow>(sql, JSON.stringify(numbers));
  }

  async said(ids: readonly string[]): Promise<SaidRow[]> {
    return this.#db.all<SaidRow>(
      `SELECT id, ${lastText("user")} AS prompt, ${lastText("assistant")} AS answer
       FROM responses WHERE id IN (SELECT value FROM json_each(?)) AND deleted_at IS NULL`,
      JSON.stringify(ids),
    );
  }

  async numbers(to: number, most: number, owner: Owner | undefined): Promise<number[]> {
    const { where, parameters } = ownedBy(owner);
    const sql = `SELECT number FROM responses WHERE number <= ? AND deleted_at IS NULL ${where} ORDER BY number DESC LIMIT ?`;
    return this.#db.all<{ number: number }>(sql, to, ...parameters, most).map(({ number }) => number);
  }

  async items({ above, to, owner }: Range, all: boolean, words: readonly string[]): Promise<ItemRow[]> {
    const { where, parameters } = ownedBy(owner);
    const plain = plainWords(words);
    const narrow = `${all ? "" : `AND instr(item, '"type":"message"') > 0`} ${"AND item LIKE ? ESCAPE '~' ".repeat(plain.length)}`;
    return this.#db.all<ItemRow>(
      `SELECT number, key >> 23 & 1 AS side, key & 8388607 AS position, id, conversation_id, created_at,
         substr(item, 1, ${SEARCHED}) AS item
       FROM responses CROSS JOIN entries ON key BETWEEN number * ${PLACES} AND number * ${PLACES} + ${PLACES - 1}
       WHERE number > ? AND number <= ? AND deleted_at IS NULL ${where}
         AND instr(meta, '"synthetic":') = 0 ${narrow} ORDER BY key DESC`,
      above,
      to,
      ...parameters,
      ...plain.map((word) => `%${word}%`),
    );
  }

  async bodies({ above, to, owner }: Range): Promise<BodyRow[]> {
    const { where, parameters } = ownedBy(owner);
    const sql = `SELECT number, created_at, body FROM responses WHERE number > ? AND number <= ? AND body <> '' ${where}`;
    return this.#db.all<BodyRow>(sql, above, to, ...parameters);
  }
}

/** The index of owners has all but the machine's own user. */
function ownedBy(owner: Owner | undefined): { where: string; parameters: Parameter[] } {
  if (owner === undefined) return { where: "", parameters: [] };
  return { where: `AND owner = ?${owner === LOCAL ? "" : ` AND owner <> '${LOCAL}'`}`, parameters: [owner] };
}
