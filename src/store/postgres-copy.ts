/**
 * Copies out of Postgres and into it.
 *
 * Invariant: a response is pasted whole or not at all, after what it stands on, with the very texts that its hash is
 * taken over; what is here already is never changed. Nothing is erased while something is pasted below it.
 */
import type {
  CopiedTable,
  Copying,
  CopyWish,
  EventsCopy,
  FoundCopy,
  Pasted,
  RecordCopy,
  ResponseCopy,
} from "../types/copy.ts";
import { bareCopy, foundCopy, isRefusal, Judge, partsOf, type Standing, soundOnes } from "./copy-check.ts";
import { checkRecord, NOTE_DELETED, pageQuery, pasteRecord, type Statement } from "./copy-tables.ts";
import type { PostgresDatabase, Reader, Transaction } from "./postgres-database.ts";
import { ERASURE } from "./postgres-erase.ts";
import { entriesOf, NODE } from "./postgres-tree.ts";
import { ERASED, entryOf, type NodeRow, nodeOf } from "./rows.ts";

/** What the store lends. */
export interface CopyingParts {
  db: PostgresDatabase;
  /** Runs a transaction that holds these locks. */
  write<T>(work: (transaction: Transaction) => Promise<T>, locks: readonly string[]): Promise<T>;
  /** Erases what the table `erasing` names. */
  erase(): Promise<void>;
}

type FoundRow = NodeRow & { parent_hash: string | null };

const SELECT = `SELECT ${NODE}, parent.hash AS parent_hash FROM {responses} AS node
  LEFT JOIN {responses} AS parent ON parent.id = node.previous_response_id`;

export class PostgresCopying implements Copying {
  readonly #parts: CopyingParts;

  constructor(parts: CopyingParts) {
    this.#parts = parts;
  }

  // ---- out of it

  async last(): Promise<number> {
    const sql = "SELECT max(number) AS last FROM {responses}";
    return (await this.#parts.db.one<{ last: number | null }>(sql))?.last ?? 0;
  }

  async belonging(ids: readonly string[], whole: boolean): Promise<number[]> {
    const columns = "number, id, previous_response_id, caller_response_id";
    const next = (condition: string) => `SELECT ${columns} FROM {responses} WHERE ${condition}`;
    const rows = await this.#parts.db.all<{ number: number }>(
      `WITH RECURSIVE found (number, id, previous, caller) AS (
         ${next("id = ANY($1)")}
         UNION SELECT node.* FROM found CROSS JOIN LATERAL (
           ${next("id IN (found.previous, found.caller)")}
           UNION ALL ${next("caller_response_id = found.id")}
           ${whole ? `UNION ALL ${next("previous_response_id = found.id")}` : ""}) AS node)
       SELECT number FROM found ORDER BY number`,
      ids,
    );
    return rows.map(({ number }) => number);
  }

  /** Read in one moment, so that nothing is called damaged that was only changed between two reads. */
  responses(wish: CopyWish): Promise<FoundCopy[]> {
    return this.#parts.db.snapshot(async (reader) => {
      const rows = await rowsOf(reader, wish);
      const copies = new Map(rows.map((row) => [row.number, bareCopy(row)]));
      await addContents(reader, copies);
      return [...copies].map(([number, copy]) => foundCopy(number, copy));
    });
  }

  records(table: CopiedTable, after: RecordCopy | undefined, limit: number): Promise<RecordCopy[]> {
    return run(this.#parts.db, pageQuery(table, after, limit));
  }

  // ---- into it

  async paste(copies: readonly ResponseCopy[]): Promise<Pasted[]> {
    const { sound, refusal } = soundOnes(copies);
    const { outcomes, error = refusal } = await this.#parts.write(
      (transaction) => paste(transaction, sound),
      [ERASURE],
    );
    if (error !== undefined) throw error;
    return outcomes;
  }

  async pasteRecords(table: CopiedTable, rows: readonly RecordCopy[]): Promise<Pasted[]> {
    for (const row of rows) checkRecord(table, row);
    const locks = table === "tokens" ? ["tokens"] : [ERASURE];
    return this.#parts.write(async (transaction) => {
      const outcomes: Pasted[] = [];
      for (const row of rows) outcomes.push(await pasteOne(transaction, table, row));
      return outcomes;
    }, locks);
  }

  async settle(): Promise<void> {
    await this.#parts.write(async (transaction) => transaction.send(NOTE_DELETED), [ERASURE]);
    await this.#parts.erase();
  }
}

