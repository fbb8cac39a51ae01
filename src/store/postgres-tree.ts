/**
 * The tree on Postgres, read.
 *
 * Invariant: a deleted response is given by `path` only, and only while something below it needs it; whatever is
 * given with its items was checked against its hash. Nothing is called damaged that was only changed between two reads.
 */
import { RotundaError } from "../types/error.ts";
import { LOCAL, type ResponseNode, type Status } from "../types/response.ts";
import type { IdKind, ResponseFilter, StoredResponse } from "../types/store.ts";
import type { Parameter } from "./postgres-connection.ts";
import type { PostgresDatabase, Reader } from "./postgres-database.ts";
import { damaged, type EntryRow, ERASED, entryOf, hashOf, type NodeRow, nodeOf, soundNode } from "./rows.ts";

const openStatuses: readonly Status[] = ["queued", "in_progress", "waiting"];

/** Columns of a node, of the table or alias `of`. */
function nodeColumns(of: string): string {
  const names = "number id owner previous_response_id caller_response_id caller_item_id conversation_id status body";
  return `${names} created_at ended_at deleted_at hash`
    .split(" ")
    .map((name) => `${of}.${name}`)
    .join(", ");
}

export const NODE = nodeColumns("node");

/** A statement that lists responses, newest first. */
export function listQuery(filter: ResponseFilter): { sql: string; parameters: Parameter[] } {
  const where = ["node.deleted_at IS NULL"];
  const parameters: Parameter[] = [];
  const add = (condition: string, value: Parameter) => {
    parameters.push(value);
    where.push(condition.replace("?", `$${parameters.length}`));
  };
  if (filter.status) {
    add("node.status = ANY(?)", filter.status);
    if (filter.status.every((status) => openStatuses.includes(status))) where.push("node.ended_at IS NULL");
  }
  if (filter.callerResponseId !== undefined) add("node.caller_response_id = ?", filter.callerResponseId);
  if (filter.previousResponseId !== undefined) add("node.previous_response_id = ?", filter.previousResponseId);
  if (filter.conversationId !== undefined) add("node.conversation_id = ?", filter.conversationId);
  if (filter.owner !== undefined) add("node.owner = ?", filter.owner);
  if (filter.owner !== undefined && filter.owner !== LOCAL) where.push(`node.owner <> '${LOCAL}'`);
  if (filter.endedBefore !== undefined) add("node.ended_at < ?", filter.endedBefore);
  if (filter.before !== undefined) add("node.number < (SELECT number FROM {responses} WHERE id = ?)", filter.before);
  if (filter.roots) {
    // What stands below a deleted response is the root of what is left.
    where.push(`node.caller_response_id IS NULL AND (node.previous_response_id IS NULL OR NOT EXISTS (
      SELECT 1 FROM {responses} AS parent WHERE parent.id = node.previous_response_id AND parent.deleted_at IS NULL))`);
  }
  parameters.push(filter.limit ?? 100);
  const sql = `SELECT ${NODE} FROM {responses} AS node WHERE ${where.join(" AND ")}
    ORDER BY node.number DESC LIMIT $${parameters.length}`;
  return { sql, parameters };
}

/** Ancestors that are read at once: few at first, since most of them are known. */
const STEPS = [2, 16, 200];
/** Responses of a path whose items are read at once. */
const PORTION = 50;

interface NumberedEntry extends EntryRow {
  number: number;
}

export class PostgresTree {
  readonly #db: PostgresDatabase;

  constructor(db: PostgresDatabase) {
    this.#db = db;
  }

  /** Undefined also where it was deleted. */
  async node(id: string, reader: Reader = this.#db): Promise<ResponseNode | undefined> {
    const sql = `SELECT ${NODE} FROM {responses} AS node WHERE id = $1 AND deleted_at IS NULL`;
    const row = await reader.one<NodeRow>(sql, id);
    return row && nodeOf(row);
  }

  async get(id: string): Promise<StoredResponse | undefined> {
    try {
      return await this.#get(this.#db, id);
    } catch (error) {
      if (!isDamaged(error)) throw error;
      // Two reads are two moments: it may have been erased in between.
      return this.#db.snapshot((reader) => this.#get(reader, id));
    }
  }

