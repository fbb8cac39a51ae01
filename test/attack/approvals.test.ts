/** Attacks on approvals: what a person refused, who goes on, how far a rule reaches. */
import { describe, expect, test } from "vitest";
import { judge, parseRule, patternFor } from "../../src/engine/permissions.ts";
import { createBashTool } from "../../src/tools/bash.ts";
import { writeTool } from "../../src/tools/write.ts";
import type { Approver } from "../../src/types/engine.ts";
import { callOf, engineWith, modelOf, say, temporaryFolder, temporaryStore, toolOf } from "../support.ts";

const start = { door: "test", workspace: "/", input: "go" };
const ask = { allow: [], ask: [], deny: [], mode: "ask" as const };

function writing() {
  const effects: object[] = [];
  const write = toolOf("write", async (input) => (effects.push(input), { text: "written" }), { access: "write" });
  return { effects, write };
}

test("a call that a person denied does not run because a sibling was allowed for the session", async () => {
  const { effects, write } = writing();
  const approver: Approver = async (approval) =>
    approval.arguments.includes("1")
      ? { decision: "allow", scope: "session", by: "t" }
      : { decision: "deny", reason: "never 2", by: "t" };
  const { engine } = await engineWith({
    model: modelOf([callOf(["write", { n: 1 }], ["write", { n: 2 }]), say("done")]),
    toolList: [write],
    permissions: ask,
  });
  const { id } = await engine.start({ ...start, approver });
  await engine.wait(id);
  expect(effects).toEqual([{ n: 1 }]);
});

test("the same, answered from another process while the response waits", async () => {
  const { effects, write } = writing();
  const { engine, store } = await engineWith({
    model: modelOf([callOf(["write", { n: 1 }], ["write", { n: 2 }]), say("done")]),
    toolList: [write],
    permissions: ask,
  });
  const { id } = await engine.start(start);
  await engine.wait(id);
  const [one, two] = await store.approvals({ status: "pending" });
  await engine.decide(two?.id ?? "", { decision: "deny", reason: "never 2", by: "cli" });
  await engine.decide(one?.id ?? "", { decision: "allow", scope: "always", by: "cli" });
  await engine.resume(id);
  await engine.wait(id);
  expect(effects).toEqual([{ n: 1 }]);
});

test("answered here in the moment in which another process answered: the run goes on", async () => {
  const folder = temporaryFolder();
  const { effects, write } = writing();
  const other = await engineWith({ store: await temporaryStore({}, folder) });
  const approver: Approver = async (approval) => {
    await other.engine.decide(approval.id, { decision: "allow", by: "other terminal" });
    return { decision: "allow", by: "this terminal" };
  };
  const { engine } = await engineWith({
    model: modelOf([callOf(["write", {}]), say("done")]),
    toolList: [write],
    permissions: ask,
    folder,
  });
  const { id } = await engine.start({ ...start, approver });
  const node = await engine.wait(id);
  expect(node.error).toBeNull();
  expect(node.status).toBe("completed");
  expect(effects).toHaveLength(1);
});

test("answered elsewhere while another call of the answer still runs: the response does not sleep on it", async () => {
  const folder = temporaryFolder();
  const effects: object[] = [];
  // A reading call outside the workspace asks, and runs beside the slow one.
  const outside = toolOf("peek", async (input) => (effects.push(input), { text: "seen" }), {
    subject: async () => ({ paths: ["/etc/x"], inside: false }),
  });
  let release: () => void = () => undefined;
  const slow = toolOf("slow", () => new Promise((resolve) => (release = () => resolve({ text: "slow done" }))));
  const { engine } = await engineWith({
    model: modelOf([callOf(["peek", {}], ["slow", {}]), say("done")]),
    toolList: [outside, slow],
    permissions: ask,
    folder,
  });
  const other = await engineWith({ store: await temporaryStore({}, folder) });
  const { id } = await engine.start(start);
  await expect.poll(async () => (await other.store.approvals({ status: "pending" })).length).toBe(1);
  const [pending] = await other.store.approvals({ status: "pending" });
  // `rotunda approve` sees a living owner here and leaves the rest to it.
  await other.engine.decide(pending?.id ?? "", { decision: "allow", by: "cli" });
  expect(await other.store.leaseOf(id)).toBeDefined();
  await new Promise((resolve) => setTimeout(resolve, 200));
  release();
  expect((await engine.wait(id)).status).toBe("completed");
});

