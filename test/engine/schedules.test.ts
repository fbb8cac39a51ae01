/** Schedules: each moment that is due starts one response, whoever looks. */
import { expect, test } from "vitest";
import { createEngine } from "../../src/engine/engine.ts";
import { syncConfigured } from "../../src/engine/schedules.ts";
import type { Schedule } from "../../src/types/schedule.ts";
import { nextMoment } from "../../src/util/cron.ts";
import { engineWith, later, modelOf, say } from "../support.ts";

const MONDAY = Date.UTC(2030, 0, 7, 6, 30);

function scheduleOf(rest: Partial<Schedule> = {}): Schedule {
  return {
    id: "sched_1",
    owner: "local",
    name: "brief",
    cron: "0 7 * * 1-5",
    request: { input: "what is new?", workspace: "/work" },
    enabled: true,
    nextAt: Date.UTC(2030, 0, 7, 7),
    lastResponseId: null,
    lastAt: null,
    error: null,
    createdAt: MONDAY,
    ...rest,
  };
}

async function fixture(schedule: Schedule) {
  const clock = { now: MONDAY };
  const { engine, store, parts } = await engineWith({ model: modelOf([say("done")]), now: () => clock.now });
  await store.saveSchedule(schedule);
  const tick = () => engine.upkeep.startDue((request) => engine.start(request));
  return { clock, engine, store, parts, tick };
}

test("a moment that is due starts one response, and the next one is on its way", async () => {
  const { clock, engine, store, tick } = await fixture(scheduleOf());
  expect(await tick()).toEqual([]);
  clock.now = Date.UTC(2030, 0, 7, 7, 0, 1);
  const [started] = await tick();
  expect((await engine.wait(started?.id ?? "")).status).toBe("completed");
  expect(await tick()).toEqual([]);
  expect(await store.schedules()).toMatchObject([
    { nextAt: Date.UTC(2030, 0, 8, 7), lastAt: Date.UTC(2030, 0, 7, 7), lastResponseId: started?.id },
  ]);
});

test("moments that passed while nobody looked lead to one", async () => {
  const { clock, store, tick } = await fixture(scheduleOf());
  clock.now = Date.UTC(2030, 0, 20);
  expect(await tick()).toHaveLength(1);
  expect((await store.schedules())[0]?.nextAt).toBe(Date.UTC(2030, 0, 21, 7));
  expect(await tick()).toEqual([]);
});

test("G22 two servers that look at once, and one that died before it wrote down that it had started, start it once", async () => {
  const { clock, engine, store, parts, tick } = await fixture(scheduleOf());
  const other = createEngine(parts);
  later(() => other.stop());
  clock.now = Date.UTC(2030, 0, 7, 8);
  await Promise.all([tick(), other.upkeep.startDue((request) => other.start(request)), tick()]);
  expect(await store.list({})).toHaveLength(1);
  await store.saveSchedule(scheduleOf());
  const again = await tick();
  expect(await store.list({})).toHaveLength(1);
  expect(again[0]?.id).toBe((await store.list({}))[0]?.id);
  await engine.wait(again[0]?.id ?? "");
});

test("once, in a conversation of its own name that the next one goes on with", async () => {
  const { cron: _cron, ...once } = scheduleOf();
  const request = { input: "go on", workspace: "/work", conversation: "diary" };
  const { clock, engine, store, tick } = await fixture({ ...once, request });
  clock.now = Date.UTC(2030, 0, 7, 9);
  const [first] = await tick();
  await engine.wait(first?.id ?? "");
  expect((await store.schedules())[0]?.nextAt).toBeNull();
  await store.saveSchedule({ ...once, request, nextAt: clock.now });
  clock.now += 1_000;
  const [second] = await tick();
  await engine.wait(second?.id ?? "");
  expect((await store.node(second?.id ?? ""))?.previousResponseId).toBe(first?.id);
  expect((await store.conversation("diary", "local"))?.head).toBe(second?.id);
});

