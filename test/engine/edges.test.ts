/** What happens between two commits: answers, cancels and steering that meet a run at an awkward moment. */
import { expect, test } from "vitest";
import type { Item } from "../../src/types/item.ts";
import { callOf, collect, engineWith, modelOf, say, temporaryFolder, temporaryStore, toolOf } from "../support.ts";

const start = { input: "go", workspace: "/", door: "test" };
const permissions = { allow: [], ask: [], deny: [], mode: "ask" as const };
const returning = { ...start, settings: { onApproval: "return" as const } };

function writing(calls: string[]) {
  return toolOf(
    "save",
    async (input) => {
      calls.push(String(input.path));
      return { text: `saved ${input.path}` };
    },
    { access: "write" },
  );
}

const answer = (id: string, approve: boolean): Item => ({
  type: "mcp_approval_response",
  id: "",
  approval_request_id: id,
  approve,
  reason: null,
});

const message = (text: string): Item => ({
  type: "message",
  id: "",
  role: "user",
  status: "completed",
  content: [{ type: "input_text", text }],
});

test("an answer that came with a request is carried out by its response, whoever asks for it again", async () => {
  const calls: string[] = [];
  const model = modelOf([callOf(["save", { path: "a" }]), say("done")]);
  const { engine, store } = await engineWith({ model, toolList: [writing(calls)], permissions });
  const { id } = await engine.start(returning);
  await engine.wait(id);
  const [asked] = await store.approvals({ status: "pending" });
  const idempotency = { key: "k", digest: "d" };
  const request = { ...start, input: [answer(asked?.id ?? "", true)], previousResponseId: id, idempotency };
  const child = await engine.start(request);
  await engine.wait(child.id);
  expect((await engine.goOn(asked?.id ?? ""))?.id).toBe(child.id);
  expect((await engine.start(request)).id).toBe(child.id);
  expect(calls).toEqual(["a"]);
  expect(await store.children(id)).toHaveLength(1);
});

test("a returned response has one child for its answers, also after weeks and when that child is deleted", async () => {
  const calls: string[] = [];
  let now = Date.now();
  const model = modelOf([callOf(["save", { path: "a" }]), say("done")]);
  const { engine, store } = await engineWith({ model, toolList: [writing(calls)], permissions, now: () => now });
  const { id } = await engine.start(returning);
  await engine.wait(id);
  const [asked] = await store.approvals({ status: "pending" });
  await engine.decide(asked?.id ?? "", { decision: "allow", by: "test" });
  now -= 30 * 24 * 3_600_000;
  const child = await engine.goOn(asked?.id ?? "");
  await engine.wait(child?.id ?? "");
  expect((await engine.goOn(asked?.id ?? ""))?.id).toBe(child?.id);
  await engine.delete(child?.id ?? "");
  await expect(engine.goOn(asked?.id ?? "")).rejects.toMatchObject({ code: "not_found" });
  expect(calls).toEqual(["a"]);
});

test("two doors that answer two questions of one response at once have one child", async () => {
  const calls: string[] = [];
  const model = modelOf([callOf(["save", { path: "a" }], ["save", { path: "b" }]), say("done")]);
  const { engine, store } = await engineWith({ model, toolList: [writing(calls)], permissions });
  const { id } = await engine.start(returning);
  await engine.wait(id);
  const [first, second] = await store.approvals({ status: "pending" });
  const other = async () => {
    await engine.decide(second?.id ?? "", { decision: "allow", by: "test" });
    return engine.goOn(second?.id ?? "");
  };
  const input = [answer(first?.id ?? "", true)];
  await Promise.allSettled([engine.start({ ...start, input, previousResponseId: id }), other()]);
  const children = await store.children(id);
  for (const child of children) await engine.wait(child.id);
  expect(children).toHaveLength(1);
  expect(calls.filter((path) => path === "a")).toEqual(["a"]);
  expect(calls.filter((path) => path === "b").length).toBeLessThan(2);
});

test("a yes to a response that was cancelled before it heard of it carries nothing out", async () => {
  const calls: string[] = [];
  const model = modelOf([callOf(["save", { path: "a" }]), say("done")]);
  const { engine, store } = await engineWith({ model, toolList: [writing(calls)], permissions });
  const { id } = await engine.start(start);
  expect((await engine.wait(id)).status).toBe("waiting");
  const [asked] = await store.approvals({ status: "pending" });
  await engine.decide(asked?.id ?? "", { decision: "allow", by: "test" });
  await engine.cancel(id, "no, stop");
  expect(await engine.goOn(asked?.id ?? "")).toBeUndefined();
  expect(await store.children(id)).toEqual([]);
  expect(calls).toEqual([]);
});