test("a 'session' answer in a response without a conversation does not become a rule for everybody", async () => {
  const { effects, write } = writing();
  let asked = 0;
  const approver: Approver = async () => (asked++, { decision: "allow", scope: "session", by: "t" });
  const { engine } = await engineWith({
    model: modelOf([callOf(["write", {}]), say("a"), callOf(["write", {}]), say("b")]),
    toolList: [write],
    permissions: ask,
  });
  const first = await engine.start({ ...start, approver, conversation: null });
  await engine.wait(first.id);
  const second = await engine.start({ ...start, approver, workspace: "/tmp" });
  await engine.wait(second.id);
  expect(effects).toHaveLength(2);
  expect(asked).toBe(2);
});

test("a 'session' answer to a sub-agent holds for that sub-agent's next call", async () => {
  const { effects, write } = writing();
  let asked = 0;
  const approver: Approver = async () => (asked++, { decision: "allow", scope: "session", by: "t" });
  const task = toolOf("task", async (input, context) => {
    const { text } = await context.delegate({ profile: "execute", task: String(input.task), description: "s" });
    return { text };
  });
  const model = modelOf([
    (request) => {
      const entries = request.history.flatMap((node) => node.entries);
      const child = JSON.stringify(entries[0]?.item).includes("child work");
      const calls = entries.filter((entry) => entry.item.type === "mcp_call").length;
      if (!child) return calls === 0 ? callOf(["task", { task: "child work" }]) : say("parent done");
      return calls < 2 ? callOf(["write", { calls }]) : say("child done");
    },
  ]);
  const { engine } = await engineWith({ model, toolList: [write, task], permissions: ask });
  const { id } = await engine.start({ ...start, approver });
  await engine.wait(id);
  expect(effects).toHaveLength(2);
  expect(asked).toBe(1);
});

test("the time that a person takes at the terminal does not end the response", async () => {
  const { effects, write } = writing();
  const approver: Approver = async () => {
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    return { decision: "allow", by: "t" };
  };
  const { engine } = await engineWith({
    model: modelOf([callOf(["write", {}]), say("done")]),
    toolList: [write],
    permissions: ask,
  });
  const { id } = await engine.start({ ...start, approver, settings: { limits: { seconds: 1 } } });
  expect(await engine.wait(id)).toMatchObject({ status: "completed", incompleteReason: null });
  expect(effects).toHaveLength(1);
});

test("the time that a person takes over a sub-agent's question does not end the caller", async () => {
  const { effects, write } = writing();
  const task = toolOf("task", async (input, context) => {
    const { text } = await context.delegate({ profile: "execute", task: String(input.task), description: "s" });
    return { text };
  });
  const model = modelOf([
    (request) => {
      const entries = request.history.flatMap((node) => node.entries);
      const child = JSON.stringify(entries[0]?.item).includes("child work");
      const calls = entries.filter((entry) => entry.item.type === "mcp_call").length;
      if (!child) return calls === 0 ? callOf(["task", { task: "child work" }]) : say("parent done");
      return calls < 1 ? callOf(["write", { calls }]) : say("child done");
    },
  ]);
  let clock = Date.now();
  const { engine, store } = await engineWith({
    model,
    toolList: [write, { ...task, repeatable: true, parallel: true }],
    permissions: ask,
    now: () => clock,
  });
  const { id } = await engine.start(start);
  expect((await engine.wait(id)).status).toBe("waiting");
  clock += 3_600_000; // an hour's lunch; the profile's limit is half an hour
  const [pending] = await store.approvals({ status: "pending" });
  await engine.decide(pending?.id ?? "", { decision: "allow", by: "cli" });
  await engine.resume(id);
  expect(await engine.wait(id)).toMatchObject({ status: "completed", incompleteReason: null });
  expect(effects).toHaveLength(1);
});

