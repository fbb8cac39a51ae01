/**
 * Attacks on what bounds a run: budgets that could be overrun, doubled, or hold others up for ever; schedules that could
 * be lost or outlive their configuration; lines in which somebody could stand for ever.
 */
import { getEventListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { createEngine } from "../../src/engine/engine.ts";
import { Turnstile } from "../../src/engine/turnstile.ts";
import { createLocalRunner } from "../../src/runners/local.ts";
import type { Reservation } from "../../src/types/budget.ts";
import type { Engine } from "../../src/types/engine.ts";
import { RotundaError } from "../../src/types/error.ts";
import { ModelError, type ModelEvent } from "../../src/types/model.ts";
import type { Schedule } from "../../src/types/schedule.ts";
import { databases } from "../store/databases.ts";
import { runningIn } from "../store/support.ts";
import { callOf, engineWith, later, modelOf, say, toolOf } from "../support.ts";

const DAY = 24 * 3_600_000;
const ask = (input = "hello", rest = {}) => ({ input, workspace: "/work", door: "test", ...rest });

function using(events: ModelEvent[], total_tokens: number, cost?: number): ModelEvent[] {
  const details = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } };
  const usage = { input_tokens: total_tokens, output_tokens: 0, total_tokens, ...details };
  const priced = cost === undefined ? usage : { ...usage, cost };
  return events.map((event) => (event.type === "finish" ? { ...event, usage: priced } : event));
}

const reservation = (responseId: string, holds: Reservation["holds"], tokens = 1): Reservation => ({
  responseId,
  holds,
  amount: { tokens, cost: 0, agents: 0 },
});

