/** Budgets and bounds on calls: what is used up makes a response wait, and nothing is asked beyond it. */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { createEngine } from "../../src/engine/engine.ts";
import { withFallback } from "../../src/models/fallback.ts";
import { createBuiltinTools } from "../../src/tools/builtin.ts";
import type { BudgetConfig } from "../../src/types/budget.ts";
import { ModelError, type ModelEvent } from "../../src/types/model.ts";
import type { ResponseNode } from "../../src/types/response.ts";
import { detectSandbox } from "../../src/util/sandbox.ts";
import { runningIn } from "../store/support.ts";
import { type Answer, callOf, engineWith, later, modelOf, say, temporaryStore, toolOf } from "../support.ts";

const FOREVER = 4_102_444_800_000;

function using(events: ModelEvent[], input_tokens: number, output_tokens = 0): ModelEvent[] {
  const details = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } };
  const usage = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens, ...details };
  return events.map((event) => (event.type === "finish" ? { ...event, usage } : event));
}

const ask = (input = "hello", rest = {}) => ({ input, workspace: "/work", door: "test", ...rest });

const tasks = (count: number) =>
  callOf(...Array.from({ length: count }, (_, number): [string, object] => ["task", taskOf(number)]));

const taskOf = (number: number) => ({ agent_type: "explore", description: "looks", task: `look ${number}` });

const builtin = () =>
  createBuiltinTools({
    sandbox: () => detectSandbox("none"),
    profiles: [{ name: "explore", description: "looks" }],
  });

describe("a budget that is used up", () => {
  test("makes the next call wait, says why, and lets it go on when it is raised", async () => {
    const tool = toolOf("look", async () => ({ text: "seen" }));
    const model = modelOf([using(callOf(["look", {}]), 900, 200), using(say("done"), 300)]);
    const budgets: BudgetConfig[] = [{ for: "profile/general", tokens: 1_000 }];
    const { engine, store } = await engineWith({ model, toolList: [tool], budgets });
    const { id } = await engine.start(ask());
    const waiting = await engine.wait(id);
    expect(waiting).toMatchObject({
      status: "waiting",
      endedAt: null,
      error: { code: "budget_reached", budget: "profile/general" },
    });
    expect(waiting.error?.message).toContain("1100 of 1000 tokens");
    expect(model.requests).toHaveLength(1);
    // Whoever asks too early changes nothing.
    expect(await engine.upkeep.goOnWithinBudget(id)).toBeUndefined();
    await store.saveBudget("profile/general", { tokens: 2_000 }, "total", Date.now());
    expect((await engine.upkeep.goOnWithinBudget(id))?.id).toBe(id);
    expect(await engine.wait(id)).toMatchObject({ status: "completed", error: null });
    expect((await store.budgets(Date.now())).find(({ key }) => key === "profile/general")).toMatchObject({
      spent: { tokens: 1_400 },
      set: true,
    });
    const [first] = await store.list({});
    expect(first?.usage.total_tokens).toBe(1_400);
  });

  test("of money counts what a configured price makes of the tokens", async () => {
    const price = { input: 2, output: 10, cached: 1 };
    const model = { ...modelOf([using(say("a"), 100_000, 10_000), using(say("b"), 1)]), price };
    const { engine, store } = await engineWith({ model, budgets: [{ for: "all", cost: 0.25 }] });
    const first = await engine.wait((await engine.start(ask())).id);
    expect(first).toMatchObject({ status: "completed", usage: { cost: 0.3 } });
    const second = await engine.wait((await engine.start(ask())).id);
    expect(second.error?.message).toBe("the budget of all is used up: $0.3 of $0.25");
    await store.removeBudget("all");
    // What the configuration says counts anew.
    expect((await engine.upkeep.goOnWithinBudget(second.id))?.id).toBe(second.id);
    expect((await engine.wait(second.id)).status).toBe("completed");
  });

  test("of a day begins anew at midnight (UTC)", async () => {
    let now = Date.UTC(2030, 0, 1, 23, 59);
    const model = modelOf([using(say("a"), 100)]);
    const { engine } = await engineWith({ model, budgets: [{ for: "all", tokens: 100, per: "day" }], now: () => now });
    expect((await engine.wait((await engine.start(ask())).id)).status).toBe("completed");
    const { id } = await engine.start(ask());
    expect((await engine.wait(id)).status).toBe("waiting");
    now += 2 * 60_000;
    expect((await engine.upkeep.goOnWithinBudget(id))?.id).toBe(id);
    expect((await engine.wait(id)).status).toBe("completed");
  });

  test("a profile's own limit ends a response where a budget makes it wait", async () => {
    const model = modelOf([using(callOf(["look", {}]), 500), using(say("done"), 1)]);
    const tool = toolOf("look", async () => ({ text: "seen" }));
    const limits = { turns: 5, seconds: 60, tokens: 400, callsPerAnswer: 5 };
    const { engine } = await engineWith({
      model,
      toolList: [tool],
      profile: { limits },
      budgets: [{ for: "all", tokens: 400 }],
    });
    expect(await engine.wait((await engine.start(ask())).id)).toMatchObject({
      status: "incomplete",
      incompleteReason: "max_tokens",
    });
  });

  test("of a tree counts all its branches, of a response its sub-agents as well", async () => {
    const model = modelOf([using(say("a"), 300)]);
    const { engine } = await engineWith({ model, budgets: [{ for: "tree", tokens: 600 }] });
    const root = await engine.wait((await engine.start(ask())).id);
    const branch = (): Promise<ResponseNode> =>
      engine.start(ask("on", { previousResponseId: root.id })).then(({ id }) => engine.wait(id));
    expect((await branch()).status).toBe("completed");
    expect((await branch()).error?.budget).toBe(`tree/${root.id}`);
    // Another tree has one of its own.
    expect((await engine.wait((await engine.start(ask())).id)).status).toBe("completed");
  });
});

