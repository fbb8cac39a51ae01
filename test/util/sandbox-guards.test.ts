/** What steers Rotunda, git and editors is not made and not changed by a sandboxed command, and nothing stays of how that is done (fault table T2). */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { runProcess } from "../../src/util/process-tree.ts";
import { childEnvironment, detectSandbox, type Sandbox, type SandboxRequest } from "../../src/util/sandbox.ts";
import { clearStandIns, isPlaceholder } from "../../src/util/sandbox-guards.ts";
import { eventually } from "./processes.ts";

const steps = await Promise.all(
  (["bwrap", "unshare"] as const).map(async (level) => ({ level, sandbox: await detectSandbox("auto", [level]) })),
);

let workspace: string;
beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), "rotunda-guards-")));
});
afterEach(() => {
  rmSync(workspace, { recursive: true, force: true });
});

async function inside(sandbox: Sandbox, command: string, more: Partial<SandboxRequest> = {}) {
  // What is tried here must never be tried without walls.
  expect(sandbox.level).not.toBe("none");
  const request = {
    command: "bash",
    args: ["--norc", "-c", command],
    workspace,
    readOnly: false,
    network: false,
    env: childEnvironment(),
    // This checkout's Node may lie below `/tmp`, which the sandbox empties.
    readable: [dirname(process.execPath)],
  };
  const wrapped = sandbox.wrap({ ...request, ...more });
  try {
    return await runProcess({ ...wrapped, timeout: 20_000 });
  } finally {
    wrapped.release();
  }
}

function source(name: string): string {
  return fileURLToPath(new URL(`../../src/util/${name}`, import.meta.url));
}