describe.each(databases)("on $name: what was reserved", ({ fresh }) => {
  const one = [{ key: "model/scripted", calls: 1 }];

  test("ends with its response, however that ends", async () => {
    const store = await (await fresh()).open();
    const model = { ...modelOf([say("done")]), maxConcurrent: 1 };
    const { engine } = await engineWith({ model, store });
    // As a process leaves it that is killed in the middle of a call.
    const dead = createEngine((await engineWith({ model, store })).parts);
    const { id } = await dead.start(ask("left behind", { settings: { foreground: true } }));
    await dead.wait(id);
    const { id: other } = await engine.start(ask("queue", { queue: true, conversation: "new" }));
    await engine.wait(other);
    const { id: third } = await runningIn(store);
    expect(await store.reserve(reservation(third, one), Date.now())).toEqual({ kind: "reserved" });
    expect(await store.reserve(reservation("resp_next", one), Date.now())).toMatchObject({ kind: "busy" });
  });

  test("counts as long as somebody runs it, and not when its process is gone", { timeout: 30_000 }, async () => {
    const store = await (await fresh()).open();
    const alive = await runningIn(store);
    // A process of this machine that is no more.
    const gone = await runningIn(store, alive.process.replace(/\/\d+\//, "/4000000/"));
    const two = [{ key: "model/scripted", calls: 2 }];
    for (const { id } of [alive, gone])
      expect(await store.reserve(reservation(id, two), Date.now())).toEqual({ kind: "reserved" });
    // Where leases are the database's, one that nobody renews lasts some seconds.
    const next = () => store.reserve(reservation("resp_next", two), Date.now());
    const look = async () => {
      await store.renew(alive.process);
      return (await next()).kind;
    };
    await expect.poll(look, { timeout: 20_000, interval: 500 }).toBe("reserved");
    expect(await store.reserve(reservation("resp_more", one), Date.now())).toMatchObject({ kind: "busy" });
  });

  test("goes with its lease: whoever waits for a person holds nothing up", async () => {
    const store = await (await fresh()).open();
    const { id, process } = await runningIn(store);
    await store.reserve(reservation(id, one), Date.now());
    expect(await store.reserve(reservation("resp_next", one), Date.now())).toMatchObject({ kind: "busy" });
    await store.release(id, { process, fence: 1 });
    expect(await store.reserve(reservation("resp_next", one), Date.now())).toEqual({ kind: "reserved" });
  });

  test("of one response or tree leaves nothing behind when that is gone", async () => {
    const store = await (await fresh()).open();
    const budgets = [
      { for: "response", tokens: 1_000 },
      { for: "tree", tokens: 1_000 },
    ];
    const { engine } = await engineWith({ model: modelOf([say("done")]), store, budgets });
    const { id } = await engine.wait((await engine.start(ask())).id);
    expect((await store.budgets(Date.now())).map(({ key }) => key)).toEqual([`tree/${id}`]);
    expect(await store.budgets(Date.now(), { key: `tree/${id}` })).toHaveLength(1);
    await engine.delete(id);
    expect(await store.budgets(Date.now())).toEqual([]);
  });

  test("by a call that was cut by a kill is free once its response has ended", async () => {
    const store = await (await fresh()).open();
    const answers = { hang: true };
    const model = {
      ...modelOf([
        async function* (_request, signal) {
          if (answers.hang) await sleep(60_000, undefined, { signal }).catch(() => undefined);
          yield* say("done");
        },
      ]),
      maxConcurrent: 1,
    };
    const { engine, parts } = await engineWith({ model, store });
    const { id } = await engine.start(ask());
    while (model.requests.length === 0) await sleep(5);
    answers.hang = false;
    // Another process ends it, as a server does that finds it after a crash.
    await engine.stop();
    await store.reserve(reservation(id, one), Date.now());
    const second = createEngine(parts);
    later(() => second.stop());
    await second.cancel(id, "given up");
    expect((await second.wait(id)).status).toBe("cancelled");
    expect(await store.reserve(reservation("resp_next", one), Date.now())).toEqual({ kind: "reserved" });
  });

  test("for a second call is not given back by what the first one has used", async () => {
    const store = await (await fresh()).open();
    const model = { ...modelOf([using(say(""), 10), using(say("done"), 10)]), maxConcurrent: 1 };
    let most = 0;
    const counted = {
      ...model,
      async *stream(...given: Parameters<typeof model.stream>) {
        await sleep(30);
        const held = await store.reserve(reservation("resp_spy", [{ key: "model/scripted", calls: 1 }]), Date.now());
        most = Math.max(most, held.kind === "reserved" ? 1 : 0);
        yield* model.stream(...given);
      },
    };
    const { engine } = await engineWith({ model: counted, store });
    const node = await engine.wait((await engine.start(ask())).id);
    expect(node.endedAt).not.toBeNull();
    expect(model.requests.length).toBeGreaterThan(1);
    expect(most).toBe(0);
  });

  test("a period that lies ahead of the clock, as after a wrong clock, does not last until then", async () => {
    const store = await (await fresh()).open();
    const now = Date.UTC(2030, 5, 1, 12);
    const hold = [{ key: "all", limits: { tokens: 5 }, period: "day" as const }];
    // The clock was a year ahead when it was first met.
    await store.reserve(reservation("resp_1", hold), now + 365 * DAY);
    await store.saveBudget("profile/x", { tokens: 5 }, "day", now + 365 * DAY);
    for (const budget of await store.budgets(now)) expect(budget.since).toBeLessThanOrEqual(now);
    // Seconds of difference between two machines around midnight take nothing back.
    await store.saveBudget("profile/y", { tokens: 5 }, "month", Date.UTC(2030, 6, 1));
    const nearly = (await store.budgets(Date.UTC(2030, 6, 1) - 2_000)).find(({ key }) => key === "profile/y");
    expect(nearly?.since).toBe(Date.UTC(2030, 6, 1));
  });

  test("under a configured budget follows the configuration, also its period and its end", async () => {
    const store = await (await fresh()).open();
    const now = Date.UTC(2030, 5, 15, 12);
    const hold = (limits?: { tokens: number }, period?: "day" | "month") => [
      { key: "all", ...(limits && { limits }), ...(period && { period }) },
    ];
    await store.reserve(reservation("resp_1", hold({ tokens: 0 }, "day")), now);
    await store.reserve(reservation("resp_1", hold({ tokens: 0 }, "month")), now);
    expect(await store.budgets(now)).toMatchObject([{ key: "all", period: "month", since: Date.UTC(2030, 5, 1) }]);
    expect(await store.reserve(reservation("resp_1", hold({ tokens: 0 }, "month")), now)).toMatchObject({
      kind: "reached",
    });
    // It stands in the configuration no more.
    expect(await store.reserve(reservation("resp_1", hold()), now)).toEqual({ kind: "reserved" });
    await store.saveBudget("all", { tokens: 0 }, "total", now);
    expect(await store.reserve(reservation("resp_1", hold()), now)).toMatchObject({ kind: "reached" });
  });

  test("keys with odd characters and huge amounts are what they are", async () => {
    const store = await (await fresh()).open();
    const keys = ["profile/'; DROP TABLE budgets; --", "model/a/b c", "token/ü💥", "tree/%_\\"];
    for (const key of keys) await store.saveBudget(key, { cost: 1e308, tokens: Number.MAX_SAFE_INTEGER }, "day", 0);
    expect((await store.budgets(0)).map(({ key }) => key).toSorted()).toEqual(keys.toSorted());
    expect(
      await store.reserve(
        reservation(
          "resp_1",
          keys.map((key) => ({ key })),
          Number.MAX_SAFE_INTEGER,
        ),
        0,
      ),
    ).toEqual({ kind: "reserved" });
  });
});

describe("a call that fails, or never was", () => {
  test("of a summary holds nobody up", async () => {
    const model = {
      ...modelOf([
        ({ instructions }) => {
          if (instructions?.includes("summary")) throw new ModelError("upstream_failed", "no");
          return using(say("hello"), 10);
        },
      ]),
      maxConcurrent: 1,
    };
    const { engine } = await engineWith({ model });
    const first = await engine.wait((await engine.start(ask())).id);
    const byHand = ask("", { input: [], previousResponseId: first.id, settings: { compact: {} } });
    expect((await engine.wait((await engine.start(byHand)).id)).status).toBe("failed");
    const next = await engine.start(ask());
    const outcome = await Promise.race([engine.wait(next.id), sleep(3_000, undefined, { ref: false })]);
    expect(outcome?.status).toBe("completed");
  });

  test("of those that are cancelled in line and at the turnstile nothing stays reserved", async () => {
    const model = {
      ...modelOf([
        async function* (_request, signal) {
          await sleep(100, undefined, { signal }).catch(() => undefined);
          yield* say("done");
        },
      ]),
      maxConcurrent: 1,
    };
    const { engine, store } = await engineWith({ model });
    const nodes = await Promise.all(Array.from({ length: 12 }, () => engine.start(ask())));
    await Promise.all(
      nodes.slice(0, 11).map(({ id }, number) => sleep(number * 15).then(() => engine.cancel(id, "no").catch(() => 0))),
    );
    expect((await engine.wait(nodes[11]?.id ?? "")).status).toBe("completed");
    const free = await store.reserve(reservation("resp_x", [{ key: "model/scripted", calls: 1 }]), Date.now());
    expect(free).toEqual({ kind: "reserved" });
  });

  test("a wait in line does not gather listeners", async () => {
    let listeners = Number.NaN;
    const model = modelOf([
      (_request, signal) => {
        listeners = getEventListeners(signal, "abort").length;
        return say("done");
      },
    ]);
    const { engine, store } = await engineWith({ model: { ...model, maxConcurrent: 1 } });
    const { id: other, process } = await runningIn(store);
    await store.reserve(reservation(other, [{ key: "model/scripted", calls: 1 }]), Date.now());
    setTimeout(() => void store.release(other, { process, fence: 1 }), 2_500);
    expect((await engine.wait((await engine.start(ask())).id)).status).toBe("completed");
    expect(listeners).toBeLessThan(5);
  });

  test("an endpoint that names a negative price gives nothing back", async () => {
    const { engine, store } = await engineWith({
      model: modelOf([using(say("a"), 10, 1), using(say("b"), 10, -100)]),
      budgets: [{ for: "all", cost: 5 }],
    });
    for (let turn = 0; turn < 2; turn++) await engine.wait((await engine.start(ask())).id);
    expect((await store.budgets(Date.now()))[0]?.spent.cost).toBe(1);
  });
});

test("whoever gives up in a turnstile's line passes nobody's turn on, and leaves no line behind", async () => {
  const turnstile = new Turnstile();
  const none = new AbortController().signal;
  const leave = await turnstile.enter("k", "a", none);
  const gone = new AbortController();
  const second = turnstile.enter("k", "b", gone.signal);
  const third = turnstile.enter("k", "c", none);
  gone.abort();
  (await second)();
  const early = await Promise.race([third, sleep(20)]);
  expect(early).toBeUndefined();
  leave();
  (await third)();
  expect(turnstile.isCrowded("k")).toBe(false);
});

describe("what stands behind something", () => {
  test("leaves its place to what it stands behind, though that comes back when all places are taken", async () => {
    const tool = toolOf("write_it", async () => ({ text: "written" }), { access: "write" });
    const model = modelOf([callOf(["write_it", {}]), say("done")]);
    const permissions = { allow: [], ask: ["write_it"], deny: [], mode: "ask" as const };
    const { parts, store } = await engineWith({ model, toolList: [tool], permissions });
    const runner = createLocalRunner({ limit: 2, run: (id) => engine.run(id) });
    const engine: Engine = createEngine({ ...parts, runner });
    later(() => engine.stop());
    const first = await engine.start(ask("one", { settings: { onApproval: "wait" } }));
    expect((await engine.wait(first.id)).status).toBe("waiting");
    let parent = first.id;
    for (let turn = 0; turn < 4; turn++) {
      parent = (await engine.start(ask("more", { queue: true, previousResponseId: parent }))).id;
    }
    await sleep(100);
    const [approval] = await store.approvals({ responseId: first.id });
    await engine.decide(approval?.id ?? "", { decision: "allow", by: "me" } as never);
    await engine.goOn(approval?.id ?? "");
    const outcome = await Promise.race([engine.wait(first.id), sleep(5_000, undefined, { ref: false })]);
    expect(outcome?.status).toBe("completed");
    const last = await Promise.race([engine.wait(parent), sleep(5_000, undefined, { ref: false })]);
    expect(last?.status).toBe("completed");
  });
});

describe("schedules", () => {
  const at = Date.UTC(2030, 0, 7, 7);
  const once: Schedule = {
    id: "sched_1",
    owner: "local",
    name: "later",
    request: { input: "hi", workspace: "/work" },
    enabled: true,
    nextAt: at,
    lastResponseId: null,
    lastAt: null,
    error: null,
    createdAt: 0,
  };

  test("one moment that could not be kept because a server was ending or full is kept by the next", async () => {
    const { engine, store } = await engineWith({ model: modelOf([say("done")]), now: () => at + 1_000 });
    await store.saveSchedule(once);
    for (const code of ["shutting_down", "rate_limited", "storage_full"] as const) {
      const refuse = () => Promise.reject(new RotundaError(code, "not now"));
      expect(await engine.upkeep.startDue(refuse)).toEqual([]);
      expect(await store.schedules()).toMatchObject([{ nextAt: at, error: "not now" }]);
    }
    const [started] = await engine.upkeep.startDue((request) => engine.start(request));
    expect((await engine.wait(started?.id ?? "")).status).toBe("completed");
    expect(await store.schedules()).toMatchObject([{ nextAt: null, error: null, lastResponseId: started?.id }]);
  });

  test("one that can never be kept is told of, and does not come again and again", async () => {
    const { engine, store } = await engineWith({ model: modelOf([say("done")]), now: () => at + 1_000 });
    await store.saveSchedule(once);
    await engine.upkeep.startDue(() => Promise.reject(new RotundaError("not_found", "its directory is gone")));
    expect(await store.schedules()).toMatchObject([{ nextAt: null, error: "its directory is gone" }]);
  });

  test("thousands that are due at once are all started, once each", async () => {
    const { engine, store } = await engineWith({ model: modelOf([say("done")]), now: () => at + 1_000 });
    await Promise.all(
      Array.from({ length: 1_000 }, (_, number) =>
        store.saveSchedule({ ...once, id: `sched_${number}`, name: `n${number}` }),
      ),
    );
    const start = (request: Parameters<Engine["start"]>[0]) => engine.start(request);
    const [one, other] = await Promise.all([engine.upkeep.startDue(start), engine.upkeep.startDue(start)]);
    expect(new Set([...one, ...other].map(({ id }) => id)).size).toBe(1_000);
    expect(await store.list({ limit: 5_000 })).toHaveLength(1_000);
    expect(await store.schedules(at + 1_000)).toEqual([]);
  }, 60_000);

  test("one that is removed while it starts does not come back", async () => {
    const { engine, store } = await engineWith({ model: modelOf([say("done")]), now: () => at + 1_000 });
    await store.saveSchedule(once);
    await engine.upkeep.startDue(async (request) => {
      await store.removeSchedule(once.id);
      return engine.start(request);
    });
    expect(await store.schedules()).toEqual([]);
  });
});

test("retention leaves what a kept response goes on from, a sub-agent's included, and what runs", async () => {
  let now = Date.UTC(2030, 0, 1);
  const { engine, store } = await engineWith({ model: modelOf([say("done")]), now: () => now, keep: DAY });
  const root = await engine.wait((await engine.start(ask())).id);
  const sub = { responseId: root.id, itemId: "mcp_none" };
  const child = await engine.wait((await engine.start(ask("sub", { caller: sub }))).id);
  now += 10 * DAY;
  const on = await engine.wait((await engine.start(ask("on", { previousResponseId: child.id }))).id);
  await engine.upkeep.prune();
  expect((await engine.wait((await engine.start(ask("again", { previousResponseId: on.id }))).id)).status).toBe(
    "completed",
  );
  expect(await store.node(child.id)).toBeDefined();
  expect((await engine.get(child.id)).output.length).toBeGreaterThan(0);
});
