/** Paths of a workspace: what is inside, and opens that cannot be led out (fault table T1, T2). */
import { execFileSync, spawn } from "node:child_process";
import {
  constants,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { chmod, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  isWithin,
  openInside,
  PathError,
  protectedReason,
  resolveInWorkspace,
  writeInside,
} from "../../src/util/workspace-path.ts";

let base: string;
let workspace: string;

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), "rotunda-path-")));
  workspace = join(base, "a");
  mkdirSync(workspace);
  mkdirSync(join(base, "ab"));
  writeFileSync(join(base, "secret"), "secret");
  writeFileSync(join(base, "ab", "file"), "neighbour");
  writeFileSync(join(workspace, "file"), "mine");
});

afterEach(() => rmSync(base, { recursive: true, force: true }));

async function readThrough(path: string): Promise<string> {
  const { handle } = await openInside(workspace, path);
  try {
    return await handle.readFile("utf8");
  } finally {
    await handle.close();
  }
}

describe("T1 resolveInWorkspace", () => {
  test("resolves names that exist and names that do not", async () => {
    expect(await resolveInWorkspace(workspace, "file")).toEqual({ real: join(workspace, "file"), inside: true });
    expect(await resolveInWorkspace(workspace, "x/y/z")).toEqual({ real: join(workspace, "x/y/z"), inside: true });
    expect(await resolveInWorkspace(workspace, ".")).toEqual({ real: workspace, inside: true });
  });

  test.each([["../secret"], ["x/../../secret"], ["/etc/passwd"], ["../ab/file"], ["/proc/self/root/etc/passwd"]])(
    "%s is outside",
    async (path) => {
      expect((await resolveInWorkspace(workspace, path)).inside).toBe(false);
    },
  );

  test("a neighbour with the same beginning is outside", async () => {
    expect((await resolveInWorkspace(workspace, join(base, "ab"))).inside).toBe(false);
    expect(isWithin("/srv/a", "/srv/ab")).toBe(false);
    expect(isWithin("/", "/srv")).toBe(true);
  });

  test("links are followed, also dangling ones and those in the middle", async () => {
    symlinkSync(base, join(workspace, "up"));
    symlinkSync(join(base, "not-yet"), join(workspace, "dangling"));
    symlinkSync("loop2", join(workspace, "loop1"));
    symlinkSync("loop1", join(workspace, "loop2"));
    expect(await resolveInWorkspace(workspace, "up/secret")).toEqual({ real: join(base, "secret"), inside: false });
    expect(await resolveInWorkspace(workspace, "dangling")).toEqual({ real: join(base, "not-yet"), inside: false });
    await expect(resolveInWorkspace(workspace, "loop1")).rejects.toThrow(PathError);
  });

  test("a NUL and an empty path are refused", async () => {
    await expect(resolveInWorkspace(workspace, "a\0b")).rejects.toThrow("NUL");
    await expect(resolveInWorkspace(workspace, "")).rejects.toThrow("empty");
  });

  test("no path of dots, names and links is called inside while it lies outside", async () => {
    symlinkSync("..", join(workspace, "link"));
    const name = fc.constantFrom("..", ".", "file", "link", "a", "ab", "", "x");
    await fc.assert(
      fc.asyncProperty(fc.array(name, { minLength: 1, maxLength: 8 }), async (names) => {
        const path = `./${names.join("/")}`;
        const { real, inside } = await resolveInWorkspace(workspace, path);
        expect(inside).toBe(real === workspace || real.startsWith(`${workspace}/`));
        let kernel: string | undefined;
        try {
          kernel = realpathSync.native(`${workspace}/${path}`);
        } catch {
          return;
        }
        expect(real).toBe(kernel);
      }),
    );
  });
});

