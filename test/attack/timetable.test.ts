/** Attacks on the clock of a server: schedules that stand in no file any more, tokens that were narrowed. */
import { expect, test } from "vitest";
import { Timetable } from "../../src/doors/http/timetable.ts";
import type { Schedule } from "../../src/types/schedule.ts";
import { serve } from "../http/served.ts";

const past = Date.now() - 1_000;

const scheduleOf = (rest: Partial<Schedule> & Pick<Schedule, "request">): Schedule => ({
  id: "sched_1",
  owner: "local",
  name: "brief",
  enabled: true,
  nextAt: past,
  lastResponseId: null,
  lastAt: null,
  error: null,
  createdAt: past,
  ...rest,
});

test("what stood in the configuration when the last server ran does not run on", async () => {
  const served = await serve([{ text: "hello" }]);
  const { store } = served.app;
  const request = { input: "hi", workspace: served.workspace };
  await store.saveSchedule(scheduleOf({ request, cron: "@daily", configured: true }));
  await new Timetable(served.door.services).tick();
  expect(await store.schedules()).toEqual([]);
  expect(await store.list({})).toEqual([]);
});

test("a token that was narrowed since starts nothing, and says so", async () => {
  const served = await serve([{ text: "hello" }]);
  const { store } = served.app;
  const text = await served.newToken({ profiles: ["explore"] });
  const token = (await store.tokens()).find(({ id }) => text.includes(id));
  if (!token) throw new Error("no token");
  const request = { input: "hi", workspace: served.workspace };
  await store.saveSchedule(scheduleOf({ owner: token.id, request: { ...request, profile: "general" } }));
  await store.saveSchedule(scheduleOf({ id: "sched_3", name: "fine", request }));
  await new Timetable(served.door.services).tick();
  await store.saveToken({ ...token, scopes: ["responses:read"], profiles: null });
  await store.saveSchedule(scheduleOf({ id: "sched_4", name: "reader", owner: token.id, request }));
  await new Timetable(served.door.services).tick();
  const all = await store.schedules();
  const errors = Object.fromEntries(all.map(({ name, error }) => [name, error]));
  expect(errors.brief).toContain("may not use profile");
  expect(errors.reader).toContain("may not start responses");
  expect(errors.fine).toBeNull();
  expect(await store.list({})).toHaveLength(1);
});

test("budgets and use of others are not to be seen", async () => {
  const served = await serve([{ text: "hello" }]);
  const [mine, other] = [await served.newToken(), await served.newToken({ scopes: ["responses:read"] })];
  const { id } = await served.respond({ input: "hi" }, mine);
  expect((await served.fetch(`/v1/responses/${id}/usage`, { token: mine })).status).toBe(200);
  expect((await served.fetch(`/v1/responses/${id}/usage`, { token: other })).status).toBe(404);
  for (const init of [{}, { method: "PUT", json: { for: "all", cost: 1e9 } }]) {
    expect((await served.fetch("/v1/budgets", { ...init, token: other })).status).toBe(403);
  }
  for (const wrong of [
    { for: "all", cost: -1 },
    { for: "all", tokens: "NaN" },
    { for: "response", cost: 1 },
    { for: "profile/\n" },
  ]) {
    expect((await served.fetch("/v1/budgets", { method: "PUT", json: wrong })).status).toBe(400);
  }
  const raw = { method: "PUT", body: '{"for":"all","cost":1e999}', headers: { "content-type": "application/json" } };
  expect((await served.fetch("/v1/budgets", raw)).status).toBe(400);
});
