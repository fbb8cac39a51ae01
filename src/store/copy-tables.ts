/**
 * The small tables, copied: which columns they have, and what becomes of a row beside what is here already.
 *
 * Invariant: what is here stays; a row comes once. The rules are written down once for both databases: each is a
 * generator that yields statements and is given their rows. `{name}` is a table, `?` a parameter; what is refused is
 * refused before the first change.
 */
import type { CopiedTable, Pasted, RecordCopy } from "../types/copy.ts";
import { RotundaError } from "../types/error.ts";
import { isJsonObject, type JsonObject } from "../types/json.ts";
import { chainFault } from "./audit-chain.ts";
import { isCount } from "./copy-check.ts";
import { ERASED } from "./rows.ts";

type Value = string | number | null;

export interface Statement {
  sql: string;
  parameters: Value[];
}

type Steps<T> = Generator<Statement, T, RecordCopy[]>;

interface TableSpec {
  /** Primary key. */
  key: readonly string[];
  columns: readonly string[];
  /** Columns that hold numbers, and those that may hold null; all others hold texts. */
  numbers: readonly string[];
  optional: readonly string[];
  /** The column that holds JSON, and what in it must agree with which columns. */
  json?: { column: string; same: readonly (readonly [key: string, column: string])[] };
}

const named = [
  ["id", "id"],
  ["name", "name"],
] as const;

const specs: Record<CopiedTable, TableSpec> = {
  conversations: {
    key: ["id"],
    columns: ["id", "owner", "name", "title", "head", "workspace", "metadata", "created_at", "updated_at"],
    numbers: ["created_at", "updated_at"],
    optional: ["name", "head"],
    json: { column: "metadata", same: [] },
  },
  tokens: {
    key: ["id"],
    columns: ["id", "name", "created_at", "expires_at", "revoked_at", "body"],
    numbers: ["created_at", "expires_at", "revoked_at"],
    optional: ["expires_at", "revoked_at"],
    json: { column: "body", same: [...named, ["createdAt", "created_at"], ["expiresAt", "expires_at"]] },
  },
  rules: {
    key: ["id"],
    columns: ["id", "scope", "holder", "rule", "created_at"],
    numbers: ["created_at"],
    optional: [],
  },
  budgets: {
    key: ["key"],
    columns: ["key", "limits", "period", "is_set", "since", "tokens", "cost", "seconds", "agents"],
    numbers: ["is_set", "since", "tokens", "cost", "seconds", "agents"],
    optional: [],
    json: { column: "limits", same: [] },
  },
  usage: {
    key: ["owner", "day"],
    columns: ["owner", "day", "tokens", "cost"],
    numbers: ["day", "tokens", "cost"],
    optional: [],
  },
  schedules: {
    key: ["id"],
    columns: ["id", "owner", "name", "next_at", "body"],
    numbers: ["next_at"],
    optional: ["next_at"],
    json: { column: "body", same: [...named, ["owner", "owner"]] },
  },
  idempotency: {
    key: ["owner", "key"],
    columns: ["owner", "key", "digest", "response_id", "status", "answer", "expires_at"],
    numbers: ["status", "expires_at"],
    optional: ["response_id", "status", "answer"],
  },
  audit: { key: ["sequence"], columns: ["sequence", "hash", "body"], numbers: ["sequence"], optional: [] },
};

/** The next rows of a table after a row of it. */
export function pageQuery(table: CopiedTable, after: RecordCopy | undefined, limit: number): Statement {
  const { key, columns } = specs[table];
  const parameters: Value[] = after ? key.map((column) => after[column] ?? null) : [];
  const marks = key.map(() => "?").join(", ");
  const where = after ? `WHERE (${key.join(", ")}) > (${marks})` : "";
  const sql = `SELECT ${columns.join(", ")} FROM {${table}} ${where} ORDER BY ${key.join(", ")} LIMIT ${limit}`;
  return { sql, parameters };
}

/** Throws `storage_damaged` where a row cannot be what was stored. */
export function checkRecord(table: CopiedTable, row: RecordCopy): void {
  const { columns, numbers, optional, json } = specs[table];
  const fits = (column: string) => {
    const value = row[column];
    if (value === null) return optional.includes(column);
    return numbers.includes(column) ? typeof value === "number" && Number.isFinite(value) : typeof value === "string";
  };
  const value = json && parsed(row[json.column]);
  const agrees = !json || (value && json.same.every(([key, column]) => value[key] === row[column]));
  if (!columns.every(fits) || !agrees) throw refused(table, row);
}

