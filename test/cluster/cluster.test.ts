/** Many machines: what one node accepts, any other runs, shows, stops and answers; and none of them is needed. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { startUpstream, type UpstreamScript } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { hasPostgres, tellMissing } from "../support-postgres.ts";
import { type Cluster, type ClusterOptions, readStream, startCluster } from "./cluster.ts";

tellMissing();
const LONG = { timeout: 120_000 };

const words = (count: number) => Array.from({ length: count }, (_, number) => `w${number} `);

async function clusterOf(script: UpstreamScript, options: Partial<ClusterOptions> = {}) {
  const upstream = await startUpstream(script);
  later(() => upstream.close());
  const cluster = await startCluster({ servers: 2, workers: 1, upstream: upstream.url, ...options });
  return { cluster, upstream };
}

/** With what the processes have said. */
function told(cluster: Cluster, error: Error): Error {
  const logs = [...cluster.servers, ...cluster.workers].map((member) => member.log()).join("\n---\n");
  return new Error(`${error.message}\n${logs.slice(-4_000)}`);
}

const textOf = (response: { output: { content?: { text?: string }[] }[] }) =>
  response.output.flatMap(({ content = [] }) => content.map(({ text = "" }) => text)).join("");

async function ended(cluster: Cluster, id: string, seconds = 60): Promise<{ status: string; output: never[] }> {
  for (let left = seconds * 10; left > 0; left--) {
    const answer = await cluster.fetch(left, `/v1/responses/${id}`).catch(() => undefined);
    const response = (await answer?.json()) as { status: string; output: never[] } | undefined;
    if (response && !["queued", "in_progress"].includes(response.status)) return response;
    await sleep(100);
  }
  throw new Error(`${id} did not end`);
}

