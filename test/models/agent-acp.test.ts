/** Any ACP agent as a model, with a stand-in on the protocol's own SDK. */
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { processesOf } from "../agents/processes.ts";
import { openApp, place } from "../app/support.ts";
import { modelOf, say } from "../support.ts";
import { carriers, eventually, uniqueSeconds } from "../util/processes.ts";
import { calls, program, turn as turnOf } from "./agent-bench.ts";

interface Options {
  fork?: boolean;
  args?: string[];
  config?: object;
  agent?: object;
}

async function bench({ fork = false, args = [], config = {}, agent = {} }: Options = {}) {
  const here = place();
  const home = join(here.root, "home");
  mkdirSync(home, { recursive: true });
  const env = { FAKE_FORK: fork ? "1" : "0" };
  const fake = { command: program(here, "acp", "bin/fake"), args, env, ...agent };
  here.put("home/.config/rotunda/rotunda.yaml", { agents: { fake }, ...config });
  const app = await openApp(here, [modelOf([say("from http")], "http")]);
  const turn = (input: string, more: object = {}) => turnOf(app, input, { model: "fake", ...more });
  const log = () =>
    readFileSync(join(home, "acp.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { app, here, home, turn, log };
}

const allow = async () => ({ decision: "allow" as const, by: "test" });

describe.each([
  ["forks", true],
  ["loads", false],
])("an agent that %s sessions", (_name, fork) => {
  test("it answers, and the next turn goes on in its session; branches do not hear of each other", async () => {
    const { app, turn, log } = await bench({ fork });
    const first = await turn("one think", { settings: { instructions: "Be kind." } });
    expect(first).toMatchObject({ status: "completed", error: null });
    expect(first.usage).toMatchObject({ input_tokens: 7, output_tokens: 3, total_tokens: 10, cost: 0.5 });
    expect(first.output.map(({ type }) => type)).toEqual(["reasoning", "message"]);
    expect(app.engine.textOf(first)).toContain("<instructions>\\nBe kind.");
    const left = await turn("left", { previousResponseId: first.id });
    expect(app.engine.textOf(left)).toMatch(/one think","left"\]$/);
    const right = await turn("right", { previousResponseId: first.id });
    expect(app.engine.textOf(right)).not.toContain("left");
    expect(app.engine.textOf(right)).toContain("one think");
    const events = log().map((event) => Object.keys(event)[0]);
    // One that can only load is told the conversation where the session has gone on without it.
    if (fork) expect(events).toEqual(["start", "made", "start", "forked", "start", "forked"]);
    else expect(events).toEqual(["start", "made", "start", "loaded", "start", "loaded", "made"]);
    expect(log()[0]?.capabilities).toMatchObject({
      fs: { readTextFile: false, writeTextFile: false },
      terminal: false,
    });
  });
});

describe("its tools", () => {
  test("calls land in the tree; what it asks becomes an approval", async () => {
    const { app, turn, log } = await bench();
    const ended = await turn("[run echo hello] [ask echo asked] [run exit 3]", { approver: allow });
    expect(calls(ended)).toMatchObject([
      { server_label: "fake", name: "execute", arguments: '{"command":"echo hello"}', output: "hello" },
      { status: "completed", output: "asked", approval_request_id: expect.any(String) },
      { status: "failed" },
    ]);
    expect(log()).toContainEqual({ outcome: { outcome: "selected", optionId: "once" } });
    const no = async () => ({ decision: "deny" as const, by: "test" });
    const denied = await turn("[ask echo asked]", { approver: no, conversation: "new" });
    expect(calls(denied)).toMatchObject([{ status: "failed", error: "rejected" }]);
    expect(app.engine.textOf(denied)).toContain("heard");
  });

  test("nobody is there: it is cancelled, and asked again after the answer", async () => {
    const { app, here, turn } = await bench();
    const asked = await turn("[ask echo x >> made.txt]");
    expect(asked.status).toBe("waiting");
    expect(processesOf(here)).toEqual([]);
    const [approval] = await app.store.approvals({ status: "pending" });
    await app.engine.decide(approval?.id ?? "", { decision: "deny", reason: "too early", by: "test" });
    await app.engine.goOn(approval?.id ?? "");
    await app.engine.wait(asked.id);
    const ended = await app.engine.get(asked.id);
    expect(ended.status).toBe("completed");
    expect(app.engine.textOf(ended)).toContain("too early");
    expect(existsSync(join(here.workspace, "made.txt"))).toBe(false);
  });

  test("rules of ours answer what it asks", async () => {
    const { turn } = await bench({ config: { permissions: { mode: "auto", deny: ["bash(touch *)"] } } });
    const ended = await turn("[ask touch made.txt] [ask echo fine]");
    expect(calls(ended)).toMatchObject([{ status: "failed" }, { status: "completed", output: "fine" }]);
  });

  test("one that runs without asking what a rule denies is stopped", async () => {
    const { here, turn } = await bench({ config: { permissions: { mode: "auto", deny: ["bash(sleep *)"] } } });
    const ended = await turn("[run sleep 1000]");
    expect(ended.error).toMatchObject({ code: "denied", message: expect.stringContaining("rule deny: bash(sleep *)") });
    expect(calls(ended)).toMatchObject([{ status: "incomplete", error: expect.stringContaining("outcome unknown") }]);
    expect(processesOf(here)).toEqual([]);
  });

  test("its plan lands in the tree, and plan mode is set", async () => {
    const { turn, log } = await bench();
    const ended = await turn("plan it", { settings: { mode: "plan" } });
    expect(calls(ended)).toMatchObject([{ name: "plan", output: "- [in_progress] look around" }]);
    expect(log()).toContainEqual({ mode: "plan" });
  });
});

describe("U34 failures", () => {
  test("exit code and stderr are kept, also before it said anything", async () => {
    const { turn } = await bench();
    expect((await turn("die")).error).toMatchObject({
      code: "upstream_failed",
      message: "fake failed with exit code 7: out of luck",
    });
    const other = await bench({ args: ["die"] });
    expect((await other.turn("hi")).error?.message).toBe("fake failed with exit code 9: no such thing");
  });

  test("an error of the agent, a login that is missing, another version", async () => {
    const { turn } = await bench();
    expect((await turn("refuse")).error?.message).toContain("it cannot");
    const locked = await bench({ args: ["locked"] });
    expect((await locked.turn("hi")).error).toMatchObject({ code: "upstream_auth" });
    const newer = await bench({ args: ["new"] });
    expect((await newer.turn("hi")).error?.code).toMatch(/^upstream_/);
  });

  test("a program that is not there", async () => {
    const { turn } = await bench({ agent: { command: "/nowhere/agent" } });
    expect((await turn("hi")).error?.message).toBe("Failed to spawn fake process: spawn /nowhere/agent ENOENT");
  });

  test("cancel and timeout kill its whole process tree", async () => {
    const { app, here, turn } = await bench();
    const length = uniqueSeconds();
    const request = { input: `hang sleep ${length}`, model: "fake", workspace: app.workspace, door: "test" };
    const { id } = await app.engine.start(request);
    expect(await eventually(() => carriers(length).length > 0)).toBe(true);
    await app.engine.cancel(id, "enough");
    expect(processesOf(here)).toEqual([]);
    expect(await turn("still there", { conversation: "new" })).toMatchObject({ status: "completed" });
    const short = await bench({ agent: { timeout: 1 } });
    expect((await short.turn(`hang sleep ${length}`)).error?.code).toBe("upstream_timeout");
    expect(carriers(length)).toEqual([]);
  });

  test("a session that is gone: it is told the conversation", async () => {
    const { app, home, turn } = await bench();
    const first = await turn("one");
    rmSync(join(home, "acp"), { recursive: true });
    const second = await turn("two", { previousResponseId: first.id });
    expect(second.status).toBe("completed");
    expect(app.engine.textOf(second)).toContain("<conversation>");
  });
});
