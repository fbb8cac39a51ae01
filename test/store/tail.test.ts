/** The tail of the log: shared by many streams, and never seen by a reader. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { SqliteOptions } from "../../src/store/sqlite-database.ts";
import type { Store } from "../../src/types/store.ts";
import { later, temporaryFolder, temporaryStore } from "../support.ts";
import { runChild } from "./processes.ts";
import { batchOf, PROCESS, tamper } from "./support.ts";
import { rowsIn, Speaker } from "./tail.ts";

async function storeAndFolder(options: SqliteOptions = {}): Promise<{ store: Store; folder: string }> {
  const folder = temporaryFolder();
  return { store: await temporaryStore(options, folder), folder };
}

async function another(folder: string, options: SqliteOptions = {}): Promise<Store> {
  const store = await openSqliteStore(join(folder, "rotunda.db"), options);
  later(() => store.close().catch(() => undefined));
  return store;
}

const speakers = (store: Store, count: number): Promise<Speaker[]> =>
  Promise.all(Array.from({ length: count }, () => Speaker.start(store)));

/** All say a word in one commit. */
const together = (store: Store, all: readonly Speaker[], word: string): Promise<unknown> =>
  Promise.all(all.map((speaker) => speaker.say(store, [word])));

async function expectWhole(store: Store, all: readonly Speaker[]): Promise<void> {
  for (const { id, events } of all) expect(await store.events(id, -1, 10_000)).toEqual(events);
}

describe("deltas of many responses", () => {
  test("share one row a commit; each reads its own, in the middle too, here and in another process", async () => {
    const { store, folder } = await storeAndFolder();
    const other = await another(folder);
    const all = await speakers(store, 20);
    for (let word = 0; word < 6; word++) await together(store, all, `w${word} `);
    const [first] = all;
    expect(rowsIn(folder, first?.id)).toEqual({ tail: 6, events: 2 });
    for (const reader of [store, other, await another(folder)]) {
      await expectWhole(reader, all);
      for (let after = -1; after < 8; after++) {
        expect(await reader.events(first?.id ?? "", after, 3)).toEqual(first?.events.slice(after + 1, after + 4));
      }
    }
    await together(store, all, "more ");
    await expectWhole(other, all);
    for (const speaker of all) await speaker.end(store);
    expect(rowsIn(folder, first?.id).events).toBe(3);
    for (const reader of [store, other]) await expectWhole(reader, all);
  });

  test("of few responses go to their own logs, as ever", async () => {
    const { store, folder } = await storeAndFolder();
    const all = await speakers(store, 3);
    for (let word = 0; word < 4; word++) await together(store, all, `w${word} `);
    expect(rowsIn(folder, all[0]?.id)).toEqual({ tail: 0, events: 6 });
    await expectWhole(store, all);
  });

  test("leave the tail with the next fact, with time, and when the store is closed", async () => {
    const { store, folder } = await storeAndFolder({ tailAge: 50 });
    const all = await speakers(store, 12);
    const [first] = all;
    await together(store, all, "one ");
    await first?.say(store, ["two "]);
    // Nobody else spoke: what it had in the tail came along.
    expect(rowsIn(folder, first?.id)).toEqual({ tail: 1, events: 3 });
    for (let waited = 0; rowsIn(folder).tail > 0 && waited < 20_000; waited += 50) await sleep(50);
    expect(rowsIn(folder, all[5]?.id)).toEqual({ tail: 0, events: 3 });
    await together(store, all, "three ");
    expect(rowsIn(folder).tail).toBe(1);
    await expectWhole(store, all);
    await store.close();
    expect(rowsIn(folder).tail).toBe(0);
    await expectWhole(await another(folder), all);
  });

  test("are written once where a write that shares their commit fails", async () => {
    const { store, folder } = await storeAndFolder();
    const all = await speakers(store, 12);
    await together(store, all, "before ");
    const spoken = together(store, all, "with ");
    // SQLite takes no such value: the shared transaction is undone, and each write is tried alone.
    const outputs = [{ itemId: "mcp_1", text: undefined as unknown as string }];
    const failed = store.append(batchOf(all[1]?.id ?? "", { outputs }), true);
    await expect(failed).rejects.toThrow();
    await spoken;
    await together(store, all, "after ");
    await expectWhole(store, all);
    for (const speaker of all) await speaker.end(store);
    await expectWhole(await another(folder), all);
    expect(all.map(({ text }) => text)).toEqual(all.map(() => "before with after "));
  });

  test("change hands with their response: nothing is lost, and who had it before writes nothing any more", async () => {
    const { store, folder } = await storeAndFolder({ tailAge: 100, lease: 0 });
    const all = await speakers(store, 10);
    for (const word of ["one ", "two ", "three "]) await together(store, all, word);
    // The name stands for a process that is gone.
    const heir = await another(folder, { crowd: 0, tailAge: 100 });
    const [moved, ...rest] = all as [Speaker, ...Speaker[]];
    expect(await heir.claim(moved.id, `${PROCESS}-heir`)).toMatchObject({ fence: 2 });
    await expectWhole(heir, all);
    await expectWhole(store, all);
    const zombie = store.append(batchOf(moved.id, { events: [{ ...moved.delta("never ") }] }), true);
    moved.events.pop();
    await expect(zombie).rejects.toMatchObject({ code: "owned_elsewhere" });
    moved.fence = 2;
    await moved.say(heir, ["four "]);
    await together(store, rest, "four ");
    for (let waited = 0; waited < 3_000; waited += 100) {
      await expectWhole(store, all);
      await sleep(100);
    }
    // Nothing of it holds up what is old.
    expect(rowsIn(folder).tail).toBe(0);
    await moved.end(heir);
    for (const speaker of rest) await speaker.end(store);
    await heir.close();
    await store.close();
    await expectWhole(await another(folder), all);
    expect(rowsIn(folder).tail).toBe(0);
  });

  test("are read up to where something is missing, and not over it", async () => {
    const { store, folder } = await storeAndFolder();
    const all = await speakers(store, 10);
    for (const word of ["one ", "two ", "three "]) await together(store, all, word);
    tamper(join(folder, "rotunda.db"), "DELETE FROM tail WHERE key = ?", 2);
    const [first] = all as [Speaker];
    expect(await (await another(folder)).events(first.id, -1, 100)).toEqual(first.events.slice(0, 3));
  });

  test("are given up whole with the lease", async () => {
    const { store, folder } = await storeAndFolder();
    const all = await speakers(store, 10);
    await together(store, all, "one ");
    const [left] = all as [Speaker];
    await store.release(left.id, { process: PROCESS, fence: 1 });
    expect(rowsIn(folder, left.id).events).toBe(3);
    expect(await store.claim(left.id, PROCESS)).toMatchObject({ fence: 2 });
    left.fence = 2;
    await together(store, all, "two ");
    await expectWhole(store, all);
    await expectWhole(await another(folder), all);
  });
});

