/** glob and grep (parity F9, F10; fault table T1, T8, T9). */
import { execFileSync } from "node:child_process";
import { linkSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createGlobTool } from "../../src/tools/glob.ts";
import { compilePattern } from "../../src/tools/glob-pattern.ts";
import { createGrepTool } from "../../src/tools/grep.ts";
import type { JsonObject } from "../../src/types/json.ts";
import { detectSandbox } from "../../src/util/sandbox.ts";
import { context } from "./context.ts";

let base: string;
let workspace: string;
beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "rotunda-search-")));
  workspace = join(base, "w");
  mkdirSync(workspace);
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

function put(path: string, content = "x\n"): void {
  mkdirSync(dirname(join(workspace, path)), { recursive: true });
  writeFileSync(join(workspace, path), content);
}

describe.each(["auto", "none"] as const)("with sandbox %s", (preference) => {
  const options = { sandbox: () => detectSandbox(preference) };
  const globTool = createGlobTool(options);
  const grepTool = createGrepTool(options);
  const glob = (input: JsonObject) => globTool.run(input, context(workspace));
  const grep = (input: JsonObject) => grepTool.run(input, context(workspace));

  describe("F9 T9 glob", () => {
    test("takes ** anywhere, answers sorted paths of the workspace", async () => {
      for (const path of [
        "b.ts",
        "a.ts",
        "src/x.ts",
        "src/a/test/y.ts",
        "src/a/b/test/z.ts",
        "src/test/t.ts",
        ".hidden/h.ts",
        "src/x.js",
      ])
        put(path);
      expect((await glob({ pattern: "*.ts" })).text).toBe("a.ts\nb.ts");
      expect((await glob({ pattern: "**/*.ts" })).text.split("\n")).toEqual([
        ".hidden/h.ts",
        "a.ts",
        "b.ts",
        "src/a/b/test/z.ts",
        "src/a/test/y.ts",
        "src/test/t.ts",
        "src/x.ts",
      ]);
      expect((await glob({ pattern: "src/**/test/*.ts" })).text).toBe(
        "src/a/b/test/z.ts\nsrc/a/test/y.ts\nsrc/test/t.ts",
      );
      expect((await glob({ pattern: "**/a/**/*.{ts,js}" })).text).toBe("src/a/b/test/z.ts\nsrc/a/test/y.ts");
      expect((await glob({ pattern: "x.*", path: "src" })).text).toBe("src/x.js\nsrc/x.ts");
      expect((await glob({ pattern: `${workspace}/src/*.js` })).text).toBe("src/x.js");
      expect((await glob({ pattern: "src/test/" })).text).toBe("src/test/t.ts");
      expect(await glob({ pattern: "*.go" })).toEqual({ text: "No files found" });
    });

    test("leaves out .git, node_modules and what .gitignore files exclude", async () => {
      for (const path of [
        ".git/x.ts",
        "node_modules/m/i.ts",
        "dist/d.ts",
        "src/keep.ts",
        "src/gone.ts",
        "src/deep/gone.ts",
        "src/deep/kept.ts",
      ])
        put(path);
      put(".gitignore", "dist/\ngone.ts\n");
      put("src/deep/.gitignore", "!gone.ts\n");
      expect((await glob({ pattern: "**/*.ts" })).text).toBe("src/deep/gone.ts\nsrc/deep/kept.ts\nsrc/keep.ts");
      expect((await glob({ pattern: "node_modules/*/*.ts" })).text).toBe("node_modules/m/i.ts");
    });

    test("does not follow links and skips what is no file", async () => {
      put("a/file.ts");
      symlinkSync("..", join(workspace, "a", "loop"));
      symlinkSync("/etc", join(workspace, "etc"));
      execFileSync("mkfifo", [join(workspace, "pipe.ts")]);
      expect((await glob({ pattern: "**" })).text).toBe("a/file.ts");
    });

    test("stays in the workspace", async () => {
      writeFileSync(join(base, "secret"), "x");
      for (const input of [
        { pattern: "../*" },
        { pattern: "a/../../*" },
        { pattern: "{..,a}/*" },
        { pattern: "/etc/*" },
        { pattern: "*", path: ".." },
        { pattern: "*", path: "/etc" },
      ]) {
        const { text, isError } = await glob(input);
        expect(isError, JSON.stringify(input)).toBe(true);
        expect(text).not.toContain("secret");
      }
      expect(await glob({ pattern: "*", path: "none" })).toEqual({
        text: "none: no such file or directory",
        isError: true,
      });
      expect(await glob({})).toEqual({ text: "pattern is required", isError: true });
    });

    test("is bounded in number", async () => {
      for (let index = 0; index < 1100; index++) put(`many/${index}`);
      const lines = (await glob({ pattern: "**" })).text.split("\n");
      expect(lines.length).toBe(1001);
      expect(lines.at(-1)).toContain("more than 1000");
    });
  });

  describe("F10 grep", () => {
    test("answers path:line:text", async () => {
      put("a.ts", "one\ntwo foo\nthree\n");
      put("b/c.js", "Foo\r\nfoo\r\n");
      expect((await grep({ pattern: "foo" })).text).toBe("a.ts:2:two foo\nb/c.js:2:foo");
      expect((await grep({ pattern: "FOO", case_insensitive: true, path: "b" })).text).toBe(
        "b/c.js:1:Foo\nb/c.js:2:foo",
      );
      expect((await grep({ pattern: "foo", file_pattern: "*.ts" })).text).toBe("a.ts:2:two foo");
      expect((await grep({ pattern: "foo", file_pattern: "b/**/*.js" })).text).toBe("b/c.js:2:foo");
      expect((await grep({ pattern: "^t\\w+e$", path: "a.ts" })).text).toBe("a.ts:3:three");
      expect(await grep({ pattern: "nowhere" })).toEqual({ text: "No matches found" });
    });

    test("leaves out ignored, hidden by git, binary and linked files", async () => {
      put(".gitignore", "ignored*\n");
      put("ignored.ts", "needle");
      put(".git/x", "needle");
      put("node_modules/m/x", "needle");
      put("binary", "needle\0");
      put("seen", "needle");
      writeFileSync(join(base, "secret"), "needle");
      symlinkSync(join(base, "secret"), join(workspace, "soft"));
      linkSync(join(base, "secret"), join(workspace, "hard"));
      expect((await grep({ pattern: "needle" })).text).toBe("seen:1:needle");
      expect((await grep({ pattern: "needle", file_pattern: "*.ts" })).text).toBe("No matches found");
      expect((await grep({ pattern: "needle", path: "node_modules/m" })).text).toBe("node_modules/m/x:1:needle");
    });

    test("a bad expression and bad paths are told", async () => {
      put("a");
      execFileSync("mkfifo", [join(workspace, "fifo")]);
      expect(await grep({ pattern: "(" })).toMatchObject({
        isError: true,
        text: expect.stringContaining("unclosed group"),
      });
      expect(await grep({ pattern: "(?=a)" })).toMatchObject({ isError: true });
      expect(await grep({ pattern: "x", path: "../" })).toMatchObject({
        isError: true,
        text: expect.stringContaining(`outside the workspace ${workspace}`),
      });
      expect(await grep({ pattern: "x", path: "fifo" })).toMatchObject({ isError: true });
      expect(await grep({ pattern: "--version" })).toEqual({ text: "No matches found" });
      expect(await grep({ pattern: "x", file_pattern: "--pre=touch" })).toMatchObject({ text: "No matches found" });
    });

    test("T8 a hostile expression, long lines and many matches are bounded", async () => {
      put("hostile", `${"a".repeat(5000)}!\n`);
      expect((await grep({ pattern: "^(a+)+$" })).text).toBe("No matches found");
      put("long", `${"x".repeat(3_000_000)}needle\n`);
      const long = (await grep({ pattern: "needle" })).text;
      expect(long.length).toBeLessThan(2000);
      expect(long).toMatch(/^long:1:xxx/);
      put("many", "y\n".repeat(5000));
      const lines = (await grep({ pattern: "y" })).text.split("\n");
      expect(lines.length).toBe(1001);
      expect(lines.at(-1)).toContain("more than 1000");
    });

    test("is cancelled with the call", async () => {
      put("a");
      expect(await grepTool.run({ pattern: "x" }, context(workspace, { signal: AbortSignal.abort() }))).toMatchObject({
        isError: true,
      });
    });

    test("its subject is the folder that it searches", async () => {
      expect(await grepTool.subject?.({ pattern: "x" }, workspace)).toEqual({ paths: [workspace], inside: true });
      expect(await globTool.subject?.({ pattern: "x", path: "/etc" }, workspace)).toEqual({
        paths: [realpathSync("/etc")],
        inside: false,
      });
    });
  });
});