  async #get(reader: Reader, id: string): Promise<StoredResponse | undefined> {
    const sql = `SELECT ${NODE}, parent.hash AS parent_hash FROM {responses} AS node
      LEFT JOIN {responses} AS parent ON parent.id = node.previous_response_id
      WHERE node.id = $1 AND node.deleted_at IS NULL`;
    const row = await reader.one<NodeRow & { parent_hash: string | null }>(sql, id);
    if (!row) return undefined;
    const entries = await entriesOf(reader, [row.number]);
    return storedOf(row, entries.get(row.number) ?? [], row.parent_hash);
  }

  async path(id: string, known: (id: string) => boolean): Promise<StoredResponse[]> {
    try {
      return await this.#path(this.#db, id, known);
    } catch (error) {
      if (!isDamaged(error)) throw error;
      return this.#db.snapshot((reader) => this.#path(reader, id, known));
    }
  }

  async #path(reader: Reader, id: string, known: (id: string) => boolean): Promise<StoredResponse[]> {
    const rows: NodeRow[] = [];
    let parentHash: string | null = null;
    for await (const [next, row] of ancestors(reader, id)) {
      if (!row) throw damaged(next, "it is missing");
      if (row.body === ERASED) {
        if (next === id) throw new RotundaError("not_found", `there is no response ${id}`);
        throw damaged(next, "it was erased, though a response below it was not");
      }
      if (known(next)) {
        parentHash = row.hash;
        break;
      }
      rows.push(row);
    }
    rows.reverse();
    const path: StoredResponse[] = [];
    for (let from = 0; from < rows.length; from += PORTION) {
      const portion = rows.slice(from, from + PORTION);
      const entries = await entriesOf(
        reader,
        portion.map(({ number }) => number),
      );
      for (const row of portion) {
        path.push(storedOf(row, entries.get(row.number) ?? [], parentHash));
        parentHash = row.hash;
      }
    }
    return path;
  }

  async children(id: string): Promise<ResponseNode[]> {
    const sql = `SELECT ${NODE} FROM {responses} AS node
      WHERE previous_response_id = $1 AND deleted_at IS NULL ORDER BY number`;
    return (await this.#db.all<NodeRow>(sql, id)).flatMap(soundNode);
  }

  async list(filter: ResponseFilter): Promise<ResponseNode[]> {
    const { sql, parameters } = listQuery(filter);
    return (await this.#db.all<NodeRow>(sql, ...parameters)).flatMap(soundNode);
  }

  async output(itemId: string): Promise<string | undefined> {
    return (await this.#db.one<{ text: string }>("SELECT text FROM {outputs} WHERE item_id = $1", itemId))?.text;
  }

  async resolve(part: string, kinds: readonly IdKind[]): Promise<string[]> {
    const found: string[] = [];
    for (const kind of kinds) {
      const { table, column, prefix } = places[kind];
      const living = kind === "response" ? "WHERE deleted_at IS NULL" : "";
      const start = part.includes("_") ? part : prefix + part;
      const rows = await this.#db.all<{ id: string }>(
        `SELECT id FROM (
           SELECT * FROM (SELECT ${column} AS id FROM {${table}} ${living}) AS beginning WHERE id >= $1 AND id < $2
           UNION SELECT * FROM (SELECT ${column} AS id FROM {${table}} ${living}) AS ending
             WHERE reverse(id) >= $3 AND reverse(id) < $4) AS found LIMIT 10`,
        start,
        `${start}\u007f`,
        reversed(part),
        `${reversed(part)}\u007f`,
      );
      found.push(...rows.map((row) => row.id));
    }
    return found;
  }
}

const places = {
  response: { table: "responses", column: "id", prefix: "resp_" },
  conversation: { table: "conversations", column: "id", prefix: "conv_" },
  item: { table: "outputs", column: "item_id", prefix: "mcp_" },
  approval: { table: "approvals", column: "id", prefix: "mcpr_" },
} as const;

function reversed(text: string): string {
  return [...text].reverse().join("");
}

function isDamaged(error: unknown): boolean {
  return error instanceof RotundaError && error.code === "storage_damaged";
}

/** A response and all above it, the nearest first; with undefined the one that is missing. */
async function* ancestors(reader: Reader, id: string): AsyncGenerator<[id: string, row: NodeRow | undefined]> {
  const sql = `WITH RECURSIVE above AS (
      SELECT ${NODE}, 1 AS step FROM {responses} AS node WHERE node.id = $1
      UNION ALL SELECT ${NODE}, above.step + 1 FROM above JOIN {responses} AS node ON node.id = above.previous_response_id
      WHERE above.step < $2)
    SELECT * FROM above ORDER BY step`;
  let next: string | null = id;
  for (let page = 0; next !== null; page++) {
    const steps = STEPS[Math.min(page, STEPS.length - 1)] ?? 1;
    const rows: NodeRow[] = await reader.all<NodeRow>(sql, next, steps);
    for (const row of rows) {
      yield [row.id, row];
      next = row.previous_response_id;
    }
    if (next !== null && rows.length < steps) {
      yield [next, undefined];
      return;
    }
  }
}

/** The items of responses, by their numbers. */
export async function entriesOf(reader: Reader, numbers: readonly number[]): Promise<Map<number, EntryRow[]>> {
  const rows = await reader.all<NumberedEntry>(
    `SELECT number, side, position, turn, item, meta FROM {entries} WHERE number = ANY($1::bigint[])
     ORDER BY number, side, position`,
    numbers,
  );
  const found = new Map<number, EntryRow[]>();
  for (const { number, ...entry } of rows) {
    const entries = found.get(number);
    if (entries) entries.push(entry);
    else found.set(number, [entry]);
  }
  return found;
}

function storedOf(row: NodeRow, rows: readonly EntryRow[], parentHash: string | null): StoredResponse {
  if (row.hash !== null && hashOf(row, rows, parentHash) !== row.hash) {
    throw damaged(row.id, "its content does not match its hash");
  }
  return { node: nodeOf(row), entries: rows.map((entry) => entryOf(entry, row.id)) };
}
