/** `rotunda hub login` and `logout` as a person without a browser runs them, and how a browser is opened. */
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { openAddress } from "../../src/doors/cli/open-address.ts";
import { type Protected, type ProtectedOptions, serveProtected } from "../fixtures/mcp/oauth-server.ts";
import { until } from "../hub/support.ts";
import { later, temporaryFolder } from "../support.ts";
import { BIN, type Home, home } from "./run.ts";

async function configured(options: ProtectedOptions = {}): Promise<{ here: Home; server: Protected }> {
  const server = await serveProtected(options);
  later(() => server.close());
  const here = home();
  const folder = join(here.environment.HOME ?? "", ".config/rotunda");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "rotunda.yaml"), JSON.stringify({ mcpServers: { docs: { url: server.url } } }));
  return { here, server };
}

/** Runs `hub login --paste`, and pastes what the person makes of the address that is printed. */
async function paste(here: Home, person: (address: string) => Promise<string>) {
  const child = spawn(process.execPath, [BIN, "hub", "login", "docs", "--paste"], {
    cwd: here.workspace,
    env: here.environment,
  });
  let [out, err] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    err += chunk.toString();
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  await until(() => /^ {2}http\S+$/m.test(err) || child.exitCode !== null);
  const [address = ""] = /(?<=^ {2})http\S+$/m.exec(err) ?? [];
  child.stdin.write(`${await person(address)}\n`);
  return { code: await ended, out, err, address };
}

describe("rotunda hub login", () => {
  test("B25 N24 without a browser: the address is printed, the one that it leads to is pasted, and the login lasts", async () => {
    const { here, server } = await configured();
    expect((await here.run(["call", "docs__hello"])).err).toMatch(/rotunda hub login docs|there is no tool/);
    const before = await here.run(["hub"]);
    expect(before.out).toMatch(/docs {2}http {2}needs_login .*rotunda hub login docs/);
    const result = await paste(here, async (address) => (await server.consent(address)).href);
    expect(result).toMatchObject({ code: 0, out: "Logged in to docs: 2 tools\n" });
    expect(await here.run(["call", "docs__hello"])).toMatchObject({ code: 0, out: "hello!\n" });
    const logout = await here.run(["hub", "logout", "docs"]);
    expect(logout).toMatchObject({ code: 0, out: "Logged out of docs\n", err: "" });
    expect(server.tokens.size + server.refreshTokens.size).toBe(0);
    expect((await here.run(["hub", "list", "--json"])).out).toContain('"state":"needs_login"');
  }, 60_000);

  test("the code alone, or the query, will do; another login's address will not", async () => {
    const { here, server } = await configured({ metadata: { authorization_response_iss_parameter_supported: false } });
    const code = async (address: string) => (await server.consent(address)).searchParams.get("code") ?? "";
    expect(await paste(here, code)).toMatchObject({ code: 0 });
    expect(await paste(here, async (address) => (await server.consent(address)).search)).toMatchObject({ code: 0 });
    const foreign = await paste(here, async () => "http://127.0.0.1:1/oauth/callback?code=x&state=other");
    expect(foreign).toMatchObject({ code: 2, out: "", err: expect.stringContaining("another login") });
    expect(await paste(here, async () => "made-up-code")).toMatchObject({ code: 1, out: "" });
    expect(await here.run(["call", "docs__hello"])).toMatchObject({ code: 0, out: "hello!\n" });
  }, 60_000);

  test("servers that are not there, and those without a login, are named", async () => {
    const { here } = await configured();
    expect(await here.run(["hub", "login", "other", "--paste"])).toMatchObject({ code: 2 });
    expect(await here.run(["hub", "logout", "other"])).toMatchObject({ code: 2 });
  }, 30_000);
});

describe("opening a browser", () => {
  const path = process.env.PATH;
  afterEach(() => {
    process.env.PATH = path;
  });

  test("the address is one argument of a program, never a command; other kinds of address are not opened", async () => {
    const folder = temporaryFolder();
    const heard = join(folder, "heard");
    const script = `#!/bin/sh\nfor argument in "$@"; do printf '%s\\n' "$argument" >> "${heard}"; done\n`;
    for (const name of ["xdg-open", "open", "rundll32"]) {
      writeFileSync(join(folder, name), script);
      chmodSync(join(folder, name), 0o755);
    }
    process.env.PATH = `${folder}:${path}`;
    const marker = join(folder, "pwned");
    const hostile = `https://login.example.com/a\`touch ${marker}\`?x=$(touch ${marker})&y=';touch ${marker};'|calc`;
    for (const platform of ["linux", "darwin", "win32"] as const) expect(openAddress(hostile, platform)).toBe(true);
    const { href } = new URL(hostile);
    await until(() => existsSync(heard) && readFileSync(heard, "utf8").split("\n").length === 5);
    expect(readFileSync(heard, "utf8").split("\n").sort()).toEqual(
      ["", "url.dll,FileProtocolHandler", href, href, href].sort(),
    );
    expect(existsSync(marker)).toBe(false);
    for (const other of [
      "javascript:alert(1)",
      "file:///etc/passwd",
      "-a calc",
      "",
      `$(touch ${marker})`,
      "ms-settings:x",
    ])
      expect(openAddress(other)).toBe(false);
  });

  test("a machine without a browser is no error", () => {
    process.env.PATH = temporaryFolder();
    expect(openAddress("https://login.example.com/")).toBe(true);
  });
});
