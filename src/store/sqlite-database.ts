/**
 * The database as its tables see it: prepared statements, and the commit clock that all writes go through.
 *
 * Invariant: a statement that changes something runs inside `write`, and no transaction is open between two ticks.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { CommitClock } from "./clock.ts";
import { explain, isBusy, isSyncFailure, reopenDatabase } from "./sqlite-open.ts";

export interface SqliteOptions {
  /** Called before and after each commit; tests kill the process there. */
  probe?: (moment: "before" | "after") => void;
  /** Milliseconds of a lease. Default 30,000. */
  lease?: number;
  /** Milliseconds that one transaction erases, about. Default 15. */
  portion?: number;
  /** Responses that must have nothing but deltas to write in one commit for these to go to the tail. Default 8. */
  crowd?: number;
  /** Milliseconds after which what a response has in the tail moves to its own log. Default 4,000. */
  tailAge?: number;
}

/** Told of each transaction; what throws before the commit undoes it. */
export interface TransactionListener {
  began(): void;
  beforeCommit(): void;
  committed(): void;
  undone(): void;
}

export type Parameter = string | number | null;

export class SqliteDatabase {
  readonly #clock: CommitClock;
  #db: DatabaseSync;
  readonly #path: string;
  #closed = false;
  /** A sync has failed: nothing is written through this connection any more. */
  #isSuspect = false;
  readonly #statements = new Map<string, StatementSync>();
  /** Set once, by the store. */
  listener: TransactionListener | undefined;

  constructor(db: DatabaseSync, options: SqliteOptions) {
    this.#db = db;
    this.#path = db.location() ?? "";
    const transactions = {
      begin: () => {
        try {
          if (this.#isSuspect) this.#renew();
          this.run("BEGIN IMMEDIATE");
          this.listener?.began();
          return true;
        } catch (error) {
          if (isBusy(error)) return false;
          throw error;
        }
      },
      commit: () => {
        this.listener?.beforeCommit();
        this.run("COMMIT");
        this.listener?.committed();
      },
      rollback: () => {
        this.listener?.undone();
        this.run("ROLLBACK");
      },
      isDoubtful: (error: unknown) => {
        if (isSyncFailure(error)) this.#isSuspect = true;
        return this.#isSuspect;
      },
      explain,
    };
    this.#clock = new CommitClock(transactions, options.probe);
  }

  /**
   * A sync of the log has failed: what the system holds of it in memory may never reach the disk, whatever a later sync
   * says. All that was committed before is brought into the database file, the log is cut to nothing, and with it what
   * was being written; then everything is opened anew. As long as that does not succeed nothing is written.
   */
  #renew(): void {
    // "busy" is no error: then another process has it open, whose index of the log knows of nothing that was not synced.
    this.#prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
    this.#statements.clear();
    this.#db.close();
    this.#isSuspect = false;
  }

  #prepare(sql: string): StatementSync {
    if (!this.#db.isOpen && !this.#closed) this.#db = reopenDatabase(this.#path);
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  /** Runs a statement; the number of rows that it changed. */
  run(sql: string, ...parameters: Parameter[]): number {
    return Number(this.#prepare(sql).run(...parameters).changes);
  }

  /** Runs an INSERT; the row's number. */
  insert(sql: string, ...parameters: Parameter[]): number {
    return Number(this.#prepare(sql).run(...parameters).lastInsertRowid);
  }

  one<T>(sql: string, ...parameters: Parameter[]): T | undefined {
    try {
      return this.#prepare(sql).get(...parameters) as T | undefined;
    } catch (error) {
      throw this.#readError(error);
    }
  }

  all<T>(sql: string, ...parameters: Parameter[]): T[] {
    try {
      return this.#prepare(sql).all(...parameters) as T[];
    } catch (error) {
      throw this.#readError(error);
    }
  }

  /** A page that cannot be read is said in our words; inside a transaction the commit clock has to see the driver's. */
  #readError(error: unknown): unknown {
    return this.#db.isOpen && this.#db.isTransaction ? error : explain(error);
  }

  /** Hands a write to the commit clock; resolves after its fsync. Refusals must come before its first change. */
  write<T>(apply: () => T, now = true): Promise<T> {
    return this.#clock.write(apply, now);
  }

  /** Commits in this tick what has been handed in. */
  hurry(): void {
    this.#clock.hurry();
  }

  /** Commits now, in this call, what has been handed in. */
  flush(): void {
    this.#clock.flush();
  }

  /**
   * Brings the write-ahead log into the database file and cuts it to nothing. False: another process reads or
   * writes at this moment.
   */
  truncateLog(): boolean {
    return this.one<{ busy: number }>("PRAGMA wal_checkpoint(TRUNCATE)")?.busy === 0;
  }

  get isOpen(): boolean {
    return !this.#closed;
  }

  /** A number that changes when another process has written. */
  version(): number {
    return this.one<{ data_version: number }>("PRAGMA data_version")?.data_version ?? 0;
  }

  close(): void {
    this.flush();
    this.#closed = true;
    this.#statements.clear();
    if (this.#db.isOpen) this.#db.close();
  }
}
