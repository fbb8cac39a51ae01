/** Attacks on the queue: what stands behind something must neither keep it from going on, nor be forgotten. */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { type Cluster, startCluster } from "../cluster/cluster.ts";
import { later } from "../support.ts";
import { hasPostgres, query, sharedPostgres, tellMissing } from "../support-postgres.ts";

tellMissing();
const LONG = { timeout: 120_000 };

async function statusOf(cluster: Cluster, id: string, wanted: string, seconds = 40): Promise<string> {
  let status = "";
  for (let left = seconds * 10; left > 0 && status !== wanted; left--) {
    await sleep(100);
    status = ((await (await cluster.fetch(0, `/v1/responses/${id}`)).json()) as { status: string }).status;
  }
  return status;
}

async function clusterOf(workers: number) {
  const upstream = await startUpstream(({ body }) => {
    const text = JSON.stringify(body.messages);
    if (text.includes("call it") && !text.includes('"tool"')) {
      return { calls: [{ name: "bash", arguments: { command: "true" } }] };
    }
    return { text: "done" };
  });
  later(() => upstream.close());
  return startCluster({ servers: 1, workers, upstream: upstream.url, config: { sandbox: { level: "none" } } });
}

describe.skipIf(!hasPostgres)("one place for all", () => {
  test("one whose parent was cancelled before its turn leaves the place to what both stood behind", LONG, async () => {
    const cluster = await clusterOf(0);
    await cluster.worker(["--concurrency", "1"]);
    const { id: conversation } = (await (await cluster.fetch(0, "/v1/conversations", {})).json()) as { id: string };
    const turn = (input: string) => cluster.respond(0, { input, conversation, background: true });
    const first = await turn("call it");
    type Listed = { approvals: { approvalId: string }[] };
    let listed: Listed = { approvals: [] };
    for (let left = 100; left > 0 && listed.approvals.length === 0; left--) {
      await sleep(100);
      listed = (await (await cluster.fetch(0, "/v1/tool-approvals")).json()) as Listed;
    }
    const [second, third] = [await turn("second"), await turn("third")];
    await sleep(2_500);
    expect((await cluster.fetch(0, `/v1/responses/${second.id}/cancel`, {})).status).toBe(200);
    await sleep(2_500);
    const approvalId = listed.approvals[0]?.approvalId;
    await cluster.fetch(0, "/v1/tool-approval", { approvalId, approved: true });
    expect(await statusOf(cluster, first.id, "completed")).toBe("completed");
    expect(await statusOf(cluster, third.id, "completed")).toBe("completed");
  });

  test("one whose job got lost with whoever was to put it in is found", LONG, async () => {
    const cluster = await clusterOf(1);
    const first = await cluster.respond(0, { input: "first", background: true });
    expect(await statusOf(cluster, first.id, "completed")).toBe("completed");
    await cluster.workers[0]?.end("SIGTERM");
    const next = { input: "second", previous_response_id: first.id, background: true };
    const second = await cluster.respond(0, next);
    const [, schema] = /schema=(\w+)/.exec(cluster.database) ?? [];
    const { url } = await sharedPostgres();
    await query(url, `DELETE FROM ${schema}_queue.job WHERE data->>'responseId' = '${second.id}'`);
    await cluster.worker();
    expect(await statusOf(cluster, second.id, "completed")).toBe("completed");
  });
});