test("what cannot be started says why, and is tried at the next moment", async () => {
  const request = { input: "hello", workspace: "/work", profile: "nobody" };
  const { clock, store, tick } = await fixture(scheduleOf({ request }));
  clock.now = Date.UTC(2030, 0, 7, 9);
  expect(await tick()).toEqual([]);
  expect(await store.schedules()).toMatchObject([{ error: "no profile nobody", nextAt: Date.UTC(2030, 0, 8, 7) }]);
});

test("the configuration's schedules are stored, changed and gone with it", async () => {
  const { engine, store } = await fixture(scheduleOf());
  const configured = [{ name: "daily", cron: "@daily", input: "hello" }];
  await engine.upkeep.syncSchedules(configured, "/work");
  await engine.upkeep.syncSchedules(configured, "/work");
  expect((await store.schedules()).map(({ name }) => name)).toEqual(["brief", "daily"]);
  const [, before] = await store.schedules();
  await engine.upkeep.syncSchedules([{ name: "daily", cron: "@hourly", input: "hello" }], "/work");
  const [, after] = await store.schedules();
  expect(after).toMatchObject({ id: before?.id, cron: "@hourly" });
  await engine.upkeep.syncSchedules([], "/elsewhere");
  expect(await store.schedules()).toHaveLength(2);
  await engine.upkeep.syncSchedules([], "/work");
  expect((await store.schedules()).map(({ name }) => name)).toEqual(["brief"]);
});

test("expressions: time zones count, over a change of the clocks too; what is none is refused", async () => {
  const march = Date.UTC(2030, 2, 30, 12);
  expect(await nextMoment("0 7 * * *", "Europe/Paris", march)).toBe(Date.UTC(2030, 2, 31, 5));
  expect(await nextMoment("0 7 * * *", "Europe/Paris", march - 86_400_000)).toBe(Date.UTC(2030, 2, 30, 6));
  expect(await nextMoment("30 0 7 * * *", "UTC", march)).toBe(Date.UTC(2030, 2, 31, 7, 0, 30));
  for (const [cron, zone] of [
    ["nonsense"],
    ["99 * * * *"],
    ["* *"],
    ["0 7 * * *", "Mars/Olympus"],
    [""],
    ["0 0 7 * * * *"],
  ]) {
    await expect(nextMoment(cron ?? "", zone)).rejects.toMatchObject({ code: "usage" });
  }
});

test("of the configuration's schedules one that can never be due keeps no other back, and is told", async () => {
  const { clock, engine, store, tick } = await fixture(scheduleOf({ enabled: false }));
  const told: string[] = [];
  const configured = [
    { name: "broken", cron: "99 7 * * 1-5", input: "hello" },
    { name: "nowhere", cron: "@daily", timezone: "Europe/Pariss", input: "hello" },
    { name: "hourly", cron: "@hourly", input: "hello" },
  ];
  await syncConfigured(store, configured, "/work", clock.now, (text) => told.push(text));
  expect(told).toEqual([
    expect.stringContaining("schedule broken never starts anything"),
    expect.stringContaining('the time zone "Europe/Pariss" is unknown'),
  ]);
  const stored = new Map((await store.schedules()).map((one) => [one.name, one]));
  expect(stored.get("broken")).toMatchObject({ nextAt: null, error: expect.stringContaining("is no schedule") });
  clock.now += 3_600_000;
  const [started, ...others] = await tick();
  expect(others).toEqual([]);
  expect((await engine.wait(started?.id ?? "")).settings.metadata).toMatchObject({
    schedule: stored.get("hourly")?.id,
  });
  // Mended, it is due again.
  await syncConfigured(
    store,
    [{ name: "broken", cron: "@daily", input: "hello" }],
    "/work",
    clock.now,
    () => undefined,
  );
  expect((await store.schedules()).find(({ name }) => name === "broken")).toMatchObject({
    nextAt: Date.UTC(2030, 0, 8),
    error: null,
  });
});
