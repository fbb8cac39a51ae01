/** Approvals: rows that outlive processes, answered once, bound to what was shown. */
import { describe, expect, test } from "vitest";
import type { Decision } from "../../src/types/approval.ts";
import type { Approver } from "../../src/types/engine.ts";
import { callOf, engineWith, modelOf, say, temporaryFolder, temporaryStore, toolOf } from "../support.ts";

const start = { door: "test", workspace: "/", input: "go" };
const ask = { allow: [], ask: [], deny: [], mode: "ask" as const };

function writing() {
  const effects: object[] = [];
  const write = toolOf(
    "write",
    async (input) => {
      effects.push(input);
      return { text: "written" };
    },
    { access: "write" },
  );
  return { effects, write };
}

const answer = (decision: Decision["decision"], rest: Partial<Decision> = {}): Approver => {
  return async () => ({ decision, by: "test", ...rest });
};

describe("with a person at hand", () => {
  test("B17 a write asks, and runs when it is allowed", async () => {
    const { effects, write } = writing();
    const { engine, store } = await engineWith({
      model: modelOf([callOf(["write", { n: 1 }]), say("done")]),
      toolList: [write],
      permissions: ask,
    });
    const { id } = await engine.start({ ...start, approver: answer("allow") });
    expect((await engine.wait(id)).status).toBe("completed");
    expect(effects).toEqual([{ n: 1 }]);
    const { output } = await engine.get(id);
    expect(output.map((item) => item.type)).toEqual([
      "mcp_call",
      "mcp_approval_request",
      "mcp_approval_response",
      "message",
    ]);
    expect(await store.approvals({ responseId: id })).toMatchObject([{ status: "allowed", arguments: '{"n":1}' }]);
  });

  test("F17 a denial tells the model why, and nothing runs", async () => {
    const { effects, write } = writing();
    const model = modelOf([callOf(["write", {}]), say("understood")]);
    const { engine } = await engineWith({ model, toolList: [write], permissions: ask });
    const { id } = await engine.start({ ...start, approver: answer("deny", { reason: "not on a Friday" }) });
    expect((await engine.wait(id)).status).toBe("completed");
    expect(effects).toEqual([]);
    const { output } = await engine.get(id);
    expect(output[0]).toMatchObject({ status: "failed", output: expect.stringContaining("DENIED: not on a Friday") });
  });

  test("an answer for the session holds for the conversation and for no other", async () => {
    const { effects, write } = writing();
    let asked = 0;
    const approver: Approver = async () => {
      asked++;
      return { decision: "allow", scope: "session", by: "test" };
    };
    const model = modelOf([
      callOf(["write", {}]),
      say("done"),
      callOf(["write", {}]),
      say("done"),
      callOf(["write", {}]),
      say("done"),
    ]);
    const { engine } = await engineWith({ model, toolList: [write], permissions: ask });
    const first = await engine.start({ ...start, approver });
    await engine.wait(first.id);
    const second = await engine.start({ ...start, approver, previousResponseId: first.id });
    await engine.wait(second.id);
    expect(asked).toBe(1);
    const third = await engine.start({ ...start, approver });
    await engine.wait(third.id);
    expect(asked).toBe(2);
    expect(effects).toHaveLength(3);
  });

  test("another process may answer first, and its answer counts", async () => {
    const folder = temporaryFolder();
    const { effects, write } = writing();
    const model = modelOf([callOf(["write", {}]), say("done")]);
    const { engine } = await engineWith({ model, toolList: [write], permissions: ask, folder });
    const other = await engineWith({ store: await temporaryStore({}, folder) });
    const never: Approver = (_approval, signal) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("answered elsewhere"))));
    const { id } = await engine.start({ ...start, approver: never });
    await expect.poll(async () => (await other.store.approvals({ status: "pending" })).length).toBe(1);
    const [pending] = await other.store.approvals({ status: "pending" });
    await other.engine.decide(pending?.id ?? "", { decision: "allow", by: "other terminal" });
    expect((await engine.wait(id)).status).toBe("completed");
    expect(effects).toHaveLength(1);
    await expect(other.engine.decide(pending?.id ?? "", { decision: "deny", by: "late" })).rejects.toMatchObject({
      code: "approval_settled",
    });
  });
});

