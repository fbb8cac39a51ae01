/** Claude Code as a model, with a stand-in for its command line: sessions, tools, questions, failures. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { processesOf } from "../agents/processes.ts";
import { callOf, collect, modelOf, say } from "../support.ts";
import { calls, claudeBench, turn } from "./agent-bench.ts";

const allow = async () => ({ decision: "allow" as const, by: "test" });

describe("answers and sessions", () => {
  test("C5 an answer streams, with its usage, cost and session", async () => {
    const { app, starts } = await claudeBench();
    const first = await turn(app, "one");
    expect(first).toMatchObject({ status: "completed", error: null, model: "claude-code" });
    expect(first.usage).toMatchObject({ input_tokens: 14, output_tokens: 5, total_tokens: 19, cost: 0.25 });
    expect(first.usage.input_tokens_details.cached_tokens).toBe(4);
    const deltas = (await collect(app.engine.watch(first.id))).filter(({ type }) => type.endsWith("text.delta"));
    expect(deltas).toHaveLength(2);
    const [start] = starts();
    expect(start?.args.slice(0, 8)).toEqual(
      "-p --output-format stream-json --input-format stream-json --verbose --include-partial-messages --permission-prompt-tool".split(
        " ",
      ),
    );
    expect(start?.args).not.toContain("--dangerously-skip-permissions");
    expect(start?.args.join(" ")).not.toContain("one");
    expect(start?.cwd).toBe(app.workspace);
  });

  test("C5 B15 the next turn resumes its session, and branches do not hear of each other", async () => {
    const { app, starts } = await claudeBench();
    const first = await turn(app, "one");
    const left = await turn(app, "left", { previousResponseId: first.id });
    const right = await turn(app, "right", { previousResponseId: first.id });
    expect(app.engine.textOf(left)).toBe('heard: ["one","said 1","left"]');
    expect(app.engine.textOf(right)).toBe('heard: ["one","said 1","right"]');
    const deeper = await turn(app, "deeper", { previousResponseId: left.id });
    expect(app.engine.textOf(deeper)).toBe('heard: ["one","said 1","left","said 1","deeper"]');
    expect(starts().map(({ args }) => args.includes("--resume"))).toEqual([false, true, true, true]);
  });

  test("B15 in another directory it gets the transcript, and a bad session is never passed on", async () => {
    const { app, here, home, starts } = await claudeBench();
    const first = await turn(app, "one");
    const elsewhere = await turn(app, "two", { previousResponseId: first.id, workspace: here.root });
    expect(app.engine.textOf(elsewhere)).toMatch(/<user>\\none.*heard.*The user says now:\\n\\ntwo/);
    rmSync(join(home, "sessions"), { recursive: true });
    const lost = await turn(app, "three", { previousResponseId: first.id });
    expect(lost.status).toBe("completed");
    expect(app.engine.textOf(lost)).toContain("three");
    expect(app.engine.textOf(lost)).toContain("<user>");
    expect(starts().map(({ args }) => args.includes("--resume"))).toEqual([false, false, true, false]);
  });

  test("C5 a conversation goes from an HTTP model to it and back, from any checkpoint", async () => {
    const { app, http } = await claudeBench();
    const first = await turn(app, "plum", { model: "http" });
    const second = await turn(app, "you", { previousResponseId: first.id });
    expect(app.engine.textOf(second)).toContain("plum");
    expect(app.engine.textOf(second)).toContain("from http");
    const third = await turn(app, "back", { model: "http", previousResponseId: second.id });
    expect(third.status).toBe("completed");
    expect(JSON.stringify(http.requests.at(-1)?.history)).toContain("heard: ");
    const fourth = await turn(app, "again", { previousResponseId: third.id });
    expect(app.engine.textOf(fourth)).toContain("<conversation>");
    const branch = await turn(app, "branch", { previousResponseId: second.id });
    expect(app.engine.textOf(branch)).not.toContain("back");
  });

  test("what was taken out of a conversation is not told any more", async () => {
    const { app } = await claudeBench();
    const first = await turn(app, "secret word");
    const [item] = first.input;
    const edited = await app.engine.record({
      input: [],
      previousResponseId: first.id,
      omit: [item?.id ?? ""],
      workspace: app.workspace,
      door: "test",
    });
    const next = await turn(app, "next", { previousResponseId: edited.id });
    expect(app.engine.textOf(next)).not.toMatch(/\["secret word"/);
    expect(app.engine.textOf(next)).toContain("<conversation>");
  });

  test("B16 2 MB of prompt go over stdin", async () => {
    const { app } = await claudeBench();
    const ended = await turn(app, "x".repeat(2_000_000));
    expect(app.engine.textOf(ended)).toBe('heard: ["2000000 characters"]');
  });

  test("instructions of the caller join the system prompt, ours for tools do not", async () => {
    const { app, home } = await claudeBench();
    await turn(app, "one", { settings: { instructions: "Speak like a pirate." } });
    expect(readFileSync(join(home, "instructions"), "utf8")).toBe("Speak like a pirate.");
  });

  test("a profile's model, so a sub-agent too", async () => {
    const task = { agent_type: "deputy", description: "d", task: "for the deputy" };
    const boss = modelOf([callOf(["task", task]), say("over")], "boss");
    const config = { profiles: { deputy: { description: "x", model: "claude-code" } } };
    const { app } = await claudeBench({ models: [boss], config });
    const ended = await turn(app, "go", { model: "boss", settings: { mode: "auto" } });
    expect(calls(ended)).toMatchObject([{ name: "task", status: "completed" }]);
    const [child] = await app.store.list({ callerResponseId: ended.id });
    expect(child).toMatchObject({ model: "claude-code", status: "completed" });
  });
});

describe("its tools", () => {
  test("calls land in the tree as they were run, and are told to other models", async () => {
    const { app, http } = await claudeBench({ config: { permissions: { mode: "auto" } } });
    const ended = await turn(app, "[run echo hello] [run exit 3]");
    expect(calls(ended)).toMatchObject([
      { server_label: "claude-code", name: "Bash", arguments: '{"command":"echo hello"}', output: "hello" },
      { status: "failed", error: "(no output)" },
    ]);
    expect(ended.output.map(({ type }) => type)).toEqual(["message", "mcp_call", "mcp_call", "message"]);
    expect(ended.usage).toMatchObject({ output_tokens: 20, cost: 0.25 });
    await turn(app, "and you", { model: "http", previousResponseId: ended.id });
    expect(JSON.stringify(http.requests.at(-1)?.history)).toContain("echo hello");
    const audits = await app.store.audits(0, 100);
    expect(audits.filter(({ action }) => action === "tool_call")).toHaveLength(2);
  });

  test("a question becomes an approval, answered while the agent waits", async () => {
    const { app } = await claudeBench();
    const ended = await turn(app, "[ask echo hello]", { approver: allow });
    expect(calls(ended)).toMatchObject([{ status: "completed", output: "hello" }]);
    expect(ended.output.map(({ type }) => type)).toEqual([
      "message",
      "mcp_call",
      "mcp_approval_request",
      "mcp_approval_response",
      "message",
    ]);
    const [approval] = await app.store.approvals({ responseId: ended.id });
    expect(approval).toMatchObject({ status: "allowed", tool: "claude-code__Bash", decidedBy: "test" });
    expect(approval?.why).toContain("a test");
  });

  test("several questions at once are put together, and each is answered for itself", async () => {
    const { app } = await claudeBench();
    const seen: string[] = [];
    const approver = async (approval: { arguments: string }) => {
      seen.push(approval.arguments);
      return { decision: approval.arguments.includes("two") ? ("deny" as const) : ("allow" as const), by: "test" };
    };
    const ended = await turn(app, "together [ask echo one] [ask echo two] [ask echo three]", { approver });
    expect(seen).toHaveLength(3);
    expect(calls(ended).map(({ status, output }) => [status, output])).toEqual([
      ["completed", "one"],
      ["failed", expect.stringContaining("DENIED")],
      ["completed", "three"],
    ]);
    expect(ended.status).toBe("completed");
  });

  test("nobody is there: the response waits, and the answer is carried out later, once", async () => {
    const { app, here } = await claudeBench();
    const asked = await turn(app, "[ask echo x >> made.txt]");
    expect(asked.status).toBe("waiting");
    expect(processesOf(here)).toEqual([]);
    const [approval] = await app.store.approvals({ status: "pending" });
    await app.engine.decide(approval?.id ?? "", { decision: "allow", by: "somebody" });
    await app.engine.goOn(approval?.id ?? "");
    await app.engine.wait(asked.id);
    const ended = await app.engine.get(asked.id);
    expect(ended.status).toBe("completed");
    expect(calls(ended)).toMatchObject([
      { status: "incomplete", error: expect.stringContaining("allowed it by now") },
      { status: "completed", approval_request_id: approval?.id },
    ]);
    expect(readFileSync(join(here.workspace, "made.txt"), "utf8")).toBe("x\n");
    expect(await app.store.approvals({ responseId: asked.id })).toHaveLength(1);
  });

  test("nobody is there: a denial is told to the agent", async () => {
    const { app, here } = await claudeBench();
    const asked = await turn(app, "[ask echo x >> made.txt]");
    const [approval] = await app.store.approvals({ status: "pending" });
    await app.engine.decide(approval?.id ?? "", { decision: "deny", reason: "too early", by: "somebody" });
    await app.engine.goOn(approval?.id ?? "");
    await app.engine.wait(asked.id);
    const ended = await app.engine.get(asked.id);
    expect(ended.status).toBe("completed");
    expect(app.engine.textOf(ended)).toContain("too early");
    expect(existsSync(join(here.workspace, "made.txt"))).toBe(false);
  });

  test("where the door returns for approval, the child carries the answer out", async () => {
    const { app, here, starts } = await claudeBench();
    const asked = await turn(app, "[ask echo x >> made.txt]", { settings: { onApproval: "return" } });
    expect(asked.status).toBe("completed");
    const [approval] = await app.store.approvals({ status: "pending" });
    await app.engine.decide(approval?.id ?? "", { decision: "allow", by: "somebody" });
    const child = await app.engine.goOn(approval?.id ?? "");
    await app.engine.wait(child?.id ?? "");
    expect(await app.engine.get(child?.id ?? "")).toMatchObject({ status: "completed" });
    expect(readFileSync(join(here.workspace, "made.txt"), "utf8")).toBe("x\n");
    expect(starts().map(({ args }) => args.includes("--resume"))).toEqual([false, true]);
  });

  test("our rules hold for its tools, in every mode", async () => {
    const deny = { permissions: { mode: "auto", deny: ["bash(touch *)"], ask: ["claude-code:Bash(ls *)"] } };
    const { app, here } = await claudeBench({ config: deny });
    const ended = await turn(app, "[run touch made.txt] [run ls .]", { approver: allow });
    expect(calls(ended)).toMatchObject([
      { status: "failed", error: expect.stringContaining("rule deny: bash(touch *)") },
      { status: "completed", approval_request_id: expect.any(String) },
    ]);
    expect(existsSync(join(here.workspace, "made.txt"))).toBe(false);
  });

  test("a read-only profile runs no command, and plan mode neither", async () => {
    const { app, starts } = await claudeBench({ config: { permissions: { allow: ["bash"] } } });
    const explored = await turn(app, "[run echo hello]", { profile: "explore" });
    expect(calls(explored)).toMatchObject([{ status: "failed", error: expect.stringContaining("DENIED") }]);
    const planned = await turn(app, "[ask echo hello]", { settings: { mode: "plan" }, approver: allow });
    expect(starts().map(({ args }) => args[args.indexOf("--permission-mode") + 1])).toEqual(["plan", "plan"]);
    expect(calls(planned)[0]?.status).toBe("failed");
  });

  test("modes and lists of a profile become flags; permissions are skipped only where a profile says so", async () => {
    const profiles = {
      free: { description: "x", mode: "auto", skipAgentPermissions: true },
      narrow: { description: "x", tools: ["read", "grep"], permissions: { allow: ["bash(git *)"] } },
    };
    const { app, starts } = await claudeBench({ config: { profiles } });
    await turn(app, "one", { profile: "free" });
    await turn(app, "two", { profile: "free", settings: { mode: "ask" } });
    await turn(app, "three", { profile: "narrow", settings: { mode: "accept-edits" } });
    const [free, asked, narrow] = starts().map(({ args }) => args.join(" "));
    expect(free).toContain("--dangerously-skip-permissions");
    expect(asked).toContain("--permission-mode default");
    expect(asked).not.toContain("skip-permissions");
    expect(narrow).toContain("--permission-mode acceptEdits");
    expect(narrow).toContain("--allowedTools Bash(git *)");
    for (const name of ["Write", "Edit", "Bash", "WebFetch", "Task"])
      expect(narrow).toContain(`--disallowedTools ${name}`);
    for (const name of ["Read", "Grep"]) expect(narrow).not.toContain(`--disallowedTools ${name} `);
  });

  test("a hook sees its calls and can deny them", async () => {
    const seen = "cat >> seen.jsonl; echo >> seen.jsonl; exit 2";
    const hooks = { beforeToolCall: [{ command: seen, tools: ["claude-code__*"] }] };
    const { app, here } = await claudeBench({ config: { hooks, permissions: { mode: "auto" } } });
    const ended = await turn(app, "[run echo hello]");
    expect(calls(ended)).toMatchObject([{ status: "failed" }]);
    expect(readFileSync(join(here.workspace, "seen.jsonl"), "utf8")).toContain('"tool":"claude-code__Bash"');
  });
});
