/** What is SQLite's own, and what any store is made of: its file, ids, the codec of events. */

import { statSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeEvents, encodeEvents } from "../../src/store/codec.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { RunEvent } from "../../src/types/event.ts";
import type { Item } from "../../src/types/item.ts";
import { newId } from "../../src/util/ids.ts";
import { newProcessName } from "../../src/util/process-name.ts";
import { temporaryFolder } from "../support.ts";

describe("the file", () => {
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

test("a process's name has four parts", () => {
  expect(newProcessName().split("/")).toHaveLength(4);
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
