/** What the file tools do where the workspace is a home directory (security.md, tool isolation). */
import { existsSync, mkdirSync, readFileSync, realpathSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createBuiltinTools } from "../../src/tools/builtin.ts";
import { outOfReach } from "../../src/tools/out-of-reach.ts";
import { writeTool } from "../../src/tools/write.ts";
import { detectSandbox } from "../../src/util/sandbox.ts";
import { temporaryFolder } from "../support.ts";
import { context } from "./context.ts";

let home: string;
beforeEach(() => {
  home = realpathSync(temporaryFolder());
  vi.stubEnv("HOME", home);
});
afterEach(() => vi.unstubAllEnvs());

function put(path: string, content: string): void {
  mkdirSync(dirname(join(home, path)), { recursive: true });
  writeFileSync(join(home, path), content);
}

async function call(
  name: string,
  input: Parameters<ReturnType<typeof createBuiltinTools>[number]["run"]>[0],
  workspace = home,
) {
  const tools = createBuiltinTools({ sandbox: () => detectSandbox("none"), profiles: [] });
  const tool = tools.find((one) => one.name === name);
  if (!tool) throw new Error(`no tool ${name}`);
  return tool.run(input, context(workspace));
}

test("keys and passwords of a home directory are neither read nor written, by whatever name", async () => {
  put(".ssh/id_ed25519", "PRIVATE");
  put(".netrc", "PRIVATE");
  put(".npmrc", "//registry/:_authToken=PRIVATE");
  put("notes.txt", "public");
  symlinkSync(join(home, ".ssh"), join(home, "folder"));
  symlinkSync(join(home, ".netrc"), join(home, "file"));
  for (const file_path of [".ssh/id_ed25519", "folder/id_ed25519", ".netrc", "file", ".npmrc", "x/../.netrc"]) {
    const { text, isError } = await call("read", { files: [{ file_path }] });
    expect([file_path, isError, text.includes("PRIVATE")]).toEqual([file_path, true, false]);
  }
  // One among others, which nothing is read of either.
  const several = await call("read", { files: [{ file_path: "notes.txt" }, { file_path: ".netrc" }] });
  expect(several.text).toContain("keys or passwords");
  expect((await call("read", { files: [{ file_path: "notes.txt" }] })).text).toContain("public");
  // Without a wall around it as well.
  const found = await call("grep", { pattern: "PRIVATE|public" });
  expect(found.text).toBe("notes.txt:1:public");
  expect((await call("grep", { pattern: "PRIVATE", path: ".ssh" })).isError).toBe(true);
  const written = await call("write", { file_path: ".aws/credentials", content: "mine" });
  expect([written.isError, existsSync(join(home, ".aws"))]).toEqual([true, false]);
  const edits = [{ old_string: "PRIVATE", new_string: "mine" }];
  expect((await call("edit", { file_path: ".netrc", edits })).isError).toBe(true);
  // Also what was not there when it was first looked.
  put(".aws/credentials", "PRIVATE");
  expect((await call("read", { files: [{ file_path: ".aws/credentials" }] })).text).toContain("keys or passwords");
});

test("a folder of them that was chosen as the workspace is worked in", async () => {
  put(".docker/config.json", "mine");
  const workspace = join(home, ".docker");
  expect((await call("read", { files: [{ file_path: "config.json" }] }, workspace)).text).toContain("mine");
});

test("the tools for files say that they never leave the workspace", () => {
  const tools = createBuiltinTools({ sandbox: () => detectSandbox("none"), profiles: [] });
  expect(tools.filter(({ confined }) => confined).map(({ name }) => name)).toEqual([
    "read",
    "write",
    "edit",
    "glob",
    "grep",
  ]);
});

test("T1 what a link leads to only after it was looked at is not written either", async () => {
  put(".kube/config", "PRIVATE");
  put("plain/config", "public");
  symlinkSync(join(home, "plain"), join(home, "link"));
  // Another run's command swaps the link at this moment.
  const subject: typeof writeTool.subject = async (input, workspace) => {
    const found = (await writeTool.subject?.(input, workspace)) ?? {};
    unlinkSync(join(home, "link"));
    symlinkSync(join(home, ".kube"), join(home, "link"));
    return found;
  };
  const { isError } = await outOfReach({ ...writeTool, subject }, []).run(
    { file_path: "link/config", content: "mine" },
    context(home),
  );
  expect([isError, readFileSync(join(home, ".kube/config"), "utf8")]).toEqual([true, "PRIVATE"]);
});
