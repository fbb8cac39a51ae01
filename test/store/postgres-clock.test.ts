/** The commit clock of Postgres: what shares a transaction, what waits for what. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { LaneClock, type Write } from "../../src/store/postgres-clock.ts";

interface Numbered extends Write {
  number: number;
}

/** A clock whose commits take some turns of the event loop, and what it did. */
function clockOf(lanes: number, turns: (size: number) => number) {
  const groups: Numbered[][] = [];
  const underWay = new Set<Numbered>();
  let most = 0;
  let lanesUsed = 0;
  const clock = new LaneClock<Numbered>(lanes, async (writes) => {
    lanesUsed++;
    most = Math.max(most, lanesUsed);
    groups.push([...writes]);
    for (const write of writes) {
      const clash = [...underWay].some(({ key }) => key !== undefined && key === write.key);
      expect(clash, `two writes of ${write.key} under way`).toBe(false);
    }
    for (const write of writes) underWay.add(write);
    for (let turn = turns(writes.length); turn > 0; turn--) await new Promise((resolve) => setImmediate(resolve));
    for (const write of writes) {
      underWay.delete(write);
      write.resolve(undefined);
    }
    lanesUsed--;
  });
  return { clock, groups, most: () => most };
}

test("whatever comes when: each write is made once, those of one key in their order, and never two of them at once", async () => {
  const wish = fc.record({
    key: fc.constantFrom(undefined, "a", "b", "c"),
    kind: fc.constantFrom("log" as const, "records" as const),
    now: fc.boolean(),
    pause: fc.nat(3),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(wish, { maxLength: 60 }), fc.integer({ min: 1, max: 3 }), async (wishes, lanes) => {
      const { clock, groups, most } = clockOf(lanes, (size) => (size * 7) % 5);
      const settled: number[] = [];
      const all: Promise<void>[] = [];
      for (const [number, { key, kind, now, pause }] of wishes.entries()) {
        const { promise, resolve, reject } = Promise.withResolvers<unknown>();
        all.push(promise.then(() => void settled.push(number)));
        clock.write({ key, kind, number, resolve, reject }, now);
        for (let turn = 0; turn < pause; turn++) await new Promise((done) => setImmediate(done));
      }
      await clock.drain();
      await Promise.all(all);
      const made = groups.flat().map(({ number }) => number);
      expect([...made].sort((one, other) => one - other)).toEqual(wishes.map((_, number) => number));
      for (const key of ["a", "b", "c"]) {
        const own = groups.flat().filter((write) => write.key === key);
        expect(own.map(({ number }) => number)).toEqual(own.map(({ number }) => number).sort((a, b) => a - b));
      }
      for (const group of groups) expect(new Set(group.map(({ kind }) => kind)).size).toBe(1);
      expect(most()).toBeLessThanOrEqual(lanes);
    }),
    { numRuns: 200 },
  );
});

test("what comes in one tick shares a commit; a delta waits for company, and goes along with whatever comes", async () => {
  const { clock, groups } = clockOf(2, () => 2);
  const write = (number: number, now: boolean) =>
    new Promise((resolve, reject) => {
      clock.write({ key: `${number}`, kind: "log", number, resolve, reject }, now);
    });
  await Promise.all([write(1, true), write(2, true), write(3, true)]);
  expect(groups.map((group) => group.map(({ number }) => number))).toEqual([[1, 2, 3]]);
  const waiting = write(4, false);
  await Promise.all([waiting, write(5, true)]);
  expect(groups.at(-1)?.map(({ number }) => number)).toEqual([4, 5]);
  await write(6, false);
  expect(groups).toHaveLength(3);
});
