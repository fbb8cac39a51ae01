/** What is done with servers while the hub lives: logs, stop, replacement, the truth about their state. */
import { describe, expect, it } from "vitest";
import { ServerLog } from "../../src/hub/logs.ts";
import { call, count, hostile, openHub, temporaryDirectory, until } from "./support.ts";

describe("promise 23: state is true", () => {
  it("after a crash it is not connected at once, and comes back by itself", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const hub = openHub(directory, [server]);
    await call(hub, "hostile__echo", { text: "x" });
    const [before] = hub.servers();
    expect(before).toMatchObject({ state: "healthy", connected: true, enabled: true });
    process.kill(before?.pid ?? 0, "SIGKILL");
    await until(() => hub.servers()[0]?.connected === false);
    expect(hub.servers()[0]).toMatchObject({ state: "failed", error: expect.stringContaining("SIGKILL") });
    await until(() => hub.servers()[0]?.connected === true);
    expect(count(server.journal(), "start")).toBe(2);
    expect((await call(hub, "hostile__echo", { text: "again" })).text).toBe("again");
    expect(count(server.journal(), "start")).toBe(2);
  });

  it("one that keeps dying is brought back ever more slowly", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "die-on-call" });
    const hub = openHub(directory, [server]);
    const began = Date.now();
    for (let deaths = 1; deaths <= 3; deaths++) {
      await until(async () => (await hub.list()).length > 0 && hub.servers()[0]?.connected === true);
      await call(hub, "hostile__echo");
    }
    // After one, two deaths it waits one and two seconds.
    expect(Date.now() - began).toBeGreaterThanOrEqual(2_900);
    expect(count(server.journal(), "start")).toBe(3);
  });

  it("without `reconnect` it stays away until a call needs it", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const hub = openHub(directory, [server], { reconnect: false });
    await call(hub, "hostile__echo");
    process.kill(hub.servers()[0]?.pid ?? 0, "SIGKILL");
    await until(() => hub.servers()[0]?.connected === false);
    await new Promise((resolve) => setTimeout(resolve, 1_300));
    expect(hub.servers()[0]?.state).toBe("failed");
    await call(hub, "hostile__echo");
    expect(count(server.journal(), "start")).toBe(2);
  });
});

describe("stop, restart, connect", () => {
  it("what is stopped has no process and no tools until it is started again", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const hub = openHub(directory, [server]);
    await call(hub, "hostile__echo");
    await hub.stop("hostile");
    expect(hub.servers()[0]).toMatchObject({ state: "stopped", connected: false, enabled: true });
    expect(await hub.list()).toEqual([]);
    hub.connect();
    expect(count(server.journal(), "start")).toBe(1);
    await hub.restart("hostile");
    expect(hub.servers()[0]).toMatchObject({ state: "healthy", connected: true });
    expect((await hub.list()).length).toBeGreaterThan(0);
    await hub.setEnabled("hostile", false);
    await expect(hub.restart("hostile")).rejects.toThrow(/turned off/);
    await expect(hub.stop("nobody")).rejects.toMatchObject({ code: "not_found" });
  });

  it("connect starts what is used, in the background", async () => {
    const directory = temporaryDirectory();
    const used = hostile(directory, { mode: "none" }, { name: "used" });
    const unused = hostile(directory, { mode: "none" }, { name: "unused", disabled: true });
    const hub = openHub(directory, [used, unused]);
    hub.connect();
    await until(() => hub.servers()[0]?.connected === true);
    expect(unused.journal()).toEqual([]);
  });
});

describe("replace", () => {
  it("refuses names that cannot be, and changes nothing then", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const hub = openHub(directory, [server]);
    expect(() => hub.replace([server, server])).toThrow(expect.objectContaining({ code: "config_invalid" }));
    expect(hub.servers().map(({ name }) => name)).toEqual(["hostile"]);
    expect((await call(hub, "hostile__echo", { text: "x" })).text).toBe("x");
  });

  it("a server that was turned off and on again by configuration works", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const hub = openHub(directory, [server]);
    const [first] = await hub.list();
    hub.replace([{ ...server, disabled: true }]);
    expect(await hub.list()).toEqual([]);
    expect(
      (await first?.run({}, { progress: () => undefined, signal: AbortSignal.timeout(9_999) } as never))?.text,
    ).toMatch(/turned off/);
    hub.replace([server]);
    expect((await call(hub, "hostile__echo", { text: "back" })).text).toBe("back");
  });
});

describe("logs", () => {
  it("stderr, changes of state and noise on stdout, without the server's secrets", async () => {
    const directory = temporaryDirectory();
    const dead = hostile(directory, { mode: "die-at-start" }, { name: "dead" });
    const noisy = hostile(directory, { mode: "noise" }, { name: "noisy", env: { MY_TOKEN: "starting" } });
    const hub = openHub(directory, [dead, noisy]);
    const before = Date.now();
    await hub.list();
    await until(() => hub.logs("dead").some(({ text }) => text.includes("cannot open the database")));
    await until(() => hub.logs("dead").some(({ text }) => /failed/.test(text)));
    const lines = hub.logs("noisy");
    expect(lines.map(({ text }) => text)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^stdout, no message: .*\*\*\* up/),
        expect.stringContaining("Connected to server: noisy"),
      ]),
    );
    for (const { at, text } of lines) {
      expect(at).toBeGreaterThanOrEqual(before - 1_000);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: no terminal may obey a log.
      expect(text).not.toMatch(/\u001b|starting/);
    }
    hub.clearLogs("noisy");
    expect(hub.logs("noisy")).toEqual([]);
    expect(() => hub.logs("nobody")).toThrow(expect.objectContaining({ code: "not_found" }));
  });

  it("keeps 500 lines of 2,000 characters, whatever comes, in a bounded time", () => {
    const log = new ServerLog();
    const flood = Buffer.from("e\n".repeat(500_000));
    const began = performance.now();
    for (let piece = 0; piece < 50; piece++) log.addOutput(piece, flood);
    expect(performance.now() - began).toBeLessThan(5_000);
    log.addOutput(51, Buffer.from(`${"x".repeat(1_000_000)}`));
    log.addOutput(51, Buffer.from("y\nlast line\nunfinished"));
    const lines = log.read((text) => text);
    expect(lines.length).toBeLessThanOrEqual(501);
    expect(lines.at(-1)).toEqual({ at: 51, text: "unfinished" });
    expect(lines.at(-2)?.text).toBe("last line");
    expect(lines.at(-3)?.text).toBe("x".repeat(2_000));
    log.clear();
    expect(log.read((text) => text)).toEqual([]);
  });

  it("lines that come in pieces are put together, also in the middle of a character", () => {
    const log = new ServerLog();
    const bytes = Buffer.from("first ü line\nsecond\n");
    for (const byte of bytes) log.addOutput(1, Buffer.from([byte]));
    expect(log.read((text) => text).map(({ text }) => text)).toEqual(["first ü line", "second"]);
  });

  it("survive a change of the server's configuration, and tell of it", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const hub = openHub(directory, [server]);
    await hub.list();
    hub.replace([{ ...server, timeout: 9 }]);
    await call(hub, "hostile__echo");
    expect(hub.logs("hostile").filter(({ text }) => text.startsWith("Connected to server"))).toHaveLength(2);
  });
});