describe("compilePattern", () => {
  test.each<[string, string[], string[]]>([
    ["*.go", ["a.go", ".go"], ["a/b.go", "a.goo"]],
    ["**", ["a", "a/b/c"], []],
    ["**/*.go", ["a.go", "x/y/a.go"], ["a.g"]],
    ["a/**/b", ["a/b", "a/x/y/b"], ["a", "b", "a/bb"]],
    ["a/**", ["a/b", "a/b/c"], ["ab"]],
    ["[a-c]?[!x].ts", ["abc.ts"], ["dbc.ts", "abx.ts"]],
    ["{a,b{c,d}}.ts", ["a.ts", "bc.ts", "bd.ts"], ["b.ts"]],
    ["\\*.{ts", ["*.{ts"], ["a.{ts"]],
    ["[x", ["[x"], ["x"]],
    ["./a/./b", ["a/b"], ["b"]],
  ])("%s", (pattern, yes, no) => {
    const matches = compilePattern(pattern);
    for (const path of yes) expect(matches(path), path).toBe(true);
    for (const path of no) expect(matches(path), path).toBe(false);
  });

  test("agrees with the obvious definition", () => {
    const slow = (parts: string[], names: string[]): boolean => {
      const [part, ...rest] = parts;
      if (part === undefined) return names.length === 0;
      if (part === "**")
        return Array.from({ length: names.length + 1 }, (_, n) => n).some((n) => slow(rest, names.slice(n)));
      const name = names[0];
      if (name === undefined) return false;
      return (
        new RegExp(`^${part.replaceAll("*", ".*").replaceAll("?", ".")}$`).test(name) && slow(rest, names.slice(1))
      );
    };
    const part = fc.oneof(
      fc.constant("**"),
      fc.stringMatching(/^[ab?]{1,3}$/),
      fc.stringMatching(/^[ab]?\*[ab]?(\*[ab])?$/),
    );
    const name = fc.stringMatching(/^[ab]{1,4}$/);
    fc.assert(
      fc.property(
        fc.array(part, { minLength: 1, maxLength: 5 }),
        fc.array(name, { minLength: 1, maxLength: 5 }),
        (parts, names) => {
          fc.pre(!parts.includes("*a*") || true);
          expect(compilePattern(parts.join("/"))(names.join("/"))).toBe(slow(parts, names));
        },
      ),
      { numRuns: 2000 },
    );
  });

  test("hostile patterns take no time and too many alternatives are refused", () => {
    const matches = compilePattern(`${"*a".repeat(100)}b`);
    const started = process.cpuUsage();
    for (let round = 0; round < 100; round++) expect(matches("a".repeat(255))).toBe(false);
    expect(process.cpuUsage(started).user).toBeLessThan(5_000_000);
    expect(compilePattern(`${"**/a/".repeat(80)}b`)("a/".repeat(2000))).toBe(false);
    expect(() => compilePattern("{".repeat(950) + "{b,c}".repeat(8))).toThrow("too long to match");
    const many = compilePattern(`**/*${"a".repeat(120)}${"{b,c}".repeat(8)}`);
    const deep = Array.from({ length: 15 }, () => "a".repeat(250)).join("/");
    const began = performance.now();
    expect(() => {
      for (let file = 0; file < 400; file++) many(deep);
    }).toThrow("too long to match");
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(() => compilePattern("{a,b}".repeat(20))).toThrow("alternatives");
    expect(() => compilePattern("a".repeat(2000))).toThrow("longer");
  });
});
