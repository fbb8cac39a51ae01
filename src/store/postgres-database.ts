/**
 * The database as its tables see it: statements that are prepared once for each connection, reads, and transactions.
 *
 * Invariant: `commit` resolves only when the transaction is known to be committed. Where the connection is lost at the
 * very commit, what became of it is read in the database, and nothing is done twice.
 */

import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ClientBase, Pool, PoolClient, QueryResultRow } from "pg";
import { RotundaError } from "../types/error.ts";
import { withoutPassword } from "../util/mask.ts";
import {
  connectionOf,
  explainer,
  isLost,
  type Parameter,
  parameterOf,
  prepareSession,
  typesOf,
} from "./postgres-connection.ts";

type Driver = typeof import("pg");
export type Probe = (moment: "before" | "after") => void;

/** Milliseconds for which a lost connection is made anew before a write is given up. */
export const PATIENCE = 30_000;
/** The same where the store is being closed. */
const SOON = 2_000;

/** The part of a transaction that a queue needs to join it. */
export interface SqlExecutor {
  executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>;
}

export interface Reader {
  all<T extends object>(sql: string, ...parameters: Parameter[]): Promise<T[]>;
  one<T extends object>(sql: string, ...parameters: Parameter[]): Promise<T | undefined>;
}

export class PostgresDatabase implements Reader {
  readonly schema: string;
  readonly explain: (error: unknown) => RotundaError;
  /** Nobody has patience any more. */
  closing = false;
  readonly #url: string;
  readonly #driver: Driver;
  readonly #reading: Pool;
  readonly #writing: Pool;
  readonly #statements = new Map<string, { name: string; text: string }>();
  readonly #marks = new WeakMap<ClientBase, Mark>();
  readonly #probe: Probe | undefined;

  constructor(
    driver: Driver,
    url: string,
    options: { schema: string; readers: number; writers: number; probe?: Probe | undefined },
  ) {
    this.schema = options.schema;
    this.explain = explainer(url);
    this.#url = url;
    this.#driver = driver;
    this.#probe = options.probe;
    this.#reading = this.#pool(options.readers);
    this.#writing = this.#pool(options.writers);
  }

