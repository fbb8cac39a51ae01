/** Browsing on Postgres. Invariant: of an item no more leaves the database than is looked at. */
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
import type { Parameter } from "./postgres-connection.ts";
import type { Reader } from "./postgres-database.ts";
import { NODE } from "./postgres-tree.ts";
import type { NodeRow } from "./rows.ts";

const LINK = "node.number, node.id, node.owner, node.deleted_at";

/** The last text of one side, said by `role`; from its first text on. */
function lastText(role: "user" | "assistant"): string {
  return `(SELECT substr(item, strpos(item, '"text":"'), 1500) FROM {entries} AS entry
    WHERE entry.number = node.number AND side = ${role === "user" ? 0 : 1}
      AND strpos(item, '"role":"${role}"') > 0 AND strpos(item, '"text":"') > 0 AND strpos(item, '"text":""') = 0
      AND strpos(meta, '"synthetic":') = 0
    ORDER BY position DESC LIMIT 1)`;
}

export class PostgresBrowseSource implements BrowseSource {
  readonly #db: Reader;

  constructor(db: Reader) {
    this.#db = db;
  }

  async facts(): Promise<StoreFacts> {
    const [found] = await this.#db.all<Omit<StoreFacts, "server"> & { version: number }>(
      `SELECT current_setting('server_version_num')::int AS version, count(*)::bigint AS responses,
         (count(*) FILTER (WHERE status = 'queued' AND ended_at IS NULL))::bigint AS queued
       FROM {responses} WHERE deleted_at IS NULL`,
    );
    const { version = 0, responses = 0, queued = 0 } = found ?? {};
    return { server: `Postgres ${Math.floor(version / 10_000)}`, responses, queued };
  }

  deleted(part: string): Promise<{ id: string; at: number }[]> {
    const start = part.includes("_") ? part : `resp_${part}`;
    return this.#db.all(
      `SELECT id, deleted_at AS at FROM {responses} WHERE deleted_at IS NOT NULL
         AND (right(id, length($1)) = $1 OR left(id, length($2)) = $2) LIMIT 10`,
      part,
      start,
    );
  }

  above(id: string, most: number): Promise<LinkRow[]> {
    return this.#db.all<LinkRow>(
      `WITH RECURSIVE above AS (
         SELECT ${LINK}, coalesce(node.previous_response_id, node.caller_response_id) AS next, 1 AS step
           FROM {responses} AS node WHERE node.id = $1
         UNION ALL SELECT ${LINK}, coalesce(node.previous_response_id, node.caller_response_id), above.step + 1
           FROM above JOIN {responses} AS node ON node.id = above.next WHERE above.step < $2)
       SELECT number, id, owner, deleted_at FROM above ORDER BY step`,
      id,
      most,
    );
  }

  /** What is not asked for of a recursion is not looked for. */
  below(id: string, most: number): Promise<LinkRow[]> {
    return this.#db.all<LinkRow>(
      `WITH RECURSIVE below (id) AS (
         SELECT $1::text COLLATE "C"
         UNION SELECT node.id FROM below JOIN {responses} AS node
           ON node.previous_response_id = below.id OR node.caller_response_id = below.id),
       nearest AS MATERIALIZED (SELECT id FROM below LIMIT $2)
       SELECT ${LINK} FROM nearest JOIN {responses} AS node USING (id)`,
      id,
      most,
    );
  }

  nodes(numbers: readonly number[]): Promise<NodeRow[]> {
    const sql = `SELECT ${NODE} FROM {responses} AS node WHERE node.number = ANY($1::bigint[]) AND node.deleted_at IS NULL`;
    return this.#db.all<NodeRow>(sql, numbers);
  }

  said(ids: readonly string[]): Promise<SaidRow[]> {
    return this.#db.all<SaidRow>(
      `SELECT node.id, ${lastText("user")} AS prompt, ${lastText("assistant")} AS answer
       FROM {responses} AS node WHERE node.id = ANY($1::text[]) AND node.deleted_at IS NULL`,
      ids,
    );
  }

  async numbers(to: number, most: number, owner: Owner | undefined): Promise<number[]> {
    const { where, parameters } = ownedBy(owner, 3);
    const sql = `SELECT node.number FROM {responses} AS node WHERE node.number <= $1 AND node.deleted_at IS NULL ${where}
      ORDER BY node.number DESC LIMIT $2`;
    return (await this.#db.all<{ number: number }>(sql, to, most, ...parameters)).map(({ number }) => number);
  }

  items({ above, to, owner }: Range, all: boolean, words: readonly string[]): Promise<ItemRow[]> {
    const { where, parameters } = ownedBy(owner, 3);
    const plain = plainWords(words);
    const first = 3 + parameters.length;
    const narrow = plain.map((_, index) => `AND item ILIKE $${first + index} ESCAPE '~'`).join(" ");
    return this.#db.all<ItemRow>(
      `SELECT node.number, side, position, node.id, node.conversation_id, node.created_at,
         left(item, ${SEARCHED}) AS item
       FROM {responses} AS node JOIN {entries} AS entry ON entry.number = node.number
       WHERE entry.number > $1 AND entry.number <= $2 AND node.number > $1 AND node.number <= $2
         AND node.deleted_at IS NULL ${where} AND strpos(meta, '"synthetic":') = 0
         ${all ? "" : `AND strpos(item, '"type":"message"') > 0`} ${narrow}
       ORDER BY node.number DESC, side DESC, position DESC`,
      above,
      to,
      ...parameters,
      ...plain.map((word) => `%${word}%`),
    );
  }

  bodies({ above, to, owner }: Range): Promise<BodyRow[]> {
    const { where, parameters } = ownedBy(owner, 3);
    const sql = `SELECT node.number, node.created_at, node.body FROM {responses} AS node
      WHERE node.number > $1 AND node.number <= $2 AND node.body <> '' ${where}`;
    return this.#db.all<BodyRow>(sql, above, to, ...parameters);
  }
}

/** The index of owners has all but the machine's own user. */
function ownedBy(owner: Owner | undefined, place: number): { where: string; parameters: Parameter[] } {
  if (owner === undefined) return { where: "", parameters: [] };
  const narrow = owner === LOCAL ? "" : ` AND node.owner <> '${LOCAL}'`;
  return { where: `AND node.owner = $${place}${narrow}`, parameters: [owner] };
}
