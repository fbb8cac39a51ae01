/** M18: no process of a server outlives the hub, however the hub ends and whatever stands between them. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { HostileMode } from "../../src/testing/hostile-mcp-server.ts";
import type { ServerConfig } from "../../src/types/config.ts";
import { launchers } from "../fixtures/mcp/launchers.ts";
import { call, count, fixtures, hostile, openHub, processesWith, temporaryDirectory, until } from "./support.ts";

/** The server behind a shell that stays between us and it and ignores what it is told. */
function behindShell(server: ServerConfig): ServerConfig {
  const script = `trap "" TERM INT HUP; "$@"; true`;
  return { ...server, command: "sh", args: ["-c", script, "sh", server.command ?? "", ...(server.args ?? [])] };
}

/** A server that leaves its process group at once. */
function escaping(server: ServerConfig): ServerConfig {
  const script = `exec 3<&0; setsid "$@" <&3 & sleep 1000`;
  return { ...server, command: "sh", args: ["-c", script, "sh", server.command ?? "", ...(server.args ?? [])] };
}

/** Starts a process with a hub and waits until it has listed its tools. */
async function startHost(directory: string, servers: ServerConfig[], wrap: string, end = ""): Promise<ChildProcess> {
  const hub = JSON.stringify({ servers, stateDir: directory, wrap });
  // The marker of the processes is the directory: the host itself must not show it.
  const child = spawn(process.execPath, [join(fixtures, "host.ts")], {
    cwd: directory,
    env: { ...process.env, HUB: hub, HUB_END: end },
    stdio: ["ignore", "pipe", end === "crash" ? "ignore" : "inherit"],
  });
  let printed = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    printed += chunk.toString();
  });
  await until(() => printed.includes("\n"), 25);
  expect(JSON.parse(printed)).toMatchObject({ tools: expect.arrayContaining([expect.stringMatching(/__echo$/)]) });
  return child;
}

const works = {
  bubblewrap: spawnSync("bwrap", ["--unshare-pid", "--dev-bind", "/", "/", "--proc", "/proc", "true"]).status === 0,
  unshare: spawnSync("setpriv", ["--pdeathsig", "KILL", "unshare", "--user", "--pid", "--fork", "true"]).status === 0,
};

describe("without a wrapper", () => {
  it.each(["none", "stubborn"] as const)(
    "close leaves nothing of a server (%s), behind a shell or not",
    async (mode) => {
      const directory = temporaryDirectory();
      const servers = [
        hostile(directory, { mode }, { name: "direct" }),
        behindShell(hostile(directory, { mode }, { name: "behind" })),
      ];
      const hub = openHub(directory, servers);
      expect(await hub.list()).toHaveLength(8);
      expect(processesWith(directory).length).toBe(3);
      const began = Date.now();
      await hub.close();
      await until(() => processesWith(directory).length === 0, 2);
      expect(Date.now() - began).toBeLessThan(10_000);
    },
  );

  it("close leaves nothing of a server that leaves its process group", async () => {
    const directory = temporaryDirectory();
    const hub = openHub(directory, [escaping(hostile(directory, { mode: "stubborn" }))]);
    expect(await hub.list()).toHaveLength(4);
    await hub.close();
    await until(() => processesWith(directory).length === 0, 2);
  });

  it("close during a start, and a server that dies, leave nothing", async () => {
    const directory = temporaryDirectory();
    const never = behindShell(hostile(directory, { mode: "never-starts" }, { name: "never", startTimeout: 0.1 }));
    const dies = behindShell(hostile(directory, { mode: "die-on-call" }, { name: "dies" }));
    const hub = openHub(directory, [never, dies]);
    await hub.list();
    expect((await call(hub, "dies__echo")).isError).toBe(true);
    await hub.close();
    await until(() => processesWith(directory).length === 0, 2);
  });

  it("process.exit leaves nothing of the group", async () => {
    const directory = temporaryDirectory();
    const child = await startHost(directory, [behindShell(hostile(directory, { mode: "stubborn" }))], "none", "exit");
    await until(() => child.exitCode !== null);
    await until(() => processesWith(directory).length === 0, 5);
  });

  it("M18 20 starts and kills leave no process, and the hub comes back after each", { timeout: 120_000 }, async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const hub = openHub(directory, [behindShell(server)]);
    for (let i = 0; i < 20; i++) {
      expect(await call(hub, "hostile__echo", { text: String(i) })).toEqual({ text: String(i) });
      const pid = hub.servers()[0]?.pid ?? 0;
      process.kill(pid, "SIGKILL");
      await until(() => hub.servers()[0]?.state === "failed");
      expect(hub.servers()[0]?.error).toMatch(/SIGKILL/);
      await until(() => processesWith(directory).length === 0, 5);
    }
    expect(count(server.journal(), "start")).toBe(20);
  });
});

