/** The outbox: what is written for whom, who may deliver it, and what is given up. */
import { describe, expect, test } from "vitest";
import type { Subscription } from "../../src/types/outbox.ts";
import type { ResponseNode } from "../../src/types/response.ts";
import type { Store } from "../../src/types/store.ts";
import { newProcessName } from "../../src/util/process-name.ts";
import { databases } from "./databases.ts";
import { approvalOf, batchOf, begin, messageEntry } from "./support.ts";

const HOUR = 3_600_000;
const US = newProcessName();
const all: Subscription = { target: "all", events: null };

async function change(store: Store, node: ResponseNode, more: Parameters<typeof batchOf>[1]): Promise<void> {
  await store.append(batchOf(node.id, more), true);
}

async function ended(store: Store, more: Partial<ResponseNode> = {}): Promise<string> {
  const { node } = await begin(store);
  const entries = [messageEntry("output", "said")];
  await change(store, node, { entries, node: { status: "completed", endedAt: Date.now(), ...more } });
  return node.id;
}

const idsOf = (deliveries: { event: { responseId: string } }[]) => deliveries.map(({ event }) => event.responseId);

describe.each(databases)("on $name", ({ fresh }) => {
  test("written for those who want it, as long as they want it; with nobody there nothing is written", async () => {
    const store = await (await fresh()).open();
    await ended(store);
    const failures: Subscription = { target: "failures", events: ["response.failed"] };
    await store.subscribe([all, failures], Date.now() + HOUR);
    const [first, second] = [await ended(store), await ended(store, { status: "failed" })];
    expect(idsOf(await store.takeDeliveries("all", 10, US))).toEqual([first, second]);
    expect(idsOf(await store.takeDeliveries("failures", 10, US))).toEqual([second]);
    await store.subscribe([all], 0);
    await ended(store);
    expect(await store.takeDeliveries("all", 10, US)).toEqual([]);
  });

  test("what was taken is nobody else's; what is settled is gone, or comes back when it is due", async () => {
    const store = await (await fresh()).open();
    await store.subscribe([all], Date.now() + HOUR);
    const ids = [await ended(store), await ended(store), await ended(store)];
    const [one, two] = await store.takeDeliveries("all", 2, US);
    expect(idsOf(await store.takeDeliveries("all", 10, US))).toEqual([ids[2]]);
    if (!one || !two) throw new Error("nothing was taken");
    await store.settleDelivery(one, null);
    await store.settleDelivery({ ...two, attempts: 3 }, Date.now() - 1);
    const again = await store.takeDeliveries("all", 10, US);
    expect(again).toMatchObject([{ attempts: 3, event: two.event }]);
    await store.settleDelivery({ ...two, attempts: 4 }, Date.now() + HOUR);
    expect(await store.takeDeliveries("all", 10, US)).toEqual([]);
  });

  test("what a dead process was delivering is due again, what a living one is is not", async () => {
    const store = await (await fresh()).open();
    await store.subscribe([all], Date.now() + HOUR);
    const [first, second] = [await ended(store), await ended(store)];
    const [machine, , start, random] = US.split("/");
    const dead = [machine, 4_194_305, start, random].join("/");
    expect(idsOf(await store.takeDeliveries("all", 1, dead))).toEqual([first]);
    expect(idsOf(await store.takeDeliveries("all", 1, US))).toEqual([second]);
    await store.subscribe([all], Date.now() + HOUR);
    expect(idsOf(await store.takeDeliveries("all", 10, US))).toEqual([first]);
  });

  test("three days, and ten thousand for each target: what is beyond is given up, the oldest first", async () => {
    const { open, query } = await fresh();
    const store = await open();
    await store.subscribe([all], Date.now() + HOUR);
    const old = await ended(store);
    await query(`UPDATE outbox SET created_at = ${Date.now() - 73 * HOUR}`);
    const kept = await ended(store);
    await store.subscribe([all], Date.now() + HOUR);
    const [taken] = await store.takeDeliveries("all", 10, US);
    expect(taken?.event.responseId).toBe(kept);
    expect(old).not.toBe(kept);
    await query(
      `WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 10000)
     INSERT INTO outbox (target, due, attempts, created_at, body)
     SELECT 'all', n, 0, ${Date.now()}, '{"responseId":"resp_' || n || '"}' FROM counted`,
    );
    await store.subscribe([all], Date.now() + HOUR);
    const [left] = await query("SELECT count(*) AS rows, min(sequence) AS first FROM outbox");
    expect([Number(left?.rows), Number(left?.first)]).toEqual([10_000, (taken?.sequence ?? 0) + 1]);
  });

  test("each question is told once, however often the response begins to wait", async () => {
    const store = await (await fresh()).open();
    await store.subscribe([all], Date.now() + HOUR);
    const { node } = await begin(store);
    const { node: child } = await begin(store, { caller: { responseId: node.id, itemId: "mcp_x" } });
    const [first, second] = [approvalOf(child.id), approvalOf(child.id)];
    await change(store, child, { approvals: [first] });
    await change(store, child, { node: { status: "waiting" } });
    await change(store, node, { node: { status: "waiting" } });
    await change(store, child, { node: { status: "in_progress" } });
    await change(store, child, { node: { status: "waiting" } });
    await change(store, child, { node: { status: "in_progress" }, approvals: [second] });
    await change(store, child, { node: { status: "waiting" } });
    const told = (await store.takeDeliveries("all", 10, US)).map(({ event }) => event);
    const asked = ({ id }: { id: string }) => ({ id, responseId: child.id, tool: "bash" });
    expect(told).toMatchObject([
      { type: "response.waiting", responseId: node.id, status: "waiting", approvals: [asked(first)] },
      { type: "response.waiting", responseId: node.id, approvals: [asked(second)] },
    ]);
    // A sub-agent's end is nobody's business.
    const entries = [messageEntry("output", "said")];
    await change(store, child, { entries, node: { status: "completed", endedAt: Date.now() } });
    expect(await store.takeDeliveries("all", 10, US)).toEqual([]);
  });
});
