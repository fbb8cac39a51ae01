/** Permissions: rules, modes, and what a pattern covers. */
import { describe, expect, test } from "vitest";
import { judge, parseRule, patternFor, type Question, stricter } from "../../src/engine/permissions.ts";
import type { CallSubject } from "../../src/types/tool.ts";
import { toolOf } from "../support.ts";

const run = async () => ({ text: "" });
const bash = toolOf("bash", run, { access: "run" });
const read = toolOf("read", run);
const write = toolOf("write", run, { access: "write" });
const mcp = toolOf("files__write_file", run, { access: "run", server: "files", serverName: "write_file" });

function ask(question: Partial<Question>, rules: { allow?: string[]; ask?: string[]; deny?: string[] } = {}) {
  return judge({
    tool: read,
    subject: {},
    workspace: "/work",
    mode: "ask",
    readOnly: false,
    rules: [{ allow: [], ask: [], deny: [], ...rules }],
    sandbox: async () => "bwrap",
    ...question,
  });
}

const paths = (...names: string[]): CallSubject => ({
  paths: names,
  inside: names.every((name) => name.startsWith("/work/")),
});

describe("rules", () => {
  test("deny beats ask beats allow, in every mode", async () => {
    const rules = { allow: ["bash"], ask: ["bash(git *)"], deny: ["bash(git push*)"] };
    const of = (command: string) => ask({ tool: bash, mode: "auto", subject: { commands: [command] } }, rules);
    expect(await of("git push origin")).toMatchObject({ effect: "deny", byRule: true });
    expect(await of("git status")).toMatchObject({ effect: "ask", byRule: true });
    expect(await of("ls")).toMatchObject({ effect: "allow", byRule: true });
  });

  test("an allow must cover every command of a line, a deny any of them", async () => {
    const commands = ["git status", "rm -rf ."];
    expect(
      await ask(
        { tool: bash, mode: "plan", subject: { commands }, sandbox: async () => "none" },
        { allow: ["bash(git*)"] },
      ),
    ).toMatchObject({
      effect: "deny",
    });
    expect(await ask({ tool: bash, mode: "auto", subject: { commands } }, { deny: ["bash(rm *)"] })).toMatchObject({
      effect: "deny",
    });
  });

  test("` *` at the end: further words or none, but no longer word; a denied program is denied by its path too", async () => {
    const effect = async (command: string) =>
      (
        await ask(
          { tool: bash, subject: { commands: [command] }, sandbox: async () => "none" },
          { allow: ["bash(npm run *)"], deny: ["bash(git push*)"] },
        )
      ).effect;
    expect(await Promise.all(["npm run", "npm run x", "npm run-script x", "/usr/bin/git push"].map(effect))).toEqual([
      "allow",
      "allow",
      "ask",
      "deny",
    ]);
    expect((await ask({ tool: bash, subject: { commands: ["rm *"] } }, { deny: ["bash(rm \\*)"] })).effect).toBe(
      "deny",
    );
    expect((await ask({ tool: bash, subject: { commands: ["rm x"] } }, { deny: ["bash(rm \\*)"] })).effect).toBe(
      "allow",
    );
  });

  test("a line that cannot be parsed asks where there are rules about commands", async () => {
    const subject = { commands: null };
    expect(await ask({ tool: bash, subject }, { deny: ["bash(rm *)"] })).toMatchObject({ effect: "ask" });
    expect(await ask({ tool: bash, subject }, { allow: ["bash(git*)"] })).toMatchObject({
      effect: "allow",
      byRule: false,
    });
    expect(await ask({ tool: bash, subject, sandbox: async () => "none" }, { allow: ["bash(git*)"] })).toMatchObject({
      effect: "ask",
    });
  });

  test("paths: a bare name fits anywhere, a path from the workspace, ** across folders", async () => {
    const deny = ["read(.env)", "read(secrets/**)"];
    expect((await ask({ subject: paths("/work/a/.env") }, { deny })).effect).toBe("deny");
    expect((await ask({ subject: paths("/work/ok", "/work/secrets/x/y") }, { deny })).effect).toBe("deny");
    expect((await ask({ subject: paths("/work/src/a.ts") }, { deny })).effect).toBe("allow");
    const allow = ["write(src/*.ts)"];
    expect((await ask({ tool: write, subject: paths("/work/src/a.ts") }, { allow })).effect).toBe("allow");
    expect((await ask({ tool: write, subject: paths("/work/src/x/a.ts") }, { allow })).effect).toBe("ask");
    expect((await ask({ tool: write, subject: paths("/workspace/src/a.ts") }, { allow })).effect).toBe("ask");
  });

  test("a path that may not be read may not be searched, one that may not be written may not be edited", async () => {
    const grep = toolOf("grep", run);
    const edit = toolOf("edit", run, { access: "write" });
    const rules = { deny: ["read(.env)", "write(src/**)"] };
    expect((await ask({ tool: grep, subject: paths("/work/.env") }, rules)).effect).toBe("deny");
    expect((await ask({ tool: edit, mode: "auto", subject: paths("/work/src/a.ts") }, rules)).effect).toBe("deny");
    expect((await ask({ tool: grep, subject: paths("/work/src") }, { deny: ["read"] })).effect).toBe("allow");
  });

  test("MCP tools are named by server and tool, in each spelling, and by glob", async () => {
    for (const rule of ["files__write_file", "files:write_file", "files__*"]) {
      expect((await ask({ tool: mcp }, { allow: [rule] })).effect).toBe("allow");
    }
    expect((await ask({ tool: mcp }, { allow: ["write_file"] })).effect).toBe("ask");
  });

  test("M12 a changed tool asks again, whatever was allowed", async () => {
    expect(
      (await ask({ tool: { ...mcp, changed: "description" }, mode: "auto" }, { allow: ["files__*"] })).effect,
    ).toBe("ask");
  });
});

