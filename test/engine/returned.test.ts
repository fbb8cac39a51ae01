import { describe, expect, test } from "vitest";
import type { Item } from "../../src/types/item.ts";
import { callOf, collect, engineWith, modelOf, say, toolOf } from "../support.ts";

const start = { input: "go", workspace: "/", door: "test" };
const permissions = { allow: [], ask: [], deny: [], mode: "ask" as const };

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

describe("onApproval return", () => {
  test("the response ends with the request as its last item; the answer starts one child, whoever asks for it", async () => {
    const calls: string[] = [];
    const model = modelOf([callOf(["save", { path: "a" }]), say("done")]);
    const { engine, store } = await engineWith({ model, toolList: [writing(calls)], permissions });
    const { id } = await engine.start({ ...start, settings: { onApproval: "return" } });
    const node = await engine.wait(id);
    expect(node.status).toBe("completed");
    const { output } = await engine.get(id);
    expect(output.at(-1)?.type).toBe("mcp_approval_request");
    const [asked] = await store.approvals({ status: "pending" });
    await engine.decide(asked?.id ?? "", { decision: "allow", by: "test" });
    const children = await Promise.all([engine.goOn(asked?.id ?? ""), engine.goOn(asked?.id ?? "")]);
    expect(new Set(children.map((child) => child?.id)).size).toBe(1);
    const child = await engine.wait(children[0]?.id ?? "");
    expect(child.status).toBe("completed");
    expect(calls).toEqual(["a"]);
    expect((await engine.get(child.id)).output.map((item) => item.type)).toEqual(["mcp_call", "message"]);
    // The model was told in the child what came of its call.
    const prompt = JSON.stringify(model.requests.at(-1)?.history);
    expect(prompt).toContain("saved a");
    const events = await collect(engine.watch(child.id));
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
  });

  test("a denial starts the child as well, and nothing runs", async () => {
    const calls: string[] = [];
    const model = modelOf([callOf(["save", { path: "a" }]), say("well then")]);
    const { engine, store } = await engineWith({ model, toolList: [writing(calls)], permissions });
    const { id } = await engine.start({ ...start, settings: { onApproval: "return" } });
    await engine.wait(id);
    const [asked] = await store.approvals({ status: "pending" });
    const child = await engine.start({
      ...start,
      input: [answer(asked?.id ?? "", false)],
      previousResponseId: id,
    });
    await engine.wait(child.id);
    expect(calls).toEqual([]);
    const { output } = await engine.get(child.id);
    expect(output[0]).toMatchObject({ type: "mcp_call", status: "failed" });
    await expect(
      engine.start({ ...start, input: [answer(asked?.id ?? "", true)], previousResponseId: id }),
    ).rejects.toMatchObject({ code: "approval_settled" });
  });

  test("two questions: the child waits for both answers, and carries out what was allowed", async () => {
    const calls: string[] = [];
    const model = modelOf([callOf(["save", { path: "a" }], ["save", { path: "b" }]), say("done")]);
    const { engine, store } = await engineWith({ model, toolList: [writing(calls)], permissions });
    const { id } = await engine.start({ ...start, settings: { onApproval: "return" } });
    await engine.wait(id);
    const [first, second] = await store.approvals({ status: "pending" });
    await engine.decide(first?.id ?? "", { decision: "deny", by: "test" });
    expect(await engine.goOn(first?.id ?? "")).toBeUndefined();
    await engine.decide(second?.id ?? "", { decision: "allow", by: "test" });
    const child = await engine.goOn(second?.id ?? "");
    await engine.wait(child?.id ?? "");
    expect(calls).toEqual(["b"]);
  });

  test("an approval whose time is over counts as denied, and can no longer be answered", async () => {
    let now = Date.now();
    const model = modelOf([callOf(["save", { path: "a" }]), say("well then")]);
    const { engine, store } = await engineWith({ model, toolList: [writing([])], permissions, now: () => now });
    const { id } = await engine.start({ ...start, settings: { onApproval: "return" } });
    await engine.wait(id);
    const [asked] = await store.approvals({ status: "pending" });
    now += 8 * 24 * 3_600_000;
    expect(await engine.expireApprovals()).toMatchObject([{ id: asked?.id, status: "expired" }]);
    await engine.goOn(asked?.id ?? "");
    await expect(engine.decide(asked?.id ?? "", { decision: "allow", by: "test" })).rejects.toMatchObject({
      code: "approval_expired",
    });
    const [child] = await store.children(id);
    expect((await engine.wait(child?.id ?? "")).status).toBe("completed");
  });
});

test("an answer sent along with a follow-up to a response that waits is carried out once, by that response", async () => {
  const calls: string[] = [];
  const model = modelOf([callOf(["save", { path: "a" }]), say("done"), say("and more")]);
  const { engine, store } = await engineWith({ model, toolList: [writing(calls)], permissions });
  const approver = () => new Promise<never>(() => undefined);
  const first = await engine.start({ ...start, approver });
  let [asked] = await store.approvals({ status: "pending" });
  while (!asked) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    [asked] = await store.approvals({ status: "pending" });
  }
  const message: Item = {
    type: "message",
    id: "msg_more",
    role: "user",
    status: "completed",
    content: [{ type: "input_text", text: "and then?" }],
  };
  const input = [answer(asked.id, true), message];
  const second = await engine.start({ ...start, input, previousResponseId: first.id, queue: true });
  await engine.wait(second.id);
  expect(calls).toEqual(["a"]);
  expect((await engine.get(second.id)).output.map((item) => item.type)).toEqual(["message"]);
});

