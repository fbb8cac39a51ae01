/** What is Postgres's own: its schema, many processes on it, leases by its clock, news between processes. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { openPostgresStore, type PostgresOptions } from "../../src/store/postgres.ts";
import { explainer } from "../../src/store/postgres-connection.ts";
import { migrations } from "../../src/store/postgres-schema.ts";
import type { NewResponse, Store } from "../../src/types/store.ts";
import { maskSecrets } from "../../src/util/mask.ts";
import { newProcessName } from "../../src/util/process-name.ts";
import { secretsInUrl } from "../../src/util/secrets.ts";
import { later } from "../support.ts";
import { freshSchema, hasPostgres, query, sharedPostgres } from "../support-postgres.ts";
import { databases, postgres, sqlite } from "./databases.ts";
import { runChild } from "./processes.ts";
import type { StalledWork } from "./stalled.ts";
import { approvalOf, batchOf, begin, conversationOf, end, ended, messageEntry, nodeOf } from "./support.ts";

interface Many {
  url: string;
  schema: string;
  /** A store of its own on the same database, as another process has it. */
  open(options?: PostgresOptions): Promise<Store>;
}

async function fresh(): Promise<Many> {
  const { url, schema } = (await postgres.fresh()).place as { url: string; schema: string };
  return {
    url,
    schema,
    open: async (options = {}) => {
      const store = await openPostgresStore(url, { ...options, schema });
      later(() => store.close().catch(() => undefined));
      return store;
    },
  };
}

const responseOf = (rest: Partial<NewResponse> = {}): NewResponse => ({
  node: nodeOf(),
  input: [messageEntry("input", "go")],
  events: [{ type: "response.created", sequence_number: 0 }],
  process: newProcessName(),
  conversation: null,
  ...rest,
});

describe.runIf(hasPostgres)("the schema", () => {
  test("eight processes bring an empty database to it at once", async () => {
    const { url } = await sharedPostgres();
    const schema = freshSchema();
    later(async () => void (await query(url, `DROP SCHEMA ${schema} CASCADE`)));
    const work = { url, schema, what: "audits", name: "p", count: 1 } as const;
    const ends = await Promise.all(Array.from({ length: 8 }, () => runChild(work)));
    expect(ends.map(({ said }) => said?.done)).toEqual(Array.from({ length: 8 }, () => true));
    const rows = await query(url, `SELECT number FROM ${schema}.migrations ORDER BY number`);
    expect(rows.map(({ number }) => number)).toEqual(migrations.map((_, index) => index + 1));
    expect(await query(url, `SELECT 1 FROM ${schema}.audit`)).toHaveLength(8);
  });

  test("one of a newer version is refused with the remedy, and left as it is", async () => {
    const { url, schema, open } = await fresh();
    await open();
    await query(url, `INSERT INTO ${schema}.migrations VALUES (999)`);
    const refused = openPostgresStore(url, { schema });
    await expect(refused).rejects.toMatchObject({
      code: "storage_failed",
      message: expect.stringContaining("newer Rotunda"),
      remedy: expect.stringContaining("Upgrade"),
    });
    expect(await query(url, `SELECT max(number) AS last FROM ${schema}.migrations`)).toEqual([{ last: 999 }]);
    await expect(openPostgresStore(url, { schema: 'x"; DROP' })).rejects.toMatchObject({ code: "config_invalid" });
  });

  test("has SQLite's tables with their columns, but for what its file says", async () => {
    const [here, there] = [await fresh(), await sqlite.fresh()];
    await Promise.all([here.open(), there.open()]);
    const columns = (rows: Record<string, unknown>[]) => new Set(rows.map((row) => `${row.name}.${row.column}`));
    const ours = columns(
      await query(
        here.url,
        'SELECT table_name AS name, column_name AS "column" FROM information_schema.columns WHERE table_schema = $1',
        [here.schema],
      ),
    );
    const theirs = columns(
      await there.query(
        `SELECT tables.name AS name, columns.name AS "column" FROM sqlite_master AS tables,
           pragma_table_info(tables.name) AS columns WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite_%'`,
      ),
    );
    const only = (one: Set<string>, other: Set<string>) => [...one].filter((name) => !other.has(name)).sort();
    expect(only(theirs, ours)).toEqual([
      ...["entries.key", "erasure.done", "erasure.number", "erasure.truncated", "events.key", "responses.lease_until"],
      ...["tail.body", "tail.key", "tail.writer"],
    ]);
    expect(only(ours, theirs)).toEqual([
      ...["entries.cost", "entries.number", "entries.position", "entries.side", "entries.tokens", "events.first"],
      ...[
        "events.number",
        "migrations.number",
        "processes.name",
        "processes.until",
        "responses.cost",
        "responses.tokens",
      ],
    ]);
  });

  test("a database of another encoding is refused", async () => {
    const { url, urlOf } = await sharedPostgres();
    const name = freshSchema();
    await query(url, `CREATE DATABASE ${name} ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`);
    later(async () => void (await query(url, `DROP DATABASE ${name} WITH (FORCE)`)));
    await expect(openPostgresStore(urlOf(name))).rejects.toMatchObject({ remedy: expect.stringContaining("UTF8") });
  });
});