function rowsOf(reader: Reader, wish: CopyWish): Promise<FoundRow[]> {
  if ("after" in wish) {
    const where = "WHERE node.number > $1 AND node.number <= $2 ORDER BY node.number LIMIT $3";
    return reader.all(`${SELECT} ${where}`, wish.after, wish.upTo, wish.limit);
  }
  if ("ids" in wish) return reader.all(`${SELECT} WHERE node.id = ANY($1) ORDER BY node.number`, wish.ids);
  return reader.all(`${SELECT} WHERE node.number = ANY($1::bigint[]) ORDER BY node.number`, wish.numbers);
}

async function addContents(reader: Reader, copies: ReadonlyMap<number, ResponseCopy>): Promise<void> {
  const all = [...copies];
  const numbers = (part: "items" | "log") => all.filter(([, copy]) => partsOf(copy)[part]).map(([number]) => number);
  const entries = await entriesOf(reader, numbers("items"));
  for (const [number, found] of entries) copies.get(number)?.entries.push(...found);
  const events = await reader.all<EventsCopy & { number: number }>(
    `SELECT number, first, last, body FROM {events} WHERE number = ANY($1::bigint[]) ORDER BY number, first`,
    numbers("log"),
  );
  for (const { number, ...row } of events) copies.get(number)?.events.push(row);
  const byId = new Map(all.filter(([, copy]) => partsOf(copy).log).map(([, copy]) => [copy.id, copy]));
  const outputs = await reader.all<ResponseCopy["outputs"][number] & { response_id: string }>(
    "SELECT response_id, item_id, text FROM {outputs} WHERE response_id = ANY($1) ORDER BY item_id",
    [...byId.keys()],
  );
  for (const { response_id, ...row } of outputs) byId.get(response_id)?.outputs.push(row);
  const approvals = await reader.all<ResponseCopy["approvals"][number] & { response_id: string }>(
    "SELECT response_id, id, status, body FROM {approvals} WHERE response_id = ANY($1) ORDER BY id",
    [...byId.keys()],
  );
  for (const { response_id, ...row } of approvals) byId.get(response_id)?.approvals.push(row);
}

function run(reader: Reader, { sql, parameters }: Statement): Promise<RecordCopy[]> {
  let number = 0;
  return reader.all<RecordCopy>(
    sql.replace(/\?/g, () => `$${++number}`),
    ...parameters,
  );
}

// ---- inside a transaction

/** What came before the first that is refused is written. */
async function paste(
  transaction: Transaction,
  copies: readonly ResponseCopy[],
): Promise<{ outcomes: Pasted[]; error?: unknown }> {
  const ids = copies.flatMap(({ id, previous_response_id: parent }) => (parent === null ? [id] : [id, parent]));
  const sql = `SELECT id, hash, ended_at, body = '${ERASED}' AS erased FROM {responses} WHERE id = ANY($1)`;
  const rows = await transaction.all<Standing>(sql, [...new Set(ids)]);
  const here = new Map(rows.map((row) => [row.id, row]));
  const outcomes: Pasted[] = [];
  const made: ResponseCopy[] = [];
  const judge = new Judge();
  let error: unknown;
  try {
    for (const copy of copies) {
      const outcome = judge.judge(copy, here.get(copy.id), here.get(copy.previous_response_id ?? ""));
      outcomes.push(outcome ?? { kind: "pasted" });
      if (outcome) continue;
      made.push(copy);
      const { id, hash, ended_at, body } = copy;
      here.set(id, { id, hash, ended_at, erased: body === ERASED });
    }
  } catch (thrown) {
    if (!isRefusal(thrown)) throw thrown;
    error = thrown;
  }
  if (made.length > 0) await insert(transaction, made);
  return { outcomes, ...(error !== undefined && { error }) };
}

