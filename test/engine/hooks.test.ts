/** Hooks: real commands that see, deny and rewrite. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { HookConfig } from "../../src/types/config.ts";
import { runHook } from "../../src/util/hook-process.ts";
import { callOf, engineWith, modelOf, say, temporaryFolder, toolOf } from "../support.ts";

async function runWith(hooks: Record<string, HookConfig[]>) {
  const workspace = temporaryFolder();
  const ran: object[] = [];
  const echo = toolOf("echo", async (input) => {
    ran.push(input);
    return { text: "out" };
  });
  const fixture = await engineWith({
    model: modelOf([callOf(["echo", { a: 1 }]), say("done")]),
    toolList: [echo],
    hooks,
    runHook,
  });
  const { id } = await fixture.engine.start({ door: "test", workspace, input: "go" });
  const node = await fixture.engine.wait(id);
  return { ...fixture, workspace, ran, node, output: (await fixture.engine.get(id)).output };
}

test("each point receives JSON, and output may be rewritten", async () => {
  const record = { command: "cat >> seen.jsonl" };
  const { workspace, node } = await runWith({
    onResponseStart: [record],
    beforeToolCall: [record],
    afterToolCall: [record],
    onResponseEnd: [record],
  });
  const seen = readFileSync(join(workspace, "seen.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as object);
  expect(seen).toMatchObject([
    { point: "onResponseStart", response_id: node.id, workspace },
    { point: "beforeToolCall", tool: "echo", arguments: { a: 1 } },
    { point: "afterToolCall", tool: "echo", output: "out" },
    { point: "onResponseEnd", status: "completed" },
  ]);
});

test("deny by exit code 2 or by an answer, with the reason for the model", async () => {
  const byCode = await runWith({ beforeToolCall: [{ command: "echo not today >&2; exit 2" }] });
  expect(byCode.ran).toEqual([]);
  expect(byCode.output[0]).toMatchObject({ status: "failed", output: expect.stringContaining("DENIED: not today") });
  const answer = JSON.stringify({ decision: "deny", reason: "policy 7" });
  const byAnswer = await runWith({ beforeToolCall: [{ command: `echo '${answer}'`, tools: ["ec*"] }] });
  expect(byAnswer.output[0]).toMatchObject({ output: expect.stringContaining("policy 7") });
  const other = await runWith({ beforeToolCall: [{ command: "exit 2", tools: ["bash"] }] });
  expect(other.ran).toEqual([{ a: 1 }]);
});

test("arguments and output are rewritten, one hook after the other", async () => {
  const { ran, output } = await runWith({
    beforeToolCall: [{ command: `echo '{"arguments":{"a":2}}'` }],
    afterToolCall: [{ command: `echo '{"output":"rewritten"}'` }],
  });
  expect(ran).toEqual([{ a: 2 }]);
  expect(output[0]).toMatchObject({ output: "rewritten" });
});

test("a hook that fails, hangs or babbles changes nothing but a warning", async () => {
  const { ran, notices, node } = await runWith({
    beforeToolCall: [
      { command: "exit 1" },
      { command: "sleep 60", timeout: 0.2 },
      { command: "head -c 3000000 /dev/zero | tr '\\0' x" },
      { command: "/no/such/program" },
    ],
  });
  expect(node.status).toBe("completed");
  expect(ran).toEqual([{ a: 1 }]);
  expect(notices.filter((notice) => notice.level === "warn").length).toBe(3);
});

test("where a required hook fails, the call is denied", async () => {
  const { ran, output } = await runWith({ beforeToolCall: [{ command: "exit 1", required: true }] });
  expect(ran).toEqual([]);
  expect(output[0]).toMatchObject({ status: "failed", output: expect.stringContaining("failed with exit code 1") });
});

test("a hook at the start may refuse the whole response", async () => {
  const { node, ran } = await runWith({ onResponseStart: [{ command: "echo closed >&2; exit 2" }] });
  expect(node).toMatchObject({ status: "failed", error: { code: "denied", message: "closed" } });
  expect(ran).toEqual([]);
});
