/** Deletion: invisible at once, erased when nothing needs it. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Conversation } from "../../src/types/response.ts";
import type { Store } from "../../src/types/store.ts";
import { newId } from "../../src/util/ids.ts";
import { databases, type TestDatabase } from "./databases.ts";
import { runChild } from "./processes.ts";
import { approvalOf, batchOf, begin, conversationOf, end, ended, PROCESS } from "./support.ts";

async function rowOf({ place, query }: TestDatabase, id: string): Promise<Record<string, unknown>> {
  const number = "file" in place ? "key >> 24" : "entries.number";
  const content = `(SELECT count(*) FROM entries WHERE ${number} = responses.number)`;
  const [row] = await query(`SELECT id, hash, body, ${content} AS entries FROM responses WHERE id = ?`, id);
  return { ...row, entries: Number(row?.entries) };
}

/** Whether nothing is left of the content of each. */
async function erased(database: TestDatabase, ids: readonly string[]): Promise<boolean[]> {
  const rows = await database.query("SELECT id FROM responses WHERE body = ''");
  const gone = new Set(rows.map(({ id }) => id));
  return ids.map((id) => gone.has(id));
}

describe.each(databases)("on $name", ({ fresh }) => {
  const storeAndDatabase = async (): Promise<{ store: Store; database: TestDatabase }> => {
    const database = await fresh();
    return { store: await database.open(), database };
  };

  describe("a deleted response", () => {
    test("is invisible to everything but the path of what goes on from it", async () => {
      const { store } = await storeAndDatabase();
      const { node } = await begin(store, { input: "question" });
      const [approval, itemId] = [approvalOf(node.id), newId("mcp")];
      await store.append(batchOf(node.id, { approvals: [approval], outputs: [{ itemId, text: "whole" }] }), true);
      await end(store, node.id);
      const child = await ended(store, { previousResponseId: node.id });
      expect(await store.delete(node.id)).toBe(true);
      expect(await store.delete(node.id)).toBe(false);
      expect(await store.delete("resp_00000000000000000000000000")).toBe(false);
      expect(await store.get(node.id)).toBeUndefined();
      expect(await store.node(node.id)).toBeUndefined();
      expect(await store.leaseOf(node.id)).toBeUndefined();
      expect(await store.claim(node.id, PROCESS)).toBeUndefined();
      expect((await store.list({})).map(({ id }) => id)).toEqual([child]);
      expect((await store.list({ roots: true })).map(({ id }) => id)).toEqual([child]);
      expect(await store.events(node.id, -1, 10)).toEqual([]);
      expect(await store.output(itemId)).toBeUndefined();
      expect(await store.approval(approval.id)).toBeUndefined();
      expect(await store.approvals({})).toEqual([]);
      for (const part of [node.id, node.id.slice(-10)]) expect(await store.resolve(part, ["response"])).toEqual([]);
      expect(await store.resolve(child.slice(-10), ["response"])).toEqual([child]);
      await expect(begin(store, { previousResponseId: node.id })).rejects.toMatchObject({ code: "not_found" });
      const path = await store.path(child);
      expect(path.map((stored) => stored.node.id)).toEqual([node.id, child]);
      expect(path[0]?.entries.map(({ item }) => JSON.stringify(item)).join()).toContain("question");
      expect((await store.get(child))?.node.previousResponseId).toBe(node.id);
      expect(await store.children((await store.path(child))[0]?.node.id ?? "")).toHaveLength(1);
    });

    test("is as unknown to the process that has just ended it, whoever deletes it", async () => {
      const { store, database } = await storeAndDatabase();
      const other = await database.open();
      for (const deleter of [store, other]) {
        const [id, kept] = [await ended(store), await ended(store)];
        expect((await store.get(id))?.node.status).toBe("completed");
        expect((await store.node(kept))?.hash).toHaveLength(64);
        expect(await deleter.delete(id)).toBe(true);
        expect(await store.get(id)).toBeUndefined();
        expect(await store.node(id)).toBeUndefined();
        expect(await store.get(kept)).toEqual(await other.get(kept));
      }
    });

    test("is not one that still runs", async () => {
      const { store } = await storeAndDatabase();
      const { node } = await begin(store);
      await expect(store.delete(node.id)).rejects.toMatchObject({ code: "response_not_ended" });
      expect(await store.node(node.id)).toBeDefined();
    });

    test("is erased when its last living descendant goes, and so are the deleted ones above it", async () => {
      const { store, database } = await storeAndDatabase();
      const root = await ended(store, { input: "root" });
      const middle = await ended(store, { previousResponseId: root });
      const leaf = await ended(store, { previousResponseId: middle });
      const branch = await ended(store, { previousResponseId: middle });
      const { hash } = await rowOf(database, middle);
      await store.delete(middle);
      await store.delete(leaf);
      expect(await erased(database, [root, middle, leaf, branch])).toEqual([false, false, true, false]);
      expect((await store.path(branch)).map(({ node }) => node.id)).toEqual([root, middle, branch]);
      await store.delete(branch);
      expect(await erased(database, [root, middle, leaf, branch])).toEqual([false, true, true, true]);
      expect(await rowOf(database, middle)).toEqual({ id: middle, hash, body: "", entries: 0 });
      await expect(store.path(middle)).rejects.toMatchObject({ code: "not_found" });
      expect((await store.path(root)).length).toBe(1);
      expect((await store.children(root)).length).toBe(0);
    });

    test("takes its sub-agents along; one that still runs goes when it ends", async () => {
      const { store, database } = await storeAndDatabase();
      const caller = await ended(store, { input: "outer" });
      const agent = await ended(store, { caller: { responseId: caller, itemId: "mcp_1" } });
      const below = await ended(store, { caller: { responseId: agent, itemId: "mcp_2" } });
      const { node: running } = await begin(store, { caller: { responseId: caller, itemId: "mcp_3" } });
      const elsewhere = await ended(store, { previousResponseId: below });
      await store.delete(caller);
      expect(await store.node(agent)).toBeUndefined();
      expect(await store.node(below)).toBeUndefined();
      expect(await store.node(running.id)).toBeDefined();
      expect(await erased(database, [caller, agent, below])).toEqual([false, true, false]);
      expect((await store.path(elsewhere)).map(({ node }) => node.id)).toEqual([below, elsewhere]);
      await end(store, running.id);
      expect(await store.node(running.id)).toBeUndefined();
      expect(await erased(database, [caller, running.id, below])).toEqual([true, true, false]);
      await store.delete(elsewhere);
      expect(await erased(database, [below])).toEqual([true]);
    });

    test("keeps its idempotency key taken, without an answer", async () => {
      const { store } = await storeAndDatabase();
      const idempotency = { key: "k", digest: "d", expiresAt: Date.now() + 60_000 };
      const id = await ended(store, { idempotency });
      const other = { owner: "local", key: "l", digest: "d", responseId: id, answer: { status: 200, body: "secret" } };
      await store.saveIdempotency({ ...other, expiresAt: idempotency.expiresAt });
      await store.delete(id);
      expect(await store.idempotency("local", "k")).toMatchObject({ responseId: id, answer: null });
      expect(await store.idempotency("local", "l")).toMatchObject({ responseId: id, answer: null });
      expect((await begin(store, { idempotency })).known).toMatchObject({ responseId: id });
    });
  });

  describe("conversations of what was deleted", () => {
    const headOf = async (store: Store, { id }: Conversation) => (await store.conversation(id))?.head;

    test("the pointer goes to the nearest living one above, else to nothing", async () => {
      const { store } = await storeAndDatabase();
      const conversation = conversationOf();
      const ids: string[] = [];
      for (let turn = 0; turn < 4; turn++) {
        ids.push(await ended(store, { conversation, previousResponseId: ids.at(-1) ?? null }));
      }
      const [first = "", second = "", third = "", fourth = ""] = ids;
      const clone = conversationOf({ head: third, owner: "alice" });
      await store.saveConversation(clone);
      await store.delete(second);
      expect(await headOf(store, conversation)).toBe(fourth);
      await store.delete(third);
      expect(await headOf(store, conversation)).toBe(fourth);
      expect(await headOf(store, clone)).toBe(first);
      await store.delete(fourth);
      expect(await headOf(store, conversation)).toBe(first);
      await store.delete(first);
      expect(await headOf(store, conversation)).toBeNull();
      expect(await headOf(store, clone)).toBeNull();
      // Written back by somebody who had read it before: it does not stand at what is gone.
      await store.saveConversation({ ...clone, head: third });
      expect(await headOf(store, clone)).toBeNull();
    });

    test("a turn that fails after its parent was deleted takes the pointer back to a living one", async () => {
      const { store } = await storeAndDatabase();
      const conversation = conversationOf();
      const first = await ended(store, { conversation });
      const second = await ended(store, { conversation, previousResponseId: first });
      const { node } = await begin(store, { conversation, previousResponseId: second });
      await store.delete(second);
      const failed = { status: "failed", endedAt: Date.now(), hash: "due" } as const;
      await store.append(batchOf(node.id, { node: failed }), true);
      expect(await headOf(store, conversation)).toBe(first);
    });

    test("a title that was made from it goes, one that a person gave stays", async () => {
      const { store } = await storeAndDatabase();
      const text = "Where  did we bury\nthe treasure of the island that nobody has ever found?";
      const made = conversationOf({ title: "Where did we bury the treasure of the island that nobody ha…" });
      const given = conversationOf({ title: "Holidays" });
      const first = await ended(store, { conversation: made, input: text });
      const second = await ended(store, { conversation: made, previousResponseId: first });
      const clone = conversationOf({ title: made.title, head: second });
      await store.saveConversation(clone);
      const other = await ended(store, { conversation: given, input: text });
      await store.delete(first);
      expect((await store.conversation(made.id))?.title).toBe(made.title);
      await store.delete(second);
      await store.delete(other);
      const titles = await Promise.all(
        [made, clone, given].map(async ({ id }) => (await store.conversation(id))?.title),
      );
      expect(titles).toEqual(["", "", "Holidays"]);
    });
  });

  test("a title goes with the turn that it was made from, also where the pointer never came back to that", async () => {
    const { store } = await storeAndDatabase();
    const conversation = conversationOf({ title: "A question that nobody answered" });
    const { node } = await begin(store, { conversation, input: "A question that nobody answered" });
    await store.append(batchOf(node.id, { node: { status: "failed", endedAt: Date.now(), hash: "due" } }), true);
    const second = await ended(store, { conversation, input: "Another one" });
    await store.delete(node.id);
    expect(await store.conversation(conversation.id)).toMatchObject({ title: "", head: second });
  });

  test("whatever is deleted in whatever order: living paths are whole, and all else is erased", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(30), { minLength: 1, maxLength: 14 }),
        fc.array(fc.nat(30), { maxLength: 14 }),
        async (parents, deletions) => {
          const { store, database } = await storeAndDatabase();
          const ids: string[] = [];
          const parentOf = new Map<string, string | null>();
          for (const [index, parent] of parents.entries()) {
            // One in three is a root; the others stand below one that is there.
            const above = parent % 3 === 0 ? null : (ids[parent % Math.max(1, index)] ?? null);
            const id = await ended(store, { previousResponseId: above, input: `input ${index}` });
            ids.push(id);
            parentOf.set(id, above);
          }
          const deleted = new Set<string>();
          for (const number of deletions) {
            const id = ids[number % ids.length] ?? "";
            expect(await store.delete(id)).toBe(!deleted.has(id));
            deleted.add(id);
            const needed = new Set<string>();
            for (const living of ids.filter((one) => !deleted.has(one))) {
              const path: string[] = [];
              for (let next: string | null = living; next !== null; next = parentOf.get(next) ?? null)
                path.unshift(next);
              expect((await store.path(living)).map(({ node }) => node.id)).toEqual(path);
              for (const one of path) needed.add(one);
            }
            expect(await erased(database, ids)).toEqual(ids.map((one) => !needed.has(one)));
          }
          await store.close();
        },
      ),
      { numRuns: 25 },
    );
  });

  test("killed in the middle of an erasure in portions: it is gone for every reader, and the next process erases the rest", async () => {
    const { store, database } = await storeAndDatabase();
    const ids: string[] = [];
    for (let turn = 0; turn < 6; turn++) {
      ids.push(await ended(store, { previousResponseId: ids.at(-1) ?? null, input: "text" }, "text".repeat(50)));
    }
    const last = ids.pop() ?? "";
    for (const id of ids) await store.delete(id);
    await store.close();
    const work = { ...database.place, what: "erase", name: last, killAt: 3, moment: "after", portion: 0 } as const;
    const { signal } = await runChild(work);
    expect(signal).toBe("SIGKILL");
    expect(await erased(database, [...ids, last])).toEqual([false, false, false, true, true, true]);
    const next = await database.open();
    await expect(next.path(last)).rejects.toMatchObject({ code: "not_found" });
    const all = [...ids, last].map(() => true);
    await expect.poll(() => erased(database, [...ids, last]), { timeout: 20_000 }).toEqual(all);
  });

  test("killed before the commit: nothing was deleted", async () => {
    const { store, database } = await storeAndDatabase();
    const id = await ended(store, { input: "text" });
    const { signal } = await runChild({ ...database.place, what: "erase", name: id, killAt: 1, moment: "before" });
    expect(signal).toBe("SIGKILL");
    expect((await store.get(id))?.entries).toHaveLength(2);
  });
});
