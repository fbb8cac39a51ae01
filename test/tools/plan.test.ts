/** TodoWrite, task, read_output and the list of tools (parity F11, F12). */
import { describe, expect, test } from "vitest";
import { createBuiltinTools } from "../../src/tools/builtin.ts";
import { readOutputTool } from "../../src/tools/read-output.ts";
import { createTaskTool } from "../../src/tools/task.ts";
import { todoTool } from "../../src/tools/todo.ts";
import type { JsonObject } from "../../src/types/json.ts";
import type { Delegation, DelegationResult } from "../../src/types/tool.ts";
import { detectSandbox } from "../../src/util/sandbox.ts";
import { context } from "./context.ts";

describe("F11 TodoWrite", () => {
  const todo = (...todos: unknown[]) => todoTool.run({ todos } as JsonObject, context("/"));
  const entry = (content: string, status: string, activeForm = `${content}ing`) => ({ content, status, activeForm });

  test("prints the list", async () => {
    const { text, display } = await todo(
      entry("Read", "completed"),
      entry("Parse", "in_progress"),
      entry("Write", "pending"),
    );
    expect(text).toBe(`📋 Todo List: 1/3 completed\n${"─".repeat(50)}\n1. ✅ Read\n2. 🔧 Parseing\n3. ⏳ Write`);
    expect(display).toEqual({ kind: "todo", text });
  });

  test("an empty list clears it", async () => {
    expect((await todo()).text).toBe("✨ Todo list cleared - all tasks complete!");
  });

  test.each<[unknown[], string]>([
    [[entry("", "pending")], "todo #1: content cannot be empty"],
    [[entry("a", "pending"), entry("b", "pending", " ")], "todo #2: activeForm cannot be empty"],
    [[entry("a", "in_progress"), entry("b", "in_progress")], "only ONE task can be 'in_progress' at a time, found 2"],
    [[entry("a", "done")], "todo #1: status must be one of pending, in_progress, completed"],
    [[3], "todo #1 must be an object"],
  ])("%j", async (todos, text) => {
    expect(await todo(...todos)).toEqual({ text, isError: true });
  });
});

describe("F12 T14 task", () => {
  const tool = createTaskTool([
    { name: "explore", description: "looks around" },
    { name: "plan", description: "makes plans" },
  ]);
  const input = { agent_type: "explore", task: "find it", description: "Finding it" };
  const answer = (result: Partial<DelegationResult>) => ({
    delegate: async () => ({ responseId: "r", status: "completed" as const, text: "", error: null, ...result }),
  });

  test("starts the sub-agent and answers its report", async () => {
    const requests: Delegation[] = [];
    const told: string[] = [];
    const result = await tool.run(
      { ...input, max_turns: 3 },
      context("/", {
        progress: (text) => told.push(text),
        delegate: async (request) => {
          requests.push(request);
          return { responseId: "r", status: "completed", text: "RESULT", error: null };
        },
      }),
    );
    expect(result).toEqual({ text: "[explore agent: Finding it]\n\nRESULT" });
    expect(requests).toEqual([{ profile: "explore", task: "find it", description: "Finding it", maxTurns: 3 }]);
    expect(told).toEqual(["Launching explore sub-agent: Finding it", "Sub-agent completed: Finding it"]);
    expect(tool.description).toContain("- plan: makes plans");
  });

  test("partial work is returned, failure is an error, an empty report is said", async () => {
    expect(
      await tool.run(input, context("/", answer({ status: "incomplete", text: "half", error: "max_turns" }))),
    ).toEqual({
      text: "[explore agent: Finding it]\n\nhalf\n\n[The sub-agent ended incomplete: max_turns]",
    });
    expect(await tool.run(input, context("/", answer({ status: "failed", error: "no model" })))).toMatchObject({
      isError: true,
      text: expect.stringContaining("no model"),
    });
    expect((await tool.run(input, context("/", answer({})))).text).toContain("without a report");
    expect((await tool.run(input, context("/", answer({ status: "waiting" })))).isError).toBeUndefined();
  });

  test("depth 3 is the end, and bad input is told", async () => {
    const deep = await tool.run(input, context("/", { depth: 3 }));
    expect(deep).toEqual({ text: "maximum nesting depth (3) exceeded", isError: true });
    expect((await tool.run({ ...input, agent_type: "x" }, context("/"))).text).toContain("unknown agent type: x");
    expect((await tool.run({ ...input, task: "" }, context("/"))).text).toBe("task cannot be empty");
    expect((await tool.run({ ...input, max_turns: 0 }, context("/"))).isError).toBe(true);
  });

  test("what delegate throws passes through", async () => {
    const thrown = new Error("waits for a person");
    await expect(tool.run(input, context("/", { delegate: () => Promise.reject(thrown) }))).rejects.toBe(thrown);
  });
});

describe("read_output", () => {
  const output = Array.from({ length: 5000 }, (_, index) => `Line ${index + 1}`).join("\n");
  const read = (input: JsonObject) =>
    readOutputTool.run(
      input,
      context("/", { readOutput: async (reference) => (reference === "abc" ? output : undefined) }),
    );

  test("reads ranges and lines that contain a text", async () => {
    expect((await read({ call: "abc", from: 2, to: 3 })).text).toBe("Lines 2-3 of 5000:\nLine 2\nLine 3");
    expect((await read({ call: "abc", pattern: "LINE 499", from: 4000, to: 4991 })).text).toBe(
      "2 lines of 5000:\n4990:Line 4990\n4991:Line 4991",
    );
    expect((await read({ call: "abc", pattern: "(a+)+$" })).text).toContain("No matches found");
    const all = (await read({ call: "abc" })).text;
    expect(all).toContain("Lines 1-2000 of 5000");
    expect(all).toContain("more than 2000 lines");
  });

  test.each<[JsonObject, string]>([
    [{ call: "none" }, 'no output of a call "none" in this conversation'],
    [{ call: "abc", from: 3, to: 2 }, "invalid line range: from (3) > to (2)"],
    [{ call: "abc", from: 5001 }, "no lines in specified range (output has 5000 lines)"],
    [{}, "call is required"],
  ])("%j", async (input, text) => {
    expect(await read(input)).toEqual({ text, isError: true });
  });
});

describe("createBuiltinTools", () => {
  const tools = createBuiltinTools({
    sandbox: () => detectSandbox("none"),
    profiles: [{ name: "general", description: "all" }],
  });

  test("B13 stable order, names that models accept, access and advice", () => {
    expect(tools.map(({ name, access }) => `${name} ${access}`)).toEqual([
      "read read",
      "write write",
      "edit write",
      "bash run",
      "glob read",
      "grep read",
      "TodoWrite read",
      "task read",
      "read_output read",
    ]);
    for (const tool of tools) {
      expect(tool.name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      expect(tool.server).toBe("rotunda");
      expect(tool.advice?.length).toBeGreaterThan(20);
      expect(tool.input.type).toBe("object");
      expect(JSON.parse(JSON.stringify(tool.input))).toEqual(tool.input);
    }
  });

  test("no input makes a tool throw", async () => {
    const hostile = [
      {},
      { files: [null] },
      { file_path: 3 },
      { edits: "x", file_path: "a" },
      { command: {} },
      { pattern: [] },
      { todos: {} },
      { call: 1 },
      { path: {}, pattern: "x" },
    ];
    for (const tool of tools) {
      for (const input of hostile) {
        const result = await tool.run(input as JsonObject, context("/nonexistent/workspace"));
        expect(result.isError, `${tool.name} ${JSON.stringify(input)}`).toBe(true);
        expect(result.text).not.toBe("");
      }
    }
  });
});
