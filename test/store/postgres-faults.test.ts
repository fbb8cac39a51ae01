/** What becomes of writes when the connection, the server or the process that made them goes away. */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { openPostgresStore, type PostgresOptions } from "../../src/store/postgres.ts";
import type { RunEvent } from "../../src/types/event.ts";
import type { Store } from "../../src/types/store.ts";
import { later } from "../support.ts";
import { freshSchema, hasPostgres, type PostgresServer, query } from "../support-postgres.ts";
import { postgres } from "./databases.ts";
import { startProxy } from "./proxy.ts";
import { auditOf, batchOf, begin, end, messageEntry } from "./support.ts";

type At = { url: string; schema: string };

async function openStore(url: string, schema: string, options: PostgresOptions = {}): Promise<Store> {
  const store = await openPostgresStore(url, { ...options, schema });
  later(() => store.close().catch(() => undefined));
  return store;
}

async function freshPlace(): Promise<At> {
  return (await postgres.fresh()).place as At;
}

const delta = (sequence_number: number, text: string): RunEvent => ({
  type: "response.output_text.delta",
  sequence_number,
  output_index: 0,
  content_index: 0,
  item_id: "msg_x",
  delta: text,
});

const isCommit = (text: string) => text.includes("COMMIT\0");

describe.runIf(hasPostgres)("a connection that is cut", () => {
  test.each(["before", "after"] as const)(
    "%s the server has heard of the commit: the write is told once it is true, and there is one of it",
    async (cut) => {
      const { url, schema } = await freshPlace();
      const proxy = await startProxy(url);
      const store = await openStore(proxy.url, schema);
      const { node } = await begin(store);
      let cuts = 0;
      proxy.onSend = (text) => (isCommit(text) && cuts++ < 1 ? cut : undefined);
      const audits = [auditOf("one"), auditOf("two")];
      await store.append(batchOf(node.id, { events: [delta(1, "hello")], audits }), true);
      expect(cuts).toBeGreaterThan(0);
      expect((await store.audits(0, 10)).map(({ details }) => details.what)).toEqual(["one", "two"]);
      expect(await query(url, `SELECT first, last FROM ${schema}.events WHERE first = 1`)).toHaveLength(1);
      cuts = 0;
      const idempotency = { key: "k", digest: "d", expiresAt: Date.now() + 60_000 };
      const made = await begin(store, { idempotency });
      expect(cuts).toBeGreaterThan(0);
      expect(made.known).toBeUndefined();
      expect(await store.list({ limit: 10 })).toHaveLength(2);
      cuts = 0;
      await end(store, made.node.id);
      expect(cuts).toBeGreaterThan(0);
      expect((await store.get(made.node.id))?.node).toMatchObject({ status: "completed" });
    },
  );

  test("at any moment, again and again: every write is made once, in order, and every stream is whole", async () => {
    const { url, schema } = await freshPlace();
    const proxy = await startProxy(url);
    const store = await openStore(proxy.url, schema);
    let seed = 42;
    const random = () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return seed / 2 ** 31;
    };
    let cuts = 0;
    proxy.onSend = () => {
      if (random() > 0.15) return undefined;
      cuts++;
      return random() < 0.5 ? "before" : "after";
    };
    const speak = async (name: string) => {
      const { node } = await begin(store);
      for (let number = 1; number <= 12; number++) {
        const audits = [auditOf(`${name} ${number}`)];
        await store.append(batchOf(node.id, { events: [delta(number, `${name} ${number}`)], audits }), true);
      }
      return node.id;
    };
    const names = ["a", "b", "c", "d", "e", "f"];
    const ids = await Promise.all(names.map(speak));
    proxy.onSend = () => undefined;
    expect(cuts).toBeGreaterThan(10);
    const whole = await openStore(url, schema);
    const audits = await whole.audits(0, 1_000);
    expect(audits.every(({ intact }) => intact)).toBe(true);
    expect(audits).toHaveLength(12 * names.length);
    for (const [index, name] of names.entries()) {
      const told = audits.map(({ details }) => String(details.what)).filter((what) => what.startsWith(name));
      expect(told).toEqual(Array.from({ length: 12 }, (_, number) => `${name} ${number + 1}`));
      const rows = await query(
        url,
        `SELECT log.first, log.last FROM ${schema}.events AS log JOIN ${schema}.responses USING (number)
         WHERE id = $1 ORDER BY first`,
        [ids[index]],
      );
      expect(rows.map(({ first }) => first)).toEqual(Array.from({ length: 13 }, (_, number) => number));
    }
  }, 60_000);

  test("all sessions ended by an operator while many write: nobody notices but by the time it takes", async () => {
    const { url, schema } = await freshPlace();
    const store = await openStore(url, schema);
    const stop = AbortSignal.timeout(3_000);
    const written: string[] = [];
    const write = async (name: number) => {
      for (let number = 0; !stop.aborted; number++) {
        const what = `${name} ${number}`;
        await store.audit(auditOf(what));
        written.push(what);
      }
    };
    const terminate = async () => {
      let ended = 0;
      while (!stop.aborted) {
        await sleep(120);
        const sql =
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rotunda' AND pid <> pg_backend_pid()";
        ended += (await query(url, sql)).length;
      }
      return ended;
    };
    const [ended] = await Promise.all([terminate(), ...Array.from({ length: 8 }, (_, name) => write(name))]);
    expect(ended).toBeGreaterThan(10);
    const records = await store.audits(0, 100_000);
    const told = records.map(({ details }) => String(details.what));
    expect(new Set(told).size).toBe(told.length);
    expect(new Set(told)).toEqual(new Set(written));
    expect(records.every(({ intact }) => intact)).toBe(true);
  }, 60_000);
});

