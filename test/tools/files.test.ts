/** read, write and edit on real files (parity F6, F8). */
import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { editTool } from "../../src/tools/edit.ts";
import { readTool } from "../../src/tools/read.ts";
import { writeTool } from "../../src/tools/write.ts";
import type { JsonObject } from "../../src/types/json.ts";
import { unifiedDiff } from "../../src/util/diff.ts";
import { context } from "./context.ts";

let workspace: string;
beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), "rotunda-files-")));
  put("three", "one\ntwo\nthree\n");
  put("two", "a\nb");
});
afterEach(() => rmSync(workspace, { recursive: true, force: true }));

const put = (path: string, content: string) => writeFileSync(join(workspace, path), content);
const get = (path: string) => readFileSync(join(workspace, path), "utf8");
const read = (...files: JsonObject[]) => readTool.run({ files }, context(workspace));
const edit = (file_path: string, ...edits: JsonObject[]) => editTool.run({ file_path, edits }, context(workspace));
const write = (file_path: string, content: string) => writeTool.run({ file_path, content }, context(workspace));

describe("F6 read", () => {
  test("one whole file is its bare text", async () => {
    expect(await read({ file_path: "three" })).toEqual({ text: "one\ntwo\nthree\n" });
    expect(await read({ file_path: join(workspace, "two") })).toEqual({ text: "a\nb" });
  });

  test.each([
    [{ from: 2 }, "File: three (lines 2-3, returned 2 lines)\ntwo\nthree"],
    [{ to: 2 }, "File: three (lines 1-2, returned 2 lines)\none\ntwo"],
    [{ from: 2, to: 2 }, "File: three (lines 2-2, returned 1 lines)\ntwo"],
    [{ from: 3, to: 99 }, "File: three (lines 3-3, returned 1 lines)\nthree"],
  ])("lines %j", async (range, text) => {
    expect(await read({ file_path: "three", ...range })).toEqual({ text });
  });

  test("an image is named, and stands beside; one that is too large is refused", async () => {
    const bytes = Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), Buffer.alloc(20)]);
    writeFileSync(join(workspace, "shot.png"), bytes);
    expect(await read({ file_path: "shot.png" })).toEqual({
      text: "[Image: image/png, 28 bytes]",
      images: [{ type: "input_image", image_url: `data:image/png;base64,${bytes.toString("base64")}` }],
    });
    const both = await read({ file_path: "shot.png" }, { file_path: "two" });
    expect([both.text.includes("[Image: image/png"), both.images?.length]).toEqual([true, 1]);
    truncateSync(join(workspace, "shot.png"), 6_000_000);
    expect(await read({ file_path: "shot.png" })).toMatchObject({
      isError: true,
      text: expect.stringContaining("is an image of 6000000 bytes"),
    });
  });

  test("several files have titles, and a bad one does not spoil the others", async () => {
    const { text, isError } = await read(
      { file_path: "three", from: 1, to: 1 },
      { file_path: "none" },
      { file_path: "two" },
    );
    expect(text).toBe(
      "=== File 1/3: three (lines 1-1, returned 1 lines) ===\none\n\n=== File 2/3: none ===\nfile #2 (none): no such file or directory\n\n=== File 3/3: two ===\na\nb\n",
    );
    expect(isError).toBeUndefined();
    expect((await read({ file_path: "none" }, { file_path: "also-none" })).isError).toBe(true);
  });

  test.each<[JsonObject, string]>([
    [{ file_path: "three", from: 3, to: 2 }, "file #1 (three): invalid line range: from (3) > to (2)"],
    [{ file_path: "three", from: 4 }, "file #1 (three): no lines in specified range (file has 3 lines)"],
    [{ file_path: "two", from: 3 }, "file #1 (two): no lines in specified range (file has 2 lines)"],
    [{ file_path: "three", from: 0 }, "file #1 (three): from must be a whole number of at least 1"],
    [{ file_path: "." }, 'file #1 (.): "." is a directory'],
    [{}, "file #1 (): file_path is required"],
  ])("%j", async (file, text) => {
    expect(await read(file)).toEqual({ text, isError: true });
  });

  test("too many, none, and no list", async () => {
    const nine = Array.from({ length: 9 }, () => ({ file_path: "two" }));
    expect((await read(...nine)).text).toBe("too many files requested (max 8, got 9)");
    expect((await read()).isError).toBe(true);
    expect(await readTool.run({ files: "two" }, context(workspace))).toEqual({
      text: "files must be a list",
      isError: true,
    });
    expect(await readTool.run({}, context(workspace))).toEqual({ text: "files is required", isError: true });
    // One file as other programs' tools name it, by the same rules.
    const one = { file_path: "three", from: 2, to: 2 };
    expect(await readTool.run(one, context(workspace))).toEqual(
      await readTool.run({ files: [one] }, context(workspace)),
    );
    expect(await readTool.subject?.(one, workspace)).toEqual(await readTool.subject?.({ files: [one] }, workspace));
  });

  test("an empty file, a binary file, a FIFO, a huge file", async () => {
    put("empty", "");
    put("binary", "a\0b");
    execFileSync("mkfifo", [join(workspace, "fifo")]);
    put("huge", "first\nsecond\n");
    truncateSync(join(workspace, "huge"), 3 * 1024 ** 3);
    expect((await read({ file_path: "empty" })).text).toBe("(the file is empty)");
    expect(await read({ file_path: "binary" })).toMatchObject({
      isError: true,
      text: expect.stringContaining("is a binary file"),
    });
    expect(await read({ file_path: "fifo" })).toMatchObject({
      isError: true,
      text: expect.stringContaining("not a regular file"),
    });
    expect(await read({ file_path: "huge" })).toMatchObject({
      isError: true,
      text: expect.stringContaining("from and to"),
    });
  });

  test("lines of a big file are read without reading the rest", async () => {
    const line = `${"x".repeat(999)}\n`;
    put("big", line.repeat(30_000));
    const { text } = await read({ file_path: "big", from: 29_999 });
    expect(text).toContain("(lines 29999-30000, returned 2 lines)");
    expect((await read({ file_path: "big" })).isError).toBe(true);
    expect((await read({ file_path: "big", from: 1 })).isError).toBe(true);
  });

  test("ranges agree with the lines of the text", async () => {
    const line = fc.stringMatching(/^[a-zé\r]{0,300}$/);
    await fc.assert(
      fc.asyncProperty(fc.array(line, { minLength: 1, maxLength: 30 }), fc.nat(29), fc.nat(29), async (lines, a, b) => {
        put("any", `${lines.join("\n")}\n`);
        const [from, to] = [Math.min(a, b) + 1, Math.max(a, b) + 1];
        const { text, isError } = await read({ file_path: "any", from, to });
        if (from > lines.length) expect(isError).toBe(true);
        else
          expect(text.slice(text.indexOf("\n") + 1)).toBe(
            lines
              .slice(from - 1, to)
              .join("\n")
              .replace(/\r$/, ""),
          );
      }),
    );
  });

  test("nothing outside the workspace", async () => {
    symlinkSync("/etc", join(workspace, "etc"));
    for (const path of [
      "/etc/passwd",
      "../../etc/passwd",
      "etc/passwd",
      "/proc/self/root/etc/passwd",
      "/proc/self/environ",
    ]) {
      const { text, isError } = await read({ file_path: path });
      expect(isError).toBe(true);
      expect(text).toContain(`outside the workspace ${workspace}`);
    }
  });

  test("its subject is what it would open", async () => {
    symlinkSync("/etc/passwd", join(workspace, "link"));
    const subject = await readTool.subject?.({ files: [{ file_path: "three" }, { file_path: "link" }] }, workspace);
    expect(subject).toEqual({ paths: [join(workspace, "three"), realpathSync("/etc/passwd")], inside: false });
    expect(await readTool.subject?.({ files: [{ file_path: "three" }] }, workspace)).toMatchObject({ inside: true });
    expect(await readTool.subject?.({ files: [null, 3, { file_path: 4 }] }, workspace)).toEqual({
      paths: [],
      inside: true,
    });
  });
});

