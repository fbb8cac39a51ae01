/** What was erased is nowhere in SQLite's files. */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import type { Store } from "../../src/types/store.ts";
import { newId } from "../../src/util/ids.ts";
import { later, temporaryFolder, temporaryStore } from "../support.ts";
import { dueErasures, filesWith, untilTruncated } from "./files.ts";
import { runChild } from "./processes.ts";
import { approvalOf, batchOf, begin, conversationOf, end, ended, messageEntry } from "./support.ts";

async function storeAndFolder(): Promise<{ store: Store; folder: string }> {
  const folder = temporaryFolder();
  return { store: await temporaryStore({}, folder), folder };
}

function isErased(folder: string, id: string): boolean {
  const raw = new DatabaseSync(join(folder, "rotunda.db"), { readOnly: true });
  try {
    return raw.prepare("SELECT body FROM responses WHERE id = ?").get(id)?.body === "";
  } finally {
    raw.close();
  }
}

const SECRET = "xyzzy-plugh-7f3a9";

/** A conversation full of the text: long and short, in forms that replaced each other, among others' rows. */
async function fill(store: Store, secret: string): Promise<string[]> {
  const ids: string[] = [];
  const conversation = conversationOf({ title: `${secret} in the title` });
  for (let turn = 0; turn < 12; turn++) {
    await ended(store, { input: `bystander ${turn} ${"y".repeat(turn * 97)}` }, "z".repeat(500));
    const { node } = await begin(store, {
      conversation,
      previousResponseId: ids.at(-1) ?? null,
      input: `${secret} in the title and ${secret.repeat(turn * turn)}`,
      settings: { instructions: `${secret} ${"i".repeat(turn * 60)}` },
      workspace: `/home/${secret}`,
      idempotency: { key: newId("req"), digest: "d", expiresAt: Date.now() + 60_000 },
    });
    for (let form = 1; form <= 4; form++) {
      await store.append(
        batchOf(node.id, {
          entries: [messageEntry("output", `${secret} `.repeat(form * 40), 1)],
          outputs: [{ itemId: `mcp_${node.id}`, text: secret.repeat(form * 500) }],
          approvals: [approvalOf(node.id, { arguments: `{"a":"${secret}"}`, status: "allowed" })],
          node: { error: { code: "internal", message: `${secret} ${"e".repeat(form * 200)}` } },
        }),
        true,
      );
      await ended(store, { input: `between ${form}` }, "w".repeat(form * 333));
    }
    await store.sendControl({ responseId: node.id, kind: "steer", reason: secret, items: null });
    await end(store, node.id, `${secret} ${"o".repeat(turn * 150)}`);
    ids.push(node.id);
  }
  return ids;
}

test("nothing of an erased text is left about a second later, and all else is", async () => {
  const { store, folder } = await storeAndFolder();
  const ids = await fill(store, SECRET);
  const kept = await fill(store, "another-text-5b1c");
  expect(filesWith(folder, SECRET)).not.toEqual([]);
  for (const id of ids) await store.delete(id);
  await untilTruncated(folder);
  expect(filesWith(folder, SECRET)).toEqual([]);
  expect(filesWith(folder, ids[0] ?? "")).not.toEqual([]);
  expect(await store.path(kept.at(-1) ?? "")).toHaveLength(12);
  expect((await store.list({ limit: 1_000 })).every(({ id }) => !ids.includes(id))).toBe(true);
});

test("a store that is closed first leaves nothing either, with another process's store open", async () => {
  const { store, folder } = await storeAndFolder();
  const ids = await fill(store, SECRET);
  const second = await openSqliteStore(join(folder, "rotunda.db"));
  later(() => second.close().catch(() => undefined));
  expect(await second.node(ids[0] ?? "")).toBeDefined();
  for (const id of ids.reverse()) await store.delete(id);
  await store.close();
  expect(filesWith(folder, SECRET)).toEqual([]);
  expect(await second.node(ids[0] ?? "")).toBeUndefined();
});

test("killed after the commit, before the log was cut: the next process cuts it", async () => {
  const { store, folder } = await storeAndFolder();
  const [id = ""] = await fill(store, SECRET).then((ids) => [ids.at(-1)]);
  const file = join(folder, "rotunda.db");
  for (const one of (await store.path(id)).slice(0, -1)) await store.delete(one.node.id);
  await store.close();
  const { signal } = await runChild({ file, what: "erase", name: id, killAt: 1, moment: "after" });
  expect(signal).toBe("SIGKILL");
  expect(dueErasures(folder)).toBe(1);
  expect(filesWith(folder, SECRET)).not.toEqual([]);
  const next = await openSqliteStore(file);
  later(() => next.close().catch(() => undefined));
  expect(await next.node(id)).toBeUndefined();
  await untilTruncated(folder);
  expect(filesWith(folder, SECRET)).toEqual([]);
});

test("killed in the middle of an erasure in portions: it is gone for every reader, and the next process erases the rest", async () => {
  const { store, folder } = await storeAndFolder();
  const ids: string[] = [];
  for (let turn = 0; turn < 6; turn++) {
    ids.push(await ended(store, { previousResponseId: ids.at(-1) ?? null, input: SECRET }, SECRET.repeat(50)));
  }
  const last = ids.pop() ?? "";
  for (const id of ids) await store.delete(id);
  await store.close();
  const file = join(folder, "rotunda.db");
  const { signal } = await runChild({ file, what: "erase", name: last, killAt: 3, moment: "after", portion: 0 });
  expect(signal).toBe("SIGKILL");
  const states = [...ids, last].map((id) => isErased(folder, id));
  expect(states).toEqual([false, false, false, true, true, true]);
  const next = await openSqliteStore(file);
  later(() => next.close().catch(() => undefined));
  await expect(next.path(last)).rejects.toMatchObject({ code: "not_found" });
  await untilTruncated(folder);
  expect([...ids, last].map((id) => isErased(folder, id))).toEqual([true, true, true, true, true, true]);
  expect(filesWith(folder, SECRET)).toEqual([]);
});
