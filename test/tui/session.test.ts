/** A session against a real app: what happens when two things happen at once. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ApprovalPanel } from "../../src/doors/tui/ask-panel.ts";
import { SaidBlock } from "../../src/doors/tui/block.ts";
import { Completion } from "../../src/doors/tui/completion.ts";
import { PickPanel } from "../../src/doors/tui/pick.ts";
import { lookFor } from "../../src/doors/tui/style.ts";
import { treeRows } from "../../src/doors/tui/tree.ts";
import { TreeView } from "../../src/doors/tui/tree-view.ts";
import { RotundaError } from "../../src/types/error.ts";
import { temporaryFolder } from "../support.ts";
import { gate, idle, open, SOON, said, screenOf, shownIn } from "./opened.ts";

test("what steers a turn that has just ended is the next turn, however late that is known", async () => {
  const steering = Promise.withResolvers<void>();
  const { app, session } = await open((engine) => ({
    async steer(id, items) {
      await steering.promise;
      return engine.steer(id, items);
    },
  }));
  await session.say(said("wait"));
  const first = session.running?.id ?? "";
  const steered = session.say(said("and then"));
  gate.open();
  await expect.poll(() => app.store.children(first), SOON).toHaveLength(1);
  await idle(session);
  const next = session.head;
  steering.resolve();
  await steered;
  await idle(session);
  expect(session.head).toBe(next);
  expect(session.queue).toEqual([]);
  const { input } = await app.engine.get(session.head ?? "");
  expect(JSON.stringify(input)).toContain("and then");
});

test("a run of another conversation that is joined and fails: what is said next is not said in the conversation before", async () => {
  const { app, session } = await open();
  await session.say(said("first"));
  await idle(session);
  const first = session.head;
  expect(first).toBeDefined();
  const other = await app.engine.start({
    input: "wait and break",
    workspace: app.workspace,
    door: "test",
    model: "scripted",
  });
  await session.open(other.id);
  expect(session.head).not.toBe(first);
  gate.open();
  await idle(session);
  expect((await app.engine.get(other.id)).status).toBe("failed");
  expect(session.head).not.toBe(first);
});

test("two looks at conversations at once: the later one is shown, and nothing of the other", async () => {
  const { app, session } = await open();
  const make = async (input: string) => {
    const { id } = await app.engine.start({ input, workspace: app.workspace, door: "test", model: "scripted" });
    await app.engine.wait(id);
    return id;
  };
  const [one, other] = [await make("one"), await make("other")];
  await Promise.all([session.open(one), session.open(other)]);
  expect(session.head).toBe(other);
  expect(session.transcript.blocks.filter((block) => block instanceof SaidBlock)).toHaveLength(1);
});

test("a run that is shown already is not followed twice, and another answer is not gone to while it runs", async () => {
  const { session } = await open();
  await session.say(said("first"));
  await idle(session);
  const first = session.head ?? "";
  await session.say(said("wait"));
  const id = session.running?.id ?? "";
  await session.open(id);
  await session.open(first);
  expect(session.running?.id).toBe(id);
  gate.open();
  await idle(session);
  expect(session.head).toBe(id);
  expect(session.transcript.blocks.filter(({ weight }) => weight > 0).map((block) => block.constructor.name)).toEqual([
    "SaidBlock",
    "AnswerBlock",
    "SaidBlock",
    "NoteBlock",
    "AnswerBlock",
  ]);
});

test("an approval whose answer could not be stored is asked about again", async () => {
  let broken = true;
  const { session } = await open((engine) => ({
    async decide(id, decision) {
      if (broken) throw new Error("the disk is full");
      return engine.decide(id, decision);
    },
  }));
  await session.say(said("write"));
  const asked = () => session.asks.open[0];
  await expect.poll(asked, SOON).toBeDefined();
  const ask = asked();
  if (ask?.kind !== "approval") throw new Error("no approval");
  const deny = { decision: "deny", by: "test", door: "tui", who: "local" } as const;
  await session.decide(ask, deny);
  await expect.poll(asked, SOON).toBeDefined();
  broken = false;
});

test("what is said while something begins is next, also where that comes to nothing", async () => {
  const begun = Promise.withResolvers<void>();
  let broken = true;
  const { session } = await open((engine) => ({
    async start(request) {
      await begun.promise;
      if (!broken) return engine.start(request);
      broken = false;
      throw new RotundaError("upstream_unreachable", "nobody there");
    },
  }));
  const first = session.say(said("first"));
  await session.say(said("second"));
  expect(session.queue).toHaveLength(1);
  begun.resolve();
  await first;
  await expect.poll(() => shownIn(session.transcript), SOON).toMatch(/nobody there[\s\S]*● to second/);
  expect(session.queue).toEqual([]);
});

test("while a turn is about to begin nothing is taken back or cleared", async () => {
  const begun = Promise.withResolvers<void>();
  const { options } = await open((engine) => ({
    async start(request) {
      if (request.input === "second") await begun.promise;
      return engine.start(request);
    },
  }));
  const { screen, type, drawn } = await screenOf(options);
  type("first");
  await expect.poll(drawn, SOON).toContain("● to first");
  await expect.poll(() => screen.session?.busy, SOON).toBe(false);
  type("second");
  await expect.poll(() => screen.session?.starting, SOON).toBe(true);
  for (const command of ["/undo", "/clear", "/compact", "/resume"]) type(command);
  await expect.poll(() => drawn().match(/A turn is running/g), SOON).toHaveLength(4);
  expect(screen.editor.getText()).toBe("");
  begun.resolve();
  await expect.poll(drawn, SOON).toContain("● to second");
});

test("a tree is read at once: branches, sub-agents below what called them, and what each was asked", async () => {
  const one = await open();
  const { app, session } = one;
  for (const text of ["first", "second"]) {
    await session.say(said(text));
    await idle(session);
  }
  const root = (await app.store.node(session.head ?? ""))?.previousResponseId ?? "";
  await session.open(root);
  await session.say(said("other"));
  await idle(session);
  const caller = { responseId: root, itemId: "mcp_1" };
  const { workspace } = app;
  await app.engine.wait(
    (await app.engine.start({ input: "helper", caller, workspace, door: "test", model: "scripted" })).id,
  );
  for (const name of ["node", "get", "children", "list"] as const)
    Object.assign(app.store, { [name]: () => Promise.reject(new Error(`${name}: one by one`)) });
  const { rows, truncated } = await treeRows(app, session.head ?? "");
  expect(rows.map(({ branch, question }) => `${branch}${question}`)).toEqual([
    "first",
    "│  ╰╴helper",
    "├─╴second",
    "╰─╴other",
  ]);
  expect(truncated).toBe(false);
});

test("the sum of a long tree keeps nobody from going on", async () => {
  const { app, session } = await open();
  app.store.usedBelow = () => new Promise(() => undefined);
  await session.say(said("first"));
  await idle(session);
  await session.say(said("second"));
  await idle(session);
  expect(session.transcript.blocks.filter((block) => block instanceof SaidBlock)).toHaveLength(2);
});

test("in the tree a text is never scrolled out of sight, and what cannot be read says why", async () => {
  const { app, session } = await open();
  await session.say(said("first"));
  await idle(session);
  const canvas = { width: 80, look: lookFor(false), now: 0 };
  const view = await TreeView.open(
    session,
    session.head,
    () => undefined,
    () => undefined,
  );
  const drawn = () => view.draw(canvas, 12).join("\n");
  view.key(" ");
  await expect.poll(drawn, SOON).toContain("to first");
  for (let times = 0; times < 50; times++) view.key("j");
  expect(drawn()).toContain("to first");

  app.store.get = () => Promise.reject(new RotundaError("storage_damaged", "it is damaged"));
  const other = await TreeView.open(
    session,
    session.head,
    () => undefined,
    () => undefined,
  );
  other.key(" ");
  await expect.poll(() => other.draw(canvas, 12).join("\n"), SOON).toContain("it is damaged");
});

test("a key is heard while files are looked for among thousands, and the best ones are found all the same", async () => {
  const folder = temporaryFolder();
  for (let number = 0; number < 2_500; number++) writeFileSync(join(folder, `file-${number}.txt`), "");
  const completion = new Completion([], folder);
  const look = (text: string, { signal } = new AbortController()) =>
    completion.getSuggestions([text], 0, text.length, { signal });
  const found = await look("@file2499");
  expect(found?.items[0]?.value).toBe("@file-2499.txt");
  const stop = new AbortController();
  const looking = look("@file", stop);
  setImmediate(() => stop.abort());
  expect(await looking).toBeNull();
});

test("a question that a list covers is asked behind it", async () => {
  const { app, options } = await open();
  const { screen, type } = await screenOf(options);
  type("write");
  await expect.poll(() => screen.session?.running, SOON).toBeDefined();
  const models = Promise.withResolvers<void>();
  const all = await app.models();
  app.models = () => models.promise.then(() => all);
  type("/model");
  await expect.poll(() => screen.panel, SOON).toBeInstanceOf(ApprovalPanel);
  models.resolve();
  await expect.poll(() => screen.panel, SOON).toBeInstanceOf(PickPanel);
  screen.handleInput("\u001b");
  await expect.poll(() => screen.panel, SOON).toBeInstanceOf(ApprovalPanel);
});
