/** What another door has queued behind the turn that runs at a screen. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { activityLines } from "../../src/doors/tui/status.ts";
import { lookFor } from "../../src/doors/tui/style.ts";
import { later } from "../support.ts";
import { gate, idle, type Opened, open, SOON, said, screenOf, shownIn } from "./opened.ts";
import { hasTmux, place, soon, Terminal, tellMissing } from "./terminal.ts";

tellMissing();

/** Another door queues this behind all that there is. */
async function queue({ app }: Opened, behind: string, input: string): Promise<string> {
  const { workspace } = app;
  const conversation = (await app.store.node(behind))?.conversationId ?? "";
  const { id } = await app.engine.start({
    input,
    conversation,
    workspace,
    door: "mcp",
    model: "scripted",
    queue: true,
  });
  return id;
}

const lines = ({ session }: Opened) => activityLines(session, { width: 80, look: lookFor(false), now: 0 }).slice(1);

test("V8 what another door has queued stands behind the turn that runs, until it begins or is cancelled", async () => {
  const one = await open();
  const other = await open(undefined, one.root);
  await one.session.say(said("wait for it"));
  const running = one.session.running?.id ?? "";
  const second = await queue(other, running, "and what\n of \u001b[31mFriday?");
  const third = await queue(other, running, "and Saturday?");
  await one.session.say(said("mine"), true);
  await expect
    .poll(() => lines(one).map((line) => line.trim()), SOON)
    .toEqual([
      expect.stringMatching(/queued at mcp: and what of \S*\[31mFriday\?/),
      expect.stringContaining("queued at mcp: and Saturday?"),
      expect.stringContaining("next: mine"),
    ]);
  expect(lines(one).join("")).not.toContain("\u001b[31m");
  await other.app.engine.cancel(third, "not wanted");
  await expect.poll(() => lines(one).join("\n"), SOON).not.toContain("Saturday");
  expect(one.session.running?.id).toBe(running);
  gate.open();
  await expect.poll(() => shownIn(one.session.transcript), SOON).toMatch(/● to and what[\s\S]*❯ mine\n\n● to mine/);
  await idle(one.session);
  expect(one.session.elsewhere.queued).toEqual([]);
  expect((await one.app.store.node(second))?.status).toBe("completed");
});

test("V8 a queued one that is opened is shown behind what runs before it, and that is what is steered", async () => {
  const one = await open();
  await one.session.say(said("wait half"));
  const running = one.session.running?.id ?? "";
  const second = await queue(one, running, "second");
  const other = await open(undefined, one.root);
  await other.session.open(second, true);
  expect(other.session.running?.id).toBe(running);
  await expect.poll(() => lines(other).join("\n"), SOON).toContain("queued at mcp: second");
  gate.open();
  await expect
    .poll(() => shownIn(other.session.transcript), SOON)
    .toMatch(/the other half[\s\S]*❯ second\n\n● to second/);
  await idle(other.session);
  expect(other.session.head).toBe(second);
});

test("V8 an idle screen follows what runs, and not what waits behind it", async () => {
  const one = await open();
  const other = await open(undefined, one.root);
  await one.session.say(said("first"));
  await idle(one.session);
  await other.session.open(one.session.head ?? "", true);
  await one.session.say(said("wait half"));
  const running = one.session.running?.id ?? "";
  const last = await queue(one, running, "last");
  await expect.poll(() => other.session.running?.id, SOON).toBe(running);
  await expect.poll(() => lines(other).join("\n"), SOON).toContain("queued at mcp: last");
  gate.open();
  await expect.poll(() => shownIn(other.session.transcript), SOON).toMatch(/the other half[\s\S]*● to last/);
  await idle(other.session);
  expect(other.session.head).toBe(last);
});

test("V4 Ctrl-C lets what another door has queued begin, says so, and the next one ends that", async () => {
  const one = await open();
  const other = await open(undefined, one.root);
  const { control, screen, type, drawn, left } = await screenOf(one.options);
  type("wait");
  await expect.poll(() => screen.session?.running?.id, SOON).toBeDefined();
  const running = screen.session?.running?.id ?? "";
  const second = await queue(other, running, "half of it");
  await expect.poll(drawn, SOON).toContain("queued at mcp: half of it");
  control.interrupt();
  expect(drawn()).toContain("Ctrl-C again leaves");
  await expect
    .poll(drawn, SOON)
    .toMatch(/Cancelled\.\n[\s\S]*queued at mcp runs now: Ctrl-C cancels it\.\n[\s\S]*half a sentence/);
  expect(drawn()).not.toContain("Ctrl-C again leaves");
  control.interrupt();
  await expect.poll(async () => (await one.app.store.node(second))?.status, SOON).toBe("cancelled");
  expect(left).toEqual([]);
});

describe.skipIf(!hasTmux)("two doors of one server", () => {
  test("V8 what HTTP has queued is seen at the terminal, and begins there with a word when the turn is cancelled", async () => {
    const { at } = await place(({ body }) => {
      const asked = JSON.stringify(body.messages);
      return { text: asked.includes("Friday") ? "On Friday it rains." : "On Thursday the sun shines.", break: "hang" };
    });
    const server = at.start(["serve", "--port", "0", "--quiet"]);
    later(() => void server.child.kill("SIGKILL"));
    await expect.poll(() => server.out(), soon).toContain("listening on");
    const [url = ""] = /http:\/\/[\d.:]+/.exec(server.out()) ?? [];
    const token = readFileSync(join(at.environment.ROTUNDA_HOME ?? "", "token"), "utf8").trim();
    const ask = async (path: string, body?: object): Promise<Record<string, unknown>> => {
      const answer = await fetch(url + path, {
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...(body && { method: "POST", body: JSON.stringify(body) }),
      });
      return (await answer.json()) as Record<string, unknown>;
    };
    const terminal = new Terminal(at, []);
    await terminal.shows("new conversation");
    terminal.say("what of Thursday?");
    await terminal.shows("● On Thursday");
    const { data } = (await ask("/v1/conversations")) as { data?: { id: string }[] };
    const conversation = data?.[0]?.id;
    await ask("/v1/responses", { input: "and what of Friday?", conversation, background: true });
    await terminal.shows("queued at http: and what of Friday?");
    await terminal.looksLike("queued");
    terminal.press("C-c");
    await terminal.shows(
      /Cancelled\.\n\n {2}What was queued at http runs now: Ctrl-C cancels it\.\n\n❯ and what of Friday\?/,
    );
    await terminal.shows("● On Friday");
    await terminal.hides("queued at http:");
    terminal.press("C-c");
    await terminal.shows(/● On Friday[\s\S]*Cancelled\./);
    await terminal.hides("enter steers");
    expect(terminal.exit).toBeUndefined();
  });
});
