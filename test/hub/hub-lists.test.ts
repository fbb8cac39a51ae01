/** When servers start, what is remembered, and what tools look like. */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ServerConfig } from "../../src/types/config.ts";
import {
  call,
  context,
  count,
  fixtures,
  hostile,
  openHub,
  readLines,
  temporaryDirectory,
  tool,
  until,
} from "./support.ts";

function host(directory: string, servers: ServerConfig[], variables: Record<string, string> = {}) {
  const hub = JSON.stringify({ servers, stateDir: directory, wrap: "none" });
  const run = spawnSync(process.execPath, [join(fixtures, "host.ts")], {
    cwd: directory,
    env: { ...process.env, HUB: hub, HUB_END: "close", ...variables },
    encoding: "utf8",
    timeout: 20_000,
  });
  return JSON.parse(run.stdout) as { tools?: string[]; text?: string; client: boolean; starts: number };
}

describe("cached tool lists", () => {
  it("a remembered list starts no process and loads no client library; the first call does", () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const tools = ["announce", "count", "echo", "environment"].map((name) => `hostile__${name}`);
    expect(host(directory, [server])).toEqual({ tools, client: true, starts: 1 });
    expect(host(directory, [server])).toEqual({ tools, client: false, starts: 0 });
    expect(count(server.journal(), "start")).toBe(1);
    expect(host(directory, [server], { HUB_CALL: "hostile__echo" })).toEqual({
      text: "hello",
      client: true,
      starts: 1,
    });
    expect(count(server.journal(), "start")).toBe(2);
  });

  it("is kept for its owner only, holds no value of a variable, and a changed one asks anew", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" }, { env: { MY_TOKEN: "a-secret-value" } });
    const hub = openHub(directory, [server]);
    expect(hub.servers()[0]?.state).toBe("configured");
    await hub.list();
    await hub.close();
    const [file = ""] = readdirSync(join(directory, "hub"));
    expect(statSync(join(directory, "hub", file)).mode & 0o777).toBe(0o600);
    const known = openHub(directory, [server]);
    expect(known.servers()[0]).toMatchObject({ state: "known", toolCount: 4 });
    const changed = openHub(directory, [{ ...server, env: { MY_TOKEN: "another" } }]);
    expect(changed.servers()[0]?.state).toBe("configured");
    const grep = spawnSync("grep", ["-r", "a-secret-value", join(directory, "hub")], { encoding: "utf8" });
    expect(grep.stdout).toBe("");
  });

  it("a state directory that cannot be written costs a warning, not the tools", async () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, "hub"), "a file where a directory should be");
    const hub = openHub(directory, [hostile(directory, { mode: "none" })]);
    expect(await hub.list()).toHaveLength(4);
    await hub.close();
    expect(hub.notices.map(({ text }) => text).join("\n")).toMatch(/tool list not kept/);
  });
});

describe("starting", () => {
  it("B12 G8 all servers start at once: three that each wait for the others' processes all come up", async () => {
    const directory = temporaryDirectory();
    const servers = ["one", "two", "three"].map((name) => {
      const meeting = join(directory, "meeting");
      mkdirSync(meeting, { recursive: true });
      const script = `touch ${meeting}/${name}; while [ $(ls ${meeting} | wc -l) -lt 3 ]; do sleep 0.05; done; exec "$@"`;
      const plain = hostile(directory, { mode: "none" }, { name });
      return { ...plain, command: "sh", args: ["-c", script, "sh", process.execPath, ...(plain.args ?? [])] };
    });
    const hub = openHub(directory, servers);
    expect(await hub.list()).toHaveLength(12);
  });

  it("one process serves all runs", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const hub = openHub(directory, [server]);
    await Promise.all([hub.list(), hub.list(), hub.find("hostile__echo"), hub.test("hostile")]);
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, i) => call(hub, "hostile__echo", { text: String(i) })),
    );
    expect(results.map(({ text }) => text)).toEqual(Array.from({ length: 20 }, (_, i) => String(i)));
    expect(count(server.journal(), "start")).toBe(1);
  });

  it("a list that is aborted does not wait", async () => {
    const directory = temporaryDirectory();
    const hub = openHub(directory, [hostile(directory, { mode: "never-starts" })]);
    const controller = new AbortController();
    const listing = hub.list(controller.signal);
    controller.abort();
    expect(await listing).toEqual([]);
  });

  it("disabled servers do not start; enabling and disabling take effect at the next list", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" }, { disabled: true });
    const hub = openHub(directory, [server]);
    expect(await hub.list()).toEqual([]);
    expect(hub.servers()[0]?.state).toBe("disabled");
    expect(server.journal()).toEqual([]);
    await hub.setEnabled("hostile", true);
    expect(await hub.list()).toHaveLength(4);
    const echo = await tool(hub, "hostile__echo");
    await hub.setEnabled("hostile", false);
    expect(await hub.list()).toEqual([]);
    expect((await echo.run({}, context())).text).toMatch(/turned off/);
    await hub.setEnabled("hostile", true);
    expect((await call(hub, "hostile__echo", { text: "back" })).text).toBe("back");
    await expect(hub.setEnabled("nobody", true)).rejects.toMatchObject({ code: "not_found" });
  });

  it("test and restart", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const broken = hostile(directory, { mode: "die-at-start" }, { name: "broken" });
    const hub = openHub(directory, [server, broken]);
    expect(await hub.test("hostile")).toMatchObject({ ok: true, toolCount: 4 });
    expect(await hub.test("broken")).toMatchObject({
      ok: false,
      toolCount: 0,
      stderrTail: expect.stringContaining("fatal"),
    });
    const pid = hub.servers()[0]?.pid;
    await hub.restart("hostile");
    expect(hub.servers()[0]?.state).toBe("healthy");
    expect(hub.servers()[0]?.pid).not.toBe(pid);
    expect(() => process.kill(pid ?? 0, 0)).toThrow();
    await expect(hub.restart("broken")).rejects.toMatchObject({ code: "hub_unreachable" });
    await expect(hub.test("nobody")).rejects.toMatchObject({ code: "not_found" });
  });

  it("after close nothing starts any more", async () => {
    const directory = temporaryDirectory();
    const server = hostile(directory, { mode: "none" });
    const hub = openHub(directory, [server]);
    const echo = await tool(hub, "hostile__echo");
    await hub.close();
    expect(await hub.list()).toEqual([]);
    expect((await echo.run({}, context())).text).toBe("[Tool error: the hub is closed]");
    expect(count(server.journal(), "start")).toBe(1);
  });
});