describe("sub-agents", () => {
  test("T14 G20 ten beside each other go over a budget by at most one call each, and wait together", async () => {
    let [now, most] = [0, 0];
    const answer: Answer = async function* ({ history }) {
      if (JSON.stringify(history).includes("send them")) return yield* using(tasks(10), 1_000);
      most = Math.max(most, ++now);
      await sleep(30);
      now--;
      yield* using(say("found"), 1_000);
    };
    const model = modelOf([answer]);
    const limit = 4_500;
    const budgets: BudgetConfig[] = [{ for: "response", tokens: limit }];
    const { engine, store } = await engineWith({ model, toolList: builtin(), budgets });
    const { id } = await engine.start(ask("send them"));
    const waiting = await engine.wait(id);
    expect(waiting).toMatchObject({ status: "waiting", error: { budget: `response/${id}` } });
    const [budget] = await store.budgets(Date.now());
    // What was under way when it was reached is reserved: so not even one call too many was made of each.
    expect(budget?.spent.tokens).toBeGreaterThanOrEqual(limit);
    expect(budget?.spent.tokens).toBeLessThan(limit + 10 * 1_000);
    expect(budget?.spent.tokens).toBe(1_000 * model.requests.length);
    expect((await store.list({ callerResponseId: id })).length).toBeGreaterThan(3);
    expect(most).toBeGreaterThan(1);
    const used = await store.usedBelow(id);
    expect(used.tokens).toBe(budget?.spent.tokens);
  });

  test("are counted by a budget of agents, and the parent waits for it", async () => {
    const answer: Answer = ({ history }) => {
      const text = JSON.stringify(history);
      if (!text.includes("send them")) return say("found");
      return text.includes("found") ? say("done") : tasks(3);
    };
    const model = modelOf([answer]);
    const { engine, store } = await engineWith({ model, toolList: builtin(), budgets: [{ for: "all", agents: 2 }] });
    const { id } = await engine.start(ask("send them"));
    const waiting = await engine.wait(id);
    expect(waiting).toMatchObject({ status: "waiting", error: { budget: "all" } });
    expect(waiting.error?.message).toContain("2 of 2 sub-agents");
    expect(await store.list({ callerResponseId: id })).toHaveLength(2);
    await store.saveBudget("all", { agents: 10 }, "total", Date.now());
    await engine.upkeep.goOnWithinBudget(id);
    expect((await engine.wait(id)).status).toBe("completed");
    expect(await store.list({ callerResponseId: id })).toHaveLength(3);
  });
});

describe("calls at once", () => {
  /** Counts how many are asked at the same time. */
  function counted(milliseconds: number, id = "scripted") {
    const state = { now: 0, most: 0, order: [] as string[], held: Promise.resolve() };
    const model = modelOf(
      [
        async function* (request) {
          state.now++;
          state.most = Math.max(state.most, state.now);
          state.order.push(JSON.stringify(request.history).match(/"([ab]\d+)"/)?.[1] ?? "?");
          await state.held;
          await sleep(milliseconds);
          state.now--;
          yield* say("done");
        },
      ],
      id,
    );
    return { model, state };
  }

  test("of a model are bounded over all runs, and conversations take turns", async () => {
    const { model, state } = counted(15);
    const { engine } = await engineWith({ model: { ...model, maxConcurrent: 2 } });
    const root = await engine.wait((await engine.start(ask("a0"))).id);
    const conversation = root.conversationId ?? "";
    const runs: Promise<ResponseNode>[] = [];
    // Until all have come: else a slow machine has answered the first ones before the last is asked.
    const all = Promise.withResolvers<void>();
    state.held = all.promise;
    const start = async (input: string, rest = {}) => {
      const { id } = await engine.start(ask(input, rest));
      runs.push(engine.wait(id));
    };
    // One conversation floods, another one comes later with a single question.
    for (let number = 1; number <= 12; number++) {
      await start(`a${number}`, { previousResponseId: root.id, conversation });
    }
    await start("b1");
    all.resolve();
    for (const node of await Promise.all(runs)) expect(node.status).toBe("completed");
    expect(state.most).toBe(2);
    expect(state.order.indexOf("b1")).toBeLessThan(8);
  });

  test("of a profile are bounded over two processes' engines on one database", async () => {
    const { model, state } = counted(10);
    const store = await temporaryStore();
    const profile = { maxConcurrent: 1 };
    const { engine, parts } = await engineWith({ model, store, profile });
    const other = createEngine(parts);
    later(() => other.stop());
    const ids = await Promise.all(
      [engine, other, engine, other, engine].map(async (one) => [one, (await one.start(ask())).id] as const),
    );
    for (const [one, id] of ids) expect((await one.wait(id)).status).toBe("completed");
    expect(state.most).toBe(1);
  });

  test("one that is cancelled while it stands in line ends at once, and the line goes on", async () => {
    const { model } = counted(50);
    const { engine, store } = await engineWith({ model: { ...model, maxConcurrent: 1 } });
    const [first, second, third] = await Promise.all([engine.start(ask()), engine.start(ask()), engine.start(ask())]);
    await engine.cancel(second?.id ?? "", "no longer wanted");
    expect((await engine.wait(second?.id ?? "")).status).toBe("cancelled");
    expect((await engine.wait(first?.id ?? "")).status).toBe("completed");
    expect((await engine.wait(third?.id ?? "")).status).toBe("completed");
    // Nothing stays reserved.
    const holds = [{ key: "model/scripted", calls: 1 }];
    const amount = { tokens: 0, cost: 0, agents: 0 };
    const { id: responseId } = await runningIn(store);
    expect(await store.reserve({ responseId, holds, amount }, FOREVER)).toEqual({
      kind: "reserved",
    });
    expect(await store.reserve({ responseId: "resp_y", holds, amount }, FOREVER)).toEqual({
      kind: "busy",
      key: "model/scripted",
    });
  });
});