describe("with nobody at hand", () => {
  test("the response waits on disk, and goes on in another engine after the answer", async () => {
    const folder = temporaryFolder();
    const { effects, write } = writing();
    const read = toolOf("read", async () => ({ text: "read it" }));
    const model = modelOf([callOf(["read", {}], ["write", { n: 1 }]), say("done")]);
    const options = { model, toolList: [write, read], permissions: ask, folder };
    const first = await engineWith(options);
    const { id } = await first.engine.start(start);
    expect((await first.engine.wait(id)).status).toBe("waiting");
    expect((await first.engine.get(id)).output[0]).toMatchObject({ status: "completed", output: "read it" });
    await first.engine.stop();
    const second = await engineWith(options);
    const [pending] = await second.store.approvals({ status: "pending" });
    await second.engine.decide(pending?.id ?? "", { decision: "allow", by: "cli" });
    await second.engine.resume(id);
    expect((await second.engine.wait(id)).status).toBe("completed");
    expect(effects).toEqual([{ n: 1 }]);
    expect(model.requests).toHaveLength(2);
  });

  test("resumed without an answer it waits again, with the same question", async () => {
    const { write } = writing();
    const { engine, store } = await engineWith({
      model: modelOf([callOf(["write", {}])]),
      toolList: [write],
      permissions: ask,
    });
    const { id } = await engine.start(start);
    await engine.wait(id);
    await engine.resume(id);
    expect((await engine.wait(id)).status).toBe("waiting");
    expect(await store.approvals({ responseId: id })).toHaveLength(1);
  });

  test("a sub-agent that waits makes its caller wait, and the answer moves both on", async () => {
    const { effects, write } = writing();
    const task = toolOf(
      "task",
      async (input, context) => {
        const { text } = await context.delegate({ profile: "execute", task: String(input.task), description: "sub" });
        return { text };
      },
      { repeatable: true, parallel: true },
    );
    const model = modelOf([
      (request) => {
        const entries = request.history.flatMap((node) => node.entries);
        const first = entries[0]?.item;
        const isChild = first?.type === "message" && JSON.stringify(first.content).includes("child work");
        const done = entries.some((entry) => entry.item.type === "mcp_call" && entry.item.output !== null);
        if (done) return say(isChild ? "child done" : "parent done");
        return isChild ? callOf(["write", { by: "child" }]) : callOf(["task", { task: "child work" }]);
      },
    ]);
    const { engine, store } = await engineWith({ model, toolList: [write, task], permissions: ask });
    const { id } = await engine.start(start);
    expect((await engine.wait(id)).status).toBe("waiting");
    const [pending] = await store.approvals({ status: "pending" });
    expect(pending?.responseId).not.toBe(id);
    await engine.decide(pending?.id ?? "", { decision: "allow", by: "cli" });
    await engine.resume(id);
    expect((await engine.wait(id)).status).toBe("completed");
    expect(effects).toEqual([{ by: "child" }]);
    expect(engine.textOf(await engine.get(id))).toBe("parent done");
    expect((await store.list({ callerResponseId: id })).map((node) => node.status)).toEqual(["completed"]);
  });

  test("onApproval deny: the model is told, nothing waits", async () => {
    const { effects, write } = writing();
    const model = modelOf([callOf(["write", {}]), say("ok")]);
    const { engine } = await engineWith({ model, toolList: [write], permissions: ask });
    const { id } = await engine.start({ ...start, settings: { onApproval: "deny" } });
    expect((await engine.wait(id)).status).toBe("completed");
    expect(effects).toEqual([]);
  });
});

test("K22 what was approved is what runs: a hook that rewrites afterwards is refused", async () => {
  const { effects, write } = writing();
  let runs = 0;
  const { engine } = await engineWith({
    model: modelOf([callOf(["write", { n: 1 }]), say("ok")]),
    toolList: [write],
    permissions: ask,
    hooks: { beforeToolCall: [{ command: "rewrite" }] },
    runHook: async () => ({ exitCode: 0, stderr: "", stdout: JSON.stringify({ arguments: { n: runs++ } }) }),
  });
  const { id } = await engine.start({ ...start, approver: answer("allow") });
  await engine.wait(id);
  expect(effects).toEqual([]);
  expect((await engine.get(id)).output[0]).toMatchObject({
    output: expect.stringContaining("not those that were approved"),
  });
});