describe.runIf(hasPostgres)("D7 two processes, one database", () => {
  test("of many that claim a response at once, one gets it; its fence is the only one that writes", async () => {
    const { open } = await fresh();
    const stores = await Promise.all(Array.from({ length: 4 }, () => open()));
    const [first] = stores;
    if (!first) throw new Error("no store");
    for (let round = 0; round < 10; round++) {
      const response = responseOf({ process: null });
      await first.create(response);
      const { id } = response.node;
      expect(await first.leaseOf(id)).toBeUndefined();
      const names = stores.map((_, index) => `elsewhere/1/1/${round}.${index}`);
      const leases = await Promise.all(stores.map((store, index) => store.claim(id, names[index] ?? "")));
      const held = leases.filter((lease) => lease !== undefined);
      expect(held).toHaveLength(1);
      const [lease] = held;
      expect(await first.leaseOf(id)).toEqual(lease);
      const fences = stores.map((_, index) => (lease?.fence ?? 0) - 1 + (index % 2));
      const written = await Promise.allSettled(
        stores.map((store, index) => store.append(batchOf(id, { fence: fences[index] ?? 0 }), true)),
      );
      expect(written.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "rejected", "fulfilled"]);
    }
  });

  test("a lease of another machine holds until it is over by the database's clock", async () => {
    const { open } = await fresh();
    const [first, second] = [await open({ lease: 2_000 }), await open({ lease: 2_000 })];
    const elsewhere = "elsewhere/7/7/a";
    const { node } = responseOf();
    await first.create(responseOf({ node, process: elsewhere }));
    expect(first.renewEvery).toBe(500);
    for (let beat = 0; beat < 12; beat++) {
      await sleep(200);
      await first.renew(elsewhere);
      expect(await second.claim(node.id, "elsewhere/8/8/b")).toBeUndefined();
    }
    expect(await second.leaseOf(node.id)).toEqual({ process: elsewhere, fence: 1 });
    expect(await second.abandoned(10)).toEqual([]);
    await expect.poll(async () => (await second.leaseOf(node.id))?.over, { timeout: 10_000 }).toBe(true);
    expect((await second.abandoned(10)).map(({ id }) => id)).toEqual([node.id]);
    expect(await second.claim(node.id, "elsewhere/8/8/b")).toEqual({ process: "elsewhere/8/8/b", fence: 2 });
    // Whoever had it may renew what it likes.
    await first.renew(elsewhere);
    await expect(first.append(batchOf(node.id), true)).rejects.toMatchObject({ code: "owned_elsewhere" });
  });

  test("what a dead process of this host has is taken over at once", async () => {
    const { open } = await fresh();
    const store = await open();
    const [machine, , start, random] = newProcessName().split("/");
    const dead = [machine, 4_194_305, start, random].join("/");
    const response = responseOf({ process: dead });
    await store.create(response);
    expect((await store.abandoned(10)).map(({ id }) => id)).toEqual([response.node.id]);
    expect(await store.claim(response.node.id, newProcessName())).toMatchObject({ fence: 2 });
  });

  test.each(["between", "commit"] as const)(
    "a worker that stalls (%s) loses its response, and writes nothing when it wakes up",
    async (stall) => {
      const { url, schema, open } = await fresh();
      const store = await open();
      const work: StalledWork = { url, schema, lease: 800, stall };
      const child = spawn(process.execPath, [join(import.meta.dirname, "stalled.ts"), JSON.stringify(work)], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      later(() => void child.kill("SIGKILL"));
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      const { id } = JSON.parse((await lines.next()).value ?? "{}") as { id: string };
      if (stall === "between") child.kill("SIGSTOP");
      await untilStopped(child);
      // With a commit half done it holds the row's lock, until the server has lost patience with it.
      await expect
        .poll(() => store.claim(id, "elsewhere/9/9/c"), { timeout: 25_000, interval: 100 })
        .toMatchObject({ fence: 2 });
      await store.append(batchOf(id, { fence: 2, entries: [messageEntry("output", "taken over", 5)] }), true);
      child.kill("SIGCONT");
      if (stall === "between") child.kill("SIGUSR2");
      expect(JSON.parse((await lines.next()).value ?? "{}")).toEqual({ refused: "owned_elsewhere" });
      const said = JSON.stringify((await store.get(id))?.entries);
      expect(said).toContain("in time");
      expect(said).toContain("taken over");
      expect(said).not.toContain("too late");
      if (child.exitCode === null) await once(child, "exit");
    },
    60_000,
  );

  test("two turns of one conversation at once: one is told that it has gone on", async () => {
    const { open } = await fresh();
    const [first, second] = [await open(), await open()];
    const conversation = conversationOf();
    const root = await ended(first, { conversation });
    const turn = () => {
      const node = nodeOf({ previousResponseId: root, conversationId: conversation.id });
      return responseOf({ node, conversation: { ...conversation, head: node.id }, linear: true });
    };
    for (let round = 0; round < 5; round++) {
      const head = (await first.conversation(conversation.id))?.head;
      const made = await Promise.allSettled(
        [first, second, first, second].map((store) => {
          const response = turn();
          response.node.previousResponseId = head ?? null;
          return store.create(response);
        }),
      );
      expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      for (const outcome of made) {
        if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ code: "owned_elsewhere" });
      }
    }
    expect(await first.path((await second.conversation(conversation.id))?.head ?? "")).toHaveLength(6);
  });

  test("one key at two servers at once: one response, and both are told of it", async () => {
    const { open } = await fresh();
    const [first, second] = [await open(), await open()];
    for (let round = 0; round < 10; round++) {
      const idempotency = { key: `k${round}`, digest: "d", expiresAt: Date.now() + 60_000 };
      const made = await Promise.all([first, second, first, second].map((store) => begin(store, { idempotency })));
      const ids = made.map(({ node, known }) => known?.responseId ?? node.id);
      expect(new Set(ids).size).toBe(1);
      expect(made.filter(({ known }) => known === undefined)).toHaveLength(1);
    }
    expect(await first.list({ limit: 100 })).toHaveLength(10);
  });

  test("much from four processes at once, across each other: nothing is lost, nothing is left half done", async () => {
    const { open } = await fresh();
    const stores = await Promise.all(Array.from({ length: 4 }, () => open()));
    const conversations = Array.from({ length: 3 }, () => conversationOf());
    const work = stores.flatMap((store, one) =>
      Array.from({ length: 12 }, async (_, two) => {
        const conversation = conversations[(one + two) % 3] ?? null;
        const { node } = await begin(store, { conversation, input: `${one}.${two}` });
        await store.append(batchOf(node.id, { approvals: [approvalOf(node.id)] }), true);
        await end(store, node.id);
        if (two % 3 === 0) expect(await stores[(one + 1) % 4]?.delete(node.id)).toBe(true);
        return node.id;
      }),
    );
    const ids = await Promise.all(work);
    const left = ids.filter((_, index) => index % 3 !== 0);
    const listed = await stores[0]?.list({ limit: 1_000 });
    expect(new Set(listed?.map(({ id }) => id))).toEqual(new Set(left));
    for (const id of left) expect((await stores[1]?.get(id))?.node.status).toBe("completed");
  });
});

