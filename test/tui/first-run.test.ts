/** The first start on a machine: what is found is said, nothing is taken over unasked, and then there is an answer. */
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { home } from "../cli/run.ts";
import { hasTmux, Terminal, tellMissing } from "./terminal.ts";

tellMissing();

const CURSOR = {
  mcpServers: { files: { command: "files-mcp", args: ["--root", "."], env: { KEY: "s3cret-of-files" } } },
};

/** A home in which nothing is configured, and another program is. */
function newcomer() {
  const at = home();
  const folder = at.environment.HOME ?? "";
  const cursor = join(folder, ".cursor", "mcp.json");
  mkdirSync(dirname(cursor), { recursive: true });
  writeFileSync(cursor, JSON.stringify(CURSOR));
  const state = at.environment.ROTUNDA_HOME ?? join(folder, ".local", "state", "rotunda");
  return { at, config: join(folder, ".config", "rotunda", "rotunda.yaml"), settings: join(state, "settings.json") };
}

describe.skipIf(!hasTmux)("the first start", () => {
  test("V10 says what it found, takes over what it is told to, and leads to an answer", async () => {
    const { at, config, settings } = newcomer();
    const terminal = new Terminal(at, [], { columns: 120, rows: 40 });
    await terminal.shows("Welcome to Rotunda");
    await terminal.shows(/found +Cursor: 1 MCP server \(files\)/);
    await terminal.shows("files: files-mcp --root .  (with KEY)");
    await terminal.shows("Take over what Cursor has?");
    expect(terminal.raw()).not.toContain("s3cret");
    terminal.say("y");
    await terminal.shows(/Write a commented .*rotunda\.yaml\?/);
    terminal.say("");
    await terminal.shows("new conversation");
    expect(JSON.parse(readFileSync(settings, "utf8"))).toMatchObject({
      mcpServers: { files: { command: "files-mcp" } },
    });
    expect(readFileSync(config, "utf8")).toContain("# models:");
    // What was taken over is there at once.
    terminal.say("/hub");
    await terminal.shows(/files +\S.*stdio/);
    terminal.say("What is in this folder?");
    await terminal.shows("DEMO");
    terminal.say("/quit");
    await terminal.left(0);
    // Nobody is welcomed twice.
    const again = new Terminal(at, [], { columns: 120, rows: 40 });
    await again.shows("new conversation");
    expect(again.raw()).not.toContain("Welcome to Rotunda");
  });

  test("V10 without an answer nothing is written, and it works all the same", async () => {
    const { at, config, settings } = newcomer();
    const terminal = new Terminal(at, [], { columns: 120, rows: 40 });
    await terminal.shows("Take over what Cursor has?");
    terminal.press("C-c");
    await terminal.shows(/Write a commented/);
    terminal.press("C-c");
    await terminal.shows("new conversation");
    expect([existsSync(config), existsSync(settings)]).toEqual([false, false]);
    terminal.say("hello");
    await terminal.shows("DEMO");
  });

  test("V10 a file that cannot be written keeps nobody from an answer", async () => {
    const { at, config } = newcomer();
    mkdirSync(dirname(dirname(config)), { recursive: true });
    // A link to where nothing can be: the folder is not there, and cannot be made.
    symlinkSync("/proc/nowhere", dirname(config));
    const terminal = new Terminal(at, [], { columns: 120, rows: 40 });
    await terminal.shows("Take over what Cursor has?");
    terminal.say("n");
    await terminal.shows(/Write a commented/);
    terminal.say("y");
    await terminal.shows("new conversation");
    terminal.say("hello");
    await terminal.shows("DEMO");
  });
});
