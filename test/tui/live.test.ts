/** The terminal while something runs: steering, queueing, other terminals, servers, sub-agents, hands of one's own. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { UpstreamRequest, UpstreamStep } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { hasTmux, place, soon, Terminal, tellMissing } from "./terminal.ts";

tellMissing();

function said({ body }: Pick<UpstreamRequest, "body">): string {
  return JSON.stringify(body.messages);
}

const slowly = (text: string, seconds: number): UpstreamStep => ({ text: [text, " …"], delay: seconds * 500 });

describe.skipIf(!hasTmux)("while a turn runs", () => {
  test("V7 Enter steers it, Alt+Enter queues the next one, and the screen says which", async () => {
    const { at, upstream } = await place([
      { calls: [{ name: "bash", arguments: { command: "sleep 2; echo slept" } }] },
      { text: "First done." },
      { text: "Second done." },
    ]);
    const terminal = new Terminal(at, ["chat", "--mode", "auto"]);
    await terminal.shows("new conversation");
    terminal.say("begin");
    await terminal.shows("running bash");
    terminal.say("and hurry");
    await terminal.shows("steers: and hurry");
    terminal.type("then this");
    terminal.press("M-Enter");
    await terminal.shows("next: then this");
    await terminal.shows("● Second done.");
    expect(said(upstream.requests[1] ?? { body: {} })).toMatch(/slept.*and hurry/);
    expect(said(upstream.requests[2] ?? { body: {} })).toMatch(/First done.*then this/);
    await terminal.shows(/↪ and hurry[\s\S]*❯ then this/);
  });

  test("V8 another terminal on the same run sees the same and answers for it; leaving does not end a server's run", async () => {
    const { at } = await place([
      { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "a" } }] },
      slowly("Written", 3),
    ]);
    const server = at.start(["serve", "--port", "0", "--quiet"]);
    later(() => void server.child.kill("SIGKILL"));
    await expect.poll(() => server.out(), soon).toContain("listening on");
    const one = new Terminal(at, []);
    await one.shows("new conversation");
    one.say("write it");
    await one.shows("write asks for permission");
    const other = new Terminal(at, ["chat", "--continue"]);
    await other.shows("write asks for permission");
    await sleep(400);
    other.press("y");
    await one.hides("asks for permission");
    await one.shows("● Written");
    await other.shows("● Written");
    one.say("/quit");
    await one.left(0);
    expect(one.raw()).toContain("goes on in the server. See it: rotunda chat --from");
    await other.shows("● Written …");
    await other.hides("enter steers");
    const log = await at.run(["log", "--json"]);
    expect(log.out).toContain('"completed"');
  });

  test("V8 the plan, and sub-agents as a tree with their calls", async () => {
    const todos = [
      { content: "Look", status: "completed", activeForm: "Looking" },
      { content: "Ask the explorer", status: "in_progress", activeForm: "Asking" },
      { content: "Tell", status: "pending", activeForm: "Telling" },
    ];
    const { at } = await place(({ body }): UpstreamStep => {
      const text = JSON.stringify(body.messages);
      if (!text.includes('"carts?"')) {
        if (!text.includes('"role":"tool"'))
          return { calls: [{ name: "grep", arguments: { pattern: "cart", path: "." } }] };
        return { text: ["No ", "carts."], delay: 500 };
      }
      if (text.includes('"role":"tool"')) return { text: "All told." };
      const task = { agent_type: "explore", task: "Report on carts", description: "Find carts" };
      return {
        calls: [
          { name: "TodoWrite", arguments: { todos } },
          { name: "task", arguments: task },
        ],
      };
    });
    const terminal = new Terminal(at, ["chat", "--mode", "auto"]);
    await terminal.shows("new conversation");
    terminal.say("carts?");
    await terminal.shows("plan 1/3");
    await terminal.shows("▸ Ask the explorer");
    await terminal.shows(/└ explore in_progress · 1 call[\s\S]*└ ✓ grep cart/);
    await terminal.shows("● All told.");
    await terminal.hides("enter steers");
    await terminal.shows(/└ explore completed · 1 call · 30 tokens/);
    await terminal.looksLike("agents");
  });
});

describe.skipIf(!hasTmux)("in the editor", () => {
  test("V7 !command runs by hand, and goes along with the next message", async () => {
    const { at, upstream } = await place([{ text: "I see." }]);
    const terminal = new Terminal(at, []);
    await terminal.shows("new conversation");
    terminal.say("!echo by $((40 + 2)) hands");
    await terminal.shows("│ by 42 hands");
    expect(upstream.requests).toHaveLength(0);
    terminal.say("what was that?");
    await terminal.shows("● I see.");
    expect(said(upstream.requests[0] ?? { body: {} })).toMatch(/echo by.*by 42 hands.*what was that\?/);
  });

  test("V7 @ offers files that git knows; / offers commands and their arguments", async () => {
    const { at, upstream } = await place([{ text: "Read." }]);
    for (const name of ["cart.js", "secret.log"]) writeFileSync(join(at.workspace, name), "x");
    writeFileSync(join(at.workspace, ".ignore"), "*.log\n");
    const terminal = new Terminal(at, []);
    await terminal.shows("new conversation");
    terminal.type("look at @ca");
    await terminal.shows("→ cart.js");
    terminal.press("Tab");
    await terminal.shows("look at @cart.js");
    terminal.press("C-u");
    terminal.type("@sec");
    await sleep(500);
    expect(terminal.screen()).not.toContain("secret.log");
    terminal.press("C-u");
    terminal.type("/mo");
    await terminal.shows("→ /model");
    terminal.press("Tab");
    terminal.type("sec");
    await terminal.shows("→ second");
    terminal.press("Tab", "Enter");
    await terminal.shows("second answers from now on.");
    terminal.say("hello");
    await terminal.shows("● Read.");
    expect(upstream.requests[0]?.body.model).toBe("second");
  });

  test("V7 the path of an image that is pasted becomes the image", async () => {
    const { at, upstream } = await place([{ text: "A dot." }]);
    const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    writeFileSync(join(at.workspace, "a dot.png"), Buffer.from(dot, "base64"));
    const terminal = new Terminal(at, []);
    await terminal.shows("new conversation");
    terminal.type("what is ");
    terminal.paste(`'${join(at.workspace, "a dot.png")}'`);
    await terminal.shows("what is [image #1: a dot.png]");
    terminal.press("Enter");
    await terminal.shows("● A dot.");
    expect(said(upstream.requests[0] ?? { body: {} })).toContain(`data:image/png;base64,${dot}`);
  });

  test("V7 Ctrl-V attaches the image of the clipboard, and says why where there is none", async () => {
    const { at, upstream } = await place([{ text: "A dot." }]);
    const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const programs = join(at.workspace, "..", "programs");
    mkdirSync(programs);
    const clipboard = join(programs, "clipboard");
    writeFileSync(clipboard, "");
    writeFileSync(join(programs, "wl-paste"), `#!/bin/sh\n[ "$3" = image/png ] && cat '${clipboard}'\n`, {
      mode: 0o755,
    });
    const environment = { PATH: `${programs}:${at.environment.PATH}`, WAYLAND_DISPLAY: "wayland-0", DISPLAY: "" };
    const terminal = new Terminal(at, [], { environment });
    await terminal.shows("new conversation");
    terminal.press("C-v");
    await terminal.shows("There is no image in the clipboard.");
    writeFileSync(clipboard, Buffer.from(dot, "base64"));
    terminal.type("what is ");
    terminal.press("C-v");
    await terminal.shows("what is [image #1: pasted]");
    rmSync(join(programs, "wl-paste"));
    terminal.press("C-v");
    await terminal.shows("To paste an image, wl-paste is needed (install wl-clipboard).");
    terminal.press("Enter");
    await terminal.shows("● A dot.");
    expect(said(upstream.requests[0] ?? { body: {} })).toContain(`data:image/png;base64,${dot}`);
  });

  test("N2 V7 /clear says so and begins anew; /export writes; /cost and /help tell", async () => {
    const { at, upstream } = await place([{ text: "Yes." }]);
    const terminal = new Terminal(at, [], { rows: 50 });
    await terminal.shows("new conversation");
    terminal.say("apricots?");
    await terminal.shows("● Yes.");
    await terminal.hides("enter steers");
    terminal.say("/export out.jsonl");
    await terminal.shows("Exported to out.jsonl");
    expect(readFileSync(join(at.workspace, "out.jsonl"), "utf8")).toContain("Yes.");
    terminal.say("/cost");
    await terminal.shows("The whole tree: 1 answer, 15 tokens, $0.00006");
    terminal.say("/clear");
    await terminal.shows("History cleared.");
    terminal.say("/help");
    await terminal.looksLike("help");
    terminal.press("Escape");
    await terminal.hides("take the last queued message");
    terminal.say("two");
    await expect.poll(() => upstream.requests.length, soon).toBe(2);
    expect(said(upstream.requests[1] ?? { body: {} })).not.toContain("apricots");
    terminal.say("/nonsense");
    await terminal.shows("Unknown command /nonsense.");
    terminal.say("/resume");
    await terminal.shows("Go on with");
    terminal.press("Escape");
    await sleep(200);
    terminal.press("C-d");
    await terminal.left(0);
    expect(terminal.raw()).toContain("Goodbye.");
  });

  test("V7 without a terminal, or with --plain, it is plain lines", async () => {
    const { at } = await place([{ text: "Plain." }]);
    const terminal = new Terminal(at, ["chat", "--plain"]);
    await terminal.shows("you>");
    terminal.say("hello");
    await terminal.shows("Plain.");
    expect(terminal.raw()).not.toContain("\u001b[?1049h");
  });
});

describe.skipIf(!hasTmux)("several doors", () => {
  test("V8 two idle terminals and a program on one conversation: each sees at once what the others say", async () => {
    const { at, upstream } = await place(({ body }) => ({ text: `Answer ${(body.messages as unknown[]).length}.` }));
    const server = at.start(["serve", "--port", "0", "--quiet"]);
    later(() => void server.child.kill("SIGKILL"));
    await expect.poll(() => server.out(), soon).toContain("listening on");
    const one = new Terminal(at, []);
    await one.shows("new conversation");
    one.say("apples");
    await one.shows(/❯ apples\n\n● Answer \d\./);
    await one.hides("enter steers");
    const other = new Terminal(at, ["chat", "--continue"]);
    await other.shows("❯ apples");
    other.say("pears");
    await one.shows(/said at another door:\n\n❯ pears\n\n● Answer \d\./);
    await one.looksLike("elsewhere");
    const program = await at.run(["chat", "--continue", "plums"]);
    expect(program.code).toBe(0);
    for (const terminal of [one, other]) await terminal.shows(/❯ pears[\s\S]*❯ plums\n\n● Answer \d\./);
    one.say("cherries");
    await other.shows(/❯ plums[\s\S]*❯ cherries\n\n● Answer \d\./);
    expect(said(upstream.requests[3] ?? { body: {} })).toMatch(/apples.*pears.*plums.*cherries/);
    const tree = await at.run(["log", "--json"]);
    expect(tree.out.match(/"completed"/g)).toHaveLength(4);
  });

  test("V2 a change of a file that is there is asked about as the change that it is", async () => {
    const lines = Array.from({ length: 40 }, (_, index) => `line ${index + 1}`);
    const fresh = lines.map((line) => (line === "line 20" ? "another line" : line));
    const { at } = await place([
      { calls: [{ name: "write", arguments: { file_path: "notes.txt", content: `${fresh.join("\n")}\n` } }] },
      { text: "Done." },
    ]);
    writeFileSync(join(at.workspace, "notes.txt"), `${lines.join("\n")}\n`);
    const terminal = new Terminal(at, []);
    await terminal.shows("new conversation");
    terminal.say("note it");
    await terminal.shows("notes.txt · replaces a file of 40 lines");
    await terminal.looksLike("change");
    await sleep(400);
    terminal.press("y");
    await terminal.shows("● Done.");
    await terminal.shows(/✓ write notes\.txt .*\+1 −1/);
  });

  test("V4 a tool that is cancelled says so, then and later, in the same words", async () => {
    const { at } = await place([
      { calls: [{ name: "bash", arguments: { command: "printf 'one\\ntwo\\n'; sleep 60" } }] },
      { text: "Never." },
    ]);
    const terminal = new Terminal(at, ["chat", "--mode", "auto"]);
    await terminal.shows("new conversation");
    terminal.say("begin");
    await terminal.shows("running bash");
    terminal.press("Escape");
    await terminal.shows("Cancelled.");
    await terminal.shows(/⊘ bash[\s\S]*\n {2}Cancelled\.\n/);
    terminal.say("/quit");
    await terminal.left(0);
    expect(terminal.raw()).toMatch(/Go on with: rotunda chat --from/);
    const again = new Terminal(at, ["chat", "--continue"]);
    await again.shows(/⊘ bash[\s\S]*\n {2}Cancelled\.\n/);
  });

  test("lines are counted as they are, and what ends the last one begins no other", async () => {
    const { at } = await place([
      { calls: [{ name: "bash", arguments: { command: "seq 5" } }] },
      { calls: [{ name: "bash", arguments: { command: "echo step" } }] },
      { text: "Counted." },
    ]);
    const terminal = new Terminal(at, ["chat", "--mode", "auto"]);
    await terminal.shows("new conversation");
    terminal.say("count");
    await terminal.shows("● Counted.");
    terminal.say("!printf 'a\\nb\\n'");
    await terminal.shows("│ b");
    await terminal.looksLike("counted");
  });
});
