/** Idempotency keys: the first request wins, in one process and in many. */
import { describe, expect, test } from "vitest";
import { databases } from "./databases.ts";
import { runChild } from "./processes.ts";
import { begin, conversationOf } from "./support.ts";

const HOUR = 3_600_000;

function key(name: string, digest = "d", expiresAt = Date.now() + HOUR) {
  return { key: name, digest, expiresAt };
}

describe.each(databases)("on $name", ({ fresh }) => {
  test("a second response with a key in force is not made, and the first one's record is given", async () => {
    const store = await (await fresh()).open();
    const [first, second] = await Promise.all([
      begin(store, { owner: "alice", idempotency: key("k", "one") }),
      begin(store, { owner: "alice", idempotency: key("k", "two"), conversation: conversationOf({ owner: "alice" }) }),
    ]);
    expect(first.known).toBeUndefined();
    expect(second.known).toMatchObject({
      owner: "alice",
      key: "k",
      digest: "one",
      responseId: first.node.id,
      answer: null,
    });
    expect(await store.node(second.node.id)).toBeUndefined();
    expect(await store.conversations({ limit: 10 })).toEqual([]);
    expect(await store.idempotency("alice", "k")).toEqual(second.known);
    // Keys are the owner's own.
    expect((await begin(store, { owner: "bob", idempotency: key("k") })).known).toBeUndefined();
    expect(await store.idempotency("local", "k")).toBeUndefined();
  });

  test("an answer that starts no response is kept once, also against a response's key", async () => {
    const store = await (await fresh()).open();
    const record = {
      owner: "alice",
      key: "k",
      digest: "d",
      responseId: null,
      answer: { status: 201, body: '{"ok":true}' },
      expiresAt: Date.now() + HOUR,
    };
    expect(await Promise.all([store.saveIdempotency(record), store.saveIdempotency(record)])).toEqual([true, false]);
    expect(await store.idempotency("alice", "k")).toEqual(record);
    expect((await begin(store, { owner: "alice", idempotency: key("k") })).known).toEqual(record);
    await begin(store, { owner: "alice", idempotency: key("other") });
    expect(await store.saveIdempotency({ ...record, key: "other" })).toBe(false);
  });

  test("a key that has expired is none: it is replaced, and others like it are swept", async () => {
    const { open, query } = await fresh();
    const store = await open();
    const past = Date.now() - 1;
    const expired = Array.from({ length: 40 }, (_, number) =>
      begin(store, { idempotency: key(`old ${number}`, "d", past) }),
    );
    await Promise.all(expired);
    expect(await store.idempotency("local", "old 0")).toBeUndefined();
    const again = await begin(store, { idempotency: key("old 0", "new") });
    expect(again.known).toBeUndefined();
    expect(await store.idempotency("local", "old 0")).toMatchObject({ digest: "new", responseId: again.node.id });
    for (let number = 0; number < 16; number++) await begin(store, { idempotency: key(`new ${number}`) });
    const [left] = await query("SELECT count(*) AS count FROM idempotency");
    expect(Number(left?.count)).toBe(17);
    expect(await store.idempotency("local", "old 0")).toBeDefined();
  });

  test("of four processes with one key, one makes the response and all answer with it", async () => {
    const { place, open } = await fresh();
    const work = { ...place, what: "create", name: "the key", count: 5 } as const;
    const ends = await Promise.all(Array.from({ length: 4 }, () => runChild(work)));
    const answers = new Set(ends.flatMap(({ said }) => said?.answers ?? []));
    expect(ends.flatMap(({ said }) => said?.answers ?? [])).toHaveLength(20);
    expect(answers.size).toBe(1);
    const store = await open();
    expect((await store.list({})).map(({ id }) => id)).toEqual([...answers]);
  });

  test.each(["before", "after"] as const)(
    "killed %s the commit: key and response are there together or not",
    async (moment) => {
      const { place, open } = await fresh();
      const { signal } = await runChild({ ...place, what: "create", name: "the key", killAt: 1, moment });
      expect(signal).toBe("SIGKILL");
      const store = await open();
      const record = await store.idempotency("local", "the key");
      const stored = await store.list({});
      expect(stored).toHaveLength(moment === "after" ? 1 : 0);
      expect(record?.responseId).toBe(stored[0]?.id);
    },
  );
});