type Deed = { what: "say" | "fact" | "end" | "read" | "claim" | "pause"; who: number; words: number };

const deed = fc.record<Deed>({
  what: fc.constantFrom("say", "say", "say", "say", "fact", "end", "read", "claim", "pause"),
  who: fc.nat(4),
  words: fc.integer({ min: 1, max: 3 }),
});

test("whatever comes in whatever order, every reader sees every response whole", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(deed, { maxLength: 40 }), fc.constantFrom(0, 2, 8), async (deeds, crowd) => {
      const { store, folder } = await storeAndFolder({ crowd, tailAge: 0 });
      const other = await another(folder);
      const all = await speakers(store, 5);
      const over = new Set<Speaker>();
      let writes: Promise<unknown>[] = [];
      for (const { what, who, words } of deeds) {
        const speaker = all[who] as Speaker;
        if (what === "pause") await sleep(1);
        else if (what === "read") {
          await Promise.all(writes.splice(0));
          await expectWhole(words === 1 ? store : other, [speaker]);
        } else if (over.has(speaker)) continue;
        else if (what === "say") {
          const text = Array.from({ length: words }, (_, word) => `${speaker.events.length}.${word} `);
          writes.push(speaker.say(store, text, words === 1));
        } else if (what === "fact") {
          const events = [speaker.next({ type: "response.in_progress" })];
          writes.push(store.append(batchOf(speaker.id, { events, fence: speaker.fence }), true));
        } else if (what === "claim") {
          await Promise.all(writes.splice(0));
          speaker.fence = (await store.claim(speaker.id, PROCESS))?.fence ?? -1;
        } else {
          over.add(speaker);
          writes.push(speaker.end(store));
        }
      }
      await Promise.all(writes);
      writes = [];
      await expectWhole(store, all);
      await expectWhole(other, all);
      await store.close();
      expect(rowsIn(folder).tail).toBe(0);
      await expectWhole(other, all);
      await other.close();
    }),
    { numRuns: 40 },
  );
});

describe("kill -9 with deltas in the tail", () => {
  interface Said {
    id: string;
    told: number;
  }

  /** What the child was told is on disk, by response, before it died. */
  async function killed(
    commit: number,
    moment: "before" | "after",
  ): Promise<{ folder: string; said: Said[] | undefined }> {
    const folder = temporaryFolder();
    const work = { file: join(folder, "rotunda.db"), what: "speak" as const, name: folder, killAt: commit, moment };
    const { signal, lines } = await runChild(work);
    if (signal !== "SIGKILL") return { folder, said: undefined };
    const told = new Map<string, number>();
    for (const line of lines as unknown as Said[]) told.set(line.id, line.told);
    return { folder, said: [...told].map(([id, number]) => ({ id, told: number })) };
  }

  test("at every commit: what was told is in the log, without a gap, for whoever reads or takes over", async () => {
    let inTail = 0;
    let commit = 1;
    for (; ; commit++) {
      const [before, after] = await Promise.all([killed(commit, "before"), killed(commit, "after")]);
      if (!before.said || !after.said) break;
      for (const { folder, said } of [before, after]) {
        inTail += rowsIn(folder).tail;
        const reader = await another(folder);
        const heir = await another(folder);
        for (const { id, told } of said ?? []) {
          const read = await reader.events(id, -1, 10_000);
          expect(read.map((event) => event.sequence_number)).toEqual(read.map((_, index) => index));
          expect(read.length).toBeGreaterThan(told);
          const ended = (await heir.node(id))?.endedAt !== null;
          if (!ended) expect(await heir.claim(id, PROCESS)).toBeDefined();
          // What the reader was told stays true when somebody else goes on with it.
          expect(await heir.events(id, -1, 10_000)).toEqual(read);
          expect(await reader.events(id, -1, 10_000)).toEqual(read);
          expect(read.map((event) => ("delta" in event ? event.delta : "")).join("")).toMatch(/^(w\d+ )*$/);
        }
        const open = await heir.list({ status: ["in_progress"] });
        for (const { id } of open) await heir.claim(id, PROCESS);
        await heir.close();
        await reader.close();
        if (open.length > 0) expect(rowsIn(folder).tail).toBe(0);
      }
    }
    expect(commit).toBeGreaterThan(12);
    expect(inTail).toBeGreaterThan(20);
  }, 120_000);
});
