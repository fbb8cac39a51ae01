/** The example of docs/library.md runs, as a reader would run it: the built package, imported by its name. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../support.ts";

const ROOT = join(import.meta.dirname, "..", "..");

test("N23 examples/library.ts: a tool, a model, events, a logger, branches, chat with a history", () => {
  const home = temporaryFolder();
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, "examples", "library.ts")], {
    cwd: home,
    encoding: "utf8",
    env: { PATH: process.env.PATH, HOME: home },
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const lines = stdout.trimEnd().split("\n");
  expect(lines).toContain("news: counting teapots");
  expect(lines).toContainEqual(expect.stringMatching(/^event \d+: mcp_call$/));
  expect(lines.slice(-4)).toEqual([
    "answer: There are 12 teapots.",
    "status: completed, model calls: 2",
    "branches: true",
    "chat: I was told 1 things so far. (4 messages)",
  ]);
});