describe.skipIf(!hasPostgres)("two servers and a worker", () => {
  test("D7 a run is streamed, steered, approved and cancelled from the node that did not start it", LONG, async () => {
    const { cluster } = await clusterOf(
      ({ body }) => {
        const text = JSON.stringify(body.messages);
        if (text.includes("call it") && !text.includes('"tool"')) {
          return { calls: [{ name: "bash", arguments: { command: "echo once >> effects.txt" } }] };
        }
        return { text: words(text.includes("long") ? 400 : 20), delay: 10 };
      },
      { config: { sandbox: { level: "none" } } },
    );
    const { id } = await cluster.respond(0, { input: "hello", background: true });
    const stream = await readStream(cluster, id);
    expect(stream.map(({ sequence_number }) => sequence_number)).toEqual(stream.map((_, index) => index));
    expect(await readStream(cluster, id)).toEqual(stream);

    const long = await cluster.respond(0, { input: "long", background: true });
    await sleep(300);
    expect((await cluster.fetch(1, `/v1/responses/${long.id}/cancel`, {})).status).toBe(200);
    expect((await ended(cluster, long.id, 10)).status).toBe("cancelled");

    const asking = await cluster.respond(1, { input: "call it", background: true });
    let approvals: { approvalId: string }[] = [];
    for (let left = 100; left > 0 && approvals.length === 0; left--) {
      await sleep(100);
      const listed = (await (await cluster.fetch(0, "/v1/tool-approvals")).json()) as { approvals: typeof approvals };
      approvals = listed.approvals;
    }
    expect(approvals).toHaveLength(1);
    await cluster.fetch(0, "/v1/tool-approval", { approvalId: approvals[0]?.approvalId, approved: true });
    expect((await ended(cluster, asking.id)).status).toBe("completed");
    expect(readFileSync(join(cluster.workspace, "effects.txt"), "utf8")).toBe("once\n");
  });

  test("turns of one conversation come one after the other, whoever runs them", LONG, async () => {
    const { cluster, upstream } = await clusterOf([{ text: words(10), delay: 10 }], { workers: 2 });
    const first = await cluster.respond(0, { input: "turn 0" });
    const conversation = (await (await cluster.fetch(0, "/v1/conversations", {})).json()) as { id: string };
    expect(first.status).toBe("completed");
    const ids: string[] = [];
    for (let turn = 1; turn <= 6; turn++) {
      const more = { input: `turn ${turn}`, conversation: conversation.id, background: true };
      ids.push((await cluster.respond(turn, more)).id);
    }
    for (const id of ids) expect((await ended(cluster, id)).status).toBe("completed");
    const prompts = upstream.requests.map(({ body }) =>
      JSON.stringify(body.messages)
        .match(/turn \d/g)
        ?.join(" "),
    );
    expect(prompts.slice(1)).toEqual(
      [1, 2, 3, 4, 5, 6].map((last) => Array.from({ length: last }, (_, turn) => `turn ${turn + 1}`).join(" ")),
    );
  });

  test("a worker that ends on SIGTERM leaves what it has not finished to the others", LONG, async () => {
    const { cluster } = await clusterOf([{ text: words(1_200), delay: 10 }], { workers: 1 });
    const { id } = await cluster.respond(0, { input: "hello", background: true });
    await sleep(1_500);
    const [first] = cluster.workers;
    const second = await cluster.worker();
    expect(await first?.end("SIGTERM")).toBe(0);
    const response = await ended(cluster, id);
    expect(response.status).toBe("completed");
    expect(second.log()).toContain(`response ${id} goes on here: a process that ended left it`);
    expect(textOf(response)).toContain("w1199");
    const stream = await readStream(cluster, id);
    expect(stream.map(({ sequence_number }) => sequence_number)).toEqual(stream.map((_, index) => index));
  });

  test("what a changed configuration forbids no worker does any more", LONG, async () => {
    const call = { calls: [{ name: "bash", arguments: { command: "echo done >> effects.txt" } }] };
    const { cluster } = await clusterOf(({ body }) =>
      JSON.stringify(body.messages).includes('"tool"') ? { text: "That was it." } : call,
    );
    const config = join(cluster.workspace, "..", "rotunda.yaml");
    const before = JSON.parse(readFileSync(config, "utf8")) as object;
    writeFileSync(config, JSON.stringify({ ...before, permissions: { deny: ["bash"] } }));
    const [worker] = cluster.workers;
    for (let left = 150; left > 0 && !worker?.log().includes("the configuration has changed"); left--) await sleep(100);
    const { id } = await cluster.respond(0, { input: "hello", model: "profile/general", background: true });
    const { output } = await ended(cluster, id);
    expect(JSON.stringify(output)).toContain("bash");
    expect(existsSync(join(cluster.workspace, "effects.txt"))).toBe(false);
  });

  test("workers take only the profiles that they are told to", LONG, async () => {
    const { cluster, upstream } = await clusterOf([{ text: "hello" }], { workers: 0 });
    await cluster.worker(["--profiles", "explore"]);
    const other = await cluster.respond(0, { input: "for general", background: true });
    const taken = await cluster.respond(0, { input: "for explore", model: "profile/explore", background: true });
    expect((await ended(cluster, taken.id)).status).toBe("completed");
    expect(upstream.requests).toHaveLength(1);
    await cluster.worker();
    expect((await ended(cluster, other.id)).status).toBe("completed");
  });
});

