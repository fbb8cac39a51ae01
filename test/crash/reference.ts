/**
 * The reference turn: reads, greps, edits a file, runs the tests through bash, writes through a real MCP
 * server, delegates to an explore sub-agent, and answers.
 *
 * Invariant: the script is a function of the request alone, so a run that is resumed at any step meets the
 * same model.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { UpstreamRequest, UpstreamStep } from "../../src/testing/upstream.ts";
import type { JsonObject } from "../../src/types/json.ts";

interface Message {
  role: string;
  content: unknown;
  tool_calls?: unknown[];
}

export const ANSWER = "The sum was wrong; it is mended, the tests pass, and the report says so.";

/** What the model says next, told by the number of its own answers that it is shown. */
export function referenceScript({ body }: UpstreamRequest): UpstreamStep {
  const messages = (body as unknown as { messages: Message[] }).messages;
  const answers = messages.filter((message) => message.role === "assistant").length;
  const question = JSON.stringify(messages.find((message) => message.role === "user")?.content ?? "");
  return question.includes("Look for tests") ? child(answers) : parent(answers);
}

function parent(answers: number): UpstreamStep {
  switch (answers) {
    case 0:
      return {
        reasoning: ["I should ", "look first"],
        text: ["Looking", " around."],
        calls: [
          call("read", { files: [{ file_path: "sum.js" }, { file_path: "package.json" }] }),
          call("grep", { pattern: "TODO", path: "." }),
        ],
      };
    case 1:
      return { calls: [call("edit", { file_path: "sum.js", edits: [{ old_string: "a - b", new_string: "a + b" }] })] };
    case 2:
      return { calls: [call("bash", { command: "node --test && echo ran >> effects.log" })] };
    case 3:
      return { calls: [call("counter__append", { line: "report" })] };
    case 4:
      return { calls: [call("task", { agent_type: "explore", task: "Look for tests", description: "tests" })] };
    default:
      return { text: [ANSWER.slice(0, 20), ANSWER.slice(20)] };
  }
}

function child(answers: number): UpstreamStep {
  if (answers === 0) return { calls: [call("glob", { pattern: "**/*.test.js" })] };
  return { text: "There is one test file." };
}

function call(name: string, input: JsonObject): { name: string; arguments: JsonObject } {
  return { name, arguments: input };
}

/** A small real repository with one wrong line and one test that shows it. */
export function makeRepository(folder: string): void {
  mkdirSync(join(folder, "test"), { recursive: true });
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({ name: "sum", type: "module", scripts: { test: "node --test" } }),
  );
  writeFileSync(join(folder, "sum.js"), "// TODO mend this\nexport const sum = (a, b) => a - b;\n");
  writeFileSync(
    join(folder, "test", "sum.test.js"),
    'import test from "node:test";\nimport assert from "node:assert";\nimport { sum } from "../sum.js";\ntest("sums", () => assert.equal(sum(2, 3), 5));\n',
  );
}

/** How often each effect happened, counted where no process of ours keeps the count. */
export function countEffects(workspace: string): { bash: number; mcp: number; edited: boolean } {
  const lines = (name: string) => {
    try {
      return readFileSync(join(workspace, name), "utf8").split("\n").filter(Boolean).length;
    } catch {
      return 0;
    }
  };
  return {
    bash: lines("effects.log"),
    mcp: lines("mcp-effects.log"),
    edited: readFileSync(join(workspace, "sum.js"), "utf8").includes("a + b"),
  };
}
