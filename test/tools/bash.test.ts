/** bash with real processes, on every step of the sandbox (parity F7; fault table T3, T4, T6, T7). */
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createBashTool } from "../../src/tools/bash.ts";
import { detectSandbox } from "../../src/util/sandbox.ts";
import { carriers, eventually, uniqueSeconds } from "../util/processes.ts";
import { context } from "./context.ts";

let workspace: string;
beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), "rotunda-bash-")));
});
afterEach(() => rmSync(workspace, { recursive: true, force: true }));

const levels = await Promise.all(
  (["bwrap", "unshare", "none"] as const).map(async (level) => ({
    level,
    found: (await detectSandbox("auto", [level])).level,
  })),
);
const orphans = (seconds: string) =>
  `sleep ${seconds} & setsid sleep ${seconds} & (setsid sh -c 'sleep ${seconds} & sleep ${seconds}' &)`;

describe.each(levels)("F7 bash on step $level", ({ level, found }) => {
  const it = test.skipIf(found !== level);
  const itWithin = test.skipIf(found !== level || level === "none");
  const tool = createBashTool({ sandbox: () => detectSandbox("auto", [level]) });
  const run = (command: string, timeout?: number, more = {}) =>
    tool.run(timeout === undefined ? { command } : { command, timeout }, context(workspace, more));

  it("answers the output, the exit code, or that there was none", async () => {
    expect(await run("echo out; echo err >&2")).toEqual({ text: "out\nerr\n" });
    expect(await run("true")).toEqual({ text: "(Command executed successfully with no output)" });
    expect(await run("echo some; exit 3")).toEqual({ text: "some\nexit code 3", isError: true });
    expect(await run("exit 4")).toEqual({ text: "exit code 4", isError: true });
    expect(await run("no-such-program")).toMatchObject({
      isError: true,
      text: expect.stringContaining("exit code 127"),
    });
    expect((await run("pwd")).text).toBe(`${workspace}\n`);
    expect((await run("cat; read x; tty; echo end")).text).toContain("end");
  });

  it("T3 leaves no survivors at the end, at the timeout and at a cancel", async () => {
    const seconds = uniqueSeconds();
    await run(`${orphans(seconds)}; sleep 0.2`);
    expect(carriers(seconds)).toEqual([]);
    const timed = await run(`echo before; ${orphans(seconds)}; sleep ${seconds}`, 800);
    expect(timed).toEqual({
      text: "before\n[timed out after 800 ms; the command and all it started were ended]",
      isError: true,
    });
    expect(carriers(seconds)).toEqual([]);
    const controller = new AbortController();
    const pending = run(`${orphans(seconds)}; echo ready; sleep ${seconds}`, undefined, {
      signal: controller.signal,
      progress: () => controller.abort(),
    });
    expect(await pending).toMatchObject({ isError: true, text: expect.stringContaining("cancelled") });
    expect(carriers(seconds)).toEqual([]);
  });

  itWithin("leaves no survivors when its caller is killed with -9", async () => {
    const seconds = uniqueSeconds();
    const script = fileURLToPath(new URL("./bash-caller.ts", import.meta.url));
    const caller = spawn(process.execPath, [script, level, workspace, `${orphans(seconds)}; sleep ${seconds}`], {
      stdio: "ignore",
    });
    const gone = new Promise((resolve) => caller.once("exit", resolve));
    expect(await eventually(() => carriers(`sleep\0${seconds}`).length === 5, 20_000)).toBe(true);
    caller.kill("SIGKILL");
    await gone;
    expect(await eventually(() => carriers(seconds).length === 0, 5000)).toBe(true);
  });

  it("T4 a flood is cut, told and ended", async () => {
    const { text, isError } = await run("yes");
    expect(isError).toBe(true);
    expect(text).toContain("bytes left out");
    expect(text).toMatch(/ended after \d+ bytes of output/);
    expect(text.length).toBeLessThan(600_000);
  });

  it("T7 shows no secret of ours", async () => {
    process.env.ROTUNDA_BASH_SECRET = "PRIVATE-VALUE";
    try {
      const command = level === "none" ? "env" : "env; cat /proc/$PPID/environ /proc/1/environ";
      expect((await run(command)).text).not.toContain("PRIVATE-VALUE");
    } finally {
      delete process.env.ROTUNDA_BASH_SECRET;
    }
  });

  itWithin("says which paths are guarded where a command ran against one, and what a person can do", async () => {
    const refused = await run("git init");
    expect(refused.isError).toBe(true);
    expect(refused.text).toMatch(
      /\n\[sandbox: \.git is guarded: .*ask the person to do git init in a terminal of their own/,
    );
    const editors = await run(
      "mkdir -p .vscode .claude && echo {} > .claude/settings.json; echo {} > .vscode/tasks.json",
    );
    expect(editors.text).toMatch(/\[sandbox: \.vscode, \.claude are guarded:/);
    expect((await run(`cd / && echo x > '${workspace}/rotunda.yaml'; true`)).text).toContain(
      "[sandbox: rotunda.yaml is",
    );
    for (const other of ["cat rotunda.md", "mkdir x; mkdir x", "echo x > /etc/rotunda.yaml", "git status", "ls -a"]) {
      expect((await run(other)).text, other).not.toContain("[sandbox:");
    }
    expect(readdirSync(workspace)).toEqual(["x"]);
  });

  itWithin("obeys the isolation of the call and leaves nothing of its own", async () => {
    expect((await run("echo x > file", undefined, { isolation: { readOnly: true, network: false } })).isError).toBe(
      true,
    );
    expect((await run("echo x > file; echo y > .mcp.json")).isError).toBe(true);
    expect(readdirSync(workspace)).toEqual(["file"]);
  });
});

describe("bash", () => {
  const tool = createBashTool({ sandbox: () => detectSandbox("none") });
  const run = (input: Record<string, string | number>) => tool.run(input, context(workspace));

  test("checks its input", async () => {
    expect(await run({})).toEqual({ text: "command is required", isError: true });
    expect(await run({ command: " " })).toEqual({ text: "command cannot be empty", isError: true });
    expect(await run({ command: "ls", timeout: 600_001 })).toEqual({
      text: "timeout must be at most 600000 milliseconds",
      isError: true,
    });
    expect(await run({ command: "ls", timeout: 0 })).toMatchObject({ isError: true });
    expect(await run({ command: "a\0b" })).toMatchObject({ isError: true });
    expect(await run({ command: `echo ${"x".repeat(200_000)}` })).toMatchObject({
      isError: true,
      text: expect.stringContaining("longer than"),
    });
  });

  test("a sandbox that is required and missing is a result, not a run without walls", async () => {
    const strict = createBashTool({ sandbox: () => detectSandbox("required", []) });
    expect(await strict.run({ command: "touch made" }, context(workspace))).toMatchObject({
      isError: true,
      text: expect.stringContaining("No process sandbox"),
    });
    expect(readdirSync(workspace)).toEqual([]);
  });

  test("its subject is the simple commands", async () => {
    expect(await tool.subject?.({ command: "npm test && git push" }, workspace)).toEqual({
      commands: ["npm test", "git push"],
    });
    expect(await tool.subject?.({ command: "echo $(x)" }, workspace)).toEqual({ commands: null });
    expect(await tool.subject?.({}, workspace)).toEqual({ commands: null });
  });
});
