/** Processes and all that they start (fault table T3, T4, T6). */
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  isProcessAlive,
  KeptOutput,
  processIdentity,
  type RunRequest,
  runProcess,
  startProcess,
} from "../../src/util/process-tree.ts";
import { childEnvironment } from "../../src/util/sandbox.ts";
import { carriers, uniqueSeconds } from "./processes.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rotunda-process-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function run(command: string, more: Partial<RunRequest> = {}) {
  return runProcess({
    command: "bash",
    args: ["--norc", "-c", command],
    cwd: folder,
    env: childEnvironment(),
    ...more,
  });
}

describe("runProcess", () => {
  test.skipIf(process.platform !== "linux")(
    "T7 a command is given none of the descriptors that we were given",
    async () => {
      const module = new URL("../../src/util/process-tree.ts", import.meta.url).href;
      const script = `const { runProcess } = await import(${JSON.stringify(module)});
      const env = { PATH: process.env.PATH };
      const { output } = await runProcess({ command: "bash", args: ["-c", "ls /proc/self/fd/200/ /proc/self/fd/17/"], cwd: "/", env });
      console.log(output);`;
      const { output } = await run(`exec 17</ 200</; exec "$NODE" --input-type=module -e "$SCRIPT"`, {
        env: childEnvironment({ NODE: process.execPath, SCRIPT: script }),
      });
      expect(output).toContain("fd/200/");
      expect(output).not.toContain("etc\n");
    },
  );

  test("both outputs in the order of their arrival, also by name", async () => {
    const outcome = await run("for i in 1 2 3; do echo out$i; echo err$i >&2; done; echo named > /dev/stderr; exit 3");
    expect(outcome).toMatchObject({ ended: "exited", exitCode: 3, clipped: false });
    expect(outcome.output).toBe("out1\nerr1\nout2\nerr2\nout3\nerr3\nnamed\n");
  });

  test("nothing to read on standard input, or what was given", async () => {
    expect((await run("cat; read x; echo $?")).output).toBe("1\n");
    expect((await run("cat", { input: "héllo" })).output).toBe("héllo");
    expect((await run("exec 0<&-; exit 0", { input: "x".repeat(1 << 20) })).exitCode).toBe(0);
  });

  test("T6 no controlling terminal", async () => {
    expect((await run(": < /dev/tty")).exitCode).not.toBe(0);
  });

  test("a program that does not exist, and a folder that does not", async () => {
    const missing = await runProcess({ command: "/nonexistent/program", args: [], cwd: folder, env: {} });
    expect(missing).toMatchObject({ ended: "not_started", exitCode: null });
    expect(await run("true", { cwd: "/nonexistent" })).toMatchObject({ ended: "not_started" });
  });

  test.each([
    ["exit", "sleep S & setsid sleep S & (setsid sh -c 'sleep S & sleep S' &); sleep 0.2", {}],
    ["timeout", "sleep S & setsid sleep S & (setsid sh -c 'sleep S & sleep S' &); sleep S", { timeout: 500 }],
  ])("leaves nothing behind after %s", async (_, command, more) => {
    const seconds = uniqueSeconds();
    const outcome = await run(command.replaceAll("S", seconds), more);
    expect(outcome.ended).toBe(_ === "exit" ? "exited" : "timeout");
    expect(carriers(seconds)).toEqual([]);
  });

  test("leaves nothing behind after an abort, and an abort before the start starts nothing", async () => {
    const seconds = uniqueSeconds();
    const controller = new AbortController();
    const pending = run(`sleep ${seconds} & setsid sleep ${seconds} & echo ready; sleep ${seconds}`, {
      signal: controller.signal,
      onOutput: () => {
        controller.abort();
        return true;
      },
    });
    expect(await pending).toMatchObject({ ended: "aborted", output: "ready\n" });
    expect(carriers(seconds)).toEqual([]);
    expect(await run("touch started", { signal: controller.signal })).toMatchObject({ ended: "aborted" });
    expect(readdirSync(folder)).toEqual([]);
  });

  test("a flood is drained in flat memory, cut in the middle and ended at the limit", async () => {
    const before = process.memoryUsage().arrayBuffers;
    const outcome = await run("echo first; yes 0123456789", { limit: 200 * 1024 * 1024, keep: 64 * 1024 });
    expect(outcome.ended).toBe("output_limit");
    expect(outcome.produced).toBeGreaterThan(200 * 1024 * 1024);
    expect(outcome.output.startsWith("first\n0123")).toBe(true);
    expect(outcome.output).toContain("bytes left out");
    expect(outcome.output.length).toBeLessThan(70 * 1024);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * 1024 * 1024);
  });

  test("a flood does not hold up the event loop", async () => {
    let longest = 0;
    let last = performance.now();
    const timer = setInterval(() => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }, 5);
    await run("yes", { limit: 100 * 1024 * 1024 });
    clearInterval(timer);
    expect(longest).toBeLessThan(1000);
  });

  test("no handle is left", async () => {
    const open = () => readdirSync("/proc/self/fd").length;
    await run("echo x");
    const before = open();
    for (let round = 0; round < 20; round++) await run("echo x; sleep 100 &");
    expect(open()).toBeLessThanOrEqual(before + 1);
  });
});

