/**
 * The queue on Postgres: pg-boss holds one job `{responseId}` for each response that waits for a worker.
 *
 * Invariant: a job is a hint that a response wants to be run; who runs it is decided by the claim in the store. A job is
 * put in with the response, in one transaction; it is taken out when the response has ended, waits for a person, or
 * stands behind another one, whose end puts it in again. A worker that dies is found out by its heartbeat, and its jobs
 * go to others.
 *
 * Whoever waits for jobs is woken by a NOTIFY of its own, after the commit and without waiting for the disk: in the
 * transaction it would make all commits of the database wait for each other. There is a queue for each profile.
 */
import type { Db, Job, PgBoss } from "pg-boss";
import { RotundaError } from "../types/error.ts";
import type { ResponseNode } from "../types/response.ts";
import type { Queue, SqlTransaction, WorkOptions } from "../types/runner.ts";
import { type Once, once } from "../util/once.ts";
import { mayHaveSkippedItsTurn } from "../util/turns.ts";

interface RunJob {
  responseId: string;
}

export interface PgBossOptions {
  /** postgres:// address. */
  url: string;
  /** Of the response store; the queue's own has `_queue` behind it. */
  schema: string;
  log(text: string): void;
}

/** Seconds. The lease of a response in the store is shorter than the heartbeat of its job. */
const HEARTBEAT = 10;
const REFRESH = 2_000;
/** Milliseconds between two looks where no NOTIFY comes. */
const POLL = 1_000;
const RETRIES = 20;
const PREFIX = "run.";

export function createPgBossQueue(options: PgBossOptions, children: (id: string) => Promise<ResponseNode[]>): Queue {
  return new PgBossQueue(options, children);
}

class PgBossQueue implements Queue {
  readonly #options: PgBossOptions;
  readonly #children: (id: string) => Promise<ResponseNode[]>;
  readonly #boss: Once<PgBoss>;
  readonly #queues = new Map<string, Promise<void>>();
  readonly #channel: string;
  #worker: Worker | undefined;
  #announcing: Promise<void> | undefined;
  readonly #toAnnounce = new Set<string>();
  #closed = false;

  constructor(options: PgBossOptions, children: (id: string) => Promise<ResponseNode[]>) {
    this.#options = options;
    this.#children = children;
    this.#channel = `${options.schema}_runs`.slice(0, 60);
    this.#boss = once(() => this.#start());
  }

