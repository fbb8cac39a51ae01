/**
 * The write-ahead log after an erasure: it still holds the pages as they were, until it is cut.
 *
 * Invariant: every erasure counts up `done` in its own transaction; `truncated` is the count at which the log was
 * last cut. Whoever opens the database and finds them apart cuts it, so that a crash leaves nothing for good.
 */
import type { SqliteDatabase } from "./sqlite-database.ts";

/** Milliseconds after an erasure at which the log is cut: erasures in a row share one cut. */
const DELAY = 1_000;

export class LogTruncation {
  readonly #db: SqliteDatabase;
  readonly #before: () => Promise<void>;
  #timer: NodeJS.Timeout | null = null;

  /** `before` runs whenever it is time, before the log is cut: what is left to erase. */
  constructor(db: SqliteDatabase, before: () => Promise<void>) {
    this.#db = db;
    this.#before = before;
  }

  /** Inside the transaction of an erasure. */
  count(): void {
    this.#db.run("UPDATE erasure SET done = done + 1");
    this.schedule();
  }

  schedule(): void {
    if (this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#before()
        .then(() => this.truncate())
        // A full disk, a lock: the row says that it is still due.
        .catch(() => false)
        .then((cut) => {
          if (!cut && this.#db.isOpen) this.schedule();
        })
        .catch(() => undefined);
    }, DELAY);
    // A process that has nothing else to do ends, and closes the store on its way.
    this.#timer.unref();
  }

  #counts(): { done: number; truncated: number } {
    const counts = this.#db.one<{ done: number; truncated: number }>("SELECT done, truncated FROM erasure");
    return counts ?? { done: 0, truncated: 0 };
  }

  isDue(): boolean {
    const { done, truncated } = this.#counts();
    return done > truncated;
  }

  /** False: another process reads or writes at this moment. */
  truncate(): boolean {
    const { done, truncated } = this.#counts();
    if (done <= truncated) return true;
    if (!this.#db.truncateLog()) return false;
    const sql = "UPDATE erasure SET truncated = ? WHERE truncated < ?";
    this.#db.write(() => this.#db.run(sql, done, done), false).catch(() => undefined);
    return true;
  }

  /** Before the database is closed. Where another process is in the way, the next one to open it cuts the log. */
  close(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#db.flush();
    this.truncate();
    if (this.#timer) clearTimeout(this.#timer);
  }
}