describe("startProcess", () => {
  test("pipes pass through, and kill resolves when all are dead", async () => {
    const seconds = uniqueSeconds();
    const running = startProcess({
      command: "sh",
      args: ["-c", `setsid sleep ${seconds} & cat; sleep ${seconds}`],
      cwd: folder,
      env: childEnvironment(),
      stdio: ["pipe", "pipe", "ignore"],
    });
    const { stdin, stdout } = running.child;
    stdin?.write("ping\n");
    const answer = await new Promise((resolve) => stdout?.once("data", resolve));
    expect(String(answer)).toBe("ping\n");
    expect(await running.kill()).toEqual({ exitCode: null, signalName: "SIGKILL" });
    expect(carriers(seconds)).toEqual([]);
    expect(await running.kill()).toEqual(await running.ended);
  });
});

describe("KeptOutput", () => {
  test("cuts at whole characters", () => {
    for (let keep = 20; keep < 40; keep++) {
      const kept = new KeptOutput(keep);
      for (const piece of ["aé€😀".repeat(20), "€😀éz".repeat(20)])
        for (const byte of Buffer.from(piece)) kept.add(Buffer.from([byte]));
      expect(kept.text()).not.toContain("\ufffd");
      expect(kept.text()).toContain("left out");
    }
  });

  test("keeps everything that fits", () => {
    const kept = new KeptOutput(10);
    kept.add(Buffer.from("12345"));
    kept.add(Buffer.from("67890"));
    expect(kept).toMatchObject({ clipped: false, produced: 10 });
    expect(kept.text()).toBe("1234567890");
  });
});

describe("processIdentity", () => {
  test("is stable while a process lives and gone after it", async () => {
    const child = spawn("sleep", ["1000"], { stdio: "ignore" });
    const pid = child.pid ?? 0;
    const identity = processIdentity(pid) ?? "";
    expect(identity).not.toBe("");
    expect(processIdentity(pid)).toBe(identity);
    expect(isProcessAlive(pid, identity)).toBe(true);
    expect(isProcessAlive(pid, `${identity}0`)).toBe(false);
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
    expect(processIdentity(pid)).toBeUndefined();
    expect(processIdentity(0)).toBeUndefined();
    expect(processIdentity(-1)).toBeUndefined();
  });

  test("survives a process name with spaces and parentheses", () => {
    expect(readFileSync("/proc/self/stat", "latin1")).toContain(")");
    expect(processIdentity(process.pid)).toMatch(/^[0-9a-f-]{36}:\d+$/);
  });
});