describe("a model that is asked instead", () => {
  const down = () =>
    modelOf(
      [
        // biome-ignore lint/correctness/useYield: it is out of reach before it says anything.
        async function* () {
          throw new ModelError("upstream_unreachable", "nobody is there");
        },
      ],
      "first",
    );

  test("counts for itself: its tokens, its price, its budget", async () => {
    const second = { ...modelOf([using(say("done"), 1_000)], "second"), price: { input: 5, output: 5 } };
    const model = withFallback({ ...down(), price: { input: 1, output: 1 } }, [second]);
    const budgets: BudgetConfig[] = [
      { for: "model/first", tokens: 500 },
      { for: "model/second", tokens: 1_500 },
      { for: "all", tokens: 100_000 },
    ];
    const { engine, store } = await engineWith({ model, budgets });
    for (const cost of [0.005, 0.005]) {
      expect(await engine.wait((await engine.start(ask())).id)).toMatchObject({ status: "completed", usage: { cost } });
    }
    const third = await engine.wait((await engine.start(ask())).id);
    expect(third).toMatchObject({ status: "waiting", error: { code: "budget_reached", budget: "model/second" } });
    const spent = new Map((await store.budgets(Date.now())).map(({ key, spent: { tokens } }) => [key, tokens]));
    expect([spent.get("model/first"), spent.get("model/second"), spent.get("all")]).toEqual([0, 2_000, 2_000]);
    await store.saveBudget("model/second", { tokens: 10_000 }, "total", Date.now());
    await engine.upkeep.goOnWithinBudget(third.id);
    expect((await engine.wait(third.id)).status).toBe("completed");
  });

  test("is asked by as many at once as it takes, and leaves its place to the first one's next call", async () => {
    const state = { now: 0, most: 0 };
    const answer: Answer = async function* () {
      state.most = Math.max(state.most, ++state.now);
      await sleep(20);
      state.now--;
      yield* say("done");
    };
    const second = { ...modelOf([answer], "second"), maxConcurrent: 2 };
    const model = withFallback({ ...down(), maxConcurrent: 4 }, [second]);
    const { engine, store } = await engineWith({ model });
    const ids = await Promise.all(Array.from({ length: 8 }, async () => (await engine.start(ask())).id));
    for (const id of ids) expect((await engine.wait(id)).status).toBe("completed");
    expect(state.most).toBe(2);
    const { id: responseId } = await runningIn(store);
    const amount = { tokens: 0, cost: 0, agents: 0 };
    for (const key of ["model/first", "model/second"]) {
      expect(await store.reserve({ responseId, holds: [{ key, calls: 1 }], amount }, FOREVER)).toEqual({
        kind: "reserved",
      });
    }
  });

  test("is not asked by who was stopped while it stood in line for it", async () => {
    const second = { ...modelOf([using(say("done"), 1)], "second"), maxConcurrent: 1 };
    const model = withFallback(down(), [second]);
    const { engine, store } = await engineWith({ model });
    const { id: responseId } = await runningIn(store);
    const amount = { tokens: 0, cost: 0, agents: 0 };
    await store.reserve({ responseId, holds: [{ key: "model/second", calls: 1 }], amount }, FOREVER);
    const { id } = await engine.start(ask());
    await sleep(100);
    await engine.cancel(id, "no longer wanted");
    expect((await engine.wait(id)).status).toBe("cancelled");
    expect(second.requests).toHaveLength(0);
  });
});
