/** What a killed Rotunda leaves in the workspace is cleared by the next one, and a state directory that cannot be made is told. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { detectSandbox } from "../../src/util/sandbox.ts";
import { later } from "../support.ts";
import { type Home, home } from "./run.ts";

const { level } = await detectSandbox("auto");
if (level === "none") process.stderr.write("SKIPPED: stand-ins of a killed command (no sandbox on this machine)\n");
const within = test.skipIf(level === "none");
const patience = { timeout: 60_000 };

/** A chat in the midst of a command in the sandbox. */
async function midst(here: Home) {
  const started = here.start(["chat", "run `touch begun; sleep 120`"]);
  later(() => void started.child.kill("SIGKILL"));
  await expect.poll(() => existsSync(join(here.workspace, "begun")), patience).toBe(true);
  return started;
}

describe("stand-ins of the sandbox", () => {
  within("init says that a command holds its place, and clears what a crash has left", patience, async () => {
    const here = home();
    const started = await midst(here);
    for (const args of [["init"], ["init", "--force"]]) {
      expect(await here.run(args)).toMatchObject({ code: 2, err: expect.stringContaining("a command in the sandbox") });
    }
    started.child.kill("SIGKILL");
    await started.result;
    expect(readdirSync(here.workspace)).toEqual(expect.arrayContaining([".mcp.json", ".vscode", "rotunda.yaml"]));
    // The kernel ends the command a moment later.
    await expect.poll(async () => (await here.run(["init"])).code, patience).toBe(0);
    expect(readdirSync(here.workspace).sort()).toEqual(["begun", "rotunda.yaml"]);
    expect(readFileSync(join(here.workspace, "rotunda.yaml"), "utf8")).not.toBe("");
  });

  within("a server clears them where it takes up what was interrupted", patience, async () => {
    const here = home();
    const started = await midst(here);
    started.child.kill("SIGKILL");
    await started.result;
    expect(readdirSync(here.workspace)).toContain("rotunda.yaml");
    const server = here.start(["serve", "--port", "0"]);
    later(() => void server.child.kill("SIGKILL"));
    await expect.poll(() => readdirSync(here.workspace), patience).toEqual(["begun"]);
  });
});

test.skipIf(!existsSync("/proc/self"))(
  "a state directory where nothing can be made is told at once",
  patience,
  async () => {
    const here = home({ ROTUNDA_HOME: "/proc/no-such" });
    for (const args of [["log"], ["doctor"], ["chat", "hello"], ["serve", "--port", "0"]]) {
      const started = here.start(args);
      later(() => void started.child.kill("SIGKILL"));
      const { code, out, err } = await started.result;
      expect(code, args.join(" ")).toBe(1);
      expect(out + err).toContain("/proc/no-such/rotunda.db cannot be opened for writing");
    }
  },
);
