/** The rest of what people do at the screen: questions of servers, rules that are learned, commands. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { UpstreamRequest, UpstreamStep } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { hasTmux, place, soon, Terminal, tellMissing } from "./terminal.ts";

tellMissing();

const fixture = join(import.meta.dirname, "..", "fixtures", "mcp", "asking.ts");
const servers = {
  mcpServers: { asking: { command: process.execPath, args: [fixture, "both"] } },
  permissions: { mode: "auto" },
};

/** What the model was told last. */
function said({ body }: Pick<UpstreamRequest, "body">): string {
  return JSON.stringify(body.messages);
}

const calling = (name: string, input: object = {}): UpstreamStep => ({
  calls: [{ name, arguments: { ...input } }],
});

/** Keys count as an answer only once the question has stood for a moment. */
async function pause(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 400));
}

describe.skipIf(!hasTmux)("questions of MCP servers", () => {
  test.each(["here", "in a server"])(
    "V2 a form and a link are answered at the screen, the run being %s",
    async (where) => {
      const { at, upstream } = await place(
        [
          calling("asking__confirm"),
          { text: "Formed." },
          calling("asking__link"),
          { text: "Linked." },
          calling("asking__confirm"),
          { text: "Declined." },
        ],
        servers,
      );
      if (where !== "here") {
        const server = at.start(["serve", "--port", "0", "--quiet"]);
        later(() => void server.child.kill("SIGKILL"));
        await expect.poll(() => server.out(), soon).toContain("listening on");
      }
      const terminal = new Terminal(at, ["chat"]);
      await terminal.shows("new conversation");
      terminal.say("ask me");
      await terminal.shows("asking asks");
      await terminal.shows("Who are you?\\u{202e}");
      await pause();
      if (where === "here") await terminal.looksLike("form");
      terminal.say("A");
      await terminal.shows("at least 2 characters");
      terminal.say("da");
      terminal.say("many");
      await terminal.shows("a whole number");
      terminal.press("C-u");
      terminal.say("3");
      terminal.press("Right", "Enter");
      await terminal.shows("● Formed.");
      const answered = said(upstream.requests[1] ?? { body: {} });
      expect(answered).toContain("accept");
      for (const part of ["Ada", "3", "red"]) expect(answered).toContain(part);
      await terminal.hides("enter steers");
      terminal.say("and a link");
      await terminal.shows("https://sign-in.example.com/start?x=1");
      await pause();
      if (where === "here") await terminal.looksLike("link");
      terminal.press("Enter");
      await terminal.shows("● Linked.");
      expect(said(upstream.requests[3] ?? { body: {} })).toMatch(/.*accept/);
      await terminal.hides("enter steers");
      terminal.say("once more");
      await terminal.shows("asking asks");
      await pause();
      terminal.press("Escape");
      await terminal.hides("asking asks");
      terminal.say("/approve");
      await terminal.shows("asking asks");
      await pause();
      terminal.press("C-d");
      await terminal.shows("● Declined.");
      expect(said(upstream.requests[5] ?? { body: {} })).toContain("decline");
    },
  );
});

describe.skipIf(!hasTmux)("approvals", () => {
  const write = (file: string): UpstreamStep => calling("write", { file_path: file, content: "x" });

  test("V2 'always this pattern' is learned: the next call is not asked about, in any conversation", async () => {
    const { at } = await place([write("a.txt"), { text: "One." }, write("a.txt"), { text: "Two." }]);
    const terminal = new Terminal(at, ["chat", "--mode", "ask"]);
    await terminal.shows("new conversation");
    terminal.say("note it");
    await terminal.shows("asks for permission");
    const pattern = /always (write\(.*?\))/.exec(terminal.screen())?.[1];
    await pause();
    terminal.press("a");
    await terminal.shows("● One.");
    await terminal.shows(`${pattern} is always allowed in this directory from now on.`);
    await terminal.hides("enter steers");
    terminal.say("/clear");
    await terminal.shows("History cleared.");
    terminal.say("again");
    await terminal.shows("● Two.");
    expect(terminal.raw().match(/asks for permission/g)).toHaveLength(1);
  });

  test("V2 a turn that ends at its question, as a profile wants it, is answered and gone on with", async () => {
    const { at, upstream } = await place([write("a.txt"), { text: "Written." }], {
      profiles: { careful: { extends: "general", onApproval: "return" } },
      profile: "careful",
      permissions: { mode: "ask" },
    });
    const terminal = new Terminal(at, ["chat"]);
    await terminal.shows("careful");
    terminal.say("write it");
    await terminal.shows("write asks for permission");
    await pause();
    terminal.press("y");
    await terminal.shows("● Written.");
    await terminal.hides("enter steers");
    terminal.say("and then?");
    await expect.poll(() => upstream.requests.length, soon).toBe(3);
    expect(said(upstream.requests[2] ?? { body: {} })).toMatch(/write it.*Written\..*and then/);
  });

  test("V2 left for later, it is taken up with /approve, from another conversation too", async () => {
    const { at } = await place([write("a.txt"), { text: "Written." }], { permissions: { mode: "ask" } });
    const one = new Terminal(at, ["chat"]);
    await one.shows("new conversation");
    one.say("write it");
    await one.shows("asks for permission");
    await pause();
    one.press("Escape");
    await one.shows("It stays open");
    const other = new Terminal(at, ["chat"]);
    await other.shows("new conversation");
    other.say("/approve");
    await other.shows("write asks for permission");
    await pause();
    other.press("y");
    await one.shows("● Written.");
    expect(other.screen()).not.toContain("● Written.");
    await other.shows("new conversation");
    other.say("/approve");
    await other.shows("Nothing waits for a person.");
  });
});