// Known: its hash is taken while its parent has none, and compared with one that holds the parent's (sqlite-tree.ts).
test("a response that was cancelled while it was queued can be read when its parent has ended", async () => {
  const gate = Promise.withResolvers<void>();
  const model = modelOf([
    async function* () {
      await gate.promise;
      yield* say("first");
    },
    say("second"),
  ]);
  const { engine } = await engineWith({ model });
  const first = await engine.start(start);
  const second = await engine.start({ ...start, previousResponseId: first.id, queue: true });
  await engine.cancel(second.id, "changed my mind");
  gate.resolve();
  await engine.wait(first.id);
  expect((await engine.get(second.id)).status).toBe("cancelled");
  const third = await engine.start({ ...start, previousResponseId: second.id });
  expect((await engine.wait(third.id)).status).toBe("completed");
});

test("a cancel that meets a run as it begins to wait ends it", async () => {
  const model = modelOf([callOf(["save", { path: "a" }]), say("done")]);
  const folder = temporaryFolder();
  let cancelled: Promise<void> | undefined;
  const store = await temporaryStore({}, folder);
  const release = store.release.bind(store);
  store.release = async (id, lease) => {
    cancelled ??= engine.cancel(id, "enough");
    await release(id, lease);
  };
  const append = store.append.bind(store);
  store.append = (batch, now) => {
    const written = append(batch, now);
    queueMicrotask(() => {
      if (batch.node?.status === "waiting") cancelled ??= engine.cancel(batch.responseId, "enough");
    });
    return written;
  };
  const { engine } = await engineWith({ model, toolList: [writing([])], permissions, store });
  const { id } = await engine.start(start);
  await expect.poll(() => cancelled !== undefined).toBe(true);
  await cancelled;
  expect((await engine.get(id)).status).toBe("cancelled");
});

test("what is recorded is never seen as a run, however early the process ends", async () => {
  const folder = temporaryFolder();
  const seen: string[] = [];
  const reader = await temporaryStore({}, folder);
  const probe = async () => {
    for (const { status } of await reader.list({})) seen.push(status);
  };
  const looks: Promise<void>[] = [];
  const store = await temporaryStore({ probe: (moment) => moment === "after" && void looks.push(probe()) }, folder);
  const { engine } = await engineWith({ store });
  await engine.record({ ...start, input: [message("hello")] });
  await Promise.all(looks);
  expect(new Set(seen)).toEqual(new Set(["completed"]));
});

test("what steers a response that waits is in its next prompt", async () => {
  const model = modelOf([callOf(["save", { path: "a" }]), say("done")]);
  const { engine, store } = await engineWith({ model, toolList: [writing([])], permissions });
  const { id } = await engine.start(start);
  expect((await engine.wait(id)).status).toBe("waiting");
  await engine.steer(id, [message("and hurry")]);
  const [asked] = await store.approvals({ status: "pending" });
  await engine.decide(asked?.id ?? "", { decision: "allow", by: "test" });
  await engine.goOn(asked?.id ?? "");
  expect((await engine.wait(id)).status).toBe("completed");
  expect(JSON.stringify(model.requests.map((request) => request.history))).toContain("and hurry");
});

test("the last event stays the last, whatever steers a run at its end", async () => {
  const { engine, store } = await engineWith({ model: modelOf([say("done")]) });
  const { id } = await engine.start(start);
  const steered: Promise<void>[] = [];
  const append = store.append.bind(store);
  store.append = (batch, now) => {
    queueMicrotask(() => steered.push(engine.steer(id, [message("one more thing")]).catch(() => undefined)));
    return append(batch, now);
  };
  expect((await engine.wait(id)).status).toBe("completed");
  await Promise.all(steered);
  const events = await collect(engine.watch(id));
  expect(events.at(-1)?.type).toBe("response.completed");
  expect(await store.events(id, events.length - 1, 10)).toEqual([]);
  expect(steered.length).toBeGreaterThan(0);
});

test("going on twice at once takes a response once", async () => {
  const gate = Promise.withResolvers<void>();
  let asked = 0;
  const model = modelOf([callOf(["save", { path: "a" }]), say("done")]);
  const { engine, store } = await engineWith({
    toolList: [writing([])],
    permissions,
    models: {
      get: async () => {
        // The second look takes longer than all that the first one does.
        if (++asked === 3) await gate.promise;
        return model;
      },
    },
  });
  const { id } = await engine.start(start);
  await engine.wait(id);
  const fence = (await store.leaseOf(id))?.fence;
  expect(fence).toBeUndefined();
  asked = 1;
  const first = engine.resume(id, () => new Promise<never>(() => undefined));
  const second = engine.resume(id);
  await first;
  gate.resolve();
  await second;
  expect((await store.leaseOf(id))?.fence).toBe(2);
  await engine.cancel(id, "enough");
  expect((await engine.get(id)).status).toBe("cancelled");
});

test("a direct call that throws is in the audit log as well", async () => {
  const failing = toolOf("fail", async () => {
    throw new Error("it broke");
  });
  const { engine, store } = await engineWith({ toolList: [failing] });
  await expect(engine.call("fail", {}, { workspace: "/", by: "test" })).rejects.toThrow("it broke");
  const records = await store.audits(0, 10);
  expect(records.at(-1)).toMatchObject({ action: "direct_call", details: { tool: "fail", status: "failed" } });
});