describe("tools", () => {
  it("F15: are described with their server; the order and the array are stable", async () => {
    const directory = temporaryDirectory();
    const hub = openHub(directory, [hostile(directory, { mode: "none" })]);
    const tools = await hub.list();
    expect((await tool(hub, "hostile__echo")).description).toBe("Says it again\n\n[MCP Server: hostile]");
    await call(hub, "hostile__echo");
    expect(await hub.list()).toBe(tools);
  });

  it("may do anything until our configuration says otherwise; the server's word counts for nothing", async () => {
    const directory = temporaryDirectory();
    const tools = join(directory, "tools.json");
    const annotations = { readOnlyHint: true, idempotentHint: true, destructiveHint: false, title: "Nice" };
    const names = ["get_page", "get_all", "put_page", "other"];
    writeFileSync(tools, JSON.stringify(names.map((name) => ({ name, annotations }))));
    const rules = {
      "*_page": { access: "write" as const },
      "get_*": { access: "read" as const },
      get_page: { access: "read" as const, idempotent: false },
    };
    const hub = openHub(directory, [hostile(directory, { mode: "none", tools }, { tools: rules })]);
    const seen = (await hub.list()).map(({ serverName, access, repeatable, title }) => [
      serverName,
      access,
      repeatable,
      title,
    ]);
    expect(seen).toEqual([
      ["get_all", "read", true, "Nice"],
      ["get_page", "read", false, "Nice"],
      ["other", "run", false, "Nice"],
      ["put_page", "write", false, "Nice"],
    ]);
  });

  it("tell their progress", async () => {
    const directory = temporaryDirectory();
    const hub = openHub(directory, [hostile(directory, { mode: "none" })]);
    const notes: string[] = [];
    const result = await (await tool(hub, "hostile__count")).run({}, context(undefined, notes));
    expect(result).toEqual({ text: "three" });
    expect(notes).toEqual(["at 1", "at 2", "at 3"]);
  });
});

describe("real servers over stdio", () => {
  it("works with the filesystem server", async () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, "note.txt"), "written before");
    const script = join(
      import.meta.dirname,
      "../../node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
    );
    const config: ServerConfig = {
      name: "files",
      transport: "stdio",
      command: process.execPath,
      args: [script, directory],
      disabled: false,
      origin: "test",
    };
    const hub = openHub(directory, [config]);
    const names = (await hub.list()).map(({ name }) => name);
    expect(names).toContain("files__read_text_file");
    const read = await call(hub, "files:read_text_file", { path: join(directory, "note.txt") });
    expect(read.text).toBe("written before");
    expect(read.isError).toBeUndefined();
    await call(hub, "files_write_file", { path: join(directory, "new.txt"), content: "by the hub" });
    expect((await call(hub, "files__read_text_file", { path: join(directory, "new.txt") })).text).toBe("by the hub");
    const refused = await call(hub, "files__read_text_file", { path: "/etc/passwd" });
    expect(refused).toMatchObject({ isError: true, text: expect.stringMatching(/denied/i) });
    const wrong = await call(hub, "files__read_text_file", { path: 7 });
    expect(wrong.isError).toBe(true);
  });

  it("M21: speaks 2026-07-28 to a server that refuses the older handshake, and remembers", async () => {
    const directory = temporaryDirectory();
    const config: ServerConfig = {
      name: "modern",
      transport: "stdio",
      command: "sh",
      args: ["-c", `echo started >> starts; exec "$0" "$1"`, process.execPath, join(fixtures, "modern-stdio.ts")],
      disabled: false,
      origin: "test",
    };
    const hub = openHub(directory, [config]);
    expect((await call(hub, "modern__echo", { text: "hello" })).text).toBe("hello");
    expect(readLines(join(directory, "starts"))).toHaveLength(2);
    await hub.close();
    const again = openHub(directory, [config]);
    expect((await call(again, "modern__echo", { text: "again" })).text).toBe("again");
    expect(readLines(join(directory, "starts"))).toHaveLength(3);
  });

  it("fails clearly when a server speaks neither", async () => {
    const directory = temporaryDirectory();
    const hub = openHub(directory, [hostile(directory, { mode: "no-handshake" })]);
    expect(await hub.list()).toEqual([]);
    await until(() => hub.servers()[0]?.state === "failed");
    expect(hub.servers()[0]?.error).toMatch(/negotiation|Method not found|2026-07-28/);
  });
});
