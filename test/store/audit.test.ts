/** The audit log: a chain that shows every change that does not rewrite all of it. */
import { describe, expect, test } from "vitest";
import type { Store } from "../../src/types/store.ts";
import { databases, type TestDatabase } from "./databases.ts";
import { runChild } from "./processes.ts";
import { auditOf, batchOf, begin, end } from "./support.ts";

/** Numbers of the records that are not intact, and whether the log ends where it should. */
async function faults(store: Store): Promise<{ broken: number[]; whole: boolean }> {
  const records = await store.audits(0, 1_000);
  const last = records.at(-1);
  const noted = await store.auditEnd();
  const whole = noted?.sequence === (last?.sequence ?? 0) && noted.hash === (last?.hash ?? "0".repeat(64));
  return { broken: records.filter(({ intact }) => !intact).map(({ sequence }) => sequence), whole };
}

describe.each(databases)("on $name", ({ fresh }) => {
  async function logOf(count: number): Promise<{ store: Store; database: TestDatabase }> {
    const database = await fresh();
    const store = await database.open();
    for (let number = 1; number <= count; number++) await store.audit(auditOf(`record ${number}`));
    return { store, database };
  }

  test("records come back in order and by page, each with a hash over the one before", async () => {
    const { store } = await logOf(9);
    const all = await store.audits(0, 100);
    expect(all.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(all[3]).toEqual({ ...auditOf("record 4"), sequence: 4, hash: all[3]?.hash, intact: true });
    expect(new Set(all.map(({ hash }) => hash)).size).toBe(9);
    expect([...(await store.audits(0, 4)), ...(await store.audits(4, 4)), ...(await store.audits(8, 4))]).toEqual(all);
    expect(await store.audits(9, 4)).toEqual([]);
    expect(await faults(store)).toEqual({ broken: [], whole: true });
  });

  test("an empty log is whole", async () => {
    const { store } = await logOf(0);
    expect(await store.auditEnd()).toEqual({ sequence: 0, hash: "0".repeat(64) });
    expect(await faults(store)).toEqual({ broken: [], whole: true });
  });

  describe("what is done behind its back is found", () => {
    const cases: { name: string; sql: string; broken: number[]; whole: boolean }[] = [
      {
        name: "a changed text",
        sql: "UPDATE audit SET body = replace(body, 'record 3', 'record X') WHERE sequence = 3",
        broken: [3],
        whole: true,
      },
      {
        name: "a text that is no JSON",
        sql: "UPDATE audit SET body = 'gone' WHERE sequence = 3",
        broken: [3],
        whole: true,
      },
      {
        name: "a changed hash",
        sql: "UPDATE audit SET hash = replace(hash, substr(hash, 1, 4), 'beef') WHERE sequence = 3",
        broken: [3, 4],
        whole: true,
      },
      { name: "a record that is gone", sql: "DELETE FROM audit WHERE sequence = 3", broken: [4], whole: true },
      { name: "the first record gone", sql: "DELETE FROM audit WHERE sequence = 1", broken: [2], whole: true },
      {
        name: "the last records gone",
        sql: "DELETE FROM audit WHERE sequence > 4",
        broken: [],
        whole: false,
      },
      { name: "all records gone", sql: "DELETE FROM audit", broken: [], whole: false },
      { name: "all gone, the note too", sql: "DELETE FROM audit; DELETE FROM audit_end", broken: [], whole: false },
      { name: "the note gone", sql: "DELETE FROM audit_end", broken: [], whole: false },
      {
        name: "the last records and the note gone",
        sql: "DELETE FROM audit WHERE sequence > 4; DELETE FROM audit_end",
        broken: [],
        whole: false,
      },
      {
        name: "a record put in at the end",
        sql: "INSERT INTO audit SELECT 7, hash, body FROM audit WHERE sequence = 6",
        broken: [7],
        whole: false,
      },
      {
        name: "the note set back",
        sql: "UPDATE audit_end SET sequence = 4",
        broken: [],
        whole: false,
      },
    ];
    test.each(cases)("$name", async ({ sql, broken, whole }) => {
      const { store, database } = await logOf(6);
      for (const statement of sql.split("; ")) await database.query(statement);
      expect(await faults(store)).toEqual({ broken, whole });
      // Whatever is added afterwards does not mend it.
      await store.audit(auditOf("later"));
      await store.audit(auditOf("later still"));
      const after = await faults(store);
      expect(after.broken.length > 0 || !after.whole).toBe(true);
      const two = (await store.audits(0, 100)).slice(-2);
      expect(two.map(({ details }) => details.what)).toEqual(["later", "later still"]);
      expect(two[1]?.intact).toBe(true);
    });
  });

  describe("records of a run", () => {
    test("they are in the batch's transaction: a batch that is refused leaves none", async () => {
      const store = await (await fresh()).open();
      const { node } = await begin(store);
      const audits = [auditOf("first"), auditOf("second")];
      await store.append(batchOf(node.id, { audits }), true);
      await expect(store.append(batchOf(node.id, { fence: 9, audits }), true)).rejects.toMatchObject({
        code: "owned_elsewhere",
      });
      await end(store, node.id, "done", { audits: [auditOf("third")] });
      expect((await store.audits(0, 10)).map(({ details }) => details.what)).toEqual(["first", "second", "third"]);
      expect(await faults(store)).toEqual({ broken: [], whole: true });
    });

    test.each([
      [2, "before", 0],
      [2, "after", 2],
      [3, "before", 2],
      [3, "after", 3],
    ] as const)("killed at commit %i, %s it: %i records, and the chain holds", async (killAt, moment, count) => {
      const { place, open } = await fresh();
      const { signal } = await runChild({ ...place, what: "batch", name: "", killAt, moment });
      expect(signal).toBe("SIGKILL");
      const store = await open();
      expect(await store.audits(0, 10)).toHaveLength(count);
      expect(await faults(store)).toEqual({ broken: [], whole: true });
      await store.audit(auditOf("next"));
      expect(await faults(store)).toEqual({ broken: [], whole: true });
    });

    test("three processes write one chain", async () => {
      const { place, open } = await fresh();
      const names = ["a", "b", "c"];
      const ends = await Promise.all(names.map((name) => runChild({ ...place, what: "audits", name, count: 40 })));
      expect(ends.map(({ said }) => said?.done)).toEqual([true, true, true]);
      const store = await open();
      const records = await store.audits(0, 1_000);
      expect(records.map(({ sequence }) => sequence)).toEqual(records.map((_, index) => index + 1));
      for (const name of names) {
        const own = records.map(({ details }) => String(details.what)).filter((what) => what.startsWith(name));
        expect(own).toEqual(Array.from({ length: 40 }, (_, number) => `${name} ${number}`));
      }
      expect(await faults(store)).toEqual({ broken: [], whole: true });
    });
  });
});
