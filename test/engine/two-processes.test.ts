import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { ModelEvent, ModelRequest } from "../../src/types/model.ts";
import { collect, engineWith, modelOf, say, temporaryFolder } from "../support.ts";

const start = { input: "go", workspace: "/", door: "test" };

test("two processes begin turns of one conversation at once: none is lost from it", async () => {
  const folder = temporaryFolder();
  const engines = [
    await engineWith({ model: modelOf([say("one")]), folder }),
    await engineWith({ model: modelOf([say("two")]), folder }),
  ];
  const [first] = engines;
  const root = await first?.engine.start(start);
  await first?.engine.wait(root?.id ?? "");
  const conversation = root?.conversationId ?? "";
  const turns = Array.from({ length: 12 }, (_, index) => engines[index % 2]).map(async (one) => {
    const node = await one?.engine.start({ ...start, conversation, queue: true });
    await one?.engine.wait(node?.id ?? "");
  });
  await Promise.all(turns);
  const head = (await first?.store.conversation(conversation))?.head ?? "";
  expect(await first?.store.path(head)).toHaveLength(13);
});

describe("whoever follows a run from another process", () => {
  const gate = () => Promise.withResolvers<void>();

  async function twoOf(go: Promise<void>) {
    const folder = temporaryFolder();
    async function* slowly(_: ModelRequest, signal: AbortSignal): AsyncIterable<ModelEvent> {
      const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      for (let number = 0; number < 20; number++) {
        yield { type: "text", delta: `word ${number} ` };
        await sleep(15);
      }
      await Promise.race([go, aborted]);
      yield { type: "finish", reason: "stop" };
    }
    const runner = await engineWith({ model: modelOf([slowly]), folder });
    const other = await engineWith({ model: modelOf([say("never")]), folder });
    const { id } = await runner.engine.start(start);
    return { runner, other, id };
  }

  test("D7 sees every event once, and the end when it is there", async () => {
    const { promise, resolve } = gate();
    const { runner, other, id } = await twoOf(promise);
    const followed = collect(other.engine.watch(id));
    const waited = other.engine.wait(id);
    await sleep(400);
    resolve();
    const own = await collect(runner.engine.watch(id));
    expect(await followed).toEqual(own);
    expect((await waited).status).toBe("completed");
  });

  test("leaves when its reader or its engine does, though the run goes on", async () => {
    const { promise, resolve } = gate();
    const { runner, other, id } = await twoOf(promise);
    await expect
      .poll(async () => (await other.store.events(id, -1, 100)).length, { timeout: 20_000 })
      .toBeGreaterThan(20);
    const reader = new AbortController();
    const followed = collect(other.engine.watch(id, -1, reader.signal));
    const kept = collect(other.engine.watch(id));
    await sleep(100);
    reader.abort();
    expect((await followed).length).toBeGreaterThan(20);
    await other.engine.stop();
    expect((await kept).length).toBeGreaterThan(20);
    expect((await runner.engine.get(id)).endedAt).toBeNull();
    resolve();
    await runner.engine.wait(id);
  });

  test("cancels it from there", async () => {
    const { promise, resolve } = gate();
    const { runner, other, id } = await twoOf(promise);
    await other.engine.cancel(id, "from elsewhere");
    expect((await runner.engine.wait(id)).status).toBe("cancelled");
    expect((await other.engine.wait(id)).error?.message).toBe("from elsewhere");
    resolve();
  });
});
