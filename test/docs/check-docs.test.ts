/**
 * The documentation's gate is shown to fail: a violation is planted in a copy of the project, and the check
 * must name it.
 */
import { spawnSync } from "node:child_process";
import { appendFileSync, cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "../support.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const COPIED = [
  "src",
  "scripts",
  "docs",
  "schema",
  "examples",
  "deploy",
  "reliability",
  "test/promises.ts",
  "package.json",
  "LICENSE",
];
const PAGES = ["README.md", "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md"];

function copy(): string {
  const root = temporaryFolder();
  for (const name of [...COPIED, ...PAGES]) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    cpSync(join(ROOT, name), join(root, name), { recursive: true });
  }
  symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
  return root;
}

function check(root: string, ...flags: string[]): { status: number | null; told: string } {
  const args = [join(root, "scripts", "check-docs.ts"), ...flags];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
  return { status, told: stdout + stderr };
}

/** Replaces the one place where `from` stands. */
function edit(root: string, path: string, from: string, to: string): void {
  const text = readFileSync(join(root, path), "utf8");
  expect(text.split(from), `${path} holds ${from} once`).toHaveLength(2);
  writeFileSync(
    join(root, path),
    text.replace(from, () => to),
  );
}

test("the documentation is in order", () => {
  expect(check(ROOT)).toEqual({ status: 0, told: "documentation: in order\n" });
});

describe("a gap is named", () => {
  const cases: [what: string, path: string, from: string, to: string, problem: string][] = [
    ["an error without a row", "docs/errors.md", "| `denied` |", "| denied |", "the error denied is not documented"],
    ["a row without an error", "src/types/error.ts", "  denied: {", "  refused: {", "the error denied does not exist"],
    [
      "another exit code",
      "docs/errors.md",
      "| `denied` | 403 | 1 |",
      "| `denied` | 403 | 4 |",
      '`denied` stands as "403 4 no"',
    ],
    ["an exit code", "docs/command-line.md", "| `124` |", "| `125` |", "the exit code 124 is not documented"],
    [
      "a key without a row",
      "src/config/schema.ts",
      "  advice: z.boolean().optional(),\n});\n\nexport",
      "  advice: z.boolean().optional(),\n  colour: z.string().optional(),\n});\n\nexport",
      "the key colour is not documented",
    ],
    [
      "a key of another kind",
      "docs/configuration.md",
      "| `toolOutputLimit` | number |",
      "| `toolOutputLimit` | text |",
      '`toolOutputLimit` stands as "text"',
    ],
    ["a row without a key", "docs/configuration.md", "| `advice` |", "| `advise` |", "the key advise does not exist"],
    ["a variable", "docs/configuration.md", "`ROTUNDA_MODE`", "`ROTUNDA_MOOD`", "ROTUNDA_MODE is not documented"],
    ["a dependency", "package.json", '"vitest":', '"vitesse":', "the dependency vitesse is not documented"],
    ["a folder", "AGENTS.md", "src/hub/   ", "src/hop/   ", "the folder src/hub/ is not documented"],
    ["a route", "src/doors/http/core-routes.ts", '"/readyz"', '"/ready"', "docs/http.md: a generated part"],
    [
      "a route in the text",
      "docs/http.md",
      "`POST /v1/responses/{id}/steer` with",
      "`POST /v1/responses/{id}/stear` with",
      "there is no route POST /v1/responses/{id}/stear",
    ],
    [
      "a route in a curl line",
      "README.md",
      "$OPENAI_BASE_URL/chat/completions",
      "$OPENAI_BASE_URL/chat/completion",
      "a curl line calls /v1/chat/completion,",
    ],
    ["a scope", "docs/http.md", "| `mcp:admin` | no |", "| `mcp:admin` | yes |", 'stands as "yes" for a new token'],
    [
      "a metric",
      "docs/http.md",
      "| `rotunda_faults_total` |",
      "| `faults` |",
      "rotunda_faults_total is not documented",
    ],
    [
      "a flag of a default command",
      "docs/serving.md",
      "$ rotunda audit verify",
      "$ rotunda audit --loud",
      "has the flag --loud, which audit list does not take",
    ],
    ["a new flag", "src/doors/cli/program.ts", '"--full"', '"--whole"', "docs/command-line.md: a generated part"],
    ["a promise", "test/promises.ts", "A turn ends at its limit", "A turn ends", "docs/promises.md: a generated part"],
    ["a link", "docs/how-it-works.md", "](errors.md)", "](faults.md)", "the link faults.md leads nowhere"],
    ["an anchor", "README.md", "configuration.md#permissions", "configuration.md#rights", "leads to no heading"],
    ["a command in a snippet", "README.md", "rotunda doctor   ", "rotunda heal   ", "a command that does not exist"],
    [
      "a flag in a snippet",
      "docs/configuration.md",
      "rotunda trust --list",
      "rotunda trust --lost",
      "has the flag --lost, which trust does not take",
    ],
  ];
  test.each(cases)("%s", (_what, path, from, to, problem) => {
    const root = copy();
    edit(root, path, from, to);
    const { status, told } = check(root);
    expect(told).toContain(problem);
    expect(status).toBe(1);
  });

  test("a schema that is missing, and --write makes it anew", () => {
    const root = copy();
    rmSync(join(root, "schema"), { recursive: true });
    appendFileSync(join(root, "README.md"), "\nWhat stands outside the markers stays.\n");
    expect(check(root)).toMatchObject({ status: 1, told: expect.stringContaining("schema/rotunda.schema.json") });
    expect(check(root, "--write")).toMatchObject({ status: 0, told: expect.stringContaining("written: schema/") });
    const made = readFileSync(join(root, "schema", "rotunda.schema.json"), "utf8");
    expect(made).toBe(readFileSync(join(ROOT, "schema", "rotunda.schema.json"), "utf8"));
    expect(readFileSync(join(root, "README.md"), "utf8")).toMatch(/outside the markers stays\.\n$/);
  });
});