describe("modes decide what no rule names", () => {
  test.each([
    ["ask", read, "allow"],
    ["ask", write, "ask"],
    ["ask", mcp, "ask"],
    ["accept-edits", write, "allow"],
    ["accept-edits", mcp, "ask"],
    ["plan", read, "allow"],
    ["plan", write, "deny"],
    ["plan", mcp, "deny"],
    ["auto", write, "allow"],
    ["auto", mcp, "allow"],
  ] as const)("%s %o", async (mode, tool, effect) => {
    expect((await ask({ mode, tool, subject: tool.server === "rotunda" ? paths("/work/x") : {} })).effect).toBe(effect);
  });

  test("outside the workspace, reading asks and accept-edits does not reach", async () => {
    expect((await ask({ subject: paths("/etc/passwd") })).effect).toBe("ask");
    expect((await ask({ tool: write, mode: "accept-edits", subject: paths("/etc/passwd") })).effect).toBe("ask");
  });

  test("nobody is asked for what a tool would refuse all the same: one that never leaves the workspace", async () => {
    const tool = { ...read, confined: true as const };
    for (const mode of ["ask", "auto", "plan"] as const) {
      const rules = { allow: ["read(/etc/**)"] };
      expect((await ask({ tool, mode, subject: paths("/etc/passwd") }, rules)).effect).toBe("deny");
    }
    expect((await ask({ tool, subject: paths("/work/x") })).effect).toBe("allow");
  });

  test("B11 a read-only agent writes nothing, whatever is allowed; its shell needs the sandbox", async () => {
    const readOnly = { readOnly: true, mode: "auto" } as const;
    expect((await ask({ ...readOnly, tool: write, subject: paths("/work/x") }, { allow: ["write"] })).effect).toBe(
      "deny",
    );
    expect((await ask({ ...readOnly, tool: bash, subject: { commands: ["ls"] } })).effect).toBe("allow");
    expect(
      (await ask({ ...readOnly, tool: bash, subject: { commands: ["ls"] }, sandbox: async () => "none" })).effect,
    ).toBe("deny");
  });

  test("without a sandbox, bash asks in every mode unless a rule allows it", async () => {
    const subject = { commands: ["ls"] };
    const sandbox = async () => "none" as const;
    for (const mode of ["ask", "accept-edits", "auto"] as const) {
      expect((await ask({ tool: bash, subject, mode, sandbox })).effect).toBe("ask");
      expect((await ask({ tool: bash, subject, mode, sandbox }, { allow: ["bash(ls*)"] })).effect).toBe("allow");
    }
  });
});

test("rules are read, patterns made, modes compared", () => {
  expect(parseRule("bash(git log (x))")).toEqual({ tool: "bash", pattern: "git log (x)" });
  expect(parseRule(" read ")).toEqual({ tool: "read", pattern: null });
  expect(patternFor(bash, { commands: ["git status -s"] }, "/work")).toBe("bash(git status *)");
  expect(patternFor(bash, { commands: ["rm a.tmp"] }, "/work")).toBe("bash(rm a.tmp)");
  expect(patternFor(bash, { commands: ["git status", "rm x"] }, "/work")).toBe("bash()");
  expect(patternFor(read, paths("/etc/a", "/etc/b"), "/work")).toBe("read()");
  expect(patternFor(write, paths("/work/src/a.ts"), "/work")).toBe("write(src/a.ts)");
  expect(patternFor(mcp, {}, "/work")).toBe("files__write_file");
  expect(stricter("auto", "plan")).toBe("plan");
});

test("what the sandbox would let a command throw away is asked about, but not in mode auto, nor where nothing is written", async () => {
  const subject = { commands: ["rm -rf src"], throwsAway: true };
  expect(await ask({ tool: bash, subject })).toMatchObject({ effect: "ask", why: expect.stringContaining("deletes") });
  expect((await ask({ tool: bash, subject, mode: "accept-edits" })).effect).toBe("ask");
  expect((await ask({ tool: bash, subject }, { allow: ["bash(rm *)"] })).effect).toBe("allow");
  expect((await ask({ tool: bash, subject, mode: "auto" })).effect).toBe("allow");
  expect((await ask({ tool: bash, subject, mode: "plan" })).effect).toBe("allow");
  expect((await ask({ tool: bash, subject, readOnly: true })).effect).toBe("allow");
});
