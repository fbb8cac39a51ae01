/** The page about the terminal says what the terminal has, and no more. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { commandsFor, keys } from "../../src/doors/tui/commands.ts";

const page = readFileSync(join(import.meta.dirname, "..", "..", "docs", "terminal.md"), "utf8");

test("docs/terminal.md has every command with its words", () => {
  const commands = commandsFor(() => {
    throw new Error("nothing is run");
  });
  const rows = commands.map(({ name, argument, description }) => {
    const words = argument === undefined ? "" : ` ${argument}`;
    return `| \`/${name}${words}\` | ${description} |`;
  });
  const told = page.split("\n").filter((line) => line.startsWith("| `/"));
  expect(told).toEqual(rows);
});

test("docs/terminal.md has every key", () => {
  for (const [key] of keys) expect(page).toContain(`| ${key} |`);
});
