import { describe, expect, it } from "vitest";
import { createDemoModel } from "../../src/models/demo.ts";
import type { Entry } from "../../src/types/item.ts";
import type { JsonObject } from "../../src/types/json.ts";
import type { ToolDefinition } from "../../src/types/model.ts";
import { ask, called, node, request, user } from "./helpers.ts";

const model = createDemoModel({ pace: 0 });
const tool = (name: string, input: JsonObject = { type: "object" }): ToolDefinition => ({
  name,
  description: "",
  input,
});
const types = { type: "object", properties: { agent_type: { type: "string", enum: ["general", "explore", "plan"] } } };
const add = {
  type: "object",
  properties: { text: { type: "string" }, times: { type: "integer" } },
  required: ["text"],
};
const tools = [
  tool("read"),
  tool("write"),
  tool("edit"),
  tool("bash"),
  tool("glob"),
  tool("grep"),
  tool("TodoWrite"),
  tool("task", types),
  tool("notes__add", add),
];

type Run = (name: string, given: JsonObject) => string | Error;

/** Plays a whole turn: answers each call, until the model ends. Gives the calls by answer, and the text. */
async function play(
  text: string,
  run: Run = () => "ok",
  offered = tools,
): Promise<{ steps: string[][]; text: string; entries: Entry[] }> {
  const entries: Entry[] = [user(text)];
  const steps: string[][] = [];
  for (let turn = 1; turn < 10; turn++) {
    const answer = await ask(model, request([node([...entries])], { tools: offered }));
    if (answer.error) throw answer.error;
    if (answer.calls.length === 0) return { steps, text: answer.text, entries };
    steps.push(answer.calls.map((call) => `${call.name} ${call.arguments}`));
    for (const call of answer.calls) {
      const result = run(call.name, JSON.parse(call.arguments) as JsonObject);
      const entry = called(turn, call.name, call.arguments, result instanceof Error ? result.message : result, {
        finish: "tool_calls",
      });
      if (result instanceof Error && entry.item.type === "mcp_call")
        Object.assign(entry.item, { status: "failed", error: result.message });
      entries.push(entry);
    }
  }
  throw new Error("the demo does not come to an end");
}

