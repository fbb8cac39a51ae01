/** Attacks on the screen by text: names, files, earlier inputs and answers that mean to command, freeze or end it. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { lookAlikes } from "../../src/doors/tui/clean.ts";
import { markdownLines } from "../../src/doors/tui/markdown.ts";
import { lookFor } from "../../src/doors/tui/style.ts";
import { hasTmux, place, Terminal, tellMissing } from "../tui/terminal.ts";

tellMissing();

/** Text whose markdown takes a parser through its stack, or minutes. */
const BOMBS = {
  quotes: `${"> ".repeat(9_000)}x`,
  lists: `${"- ".repeat(9_000)}x`,
  numbers: `${"1. ".repeat(6_000)}x`,
  both: `${"> - ".repeat(4_000)}x`,
  emphasis: "_a".repeat(9_000),
  stars: "*a_b".repeat(4_500),
  indented: Array.from({ length: 1_000 }, (_, depth) => `${" ".repeat(depth * 2)}- x`)
    .join("\n")
    .slice(0, 200_000),
};

describe("foreign text", () => {
  test("V9 markdown that would take the stack or minutes is drawn as the text that it is", () => {
    const look = lookFor(false);
    for (const [name, text] of Object.entries(BOMBS)) {
      const began = performance.now();
      const lines = markdownLines(text, 80, look) ?? [text];
      // Behind all that it stands in, a narrow column would be left.
      expect([name, lines.join("").replaceAll(/[│\s]/g, "").length > 1_000]).toEqual([name, true]);
      expect(performance.now() - began, name).toBeLessThan(5_000);
    }
    // What people and models write is markdown still.
    expect(markdownLines("> quoted\n\n- one\n  - two\n\n**bold**", 40, look)?.join("\n")).not.toContain("**");
    const code = `\`\`\`\n${"snake_case_name = other_name\n".repeat(300)}\`\`\``;
    expect(markdownLines(code, 80, look)?.join("\n")).toContain("snake_case_name");
  });

  test("V9 a host whose letters are all of another alphabet is named, a language is not", () => {
    expect(lookAlikes("open https://\u0430\u0440\u0440\u04cf\u0435.com/login")).toEqual([
      "\u0430\u0440\u0440\u04cf\u0435 (\u0430 is U+0430, \u0440 is U+0440, \u0440 is U+0440, \u04cf is U+04CF)",
    ]);
    expect(lookAlikes("rm -rf ./\u0441\u0430\u0441\u0435/data")).toHaveLength(1);
    expect(lookAlikes("отчёт.pdf и оса, Москва/путь, Ελλάδα.txt")).toEqual([]);
  });
});

describe.skipIf(!hasTmux)("the screen", () => {
  test("V9 names of models, profiles, tools and files keep their line and command nothing", async () => {
    const evil = "\u001b]0;owned\u0007";
    const upstream = { calls: [{ name: `odd\n\n\n${evil}tool`, arguments: {} }] };
    const { at } = await place([upstream, { text: "The end" }], {
      profiles: { second: { instructions: "x", description: `one\n${evil}two` } },
    });
    writeFileSync(join(at.workspace, `evil-${evil}name.txt`), "x");
    writeFileSync(join(at.workspace, "evil-\u001b[8mhidden.txt"), "x");
    writeFileSync(join(at.workspace, "evil-line\nbreak.txt"), "x");
    mkdirSync(join(at.workspace, "evil-\u202efolder"));
    writeFileSync(join(at.workspace, "evil-\u202efolder", "evil.txt"), "x");
    const terminal = new Terminal(at, ["chat"], { columns: 90, rows: 24 });
    await terminal.shows("new conversation");
    terminal.type("see @evil");
    await terminal.shows("evil-\\u{202e}folder");
    terminal.press("Tab");
    await new Promise((resolve) => setTimeout(resolve, 300));
    terminal.press("C-c");
    terminal.say("go");
    await terminal.shows("The end");
    terminal.say("/agent");
    await terminal.shows("Agent");
    const rows = terminal.screen().trimEnd().split("\n");
    expect(rows.at(-1)).toMatch(/first · /);
    const raw = terminal.raw();
    expect(raw).not.toContain(evil);
    expect(raw).not.toContain("\u001b[8m");
    expect(raw).not.toContain("\u202e");
  });

  test("V9 what was said before at another door comes back into the editor as text", async () => {
    const { at } = await place([{ text: "One." }, { text: "Two." }]);
    const hidden = "hello \u001b]0;owned\u0007 \u001b[8mhidden\u001b[0m \u009b31m \u202eend";
    const first = await at.run(["chat", hidden]);
    expect(first.code).toBe(0);
    const terminal = new Terminal(at, ["chat", "--continue"]);
    await terminal.shows("One.");
    terminal.press("Up");
    await terminal.shows(/─\s*\n.*hello/);
    terminal.press("C-c");
    terminal.say("/undo");
    await terminal.shows("Back before");
    await terminal.shows(/─\s*\n.*hello/);
    terminal.press("C-e");
    const raw = terminal.raw();
    for (const command of ["\u001b]0;owned", "\u001b[8m", "\u009b", "\u202e"]) expect(raw).not.toContain(command);
  });

  test("V9 a paste that breaks out of its brackets, with escapes of both kinds, is text", async () => {
    const { at } = await place([{ text: "One." }]);
    const terminal = new Terminal(at, ["chat"]);
    await terminal.shows("new conversation");
    terminal.paste("a\u001b]0;owned\u0007b\u009b31mc \u0090q\u009c\u202ed");
    await terminal.shows("a]0;ownedb");
    const raw = terminal.raw();
    for (const command of ["\u001b]0;owned", "\u009b", "\u0090", "\u202e"]) expect(raw).not.toContain(command);
  });

  test("V9 answers that would break the parser are read, now and when the conversation is opened again", async () => {
    const { at } = await place([{ text: [`${"> ".repeat(3_000)}deep`, "\n\n", BOMBS.lists, "\n\nThe end"] }]);
    const terminal = new Terminal(at, ["chat"]);
    await terminal.shows("new conversation");
    terminal.say("go");
    await terminal.shows("The end");
    terminal.say("/quit");
    await terminal.left(0);
    const second = new Terminal(at, ["chat", "--continue"]);
    await second.shows("The end");
    second.press("PageUp");
    second.say("/quit");
    await second.left(0);
  });
});