async function insert(transaction: Transaction, copies: readonly ResponseCopy[]): Promise<void> {
  const numbers = new Map((await insertNodes(transaction, copies)).map(({ id, number }) => [id, number]));
  insertContents(transaction, copies, (id) => numbers.get(id) ?? 0);
  const outputs = copies.flatMap(({ id, outputs: own }) => own.map((output) => ({ ...output, response: id })));
  // An output or an approval is its own response's: nobody else's is written over.
  transaction.send(
    `INSERT INTO {outputs} (item_id, response_id, text) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
     ON CONFLICT DO NOTHING`,
    outputs.map(({ item_id }) => item_id),
    outputs.map(({ response }) => response),
    outputs.map(({ text }) => text),
  );
  const approvals = copies.flatMap(({ id, approvals: own }) => own.map((approval) => ({ ...approval, response: id })));
  transaction.send(
    `INSERT INTO {approvals} (id, response_id, status, body, told)
     SELECT id, response, status, body, 1 FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
       AS made (id, response, status, body) ON CONFLICT DO NOTHING`,
    approvals.map(({ id }) => id),
    approvals.map(({ response }) => response),
    approvals.map(({ status }) => status),
    approvals.map(({ body }) => body),
  );
}

function insertNodes(
  transaction: Transaction,
  copies: readonly ResponseCopy[],
): Promise<{ id: string; number: number }[]> {
  const column = <T>(of: (copy: ResponseCopy) => T) => copies.map(of);
  const usage = copies.map((copy) => (copy.body === ERASED ? undefined : nodeOf({ ...copy, number: 0 }).usage));
  return transaction.all(
    `INSERT INTO {responses} (id, owner, previous_response_id, caller_response_id, caller_item_id, conversation_id,
       status, body, fence, tokens, cost, created_at, ended_at, deleted_at, hash)
     SELECT id, owner, previous, caller, item, conversation, status, body, 1, tokens, cost, created, ended, deleted, hash
     FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
       $9::bigint[], $10::float8[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[]) WITH ORDINALITY
       AS made (id, owner, previous, caller, item, conversation, status, body, tokens, cost, created, ended, deleted,
         hash, place)
     ORDER BY place RETURNING id, number`,
    column(({ id }) => id),
    column(({ owner }) => owner),
    column(({ previous_response_id }) => previous_response_id),
    column(({ caller_response_id }) => caller_response_id),
    column(({ caller_item_id }) => caller_item_id),
    column(({ conversation_id }) => conversation_id),
    column(({ status }) => status),
    column(({ body }) => body),
    usage.map((used) => used?.total_tokens ?? 0),
    usage.map((used) => used?.cost ?? 0),
    column(({ created_at }) => created_at),
    column(({ ended_at }) => ended_at),
    column(({ deleted_at }) => deleted_at),
    column(({ hash }) => hash),
  );
}

function insertContents(
  transaction: Transaction,
  copies: readonly ResponseCopy[],
  numberOf: (id: string) => number,
): void {
  const entries = copies.flatMap(({ id, entries: own }) =>
    own.map((entry) => ({ ...entry, number: numberOf(id), usage: entryOf(entry, id).meta.usage })),
  );
  transaction.send(
    `INSERT INTO {entries} (number, side, position, turn, item, meta, tokens, cost)
     SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::int[], $4::int[], $5::text[], $6::text[], $7::bigint[],
       $8::float8[])`,
    entries.map(({ number }) => number),
    entries.map(({ side }) => side),
    entries.map(({ position }) => position),
    entries.map(({ turn }) => turn),
    entries.map(({ item }) => item),
    entries.map(({ meta }) => meta),
    entries.map(({ usage }) => usage?.total_tokens ?? null),
    entries.map(({ usage }) => usage?.cost ?? null),
  );
  const events = copies.flatMap(({ id, events: own }) => own.map((row) => ({ ...row, number: numberOf(id) })));
  transaction.send(
    `INSERT INTO {events} (number, first, last, body)
     SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[])`,
    events.map(({ number }) => number),
    events.map(({ first }) => first),
    events.map(({ last }) => last),
    events.map(({ body }) => body),
  );
}

async function pasteOne(transaction: Transaction, table: CopiedTable, row: RecordCopy): Promise<Pasted> {
  const steps = pasteRecord(table, row, Date.now());
  for (let step = steps.next(); ; step = steps.next(await run(transaction, step.value))) {
    if (step.done) return step.value;
  }
}