describe("openInside", () => {
  test("reads a file and refuses what is outside, a folder, and a link to the outside", async () => {
    symlinkSync(join(base, "secret"), join(workspace, "link"));
    expect(await readThrough("file")).toBe("mine");
    await expect(readThrough("link")).rejects.toThrow(`outside the workspace ${workspace}`);
    await expect(readThrough("../secret")).rejects.toThrow("outside the workspace");
    await expect(readThrough(".")).rejects.toThrow("is a directory");
    await expect(readThrough("none")).rejects.toMatchObject({ code: "ENOENT" });
  });

  test("a link within the workspace is followed", async () => {
    symlinkSync("file", join(workspace, "same"));
    expect(await readThrough("same")).toBe("mine");
  });

  test("a FIFO, a device and a socket never block", async () => {
    execFileSync("mkfifo", [join(workspace, "fifo")]);
    await expect(readThrough("fifo")).rejects.toThrow("not a regular file");
    await expect(openInside("/dev", "zero")).rejects.toThrow("not a regular file");
  });

  test("a hard link is refused, but not where package managers make them", async () => {
    linkSync(join(base, "secret"), join(workspace, "hard"));
    mkdirSync(join(workspace, "node_modules"));
    linkSync(join(base, "ab", "file"), join(workspace, "node_modules", "shared"));
    await expect(readThrough("hard")).rejects.toThrow("hard links");
    expect(await readThrough("node_modules/shared")).toBe("neighbour");
  });

  test("opening may not create or cut", async () => {
    await expect(openInside(workspace, "new", constants.O_WRONLY | constants.O_CREAT)).rejects.toThrow(PathError);
    await expect(openInside(workspace, "file", constants.O_WRONLY | constants.O_TRUNC)).rejects.toThrow(PathError);
    expect(readFileSync(join(workspace, "file"), "utf8")).toBe("mine");
  });
});

describe("writeInside", () => {
  test("makes folders, keeps the mode, leaves nothing beside", async () => {
    await writeInside(workspace, "x/y/new", "hello");
    expect(readFileSync(join(workspace, "x/y/new"), "utf8")).toBe("hello");
    await chmod(join(workspace, "file"), 0o750);
    const { created } = await writeInside(workspace, "file", "other");
    expect(created).toBe(false);
    expect(statSync(join(workspace, "file")).mode & 0o777).toBe(0o750);
    expect(readdirSync(workspace).sort()).toEqual(["file", "x"]);
  });

  test("a hard link is parted, not written through; a link to the outside is refused", async () => {
    linkSync(join(base, "secret"), join(workspace, "hard"));
    symlinkSync(join(base, "secret"), join(workspace, "soft"));
    symlinkSync(join(base, "new"), join(workspace, "dangling"));
    await writeInside(workspace, "hard", "mine now");
    await expect(writeInside(workspace, "soft", "x")).rejects.toThrow("outside");
    await expect(writeInside(workspace, "dangling", "x")).rejects.toThrow("outside");
    await expect(writeInside(workspace, ".", "x")).rejects.toThrow("directory");
    expect(readFileSync(join(base, "secret"), "utf8")).toBe("secret");
    expect(readdirSync(base).sort()).toEqual(["a", "ab", "secret"]);
  });

  test("a file that is no longer what was read is not replaced", async () => {
    const { handle, stats } = await openInside(workspace, "file");
    await handle.close();
    writeFileSync(join(workspace, "file"), "changed since");
    await expect(writeInside(workspace, "file", "x", { expected: stats })).rejects.toThrow("changed by somebody else");
    expect(readFileSync(join(workspace, "file"), "utf8")).toBe("changed since");
  });

  test.each([
    [".git/hooks/pre-commit"],
    [".git/config"],
    [".GIT/config"],
    ["sub/.git/hooks/x"],
    ["rotunda.yaml"],
    ["Rotunda.YAML"],
    [".rotunda/x"],
    [".mcp.json"],
    ["mcp-servers.json"],
    ["finta.yaml"],
    ["rotunda.yml"],
    ["system-prompt.txt"],
    ["System-Prompt.txt"],
    [".m\u200bcp.json"],
    [".vscode/tasks.json"],
  ])("%s is protected although it does not exist", async (path) => {
    await expect(writeInside(workspace, path, "x")).rejects.toThrow("is protected");
    expect(readdirSync(workspace)).toEqual(["file"]);
  });

  test(".env may be made, as a build may, and belongs to the person from then on", async () => {
    expect(await writeInside(workspace, ".env", "A=1")).toMatchObject({ created: true });
    await expect(writeInside(workspace, ".env", "A=2")).rejects.toThrow("is protected");
    await expect(writeInside(workspace, ".ENV", "A=2")).rejects.toThrow("is protected");
    expect(readFileSync(join(workspace, ".env"), "utf8")).toBe("A=1");
  });

  test("files that only look like them are not", () => {
    for (const path of [
      "prompts/system-prompt.txt",
      "src/env",
      ".env.example",
      "git/hooks/x",
      "notes/rotunda.yaml.md",
      ".gitignore",
    ]) {
      expect(protectedReason("/w", `/w/${path}`)).toBeUndefined();
    }
  });
});

