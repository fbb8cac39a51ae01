/** The sandbox, each step of its ladder by really running things in it (security model 6, fault table T3, T7). */
import { spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { RotundaError } from "../../src/types/error.ts";
import { runProcess, startProcess } from "../../src/util/process-tree.ts";
import { childEnvironment, detectSandbox, type Sandbox, type SandboxRequest } from "../../src/util/sandbox.ts";
import { eventually } from "./processes.ts";

const steps = await Promise.all(
  (["bwrap", "unshare"] as const).map(async (level) => ({ level, sandbox: await detectSandbox("auto", [level]) })),
);

let workspace: string;
beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), "rotunda-sandbox-")));
});
afterEach(() => {
  rmSync(workspace, { recursive: true, force: true });
});

const sockets: string[] = [];
afterAll(() => {
  for (const folder of sockets) rmSync(folder, { recursive: true, force: true });
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
    // This checkout's Node may lie below `/tmp`, which the sandbox empties.
    readable: [dirname(process.execPath)],
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

  it("writes the workspace and its own /tmp, and nothing else", async () => {
    const outside = mkdtempSync(join(tmpdir(), "rotunda-outside-"));
    const { output, exitCode } = await inside(
      sandbox,
      `echo x > made; pwd; echo y > /tmp/private; cat /tmp/private; for f in /etc/x /usr/x /x ~/x '${outside}/x' /var/tmp/x /run/x /sys/x; do [ -d "$(dirname "$f")" ] && : > "$f" && echo WROTE "$f"; done 2>/dev/null; echo $TMPDIR`,
    );
    expect(exitCode).toBe(0);
    expect(output).toBe(`${workspace}\ny\n/tmp\n`);
    expect(readFileSync(join(workspace, "made"), "utf8")).toBe("x\n");
    expect(statSync(join(workspace, "made")).uid).toBe(process.getuid?.());
    expect(readdirSync(outside)).toEqual([]);
    expect(existsSync("/tmp/private")).toBe(false);
    rmSync(outside, { recursive: true });
  });

  it("read-only means the workspace too", async () => {
    const { output } = await inside(sandbox, "echo x > made || echo refused; echo y > /tmp/y && echo fine", {
      readOnly: true,
    });
    expect(output).toMatch(/refused\n.*fine/s);
    expect(readdirSync(workspace)).toEqual([]);
  });

  it("keeps the user's identity, drops every right, sees no other process and no switch of the system", async () => {
    const controls =
      "sys/kernel/core_pattern sys/kernel/modprobe sys/vm/drop_caches sysrq-trigger irq/default_smp_affinity";
    const { output } = await inside(
      sandbox,
      `id -u; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status; ls -d /proc/[0-9]* | wc -l; for f in ${controls}; do [ -w /proc/$f ] && echo WRITABLE $f; done; ls /dev | grep -E '^(vda|sda|mem|kmsg|nvme)' | while read d; do [ -r /dev/$d ] && echo READABLE $d; done; true`,
    );
    const lines = output
      .trim()
      .split("\n")
      .map((line) => line.replace(/\s+/g, " "));
    expect(lines.slice(0, 3)).toEqual([String(process.getuid?.()), "CapEff: 0000000000000000", "NoNewPrivs: 1"]);
    expect(Number(lines[3])).toBeLessThan(10);
    expect(lines.slice(4)).toEqual([]);
  });

  it("sees no other process and no switch of the system where the workspace is all there is, and has its devices", async () => {
    const command = `ls /proc | grep -c '^[0-9]'; test -e /proc/${process.pid}/cmdline && echo seen; cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness && echo set; echo x > /dev/null && echo null`;
    const { output } = await inside(sandbox, command, { workspace: "/", readOnly: true });
    expect(Number.parseInt(output, 10)).toBeLessThan(8);
    expect(output).not.toMatch(/^(seen|set)$/m);
    expect(output).toMatch(/^null$/m);
  });

  it("cannot be undone from within", async () => {
    const { output } = await inside(
      sandbox,
      "mount -o remount,bind,rw / && echo UNDONE; umount /tmp && echo UNDONE; umount .env && echo UNDONE; unshare -Urm sh -c 'mount -o remount,bind,rw / && echo UNDONE; umount -l /run && echo UNDONE; umount .env && echo UNDONE'; echo x > /etc/x && echo UNDONE; true",
    );
    expect(output).not.toContain("UNDONE\n");
  });

  it("no network unless allowed, but a loopback of its own", async () => {
    const server = createServer((socket) => socket.end("reached\n"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    const port = typeof address === "object" && address ? address.port : 0;
    const connect = `exec 3<>/dev/tcp/127.0.0.1/${port} && cat <&3; exit 0`;
    expect((await inside(sandbox, connect)).output).not.toContain("reached");
    expect((await inside(sandbox, connect, { network: true })).output).toContain("reached");
    await new Promise((resolve) => server.close(resolve));
    const own = `node -e 'const s = require("net").createServer((c) => c.end("own")).listen(0, "127.0.0.1", () => require("net").connect(s.address().port, "127.0.0.1").on("data", (d) => { console.log(String(d)); process.exit() }).on("error", (e) => { console.log(e.code); process.exit() }))'`;
    const up = level === "bwrap" || existsSync("/usr/sbin/ip") || existsSync("/usr/bin/ip") || existsSync("/sbin/ip");
    if (up) expect((await inside(sandbox, own.replace("node", `'${process.execPath}'`))).output).toBe("own\n");
  });

  it("hides secrets, sockets and what the caller names", async () => {
    const home = mkdtempSync(join(workspace, "home-"));
    mkdirSync(join(home, ".ssh"));
    writeFileSync(join(home, ".ssh", "id"), "PRIVATE");
    writeFileSync(join(home, ".netrc"), "PRIVATE");
    writeFileSync(join(home, ".npmrc"), "//host/:_authToken=PRIVATE");
    mkdirSync(join(workspace, "state"));
    writeFileSync(join(workspace, "state", "token"), "PRIVATE");
    const before = process.env.HOME;
    process.env.HOME = home;
    try {
      const { output } = await inside(
        sandbox,
        `cat ~/.ssh/id ~/.netrc ~/.npmrc state/token; ls -A ~/.ssh state; head -c1 /etc/shadow; ls -A /run`,
        {
          hidden: [join(workspace, "state")],
          env: childEnvironment(),
        },
      );
      expect(output).not.toContain("PRIVATE");
      expect(output).not.toMatch(/^root/m);
    } finally {
      process.env.HOME = before;
    }
  });

  it("a socket that somebody listens at cannot be reached", async () => {
    // Outside /tmp, which is private anyway. The listener is shot, so that the file stays until the end.
    const folder = mkdtempSync("/var/tmp/rotunda-socket-");
    sockets.push(folder);
    chmodSync(folder, 0o755);
    const path = join(folder, "docker.sock");
    const listen =
      'require("net").createServer((s) => s.end("reached")).listen(process.argv[1], () => console.log("up"))';
    const server = spawn(process.execPath, ["-e", listen, path], { stdio: ["ignore", "pipe", "ignore"] });
    await new Promise((resolve) => server.stdout?.once("data", resolve));
    expect(await eventually(() => Date.now() - statSync(path).ctimeMs > 2500)).toBe(true);
    const connect = `'${process.execPath}' -e 'require("net").connect(process.argv[1]).on("data", (d) => console.log(String(d))).on("error", (e) => console.log(e.code))' '${path}'`;
    try {
      expect((await runProcess({ command: "sh", args: ["-c", connect], cwd: "/", env: {} })).output).toBe("reached\n");
      expect((await inside(sandbox, connect)).output).toMatch(/^E[A-Z]+\n$/);
    } finally {
      server.kill("SIGKILL");
    }
  });

  it("nothing of our environment can be read, not even through /proc", async () => {
    process.env.ROTUNDA_TEST_API_KEY = "PRIVATE-VALUE";
    try {
      const { output } = await inside(sandbox, "env; cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/$PPID/environ");
      expect(output).toContain("PATH=");
      expect(output).not.toContain("PRIVATE-VALUE");
    } finally {
      delete process.env.ROTUNDA_TEST_API_KEY;
    }
  });

  it("readable and writable folders of the caller, standard streams untouched", async () => {
    const shared = realpathSync(mkdtempSync(join(tmpdir(), "rotunda-shared-")));
    const cache = realpathSync(mkdtempSync(join(tmpdir(), "rotunda-cache-")));
    writeFileSync(join(shared, "file"), "seen");
    const wrapped = sandbox.wrap({
      command: "sh",
      args: ["-c", `cat '${shared}/file' >&2; echo x > '${shared}/y' || echo kept; echo z > '${cache}/z'; cat`],
      workspace,
      readOnly: false,
      network: true,
      env: childEnvironment(),
      readable: [shared],
      writable: [cache, "/nonexistent/x"],
      guardAbsent: false,
    });
    expect(readdirSync(workspace)).toEqual([]);
    const running = startProcess({ ...wrapped, stdio: ["pipe", "pipe", "pipe"] });
    const { stdin, stdout, stderr } = running.child;
    const texts = ["", ""];
    stdout?.on("data", (data) => (texts[0] += String(data)));
    stderr?.on("data", (data) => (texts[1] += String(data)));
    stdin?.end("line\n");
    expect(await running.ended).toMatchObject({ exitCode: 0 });
    expect(texts[0]).toBe("kept\nline\n");
    expect(texts[1]).toContain("seen");
    expect(readdirSync(cache)).toEqual(["z"]);
    rmSync(shared, { recursive: true });
    rmSync(cache, { recursive: true });
  });
});

describe("without a wall", () => {
  test("step none changes nothing about the command", async () => {
    const sandbox = await detectSandbox("none");
    const request = { command: "x", args: ["a"], workspace, readOnly: false, network: false, env: { A: "b" } };
    expect(sandbox.level).toBe("none");
    expect(sandbox.wrap(request)).toMatchObject({
      command: "x",
      args: ["a"],
      env: { A: "b" },
      cwd: workspace,
      namespaced: false,
    });
  });

  test("required refuses when no step works, auto falls to none", async () => {
    expect((await detectSandbox("auto", [])).level).toBe("none");
    await expect(detectSandbox("required", [])).rejects.toThrow(RotundaError);
    await expect(detectSandbox("required", [])).rejects.toMatchObject({ code: "sandbox_missing" });
  });

  test("a sandbox is probed once", async () => {
    expect(await detectSandbox("auto")).toBe(await detectSandbox("auto"));
  });
});

describe("childEnvironment", () => {
  test("passes what programs need, nothing that looks like a secret, and what the caller adds", () => {
    const before = { ...process.env };
    Object.assign(process.env, {
      LC_TIME: "C",
      OPENAI_API_KEY: "x",
      NPM_TOKEN: "x",
      LC_SECRET: "x",
      HTTPS_PROXY: "http://user:pw@host",
      HTTP_PROXY: "http://host",
      UNKNOWN: "x",
    });
    try {
      const environment = childEnvironment({ MY_TOKEN: "given" });
      expect(environment).toMatchObject({
        PATH: before.PATH,
        LC_TIME: "C",
        HTTP_PROXY: "http://host",
        MY_TOKEN: "given",
      });
      for (const name of ["OPENAI_API_KEY", "NPM_TOKEN", "LC_SECRET", "HTTPS_PROXY", "UNKNOWN"])
        expect(environment).not.toHaveProperty(name);
    } finally {
      for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
      Object.assign(process.env, before);
    }
  });
});
