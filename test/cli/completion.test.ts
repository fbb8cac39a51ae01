/** `rotunda completion`: the script of bash is run by bash; those of the others are read by their shells, where they are. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { home } from "./run.ts";

function isThere(shell: string): boolean {
  const there = spawnSync(shell, ["-c", "true"]).status === 0;
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

for (const [shell, marks] of [
  ["zsh", ["#compdef rotunda", "'test:Start servers and see whether they answer'", "compadd -- text json stream-json"]],
  ["fish", [`-n "__rotunda_is 'hub'" -f -a test`, "-l output-format -x -a 'text json stream-json'"]],
] as const) {
  test(`for ${shell} it has the commands, their flags and the choices of these`, async () => {
    const { out } = await home().run(["completion", shell]);
    for (const mark of marks) expect(out).toContain(mark);
    if (isThere(shell)) expect(spawnSync(shell, ["-n"], { input: out, encoding: "utf8" }).stderr).toBe("");
  });
}

test("another shell is refused with those that there are", async () => {
  const { code, err } = await home().run(["completion", "tcsh"]);
  expect(code).toBe(2);
  expect(err).toContain("Allowed choices are bash, zsh, fish");
});
