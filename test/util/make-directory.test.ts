/** Folders are made, or it is said why not; in a process of its own, which could not be ended from within. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makeDirectory } from "../../src/util/make-directory.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rotunda-make-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("makes all that is missing, with the mode, and minds nothing that is there", () => {
  makeDirectory(join(folder, "a", "b"), 0o700);
  makeDirectory(join(folder, "a", "b"), 0o700);
  expect(statSync(join(folder, "a")).mode & 0o777).toBe(0o700);
  expect(statSync(join(folder, "a", "b")).mode & 0o777).toBe(0o700);
  writeFileSync(join(folder, "file"), "");
  expect(() => makeDirectory(join(folder, "file", "x"))).toThrow("EEXIST");
  expect(() => makeDirectory(join(folder, "file"))).toThrow("EEXIST");
});

test.skipIf(!existsSync("/proc/self"))("ends where the system makes no folder and gives no reason", () => {
  const source = fileURLToPath(new URL("../../src/util/make-directory.ts", import.meta.url));
  const script = `const { makeDirectory } = await import(${JSON.stringify(source)}); makeDirectory("/proc/no-such/folder");`;
  const { stderr, signal } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
    timeout: 60_000,
  });
  expect(signal).toBe(null);
  expect(stderr).toContain("ENOENT");
});