describe("F8 write", () => {
  test("creates with folders and replaces", async () => {
    expect(await write("x/y/new", "héllo")).toMatchObject({ text: "Successfully wrote 6 bytes to x/y/new" });
    expect(get("x/y/new")).toBe("héllo");
    const { display } = await write("three", "one\n2\nthree\n");
    expect(display).toEqual({
      kind: "diff",
      text: "--- a/three\n+++ b/three\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three",
    });
    expect(await write("none", "")).toEqual({ text: "Successfully wrote 0 bytes to none" });
  });

  test("refuses what is outside or protected, and says which", async () => {
    for (const path of ["../x", "/etc/x", ".git/hooks/pre-commit", ".mcp.json", "rotunda.yaml"]) {
      const { text, isError } = await write(path, "x");
      expect(isError).toBe(true);
      expect(text).toMatch(/^could not write .*(outside the workspace|is protected)/);
    }
    expect(readdirSync(workspace).sort()).toEqual(["three", "two"]);
    expect(await writeTool.run({ file_path: "x" }, context(workspace))).toEqual({
      text: "content is required",
      isError: true,
    });
    expect(await write("three/x", "y")).toMatchObject({ isError: true });
  });
});

describe("edit", () => {
  test("several edits, each on the result of the one before", async () => {
    const { text, display, isError } = await edit(
      "three",
      { old_string: "one", new_string: "two" },
      { old_string: "two\ntwo", new_string: "2" },
    );
    expect(isError).toBeUndefined();
    expect(text).toBe("Successfully made 2 edits to three");
    expect(display?.kind).toBe("diff");
    expect(get("three")).toBe("2\nthree\n");
  });

  test("all or nothing", async () => {
    const { text, isError } = await edit(
      "three",
      { old_string: "one", new_string: "1" },
      { old_string: "four", new_string: "4" },
    );
    expect(isError).toBe(true);
    expect(text).toContain("edit #2: old_string was not found in three");
    expect(get("three")).toBe("one\ntwo\nthree\n");
  });

  test("T9 reading lines of a file that is mostly a hole ends with its call", async () => {
    writeFileSync(join(workspace, "holes"), `${"a".repeat(20_000)}\n`);
    execFileSync("truncate", ["-s", "8T", join(workspace, "holes")]);
    const input = { files: [{ file_path: "holes", from: 3, to: 4 }] };
    const { isError, text } = await readTool.run(input, { ...context(workspace), signal: AbortSignal.timeout(200) });
    expect([isError, text]).toEqual([true, expect.stringContaining("cancelled")]);
  });

  test("T4 edits that would make a file grow without bound are refused, and it stays", async () => {
    writeFileSync(join(workspace, "small"), "a");
    const doubling = Array.from({ length: 28 }, () => ({ old_string: "a", new_string: "aa", replace_all: true }));
    const { isError, text } = await edit("small", ...doubling);
    expect(isError, text).toBe(true);
    expect(text).toContain("would have more than");
    expect(readFileSync(join(workspace, "small"), "utf8")).toBe("a");
  });

  test("not unique, and replace_all", async () => {
    put("same", "x x x");
    expect((await edit("same", { old_string: "x", new_string: "y" })).text).toContain("occurs 3 times");
    expect((await edit("same", { old_string: "x", new_string: "$& $1", replace_all: true })).isError).toBeUndefined();
    expect(get("same")).toBe("$& $1 $& $1 $& $1");
  });

  test("line endings stay", async () => {
    put("dos", "a\r\nb\r\nc\r\n");
    await edit("dos", { old_string: "a\nb", new_string: "a\nx\nb" });
    expect(get("dos")).toBe("a\r\nx\r\nb\r\nc\r\n");
    put("mixed", "a\r\nb\nc\n");
    await edit("mixed", { old_string: "b\nc", new_string: "b\nd" }, { old_string: "a\nb", new_string: "z\nb" });
    expect(get("mixed")).toBe("z\r\nb\nd\n");
  });

  test.each<[JsonObject, string]>([
    [{ old_string: "", new_string: "x" }, "edit #1: old_string cannot be empty"],
    [{ old_string: "one", new_string: "one" }, "edit #1: old_string and new_string are the same"],
    [{ old_string: "one" }, "edit #1: new_string is required"],
    [{ old_string: "one", new_string: "x", replace_all: "yes" }, "edit #1: replace_all must be true or false"],
    [{ old_string: "one  two", new_string: "x" }, "differs in spaces or line breaks"],
  ])("%j", async (one, message) => {
    const { text, isError } = await edit("three", one);
    expect(isError).toBe(true);
    expect(text).toContain(message);
    expect(get("three")).toBe("one\ntwo\nthree\n");
  });

  test("a missing file, a file that is not text, a protected one, no edits", async () => {
    writeFileSync(join(workspace, "latin1"), Buffer.from([0x61, 0xe9, 0x62]));
    mkdirSync(join(workspace, ".git"));
    put(".git/config", "a");
    expect((await edit("none", { old_string: "a", new_string: "b" })).text).toBe(
      "could not edit none: no such file or directory",
    );
    expect((await edit("latin1", { old_string: "a", new_string: "b" })).text).toContain("not UTF-8");
    expect((await edit(".git/config", { old_string: "a", new_string: "b" })).text).toContain("is protected");
    expect((await edit("three")).text).toBe("edits must hold at least one edit");
    expect(get(".git/config")).toBe("a");
  });

  test("the form with one edit is understood", async () => {
    expect(
      await editTool.run({ file_path: "two", old_string: "b", new_string: "c" }, context(workspace)),
    ).toMatchObject({ text: "Successfully made 1 edit to two" });
    expect(get("two")).toBe("a\nc");
  });

  test("two at once never lose one silently", async () => {
    const results = await Promise.all([
      edit("three", { old_string: "one", new_string: "1" }),
      edit("three", { old_string: "three", new_string: "3" }),
    ]);
    const done = results.filter(({ isError }) => !isError).length;
    const text = get("three");
    expect(Number(text.includes("1")) + Number(text.includes("3"))).toBe(done);
    expect(done).toBe(2);
  });
});

describe("unifiedDiff", () => {
  test("is what patch(1) takes", () => {
    const line = fc.constantFrom("a", "b", "c", "d", "e");
    const text = fc.array(line, { maxLength: 25 }).map((lines) => lines.map((each) => `${each}\n`).join(""));
    fc.assert(
      fc.property(text, text, (before, after) => {
        const diff = unifiedDiff("file", before, after);
        if (before === after) {
          expect(diff).toBe("");
          return;
        }
        put("file", before);
        execFileSync("git", ["apply", "--unidiff-zero", "--allow-empty", "-"], {
          cwd: workspace,
          input: diff === "" ? "" : `${diff}\n`,
        });
        expect(get("file")).toBe(after);
      }),
      { numRuns: 60 },
    );
  });

  test("takes bounded time for texts that have nothing in common", () => {
    const many = (word: string) => Array.from({ length: 20_000 }, (_, index) => `${word}${index}`).join("\n");
    expect(unifiedDiff("f", many("a"), many("b")).split("\n").length).toBeLessThan(500);
  });
});