describe.each(steps)("step $level", ({ level, sandbox }) => {
  const it = test.skipIf(sandbox.level !== level);

  const steering = [
    "rotunda.yaml",
    "rotunda.yml",
    "rotunda.json",
    "rotunda.jsonc",
    ".rotunda/x",
    ".mcp.json",
    "mcp-servers.json",
    "finta.yaml",
    "system-prompt.txt",
    ".polybrain.yaml",
    ".vscode/mcp.json",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".cursor/mcp.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".env",
    ".git/hooks/pre-commit",
    ".git/config",
  ];
  // `.env` is guarded where it exists only: builds make it, and programs stumble over a folder of that name.
  const attackOn = (paths: readonly string[]) =>
    paths
      .map(
        (path) =>
          `{ mkdir -p "$(dirname ${path})"; rm -rf ${path}; echo evil > ${path}; mv ${path.split("/")[0]} moved; mkdir -p "$(dirname ${path})"; echo evil > ${path}; } 2>/dev/null`,
      )
      .join("\n");
  const attack = attackOn(steering);
  const plain = { command: "true", args: [], readOnly: false, network: false, env: {} };

  it("T2 files that steer us are not made where they do not exist, and no stand-in stays", async () => {
    const { output } = await inside(
      sandbox,
      `${attackOn(steering.filter((path) => path !== ".env"))}\ngit init . && echo INIT; cat rotunda.yaml .git/config; echo done`,
    );
    expect(output).toContain("done");
    expect(output).not.toContain("INIT");
    expect(readdirSync(workspace)).toEqual([]);
  });

  it("T2 nor in a folder that is there already, in which all else may be made", async () => {
    for (const name of [".vscode", ".cursor", ".claude", "configs"]) mkdirSync(join(workspace, name));
    const files = steering.filter((path) => !path.startsWith(".env") && !path.startsWith(".git/"));
    const { guarded, release } = sandbox.wrap({ ...plain, workspace });
    release();
    expect(guarded).toEqual(expect.arrayContaining([".vscode/settings.json", ".cursor/mcp.json", ".git"]));
    await inside(
      sandbox,
      `${attackOn(files)}\nmkdir -p .claude/commands configs/x; echo x > .vscode/extensions.json; echo x > .claude/commands/x.md; echo x > configs/x/y; echo A=1 > .env; true`,
    );
    expect(readdirSync(workspace).sort()).toEqual([".claude", ".cursor", ".env", ".vscode", "configs"]);
    expect(readdirSync(join(workspace, ".vscode"))).toEqual(["extensions.json"]);
    expect(readdirSync(join(workspace, ".cursor"))).toEqual([]);
    expect(readdirSync(join(workspace, ".claude"))).toEqual(["commands"]);
    expect(readdirSync(join(workspace, "configs"))).toEqual(["x"]);
  });

  it("no stand-in is placed through a link that leads out of the workspace", async () => {
    const elsewhere = mkdtempSync(join(tmpdir(), "rotunda-outside-"));
    symlinkSync(elsewhere, join(workspace, ".vscode"));
    const { release } = sandbox.wrap({ ...plain, workspace });
    expect(readdirSync(elsewhere)).toEqual([]);
    release();
    rmSync(elsewhere, { recursive: true });
  });

  it("files that steer us are not changed where they exist", async () => {
    for (const path of steering) {
      mkdirSync(join(workspace, path, ".."), { recursive: true });
      writeFileSync(join(workspace, path), "good");
    }
    symlinkSync("/etc/hostname", join(workspace, "ordinary-link"));
    await inside(sandbox, `${attack}; ln -s /tmp .git/commondir; cat .env > copy`);
    for (const path of steering) expect(readFileSync(join(workspace, path), "utf8"), path).toBe("good");
    expect(existsSync(join(workspace, ".git/commondir"))).toBe(false);
    expect(readFileSync(join(workspace, "copy"), "utf8")).toBe("good");
  });

  it("T2 nor what git reads beside its settings: of work trees, of submodules in folders, and what leads elsewhere", async () => {
    const git = (...args: string[]) =>
      spawnSync("git", ["-c", "user.email=a@b", "-c", "user.name=n", "-c", "protocol.file.allow=always", ...args], {
        cwd: workspace,
        encoding: "utf8",
      });
    const library = mkdtempSync(join(tmpdir(), "rotunda-library-"));
    const tree = join(library, "tree");
    spawnSync("git", ["init", "-q", library]);
    spawnSync("git", [
      "-C",
      library,
      "-c",
      "user.email=a@b",
      "-c",
      "user.name=n",
      "commit",
      "--allow-empty",
      "-qm",
      "one",
    ]);
    git("init", "-q");
    git("submodule", "--quiet", "add", library, "vendor/library");
    git("commit", "-qm", "one");
    git("config", "extensions.worktreeConfig", "true");
    git("worktree", "add", "-q", tree);
    const moduleFolder = ".git/modules/vendor/library";
    const settings = [".git", moduleFolder, ".git/worktrees/tree"].map((folder) => `${folder}/config.worktree`);
    const attacked = [...settings, `${moduleFolder}/config`, ".git/worktrees/tree/commondir"];
    const before = readFileSync(join(workspace, ".git/worktrees/tree/commondir"), "utf8");
    await inside(sandbox, `${attackOn(attacked)}\necho "$PWD/evil" > ${moduleFolder}/commondir; true`);
    for (const path of settings) expect(existsSync(join(workspace, path)), path).toBe(false);
    expect(readFileSync(join(workspace, moduleFolder, "config"), "utf8")).toContain("[core]");
    expect(readFileSync(join(workspace, ".git/worktrees/tree/commondir"), "utf8")).toBe(before);
    expect(existsSync(join(workspace, moduleFolder, "commondir"))).toBe(false);
    expect(git("status", "--porcelain").status).toBe(0);
    rmSync(library, { recursive: true });
  });

  it("git works in a repository, and adds no stand-in", async () => {
    const git = (...args: string[]) => spawnSync("git", args, { cwd: workspace, encoding: "utf8" });
    git("init", "-q");
    git("config", "user.email", "a@b");
    git("config", "user.name", "n");
    const { output, exitCode } = await inside(
      sandbox,
      "echo x > file; git add -A && git commit -qm one && git status --porcelain && git show --stat --format=%s",
    );
    expect(exitCode, output).toBe(0);
    expect(git("ls-files").stdout).toBe("file\n");
    expect(readdirSync(workspace).sort()).toEqual([".git", "file"]);
  });

  it("commands at once share the stand-ins; the last one takes them away", async () => {
    const commands = Array.from({ length: 6 }, (_, index) =>
      inside(sandbox, `sleep 0.${index}; echo evil > .mcp.json; echo $?`),
    );
    for (const { output } of await Promise.all(commands)) expect(output.trim().endsWith("1")).toBe(true);
    expect(readdirSync(workspace)).toEqual([]);
  });

  it("stand-ins that a crash left behind are known and removed by the next command", async () => {
    const request = { command: "true", args: [], workspace, readOnly: false, network: false, env: {} };
    sandbox.wrap(request);
    const left = readdirSync(workspace);
    expect(left).toContain(".mcp.json");
    for (const name of left) expect(isPlaceholder(join(workspace, name))).toBe(true);
    // Another process does not know our count.
    const script = `const { detectSandbox } = await import(${JSON.stringify(source("sandbox.ts"))}); const s = await detectSandbox("auto", [${JSON.stringify(level)}]); s.wrap(${JSON.stringify(request)}).release();`;
    const { stderr, status } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect(status, stderr).toBe(0);
    expect(readdirSync(workspace)).toEqual([]);
  });

  it("stand-ins that a crash left behind are cleared on request, but none that a command relies on", async () => {
    mkdirSync(join(workspace, ".claude"));
    writeFileSync(join(workspace, ".claude", "notes"), "kept");
    const request = { ...plain, workspace };
    const script = `const { detectSandbox } = await import(${JSON.stringify(source("sandbox.ts"))}); const s = await detectSandbox("auto", [${JSON.stringify(level)}]); s.wrap(${JSON.stringify(request)}); process.kill(process.pid, "SIGKILL");`;
    expect(spawnSync(process.execPath, ["--input-type=module", "-e", script]).signal).toBe("SIGKILL");
    expect(readdirSync(workspace)).toEqual(expect.arrayContaining(["rotunda.yaml", ".vscode", ".git"]));
    expect(readdirSync(join(workspace, ".claude"))).toContain("settings.json");
    mkdirSync(join(workspace, ".mcp.json", "of-a-person"));
    clearStandIns(workspace);
    expect(readdirSync(workspace).sort()).toEqual([".claude", ".mcp.json"]);
    expect(readdirSync(join(workspace, ".claude"))).toEqual(["notes"]);
    clearStandIns(join(workspace, "no-such-folder"));

    rmSync(join(workspace, ".mcp.json"), { recursive: true });
    const running = inside(sandbox, "touch started; while ! [ -e go ]; do sleep 0.05; done; echo evil > rotunda.yaml");
    expect(await eventually(() => existsSync(join(workspace, "started")), 10_000)).toBe(true);
    clearStandIns(workspace);
    // Another process does not know our count, and sees the mounts.
    const other = `const { clearStandIns } = await import(${JSON.stringify(source("sandbox-guards.ts"))}); clearStandIns(${JSON.stringify(workspace)});`;
    expect(spawnSync(process.execPath, ["--input-type=module", "-e", other]).status).toBe(0);
    expect(isPlaceholder(join(workspace, "rotunda.yaml"))).toBe(true);
    writeFileSync(join(workspace, "go"), "");
    await running;
    expect(readdirSync(workspace).sort()).toEqual([".claude", "go", "started"]);
  });

  it("the workspace may be the home directory itself", async () => {
    const before = process.env.HOME;
    process.env.HOME = workspace;
    writeFileSync(join(workspace, ".profile"), "good");
    try {
      const { output } = await inside(
        sandbox,
        "for f in .bashrc .profile .bash_profile .zshrc .ssh/authorized_keys .config/systemd/user/x .config/rotunda/rotunda.yaml .gitconfig; do mkdir -p \"$(dirname $f)\" && echo evil > $f && echo WROTE $f; done 2>/dev/null; echo fine > ordinary; bash -lc 'echo login'",
        { env: childEnvironment() },
      );
      expect(output).toContain("login");
      expect(output).not.toContain("WROTE");
    } finally {
      process.env.HOME = before;
    }
    expect(readdirSync(workspace).sort()).toEqual([".profile", "ordinary"]);
    expect(homedir()).not.toBe(workspace);
  });
});
