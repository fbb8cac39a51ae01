/**
 * Commits on Postgres: what the clock hands out becomes transactions, and their outcomes the answers of the writers.
 *
 * Invariant: a write is answered once, after its commit. Transactions that stood in each other's way are repeated; what
 * was cut off by a lost connection is made once the server is back, for half a minute; of writes that cannot be made
 * together each is tried alone, so that only the guilty one is refused. What came after a refused part of a log is not
 * written.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { RotundaError } from "../types/error.ts";
import type { Batch, NewResponse } from "../types/store.ts";
import type { Appending } from "./postgres-append.ts";
import { LaneClock, type Write } from "./postgres-clock.ts";
import { isConflict, isLost } from "./postgres-connection.ts";
import type { Creation } from "./postgres-create.ts";
import { PATIENCE, type PostgresDatabase, type Transaction } from "./postgres-database.ts";
import { Rows } from "./postgres-rows.ts";

type LogWrite = Write & { kind: "log" } & ({ response: NewResponse } | { batch: Batch });

interface RecordsWrite extends Write {
  kind: "records";
  apply: (transaction: Transaction) => Promise<unknown>;
  locks: readonly string[];
  /** Others want to know of it soon: a control, an approval. */
  mark: boolean;
}

type AnyWrite = LogWrite | RecordsWrite;

type Outcome = { value: unknown } | { refused: Error };

/** How often a transaction that others stand in the way of is repeated before its writes are tried alone. */
const CONFLICTS = 6;

export interface CommitParts {
  db: PostgresDatabase;
  writers: number;
  creation: Creation;
  appending: Appending;
  tell(ids: Iterable<string>, mark: boolean): void;
  /** A transaction was undone. */
  undone(): void;
}

export class Commits {
  readonly #parts: CommitParts;
  readonly #clock: LaneClock<AnyWrite>;
  #closed = false;

  constructor(parts: CommitParts) {
    this.#parts = parts;
    this.#clock = new LaneClock<AnyWrite>(parts.writers, async (writes) => void (await this.#commit(writes)));
  }

  create(response: NewResponse): Promise<unknown> {
    return this.#write((ends) => ({ ...ends, kind: "log", key: response.node.id, response }), true);
  }

  async append(batch: Batch, now: boolean): Promise<void> {
    await this.#write((ends) => ({ ...ends, kind: "log", key: batch.responseId, batch }), now);
  }

  /** `apply` only runs statements, and refuses before the first one that changes something: it may be run again. */
  records<T>(
    apply: (transaction: Transaction) => T | Promise<T>,
    { key, locks = [], mark = false }: { key?: string; locks?: readonly string[]; mark?: boolean } = {},
  ): Promise<T> {
    const run = async (transaction: Transaction) => apply(transaction);
    return this.#write<T>((ends) => ({ ...ends, kind: "records", key, apply: run, locks, mark }), true);
  }

  #write<T>(make: (ends: Pick<Write, "resolve" | "reject">) => AnyWrite, now: boolean): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#closed) reject(new RotundaError("storage_failed", "the database is closed"));
      else this.#clock.write(make({ resolve: resolve as (value: unknown) => void, reject }), now);
    });
  }

  hurry(): void {
    this.#clock.hurry();
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#clock.drain();
  }

  // ---- what the clock hands out

  /** False: they were not written. */
  async #commit(writes: readonly AnyWrite[]): Promise<boolean> {
    // In this very tick: from now on nothing is added to them.
    for (const write of writes) if ("batch" in write) write.batch.sealed = true;
    const until = performance.now() + PATIENCE;
    for (let pause = 50, conflicts = 0; ; ) {
      try {
        const outcomes = await this.#attempt(writes);
        this.#settle(writes, outcomes);
        return true;
      } catch (error) {
        this.#parts.undone();
        const cut = isLost(error) && performance.now() < until && !this.#closed;
        const conflict = isConflict(error) && conflicts++ < CONFLICTS;
        if (!cut && !conflict) return this.#giveUp(writes, error);
        await sleep(conflict ? Math.random() * 10 * 2 ** conflicts : pause);
        if (cut) pause = Math.min(2 * pause, 1_000);
      }
    }
  }

  /** They cannot be written together: each alone, if that may help, so that only the guilty one is refused. */
  async #giveUp(writes: readonly AnyWrite[], error: unknown): Promise<boolean> {
    const alone = writes.length > 1 && !(error instanceof RotundaError) && !isLost(error);
    const failed = new Set<string | undefined>();
    for (const write of writes) {
      const behind = write.kind === "log" && failed.has(write.key);
      const written = alone && !behind && (await this.#commit([write]));
      if (!written) failed.add(write.key);
      // What was tried alone has its answer.
      if (!alone || behind) this.#refuse(write, this.#parts.db.explain(error));
    }
    return false;
  }

  /** What was handed in behind it would go on from something that is not there. */
  #refuse(write: AnyWrite, error: Error): void {
    write.reject(error);
    if (!("batch" in write)) return;
    const { responseId, fence } = write.batch;
    const isBehind = (other: AnyWrite) =>
      "batch" in other && other.batch.responseId === responseId && other.batch.fence === fence;
    this.#clock.withdraw(isBehind, error);
  }

  async #attempt(writes: readonly AnyWrite[]): Promise<Outcome[]> {
    const log = writes.filter((write) => write.kind === "log");
    const records = writes.filter((write) => write.kind === "records");
    return this.#parts.db.commit((transaction) =>
      log.length > 0 ? this.#applyLog(transaction, log) : applyRecords(transaction, records),
    );
  }

  async #applyLog(transaction: Transaction, writes: readonly LogWrite[]): Promise<Outcome[]> {
    const { creation, appending } = this.#parts;
    const rows = new Rows();
    const responses = writes.flatMap((write) => ("response" in write ? [write.response] : []));
    const batches = writes.flatMap((write) => ("batch" in write ? [write.batch] : []));
    const created = responses.length > 0 ? await creation.create(transaction, responses, rows) : [];
    const refusals = await appending.append(transaction, batches, rows);
    return writes.map((write) => {
      const result =
        "response" in write ? created[responses.indexOf(write.response)] : refusals[batches.indexOf(write.batch)];
      return result instanceof RotundaError ? { refused: result } : { value: result };
    });
  }

  #settle(writes: readonly AnyWrite[], outcomes: readonly Outcome[]): void {
    const told = new Set<string>();
    let mark = false;
    for (const [index, write] of writes.entries()) {
      const outcome = outcomes[index];
      if (!outcome || "refused" in outcome) {
        write.reject(outcome?.refused ?? new RotundaError("internal", "a write has no outcome"));
        continue;
      }
      write.resolve(outcome.value);
      if (write.kind === "records") {
        mark ||= write.mark;
        if (write.key !== undefined) told.add(write.key);
      } else if ("batch" in write) {
        const { events, node, approvals, responseId } = write.batch;
        if (events.length > 0 || node) told.add(responseId);
        mark ||= approvals.some(({ status }) => status !== "pending");
      } else told.add(write.response.node.id);
    }
    this.#parts.tell(told, mark);
  }
}

async function applyRecords(transaction: Transaction, writes: readonly RecordsWrite[]): Promise<Outcome[]> {
  transaction.lock([...new Set(writes.flatMap(({ locks }) => locks))]);
  const outcomes: Outcome[] = [];
  for (const { apply } of writes) {
    try {
      outcomes.push({ value: await apply(transaction) });
    } catch (error) {
      if (!(error instanceof RotundaError) || error.code.startsWith("storage_")) throw error;
      outcomes.push({ refused: error });
    }
  }
  return outcomes;
}