describe.skipIf(!hasPostgres)("the health of a worker", () => {
  test("is told where it was asked for: up, ready, and no longer ready once it takes no more", LONG, async () => {
    const { cluster } = await clusterOf([{ text: words(400), delay: 10 }], { workers: 0 });
    const worker = await cluster.worker(["--health-port", "0"]);
    const ready = /(http:\S+)\/readyz/.exec(worker.log())?.[1] ?? "";
    const ask = async (path: string, method = "GET") => (await fetch(`${ready}${path}`, { method })).status;
    expect(await ask("/healthz")).toBe(200);
    expect(await ask("/readyz")).toBe(200);
    expect(await ask("/v1/responses")).toBe(404);
    expect(await ask("/readyz", "POST")).toBe(405);
    await cluster.respond(0, { input: "hello", background: true });
    await sleep(1_000);
    const gone = worker.end("SIGTERM");
    await expect.poll(() => ask("/readyz")).toBe(503);
    expect(await ask("/healthz")).toBe(200);
    expect(await gone).toBe(0);
  });

  test("a port that another program has is said before any work is taken", LONG, async () => {
    const { cluster } = await clusterOf([{ text: "hello" }], { workers: 0 });
    const port = new URL(cluster.servers[0]?.url ?? "").port;
    await expect(cluster.worker(["--health-port", port])).rejects.toThrow(
      /cannot listen at 127\.0\.0\.1:\d+: EADDRINUSE/,
    );
  });
});

describe.skipIf(!hasPostgres)("kill -9", () => {
  test("D1 G21 of workers throughout: nothing lost, nothing doubled, every stream complete", {
    timeout: 240_000,
  }, async () => {
    const { cluster } = await clusterOf(
      ({ body }) => {
        const text = JSON.stringify(body.messages);
        const [, name = ""] = /effect (\w+)/.exec(text) ?? [];
        if (name !== "" && !text.includes('"tool"')) {
          return { calls: [{ name: "bash", arguments: { command: `echo ${name} >> effects.txt` } }] };
        }
        return { text: words(60), delay: 10 };
      },
      { workers: 3, config: { sandbox: { level: "none" }, permissions: { mode: "auto", allow: ["bash"] } } },
    );
    let killing = true;
    let kills = 0;
    const killer = (async () => {
      while (killing) {
        await sleep(2_500);
        const victim = cluster.workers.shift();
        const fresh = cluster.worker();
        await victim?.end("SIGKILL");
        kills++;
        await fresh;
      }
    })();
    const ids: string[] = [];
    const readings: Promise<unknown[]>[] = [];
    for (let number = 0; number < 60; number++) {
      const input = number % 3 === 0 ? `effect e${number}` : `plain ${number}`;
      const { id } = await cluster.respond(number, { input, background: true });
      ids.push(id);
      readings.push(readStream(cluster, id, 120));
      await sleep(150);
    }
    const outcomes = await Promise.allSettled(readings);
    killing = false;
    await killer;
    for (const outcome of outcomes) if (outcome.status === "rejected") throw told(cluster, outcome.reason as Error);
    const live = outcomes.map((outcome) => (outcome.status === "fulfilled" ? outcome.value : []));
    expect(kills).toBeGreaterThan(2);
    for (const [index, id] of ids.entries()) {
      const events = live[index] as { sequence_number: number }[];
      expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, number) => number));
      expect(await readStream(cluster, id)).toEqual(events);
      expect((await ended(cluster, id)).status).toBe("completed");
    }
    const effects = readFileSync(join(cluster.workspace, "effects.txt"), "utf8").trim().split("\n");
    expect(new Set(effects).size).toBe(effects.length);
  });

  test("of a worker on another machine: another one takes over when its lease is over", LONG, async () => {
    const { cluster } = await clusterOf([{ text: words(2_000), delay: 10 }, { text: "done" }], {
      workers: 1,
      machines: true,
    });
    const { id } = await cluster.respond(0, { input: "hello", background: true });
    await sleep(2_000);
    const [first] = cluster.workers;
    const second = await cluster.worker();
    const killed = performance.now();
    await first?.end("SIGKILL");
    const response = await ended(cluster, id);
    const seconds = (performance.now() - killed) / 1_000;
    process.stderr.write(`takeover and end after ${seconds.toFixed(1)} s\n`);
    expect(response.status).toBe("completed");
    expect(textOf(response)).toContain("done");
    expect(second.log()).toContain(`response ${id} goes on here: the process that ran it is gone`);
  });
});
