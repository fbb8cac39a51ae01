/**
 * News between the processes that share a database: after a commit, NOTIFY says which responses have new events, and
 * whether a control was sent or an approval settled.
 *
 * Invariant: news is a hint and never the truth: whoever is told reads; where the connection for news is away, whoever
 * waits looks by itself every second, and what could not be told is told when it is back.
 *
 * A NOTIFY in the transaction that it tells of would make all commits of all processes wait for each other: it is one of
 * its own, which waits for no disk. Payload: ids with a space between; "!" is a control or approval, "*" everything,
 * "?…" a test whether news arrives at all (it does not through a pooler that lends connections by transaction).
 */
import { randomBytes } from "node:crypto";
import { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import type { PostgresDatabase } from "./postgres-database.ts";

/** Milliseconds between two looks where no news comes, and between two where it should: one may have got lost. */
const POLL = 1_000;
const SELDOM = 5_000;
/** Milliseconds after news within which a reader may have missed it, if somebody else of this process read as well. */
const FRESH = 100;
const SOON = 25;
/** Ids in one payload: 8,000 bytes at most. */
const IDS = 200;
const PING = 10_000;
const HELLO = 2_000;
const RECONNECT = [100, 300, 1_000, 3_000, 10_000];

/** What is known of a response that somebody of this process reads along. */
interface Interest {
  /** Something came since it was last read. */
  news: boolean;
  at: number;
  used: number;
  readonly waiting: Set<() => void>;
}

/** Whether a process that has nothing else to do goes on because of a connection. */
function keepAlive({ connection: { stream } }: Client, wanted: boolean): void {
  if (!(stream instanceof Socket)) return;
  if (wanted) stream.ref();
  else stream.unref();
}

export class News {
  readonly #db: PostgresDatabase;
  readonly #channel: string;
  readonly #interests = new Map<string, Interest>();
  #client: Client | undefined;
  #running: Promise<void> | undefined;
  #closed = false;
  readonly #closing = Promise.withResolvers<void>();
  #version = 0;
  #looked = performance.now();
  #pending = new Set<string>();
  #telling: Promise<void> | undefined;
  #hello: { text: string; heard: () => void } | undefined;

  constructor(db: PostgresDatabase) {
    this.#db = db;
    this.#channel = `rotunda_${db.schema}`.slice(0, 60);
  }

  /** News comes and goes. */
  get isUp(): boolean {
    return this.#client !== undefined;
  }

  // ---- telling

  /** After a commit: responses with new events; `mark`: a control or an approval was among it. */
  tell(ids: Iterable<string>, mark: boolean): void {
    for (const id of ids) this.#pending.add(id);
    if (mark) this.#pending.add("!");
    if (this.#pending.size === 0) return;
    this.start();
    this.#flush();
  }

  #flush(): void {
    if (this.#telling || !this.#client || this.#pending.size === 0) return;
    const payloads = this.#payloads();
    this.#telling = this.#send(this.#client, payloads).then((sent) => {
      this.#telling = undefined;
      // It is told once the connection is back.
      if (!sent) for (const payload of payloads) for (const id of payload.split(" ")) this.#pending.add(id);
      else this.#flush();
    });
  }

  #payloads(): string[] {
    const ids = [...this.#pending];
    this.#pending = new Set();
    if (ids.length > 10 * IDS) return ["*"];
    return Array.from({ length: Math.ceil(ids.length / IDS) }, (_, index) =>
      ids.slice(index * IDS, (index + 1) * IDS).join(" "),
    );
  }

  async #send(client: Client, payloads: readonly string[]): Promise<boolean> {
    try {
      const text = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload";
      await client.query({ name: "notify", text, values: [this.#channel, payloads] });
      return true;
    } catch {
      client.end().catch(() => undefined);
      return false;
    }
  }

  // ---- hearing

  /** Changes with every control and approval that may have come, and now and then without any. */
  version(): number {
    this.start();
    if (performance.now() - this.#looked > (this.isUp ? SELDOM : POLL)) this.#mark();
    return this.#version;
  }

  #mark(): void {
    this.#looked = performance.now();
    this.#version++;
  }

  /** A response is about to be read: what comes from now on is news. */
  reading(id: string): void {
    const interest = this.#interests.get(id);
    if (interest) interest.news = false;
  }

  async changed(id: string, within: number): Promise<void> {
    this.start();
    const now = performance.now();
    const interest = this.#interests.get(id);
    if (!interest) {
      this.#forgetOld(now);
      // Nobody has listened for it so far: it is read once more.
      this.#interests.set(id, { news: false, at: 0, used: now, waiting: new Set() });
      return;
    }
    interest.used = now;
    if (interest.news || this.#closed) return;
    const longest = this.isUp ? within : Math.min(within, POLL);
    const wait = now - interest.at < FRESH ? Math.min(longest, SOON) : longest;
    const { waiting } = interest;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, wait);
    waiting.add(resolve);
    await promise;
    clearTimeout(timer);
    waiting.delete(resolve);
  }

  #forgetOld(now: number): void {
    if (this.#interests.size < 100) return;
    for (const [id, { used, waiting }] of this.#interests) {
      if (waiting.size === 0 && now - used > 10 * POLL) this.#interests.delete(id);
    }
  }

  #hear(payload: string): void {
    if (payload.startsWith("?")) {
      if (payload === this.#hello?.text) this.#hello.heard();
      return;
    }
    for (const id of payload.split(" ")) {
      if (id === "!") this.#mark();
      else if (id === "*") this.#everything();
      else this.#newsOf(this.#interests.get(id));
    }
  }

  #newsOf(interest: Interest | undefined): void {
    if (!interest) return;
    interest.news = true;
    interest.at = performance.now();
    for (const resolve of interest.waiting) resolve();
  }

  #everything(): void {
    this.#mark();
    for (const interest of this.#interests.values()) this.#newsOf(interest);
  }

  // ---- the connection

  start(): void {
    if (this.#running || this.#closed) return;
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#closed; failures++) {
      const began = performance.now();
      try {
        await this.#listen();
      } catch {
        // Whoever waits looks by itself; we try again.
      }
      if (performance.now() - began > 60_000) failures = 0;
      const pause = RECONNECT[Math.min(failures, RECONNECT.length - 1)] ?? 0;
      if (!this.#closed) await Promise.race([sleep(pause, undefined, { ref: false }), this.#closing.promise]);
    }
  }

  /** Resolves or rejects when the connection has ended. */
  async #listen(): Promise<void> {
    const client = await this.#db.connect();
    const ended = Promise.withResolvers<void>();
    client.on("end", () => ended.resolve());
    client.on("notification", ({ payload = "" }) => this.#hear(payload));
    try {
      // What is lost with a crash of the server is news, and nobody is there to hear it.
      await client.query("SET synchronous_commit = off");
      await client.query(`LISTEN ${client.escapeIdentifier(this.#channel)}`);
      if (!(await this.#hears(client))) return;
      this.#client = client;
      keepAlive(client, false);
      this.#everything();
      this.#flush();
      const ping = setInterval(() => {
        client.query("SELECT 1").catch(() => client.end().catch(() => undefined));
      }, PING);
      ping.unref();
      await Promise.race([ended.promise, this.#closing.promise]);
      clearInterval(ping);
    } finally {
      this.#client = undefined;
      await this.#telling;
      client.end().catch(() => undefined);
    }
  }

  async #hears(client: Client): Promise<boolean> {
    const heard = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => heard.resolve(false), HELLO);
    this.#hello = { text: `?${randomBytes(8).toString("hex")}`, heard: () => heard.resolve(true) };
    await client.query("SELECT pg_notify($1, $2)", [this.#channel, this.#hello.text]);
    const result = await heard.promise;
    clearTimeout(timer);
    this.#hello = undefined;
    return result;
  }

  /** What was committed is told first, if that is possible at all. */
  async close(): Promise<void> {
    const until = performance.now() + HELLO;
    if (this.#client) keepAlive(this.#client, true);
    while (this.#running !== undefined && performance.now() < until) {
      if (this.#telling === undefined && this.#pending.size === 0) break;
      await sleep(5);
    }
    this.#closed = true;
    this.#everything();
    this.#closing.resolve();
    await this.#running;
  }
}