describe("queued", () => {
  test("a follow-up waits behind its parent, and sees what it said", async () => {
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
    await expect(engine.start({ ...start, previousResponseId: first.id })).rejects.toMatchObject({
      code: "response_not_ended",
    });
    const second = await engine.start({ ...start, previousResponseId: first.id, queue: true });
    expect(second.status).toBe("queued");
    gate.resolve();
    expect((await engine.wait(second.id)).status).toBe("completed");
    expect(JSON.stringify(model.requests[1]?.history)).toContain("first");
    const events = await collect(engine.watch(second.id));
    expect(events.slice(0, 3).map((event) => event.type)).toEqual([
      "response.created",
      "response.queued",
      "response.in_progress",
    ]);
  });

  test("a queued response can be cancelled, and ends", async () => {
    const model = modelOf([
      async function* (_request, signal) {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        yield* [];
      },
    ]);
    const { engine } = await engineWith({ model });
    const first = await engine.start(start);
    const second = await engine.start({ ...start, previousResponseId: first.id, queue: true });
    await engine.cancel(second.id, "changed my mind");
    expect((await engine.wait(second.id)).status).toBe("cancelled");
    await engine.cancel(first.id, "enough");
  });
});

test("the same idempotency key starts one response; another request with it is refused", async () => {
  const { engine, store } = await engineWith({ model: modelOf([say("hello")]) });
  const request = { ...start, idempotency: { key: "k", digest: "d" } };
  const [one, two] = await Promise.all([engine.start(request), engine.start(request)]);
  expect(two.id).toBe(one.id);
  await engine.wait(one.id);
  expect((await engine.start(request)).id).toBe(one.id);
  expect(await store.list({})).toHaveLength(1);
  await expect(engine.start({ ...request, idempotency: { key: "k", digest: "e" } })).rejects.toMatchObject({
    code: "idempotency_mismatch",
  });
  // Another owner's keys are its own.
  expect((await engine.start({ ...request, owner: "somebody" })).id).not.toBe(one.id);
});

test("what belongs to another owner is as unknown as what never was", async () => {
  const { engine } = await engineWith({ model: modelOf([say("hello")]) });
  const { id } = await engine.start({ ...start, owner: "one" });
  await engine.wait(id);
  await expect(engine.start({ ...start, owner: "two", previousResponseId: id })).rejects.toMatchObject({
    code: "not_found",
    message: `there is no response ${id}`,
  });
  expect((await engine.start({ ...start, owner: "local", previousResponseId: id })).previousResponseId).toBe(id);
});

test("a deleted response is gone, and cannot be gone on from; what went on from it still knows it", async () => {
  const model = modelOf([say("the secret is 42"), say("ok"), say("still here")]);
  const { engine } = await engineWith({ model });
  const first = await engine.start(start);
  await engine.wait(first.id);
  const second = await engine.start({ ...start, previousResponseId: first.id });
  await engine.wait(second.id);
  await engine.delete(first.id);
  await expect(engine.get(first.id)).rejects.toMatchObject({ code: "not_found" });
  await expect(engine.start({ ...start, previousResponseId: first.id })).rejects.toMatchObject({ code: "not_found" });
  const third = await engine.start({ ...start, previousResponseId: second.id });
  await engine.wait(third.id);
  expect(JSON.stringify(model.requests[2]?.history)).toContain("the secret is 42");
});

test("a forced tool is forced once", async () => {
  const model = modelOf([callOf(["look", {}]), say("done")]);
  const look = toolOf("look", async () => ({ text: "seen" }));
  const { engine } = await engineWith({ model, toolList: [look] });
  const { id } = await engine.start({ ...start, settings: { toolChoice: "required" } });
  await engine.wait(id);
  expect(model.requests.map((request) => request.toolChoice)).toEqual(["required", "auto"]);
});

test("items can be recorded without a model, and taken out again", async () => {
  const model = modelOf([say("hello")]);
  const { engine } = await engineWith({ model });
  const message = (text: string): Item => ({
    type: "message",
    id: `msg_${text}`,
    role: "user",
    status: "completed",
    content: [{ type: "input_text", text }],
  });
  const recorded = await engine.record({ ...start, input: [message("keep"), message("drop")] });
  expect(recorded.status).toBe("completed");
  const without = await engine.record({ ...start, input: [], previousResponseId: recorded.id, omit: ["msg_drop"] });
  const asked = await engine.start({ ...start, previousResponseId: without.id });
  await engine.wait(asked.id);
  const prompt = JSON.stringify(model.requests[0]?.history);
  expect(prompt).toContain("keep");
  expect(prompt).not.toContain("drop");
});
