/** Schedules over HTTP: owners see their own, and a server starts what is due. */
import { expect, test } from "vitest";
import { Upkeep } from "../../src/doors/http/upkeep.ts";
import { later } from "../support.ts";
import { serve } from "./served.ts";

interface WireSchedule {
  id: string;
  next_at: string | null;
  last_response_id: string | null;
  error: string | null;
}

test("made, listed, changed and removed by its owner alone", async () => {
  const served = await serve([{ text: "hello" }]);
  const [mine, other] = [await served.newToken(), await served.newToken()];
  const make = (json: object, token = mine) => served.fetch("/v1/schedules", { json, token });
  const made = (await (await make({ name: "brief", cron: "0 7 * * *", input: "hi" })).json()) as WireSchedule;
  expect(made.next_at).toMatch(/T07:00:00.000Z$/);
  expect((await make({ name: "brief", cron: "@daily", input: "hi" })).status).toBe(400);
  expect((await make({ name: "brief", cron: "@daily", input: "hi" }, other)).status).toBe(200);
  for (const wrong of [{ cron: "nonsense" }, {}, { cron: "@daily", delay: 1 }, { at: "tomorrow" }, { delay: -1 }]) {
    expect((await make({ name: "wrong", input: "hi", ...wrong })).status).toBe(400);
  }
  const listed = async (token: string) =>
    ((await (await served.fetch("/v1/schedules", { token })).json()) as { data: WireSchedule[] }).data;
  expect((await listed(mine)).map(({ id }) => id)).toEqual([made.id]);
  for (const method of ["GET", "DELETE"]) {
    expect((await served.fetch(`/v1/schedules/${made.id}`, { method, token: other })).status).toBe(404);
  }
  const change = { method: "PATCH", json: { enabled: false }, token: mine };
  expect(await (await served.fetch(`/v1/schedules/${made.id}`, change)).json()).toMatchObject({ next_at: null });
  expect((await served.fetch(`/v1/schedules/${made.id}`, { method: "DELETE", token: mine })).status).toBe(200);
  expect(await listed(mine)).toEqual([]);
});

test("a server starts what is due for its owner; a revoked token starts nothing", async () => {
  const served = await serve([{ text: "hello" }]);
  const upkeep = new Upkeep(served.door.services);
  later(() => upkeep.close());
  const token = await served.newToken();
  const revoked = await served.newToken();
  for (const one of [token, revoked]) {
    await served.fetch("/v1/schedules", { json: { name: "soon", delay: 0, input: "hi" }, token: one });
  }
  const all = await served.app.store.tokens();
  const last = all.find(({ id }) => revoked.includes(id));
  if (!last) throw new Error("no token");
  await served.app.store.saveToken({ ...last, revokedAt: Date.now() });
  await upkeep.start(() => undefined);
  let schedules = await served.app.store.schedules();
  for (let left = 100; left > 0 && schedules.some(({ lastAt }) => lastAt === null); left--) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    schedules = await served.app.store.schedules();
  }
  const [done, refused] = [token, revoked].map((one) => schedules.find(({ owner }) => one.includes(owner)));
  expect((await served.app.engine.wait(done?.lastResponseId ?? "")).status).toBe("completed");
  expect((await served.app.store.node(done?.lastResponseId ?? ""))?.owner).toBe(done?.owner);
  expect(refused).toMatchObject({ lastResponseId: null, error: expect.stringContaining("no longer in force") });
});
