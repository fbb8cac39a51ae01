/** An idle screen and the other doors of its conversation: two apps on one database. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Session } from "../../src/doors/tui/session.ts";
import type { App } from "../../src/types/app.ts";
import { gate, idle, type Opened, open, SOON, said, screenOf, shownIn } from "./opened.ts";

const shown = (session: Session) => shownIn(session.transcript);
const nodeOf = (app: App, session: Session) => app.store.node(session.head ?? "");

/** Two screens that stand at the same answer, to "first". */
async function two(): Promise<[Opened, Opened]> {
  const one = await open();
  await one.session.say(said("first"));
  await idle(one.session);
  const other = await open(undefined, one.root);
  await other.session.open(one.session.head ?? "", true);
  return [one, other];
}

test("V8 an idle screen shows what another door says, as it comes, and goes on from it", async () => {
  const [one, other] = await two();
  await other.session.say(said("wait for it"));
  await expect.poll(() => shown(one.session), SOON).toContain("❯ wait for it");
  expect(one.session.running?.id).toBe(other.session.running?.id);
  gate.open();
  await expect.poll(() => shown(one.session), SOON).toContain("● to wait for it");
  for (const { session } of [one, other]) await idle(session);
  expect(one.session.head).toBe(other.session.head);
  expect(shown(one.session).match(/said at another door/g)).toHaveLength(1);
  const before = one.session.head;
  await one.session.say(said("back here"));
  await idle(one.session);
  expect((await nodeOf(one.app, one.session))?.previousResponseId).toBe(before);
  await expect.poll(() => shown(other.session), SOON).toContain("● to back here");
  expect(shown(other.session).match(/❯/g)).toHaveLength(3);
});

test("V8 what is sent before anybody has looked makes no branch: it goes behind what was said, or steers what runs", async () => {
  const [one, other] = await two();
  await other.session.say(said("second"));
  await idle(other.session);
  const second = other.session.head;
  await one.session.say(said("third"));
  await idle(one.session);
  expect((await nodeOf(one.app, one.session))?.previousResponseId).toBe(second);
  expect(shown(one.session)).toMatch(/❯ first[\s\S]*❯ second[\s\S]*● to second[\s\S]*❯ third[\s\S]*● to third/);

  await expect.poll(() => other.session.head, SOON).toBe(one.session.head);
  await other.session.say(said("half"));
  const running = other.session.running?.id;
  await expect.poll(() => shown(other.session), SOON).toContain("half a sentence");
  await one.session.say(said("and hurry"));
  expect(one.session.running?.id).toBe(running);
  await expect.poll(() => other.session.running?.reader.steering, SOON).toHaveLength(1);
  gate.open();
  await idle(one.session);
  expect(one.session.head).toBe(running);
  await expect.poll(() => shown(one.session), SOON).toMatch(/❯ half[\s\S]*the other half\n\n↪ and hurry/);
});

test("V8 two who send in the same moment stand behind each other, and both see both", async () => {
  const [one, other] = await two();
  const first = one.session.head ?? "";
  await Promise.all([one.session.say(said("apples")), other.session.say(said("pears"))]);
  for (const { session } of [one, other]) {
    await expect.poll(() => shown(session), SOON).toMatch(/[❯↪] apples/);
    await expect.poll(() => shown(session), SOON).toMatch(/[❯↪] pears/);
    await idle(session);
  }
  await expect.poll(() => one.session.head, SOON).toBe(other.session.head);
  expect(await one.app.store.children(first)).toHaveLength(1);
});

test("V8 a question that came through another door is asked at an idle screen, and answered there", async () => {
  const [one, other] = await two();
  await other.session.say(said("write"));
  const ask = () => one.session.asks.open[0];
  await expect.poll(ask, SOON).toMatchObject({ kind: "approval", elsewhere: false });
  const asked = ask();
  if (asked?.kind !== "approval") throw new Error("no approval");
  await one.session.decide(asked, { decision: "allow", by: "test" });
  await expect.poll(() => shown(other.session), SOON).toContain("● called");
  await expect.poll(() => shown(one.session), SOON).toContain("● called");
  expect(existsSync(join(one.root, "work", "a.txt"))).toBe(true);
});

