/** Text of models and tools that means to command the terminal: it is shown, and never obeyed. */
import { describe, expect, test } from "vitest";
import { clean, guard, lookAlikes } from "../../src/doors/tui/clean.ts";
import { hasTmux, place, Terminal, tellMissing } from "./terminal.ts";

tellMissing();

/** Each ends with a word of its own, so that what came of it can be found. */
const attacks = [
  "\u001b]0;owned title\u0007A1",
  "\u001b]52;c;b3duZWQ=\u0007A2",
  "\u001b[2J\u001b[HA3",
  "\u001b[?1049lA4",
  "\u001b]8;;http://evil.example/\u001b\\A5\u001b]8;;\u001b\\",
  "\u001bP+q544e\u001b\\A6",
  "\u009b31mA7",
  "\rA8\b\b",
  "\u202eA9\u2066\u200b\ufeff",
  "[pay](http://evil.example/A10)",
  "&#27;[31mA11 &#x9b;5m",
  "\u001b_pi:c\u0007A12",
];

/** Escape sequences that the screen itself may use. */
const ours =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
  /\u001b(?:\[[0-9;]*m|\[\d+;\d+H|\[\d*[ABCDGJK]|\[\?(?:1000|1002|1003|1004|1006|1049|2004|2026|7|25)[hl]|\[>[0-9;]*[mu]|\[\?u|\[c|\[<u|\]8;;\u0007|\[H|\[2J|\[16t)/g;

const foreign =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
  /\u001b.{0,12}|[\u0000-\u0008\u000b\u000c\u000e-\u001a\u007f-\u009f]/gs;

describe("foreign text", () => {
  test("V9 after cleaning, no control character is left", () => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
    const commands = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200b-\u200f]/;
    for (const attack of attacks) expect(clean(attack)).not.toMatch(commands);
    expect(guard("\u001b[31mred\u001b[0m\u001b]0;x\u0007")).toBe("\u001b[31mred\u001b[0m␛]0;x␇");
  });

  test("V9 a word of two alphabets is named", () => {
    expect(lookAlikes("curl https://\u0440aypal.com")).toEqual(["\u0440aypal (\u0440 is U+0440)"]);
    expect(lookAlikes("Москва and London, naïve Ωmega")).toEqual(["Ωmega (Ω is U+03A9)"]);
    expect(lookAlikes("plain text")).toEqual([]);
  });
});

describe.skipIf(!hasTmux)("a hostile model at the screen", () => {
  test("V9 hostile text in answers, reasoning, calls and approvals leaves the terminal unharmed", async () => {
    const text = attacks.join(" and\n\n");
    const { at } = await place([
      { reasoning: text, text, calls: [{ name: "glob", arguments: { pattern: text } }] },
      { calls: [{ name: "write", arguments: { file_path: "h\u0435llo.txt", content: text } }] },
      { text: "\u001b]0;owned\u0007The end" },
    ]);
    const terminal = new Terminal(at, ["chat", "--mode", "ask"], { columns: 120, rows: 60 });
    await terminal.shows("new conversation");
    terminal.say("go");
    await terminal.shows("write asks for permission");
    await terminal.shows("letters of another alphabet: h\u0435llo");
    await new Promise((resolve) => setTimeout(resolve, 400));
    terminal.press("y");
    await terminal.shows("The end");
    terminal.press("C-o");
    await terminal.shows("A12");
    const raw = terminal.raw();
    expect(raw).not.toContain("owned\u0007");
    expect(raw).not.toContain("evil.example/\u001b\\");
    expect(raw.replace(ours, "").match(foreign) ?? []).toEqual([]);
    for (const bidi of ["\u202e", "\u2066", "\u200b", "\ufeff"]) expect(raw).not.toContain(bidi);
  });
});