  async #start(): Promise<PgBoss> {
    const { PgBoss } = await import("pg-boss");
    const { url, schema, log } = this.#options;
    const boss = new PgBoss({
      connectionString: url,
      schema: `${schema}_queue`,
      application_name: "rotunda queue",
      max: 4,
      // A worker that has died is noticed by whichever process looks first.
      supervise: true,
      superviseIntervalSeconds: 2,
      monitorIntervalSeconds: 2,
      schedule: false,
    });
    boss.on("error", (error) => log(`queue: ${error.message}`));
    await boss.start();
    return boss;
  }

  /** The queue of a profile, made if there is none. */
  async #queueOf(profile: string): Promise<string> {
    const name = queueName(profile);
    const boss = await this.#boss();
    let made = this.#queues.get(name);
    if (!made) {
      made = boss.createQueue(name, {
        retryLimit: RETRIES,
        retryDelay: 1,
        retryBackoff: true,
        retryDelayMax: 30,
        heartbeatSeconds: HEARTBEAT,
        expireInSeconds: 24 * 3_600 - 1,
        retentionSeconds: 30 * 86_400,
        deleteAfterSeconds: 3_600,
      });
      this.#queues.set(name, made);
      made.catch(() => this.#queues.delete(name));
    }
    await made;
    return name;
  }

  // ---- putting in

  takes({ settings }: ResponseNode, running: number): boolean {
    if (this.#closed) return false;
    // Whoever waits at the end of a connection is answered soonest by the process that has it.
    const room = this.#worker?.hasRoom(running) === true;
    return !(settings.foreground === true && room);
  }

  keeps({ status, endedAt }: ResponseNode): boolean {
    return endedAt === null && (status === "queued" || status === "in_progress");
  }

  async enqueue(transaction: SqlTransaction, { node }: { node: ResponseNode }): Promise<void> {
    await this.#send(node, transaction as Db);
  }

  async #send({ id, profile }: ResponseNode, db?: Db): Promise<void> {
    const boss = await this.#boss();
    const name = await this.#queueOf(profile);
    await boss.send(name, { responseId: id } satisfies RunJob, db ? { db } : {});
  }

  created(node: ResponseNode): void {
    this.#announce(queueName(node.profile));
  }

  async submit(node: ResponseNode): Promise<void> {
    await this.#send(node);
    this.#announce(queueName(node.profile));
  }

  left({ id, endedAt }: ResponseNode): void {
    this.#worker?.look();
    if (endedAt === null || this.#closed) return;
    // What stood behind it may go now.
    this.#letIn(id).catch((error: Error) =>
      this.#options.log(`queue: what stands behind ${id} was not put in: ${error.message}`),
    );
  }

  async #letIn(id: string): Promise<void> {
    for (const child of await this.#children(id)) {
      if (child.status === "queued") await this.submit(child);
      // It ended before its turn came: what stands behind it stood behind this one.
      else if (child.endedAt !== null && mayHaveSkippedItsTurn(child)) await this.#letIn(child.id);
    }
  }

  /** Those of one moment share one NOTIFY. */
  #announce(queue: string): void {
    this.#toAnnounce.add(queue);
    this.#announcing ??= this.#tell().finally(() => {
      this.#announcing = undefined;
    });
  }

  async #tell(): Promise<void> {
    while (this.#toAnnounce.size > 0) {
      const text = [...this.#toAnnounce].join(" ").slice(0, 7_900);
      this.#toAnnounce.clear();
      try {
        const db = (await this.#boss()).getDb();
        // Of this one statement's transaction: nobody waits for the disk.
        const sql = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)";
        await db.executeSql(sql, [this.#channel, text]);
      } catch {
        // Whoever waits looks by itself every second.
      }
    }
  }

  // ---- taking out

  async work(options: WorkOptions): Promise<void> {
    if (this.#worker) throw new RotundaError("internal", "this process works on the queue already");
    const boss = await this.#boss();
    for (const profile of options.profiles ?? []) await this.#queueOf(profile);
    this.#worker = new Worker(boss, options, this.#options.log);
    await this.#worker.start(this.#channel);
  }

  async drain(): Promise<void> {
    await this.#worker?.stop();
  }

  async depth(): Promise<Record<string, number>> {
    const boss = await this.#boss();
    const depth: Record<string, number> = {};
    for (const { name } of await boss.getQueues()) {
      if (!name.startsWith(PREFIX)) continue;
      const [stats] = await boss.getQueueStats(name, { force: true });
      depth[name.slice(PREFIX.length)] = stats?.queuedCount ?? 0;
    }
    return depth;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#worker?.stop();
    await this.#announcing;
    if (this.#boss.made()) await (await this.#boss()).stop({ graceful: false, close: true });
  }
}

/** Profiles whose names differ in odd characters only share a queue. */
function queueName(profile: string): string {
  return PREFIX + profile.replace(/[^\w.-]/g, "_");
}

/** One process's share of the work. */
class Worker {
  readonly #boss: PgBoss;
  readonly #options: WorkOptions;
  readonly #log: (text: string) => void;
  readonly #active = new Map<string, { name: string; job: Job<RunJob>; done: Promise<void> }>();
  #names: string[] = [];
  #namesAt = Number.NEGATIVE_INFINITY;
  #stopping = false;
  #loop: Promise<void> = Promise.resolve();
  #wake: PromiseWithResolvers<void> = Promise.withResolvers();
  #refresh: NodeJS.Timeout | undefined;
  #listening: { close(): Promise<void> } | undefined;
  /** Settled together, by queue. */
  #finished = new Map<string, Job<RunJob>[]>();
  #settling: Promise<void> | undefined;

  constructor(boss: PgBoss, options: WorkOptions, log: (text: string) => void) {
    this.#boss = boss;
    this.#options = options;
    this.#log = log;
  }

  hasRoom(running: number): boolean {
    return !this.#stopping && running < this.#options.concurrency;
  }

  async start(channel: string): Promise<void> {
    const look = () => this.look();
    this.#listening = await this.#boss.getDb().listen?.(channel, look, look);
    this.#refresh = setInterval(() => this.#beat(), REFRESH);
    this.#loop = this.#run();
  }

  /** There may be something to take. */
  look(): void {
    this.#wake.resolve();
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      this.#wake = Promise.withResolvers();
      let full = false;
      try {
        full = await this.#take();
      } catch (error) {
        this.#log(`queue: ${error instanceof Error ? error.message : String(error)}`);
      }
      if (full && this.#active.size < this.#options.concurrency) continue;
      const timer = setTimeout(() => this.#wake.resolve(), POLL);
      await this.#wake.promise;
      clearTimeout(timer);
    }
  }

  /** True: there may be more. Queues take turns in being first. */
  async #take(): Promise<boolean> {
    await this.#know();
    const first = this.#names.shift();
    if (first !== undefined) this.#names.push(first);
    let full = false;
    for (const name of this.#names) {
      const room = this.#options.concurrency - this.#active.size;
      if (room <= 0 || this.#stopping) return true;
      const jobs = await this.#boss.fetch<RunJob>(name, { batchSize: room });
      full ||= jobs.length >= room;
      for (const job of jobs) this.#begin(name, job);
    }
    return full;
  }

  async #know(): Promise<void> {
    if (performance.now() - this.#namesAt < 10 * POLL && this.#names.length > 0) return;
    this.#namesAt = performance.now();
    const own = this.#options.profiles?.map(queueName);
    const all = (await this.#boss.getQueues()).map(({ name }) => name).filter((name) => name.startsWith(PREFIX));
    this.#names = own ? all.filter((name) => own.includes(name)) : all;
  }

  #begin(name: string, job: Job<RunJob>): void {
    const done = this.#options
      .run(job.data.responseId, job.retryCount >= RETRIES)
      .then(
        () => this.#settle(name, job),
        async (error: Error) => {
          this.#log(`response ${job.data.responseId} is tried again: ${error.message}`);
          await this.#boss.fail(name, job, { message: error.message }).catch(() => undefined);
        },
      )
      .finally(() => {
        this.#active.delete(job.id);
        this.look();
      });
    this.#active.set(job.id, { name, job, done });
  }

  /** Jobs that end at one moment are taken out with one statement. */
  #settle(name: string, job: Job<RunJob>): Promise<void> {
    this.#finished.set(name, [...(this.#finished.get(name) ?? []), job]);
    this.#settling ??= new Promise<void>((resolve) => setImmediate(resolve)).then(async () => {
      const finished = this.#finished;
      this.#finished = new Map();
      this.#settling = undefined;
      // What is not taken out is tried again, and found to have ended.
      for (const [queue, jobs] of finished) await this.#boss.complete(queue, jobs).catch(() => undefined);
    });
    return this.#settling;
  }

  #beat(): void {
    const byQueue = Map.groupBy(this.#active.values(), ({ name }) => name);
    for (const [name, held] of byQueue) {
      this.#boss
        .touch(
          name,
          held.map(({ job }) => job),
        )
        .catch((error: Error) => this.#log(`queue: ${error.message}`));
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#wake.resolve();
    await this.#loop;
    await this.#listening?.close();
    this.#listening = undefined;
    await Promise.allSettled([...this.#active.values()].map(({ done }) => done));
    clearInterval(this.#refresh);
    await this.#settling;
  }
}
