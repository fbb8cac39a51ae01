/** `rotunda chat` as scripts and people meet it: streams, formats, exit codes, signals. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startUpstream, type UpstreamScript } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { home } from "./run.ts";

async function upstream(script: UpstreamScript) {
  const started = await startUpstream(script);
  later(() => started.close());
  const flags = ["--api-base-url", started.url, "--api-key", "test-key-123456", "--model", "test-model"];
  return { ...started, flags };
}

describe("with nothing configured", () => {
  test("the demo answers from real files, labelled, and stdout is the answer only", async () => {
    const { run, workspace } = home();
    writeFileSync(join(workspace, "package.json"), JSON.stringify({ name: "x", scripts: { build: "tsc" } }));
    mkdirSync(join(workspace, "src"));
    writeFileSync(join(workspace, "src", "a.ts"), "// TODO one\n");
    const { code, out, err } = await run(["chat", "list the TypeScript files and find TODO in src"]);
    expect(code).toBe(0);
    expect(out).toMatch(/^\[DEMO/);
    expect(out).toContain("src/a.ts:1:// TODO one");
    expect(out).not.toContain("Response ID");
    expect(err).toMatch(/→ glob[\s\S]*✓ grep[\s\S]*Response ID: resp_/);
  });

  test("one JSON object, and JSON lines that are the log", async () => {
    const { run } = home();
    const { out } = await run(["chat", "--output-format", "json", "hello"]);
    expect(JSON.parse(out)).toMatchObject({
      response_id: expect.stringMatching(/^resp_/),
      conversation_id: expect.stringMatching(/^conv_/),
      status: "completed",
      model: "demo",
      profile: "general",
      turns: 1,
      tool_calls: 0,
      output_text: expect.stringContaining("DEMO"),
      usage: { total_tokens: expect.any(Number) },
      duration_ms: expect.any(Number),
    });
    const lines = (await run(["chat", "--output-format", "stream-json", "hello"])).out.trim().split("\n");
    const events = lines.map((line) => JSON.parse(line) as { seq: number; type: string; response_id: string });
    expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index));
    expect(events[0]?.type).toBe("response.created");
    expect(events.at(-1)?.type).toBe("response.completed");
  });

  test("piped stdin joins the prompt; without any prompt the error says what to do", async () => {
    const { run } = home();
    const piped = await run(["chat"], { input: "hello" });
    expect(piped).toMatchObject({ code: 0, out: expect.stringContaining("DEMO") });
    expect(await run(["chat"])).toMatchObject({
      code: 2,
      out: "",
      err: expect.stringMatching(/there is no prompt[\s\S]*rotunda chat "…"/),
    });
    expect(await run(["chta", "hello"])).toMatchObject({ code: 2, out: "" });
  });
});

describe("against an endpoint", () => {
  test("F18 F3 reasoning and tools go to stderr, apart from the answer; --verbose tells what Finta told", async () => {
    const { run, workspace } = home();
    writeFileSync(join(workspace, "a.txt"), "content");
    const script: UpstreamScript = [
      { reasoning: ["thinking ", "hard"], calls: [{ name: "read", arguments: { files: [{ file_path: "a.txt" }] } }] },
      { text: ["It says ", "content."] },
    ];
    const plain = await run(["chat", ...(await upstream(script)).flags, "what?"]);
    expect(plain).toMatchObject({ code: 0, out: "It says content.\n" });
    expect(plain.err).toContain("thinking hard");
    const { err, out } = await run(["chat", "--verbose", ...(await upstream(script)).flags, "what?"]);
    expect(out).toBe("It says content.\n");
    for (const part of [
      "🚀 Session Started",
      "Configuration:",
      "API key: ****",
      "Registered 9 tools: read, ",
      "💭 Agent Reasoning",
      "🔧 Tool Call: read",
      "📊 Tool Result: read [✅ Success]",
      "💬 Agent Response",
      "✨ Session Completed",
      "Tool Calls: 1",
    ]) {
      expect(err).toContain(part);
    }
    expect(err).not.toContain("test-key-123456");
    expect(err).not.toContain("\u001b[");
  });

  test("B9 F2 flags reach the endpoint: temperature, turns, sequential tools", async () => {
    const { run } = home();
    const up = await upstream([{ calls: [{ name: "glob", arguments: { pattern: "*" } }] }]);
    const result = await run([
      "chat",
      ...up.flags,
      "--temperature",
      "0.25",
      "--max-turns",
      "1",
      "--parallel=false",
      "--streaming",
      "go",
    ]);
    expect(up.requests[0]?.body).toMatchObject({ temperature: 0.25, parallel_tool_calls: false, stream: true });
    expect(result.code).toBe(4);
    expect(result.err).toContain("[Agent stopped — reached maximum iteration limit]");
    expect(up.requests).toHaveLength(2);
    const explore = await upstream([{ text: "ok" }]);
    await run(["chat", ...explore.flags, "--agent-type", "explore", "go"]);
    expect(explore.requests[0]?.body).toMatchObject({ temperature: 0.3 });
  });

  test("exit codes: 5 out of reach, 1 failed, 124 time, 2 unknown names", async () => {
    const { run } = home();
    const dead = ["--api-base-url", "http://127.0.0.1:9/v1", "--api-key", "k23456789", "--model", "m"];
    const config = { models: [{ id: "m", baseUrl: "http://127.0.0.1:9/v1", retries: 0 }] };
    const { workspace, run: configured } = home();
    writeFileSync(join(workspace, "rotunda.json"), JSON.stringify(config));
    expect(await configured(["chat", "go"])).toMatchObject({ code: 5, err: expect.stringContaining("127.0.0.1:9") });
    const refused = await upstream([{ status: 400, body: { error: { message: "bad thing" } } }]);
    expect(await run(["chat", ...refused.flags, "go"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("bad thing"),
    });
    const hanging = await upstream([{ silent: "hang" }]);
    expect(await run(["chat", ...hanging.flags, "--timeout", "0.5", "go"])).toMatchObject({ code: 124 });
    expect(await run(["chat", ...dead, "--agent", "nobody", "go"])).toMatchObject({ code: 2 });
    expect(await run(["chat", "--from", "zzzz", "go"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("zzzz"),
    });
  });

  test("N22 the first Ctrl-C cancels the turn and keeps it; SIGTERM leaves it to be resumed", async () => {
    const { start, run } = home();
    const script: UpstreamScript = [{ text: ["half an "], break: "hang" }, { text: "whole answer" }];
    const up = await upstream(script);
    const cancelled = start(["chat", ...up.flags, "go"]);
    await expect.poll(() => cancelled.out(), { timeout: 10_000 }).toContain("half an");
    cancelled.child.kill("SIGINT");
    expect(await cancelled.result).toMatchObject({ code: 130, err: expect.stringContaining("cancelled") });

    const second = await upstream(script);
    const stopped = start(["chat", ...second.flags, "go"]);
    await expect.poll(() => stopped.out(), { timeout: 10_000 }).toContain("half an");
    stopped.child.kill("SIGTERM");
    const { code, err } = await stopped.result;
    expect(code).toBe(143);
    expect(err).not.toContain("internal");
    const id = /rotunda resume (\w+)/.exec(err)?.[1] ?? "";
    const shown = await run(["show", id, "--json"]);
    expect(JSON.parse(shown.out)).toMatchObject({ status: "in_progress" });
  });
});

test.each([0, 60])(
  "kill -9 in the middle of an answer (%i ms between deltas), then resume: the answer is whole",
  async (delay) => {
    const { start, run, workspace } = home();
    const up = await upstream([
      { text: ["half ", "an ", "answer"], delay, break: "hang" },
      { text: "the whole answer" },
    ]);
    const killed = start(["chat", ...up.flags, "--output-format", "stream-json", "go"]);
    await expect.poll(() => killed.out(), { timeout: 10_000 }).toContain('"answer"');
    killed.child.kill("SIGKILL");
    await killed.result;
    const told = killed
      .out()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { response_id: string });
    const config = ["--config", "rotunda.json"];
    const model = { id: "test-model", baseUrl: up.url, apiKey: "test-key-123456" };
    writeFileSync(join(workspace, "rotunda.json"), JSON.stringify({ models: [model] }));
    const resumed = await run(["resume", "--output-format", "stream-json", ...config]);
    expect(resumed).toMatchObject({ code: 0 });
    const all = resumed.out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as object);
    expect(all.slice(0, told.length)).toEqual(told);
    const shown = JSON.parse((await run(["show", told[0]?.response_id ?? "", "--json"])).out) as object;
    expect(shown).toMatchObject({
      status: "completed",
      output: [
        { status: "incomplete", content: [{ text: "half an answer" }] },
        { status: "completed", content: [{ text: "the whole answer" }] },
      ],
    });
  },
);

describe("approvals at the command line", () => {
  test("exit code 3, then approve goes on; the answer of another terminal counts once", async () => {
    const { run, workspace } = home();
    const first = await run(["chat", "write notes.txt with hello"]);
    expect(first.code).toBe(3);
    const id = /rotunda approve (\w+)/.exec(first.err)?.[1] ?? "";
    expect((await run(["approvals"])).out).toContain('{"content":"hello');
    const approved = await run(["approve", id]);
    expect(approved).toMatchObject({ code: 0, out: expect.stringContaining("DEMO") });
    expect(readFileSync(join(workspace, "notes.txt"), "utf8")).toBe("hello\n");
    expect(await run(["deny", id])).toMatchObject({
      code: 1,
      err: expect.stringContaining("has already been answered: allowed by cli, 20"),
    });
  });

  test("the answer to a response that has returned starts its child", async () => {
    const { run, workspace, environment } = home();
    const file = join(workspace, "..", "rotunda.yaml");
    writeFileSync(file, JSON.stringify({ profile: "asking", profiles: { asking: { onApproval: "return" } } }));
    environment.ROTUNDA_CONFIG = file;
    expect((await run(["chat", "write notes.txt with hello"])).code).toBe(0);
    const [asked] = JSON.parse((await run(["approvals", "--json"])).out) as { id: string }[];
    const approved = await run(["approve", asked?.id ?? ""]);
    expect(approved).toMatchObject({ code: 0, out: expect.stringContaining("DEMO") });
    expect(readFileSync(join(workspace, "notes.txt"), "utf8")).toBe("hello\n");
  });

  test("deny tells the model why", async () => {
    const { run } = home();
    const first = await run(["chat", "write notes.txt with hello"]);
    const id = /rotunda deny (\w+)/.exec(first.err)?.[1] ?? "";
    const denied = await run(["deny", id, "--reason", "wrong place"]);
    expect(denied).toMatchObject({ code: 0, out: expect.stringContaining("wrong place") });
  });
});

test("B31 --continue, --conversation and --from: one tree, branches told apart in log", async () => {
  const { run } = home();
  const up = await upstream(({ body }) => ({ text: `seen ${(body.messages as unknown[]).length}` }));
  const first = JSON.parse((await run(["chat", ...up.flags, "--output-format", "json", "one"])).out) as Record<
    string,
    string
  >;
  const second = JSON.parse(
    (await run(["chat", ...up.flags, "--output-format", "json", "--continue", "two"])).out,
  ) as Record<string, string>;
  expect(second.conversation_id).toBe(first.conversation_id);
  expect(second.output_text).toBe("seen 4");
  const id = first.response_id ?? "";
  const branch = JSON.parse(
    (await run(["chat", ...up.flags, "--output-format", "json", "--from", id.slice(-6), "other"])).out,
  ) as Record<string, string>;
  expect(branch.conversation_id).not.toBe(first.conversation_id);
  const outline = (await run(["log"])).out;
  // Three answers, and what they used in all.
  expect(outline.split("\n").filter(Boolean)).toHaveLength(4);
  expect(outline).toContain(`${(branch.response_id ?? "").slice(-8)}`);
  await run(["chat", ...up.flags, "--conversation", "notes", "a"]);
  const named = JSON.parse(
    (await run(["chat", ...up.flags, "--output-format", "json", "--conversation", "notes", "b"])).out,
  ) as Record<string, string>;
  expect(named.output_text).toBe("seen 4");
});

test("a response goes on under the rules of its own directory, wherever it is approved or resumed", async () => {
  const here = home();
  const elsewhere = { ...here, ...home({ ROTUNDA_HOME: here.environment.ROTUNDA_HOME }) };
  writeFileSync(join(here.workspace, "strict.yaml"), 'permissions: { deny: ["write(secret.txt)"] }\n');
  for (const config of [[], ["--config", "strict.yaml"]]) {
    const first = await here.run(["chat", ...config, "write notes.txt with hello, then write secret.txt with x"]);
    expect(first.code).toBe(3);
    if (config.length === 0)
      writeFileSync(join(here.workspace, "rotunda.yaml"), 'permissions: { deny: ["write(secret.txt)"] }\n');
    const id = /rotunda approve (\w+)/.exec(first.err)?.[1] ?? "";
    const { err } = await elsewhere.run(["approve", id]);
    expect(err).toContain("✓ write");
    expect(err).toContain("DENIED: rule deny: write(secret.txt)");
    expect(existsSync(join(here.workspace, "secret.txt"))).toBe(false);
    rmSync(join(here.workspace, "rotunda.yaml"), { force: true });
    rmSync(join(here.workspace, "notes.txt"), { force: true });
  }
});
