/** Every gate is shown to fail once: a violation is planted in a copy, and the checker must name it. */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "./support.ts";

const ROOT = join(import.meta.dirname, "..");

function tree(files: Record<string, string>): string {
  const root = temporaryFolder();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  for (const name of ["biome.json", "tsconfig.json", "package.json"]) copyFileSync(join(ROOT, name), join(root, name));
  symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
  return root;
}

function run(cwd: string, command: string, args: string[]): { status: number | null; text: string } {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: "utf8" });
  return { status, text: stdout + stderr };
}

const lintSize = (root: string) => run(ROOT, process.execPath, [join(ROOT, "scripts", "lint-size.ts"), "--root", root]);
const biome = (root: string) =>
  run(root, join(ROOT, "node_modules", ".bin", "biome"), ["check", "--error-on-warnings", "src"]);

describe("sizes and import directions", () => {
  test("a clean tree passes", () => {
    const root = tree({
      "src/engine/a.ts": 'import type { Json } from "../types/json.ts";\nexport type A = Json;\n',
      "src/types/json.ts": "",
    });
    expect(lintSize(root)).toMatchObject({ status: 0 });
  });

  test.each([
    ["a sibling", "src/engine/a.ts", 'import "../store/b.ts";\n', "engine/ may import only types/ and util/"],
    ["a door in a door", "src/doors/cli/a.ts", 'import "../http/b.ts";\n', "doors/cli/ may import only"],
    ["the app in a part", "src/hub/a.ts", 'const a = await import("../app.ts");\n', "hub/ may import only"],
    ["ours in types", "src/types/a.ts", 'import "../engine/b.ts";\n', "types/ may import only"],
    ["401 lines", "src/engine/a.ts", "// line\n".repeat(401), "401 lines, 400 are allowed"],
    ["too deep", "src/doors/cli/deep/a.ts", "", "at most two folders deep"],
  ])("%s is named", (_name, path, text, problem) => {
    const result = lintSize(tree({ [path]: text }));
    expect(result.status).toBe(1);
    expect(result.text).toContain(problem);
  });
});

describe("the linter", () => {
  test.each([
    [
      "a floating promise",
      "async function run(): Promise<void> {}\nexport function go(): void {\n  run();\n}\n",
      "noFloatingPromises",
    ],
    [
      "a function of 81 lines",
      `export function long(): number {\n  let n = 0;\n${"  n++;\n".repeat(81)}  return n;\n}\n`,
      "noExcessiveLinesPerFunction",
    ],
    ["any", "export const value: any = 1;\n", "noExplicitAny"],
    ["console", 'console.log("x");\n', "noConsole"],
  ])("%s is named", (_name, text, rule) => {
    const { status, text: told } = biome(tree({ "src/a.ts": text }));
    expect(told).toContain(rule);
    expect(status).not.toBe(0);
  });

  test("an import cycle is named", () => {
    const root = tree({
      "src/a.ts": 'import { b } from "./b.ts";\n\nexport const a = (): unknown => b;\n',
      "src/b.ts": 'import { a } from "./a.ts";\n\nexport const b = (): unknown => a;\n',
    });
    const { status, text } = biome(root);
    expect(text).toContain("noImportCycles");
    expect(status).not.toBe(0);
  });
});

test("the compiler's strictness is on", () => {
  const root = tree({ "src/a.ts": "const list: number[] = [];\nexport const first: number = list[0];\n" });
  const { status, text } = run(root, process.execPath, [join(ROOT, "node_modules/typescript/lib/tsc.js"), "--noEmit"]);
  expect(text).toContain("TS2322");
  expect(status).not.toBe(0);
});

test("an older Node is told so in one line with the remedy", () => {
  const older = spawnSync(
    "sh",
    ["-c", "command -v -p node || ls /usr/local/bin/node /usr/bin/node 2>/dev/null | head -n 1"],
    {
      encoding: "utf8",
      env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
    },
  ).stdout.trim();
  const version = older === "" ? "" : run(ROOT, older, ["--version"]).text.trim();
  if (version === "" || Number(version.slice(1).split(".")[0]) >= 24) {
    process.stderr.write("SKIPPED: no Node older than 24 on this machine\n");
    return;
  }
  const { status, text } = run(ROOT, older, ["bin/rotunda.js", "chat", "hello"]);
  expect(status).toBe(2);
  expect(text).toMatch(/^rotunda: needs Node\.js 24 or newer, this is v\d+\.\d+\.\d+\. Install .*\n$/);
});