async function untilStopped(child: ChildProcess): Promise<void> {
  const { readFileSync } = await import("node:fs");
  const state = () => readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1]?.[0];
  await expect.poll(state, { timeout: 20_000 }).toBe("T");
}

describe.runIf(hasPostgres)("a response that nobody has yet", () => {
  test("is enqueued in the transaction that makes it, or neither is done", async () => {
    const { url, schema, open } = await fresh();
    await open();
    await query(url, `CREATE TABLE ${schema}.jobs (id text PRIMARY KEY)`);
    const store = await open({
      enqueue: async (transaction, { node }) => {
        const { rows } = await transaction.executeSql(`INSERT INTO ${schema}.jobs VALUES ($1) RETURNING id`, [node.id]);
        expect(rows).toEqual([{ id: node.id }]);
        if (node.profile === "broken") await transaction.executeSql("SELECT 1 / 0");
      },
    });
    const good = responseOf({ process: null });
    const bad = responseOf({ process: null, node: nodeOf({ profile: "broken" }) });
    const own = responseOf();
    const made = await Promise.allSettled([good, bad, own].map((response) => store.create(response)));
    expect(made.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect((await store.list({})).map(({ id }) => id).sort()).toEqual([good.node.id, own.node.id].sort());
    expect(await query(url, `SELECT id FROM ${schema}.jobs`)).toEqual([{ id: good.node.id }]);
    expect((await store.abandoned(10)).map(({ id }) => id)).toEqual([good.node.id]);
    expect(await store.claim(good.node.id, newProcessName())).toMatchObject({ fence: 2 });
  });
});

describe.runIf(hasPostgres)("news", () => {
  /** Milliseconds until `changed` has resolved. */
  async function waited(changed: Promise<void>): Promise<number> {
    const began = performance.now();
    await changed;
    return performance.now() - began;
  }

  test("of a commit reaches another process long before it would look by itself; of others it hears nothing", async () => {
    const { open } = await fresh();
    const [writer, reader] = [await open(), await open()];
    const { node } = await begin(writer);
    const { node: other } = await begin(writer);
    const ready = async () => {
      await reader.events(node.id, -1, 10);
      await reader.changed(node.id, 0);
    };
    await expect
      .poll(async () => (await ready(), await heard(writer, reader, node.id)), { timeout: 10_000 })
      .toBe(true);
    await ready();
    await sleep(200);
    await reader.events(node.id, -1, 10);
    const foreign = waited(reader.changed(node.id, 700));
    await writer.append(batchOf(other.id, { node: { waited: 1 } }), true);
    expect(await foreign).toBeGreaterThan(500);
    // News that came between reading and waiting is not missed.
    await reader.events(node.id, -1, 10);
    await writer.append(batchOf(node.id, { node: { waited: 2 } }), true);
    await sleep(300);
    expect(await waited(reader.changed(node.id, 20_000))).toBeLessThan(10_000);
  });

  async function heard(writer: Store, reader: Store, id: string): Promise<boolean> {
    const news = waited(reader.changed(id, 20_000));
    await writer.append(batchOf(id, { node: { waited: 3 } }), true);
    return (await news) < 10_000;
  }

  test("the version changes with a control and an answer, and hardly with anything else", async () => {
    const { open } = await fresh();
    const [writer, reader] = [await open(), await open()];
    const { node } = await begin(writer);
    const approval = approvalOf(node.id);
    await writer.append(batchOf(node.id, { approvals: [approval] }), true);
    reader.version();
    await sleep(500);
    const changes: [string, () => Promise<unknown>][] = [
      ["control", () => writer.sendControl({ responseId: node.id, kind: "cancel", reason: "r", items: null })],
      ["answer", () => writer.settleApproval({ ...approval, status: "allowed" })],
    ];
    for (const [what, change] of changes) {
      const before = reader.version();
      await change();
      await expect.poll(() => reader.version() !== before, { timeout: 4_000, message: what }).toBe(true);
    }
    expect(await reader.takeControls([node.id])).toMatchObject([{ kind: "cancel", reason: "r" }]);
  });

  test("where no news comes through, whoever waits looks by itself", async () => {
    const { url, open } = await fresh();
    const [writer, reader] = [await open(), await open()];
    const { node } = await begin(writer);
    reader.version();
    await reader.changed(node.id, 0);
    const deaf = new AbortController();
    const silence = (async () => {
      while (!deaf.signal.aborted) {
        const ours = "pid <> pg_backend_pid() AND (query LIKE '%pg_notify%' OR query LIKE 'LISTEN%')";
        await query(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${ours}`);
        await sleep(20);
      }
    })();
    await sleep(300);
    await reader.events(node.id, -1, 10);
    await writer.append(batchOf(node.id, { events: [{ type: "response.in_progress", sequence_number: 1 }] }), true);
    expect(await waited(reader.changed(node.id, 30_000))).toBeLessThan(10_000);
    const before = reader.version();
    await expect.poll(() => reader.version() !== before, { timeout: 10_000 }).toBe(true);
    deaf.abort();
    await silence;
  });

  test("a store that closes lets nobody wait", async () => {
    const { open } = await fresh();
    const store = await open();
    await store.changed("resp_x", 10);
    const waits = waited(store.changed("resp_x", 60_000));
    await store.close();
    expect(await waits).toBeLessThan(30_000);
    await expect(
      store.audit({ action: "token", who: "", door: "", responseId: null, at: 1, details: {} }),
    ).rejects.toMatchObject({ code: "storage_failed" });
  });
});

describe.runIf(hasPostgres)("texts", () => {
  const odd = "a\0b \ud800 \u0001 \u{1f600} 'quote' \\ {x,\"y\"} \udfff";

  test("that Postgres cannot hold come back as they were, wherever they stand", async () => {
    const { open } = await fresh();
    const store = await open();
    const conversation = conversationOf({ name: odd, title: odd, workspace: odd, metadata: { [odd]: odd } });
    const idempotency = { key: odd, digest: odd, expiresAt: Date.now() + 60_000 };
    const { node } = await begin(store, { input: odd, conversation, idempotency, workspace: odd });
    const approval = approvalOf(node.id, { arguments: odd, why: odd });
    await store.append(batchOf(node.id, { outputs: [{ itemId: "mcp_odd", text: odd }], approvals: [approval] }), true);
    await store.sendControl({ responseId: node.id, kind: "steer", reason: odd, items: null });
    await store.addRule({ id: "rule_1", scope: "always", holder: odd, rule: odd, createdAt: 1 });
    expect(await store.output("mcp_odd")).toBe(odd);
    expect(await store.conversation(odd)).toMatchObject({
      name: odd,
      title: odd,
      workspace: odd,
      metadata: { [odd]: odd },
    });
    expect(await store.idempotency("local", odd)).toMatchObject({ key: odd, digest: odd, responseId: node.id });
    expect(await store.approval(approval.id)).toEqual(approval);
    expect(await store.takeControls([node.id])).toMatchObject([{ reason: odd }]);
    expect(await store.rules([odd])).toMatchObject([{ holder: odd, rule: odd }]);
    expect(JSON.stringify((await store.get(node.id))?.entries)).toContain(JSON.stringify(odd).slice(1, -1));
    await end(store, node.id, odd);
    expect((await store.get(node.id))?.node).toMatchObject({ status: "completed", workspace: odd });
    expect(JSON.stringify(await store.events(node.id, -1, 10))).toContain(JSON.stringify(odd).slice(1, -1));
    // What cannot be an id is no error of the database's.
    expect(await store.node(odd)).toBeUndefined();
    expect(await store.resolve(odd, ["response", "conversation", "item", "approval"])).toEqual([]);
  });

  test("a response has the same hash on both databases", async () => {
    const stores = await Promise.all(databases.map(async ({ fresh: make }) => (await make()).open()));
    const [node, input] = [nodeOf({ createdAt: 1_700_000_000_000 }), messageEntry("input", "ask\0 \u{1f600}")];
    const answer = messageEntry("output", "say\u2028 it");
    const hashes = await Promise.all(
      stores.map(async (store) => {
        await store.create({ node, input: [input], events: [], process: "h/1/1/x", conversation: null });
        const usage = { ...node.usage, total_tokens: 7, cost: 0.25 };
        const change = { status: "completed" as const, endedAt: 1_700_000_000_500, hash: "due", usage };
        await store.append(batchOf(node.id, { entries: [answer], node: change }), true);
        const child = await ended(store, { id: `resp_${"0".repeat(26)}`, createdAt: 1, previousResponseId: node.id });
        return [(await store.node(node.id))?.hash, (await store.path(child)).length];
      }),
    );
    expect(new Set(hashes.map(([hash]) => hash)).size).toBe(1);
    expect(hashes.map(([, length]) => length)).toEqual(stores.map(() => 2));
  });
});

test("errors of the database are ours: a full disk, a lost connection, a damaged page; no password in any of them", () => {
  const explain = explainer("postgres://u:hunter2%21x@host/db?sslpassword=hunter3xy");
  const fault = (code: string, text: string) => explain(Object.assign(new Error(text), { code }));
  expect(fault("53100", "could not extend file")).toMatchObject({ code: "storage_full", remedy: expect.anything() });
  expect(fault("XX001", "invalid page")).toMatchObject({ code: "storage_damaged" });
  expect(fault("57P01", "terminating")).toMatchObject({ code: "storage_failed", remedy: expect.anything() });
  expect(fault("53300", "too many")).toMatchObject({ remedy: expect.stringContaining("PgBouncer") });
  expect(fault("28P01", "failed")).toMatchObject({ remedy: expect.stringContaining("password") });
  const told = explain(new Error("cannot parse postgres://u:hunter2%21x@host with hunter2!x and hunter3xy"));
  expect(told.message).not.toMatch(/hunter/);
  expect(told.message).toContain("host/db");
  expect(told.cause).toBeUndefined();
});

test.each([
  ["postgres://u:hunter2word@host:5432/db", "hunter2word"],
  ["postgres://u:hunter2word@/db?host=%2Frun%2Fpostgresql", "hunter2word"],
  ["postgres://u:hunter2word@one:5432,two:5432/db", "hunter2word"],
  ["postgres://u:hunter2%40word@[::1]/db", "hunter2@word"],
  ["postgres:///db?host=/tmp&user=u&password=hunter2word", "hunter2word"],
])("the password of %s is known as a secret, and shown nowhere", (address, password) => {
  expect(secretsInUrl(address)).toContain(password);
  expect(JSON.stringify(maskSecrets({ database: address }))).not.toContain("hunter2word");
  expect(explainer(address)(new Error(`no way to ${address}`)).message).not.toMatch(/hunter2/);
});