describe("the demo model", () => {
  it.each([
    ["list the TypeScript files", [['glob {"pattern":"**/*.{ts,tsx}"}']]],
    ["find TODO in src", [['grep {"pattern":"TODO","path":"src"}']]],
    ["explain @src/order.ts", [['read {"files":[{"file_path":"src/order.ts"}]}']]],
    ["read .env", [['read {"files":[{"file_path":".env"}]}']]],
    ["read package.json and say what the scripts do", [['read {"files":[{"file_path":"package.json"}]}']]],
    ["run `git log -3`", [['bash {"command":"git log -3"}']]],
    [
      "explore this repository",
      [
        [
          'task {"agent_type":"explore","task":"Give an overview of the project in this folder.","description":"Look around"}',
        ],
      ],
    ],
    [
      "write notes.txt with hello, then read notes.txt",
      [['write {"file_path":"notes.txt","content":"hello\\n"}'], ['read {"files":[{"file_path":"notes.txt"}]}']],
    ],
    [
      "List the TypeScript files and find TODO in src, then run `ls`",
      [['glob {"pattern":"**/*.{ts,tsx}"}', 'grep {"pattern":"TODO","path":"src"}'], ['bash {"command":"ls"}']],
    ],
    [
      "replace 'foo' with 'bar' in src/a.ts",
      [['edit {"file_path":"src/a.ts","edits":[{"old_string":"foo","new_string":"bar"}]}']],
    ],
    ["use notes__add with milk", [['notes__add {"text":"milk"}']]],
    ['call notes__add with {"text": "eggs", "times": 3}', [['notes__add {"text":"eggs","times":3}']]],
  ])("%s", async (text, expected) => {
    const { steps, text: answer } = await play(text);
    expect(steps).toEqual(expected);
    expect(answer).toMatch(/^\[DEMO/);
  });

  it("answers a general question by several calls in two steps, from what is there", async () => {
    const files = ["README.md", "package.json", "tsconfig.json"];
    const { steps, text } = await play("What is in this folder?", (name, given) => {
      if (name === "glob") return [...files, ...(given.pattern === "*" ? [] : ["src/a.ts", "src/b.ts"])].join("\n");
      const [{ file_path: path }] = given.files as [{ file_path: string }];
      return path === "package.json"
        ? JSON.stringify({ name: "thing", scripts: { test: "vitest run" } })
        : "# Thing\n\n## Install\n";
    });
    expect(steps.map((step) => step.length)).toEqual([2, 2]);
    expect(text).toContain("5 files in all");
    expect(text).toContain(".ts (2)");
    expect(text).toContain('the package "thing"');
    expect(text).toContain("`npm run test` runs the tests: it runs `vitest run`");
    expect(text).toContain('titled "Thing"');
  });

  it("quotes counts and names from the results, and says when there are none", async () => {
    const found = await play(
      "find TODO in src",
      () => "src/a.ts:3:// TODO one\nsrc/a.ts:9:// TODO two\nsrc/b.ts:1:TODO",
    );
    expect(found.text).toContain("3 lines in 2 files");
    expect(found.text).toContain("src/b.ts:1:TODO");
    expect((await play("find TODO in src", () => "No matches found")).text).toContain("Nothing matches `TODO` in src");
  });

  it("counts nothing that it was not shown", async () => {
    const { text } = await play("What is in this folder?", (name, given) => {
      if (name === "glob" && given.pattern === "*") return "README.md";
      if (name === "glob") return "a.ts\nb.ts\n[… 900 of 9000 characters left out here. Read any part with … …]\nz.ts";
      return `# Thing\n\n${Array.from({ length: 20 }, (_, at) => `## Part ${at}`).join("\n")}`;
    });
    expect(text).toContain("There are many files; I was shown 3 of them.");
    expect(text).toContain("Some of its sections:");
  });

  it("tells of errors as errors", async () => {
    const { text } = await play("read a.txt", () => new Error("file #1 (a.txt): no such file or directory"));
    expect(text).toContain("did not work: file #1 (a.txt): no such file or directory");
  });

  it("says which tool it would need", async () => {
    const { steps, text } = await play("run `ls`", undefined, [tool("read")]);
    expect(steps).toEqual([]);
    expect(text).toMatch(/^\[DEMO/);
    expect(text).toContain("the tool `bash`, which is not offered");
  });

  it("says what it can do, and how to get a real model, when nothing was asked of files", async () => {
    const { steps, text } = await play("hello");
    expect(steps).toEqual([]);
    for (const word of ["DEMO", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "rotunda init", "Ollama"])
      expect(text).toContain(word);
  });

  it("a sub-agent that has no sub-agents does the work itself", async () => {
    const { steps } = await play("explore this repository", () => "README.md", [tool("glob"), tool("read")]);
    expect(steps.flat().every((call) => !call.startsWith("task"))).toBe(true);
    expect(steps.length).toBeGreaterThan(0);
  });

  it("is a pure function of the request: taken up anywhere, it goes on the same way", async () => {
    const { entries } = await play("write a.txt with x, then read a.txt, then run `ls`");
    for (let at = 1; at <= entries.length; at++) {
      const asked = request([node(entries.slice(0, at))], { tools });
      const [one, other] = [await ask(model, asked), await ask(createDemoModel({ pace: 0 }), asked)];
      expect(other.text).toBe(one.text);
      expect(other.calls).toEqual(one.calls);
    }
  });

  it("answers from the results when it may call no more", async () => {
    const entries = [
      user("run `a` then run `b`"),
      called(1, "bash", '{"command":"a"}', "result of a", { finish: "tool_calls" }),
    ];
    const synthetic = user("answer now", { synthetic: "engine" });
    const { calls, text } = await ask(model, request([node([...entries, synthetic])], { tools, toolChoice: "none" }));
    expect(calls).toEqual([]);
    expect(text).toContain("result of a");
  });

  it("streams in small deltas and stops at a cancel", async () => {
    const slow = createDemoModel({ pace: 5 });
    const control = new AbortController();
    let count = 0;
    const reading = (async () => {
      for await (const event of slow.stream(request([node([user("hello")])], { tools }), control.signal)) {
        if (event.type === "text" && ++count === 10) control.abort();
      }
    })();
    await expect(reading).rejects.toMatchObject({ code: "cancelled" });
    expect(count).toBeLessThan(20);
  });

  it("no request holds it up", async () => {
    for (const text of [
      `write ${"a".repeat(100_000)}`,
      "a.".repeat(50_000),
      "find ".repeat(20_000),
      "`{'\"".repeat(20_000),
      "replace x with ".repeat(9_000),
    ]) {
      const cpu = process.cpuUsage();
      await play(text);
      expect(process.cpuUsage(cpu).user).toBeLessThan(1_000_000);
    }
  });
});