function parsed(text: unknown): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(String(text));
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function refused(table: CopiedTable, row: RecordCopy): RotundaError {
  const name = specs[table].key.map((column) => String(row[column]).slice(0, 80)).join("/");
  return new RotundaError("storage_damaged", `${name} of ${table} is refused: it is not what can have been stored`);
}

/** Inside a transaction: what becomes of a row that was checked. `now`: milliseconds since the epoch. */
export function* pasteRecord(table: CopiedTable, row: RecordCopy, now: number): Steps<Pasted> {
  switch (table) {
    case "conversations":
      return yield* pasteConversation(row);
    case "tokens":
      return yield* pasteToken(row, now);
    case "schedules":
      return yield* pasteSchedule(row);
    case "usage":
      return yield* pasteUsage(row);
    case "idempotency":
      return yield* pasteKey(row, now);
    case "audit":
      return yield* pasteAudit(row);
    default:
      return yield* insert(table, row);
  }
}

function* one(sql: string, ...parameters: Value[]): Steps<RecordCopy | undefined> {
  const rows = yield { sql, parameters };
  return rows[0];
}

/** The statement that adds a row. `more`: columns that only the database has. */
function inserting(table: CopiedTable, row: RecordCopy, more: RecordCopy = {}): Statement {
  const all: [string, Value][] = specs[table].columns.map((column) => [column, row[column] ?? null]);
  all.push(...Object.entries(more));
  const names = all.map(([column]) => column).join(", ");
  const marks = all.map(() => "?").join(", ");
  const parameters = all.map(([, value]) => value);
  return { sql: `INSERT INTO {${table}} (${names}) VALUES (${marks})`, parameters };
}

/** A row that is here already stays. */
function* insert(table: CopiedTable, row: RecordCopy): Steps<Pasted> {
  const { sql, parameters } = inserting(table, row);
  const [made] = yield { sql: `${sql} ON CONFLICT DO NOTHING RETURNING 1 AS made`, parameters };
  return { kind: made ? "pasted" : "known" };
}

/** The name, or with a number behind it where somebody else has it. */
function* freeName(wanted: string, isTaken: (name: string) => Steps<boolean>): Steps<string> {
  let name = wanted;
  for (let number = 2; yield* isTaken(name); number++) name = `${wanted}-${number}`;
  return name;
}

function* isKnown(table: "tokens" | "schedules", row: RecordCopy): Steps<boolean> {
  return (yield* one(`SELECT 1 AS known FROM {${table}} WHERE id = ?`, row.id ?? null)) !== undefined;
}

/** `row` under another name, where it has one of its own in its JSON as well. */
function renamed(row: RecordCopy, name: string): RecordCopy {
  if (name === row.name) return row;
  return { ...row, name, body: JSON.stringify({ ...parsed(row.body), name }) };
}

function madeAs(row: RecordCopy, name: string): Pasted {
  return name === row.name ? { kind: "pasted" } : { kind: "renamed", to: name };
}

// ---- tokens, schedules, usage, keys

function* pasteToken(row: RecordCopy, now: number): Steps<Pasted> {
  if (yield* isKnown("tokens", row)) return { kind: "known" };
  const { revoked_at, expires_at } = row;
  const inForce = revoked_at === null && (expires_at === null || Number(expires_at) > now);
  const taken = `SELECT 1 AS taken FROM {tokens} WHERE name = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`;
  const name = inForce
    ? yield* freeName(String(row.name), function* (wanted) {
        return (yield* one(taken, wanted, now)) !== undefined;
      })
    : String(row.name);
  yield inserting("tokens", renamed(row, name));
  return madeAs(row, name);
}

function* pasteSchedule(row: RecordCopy): Steps<Pasted> {
  if (yield* isKnown("schedules", row)) return { kind: "known" };
  const taken = "SELECT 1 AS taken FROM {schedules} WHERE owner = ? AND name = ?";
  const name = yield* freeName(String(row.name), function* (wanted) {
    return (yield* one(taken, row.owner ?? null, wanted)) !== undefined;
  });
  yield inserting("schedules", renamed(row, name));
  return madeAs(row, name);
}

/** What was used counts once, however often it is copied: the higher count holds. */
function* pasteUsage(row: RecordCopy): Steps<Pasted> {
  const result = yield* insert("usage", row);
  if (result.kind === "pasted") return result;
  yield* one(
    `UPDATE {usage} SET tokens = CASE WHEN tokens > ? THEN tokens ELSE ? END, cost = CASE WHEN cost > ? THEN cost ELSE ? END
     WHERE owner = ? AND day = ?`,
    ...[row.tokens, row.tokens, row.cost, row.cost, row.owner, row.day].map((value) => value ?? null),
  );
  return result;
}

