/** What a server does beside answering requests: approvals expire, and what waited for them goes on where it belongs. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { createApp } from "../../src/app.ts";
import { Upkeep } from "../../src/doors/http/upkeep.ts";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { hasPostgres, sharedPostgres } from "../support-postgres.ts";
import { inCluster, serve } from "./served.ts";

const SLOW = { timeout: 30_000 };

/** A week has gone by for everything that is asked. */
function letExpire(folder: string): void {
  const file = new DatabaseSync(join(folder, "state", "rotunda.db"), { timeout: 5_000 });
  file.exec("UPDATE approvals SET body = json_set(body, '$.expiresAt', 1) WHERE status = 'pending'");
  file.close();
}

const writes: UpstreamScript = ({ body }) => {
  const tool = (body.messages as { role: string; content: string }[]).find(({ role }) => role === "tool");
  if (tool) return { text: `told: ${tool.content}` };
  return { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] };
};

// The clock is turned in SQLite's file.
test.skipIf(inCluster)("an approval that nobody gave in time is denied, and its response goes on", SLOW, async () => {
  const served = await serve(writes);
  const { app } = served;
  const upkeep = new Upkeep(served.door.services, { expiry: 50 });
  later(() => upkeep.close());
  await upkeep.prepare();
  await upkeep.start(() => undefined);
  const parked = await served.respond({ model: "test-model", input: "write", background: true });
  const { id } = await app.engine.start({ input: "write", workspace: served.workspace, door: "cli" });
  expect((await app.engine.wait(id)).status).toBe("waiting");
  await expect.poll(async () => (await app.store.node(parked.id))?.status).toBe("waiting");
  letExpire(served.folder);
  for (const one of [parked.id, id]) {
    await expect.poll(async () => (await app.store.node(one))?.status, { timeout: 10_000 }).toBe("completed");
    expect(app.engine.textOf(await app.engine.get(one))).toContain("nobody answered in time");
    expect(await app.store.approvals({ responseId: one })).toMatchObject([{ status: "expired", decidedBy: "expiry" }]);
  }
});

test.skipIf(inCluster)(
  "what waits in another directory goes on under that directory's own configuration",
  SLOW,
  async () => {
    const asked: string[] = [];
    const made = new Map<string, ReturnType<typeof createApp>>();
    const served = await serve(writes, {
      door: {
        appFor: (workspace) => {
          asked.push(workspace);
          return workspace === served.workspace ? Promise.resolve(served.app) : appOf(workspace);
        },
      },
    });
    const appOf = (workspace: string) => {
      const { config, environment } = served.app;
      const app = made.get(workspace) ?? createApp({ config, workspace, environment });
      made.set(workspace, app);
      return app;
    };
    const other = join(served.folder, "other");
    mkdirSync(other);
    const upkeep = new Upkeep(served.door.services, { expiry: 50 });
    later(async () => {
      await upkeep.close();
      await (await made.get(other))?.close();
    });
    await upkeep.prepare();
    await upkeep.start(() => undefined);
    // Left by a command that ends after the server began: nobody takes it up.
    const before = await appOf(other);
    const { id } = await before.engine.start({ input: "write", workspace: other, door: "cli" });
    expect((await before.engine.wait(id)).status).toBe("waiting");
    await before.close();
    made.clear();
    expect(asked).toEqual([]);
    letExpire(served.folder);
    await expect.poll(async () => (await served.app.store.node(id))?.status, { timeout: 10_000 }).toBe("completed");
    expect(asked).toContain(other);
    const own = await made.get(other);
    expect(own?.engine.textOf(await own.engine.get(id))).toContain("nobody answered in time");
  },
);

test.skipIf(!hasPostgres)(
  "a queue that nobody works on is told of; what stands behind another turn is none",
  SLOW,
  async () => {
    const { url } = await sharedPostgres();
    const said: string[] = [];
    const served = await serve([{ text: "never asked" }], {
      config: { database: `${url}&schema=unworked_${process.pid}` },
      app: { queued: true },
      door: { log: (line: string) => said.push(line) },
    });
    const upkeep = new Upkeep(served.door.services, { unworked: 100 });
    later(() => upkeep.close());
    const { id: conversation } = (await (await served.fetch("/v1/conversations", { json: {} })).json()) as {
      id: string;
    };
    for (const input of ["one", "two"]) await served.respond({ input, conversation, background: true });
    await upkeep.prepare();
    await upkeep.start(() => undefined);
    const warnings = () => said.filter((line) => line.includes("does a worker run that takes them"));
    await expect.poll(warnings, { timeout: 20_000 }).toHaveLength(1);
    expect(warnings()[0]).toContain("1 response queued for more than 0.1 s (general)");
    expect(served.upstream.requests).toHaveLength(0);
  },
);
