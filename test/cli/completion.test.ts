/** `rotunda completion`: each script is run by its own shell, where the machine has it; what is missing is said aloud. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { home } from "./run.ts";

function isThere(shell: string, flag = "-c"): boolean {
  const there = spawnSync(shell, [flag, ...(flag === "-c" ? ["true"] : [])]).status === 0;
  if (!there) process.stderr.write(`SKIPPED: the script for ${shell} is not read: ${shell} is not installed\n`);
  return there;
}

describe.skipIf(!isThere("bash"))("in bash", () => {
  test.each([
    [["ho"], []],
    [["ch"], ["chat"]],
    [
      ["hub", ""],
      ["list", "test", "login", "logout"],
    ],
    [["hub", "--config", "x.yaml", "t"], ["test"]],
    [["hub", "login", "--p"], ["--paste"]],
    [["--verbose", "models", "--j"], ["--json"]],
    [
      ["chat", "--mode", ""],
      ["ask", "accept-edits", "plan", "auto"],
    ],
    [["chat", "--mode", "=", "pl"], ["plan"]],
    [
      ["chat", "--output-format", "="],
      ["text", "json", "stream-json"],
    ],
    [["chat", "a", "--conti"], ["--continue"]],
    [["completion", "z"], ["zsh"]],
    [["--conf"], ["--config"]],
  ])("%j is completed", async (words, wanted) => {
    const { run, workspace } = home();
    const { code, out } = await run(["completion", "bash"]);
    expect(code).toBe(0);
    const file = join(workspace, "rotunda.bash");
    writeFileSync(file, out);
    // No process can be started by it.
    const script = `PATH=/nowhere; source "$1"; shift; COMP_WORDS=(rotunda "$@"); COMP_CWORD=$#; _rotunda; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr } = spawnSync("bash", ["--norc", "-c", script, "bash", file, ...words], {
      encoding: "utf8",
    });
    expect([stdout.split("\n").filter(Boolean), stderr]).toEqual([wanted, ""]);
  });
});

describe.skipIf(!isThere("fish"))("in fish", () => {
  test.each([
    ["rotunda ch", ["chat"]],
    ["rotunda hub ", ["list", "login", "logout", "test"]],
    ["rotunda hub --config x.yaml t", ["test"]],
    ["rotunda hub login --p", ["--paste"]],
    ["rotunda --verbose models --j", ["--json"]],
    ["rotunda chat --mode ", ["accept-edits", "ask", "auto", "plan"]],
    ["rotunda chat --output-format j", ["json"]],
    ["rotunda chat a --conti", ["--continue"]],
    ["rotunda completion z", ["zsh"]],
  ])("%j is completed", async (line, wanted) => {
    const { run, workspace } = home();
    const { out } = await run(["completion", "fish"]);
    const file = join(workspace, "rotunda.fish");
    writeFileSync(file, out);
    const { stdout, stderr } = spawnSync(
      "fish",
      ["--no-config", "-c", "source $argv[1]; complete -C $argv[2]", file, line],
      {
        encoding: "utf8",
        env: { PATH: process.env.PATH, HOME: workspace },
      },
    );
    const offered = stdout.split("\n").map((text) => text.split("\t")[0]);
    expect([offered.filter(Boolean), stderr]).toEqual([wanted, ""]);
  });
});

describe.skipIf(!isThere("zsh") || !isThere("tmux", "-V"))("in zsh, at a terminal", () => {
  test.each([
    ["rotunda hub --config x.yaml t", "rotunda hub --config x.yaml test"],
    ["rotunda hub login --p", "rotunda hub login --paste"],
    ["rotunda --verbose models --j", "rotunda --verbose models --json"],
    ["rotunda chat --mode pl", "rotunda chat --mode plan"],
    ["rotunda chat a --conti", "rotunda chat a --continue"],
    ["rotunda hub ", /login +-- Log in to an http server/],
  ])("%j is completed", async (line, wanted) => {
    const { run, workspace } = home();
    const { out } = await run(["completion", "zsh"]);
    const functions = join(workspace, "functions");
    mkdirSync(functions);
    writeFileSync(join(functions, "_rotunda"), out);
    const socket = `rotunda-zsh-${process.pid}-${randomBytes(4).toString("hex")}`;
    const tmux = (...words: string[]) => spawnSync("tmux", ["-L", socket, ...words], { encoding: "utf8" }).stdout;
    const screen = () => tmux("capture-pane", "-p");
    try {
      tmux("-f", "/dev/null", "new-session", "-d", "-x", "150", "-y", "30", "-c", workspace, "zsh -f");
      tmux(
        "send-keys",
        `fpath=(${functions} $fpath); autoload -Uz compinit; compinit -u -D; PS1="ready> "; clear`,
        "Enter",
      );
      await expect.poll(screen, { timeout: 15_000 }).toMatch(/^ready> *$/m);
      tmux("send-keys", "-l", line);
      tmux("send-keys", "Tab");
      await expect.poll(screen, { timeout: 15_000 }).toMatch(wanted);
    } finally {
      tmux("kill-server");
    }
  });
});

for (const [shell, marks] of [
  ["zsh", ["#compdef rotunda", "'test:Start servers and see whether they answer'", "compadd -- text json stream-json"]],
  ["fish", [`-n "__rotunda_is 'hub'" -f -a test`, "-l output-format -x -a 'text json stream-json'"]],
] as const) {
  test(`for ${shell} it has the commands, their flags and the choices of these`, async () => {
    const { out } = await home().run(["completion", shell]);
    for (const mark of marks) expect(out).toContain(mark);
  });
}

test("another shell is refused with those that there are", async () => {
  const { code, err } = await home().run(["completion", "tcsh"]);
  expect(code).toBe(2);
  expect(err).toContain("Allowed choices are bash, zsh, fish");
});