describe.skipIf(!hasTmux)("long conversations", () => {
  test("V1 of 1,000 turns the newest are there at once, and the first ones on scrolling up", async () => {
    const { at } = await place([{ text: "Never." }]);
    const file = join(at.workspace, "..", "long.json");
    const messages = Array.from({ length: 2_000 }, (_, index) => ({
      id: `m${index}`,
      role: index % 2 === 0 ? "user" : "assistant",
      content: index % 2 === 0 ? `question ${index / 2}` : `Answer ${(index - 1) / 2}, **long** enough.`,
      timestamp: 1_700_000_000_000 + index * 1_000,
    }));
    const whole = { id: "conv_1700000000000_long", title: "long", createdAt: 1, updatedAt: 2, messages };
    writeFileSync(file, JSON.stringify(whole));
    expect(await at.run(["import", file])).toMatchObject({ code: 0 });
    const terminal = new Terminal(at, ["chat", "--continue"]);
    await terminal.shows(/❯ question 999\n\n● Answer 999, long enough\./);
    // A few turns are read, not all of them.
    for (let page = 0; page < 400 && !terminal.screen().includes("❯ question 0\n"); page++) {
      terminal.press(...Array.from({ length: 8 }, () => "PageUp"));
    }
    await terminal.shows(/❯ question 0\n\n● Answer 0, long/);
    terminal.press("End");
    await terminal.shows("● Answer 999");
  });
});

describe.skipIf(!hasTmux)("commands", () => {
  test("V7 /compact sums up, and what follows goes on from the summary", async () => {
    const { at, upstream } = await place([
      { text: "A heron is a bird." },
      { text: "They spoke of a heron." },
      { text: "As I said." },
    ]);
    const terminal = new Terminal(at, ["chat"]);
    await terminal.shows("new conversation");
    terminal.say("/compact");
    await terminal.shows("Nothing has been said yet.");
    terminal.say("what is a heron?");
    await terminal.shows("● A heron");
    await terminal.hides("enter steers");
    terminal.say("/compact the birds");
    await terminal.shows("They spoke of a heron.");
    await terminal.shows("≡ compacted 2 older items");
    await terminal.hides("enter steers");
    expect(said(upstream.requests[1] ?? { body: {} })).toContain("the birds");
    await terminal.looksLike("compacted");
    terminal.say("go on");
    await terminal.shows("● As I said.");
    const last = said(upstream.requests[2] ?? { body: {} });
    expect(last).toContain("They spoke of a heron.");
    expect(last).not.toContain("A heron is a bird.");
  });

  test("V7 /hub, /tools and /agent tell and change", async () => {
    const { at, upstream } = await place([{ text: "Hello." }], servers);
    const terminal = new Terminal(at, ["chat"], { rows: 40 });
    await terminal.shows("new conversation");
    terminal.say("/hub");
    await terminal.shows(/asking +\w+ · stdio/);
    terminal.say("/tools");
    await terminal.shows("tools available.");
    await terminal.shows(/asking__confirm/);
    await terminal.looksLike("tools");
    terminal.say("/agent explore");
    await terminal.shows("explore answers from now on.");
    await terminal.shows("first · explore");
    terminal.say("/tools");
    await terminal.shows(/\n {2}[0-9]+ tools available\./);
    terminal.say("/agent nobody");
    await terminal.shows("There is no profile nobody.");
    terminal.say("/agent");
    await terminal.shows("type to narrow");
    terminal.type("gen");
    await terminal.shows("→ general");
    terminal.press("Enter");
    await terminal.shows("first · general");
    terminal.say("hello");
    await terminal.shows("● Hello.");
    expect(JSON.stringify(upstream.requests[0]?.body.tools)).toContain("asking__confirm");
  });

  test("V7 /branch ID and /resume: go to another answer and go on from it", async () => {
    const { at, upstream } = await place(({ body }) => ({ text: `Answer ${(body.messages as unknown[]).length}.` }));
    const terminal = new Terminal(at, ["chat"]);
    await terminal.shows("new conversation");
    terminal.say("apples");
    await terminal.shows(/● Answer[\s\S]*at \w{8}/);
    const id = /at (\w{8})/.exec(terminal.screen())?.[1] ?? "";
    terminal.say("pears");
    await terminal.shows(/❯ pears[\s\S]*● Answer/);
    await terminal.hides("enter steers");
    terminal.say(`/branch ${id}`);
    await terminal.hides("❯ pears");
    await terminal.shows(`at ${id}`);
    terminal.say("plums");
    await terminal.shows(/❯ plums[\s\S]*● Answer/);
    await terminal.hides("enter steers");
    expect(said(upstream.requests[2] ?? { body: {} })).toMatch(/apples.*plums/);
    expect(said(upstream.requests[2] ?? { body: {} })).not.toContain("pears");
    terminal.say("/branch zzzz9999");
    await terminal.shows(/\[error\] .*zzzz9999/);
    terminal.say("/clear");
    await terminal.shows("History cleared.");
    terminal.say("cherries");
    await terminal.shows(/❯ cherries[\s\S]*● Answer/);
    await terminal.hides("enter steers");
    terminal.say("/resume");
    await terminal.shows("Go on with");
    await terminal.shows("cherries");
    await terminal.looksLike("resume");
    terminal.type("plu");
    await terminal.hides("cherries ");
    terminal.press("Enter");
    await terminal.shows("❯ plums");
    await terminal.hides("❯ cherries");
    terminal.say("more");
    await terminal.shows(/❯ more[\s\S]*● Answer/);
    expect(said(upstream.requests[4] ?? { body: {} })).toMatch(/apples.*plums.*more/);
  });
});