function* pasteKey(row: RecordCopy, now: number): Steps<Pasted> {
  if (Number(row.expires_at) <= now) return { kind: "known" };
  if (row.response_id !== null) {
    const there = yield* one("SELECT 1 AS there FROM {responses} WHERE id = ?", row.response_id ?? null);
    // Of a response that stayed behind: it is told with that.
    if (!there) return { kind: "known" };
  }
  return yield* insert("idempotency", row);
}

// ---- conversations

/** The response, or the nearest one above it that was not deleted. Undefined: it is not here at all. */
function* living(head: Value): Steps<RecordCopy | undefined | null> {
  for (let next = head; next !== null; ) {
    const row: RecordCopy | undefined = yield* one(
      "SELECT id, conversation_id, previous_response_id, deleted_at FROM {responses} WHERE id = ?",
      next,
    );
    if (!row) return undefined;
    if (row.deleted_at === null) return row;
    next = row.previous_response_id ?? null;
  }
  return null;
}

function* isAbove(upper: Value, lower: Value): Steps<boolean> {
  const found = yield* one(
    `WITH RECURSIVE above (id) AS (
       SELECT previous_response_id FROM {responses} WHERE id = ?
       UNION ALL SELECT node.previous_response_id FROM above JOIN {responses} AS node ON node.id = above.id)
     SELECT 1 AS found FROM above WHERE id = ? LIMIT 1`,
    lower,
    upper,
  );
  return found !== undefined;
}

function* pasteConversation(row: RecordCopy): Steps<Pasted> {
  const id = row.id ?? null;
  const response = yield* living(row.head ?? null);
  if (response === undefined) return { kind: "left", why: `${row.head}, at which it stands, is not here` };
  const head = response?.id ?? null;
  const borrowed = response && response.conversation_id !== id ? 1 : 0;
  const own = yield* one("SELECT owner, head, updated_at FROM {conversations} WHERE id = ?", id);
  const taken = "SELECT 1 AS taken FROM {conversations} WHERE owner = ? AND name = ? AND id <> ?";
  const isTaken = function* (wanted: string): Steps<boolean> {
    return (yield* one(taken, row.owner ?? null, wanted, id)) !== undefined;
  };
  if (own) {
    const isNewer = Number(row.updated_at) > Number(own.updated_at) && own.owner === row.owner;
    const isAhead = own.head === head || own.head === null || (yield* isAbove(own.head ?? null, head));
    if (!isAhead && (head === null || (yield* isAbove(head, own.head ?? null)))) return { kind: "known" };
    if (!isAhead) return { kind: "left", why: `it has gone on here; what came stands beside it, at ${head}` };
    if (!isNewer) return { kind: "known" };
  }
  const name = row.name === null ? null : yield* freeName(String(row.name), isTaken);
  if (!own) yield inserting("conversations", { ...row, name, head }, { borrowed });
  else {
    yield* one(
      "UPDATE {conversations} SET name = ?, title = ?, metadata = ?, head = ?, borrowed = ?, updated_at = ? WHERE id = ?",
      ...[name, row.title, row.metadata, head, borrowed, row.updated_at, id].map((value) => value ?? null),
    );
  }
  if (name !== row.name) return { kind: "renamed", to: String(name) };
  return { kind: own ? "moved" : "pasted" };
}

// ---- audit log

/** A record goes on from the last one that is here, or it is that very one, or the log stays out. */
function* pasteAudit(row: RecordCopy): Steps<Pasted> {
  const { sequence, hash, body } = row;
  if (!isCount(sequence)) return { kind: "left", why: "its number is none" };
  const known = yield* one("SELECT hash FROM {audit} WHERE sequence = ?", sequence);
  if (known?.hash === hash) return { kind: "known" };
  const end = yield* one("SELECT sequence, hash FROM {audit_end}");
  if (known || !end || end.sequence !== sequence - 1) {
    return { kind: "left", why: "the log here has records of its own" };
  }
  if (chainFault(String(end.hash), String(hash), String(body))) {
    return {
      kind: "left",
      why: `record ${sequence} does not fit the chain (rotunda audit verify, where it comes from)`,
    };
  }
  yield inserting("audit", row);
  yield* one("UPDATE {audit_end} SET sequence = ?, hash = ?", sequence, hash ?? null);
  return { kind: "pasted" };
}

// ---- what came as deleted

/** Deleted responses that are not erased: whoever erases looks whether anything needs them still. */
export const NOTE_DELETED = `INSERT INTO {erasing} (number)
  SELECT number FROM {responses} WHERE deleted_at IS NOT NULL AND body <> '${ERASED}' ON CONFLICT DO NOTHING`;
