/** What is said of servers that do not start, and how long anybody waits for them. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ServerConfig } from "../../src/types/config.ts";
import { call, count, hostile, openHub, readLines, type TestHub, temporaryDirectory, until } from "./support.ts";

const warnings = (hub: TestHub) => hub.notices.filter(({ level }) => level === "warn").map(({ text }) => text);
const SILENT = `process.stderr.write("waiting for the vault TOKEN-OF-MINE\\n"); process.stdin.resume()`;
const silent = (startTimeout: number, more: Partial<ServerConfig> = {}): ServerConfig => ({
  name: "silent",
  transport: "stdio",
  command: process.execPath,
  args: ["-e", SILENT],
  env: { MY_TOKEN: "TOKEN-OF-MINE" },
  disabled: false,
  origin: "test",
  startTimeout,
  ...more,
});

describe("a silent server", () => {
  it("is named after two seconds, and again when it is gone on without, with its last words", {
    timeout: 30_000,
  }, async () => {
    const hub = openHub(temporaryDirectory(), [silent(3)]);
    expect(await hub.list()).toEqual([]);
    expect(warnings(hub)).toEqual([
      "waiting for MCP server silent …",
      expect.stringMatching(
        /^MCP server silent has not answered within 3 s; its last words: waiting for the vault (?!TOKEN)[^\n]*\. Its tools are left out until it has answered: rotunda hub test silent/,
      ),
    ]);
    expect(hub.servers()[0]).toMatchObject({ state: "failed", error: expect.stringContaining("has not answered") });
    await hub.list();
    expect(warnings(hub)).toHaveLength(2);
  });

  it("is not waited for again by the next process, which says so, until it has answered", {
    timeout: 60_000,
  }, async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" }, { startTimeout: 3 });
    const launch = async () => ({ command: process.execPath, args: ["-e", SILENT], env: {}, cwd: directory });
    const first = openHub(directory, [server], { launch });
    await first.list();
    await first.close();
    const idle = openHub(directory, [server]);
    expect(idle.servers()[0]).toMatchObject({
      state: "failed",
      error: expect.stringContaining("not answer within 3 s"),
    });
    // Whoever gives it more time is waited for.
    const patient = openHub(directory, [{ ...server, startTimeout: 4 }], { launch });
    await patient.list();
    expect(warnings(patient)).toContain("waiting for MCP server hostile …");
    await patient.close();
    const second = openHub(directory, [server]);
    await second.list();
    expect(warnings(second)).toEqual([
      expect.stringMatching(
        /^MCP server hostile did not answer in time \d+ s ago and is started in the background\. Its tools are/,
      ),
    ]);
    await until(async () => (await second.list()).length > 0);
    await second.close();
    const third = openHub(directory, [server]);
    expect(third.servers()[0]).toMatchObject({ state: "known" });
    expect(third.servers()[0]?.error).toBeUndefined();
  });

  it("is waited for by whoever calls one of its tools", { timeout: 60_000 }, async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "slow-start", delay: 3_000 }, { startTimeout: 2.5 });
    const first = openHub(directory, [server]);
    await first.list();
    await first.close();
    const second = openHub(directory, [{ ...server, startTimeout: 20 }]);
    expect((await call(second, "hostile__echo", { text: "late" })).text).toBe("late");
  });
});

describe("a server that fails", () => {
  it("is called failed by the next process too, with the reason", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "die-at-start" });
    const first = openHub(directory, [server]);
    await first.list();
    await first.close();
    const why = "the program ended with exit code 3 before it answered: fatal: cannot open the database";
    expect(warnings(first)).toEqual([`MCP server hostile failed: ${why}`]);
    expect(openHub(directory, [server]).servers()[0]).toMatchObject({ state: "failed", error: why });
  });

  it("after a while is not waited for again by the next process, which says so", { timeout: 30_000 }, async () => {
    const directory = temporaryDirectory();
    const server: ServerConfig = { ...silent(20), args: ["-e", "setTimeout(() => process.exit(3), 1500)"] };
    const first = openHub(directory, [server]);
    await first.list();
    await first.close();
    const second = openHub(directory, [server]);
    await second.list();
    expect(warnings(second)).toEqual([
      expect.stringMatching(/^MCP server silent failed \d+ s ago and is started in the background\. Its tools are/),
    ]);
    // Whoever wants just this one waits for it.
    expect((await second.test("silent")).error).toContain("exit code 3");
  });

  it("says of Node's own words the error, and nothing of broken pipes", async () => {
    const script = 'setTimeout(() => { throw new Error("no database at /srv") }, 50); process.stdin.destroy()';
    const server: ServerConfig = { ...silent(20), args: ["-e", script], env: {} };
    const hub = openHub(temporaryDirectory(), [server]);
    const tested = await hub.test("silent");
    expect(tested.error).toBe("the program ended with exit code 1 before it answered: Error: no database at /srv");
  });

  it("over HTTP: the address without its query, and what is wrong in words", async () => {
    const url = "http://127.0.0.1:9/mcp?key=secret";
    const hub = openHub(temporaryDirectory(), [
      { name: "away", transport: "http", url, headers: {}, disabled: false, origin: "test" },
    ]);
    expect((await hub.test("away")).error).toBe("cannot reach http://127.0.0.1:9/mcp: connection refused");
  });

  it("is neither started nor spoken of by a call of another server's tool", async () => {
    const directory = temporaryDirectory();
    const good = hostile(directory, { mode: "none" }, { name: "good" });
    const bad = hostile(directory, { mode: "die-at-start" }, { name: "bad" });
    const hub = openHub(directory, [bad, good]);
    for (const name of ["good__echo", "good:echo", "good_echo"]) {
      expect((await call(hub, name, { text: name })).text).toBe(name);
    }
    expect(warnings(hub)).toEqual([]);
    expect(count(readLines(join(directory, "bad.journal")), "start")).toBe(0);
    expect(count(good.journal(), "start")).toBe(1);
    expect(await hub.find("nobody__echo")).toBeUndefined();
    expect(await hub.find("bad__echo")).toBeUndefined();
    expect(warnings(hub)).toEqual([expect.stringMatching(/^MCP server bad failed: /)]);
  });
});

it("a silent program's failure, in full", async () => {
  const { startFailure } = await import("../../src/hub/start-failure.ts");
  const error = Object.assign(new Error("Request timed out"), { code: "REQUEST_TIMEOUT" });
  expect(startFailure(error, silent(10), 60_000, "Starting\nLooking for the vault\n")).toEqual({
    text:
      "the program was started and did not answer within 60 s; its last words: Starting\nLooking for the vault\n" +
      "Run its command by hand to see what it waits for; if it is only slow, raise startTimeout of its entry.",
    waited: 60,
  });
  const gone = { ...silent(10), command: "nosuch" };
  const ended = new Error("the program ended with exit code 127 before it answered");
  expect(startFailure(ended, gone, 10, "sh: 1: nosuch: not found\n")).toEqual({ text: "command not found: nosuch" });
  const deaf = new Error("the server no longer reads");
  expect(startFailure(deaf, gone, 10, "sh: 1: nosuch: not found\n")).toEqual({ text: "command not found: nosuch" });
  expect(startFailure(deaf, gone, 2_000, "no\n")).toEqual({
    text: "the program ended before it answered: no",
    took: 2,
  });
});