describe("a folder that is swapped for a link all the time", () => {
  test("leads no read and no write out of the workspace", { timeout: 60_000 }, async () => {
    mkdirSync(join(base, "target"));
    writeFileSync(join(base, "target", "file"), "secret");
    mkdirSync(join(workspace, "real"));
    writeFileSync(join(workspace, "real", "file"), "mine");
    symlinkSync(join(base, "target"), join(workspace, "trap"));
    const swap = `const fs = require("fs"); process.chdir(process.argv[1]); console.log("up");
      for (;;) for (const name of ["real", "trap"]) {
        try { fs.renameSync(name, "folder"); fs.renameSync("folder", name); }
        catch { try { fs.rmSync("folder", { recursive: true, force: true }); } catch {} }
      }`;
    const swapper = spawn(process.execPath, ["-e", swap, workspace], { stdio: ["ignore", "pipe", "ignore"] });
    await new Promise((resolve) => swapper.stdout?.once("data", resolve));
    const seen = { careful: new Set<string>(), careless: new Set<string>() };
    const careless = async () => {
      const { real, inside } = await resolveInWorkspace(workspace, "folder/file");
      return inside ? readFile(real, "utf8") : "refused";
    };
    try {
      const until = Date.now() + 30_000;
      // Long enough to be sure that the trap works: whoever trusts a checked name walks into it.
      for (
        let round = 0;
        (round < 500 || !seen.careless.has("secret") || !seen.careful.has("mine")) && Date.now() < until;
        round++
      ) {
        seen.careless.add(await careless().catch(() => "failed"));
        seen.careful.add(await readThrough("folder/file").catch(() => "failed"));
        await writeInside(workspace, `folder/new-${round % 50}`, "x").catch(() => undefined);
      }
    } finally {
      expect(swapper.exitCode).toBeNull();
      const gone = new Promise((resolve) => swapper.once("exit", resolve));
      swapper.kill("SIGKILL");
      await gone;
    }
    expect(seen.careless).toContain("secret");
    expect(seen.careful).toContain("mine");
    expect(seen.careful).not.toContain("secret");
    expect(readdirSync(join(base, "target"))).toEqual(["file"]);
    expect(readFileSync(join(base, "target", "file"), "utf8")).toBe("secret");
  });

  test("the same by rename in this process, between check and open", async () => {
    mkdirSync(join(workspace, "folder"));
    writeFileSync(join(workspace, "folder", "secret"), "mine");
    const attempts = Array.from({ length: 200 }, async (_, index) => {
      const text = readThrough("folder/secret").catch(() => "refused");
      if (index % 2 === 0) {
        renameSync(join(workspace, "folder"), join(workspace, "aside"));
        symlinkSync(base, join(workspace, "folder"));
      } else {
        rmSync(join(workspace, "folder"));
        renameSync(join(workspace, "aside"), join(workspace, "folder"));
      }
      return text;
    });
    expect(await Promise.all(attempts)).not.toContain("secret");
  });
});