describe.each(["bubblewrap", "unshare"] as const)("inside %s", (wrap) => {
  const modes: [string, HostileMode, (server: ServerConfig) => ServerConfig][] = [
    ["a plain server", "none", (server) => server],
    ["a stubborn server", "stubborn", (server) => server],
    ["a stubborn server behind a shell", "stubborn", behindShell],
    ["a server that leaves its process group", "stubborn", escaping],
  ];

  it.skipIf(!works[wrap]).each(modes)("kill -9 of ours leaves nothing of %s", async (_what, mode, shape) => {
    const directory = temporaryDirectory();
    const child = await startHost(directory, [shape(hostile(directory, { mode }))], wrap);
    expect(processesWith(directory).length).toBeGreaterThan(1);
    child.kill("SIGKILL");
    await until(() => processesWith(directory).length === 0, 5);
  });

  it.skipIf(!works[wrap]).each(modes)("close leaves nothing of %s", async (_what, mode, shape) => {
    const directory = temporaryDirectory();
    const hub = openHub(directory, [shape(hostile(directory, { mode }))], { launch: launchers[wrap] });
    expect(await call(hub, "hostile__echo", { text: "in there" })).toEqual({ text: "in there" });
    await hub.close();
    await until(() => processesWith(directory).length === 0, 5);
  });
});

/** Ways in which a program with a hub ends. CYCLES=200 for the long run. */
const CYCLES = Number(process.env.CYCLES ?? 40);
const AT_ONCE = 4;

type Ending = "close" | "graceful" | "SIGTERM" | "SIGKILL" | "crash" | "server crash";
const endings: Ending[] = ["close", "SIGTERM", "SIGKILL", "crash", "graceful", "server crash"];
const shapes = [(server: ServerConfig) => server, behindShell, escaping];

async function cycle(number: number, wrap: "bubblewrap" | "unshare"): Promise<void> {
  const directory = temporaryDirectory();
  const ending = endings[number % endings.length] ?? "close";
  const shape = shapes[Math.floor(number / endings.length) % shapes.length] ?? behindShell;
  const mode = ending === "server crash" ? "die-on-call" : number % 2 === 0 ? "none" : "stubborn";
  const server = shape(hostile(directory, { mode }));
  if (ending === "server crash") {
    // A launcher that outlives its server keeps our pipes open: then only the time of the call ends it.
    const hub = openHub(directory, [{ ...server, timeout: 2 }], { launch: launchers[wrap], reconnect: false });
    expect((await call(hub, "hostile__echo")).isError).toBe(true);
    await hub.close();
    await until(() => processesWith(directory).length === 0, 10);
    return;
  }
  const child = await startHost(
    directory,
    [server],
    wrap,
    ["close", "crash", "graceful"].includes(ending) ? ending : "",
  );
  if (ending === "graceful") child.kill("SIGTERM");
  else if (ending === "SIGTERM" || ending === "SIGKILL") child.kill(ending);
  await until(() => child.exitCode !== null || child.signalCode !== null, 20);
  await until(() => processesWith(directory).length === 0, 10);
}

describe.skipIf(!works.bubblewrap && !works.unshare)("whatever happens", () => {
  it(`M18 ${CYCLES} cycles of close, SIGTERM, kill -9 and crash leave no process`, {
    timeout: CYCLES * 5000,
  }, async () => {
    const wrap = works.bubblewrap ? "bubblewrap" : "unshare";
    let next = 0;
    const worker = async () => {
      for (let number = next++; number < CYCLES; number = next++) await cycle(number, wrap);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    expect(next).toBeGreaterThanOrEqual(CYCLES);
  });
});
