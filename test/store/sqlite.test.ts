/** The store: durable in order, fenced, hashed, shared. */

import { statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeEvents, encodeEvents } from "../../src/store/codec.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { RunEvent } from "../../src/types/event.ts";
import type { Item } from "../../src/types/item.ts";
import type { Batch } from "../../src/types/store.ts";
import { newId } from "../../src/util/ids.ts";
import { newProcessName } from "../../src/util/process-name.ts";
import { engineWith, modelOf, say, temporaryFolder, temporaryStore } from "../support.ts";

const start = { door: "test", workspace: "/", input: "go" };

describe("hashes", () => {
  test("a changed bit is found on reading, and the rest is served", async () => {
    const folder = temporaryFolder();
    const { engine, store } = await engineWith({ model: modelOf([say("first"), say("second")]), folder });
    const first = await engine.start(start);
    await engine.wait(first.id);
    const second = await engine.start({ ...start, previousResponseId: first.id });
    await engine.wait(second.id);
    const path = await store.path(second.id);
    expect(path.map(({ node }) => node.hash?.length)).toEqual([64, 64]);
    const raw = new DatabaseSync(join(folder, "rotunda.db"));
    raw
      .prepare(
        `UPDATE entries SET item = replace(item, 'first', 'fizzt')
         WHERE key >> 24 = (SELECT number FROM responses WHERE id = ?)`,
      )
      .run(first.id);
    raw.close();
    await expect(store.get(first.id)).rejects.toMatchObject({ code: "storage_damaged" });
    await expect(store.get(second.id)).resolves.toBeDefined();
    await expect(store.path(second.id)).rejects.toThrow(first.id);
  });

  test("a child's hash holds its parent's", async () => {
    const folder = temporaryFolder();
    const { engine, store } = await engineWith({ model: modelOf([say("x")]), folder });
    const first = await engine.start(start);
    await engine.wait(first.id);
    const second = await engine.start({ ...start, previousResponseId: first.id });
    await engine.wait(second.id);
    const raw = new DatabaseSync(join(folder, "rotunda.db"));
    const flipped = "CASE substr(hash, 1, 1) WHEN 'f' THEN '0' ELSE 'f' END || substr(hash, 2)";
    raw.prepare(`UPDATE responses SET hash = ${flipped} WHERE id = ?`).run(first.id);
    raw.close();
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
    const folder = temporaryFolder();
    const { engine, store } = await engineWith({
      model: modelOf([() => [{ type: "finish", reason: "stop" }]]),
      folder,
    });
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
    const store = await temporaryStore({ probe: (moment) => moment === "after" && commits++ });
    const { engine } = await engineWith({ store, model: modelOf([say("hello")]) });
    const nodes = await Promise.all(Array.from({ length: 64 }, () => engine.start(start)));
    await Promise.all(nodes.map((node) => engine.wait(node.id)));
    expect(commits).toBeLessThan(40);
  });

  test("five processes may open a database that does not exist yet", async () => {
    const path = join(temporaryFolder(), "deep", "rotunda.db");
    const stores = await Promise.all(Array.from({ length: 5 }, () => openSqliteStore(path)));
    await Promise.all(stores.map((store) => store.close()));
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test("a database of a newer version is refused with the remedy, and one that is none is told", async () => {
    const path = join(temporaryFolder(), "rotunda.db");
    const raw = new DatabaseSync(path);
    raw.exec("PRAGMA user_version = 999");
    raw.close();
    await expect(openSqliteStore(path)).rejects.toMatchObject({ message: expect.stringContaining("newer Rotunda") });
  });
});

test("any prefix or ending of four characters names a response", async () => {
  const { engine } = await engineWith({});
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
  const owners = newProcessName().split("/");
  expect(owners).toHaveLength(4);
});

test("ids sort by time, also within a millisecond, and never repeat", () => {
  const ids = Array.from({ length: 5_000 }, () => newId("resp", 1_700_000_000_000));
  expect([...ids].sort()).toEqual(ids);
  expect(new Set(ids).size).toBe(5_000);
});

test("an item that was begun and never ended can be read, wherever the rows were cut", () => {
  const item: Item = { type: "message", id: "msg_x", role: "assistant", status: "in_progress", content: [] };
  const at = { output_index: 0, item_id: "msg_x", content_index: 0 };
  const events: RunEvent[] = [
    { type: "response.output_item.added", sequence_number: 0, output_index: 0, item },
    { type: "response.output_text.delta", sequence_number: 1, ...at, delta: "half" },
  ];
  expect(decodeEvents(0, encodeEvents(events), () => undefined)).toEqual(events);
});

test("events survive the codec, whatever they say", () => {
  const item: Item = {
    type: "message",
    id: "msg_x",
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text: "whole", annotations: [] }],
  };
  const at = { output_index: 0, item_id: "msg_x", content_index: 0 };
  const event = fc.oneof(
    fc.string({ unit: "binary" }).map((delta) => ({ type: "response.output_text.delta", ...at, delta })),
    fc.string().map((delta) => ({ type: "response.refusal.delta", ...at, delta })),
    fc.constantFrom(
      { type: "response.output_item.added", output_index: 0, item },
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.output_text.done", ...at, text: "whole" },
      { type: "response.content_part.done", ...at, part: item.content[0] },
      { type: "response.completed", status: "completed" },
      { type: "response.in_progress" },
    ),
  );
  fc.assert(
    fc.property(fc.array(event, { minLength: 1, maxLength: 30 }), fc.nat(1_000), (list, first) => {
      const events = list.map((one, index) => ({ ...one, sequence_number: first + index })) as RunEvent[];
      expect(decodeEvents(first, encodeEvents(events), () => item)).toEqual(events);
    }),
  );
});
