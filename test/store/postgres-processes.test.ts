/** Many processes on one Postgres database: who runs what, until when, and what they hear of each other. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Store } from "../../src/types/store.ts";
import { newProcessName } from "../../src/util/process-name.ts";
import { later } from "../support.ts";
import { hasPostgres, query } from "../support-postgres.ts";
import { fresh, responseOf } from "./many.ts";
import type { StalledWork } from "./stalled.ts";
import { approvalOf, batchOf, begin, conversationOf, end, ended, messageEntry, nodeOf } from "./support.ts";

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
    const taken = { process: "elsewhere/8/8/b", fence: 2, crashed: true };
    expect(await second.claim(node.id, "elsewhere/8/8/b")).toEqual(taken);
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
