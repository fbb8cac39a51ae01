/** The shell reader: sure or silent. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { simpleCommands } from "../../src/util/shell.ts";

describe("simpleCommands", () => {
  test.each<[string, string[]]>([
    ["ls -la", ["ls -la"]],
    ["a && b || c; d | e & f", ["a", "b", "c", "d", "e", "f"]],
    ["a\nb\n\n c", ["a", "b", "c"]],
    ["'rm' \"-rf\" \\/", ["rm -rf /"]],
    ["r''m x", ["rm x"]],
    ["git commit -m 'a && b; c'", ["git commit -m a && b; c"]],
    ["npm test # all of them", ["npm test"]],
    ["echo a#b", ["echo a#b"]],
    ["make 2>&1 | tail -5", ["make", "tail -5"]],
    ["make >/dev/null 2>&1", ["make"]],
    ["make &>/dev/null", ["make"]],
    ["ls *.ts src/*", ["ls *.ts src/*"]],
    ["a \\\n b", ["a b"]],
    ["sleep 1 &", ["sleep 1"]],
    ["", []],
    ["  # nothing", []],
    ['echo "a \\"b\\" c\\d"', ['echo a "b" c\\d']],
  ])("%j", (line, commands) => {
    expect(simpleCommands(line)).toEqual(commands);
  });

  test.each([
    "echo $(rm x)",
    "echo `rm x`",
    'echo "$(rm x)"',
    "echo $HOME",
    '"$X" a',
    "$X",
    "cat <(ls)",
    "cat << EOF\nx\nEOF",
    "cat <<< x",
    "echo x > file",
    "echo x >> file",
    "echo x 2> file",
    "echo x >| file",
    "cat < file",
    "a <> b",
    "echo x &> file",
    "eval ls",
    "source x",
    ". x",
    "exec ls",
    "command ls",
    "sudo rm",
    "env rm",
    "xargs rm",
    "sh -c ls",
    "/bin/bash -c ls",
    "X=1 ls",
    "X=1",
    "if a; then b; fi",
    "for x in a; do b; done",
    "! a",
    "{ a; }",
    "(a)",
    "f() { a; }",
    "[[ a ]]",
    "a &&",
    "a ||",
    "a |",
    "&& a",
    "; a",
    "a ;; b",
    "a && && b",
    "'unbalanced",
    '"unbalanced',
    "a \\",
    "echo {a,b}",
    "git {push,x}",
    "git pus[h]",
    "git *",
    "l? x",
    "$'rm' x",
    "find . -exec rm {} +",
    "find . -delete",
    "test -v 'a[$(rm x)]'",
    "printf -v 'a[$(x)]' y",
    "trap x EXIT",
    "alias a=b",
    "a\0b",
    "a\rb",
    "timeout 5 rm x",
    "a > /dev/nullx",
    "~/x",
    "cat ~/x",
    "<file cat",
    "a >&file",
    "a |& ",
  ])("is silent about %j", (line) => {
    expect(simpleCommands(line)).toBeNull();
  });

  const word = fc.stringMatching(/^[ -~\n]{0,12}$/).map((text) => `w${text}`);
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

  test("gives back exactly the words that were quoted", () => {
    const commands = fc.array(fc.array(word, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 5 });
    const separator = fc.constantFrom(" && ", "||", ";", " | ", "\n", " & ");
    fc.assert(
      fc.property(commands, separator, (lines, between) => {
        // The first word must be able to be a program's name.
        const named = lines.map((words) => ["program", ...words]);
        const line = named.map((words) => words.map(quoted).join(" ")).join(between);
        expect(simpleCommands(line)).toEqual(named.map((words) => words.join(" ")));
      }),
    );
  });

  test("never throws, and an unquoted substitution is never overlooked", () => {
    fc.assert(fc.property(fc.string({ maxLength: 60 }), (line) => void simpleCommands(line)));
    fc.assert(
      fc.property(
        fc.stringMatching(/^[a-z ;|&]{0,20}$/),
        fc.constantFrom("$(x)", "`x`", ["$", "{x}"].join(""), "<(x)", "> x"),
        (before, part) => {
          expect(simpleCommands(`${before} ${part}`)).toBeNull();
        },
      ),
    );
  });

  test("bash runs nothing but what was answered", { timeout: 60_000 }, () => {
    const folder = mkdtempSync(join(tmpdir(), "rotunda-shell-"));
    const pieces = fc.constantFrom(
      ..."aa bb 'c d' \"e f\" \\g && || ; | & \n # ' \" \\ $x `aa` $(bb) > < 2>&1 >/dev/null {a,b} * ? ( ) { } ! [ ~ = x=1 -- \t".split(
        " ",
      ),
      " ",
      " ",
    );
    try {
      const answers = fc.sample(fc.array(pieces, { minLength: 1, maxLength: 9 }), 3000).map((parts) => parts.join(""));
      const sure = answers.filter((line) => simpleCommands(line) !== null);
      expect(sure.length).toBeGreaterThan(50);
      for (const line of new Set(sure.slice(0, 250))) {
        const script = `command_not_found_handle() { printf '%s\\0' "$*" >> log; }\nPATH=/nonexistent\n${line}\nwait`;
        try {
          execFileSync("bash", ["--norc", "-c", `: > log\n${script}`], { cwd: folder, stdio: "ignore" });
        } catch {
          // Its exit code does not matter.
        }
        const log = execFileSync("cat", ["log"], { cwd: folder, encoding: "utf8" });
        const known = simpleCommands(line) ?? [];
        for (const command of log.split("\0").filter(Boolean)) expect(known, line).toContain(command);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