test.runIf(hasPostgres)(
  "a write that the database refuses takes no other's with it; what stood behind it in its log is not written",
  async () => {
    const { url, schema } = await freshPlace();
    const store = await openStore(url, schema);
    await query(url, `ALTER TABLE ${schema}.events ADD CHECK (body NOT LIKE '%poison%')`);
    const [{ node: bad }, { node: good }] = await Promise.all([begin(store), begin(store)]);
    const say = (id: string, number: number, text: string) =>
      store.append(batchOf(id, { events: [delta(number, text)] }), true).then(
        () => "written",
        (error: { code: string }) => error.code,
      );
    const first = [say(bad.id, 1, "fine"), say(bad.id, 2, "poison"), say(good.id, 1, "fine"), say(bad.id, 3, "behind")];
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    // Handed in while those before it are under way.
    const then = [say(bad.id, 4, "far behind"), say(good.id, 2, "fine")];
    expect(await Promise.all(first)).toEqual(["written", "storage_failed", "written", "storage_failed"]);
    expect(await Promise.all(then)).toEqual(["storage_failed", "written"]);
    const sql = `SELECT first FROM ${schema}.events JOIN ${schema}.responses USING (number) WHERE id = $1 ORDER BY first`;
    expect((await query(url, sql, [bad.id])).map((row) => row.first)).toEqual([0, 1]);
    expect((await query(url, sql, [good.id])).map((row) => row.first)).toEqual([0, 1, 2]);
    // Whoever takes the run up anew goes on from what is stored.
    expect(await say(bad.id, 2, "again")).toBe("written");
  },
);

describe.runIf(hasPostgres && process.env.ROTUNDA_TEST_POSTGRES === undefined)("a server that goes away", () => {
  const server = async (): Promise<PostgresServer> => {
    const { startPostgres } = await import("../support-postgres.ts");
    // What was acknowledged must survive: with fsync, as in earnest.
    const started = await startPostgres({ fsync: true });
    later(() => started.stop());
    return started;
  };

  test("killed and started anew: what was acknowledged is there, what waited is written, followers go on", async () => {
    const running = await server();
    const schema = freshSchema();
    const [store, other] = [await openStore(running.url, schema), await openStore(running.url, schema)];
    const { node } = await begin(store);
    const acknowledged: number[] = [];
    const follow = (async () => {
      const seen: number[] = [];
      while (seen.length < 60) {
        const events = await other.events(node.id, seen.length - 1, 100).catch(() => []);
        for (const event of events) seen.push(event.sequence_number);
        if (events.length === 0) await other.changed(node.id, 200);
      }
      return seen;
    })();
    const item = messageEntry("output", "").item;
    const added: RunEvent = { type: "response.output_item.added", sequence_number: 1, output_index: 0, item };
    await store.append(batchOf(node.id, { events: [added] }), true);
    const speak = (async () => {
      for (let number = 2; number < 60; number++) {
        await store.append(batchOf(node.id, { events: [delta(number, `${number}`)] }), true);
        acknowledged.push(number);
        await sleep(20);
      }
    })();
    await sleep(300);
    await running.kill();
    const before = acknowledged.length;
    await sleep(300);
    await running.start();
    await speak;
    expect(before).toBeLessThan(58);
    expect(await follow).toEqual(Array.from({ length: 60 }, (_, number) => number));
    expect(await store.events(node.id, -1, 1_000)).toHaveLength(60);
  }, 60_000);

  test("one that is not there is told with the remedy, and never with the password", async () => {
    const url = "postgres://someone:s3cret-pass@127.0.0.1:1/nothing?connect_timeout=1";
    const error = await openPostgresStore(url).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "storage_failed", remedy: expect.stringContaining("server runs") });
    const { inspect } = await import("node:util");
    expect(`${String(error)} ${inspect(error, { depth: 9 })}`).not.toContain("s3cret");
    expect(String(error)).toContain("127.0.0.1:1");
    const running = await server();
    const none = await openPostgresStore(running.urlOf("nowhere")).catch((thrown: unknown) => thrown);
    expect(none).toMatchObject({ code: "storage_failed", remedy: expect.stringContaining("createdb") });
    expect(inspect(none, { depth: 9 })).not.toContain("secret-of-tests");
  }, 60_000);
});
