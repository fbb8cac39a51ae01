/** The terminal, driven through a real pty: what people do with it, compared with golden screens. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { UpstreamStep } from "../../src/testing/upstream.ts";
import { hasTmux, masked, place, soon, Terminal, tellMissing } from "./terminal.ts";

tellMissing();

/** The last message of a request, as text. */
function asked(body: { messages?: unknown }): string {
  const messages = body.messages as { content: unknown }[];
  return JSON.stringify(messages.at(-1)?.content ?? "");
}

const markdown = [
  "# Carts\n\nThe cart is **empty**, ",
  "and `cart.js` says so:\n\n",
  "```js\nexport const cart = [];\n```\n\n",
  "1. read it\n2. fill it\n\n| what | count |\n| --- | --- |\n| apples | 3 |\n| pears | 12 |\n",
];

describe.skipIf(!hasTmux)("a conversation at the screen", () => {
  test("V1 start, stream with markdown, reasoning apart, fold, /quit", async () => {
    const { at } = await place([
      { reasoning: ["First I look ", "at the cart.\n", "Then I count."], text: markdown, delay: 20 },
    ]);
    const terminal = new Terminal(at, []);
    await terminal.shows("first · general · new conversation");
    await terminal.looksLike("start");
    terminal.say("What is in the cart?");
    await terminal.shows("pears");
    await terminal.shows(/context \d+% of 1.0k · at /);
    await terminal.looksLike("answer");
    terminal.press("Tab", "Enter");
    await terminal.shows("│ Then I count.");
    await terminal.looksLike("reasoning-open");
    terminal.press("Escape");
    await pause();
    terminal.say("/quit");
    await terminal.left(0);
    expect(terminal.raw()).toMatch(/Go on with: rotunda chat --from \w{8}\r\nGoodbye\./);
  });

  test("V2 an approval inline: refused with a reason, then allowed for the session", async () => {
    const write = (text: string): UpstreamStep => ({
      calls: [{ name: "write", arguments: { file_path: "notes.txt", content: text } }],
    });
    const { at, upstream } = await place([
      write("one\n"),
      { text: "As you wish." },
      write("two\n"),
      { text: "Done." },
      write("three\n"),
      { text: "Again." },
    ]);
    const terminal = new Terminal(at, [], { columns: 150 });
    await terminal.shows("new conversation");
    terminal.say("note it");
    await terminal.shows("write asks for permission");
    await terminal.looksLike("approval");
    await pause();
    terminal.press("n");
    await terminal.shows("no, because");
    terminal.say("not in this folder");
    await terminal.shows("As you wish.");
    expect(asked(upstream.requests[1]?.body ?? {})).toContain("not in this folder");
    terminal.say("note it again");
    await terminal.shows("write asks for permission");
    await pause();
    terminal.press("s");
    await terminal.shows("● Done.");
    expect(readFileSync(join(at.workspace, "notes.txt"), "utf8")).toBe("two\n");
    terminal.say("once more");
    await terminal.shows("● Again.");
    await terminal.shows("at ");
    expect(readFileSync(join(at.workspace, "notes.txt"), "utf8")).toBe("three\n");
    await terminal.looksLike("approved");
  });

  test("V3 /tree: walk, compare two, go on from an older answer with another model", async () => {
    const { at, upstream } = await place(({ body }) => ({ text: `Answer to ${asked(body)}.` }));
    const terminal = new Terminal(at, [], { columns: 110 });
    await terminal.shows("new conversation");
    terminal.say("alpha");
    await terminal.shows(/Answer to .alpha/);
    await terminal.shows(/\d tokens/);
    terminal.say("beta");
    await terminal.shows(/Answer to .beta/);
    await terminal.hides("enter steers");
    terminal.say("/undo");
    await terminal.shows("What you say now is a branch.");
    terminal.press("C-u");
    terminal.say("/model second");
    await terminal.shows("second answers from now on.");
    terminal.say("gamma");
    await terminal.shows(/Answer to .gamma/);
    await terminal.hides("enter steers");
    expect(upstream.requests.map(({ body }) => body.model)).toEqual(["first", "first", "second"]);
    terminal.say("/tree");
    await terminal.shows("The tree · 3 answers · 2 ends");
    await terminal.looksLike("tree");
    terminal.press("m", "Up", "m", "c");
    await terminal.shows("scroll both");
    await terminal.looksLike("compare");
    terminal.press("Escape", "Up", "Enter");
    await terminal.hides("The tree");
    await terminal.hides("gamma");
    terminal.say("delta");
    await terminal.shows(/Answer to .delta/);
    await terminal.hides("enter steers");
    const messages = upstream.requests.at(-1)?.body.messages as { content: unknown }[];
    expect(JSON.stringify(messages)).toMatch(/alpha.*delta/);
    expect(JSON.stringify(messages)).not.toMatch(/beta|gamma/);
    terminal.say("/tree");
    await terminal.shows("The tree · 4 answers · 3 ends");
  });

  test("V4 Ctrl-C once cancels the turn, twice leaves", async () => {
    const { at } = await place([{ text: ["slow ", "is ", "this"], delay: 30_000 }]);
    const terminal = new Terminal(at, []);
    await terminal.shows("new conversation");
    terminal.say("go");
    await terminal.shows("esc stops");
    terminal.press("C-c");
    await terminal.shows("Cancelled.");
    expect(terminal.exit).toBeUndefined();
    await new Promise((resolve) => setTimeout(resolve, 2_100));
    terminal.type("half a thought");
    await terminal.shows("half a thought");
    terminal.press("C-c");
    await terminal.shows("Ctrl-C again leaves");
    await terminal.hides("half a thought");
    terminal.press("C-c");
    await terminal.left(130);
    expect(terminal.raw()).not.toMatch(/has not ended|left in the middle/);
  });

  test("V5 after kill -9 the turn is gone on with, and nothing that was shown is lost", async () => {
    const { at, upstream } = await place([
      { text: "Let me look.", calls: [{ name: "glob", arguments: { pattern: "*" } }] },
      { text: ["half ", "of it"], delay: 20_000 },
      { text: "All of it." },
    ]);
    const terminal = new Terminal(at, []);
    await terminal.shows("new conversation");
    terminal.say("look around");
    await terminal.shows("Let me look.");
    await expect.poll(() => upstream.requests.length, soon).toBe(2);
    process.kill(terminal.pid, "SIGKILL");
    await expect.poll(() => terminal.exit, soon).toBe(137);
    const again = new Terminal(at, ["chat", "--continue"]);
    await again.shows("All of it.");
    await again.shows("look around");
    await again.shows("which was left in the middle");
    await again.hides("enter steers");
    expect(again.screen().match(/Let me look\./g)).toHaveLength(1);
    expect(again.screen().match(/✓ glob/g)).toHaveLength(1);
    await again.looksLike("resumed");
  });

  test("V6 2 MB are pasted, folded to a marker, and sent whole", async () => {
    const { at, upstream } = await place([{ text: "Read." }]);
    const terminal = new Terminal(at, []);
    await terminal.shows("new conversation");
    const line = `${"0123456789".repeat(9)}\n`;
    const text = line.repeat(Math.ceil(2_000_000 / line.length));
    terminal.type("count: ");
    terminal.paste(text);
    await terminal.shows(/\[paste #1 \+\d+ lines\]/);
    await terminal.looksLike("pasted");
    terminal.press("Enter");
    await terminal.shows("● Read.");
    const messages = upstream.requests[0]?.body.messages as { content: string }[];
    expect(messages.at(-1)?.content.length).toBeGreaterThanOrEqual(2_000_000);
    expect(messages.at(-1)?.content.trim()).toBe(`count: ${text}`.trim());
    await terminal.shows(/… [\d,]+ more lines \([\d,]+ characters\)/);
  });

  test("V6 resize: the same conversation at any size", async () => {
    const { at } = await place([{ text: markdown.join("") }]);
    const terminal = new Terminal(at, [], { columns: 100, rows: 30 });
    await terminal.shows("new conversation");
    terminal.say("What is in the cart?");
    await terminal.shows("pears");
    await terminal.hides("enter steers");
    terminal.resize(46, 16);
    await terminal.looksLike("narrow");
    terminal.resize(130, 40);
    await terminal.shows("❯ What is in the cart?");
    terminal.resize(100, 30);
    await terminal.looksLike("resized");
  });

  test.each(["xterm", "screen", "linux"])("V6 runs where TERM is %s, as over SSH", async (term) => {
    const { at } = await place([{ text: "Here." }]);
    const terminal = new Terminal(at, [], { term, environment: { SSH_TTY: "/dev/pts/9", SSH_CONNECTION: "a 1 b 2" } });
    await terminal.shows("new conversation");
    terminal.say("there?");
    // The console of Linux has no such sign.
    await terminal.shows(term === "linux" ? "* Here." : "● Here.");
    terminal.say("/quit");
    await terminal.left(0);
  });

  test("V1 what cannot be opened is said where the shell is, with its exit code", async () => {
    const { at } = await place([{ text: "Never." }]);
    const terminal = new Terminal(at, ["chat", "--from", "zzzz9999"]);
    await expect.poll(() => terminal.exit, soon).toBeGreaterThan(0);
    await terminal.left(terminal.exit ?? 0);
    expect(terminal.raw().split("\u001b[?1049l").at(-1)).toContain("zzzz9999");
  });

  test("a golden screen that is wrong fails", () => {
    const golden = readFileSync(join(import.meta.dirname, "golden", "answer.txt"), "utf8");
    expect(masked(golden)).toBe(golden);
    expect(masked(golden.replace("apples", "plums"))).not.toBe(golden);
  });
});

/** Keys count as an answer only once the question has stood for a moment. */
async function pause(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 400));
}
