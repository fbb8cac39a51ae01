/** Owners, conversations, listings by page, approvals, tokens. */
import { describe, expect, test } from "vitest";
import { LOCAL } from "../../src/types/response.ts";
import type { Store } from "../../src/types/store.ts";
import { newToken } from "../../src/util/token.ts";
import { databases, type TestDatabase } from "./databases.ts";
import { approvalOf, batchOf, begin, conversationOf, end, ended } from "./support.ts";

describe.each(databases)("on $name", ({ fresh }) => {
  const storeAndDatabase = async (): Promise<TestDatabase & { store: Store }> => {
    const database = await fresh();
    return { ...database, store: await database.open() };
  };
  describe("responses", () => {
    test("owner and restarts come back, and belong to the hash", async () => {
      const { store } = await storeAndDatabase();
      const id = await ended(store, { owner: "token1234567", restarts: 3 });
      expect(await store.node(id)).toMatchObject({ owner: "token1234567", restarts: 3, status: "completed" });
      expect((await store.get(id))?.node.hash).toMatch(/^[0-9a-f]{64}$/);
      const second = await (await fresh()).open();
      expect(await second.node(id)).toBeUndefined();
    });

    test("a changed owner is found on reading", async () => {
      const { store, query } = await storeAndDatabase();
      const id = await ended(store, { owner: "alice" });
      await query("UPDATE responses SET owner = 'mallory' WHERE id = ?", id);
      await expect(store.get(id)).rejects.toMatchObject({ code: "storage_damaged" });
    });

    test("listings filter by owner and parent, and go on by page", async () => {
      const { store } = await storeAndDatabase();
      const parent = await ended(store, { owner: "alice" });
      const ids: string[] = [];
      for (let number = 0; number < 7; number++) {
        ids.push(
          (await begin(store, { owner: number % 2 === 0 ? "alice" : "bob", previousResponseId: parent })).node.id,
        );
      }
      const own = [...ids.filter((_, number) => number % 2 === 0).reverse(), parent];
      const pages: string[][] = [];
      for (let before: string | undefined; ; ) {
        const page = await store.list({ owner: "alice", limit: 2, ...(before !== undefined && { before }) });
        if (page.length === 0) break;
        pages.push(page.map(({ id }) => id));
        before = page.at(-1)?.id;
      }
      expect(pages.map((page) => page.length)).toEqual([2, 2, 1]);
      expect(pages.flat()).toEqual(own);
      expect((await store.list({ previousResponseId: parent, owner: "bob" })).map(({ id }) => id)).toEqual(
        ids.filter((_, number) => number % 2 === 1).reverse(),
      );
      expect((await store.list({ status: ["in_progress"], owner: "bob" })).length).toBe(3);
      expect(await store.list({ owner: "nobody" })).toEqual([]);
      expect(await store.list({ owner: "alice", before: "resp_00000000000000000000000000" })).toEqual([]);
      expect((await store.children(parent)).map(({ id }) => id)).toEqual(ids);
    });
  });

  describe("conversations", () => {
    test("owner and metadata come back; a name is unique within its owner", async () => {
      const { store } = await storeAndDatabase();
      const first = conversationOf({ name: "plans", owner: "alice", metadata: { topic: "a", deep: { b: [1] } } });
      const other = conversationOf({ name: "plans", owner: "bob" });
      await store.saveConversation(first);
      await store.saveConversation(other);
      expect(await store.conversation("plans", "alice")).toEqual(first);
      expect(await store.conversation("plans", "bob")).toEqual(other);
      expect(await store.conversation("plans")).toBeUndefined();
      expect(await store.conversation(first.id)).toEqual(first);
      await expect(store.saveConversation(conversationOf({ name: "plans", owner: "bob" }))).rejects.toMatchObject({
        code: "usage",
        message: expect.stringContaining("plans"),
      });
      const clash = begin(store, { owner: "bob", conversation: conversationOf({ name: "plans", owner: "bob" }) });
      await expect(clash).rejects.toMatchObject({ code: "usage" });
      expect(await store.list({ owner: "bob" })).toEqual([]);
    });

    test("a turn moves the pointer, and leaves alone what was written of it in the meantime", async () => {
      const { store } = await storeAndDatabase();
      const read = conversationOf({ title: "old" });
      await store.saveConversation(read);
      await store.saveConversation({ ...read, title: "new", metadata: { by: "person" } });
      const { node } = await begin(store, { conversation: read });
      expect(await store.conversation(read.id)).toMatchObject({
        title: "new",
        metadata: { by: "person" },
        head: node.id,
      });
    });

    test("a conversation goes, its responses stay", async () => {
      const { store } = await storeAndDatabase();
      const conversation = conversationOf();
      const id = await ended(store, { conversation });
      expect(await store.removeConversation(conversation.id)).toBe(true);
      expect(await store.removeConversation(conversation.id)).toBe(false);
      expect(await store.conversation(conversation.id)).toBeUndefined();
      expect(await store.get(id)).toBeDefined();
    });

    test("B28 10,000 are listed by page, each once, the last used first", async () => {
      const { store } = await storeAndDatabase();
      const count = 10_000;
      // Many of them with one time: a page may end between two of these.
      const writes = Array.from({ length: count }, (_, number) =>
        store.saveConversation(
          conversationOf({
            owner: number % 10 === 0 ? "bob" : "alice",
            workspace: number % 100 === 1 ? "/rare" : "/work",
            updatedAt: 1_000_000 + Math.floor(number / 7),
          }),
        ),
      );
      await Promise.all(writes);
      const all: { id: string; updatedAt: number }[] = [];
      for (let before: string | undefined; ; ) {
        const page = await store.conversations({ owner: "alice", limit: 500, ...(before !== undefined && { before }) });
        if (page.length === 0) break;
        all.push(...page);
        before = page.at(-1)?.id;
      }
      expect(all).toHaveLength(9_000);
      expect(new Set(all.map(({ id }) => id)).size).toBe(9_000);
      const order = all.map(({ id, updatedAt }) => `${updatedAt} ${id}`);
      expect(order).toEqual([...order].sort().reverse());
      expect(await store.conversations({ owner: "alice", workspace: "/rare", limit: 1_000 })).toHaveLength(100);
      expect(await store.conversations({ limit: 20_000 })).toHaveLength(count);
      expect(await store.conversations({ limit: 10, before: "conv_00000000000000000000000000" })).toEqual([]);
    });

    test("a turn that failed with nothing said takes the pointer back", async () => {
      const { store } = await storeAndDatabase();
      const conversation = conversationOf();
      const first = await ended(store, { conversation });
      const { node } = await begin(store, { conversation, previousResponseId: first });
      expect((await store.conversation(conversation.id))?.head).toBe(node.id);
      const failed = { status: "failed", endedAt: Date.now(), hash: "due" } as const;
      await store.append(batchOf(node.id, { node: failed }), true);
      expect((await store.conversation(conversation.id))?.head).toBe(first);
    });
  });

  describe("approvals", () => {
    test("they are listed by owner, keep their time of expiry, and are settled once", async () => {
      const { store } = await storeAndDatabase();
      const mine = (await begin(store, { owner: "alice" })).node.id;
      const theirs = (await begin(store, { owner: "bob" })).node.id;
      const [one, two] = [approvalOf(mine, { expiresAt: 4_000_000_000_000 }), approvalOf(theirs)];
      await store.append(batchOf(mine, { approvals: [one] }), true);
      await store.append(batchOf(theirs, { approvals: [two] }), true);
      expect(await store.approvals({ owner: "alice" })).toEqual([one]);
      expect(await store.approvals({ owner: "bob", status: "pending" })).toEqual([two]);
      expect(await store.approvals({ owner: LOCAL })).toEqual([]);
      expect(await store.approvals({ responseId: mine, owner: "bob" })).toEqual([]);
      expect((await store.approvals({ status: "pending" })).length).toBe(2);
      const answers = await Promise.all([
        store.settleApproval({ ...one, status: "allowed" }),
        store.settleApproval({ ...one, status: "expired" }),
      ]);
      expect(answers).toEqual([true, false]);
      expect(await store.approvals({ status: "pending" })).toEqual([two]);
      expect(await store.approval(one.id)).toMatchObject({ status: "allowed", expiresAt: 4_000_000_000_000 });
      await end(store, mine);
    });
  });

  describe("tokens", () => {
    test("a name is one token's as long as that is in force", async () => {
      const { store } = await storeAndDatabase();
      const { token: first } = newToken({ name: "phone" }, 1);
      const { token: second } = newToken({ name: "phone" }, 2);
      await store.saveToken(first);
      await expect(store.saveToken(second)).rejects.toMatchObject({ code: "usage" });
      expect(await store.tokens()).toEqual([first]);
      await store.saveToken({ ...first, scopes: ["chat"], limits: { streams: 2 } });
      expect(await store.token(first.id)).toEqual({ ...first, scopes: ["chat"], limits: { streams: 2 } });
      await store.saveToken({ ...first, revokedAt: 3 });
      await store.saveToken(second);
      expect((await store.tokens()).map(({ id }) => id)).toEqual([first.id, second.id]);
      await expect(store.saveToken(first)).rejects.toMatchObject({ code: "usage" });
      expect((await store.token(first.id))?.revokedAt).toBe(3);
      const { token: expired } = newToken({ name: "tablet", expiresAt: Date.now() - 1 }, 4);
      await store.saveToken(expired);
      await store.saveToken(newToken({ name: "tablet" }, 5).token);
      expect(await store.token("unknown12345")).toBeUndefined();
    });
  });
});
