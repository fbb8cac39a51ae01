/** Erasure of what many responses' rows share. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { later, temporaryFolder } from "../support.ts";
import { filesWith, untilTruncated } from "./files.ts";
import { runChild } from "./processes.ts";
import { batchOf, PROCESS } from "./support.ts";
import { rowsIn, Speaker } from "./tail.ts";

const SECRET = "xyzzy-plugh-7f3a9";

/** Numbers of the responses that something stands of in the tail. */
function piecesInTail(folder: string): number[] {
  const raw = new DatabaseSync(join(folder, "rotunda.db"), { readOnly: true });
  try {
    const numbers = "SELECT DISTINCT json_extract(value, '$[0]') AS number FROM tail, json_each(body) ORDER BY number";
    return raw
      .prepare(numbers)
      .all()
      .map(({ number }) => Number(number));
  } finally {
    raw.close();
  }
}

describe("in the files", () => {
  test.each(["its own process", "another process"])(
    "nothing is left in rows that other streams share: %s deletes it",
    async (who) => {
      const folder = temporaryFolder();
      const store = await openSqliteStore(join(folder, "rotunda.db"), { crowd: 0 });
      later(() => store.close().catch(() => undefined));
      const all = await Promise.all([1, 2, 3, 4].map(() => Speaker.start(store)));
      const [secret, ...others] = all as [Speaker, ...Speaker[]];
      for (let word = 0; word < 30; word++) {
        const say = (speaker: Speaker) => speaker.say(store, [speaker === secret ? `${SECRET} ` : `word${word} `]);
        await Promise.all(all.map(say));
      }
      await secret.end(store);
      expect(rowsIn(folder).tail).toBe(30);
      const deleter = who === "another process" ? await openSqliteStore(join(folder, "rotunda.db")) : store;
      later(() => deleter.close().catch(() => undefined));
      expect(await deleter.events(secret.id, -1, 100)).toEqual(secret.events);
      expect(await deleter.delete(secret.id)).toBe(true);
      await untilTruncated(folder);
      expect(filesWith(folder, SECRET)).toEqual([]);
      for (const speaker of others) {
        await speaker.say(store, ["and on "]);
        for (const reader of [store, deleter]) expect(await reader.events(speaker.id, -1, 100)).toEqual(speaker.events);
      }
      for (const one of new Set([deleter, store])) await one.close();
      expect(filesWith(folder, SECRET)).toEqual([]);
      expect(rowsIn(folder).tail).toBe(0);
    },
  );

  test("nothing is left where the process died that had said it", async () => {
    const folder = temporaryFolder();
    const file = join(folder, "rotunda.db");
    const { signal, lines } = await runChild({ file, what: "speak", name: "", killAt: 7, moment: "after" });
    expect(signal).toBe("SIGKILL");
    const [{ id } = { id: "" }] = lines as { id: string }[];
    const store = await openSqliteStore(file);
    later(() => store.close().catch(() => undefined));
    const lease = await store.claim(id, PROCESS);
    const node = { status: "cancelled" as const, endedAt: Date.now(), hash: "due" };
    await store.append(batchOf(id, { fence: lease?.fence ?? 0, node }), true);
    const open = (await store.list({ status: ["in_progress"] })).map((one) => one.id);
    expect(open).toHaveLength(3);
    const before = await Promise.all(open.map((one) => store.events(one, -1, 100)));
    await store.delete(id);
    await untilTruncated(folder);
    // The rows stay as long as the others' words stand in nothing else.
    expect(piecesInTail(folder)).toEqual([2, 3, 4]);
    expect(await Promise.all(open.map((one) => store.events(one, -1, 100)))).toEqual(before);
  });
});
