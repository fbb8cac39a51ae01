/** Processes in the sandbox: how they end, with whom, and as whom (fault table T3). */
import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { runProcess, startProcess } from "../../src/util/process-tree.ts";
import { childEnvironment, detectSandbox, type Sandbox, type SandboxRequest } from "../../src/util/sandbox.ts";
import { carriers, eventually, uniqueSeconds } from "./processes.ts";

const steps = await Promise.all(
  (["bwrap", "unshare"] as const).map(async (level) => ({ level, sandbox: await detectSandbox("auto", [level]) })),
);
const root = process.getuid?.() === 0;

let workspace: string;
beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), "rotunda-sandbox-")));
});
afterEach(() => {
  rmSync(workspace, { recursive: true, force: true });
});

async function inside(sandbox: Sandbox, command: string, more: Partial<SandboxRequest> = {}) {
  // What is tried here must never be tried without walls.
  expect(sandbox.level).not.toBe("none");
  const request = {
    command: "bash",
    args: ["--norc", "-c", command],
    workspace,
    readOnly: false,
    network: false,
    env: childEnvironment(),
  };
  const wrapped = sandbox.wrap({ ...request, ...more });
  try {
    return await runProcess({ ...wrapped, timeout: 20_000 });
  } finally {
    wrapped.release();
  }
}

describe.each(steps)("step $level", ({ level, sandbox }) => {
  const it = test.skipIf(sandbox.level !== level);

  it("exit codes and signals of the command are told", async () => {
    expect((await inside(sandbox, "exit 7")).exitCode).toBe(7);
    expect((await inside(sandbox, "kill -9 $$")).exitCode).toBe(137);
    expect((await inside(sandbox, "x", { command: "/nonexistent" })).exitCode).toBe(127);
  });

  it("0 survivors: at the end, at a timeout, at an abort, and when the outer end is shot", async () => {
    const seconds = uniqueSeconds();
    const command = `sleep ${seconds} & setsid sleep ${seconds} & (setsid sh -c 'env -i sleep ${seconds} & sleep ${seconds}' &); sleep 0.3`;
    await inside(sandbox, command);
    expect(carriers(seconds)).toEqual([]);
    const request = {
      command: "bash",
      args: ["-c", `${command}; echo ready; sleep ${seconds}`],
      workspace,
      readOnly: false,
      network: false,
      env: childEnvironment(),
    };
    const timed = sandbox.wrap(request);
    expect((await runProcess({ ...timed, timeout: 1500 })).ended).toBe("timeout");
    expect(carriers(seconds)).toEqual([]);
    timed.release();
    const controller = new AbortController();
    const aborted = sandbox.wrap(request);
    const outcome = await runProcess({
      ...aborted,
      signal: controller.signal,
      onOutput: () => {
        controller.abort();
        return true;
      },
    });
    expect(outcome.ended).toBe("aborted");
    expect(carriers(seconds)).toEqual([]);
    aborted.release();
    const shot = sandbox.wrap(request);
    const running = startProcess(shot);
    await new Promise((resolve) => running.child.stdout?.once("data", resolve));
    running.child.kill("SIGKILL");
    await running.ended;
    expect(await eventually(() => carriers(seconds).length === 0, 2000)).toBe(true);
    shot.release();
  });

  it("0 survivors when we are killed ourselves", async () => {
    const seconds = uniqueSeconds();
    const request = {
      command: "bash",
      args: [
        "-c",
        `sleep ${seconds} & setsid sleep ${seconds} & (setsid sh -c 'sleep ${seconds} & sleep ${seconds}' &); sleep ${seconds}`,
      ],
      workspace,
      readOnly: false,
      network: false,
      env: childEnvironment(),
    };
    const script = `const { detectSandbox } = await import(${JSON.stringify(source("sandbox.ts"))}); const { runProcess } = await import(${JSON.stringify(source("process-tree.ts"))}); const s = await detectSandbox("auto", [${JSON.stringify(level)}]); await runProcess(s.wrap(${JSON.stringify(request)}));`;
    const caller = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "ignore" });
    const gone = new Promise((resolve) => caller.once("exit", resolve));
    expect(await eventually(() => carriers(`sleep\0${seconds}`).length === 5, 20_000)).toBe(true);
    caller.kill("SIGKILL");
    await gone;
    expect(await eventually(() => carriers(seconds).length === 0, 5000)).toBe(true);
  });

  test.skipIf(sandbox.level !== level || !root)(
    "the same walls for an ordinary user, and for root in another's workspace",
    async () => {
      chownSync(workspace, 65534, 65534);
      chmodSync(workspace, 0o755);
      const request = {
        command: "sh",
        args: ["-c", "id -u; echo x > made; ( : > /etc/x ); ( : > .mcp.json ); grep CapEff /proc/self/status"],
        workspace,
        readOnly: false,
        network: false,
        env: { PATH: process.env.PATH ?? "" },
      };
      const script = `const { detectSandbox } = await import(${JSON.stringify(source("sandbox.ts"))}); const { runProcess } = await import(${JSON.stringify(source("process-tree.ts"))}); const s = await detectSandbox("auto", [${JSON.stringify(level)}]); const w = s.wrap(${JSON.stringify(request)}); process.stdout.write(s.level + "\\n" + (await runProcess(w)).output); w.release();`;
      const args = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        process.execPath,
        "--input-type=module",
        "-e",
        script,
      ];
      const { stdout, stderr } = spawnSync("setpriv", args, {
        cwd: "/",
        encoding: "utf8",
        env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent" },
      });
      // A checkout in a folder of root cannot be read by anybody else.
      if (!/EACCES|MODULE_NOT_FOUND|Permission denied$/m.test(stderr)) {
        expect(stdout, stderr).toContain(`${level}\n65534\n`);
        expect(stdout).toContain("CapEff:\t0000000000000000");
        expect(readdirSync(workspace)).toEqual(["made"]);
        expect(statSync(join(workspace, "made")).uid).toBe(65534);
      }
      if (level === "bwrap") {
        const { output } = await inside(sandbox, "echo y >> made2; ( : > /etc/x ); cat ~nobody/.ssh/id; echo end");
        expect(output).toContain("end");
        expect(readFileSync(join(workspace, "made2"), "utf8")).toBe("y\n");
      }
      expect(existsSync("/etc/x")).toBe(false);
    },
  );
});

function source(name: string): string {
  return fileURLToPath(new URL(`../../src/util/${name}`, import.meta.url));
}