test("a crash and a resume an hour later go on", async () => {
  const folder = temporaryFolder();
  let clock = Date.now();
  const options = { folder, now: () => clock, toolList: [] };
  const hang = modelOf([
    async function* (_request, signal) {
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("x"))));
      yield { type: "finish", reason: "stop" };
    },
  ]);
  const first = await engineWith({ ...options, model: hang });
  const { id } = await first.engine.start(start);
  await expect.poll(() => hang.requests.length).toBe(1);
  await first.engine.stop();
  clock += 3_600_000;
  const second = await engineWith({ ...options, model: modelOf([say("done")]) });
  await second.engine.resume(id);
  expect(await second.engine.wait(id)).toMatchObject({ status: "completed" });
});

test("the wait is counted once, however many questions there were", async () => {
  const { write } = writing();
  let clock = 1_000_000_000_000;
  const { engine, store } = await engineWith({
    model: modelOf([callOf(["write", { n: 1 }]), callOf(["write", { n: 2 }]), say("done")]),
    toolList: [write],
    permissions: ask,
    now: () => clock,
  });
  const { id } = await engine.start(start);
  for (let n = 0; n < 2; n++) {
    expect((await engine.wait(id)).status).toBe("waiting");
    clock += 1_000_000;
    const [pending] = await store.approvals({ status: "pending" });
    await engine.decide(pending?.id ?? "", { decision: "allow", by: "cli" });
    await engine.resume(id);
  }
  const node = await engine.wait(id);
  // The time that it really ran, a few milliseconds, is not part of it.
  expect(Math.abs(node.waited - 2_000_000)).toBeLessThan(1_000);
});

test("a cancelled response leaves no question behind that can still be answered", async () => {
  const { write } = writing();
  const { engine, store } = await engineWith({
    model: modelOf([callOf(["write", {}]), say("done")]),
    toolList: [write],
    permissions: ask,
  });
  const { id } = await engine.start(start);
  await engine.wait(id);
  await engine.cancel(id, "no longer wanted");
  expect(await store.approvals({ status: "pending" })).toEqual([]);
});

describe("how far 'always' reaches", () => {
  const sandbox = async () => ({ level: "none" }) as never;
  const bash = createBashTool({ sandbox });
  const allowedBy = async (tool: typeof bash, approved: object, later: object, workspace = "/tmp") => {
    const subject = (await tool.subject?.(approved as never, workspace)) ?? {};
    const rule = patternFor(tool, subject, workspace);
    const then = (await tool.subject?.(later as never, workspace)) ?? {};
    const verdict = await judge({
      tool,
      subject: then,
      workspace,
      mode: "ask",
      readOnly: false,
      rules: [{ allow: [rule], ask: [], deny: [] }],
      sandbox: async () => "none",
    });
    return { rule, effect: verdict.effect };
  };

  test("a line that cannot be parsed", async () => {
    const { rule, effect } = await allowedBy(bash, { command: "echo hi > out.txt" }, { command: "rm -rf /home" });
    expect(`${rule} ${effect}`).toMatch(/ ask$/);
  });
  test("a line of comments only", async () => {
    const { rule, effect } = await allowedBy(bash, { command: "# nothing" }, { command: "rm -rf /home" });
    expect(`${rule} ${effect}`).toMatch(/ ask$/);
  });
  test("a command whose words hold a star", async () => {
    const { rule, effect } = await allowedBy(bash, { command: "rm *.tmp" }, { command: "rm -rf /home/me x.tmp" });
    expect(`${rule} ${effect}`).toMatch(/ ask$/);
  });
  test("a file at the top is not every file of that name", async () => {
    const { rule, effect } = await allowedBy(
      writeTool as never,
      { file_path: "config" },
      { file_path: "deploy/prod/config" },
    );
    expect(`${rule} ${effect}`).toMatch(/ ask$/);
  });
  test("a file whose name is a pattern", async () => {
    const { rule, effect } = await allowedBy(writeTool as never, { file_path: "*" }, { file_path: "src/main.ts" });
    expect(`${rule} ${effect}`).toMatch(/ ask$/);
  });
});

test("rules with a mistake are not silently without effect", () => {
  expect(() => parseRule("bash(rm *")).toThrow();
});