  #pool(max: number): Pool {
    const pool = new this.#driver.Pool({
      ...connectionOf(this.#url, typesOf(this.#driver.types)),
      max,
      idleTimeoutMillis: 60_000,
      allowExitOnIdle: true,
      onConnect: prepareSession,
    });
    pool.on("error", () => undefined);
    return pool;
  }

  /** A connection of its own, not yet prepared. */
  async connect(): Promise<InstanceType<Driver["Client"]>> {
    const client = new this.#driver.Client(connectionOf(this.#url, typesOf(this.#driver.types)));
    await client.connect();
    await prepareSession(client);
    return client;
  }

  /** A table's name in its schema. */
  table(name: string): string {
    return `"${this.schema}".${name}`;
  }

  statement(sql: string): { name: string; text: string } {
    let known = this.#statements.get(sql);
    if (!known) {
      known = { name: `r${this.#statements.size}`, text: this.expand(sql) };
      this.#statements.set(sql, known);
    }
    return known;
  }

  /** `{name}` is a table of ours. */
  expand(sql: string): string {
    return sql.replace(/\{(\w+)\}/g, (_, name: string) => this.table(name));
  }

  // ---- reads

  async all<T extends object>(sql: string, ...parameters: Parameter[]): Promise<T[]> {
    const query = { ...this.statement(sql), values: parameters.map(parameterOf) };
    for (let attempt = 1; ; attempt++) {
      try {
        return (await this.#reading.query<QueryResultRow>(query)).rows as T[];
      } catch (error) {
        // The server was started anew, and the pool's connections are those to the one before.
        if (attempt > 2 || !isLost(error) || this.#reading.ending) throw this.explain(error);
        await sleep(50 * attempt);
      }
    }
  }

  async one<T extends object>(sql: string, ...parameters: Parameter[]): Promise<T | undefined> {
    return (await this.all<T>(sql, ...parameters))[0];
  }

  /** Several reads of one moment. */
  async snapshot<T>(read: (reader: Reader) => Promise<T>): Promise<T> {
    let client: PoolClient | undefined;
    try {
      client = await this.#reading.connect();
      await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
      const result = await read(new Transaction(this, client));
      await client.query("COMMIT");
      client.release();
      return result;
    } catch (error) {
      client?.release(true);
      throw this.explain(error);
    }
  }

  // ---- writes

  /** One attempt at a transaction. Rejects with the driver's error where nothing was committed. */
  async commit<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const client = await this.#writing.connect();
    const transaction = new Transaction(this, client);
    let result: T;
    try {
      transaction.begin();
      result = await work(transaction);
      this.#probe?.("before");
    } catch (error) {
      const cause = await transaction.causeOf(error);
      await giveUp(client, cause);
      throw cause;
    }
    try {
      await transaction.commit();
      client.release();
    } catch (error) {
      client.release(true);
      if (!isLost(error) || !(await this.#wasCommitted(transaction))) throw error;
    }
    this.#probe?.("after");
    return result;
  }

  /**
   * The connection was lost while the commit was under way. The server's own number of a transaction would not do: after
   * a crash it may be another one's.
   */
  async #wasCommitted(transaction: Transaction): Promise<boolean> {
    const mark = await transaction.marked;
    // It had not even begun, as far as we have heard; and no COMMIT is sent before we hear of what it changes.
    if (mark === undefined) return false;
    const began = performance.now();
    for (let pause = 20; ; pause = Math.min(2 * pause, 1_000)) {
      const last = await this.#lastOf(mark.name);
      if (last !== undefined) return last >= mark.sequence;
      if (performance.now() - began > (this.closing ? SOON : PATIENCE)) break;
      await sleep(pause);
    }
    const text = `the connection to the database ${withoutPassword(this.#url)} was lost during a commit, and what became of it is not known`;
    throw new RotundaError("storage_failed", text, {
      remedy: "What is stored is whole: read it, and go on from there.",
    });
  }

  /** The last transaction of a connection that was committed; waits for one that is still under way. Undefined: not known. */
  async #lastOf(name: string): Promise<number | undefined> {
    const sql = `INSERT INTO {marks} AS known (name, sequence, used) VALUES ($1, 0, now())
      ON CONFLICT (name) DO UPDATE SET used = known.used RETURNING sequence`;
    try {
      const query = { ...this.statement(sql), values: [name] };
      const { rows } = await this.#writing.query<{ sequence: number }>(query);
      return rows[0]?.sequence;
    } catch {
      return undefined;
    }
  }

  /** Of a connection: its name among the marks, and the number of its next transaction. */
  nextMark(client: ClientBase): Mark {
    const mark = this.#marks.get(client) ?? { name: randomBytes(12).toString("hex"), sequence: 0 };
    const next = { name: mark.name, sequence: mark.sequence + 1 };
    this.#marks.set(client, next);
    return next;
  }

  async close(): Promise<void> {
    await Promise.all([this.#reading.end(), this.#writing.end()]);
  }
}

/** Back to the pool, if the connection can still be used. */
async function giveUp(client: PoolClient, error: unknown): Promise<void> {
  if (isLost(error)) {
    client.release(true);
    return;
  }
  try {
    await client.query("ROLLBACK");
    client.release();
  } catch {
    client.release(true);
  }
}

/** Of a transaction: the connection that made it, and its number there. */
interface Mark {
  name: string;
  sequence: number;
}

const MARK = `INSERT INTO {marks} (name, sequence, used) VALUES ($1, $2, now())
  ON CONFLICT (name) DO UPDATE SET sequence = excluded.sequence, used = excluded.used`;

/** Statements of one transaction, sent without waiting for each other's answers. */
export class Transaction implements Reader, SqlExecutor {
  readonly #database: PostgresDatabase;
  readonly #client: ClientBase;
  /** Statements whose outcome nobody waits for but the commit. */
  readonly #sent: Promise<unknown>[] = [];
  /** By what its outcome can be found out; undefined where it never came so far. */
  marked: Promise<Mark | undefined> = Promise.resolve(undefined);

  constructor(database: PostgresDatabase, client: ClientBase) {
    this.#database = database;
    this.#client = client;
  }

  begin(): void {
    this.#keep(this.#client.query("BEGIN ISOLATION LEVEL READ COMMITTED"));
    const mark = this.#database.nextMark(this.#client);
    const marked = this.run(MARK, mark.name, mark.sequence);
    this.#keep(marked);
    this.marked = marked.then(
      () => mark,
      () => undefined,
    );
  }

  #keep(statement: Promise<unknown>): void {
    statement.catch(() => undefined);
    this.#sent.push(statement);
  }

  async all<T extends object>(sql: string, ...parameters: Parameter[]): Promise<T[]> {
    const query = { ...this.#database.statement(sql), values: parameters.map(parameterOf) };
    return (await this.#client.query<QueryResultRow>(query)).rows as T[];
  }

  async one<T extends object>(sql: string, ...parameters: Parameter[]): Promise<T | undefined> {
    return (await this.all<T>(sql, ...parameters))[0];
  }

  /** Resolves with the number of rows that it changed. */
  async run(sql: string, ...parameters: Parameter[]): Promise<number> {
    const query = { ...this.#database.statement(sql), values: parameters.map(parameterOf) };
    return (await this.#client.query(query)).rowCount ?? 0;
  }

  /** Sends a statement; if it fails, the commit does. */
  send(sql: string, ...parameters: Parameter[]): void {
    this.#keep(this.run(sql, ...parameters));
  }

  /** Whoever locks one of these keys waits for the others' commits. */
  lock(keys: readonly string[]): void {
    if (keys.length === 0) return;
    this.send(
      `SELECT pg_advisory_xact_lock(key) FROM (
         SELECT DISTINCT hashtextextended($1 || name, 0) AS key FROM unnest($2::text[]) AS name ORDER BY key) AS keys`,
      `rotunda ${this.#database.schema} `,
      keys,
    );
  }

  async executeSql(text: string, values: unknown[] = []): Promise<{ rows: unknown[] }> {
    const { rows } = await this.#client.query<QueryResultRow>(text, values);
    return { rows };
  }

  async commit(): Promise<void> {
    const committed = this.#client.query("COMMIT");
    committed.catch(() => undefined);
    // The first failure is the cause of all that follow.
    const failed = await this.#firstFailure();
    if (failed && !isLost(failed.reason)) {
      await committed;
      throw failed.reason;
    }
    const { command } = await committed;
    // A transaction that has failed is rolled back by its COMMIT.
    if (command !== "COMMIT") throw new RotundaError("internal", `the server has answered COMMIT with ${command}`);
  }

  async #firstFailure(): Promise<PromiseRejectedResult | undefined> {
    const outcomes = await Promise.allSettled(this.#sent);
    return outcomes.find((outcome) => outcome.status === "rejected");
  }

  /** What really went wrong where a statement has failed: after the first failure, every statement fails. */
  async causeOf(error: unknown): Promise<unknown> {
    return error instanceof RotundaError ? error : ((await this.#firstFailure())?.reason ?? error);
  }
}
