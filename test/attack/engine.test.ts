/** Attacks on the engine: two resumes, shutdown, steering, hooks, sub-agents' rights. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { judge } from "../../src/engine/permissions.ts";
import { CommitClock } from "../../src/store/clock.ts";
import { createBuiltinTools } from "../../src/tools/builtin.ts";
import { RotundaError } from "../../src/types/error.ts";
import { runHook } from "../../src/util/hook-process.ts";
import { detectSandbox } from "../../src/util/sandbox.ts";
import { simpleCommands } from "../../src/util/shell.ts";
import { callOf, collect, engineWith, modelOf, say, temporaryFolder, temporaryStore, toolOf } from "../support.ts";

const start = { door: "test", workspace: "/", input: "go" };
const ask = { allow: [], ask: [], deny: [], mode: "ask" as const };

test("a resume that looked before another process went on does not repeat a side effect", async () => {
  const folder = temporaryFolder();
  const effects: number[] = [];
  const pay = toolOf("pay", async () => (effects.push(1), { text: "paid" }), { access: "write" });
  const model = () => modelOf([callOf(["pay", { n: 1 }], ["pay", { n: 2 }]), say("done")]);
  const options = { folder, toolList: [pay], permissions: ask };
  const first = await engineWith({ ...options, model: model() });
  const { id } = await first.engine.start(start);
  await first.engine.wait(id);
  const [one] = await first.store.approvals({ status: "pending" });
  await first.engine.decide(one?.id ?? "", { decision: "allow", by: "cli" });
  // Two `rotunda resume` at once. The second one has read the response, and gets its turn to claim only
  // after the first one has paid and waits for the second question.
  const slowStore = await temporaryStore({}, folder);
  const claim = slowStore.claim.bind(slowStore);
  slowStore.claim = async (...args) => {
    await first.engine.resume(id);
    await first.engine.wait(id);
    return claim(...args);
  };
  const second = await engineWith({ ...options, model: model(), store: slowStore });
  await second.engine.resume(id);
  await second.engine.wait(id);
  expect(effects).toHaveLength(1);
});

test("two resumes at once in one process are one run", async () => {
  const folder = temporaryFolder();
  const store = await temporaryStore({}, folder);
  const hang = modelOf([
    async function* (_request, signal) {
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("x"))));
      yield { type: "finish", reason: "stop" };
    },
  ]);
  const first = await engineWith({ store, model: hang });
  const { id } = await first.engine.start(start);
  await expect.poll(() => hang.requests.length).toBe(1);
  await first.engine.stop();
  const model = modelOf([say("done")]);
  const second = await engineWith({ store: await temporaryStore({}, folder), model });
  await Promise.all([second.engine.resume(id), second.engine.resume(id)]);
  expect((await second.engine.wait(id)).status).toBe("completed");
  expect(model.requests).toHaveLength(1);
});

test("nothing begins in an engine that is stopping", async () => {
  const folder = temporaryFolder();
  const { write, engine, store } = await waitingOne(folder);
  const [pending] = await store.approvals({ status: "pending" });
  await engine.decide(pending?.id ?? "", { decision: "allow", by: "cli" });
  await engine.stop();
  await engine.resume(pending?.responseId ?? "").catch(() => undefined);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(write.effects).toEqual([]);
});

async function waitingOne(folder: string) {
  const effects: object[] = [];
  const tool = toolOf("write", async (input) => (effects.push(input), { text: "ok" }), { access: "write" });
  const fixture = await engineWith({
    folder,
    model: modelOf([callOf(["write", {}]), say("done")]),
    toolList: [tool],
    permissions: ask,
  });
  const { id } = await fixture.engine.start(start);
  await fixture.engine.wait(id);
  return { ...fixture, write: { effects }, id };
}

test("what was steered while the model spoke is not lost in a crash", async () => {
  const folder = temporaryFolder();
  const hang = modelOf([
    async function* (_request, signal) {
      yield { type: "text", delta: "I will " };
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("x"))));
      yield { type: "finish", reason: "stop" };
    },
  ]);
  const first = await engineWith({ folder, model: hang });
  const { id } = await first.engine.start(start);
  await expect.poll(() => hang.requests.length).toBe(1);
  const steering = {
    type: "message",
    id: "",
    role: "user",
    status: "completed",
    content: [{ type: "input_text", text: "STEERED" }],
  };
  await first.engine.steer(id, [steering as never]);
  await expect.poll(async () => JSON.stringify(await first.store.get(id)).includes("STEERED")).toBe(true);
  await first.engine.stop();
  const model = modelOf([say("done")]);
  const second = await engineWith({ folder, model });
  await second.engine.resume(id);
  await second.engine.wait(id);
  expect(JSON.stringify(model.requests[0]?.history)).toContain("STEERED");
});

test("steering what does not exist or has ended is refused", async () => {
  const { engine } = await engineWith({});
  const { id } = await engine.start(start);
  await engine.wait(id);
  const item = {
    type: "message",
    id: "",
    role: "user",
    status: "completed",
    content: [{ type: "input_text", text: "x" }],
  };
  await expect(engine.steer(id, [item as never])).rejects.toMatchObject({ code: "response_ended" });
});

test("a sub-agent is bound by the deny rules and the server list of the profile that called it", async () => {
  const effects: string[] = [];
  const push = toolOf("push", async () => (effects.push("push"), { text: "pushed" }), { access: "run" });
  const mail = toolOf("mail__send", async () => (effects.push("mail"), { text: "sent" }), {
    server: "mail",
    serverName: "send",
    access: "run",
  });
  const task = toolOf("task", async (input, context) => {
    const { text } = await context.delegate({ profile: "execute", task: String(input.task), description: "s" });
    return { text };
  });
  const model = modelOf([
    (request) => {
      const entries = request.history.flatMap((node) => node.entries);
      const child = JSON.stringify(entries[0]?.item).includes("child work");
      if (entries.some((entry) => entry.item.type === "mcp_call")) return say("done");
      return child ? callOf(["push", {}], ["mail__send", {}]) : callOf(["task", { task: "child work" }]);
    },
  ]);
  const { builtinProfiles } = await import("../../src/profiles/builtin.ts");
  const [general] = builtinProfiles;
  if (!general) throw new Error("no profile");
  const { engine } = await engineWith({
    model,
    toolList: [push, mail, task],
    profiles: {
      list: () => builtinProfiles,
      get: async (name = "general") =>
        name === "general"
          ? { ...general, servers: [], permissions: { allow: [], ask: [], deny: ["push"] } }
          : { ...general, name },
    },
  });
  const { id } = await engine.start(start);
  await engine.wait(id);
  expect(effects).toEqual([]);
});

test("a deny rule about commands holds beside an allow rule, whatever the line looks like", async () => {
  for (const command of [
    "X=1 git push",
    "git push > log",
    "env git push",
    "(git push)",
    "command git push",
    "git push\r",
  ]) {
    const verdict = await judge({
      tool: toolOf("bash", async () => ({ text: "" }), { access: "run" }),
      subject: { commands: simpleCommands(command) },
      workspace: "/",
      mode: "ask",
      readOnly: false,
      rules: [{ allow: ["bash"], ask: [], deny: ["bash(git push*)"] }],
      sandbox: async () => "bwrap",
    });
    expect(`${JSON.stringify(command)}: ${verdict.effect}`).not.toMatch(/allow$/);
  }
});

test("a read deny rule holds against a link made by an earlier call of the same answer", async () => {
  const workspace = temporaryFolder();
  writeFileSync(join(workspace, "private.txt"), "TOP-SECRET-VALUE");
  const tools = createBuiltinTools({ sandbox: () => detectSandbox("auto"), profiles: [], hidden: [] });
  const { engine } = await engineWith({
    model: modelOf([
      callOf(["bash", { command: "ln -s private.txt notes.md" }], ["read", { files: [{ file_path: "notes.md" }] }]),
      say("done"),
    ]),
    toolList: tools,
    permissions: { allow: [], ask: [], deny: ["read(private.txt)"], mode: "auto" },
    sandbox: { level: async () => (await detectSandbox("auto")).level, network: "auto" },
  });
  const { id } = await engine.start({ ...start, workspace });
  await engine.wait(id);
  expect(JSON.stringify((await engine.get(id)).output)).not.toContain("TOP-SECRET");
});

for (const rule of [
  "read(private.txt)",
  "rotunda:read(private.txt)",
  "rotunda__read(private.txt)",
  "re*(private.txt)",
  "read(./private.txt)",
]) {
  for (const [name, input] of [
    ["grep", { pattern: "TOP" }],
    ["bash", { command: "cat private.txt" }],
    [
      "edit",
      {
        edits: [{ file_path: "private.txt", old_text: "TOP", new_text: "TOP" }],
        file_path: "private.txt",
        old_string: "x",
        new_string: "y",
      },
    ],
  ] as const) {
    test(`deny ${rule}: ${name} does not show it`, async () => {
      const workspace = temporaryFolder();
      writeFileSync(join(workspace, "private.txt"), "TOP-SECRET-VALUE");
      const tools = createBuiltinTools({ sandbox: () => detectSandbox("auto"), profiles: [], hidden: [] });
      const { engine } = await engineWith({
        model: modelOf([callOf([name, input]), say("done")]),
        toolList: tools,
        permissions: { allow: [], ask: [], deny: [rule], mode: "auto" },
        sandbox: { level: async () => (await detectSandbox("auto")).level, network: "auto" },
      });
      const { id } = await engine.start({ ...start, workspace });
      await engine.wait(id);
      expect(JSON.stringify((await engine.get(id)).output)).not.toContain("SECRET-VALUE");
    });
  }
}

test("a read-only agent without a sandbox runs no shell command because a rule allows bash", async () => {
  const workspace = temporaryFolder();
  const tools = createBuiltinTools({ sandbox: () => detectSandbox("none"), profiles: [], hidden: [] });
  const { engine } = await engineWith({
    model: modelOf([callOf(["bash", { command: "touch made" }]), say("done")]),
    toolList: tools,
    permissions: { allow: ["bash"], ask: [], deny: [], mode: "ask" },
    profile: { readOnly: true },
    sandbox: { level: async () => "none", network: "auto" },
  });
  const { id } = await engine.start({ ...start, workspace });
  await engine.wait(id);
  expect(existsSync(join(workspace, "made"))).toBe(false);
});

test("the end hook sees a response that was cancelled", async () => {
  const seen: string[] = [];
  const hang = modelOf([
    async function* (_request, signal) {
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("x"))));
      yield { type: "finish", reason: "stop" };
    },
  ]);
  const { engine } = await engineWith({
    model: hang,
    hooks: { onResponseEnd: [{ command: "x" }] },
    runHook: async (hook, input, workspace, signal) => {
      const outcome = await runHook({ ...hook, command: "cat" }, input, workspace, signal);
      if (outcome.stdout !== "") seen.push(outcome.stdout);
      return outcome;
    },
  });
  const { id } = await engine.start(start);
  await expect.poll(() => hang.requests.length).toBe(1);
  await engine.cancel(id, "enough");
  expect(seen).toHaveLength(1);
});

describe("the commit clock", () => {
  test("an error after a busy moment does not stop it for ever", async () => {
    let step = 0;
    const clock = new CommitClock({
      begin: () => {
        step++;
        if (step === 1) return false;
        if (step === 2) throw new Error("disk I/O error");
        return true;
      },
      commit: () => undefined,
      rollback: () => undefined,
      explain: (error) => new RotundaError("storage_failed", String(error)),
    });
    await expect(clock.write(() => 1, true)).rejects.toThrow("disk I/O");
    const second = await Promise.race([
      clock.write(() => 2, true),
      new Promise((resolve) => setTimeout(() => resolve("hangs"), 500)),
    ]);
    expect(second).toBe(2);
  });

  test("a write that fails takes none with it, also when another process is writing", async () => {
    let begun = 0;
    const clock = new CommitClock({
      begin: () => ++begun !== 3,
      commit: () => undefined,
      rollback: () => undefined,
      explain: (error) => (error instanceof RotundaError ? error : new RotundaError("storage_failed", String(error))),
    });
    const outcomes = await Promise.allSettled([
      clock.write(() => {
        throw new Error("constraint");
      }, true),
      clock.write(() => "good", true),
    ]);
    expect(outcomes.map((outcome) => outcome.status)).toEqual(["rejected", "fulfilled"]);
  });
});

test("watched from every number, while it runs and from another process, the log is the same", async () => {
  const folder = temporaryFolder();
  const read = toolOf("read", async () => ({ text: "x".repeat(20_000) }));
  const model = modelOf([
    async function* () {
      for (let n = 0; n < 30; n++) {
        yield { type: "text", delta: `d${n} \ud83d` };
        yield { type: "text", delta: "\ude00" };
        if (n % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 30));
      }
      yield { type: "call", index: 0, callId: "c", name: "read" };
      yield { type: "call_arguments", index: 0, delta: "{}" };
      yield { type: "finish", reason: "tool_calls" };
    },
    say("done"),
  ]);
  const { engine } = await engineWith({ folder, model, toolList: [read] });
  const other = await engineWith({ store: await temporaryStore({}, folder) });
  const { id } = await engine.start(start);
  const live = collect(engine.watch(id));
  const remote = collect(other.engine.watch(id));
  const some = [0, 5, 20, 40].map((n) => collect(engine.watch(id, n)));
  const all = await live;
  expect(await remote).toEqual(all);
  expect(all.map((event) => event.sequence_number)).toEqual(all.map((_, n) => n));
  for (const [index, n] of [0, 5, 20, 40].entries()) expect(await some[index]).toEqual(all.slice(n + 1));
  for (let n = -1; n < all.length; n++) expect(await collect(other.engine.watch(id, n))).toEqual(all.slice(n + 1));
});
