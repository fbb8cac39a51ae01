/** Attacks by what other programs left behind: files that are no files, hostile names and values, secrets in addresses. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { type Home, home } from "../cli/run.ts";

function put(at: Home, path: string, text: string): string {
  const file = join(at.environment.HOME ?? "", path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

const evil = "\u001b]0;owned\u0007\u202e\nname";

test("V10 what other programs have is told without its secrets, and commands nothing", async () => {
  const at = home();
  const servers = {
    [evil]: {
      command: `sh${evil}`,
      args: ["--api-key", "sk-live-0123456789abcdef", evil],
      env: { TOKEN: "hunter2hunter2" },
    },
    remote: { url: "https://user:pa55word-secret@mcp.example/x?api_key=k3y-0123456789abcdef" },
  };
  put(at, ".cursor/mcp.json", JSON.stringify({ mcpServers: servers }));
  put(
    at,
    ".codex/config.toml",
    `[mcp_servers."${"x".repeat(300)}"]\ncommand = "a"\n[mcp_servers.__proto__]\ncommand = "b"\n`,
  );
  put(at, ".config/zed/settings.json", `{"context_servers": ${"[".repeat(20_000)}`);
  put(at, ".gemini/settings.json", `{"mcpServers": {"__proto__": {"command": "x"}, "constructor": {"command": "y"}}}`);
  put(at, ".lmstudio/mcp.json", "\u0000\u0001\u0002");
  put(at, ".claude.json", `{"a": ${'{"a":'.repeat(5_000)}1${"}".repeat(5_000)}}`);
  put(at, ".codeium/windsurf/mcp_config.json", `&a ["x",*a]`);
  const { code, out, err } = await at.run(["setup"]);
  expect([code, out]).toEqual([0, ""]);
  for (const secret of ["sk-live-0123456789abcdef", "hunter2hunter2", "pa55word-secret", "k3y-0123456789abcdef"]) {
    expect(err).not.toContain(secret);
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
  expect(err).not.toMatch(/\u001b\]|[\u0000-\u0008\u202e]/);
  expect(existsSync(join(at.environment.ROTUNDA_HOME ?? "", "rotunda.yaml"))).toBe(false);
  expect(({} as { command?: string }).command).toBeUndefined();
});

test("V10 pipes, devices, folders and circles of links in the places of files hold nothing up", {
  timeout: 60_000,
}, async () => {
  const at = home();
  const pipe = put(at, ".cursor/x", "").replace(/x$/, "mcp.json");
  spawnSync("mkfifo", [pipe]);
  symlinkSync("/dev/zero", put(at, ".codex/x", "").replace(/x$/, "config.toml"));
  const circle = put(at, ".lmstudio/x", "").replace(/x$/, "mcp.json");
  symlinkSync(circle, circle);
  mkdirSync(join(at.environment.HOME ?? "", ".claude.json"));
  const setup = at.start(["setup"]);
  const late = setTimeout(() => setup.child.kill("SIGKILL"), 20_000);
  const { code, signal } = await setup.result;
  clearTimeout(late);
  expect([code, signal]).toEqual([0, null]);
  // The same in a folder that somebody else has made.
  spawnSync("mkfifo", [join(at.workspace, ".mcp.json")]);
  const taken = at.start(["import", at.workspace]);
  const stop = setTimeout(() => taken.child.kill("SIGKILL"), 20_000);
  const result = await taken.result;
  clearTimeout(stop);
  expect(result.signal).toBeNull();
});

test("V10 what is taken over is not for others to read, and a link in its place is not followed to somebody else's file", async () => {
  const at = home();
  const from = put(
    at,
    "theirs.json",
    JSON.stringify({ mcpServers: { a: { command: "true", env: { KEY: "sk-live-0123456789abcdef" } } } }),
  );
  expect((await at.run(["import", from])).code).toBe(0);
  const shown = await at.run(["config", "show"]);
  expect(shown.out).not.toContain("sk-live-0123456789abcdef");
  const state = at.environment.ROTUNDA_HOME ?? "";
  const holders = spawnSync("grep", ["-rl", "sk-live-0123456789abcdef", state, at.workspace], { encoding: "utf8" });
  for (const file of holders.stdout.split("\n").filter((one) => one !== "")) {
    expect([file, statSync(file).mode & 0o077]).toEqual([file, 0]);
  }
  const other = home();
  const victim = put(other, "victim.yaml", "precious: true\n");
  for (const target of [
    join(other.environment.ROTUNDA_HOME ?? "", "rotunda.yaml"),
    join(other.workspace, "rotunda.yaml"),
  ]) {
    mkdirSync(dirname(target), { recursive: true });
    symlinkSync(victim, target);
  }
  await other.run(["init"]);
  await other.run(["setup"]);
  expect(readFileSync(victim, "utf8")).toBe("precious: true\n");
});
