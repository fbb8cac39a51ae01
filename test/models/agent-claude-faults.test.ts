/** Claude Code as a model, with a stand-in for its command line: what goes wrong, how many run, where and with what. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { processesOf } from "../agents/processes.ts";
import { place } from "../app/support.ts";
import { carriers, eventually, uniqueSeconds } from "../util/processes.ts";
import { calls, claudeBench, program, turn } from "./agent-bench.ts";

describe("U34 failures", () => {
  test("C7 exit code and stderr are kept", async () => {
    const { app } = await claudeBench();
    const ended = await turn(app, "die 7 out of luck");
    expect(ended).toMatchObject({
      status: "failed",
      error: { code: "upstream_failed", message: "Claude Code failed with exit code 7: out of luck" },
    });
    const half = await turn(app, "speak first die 7 out of luck");
    expect(half).toMatchObject({ status: "incomplete", incompleteReason: "stream_cut" });
    expect(half.error?.message).toContain("exit code 7: out of luck");
    expect(app.engine.textOf(half)).toContain("half an");
  });

  test("C7 a program that is not there", async () => {
    const { app } = await claudeBench({ agent: { command: "/nowhere/claude" } });
    expect((await turn(app, "hi")).error).toEqual({
      code: "upstream_unreachable",
      message: "Failed to spawn Claude Code process: spawn /nowhere/claude ENOENT",
    });
  });

  test("C7 what is no answer of its protocol", async () => {
    const { app } = await claudeBench();
    const broken = await turn(app, "print broken");
    expect(broken.error?.code).toBe("upstream_protocol");
    expect(broken.error?.message).toMatch(/^Failed to parse Claude response: .*\nOutput: \{"type": "resu/);
    expect((await turn(app, "say nothing")).error?.message).toMatch(/^Failed to parse Claude response: .*\nOutput: /);
  });

  test("C7 a plain text is an answer, as older versions gave it", async () => {
    const here = place();
    const old = join(here.root, "old-claude");
    writeFileSync(old, "#!/bin/sh\nhead -c 10 > /dev/null\necho plain words\n", { mode: 0o755 });
    const { app } = await claudeBench({ here, agent: { command: old } });
    const ended = await turn(app, "hi");
    expect(ended.status).toBe("completed");
    expect(app.engine.textOf(ended)).toBe("plain words");
  });

  test("C7 a working directory that is not there, or cannot be entered", async () => {
    const { app, here } = await claudeBench();
    const gone = join(here.root, "gone");
    const ended = await turn(app, "hi", { workspace: gone });
    expect(ended.error).toEqual({ code: "usage", message: `Working directory does not exist: ${gone}` });
  });

  test("C7 B14 a timeout kills the process and all that it started", async () => {
    const { app, here } = await claudeBench({ agent: { timeout: 1 } });
    const length = uniqueSeconds();
    const ended = await turn(app, `hang sleep ${length}`);
    expect(ended.error).toEqual({
      code: "upstream_timeout",
      message: "Claude Code execution timed out after 1 seconds",
    });
    expect(carriers(length)).toEqual([]);
    expect(processesOf(here)).toEqual([]);
  });

  test("a flood of output ends it", async () => {
    const { app, here } = await claudeBench();
    const ended = await turn(app, "flood");
    expect(ended).toMatchObject({ error: { code: "output_limit" } });
    expect(processesOf(here)).toEqual([]);
  });

  test("B14 B16 cancel kills its whole process tree", async () => {
    const { app, here } = await claudeBench();
    const length = uniqueSeconds();
    const { id } = await app.engine.start({
      input: `hang sleep ${length}`,
      model: "claude-code",
      workspace: app.workspace,
      door: "test",
    });
    expect(await eventually(() => carriers(length).length > 0)).toBe(true);
    await app.engine.cancel(id, "enough");
    expect(await app.engine.get(id)).toMatchObject({ status: "cancelled" });
    expect(carriers(length)).toEqual([]);
    expect(processesOf(here)).toEqual([]);
  });

  test("the steps of an answer that was cancelled stay, with what became of its calls", async () => {
    const { app, here } = await claudeBench({ config: { permissions: { mode: "auto" } } });
    const length = uniqueSeconds();
    const { id } = await app.engine.start({
      input: `[run echo one] [run sleep ${length}]`,
      model: "claude-code",
      workspace: app.workspace,
      door: "test",
    });
    expect(await eventually(() => carriers(length).length > 0)).toBe(true);
    await app.engine.cancel(id, "enough");
    const ended = await app.engine.get(id);
    expect(calls(ended)).toMatchObject([
      { status: "completed", output: "one" },
      { status: "incomplete", error: expect.stringContaining("what it did until then is not known") },
    ]);
    expect(processesOf(here)).toEqual([]);
    const next = await turn(app, "next", { previousResponseId: id });
    expect(app.engine.textOf(next)).toContain("not known");
  });
});

describe("how many, where and with what", () => {
  test("B14 at most N at once, the rest wait in line", async () => {
    const { app, here } = await claudeBench({ agent: { maxConcurrent: 2 } });
    let most = 0;
    const timer = setInterval(() => {
      const running = processesOf(here).filter((pid) => readCommand(pid).includes("claude.ts"));
      most = Math.max(most, new Set(running.map(readCommand)).size);
    }, 20);
    const ended = await Promise.all(Array.from({ length: 6 }, (_, n) => turn(app, `number ${n} wait 300`)));
    clearInterval(timer);
    expect(ended.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => "completed"));
    expect(most).toBeLessThanOrEqual(2);
    expect(app.notices.some(({ text }) => text.includes("waiting in line"))).toBe(true);
  });

  test("one that waits in line is cancelled at once", async () => {
    const { app } = await claudeBench({ agent: { maxConcurrent: 1 } });
    const request = { model: "claude-code", workspace: app.workspace, door: "test" };
    const first = await app.engine.start({ ...request, input: "hang" });
    const second = await app.engine.start({ ...request, input: "two" });
    await app.engine.cancel(second.id, "enough");
    expect(await app.engine.get(second.id)).toMatchObject({ status: "cancelled" });
    await app.engine.cancel(first.id, "enough");
    expect(await turn(app, "three")).toMatchObject({ status: "completed" });
  });

  test("its environment is an allow-list and what its configuration says", async () => {
    const variables = {
      ANTHROPIC_API_KEY: "key-of-anthropic",
      CLAUDE_CONFIG_DIR: "/somewhere",
      OPENAI_API_KEY: "key-of-openai",
      CLAUDECODE: "1",
      NPM_TOKEN: "secret",
    };
    const { app, starts } = await claudeBench({ variables, agent: { env: { EXTRA: "yes" } } });
    await turn(app, "one");
    const env = starts()[0]?.env ?? {};
    expect(env).toMatchObject({ ANTHROPIC_API_KEY: "key-of-anthropic", CLAUDE_CONFIG_DIR: "/somewhere", EXTRA: "yes" });
    for (const name of ["OPENAI_API_KEY", "CLAUDECODE", "NPM_TOKEN", "ROTUNDA_HOME"])
      expect(env).not.toHaveProperty(name);
  });

  test("C6 it is found by CLAUDE_CLI_NAME, in ~/.claude/local, on the PATH", async () => {
    const here = place();
    const named = program(here, "claude", "named/other-claude");
    program(here, "claude", "home/.claude/local/claude");
    program(here, "claude", "path/claude");
    const ids = async (variables: NodeJS.ProcessEnv) => {
      const { createModelRegistry } = await import("../../src/models/registry.ts");
      const launch = async (command: {
        command: string;
        args: string[];
        env: Record<string, string>;
        cwd: string;
      }) => ({
        ...command,
        namespaced: false,
        release: () => undefined,
      });
      const environment = { HOME: join(here.root, "empty"), PATH: "/usr/bin:/bin", ...variables };
      const agents = { configs: [], launch };
      const registry = createModelRegistry({ configs: [], environment, probeLocal: false, agents });
      const found = (await registry.list()).filter(({ origin }) => origin === "agent");
      return found.map(({ id }) => id);
    };
    expect(await ids({})).toEqual([]);
    expect(await ids({ CLAUDE_CLI_NAME: named })).toEqual(["claude-code"]);
    expect(await ids({ HOME: join(here.root, "home") })).toEqual(["claude-code"]);
    expect(await ids({ PATH: join(here.root, "path") })).toEqual(["claude-code"]);
  });

  test("models lists it; a configured model of the same name comes first", async () => {
    const { app } = await claudeBench();
    const listed = (await app.models()).find(({ id }) => id === "claude-code");
    expect(listed).toMatchObject({ origin: "agent", baseUrl: null, default: false });
  });
});

function readCommand(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
