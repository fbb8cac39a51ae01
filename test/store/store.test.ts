/** The store: durable in order, fenced, hashed, shared. */
import { describe, expect, test } from "vitest";
import type { RunEvent } from "../../src/types/event.ts";
import type { Batch } from "../../src/types/store.ts";
import { engineWith, modelOf, say } from "../support.ts";
import { databases } from "./databases.ts";

const start = { door: "test", workspace: "/", input: "go" };

describe.each(databases)("on $name", ({ fresh }) => {
  describe("hashes", () => {
    test("a changed bit is found on reading, and the rest is served", async () => {
      const { open, query, place } = await fresh();
      const store = await open();
      const { engine } = await engineWith({ model: modelOf([say("first"), say("second")]), store });
      const first = await engine.start(start);
      await engine.wait(first.id);
      const second = await engine.start({ ...start, previousResponseId: first.id });
      await engine.wait(second.id);
      const path = await store.path(second.id);
      expect(path.map(({ node }) => node.hash?.length)).toEqual([64, 64]);
      const number = "file" in place ? "key >> 24" : "number";
      await query(
        `UPDATE entries SET item = replace(item, 'first', 'fizzt')
       WHERE ${number} = (SELECT number FROM responses WHERE id = ?)`,
        first.id,
      );
      await expect(store.get(first.id)).rejects.toMatchObject({ code: "storage_damaged" });
      await expect(store.get(second.id)).resolves.toBeDefined();
      await expect(store.path(second.id)).rejects.toThrow(first.id);
    });

    test("a child's hash holds its parent's", async () => {
      const { open, query } = await fresh();
      const store = await open();
      const { engine } = await engineWith({ model: modelOf([say("x")]), store });
      const first = await engine.start(start);
      await engine.wait(first.id);
      const second = await engine.start({ ...start, previousResponseId: first.id });
      await engine.wait(second.id);
      const flipped = "CASE substr(hash, 1, 1) WHEN 'f' THEN '0' ELSE 'f' END || substr(hash, 2)";
      await query(`UPDATE responses SET hash = ${flipped} WHERE id = ?`, first.id);
      await expect(store.get(second.id)).rejects.toMatchObject({ code: "storage_damaged" });
    });
  });

  describe("writes", () => {
    const batch = (responseId: string, fence: number, events: RunEvent[]): Batch => ({
      responseId,
      fence,
      sealed: false,
      events,
      entries: [],
      outputs: [],
      approvals: [],
      audits: [],
      node: null,
    });

    test("D7 a fence that is no longer in force writes nothing, and takes nobody with it", async () => {
      const store = await (await fresh()).open();
      const { engine } = await engineWith({ model: modelOf([() => [{ type: "finish", reason: "stop" }]]), store });
      const { id } = await engine.start(start);
      await engine.wait(id).catch(() => undefined);
      const other = await engine.start(start);
      const zombie = store.append(batch(id, 99, [{ type: "response.in_progress", sequence_number: 50 }]), true);
      await expect(zombie).rejects.toMatchObject({ code: "owned_elsewhere" });
      await engine.wait(other.id);
      expect((await store.events(id, -1, 1_000)).some((event) => event.sequence_number === 50)).toBe(false);
    });

    test("what is handed in within one tick shares one commit", async () => {
      let commits = 0;
      const store = await (await fresh()).open({ probe: (moment) => moment === "after" && commits++ });
      const { engine } = await engineWith({ store, model: modelOf([say("hello")]) });
      const nodes = await Promise.all(Array.from({ length: 64 }, () => engine.start(start)));
      await Promise.all(nodes.map((node) => engine.wait(node.id)));
      expect(commits).toBeLessThan(40);
    });
  });

  test("any prefix or ending of four characters names a response", async () => {
    const { engine } = await engineWith({ store: await (await fresh()).open() });
    const { id } = await engine.start(start);
    await engine.wait(id);
    for (const part of [id, id.slice(0, 15), id.slice(5, 19), id.slice(-4), id.slice(-20)]) {
      expect(await engine.resolveId(part, "response")).toBe(id);
    }
    for (const bad of ["abc", "../../etc", "resp_", "%", "a'b", "x".repeat(10_000), "ａｂｃｄ"]) {
      await expect(engine.resolveId(bad, "response")).rejects.toMatchObject({
        code: expect.stringMatching(/invalid_id|not_found/),
      });
    }
  });
});
