/** Attacks on what was acknowledged: a disk that is full for a while, many writers of one conversation, odd addresses. */
import { expect, test } from "vitest";
import { RotundaError } from "../../src/types/error.ts";
import { serve } from "../http/served.ts";
import { engineWith, modelOf, say, temporaryStore } from "../support.ts";

test("a run whose disk is full for a while goes on by itself; one that somebody waited for ends", async () => {
  const store = await temporaryStore();
  let full = false;
  const append = store.append.bind(store);
  store.append = (batch, now) =>
    full ? Promise.reject(new RotundaError("storage_full", "the disk is full")) : append(batch, now);
  const claim = store.claim.bind(store);
  store.claim = (id, process) =>
    full ? Promise.reject(new RotundaError("storage_full", "the disk is full")) : claim(id, process);
  const gate = Promise.withResolvers<void>();
  const gated = async function* () {
    await gate.promise;
    yield* say("too late");
  };
  const { engine } = await engineWith({ model: modelOf([gated, gated, say("whole")]), store });
  const start = { door: "test", workspace: "/", input: "go" };
  const background = await engine.start(start);
  const foreground = await engine.start({ ...start, settings: { foreground: true } });
  full = true;
  gate.resolve();
  const waits = [engine.wait(foreground.id), engine.wait(background.id)];
  for (const wait of await Promise.allSettled(waits)) {
    expect(wait).toMatchObject({ status: "rejected", reason: { code: "storage_full" } });
  }
  // Longer than the first try.
  await new Promise((resolve) => setTimeout(resolve, 1_300));
  expect((await store.node(background.id))?.endedAt).toBeNull();
  full = false;
  const state = async (id: string) => (await store.node(id))?.status;
  await expect.poll(() => state(background.id), { timeout: 8_000 }).toBe("completed");
  await expect.poll(() => state(foreground.id), { timeout: 8_000 }).toBe("incomplete");
});

test("items that come at once for one conversation are all in it, one behind the other", async () => {
  const served = await serve(() => ({ text: "ok" }));
  const made = (await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string };
  const path = `/v1/conversations/${made.id}/items`;
  const add = async (number: number) =>
    (await served.fetch(path, { json: { items: [{ role: "user", content: `item ${number}` }] } })).status;
  expect(await Promise.all([0, 1, 2, 3, 4, 5].map(add))).toEqual([200, 200, 200, 200, 200, 200]);
  const list = (await (await served.fetch(`${path}?limit=100`)).json()) as { data: unknown[] };
  expect(list.data).toHaveLength(6);
});

test("a listing of approvals is bounded, the oldest first, and says that there are more", async () => {
  const content = "x".repeat(300_000);
  const calls = Array.from({ length: 12 }, (_, index) => ({
    name: "write",
    arguments: { file_path: `file-${index}.txt`, content },
  }));
  const served = await serve(() => ({ calls }));
  await served.respond({ model: "test-model", input: "Write" });
  const list = async () =>
    (await (await served.fetch("/v1/tool-approvals")).json()) as {
      approvals: { id: string; arguments: { file_path: string } }[];
      has_more: boolean;
    };
  const first = await list();
  expect(first.has_more).toBe(true);
  expect(first.approvals[0]?.arguments.file_path).toBe("file-0.txt");
  for (const { id } of first.approvals)
    await served.fetch("/v1/tool-approval", { json: { approvalId: id, approved: false } });
  const second = await list();
  expect(second.approvals.length).toBeGreaterThan(0);
  expect(second.approvals.length + first.approvals.length).toBeLessThanOrEqual(12);
  expect(second.approvals[0]?.id).not.toBe(first.approvals[0]?.id);
});
