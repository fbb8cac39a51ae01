/** The local runner: what does not fit into a process stays on disk, and comes in turns. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { createEngine } from "../../src/engine/engine.ts";
import { createLocalRunner } from "../../src/runners/local.ts";
import type { Engine } from "../../src/types/engine.ts";
import { FairQueue } from "../../src/util/fair-queue.ts";
import { engineWith, later, modelOf, say } from "../support.ts";

async function bounded(limit: number) {
  const state = { now: 0, most: 0, order: [] as string[] };
  const model = modelOf([
    async function* (request) {
      state.most = Math.max(state.most, ++state.now);
      state.order.push(JSON.stringify(request.history).match(/"([ab]\d+)"/)?.[1] ?? "?");
      await sleep(10);
      state.now--;
      yield* say("done");
    },
  ]);
  const { parts, store } = await engineWith({ model });
  const runner = createLocalRunner({ limit, run: (id) => engine.run(id) });
  const engine: Engine = createEngine({ ...parts, runner });
  later(() => engine.stop());
  const start = (input: string, rest = {}) => engine.start({ input, workspace: "/work", door: "test", ...rest });
  return { engine, store, state, start };
}

test("beyond its bound responses are queued without a process, and all of them end", async () => {
  const { engine, store, state, start } = await bounded(3);
  const nodes = await Promise.all(Array.from({ length: 30 }, (_, number) => start(`a${number}`)));
  const queued = nodes.filter(({ status }) => status === "queued");
  expect(queued.length).toBe(27);
  expect(await store.leaseOf(queued[0]?.id ?? "")).toBeUndefined();
  for (const { id } of nodes) expect((await engine.wait(id)).status).toBe("completed");
  expect(state.most).toBeLessThanOrEqual(3);
  const events = [];
  for await (const event of engine.watch(queued[5]?.id ?? "")) events.push(event.type);
  expect(events.slice(0, 3)).toEqual(["response.created", "response.queued", "response.in_progress"]);
});

test("one that is cancelled in the queue ends there; whoever waits at a connection is not queued", async () => {
  const { engine, start } = await bounded(1);
  const [first, second] = [await start("a1"), await start("a2")];
  await engine.cancel(second.id, "no longer wanted");
  expect((await engine.wait(second.id)).status).toBe("cancelled");
  const foreground = await start("a3", { settings: { foreground: true } });
  expect(foreground.status).toBe("in_progress");
  expect((await engine.wait(first.id)).status).toBe("completed");
  expect((await engine.wait(foreground.id)).status).toBe("completed");
});

test("conversations take turns", () => {
  const queue = new FairQueue();
  for (let number = 0; number < 5; number++) queue.add(`a${number}`, "a");
  queue.add("b0", "b");
  queue.add("b0", "b");
  queue.add("c0", "c");
  expect([queue.size, queue.has("b0")]).toEqual([7, true]);
  const order = Array.from({ length: 8 }, () => queue.next());
  expect(order).toEqual(["a0", "b0", "c0", "a1", "a2", "a3", "a4", undefined]);
});
