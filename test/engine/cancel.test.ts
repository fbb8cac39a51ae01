/** Cancelling, steering, stopping, and several processes on one database. */
import { expect, test } from "vitest";
import type { ModelEvent } from "../../src/types/model.ts";
import { callOf, collect, engineWith, modelOf, say, temporaryFolder, temporaryStore, toolOf } from "../support.ts";

const start = { door: "test", workspace: "/", input: "go" };

function hanging(): ReturnType<typeof modelOf> {
  return modelOf([
    async function* (_request, signal): AsyncIterable<ModelEvent> {
      yield { type: "text", delta: "partial" };
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
    },
  ]);
}

test("B32 G7 G16 cancel ends the model's call, keeps the text, and the stream has its end", async () => {
  const { engine } = await engineWith({ model: hanging() });
  const { id } = await engine.start(start);
  const seen = collect(engine.watch(id));
  await expect
    .poll(async () => (await collectSoFar(engine, id)).some((type) => type.endsWith("text.delta")))
    .toBe(true);
  await engine.cancel(id, "enough");
  const ended = await engine.wait(id);
  expect(ended).toMatchObject({ status: "cancelled", error: { message: "enough" } });
  // No endpoint tells what a cut answer has used, and each of them asks for its money.
  expect(ended.usage.output_tokens).toBeGreaterThan(0);
  expect(ended.usage.input_tokens).toBeGreaterThan(0);
  expect((await seen).at(-1)).toMatchObject({ type: "response.incomplete", status: "cancelled" });
  expect(engine.textOf(await engine.get(id))).toBe("partial");
});

async function collectSoFar(engine: Awaited<ReturnType<typeof engineWith>>["engine"], id: string): Promise<string[]> {
  const controller = new AbortController();
  controller.abort();
  return (await collect(engine.watch(id, -1, controller.signal))).map((event) => event.type);
}

test("a tool that ignores its signal does not hold up a cancel", async () => {
  const deaf = toolOf("deaf", () => new Promise(() => undefined));
  const { engine } = await engineWith({ model: modelOf([callOf(["deaf", {}])]), toolList: [deaf] });
  const { id } = await engine.start(start);
  await expect.poll(async () => (await collectSoFar(engine, id)).includes("response.mcp_call.in_progress")).toBe(true);
  const began = performance.now();
  await engine.cancel(id, "enough");
  expect(performance.now() - began).toBeLessThan(5_000);
  expect((await engine.get(id)).output[0]).toMatchObject({ status: "incomplete" });
});

test("another process cancels, watches and steers a run", async () => {
  const folder = temporaryFolder();
  const { promise: gate, resolve: release } = Promise.withResolvers<void>();
  const slow = toolOf("slow", async () => {
    await gate;
    return { text: "ready" };
  });
  const model = modelOf([callOf(["slow", {}]), say("done")]);
  const { engine } = await engineWith({ model, toolList: [slow], folder });
  const other = await engineWith({ store: await temporaryStore({}, folder) });
  const { id } = await engine.start(start);
  const watched = collect(other.engine.watch(id));
  await other.engine.steer(id, [
    {
      type: "message",
      id: "",
      role: "user",
      status: "completed",
      content: [{ type: "input_text", text: "and hurry" }],
    },
  ]);
  await expect.poll(async () => (await collectSoFar(engine, id)).length).toBeGreaterThan(6);
  await new Promise((resolve) => setTimeout(resolve, 150));
  release();
  expect((await engine.wait(id)).status).toBe("completed");
  expect(JSON.stringify(model.requests[1]?.history)).toContain("and hurry");
  expect(await watched).toEqual(await collect(engine.watch(id)));

  const hung = await engineWith({ model: hanging(), store: await temporaryStore({}, folder) });
  const second = await hung.engine.start(start);
  await other.engine.cancel(second.id, "from afar");
  expect(await hung.engine.wait(second.id)).toMatchObject({ status: "cancelled" });
});

test("D7 one response has one owner: nobody else can take a living run", async () => {
  const folder = temporaryFolder();
  const { engine } = await engineWith({ model: hanging(), folder });
  const other = await engineWith({ store: await temporaryStore({}, folder) });
  const { id } = await engine.start(start);
  await expect(other.engine.resume(id)).rejects.toMatchObject({ code: "owned_elsewhere" });
});

test("D11 stop leaves a response that can be resumed, and nothing is said twice", async () => {
  const folder = temporaryFolder();
  const first = await engineWith({ model: hanging(), folder });
  const { id } = await first.engine.start(start);
  await expect
    .poll(async () => (await collectSoFar(first.engine, id)).some((type) => type.endsWith("delta")))
    .toBe(true);
  await first.engine.stop();
  const second = await engineWith({ model: modelOf([say("whole answer")]), store: await temporaryStore({}, folder) });
  await second.engine.resume(id);
  expect((await second.engine.wait(id)).status).toBe("completed");
  const { output } = await second.engine.get(id);
  expect(output).toMatchObject([
    { type: "message", status: "incomplete", content: [{ text: "partial" }] },
    { type: "message", status: "completed", content: [{ text: "whole answer" }] },
  ]);
  const events = await collect(second.engine.watch(id));
  expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
});

test("three engines on one database at once: nothing is lost, nothing is locked", async () => {
  const folder = temporaryFolder();
  const echo = toolOf("echo", async (input) => ({ text: JSON.stringify(input) }));
  const engines = await Promise.all(
    [1, 2, 3].map(async () =>
      engineWith({
        model: modelOf([
          (request) => {
            const calls = request.history.at(-1)?.entries.filter((entry) => entry.item.type === "mcp_call").length ?? 0;
            return calls < 3 ? callOf(["echo", { n: calls }]) : say("done");
          },
        ]),
        toolList: [echo],
        store: await temporaryStore({}, folder),
      }),
    ),
  );
  const ids: string[] = [];
  await Promise.all(
    engines.map(async ({ engine }) => {
      for (let turn = 0; turn < 10; turn++) {
        const { id } = await engine.start(start);
        ids.push(id);
        expect((await engine.wait(id)).status).toBe("completed");
      }
    }),
  );
  const { engine } = engines[0] ?? (await engineWith({}));
  for (const id of ids) expect((await engine.get(id)).output).toHaveLength(4);
});