test("V8 who has scrolled up is told, and follows when back at the end", async () => {
  const [one, other] = await two();
  const { screen, type, drawn } = await screenOf(one.options);
  await screen.session?.open(one.session.head ?? "", true);
  for (let index = 0; index < 12; index++) type("/cost");
  await expect.poll(() => screen.transcript.blocks.length, SOON).toBeGreaterThan(13);
  drawn();
  screen.handleInput("\u001b[5~");
  const before = drawn();
  expect(before).toContain("scrolled · End follows");
  await other.session.say(said("second"));
  await expect.poll(drawn, SOON).toContain("the conversation went on · End follows");
  expect(drawn().split("\n").slice(0, 20)).toEqual(before.split("\n").slice(0, 20));
  screen.handleInput("\u001b[F");
  await expect.poll(drawn, SOON).toContain("● to second");

  type("/tree");
  await expect.poll(() => screen.view, SOON).toBeDefined();
  await other.session.say(said("third"));
  await expect.poll(() => screen.session?.elsewhere.wentOn, SOON).toBe(true);
  expect(screen.view).toBeDefined();
  screen.handleInput("\u001b");
  await expect.poll(drawn, SOON).toContain("● to third");
});

test("V8 who stands at an older answer stays there, and what is said there is a branch", async () => {
  const [one, other] = await two();
  const first = one.session.head ?? "";
  await other.session.say(said("second"));
  await idle(other.session);
  await expect.poll(() => one.session.head, SOON).toBe(other.session.head);
  await one.session.open(first);
  await other.session.say(said("third"));
  await idle(other.session);
  await one.session.elsewhere.catchUp(true);
  expect(one.session.head).toBe(first);
  expect(shown(one.session)).not.toContain("second");
  await one.session.say(said("aside"));
  await idle(one.session);
  expect((await nodeOf(one.app, one.session))?.previousResponseId).toBe(first);
  expect(await one.app.store.children(first)).toHaveLength(2);
});

test("V8 a turn that fails ends no conversation: the next one is seen by who was there", async () => {
  const [one, other] = await two();
  const first = one.session.head;
  await one.session.say(said("break"));
  await idle(one.session);
  expect(one.session.head).toBe(first);
  await one.session.say(said("mended"));
  await idle(one.session);
  expect((await nodeOf(one.app, one.session))?.previousResponseId).toBe(first);
  await expect.poll(() => shown(other.session), SOON).toContain("● to mended");
});

test("V8 what comes too late to steer a run of another process is the next turn", async () => {
  const one = await open();
  await one.session.say(said("wait"));
  const other = await open(
    (engine) => ({
      // As if the run had ended between the look and the wish.
      steer: async (id) => {
        gate.open();
        await engine.wait(id);
      },
    }),
    one.root,
  );
  await other.session.open(one.session.running?.id ?? "");
  await other.session.say(said("too late"));
  await expect.poll(() => shown(other.session), SOON).toMatch(/● to wait[\s\S]*❯ too late[\s\S]*● to too late/);
  expect(other.session.steering).toEqual([]);
});

test("V8 a conversation that two have named before anything was said in it is one", async () => {
  const one = await open();
  const second = await open(undefined, one.root);
  for (const { session } of [one, second]) session.standAtBeginning("plans");
  const { screen, drawn } = await screenOf(one.options);
  screen.session?.standAtBeginning("plans");
  expect(drawn()).toContain("in plans");
  const { id } = await one.app.engine.start({
    input: "first",
    workspace: one.app.workspace,
    door: "test",
    model: "scripted",
    conversation: "new",
    conversationName: "plans",
  });
  for (const { session } of [one, second]) await expect.poll(() => session.head, SOON).toBe(id);
  await second.session.say(said("second"));
  await idle(second.session);
  expect((await nodeOf(one.app, second.session))?.previousResponseId).toBe(id);
});
