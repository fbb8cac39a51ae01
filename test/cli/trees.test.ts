/** `rotunda log`: how a tree is drawn, and which trees are listed. On the store that ROTUNDA_TEST_STORE names. */
import { expect, test } from "vitest";
import { treeText } from "../../src/doors/cli/outline.ts";
import { latestTrees } from "../../src/doors/cli/trees.ts";
import type { App } from "../../src/types/app.ts";
import type { RunRequest } from "../../src/types/engine.ts";
import { shortId } from "../../src/util/ids.ts";
import { engineWith, modelOf, say } from "../support.ts";

const HOUR = 3_600_000;

async function place() {
  const clock = { now: Date.now() - 100 * HOUR };
  const { engine, store } = await engineWith({ model: modelOf([say("done")]), now: () => clock.now });
  const app = { engine, store, workspace: "/work" } as App;
  const turn = async (input: string, rest: Partial<RunRequest> = {}) => {
    const { id } = await engine.start({ input, workspace: "/work", door: "test", ...rest });
    return engine.wait(id);
  };
  const listed = async (limit: number) => {
    const texts = [];
    for (const tree of await latestTrees(app, limit)) texts.push(await treeText(app, tree, ""));
    return texts;
  };
  return { clock, engine, store, turn, listed };
}

/** The branches and the ids alone. */
const drawn = (text: string) => text.split("\n").map((line) => line.replace(/ {2}general.*/, ""));

test("what goes on from a branch stands below it, and none of its siblings does", async () => {
  const { turn, listed } = await place();
  const root = await turn("root");
  const one = await turn("one", { previousResponseId: root.id });
  const on = await turn("one, on", { previousResponseId: one.id });
  const further = await turn("one, further", { previousResponseId: on.id });
  const two = await turn("two", { previousResponseId: root.id });
  const last = await turn("three", { previousResponseId: root.id });
  const [text = ""] = await listed(5);
  const [a, b, c, d, e, f] = [root, one, on, further, two, last].map(({ id }) => shortId(id));
  expect(drawn(text)).toEqual([
    `  ${a}`,
    `    ├─╴${b}`,
    `    │  ${c}`,
    `    │  ${d}`,
    `    ├─╴${e}`,
    `    ╰─╴${f}`,
    "",
  ]);
});

test("a long straight conversation is a list", async () => {
  const { turn, listed } = await place();
  let last = await turn("0");
  const ids = [last.id];
  for (let count = 1; count < 12; count++) {
    last = await turn(String(count), { previousResponseId: last.id });
    ids.push(last.id);
  }
  const [text = ""] = await listed(1);
  expect(drawn(text)).toEqual([...ids.map((id, index) => `${index === 0 ? "  " : "    "}${shortId(id)}`), ""]);
});

test("those that were spoken in last are listed, whenever they began, with when and with their names", async () => {
  const { clock, store, turn, listed } = await place();
  const first = await turn("the first", { conversation: "new", conversationName: "c1" });
  for (let count = 0; count < 25; count++) {
    clock.now += HOUR;
    await turn(`chat ${count}`);
  }
  clock.now = Date.now() - 3 * HOUR - 1;
  await turn("newest of all", { conversation: first.conversationId ?? "" });
  const texts = await listed(20);
  expect(texts).toHaveLength(20);
  const heads = texts.map((text) => text.split("\n")[0]);
  expect(heads.at(-1)).toMatch(/"the first" {2}3 h ago {2}\[c1\]$/);
  expect(texts.at(-1)).toContain('"newest of all"');
  expect(heads[0]).toMatch(/"chat 6" {2}\d{4}-\d\d-\d\d$/);
  expect(heads.slice(0, -1).map((line) => Number(/"chat (\d+)"/.exec(line ?? "")?.[1]))).toEqual(
    Array.from({ length: 19 }, (_, index) => index + 6),
  );
  // A title that somebody gave it is a name as well.
  const [latest] = await store.conversations({ limit: 2 });
  if (latest?.name !== "c1") throw new Error("not the one that was used last");
  const [, other] = await store.conversations({ limit: 2 });
  if (other) await store.saveConversation({ ...other, title: "Birds" });
  expect((await listed(2))[0]).toMatch(/"chat 24".*\[Birds\]\n/);
});

test("what was stored last and is old, as after an import, does not push out what is in use", async () => {
  const { clock, turn, listed } = await place();
  await turn("in use");
  clock.now -= 1_000 * HOUR;
  for (let count = 0; count < 30; count++) await turn(`imported ${count}`);
  expect((await listed(3)).at(-1)).toContain('"in use"');
});

test("what belongs to no conversation is listed, and what is left of a tree whose root is gone", async () => {
  const { clock, engine, turn, listed } = await place();
  const root = await turn("root");
  await turn("left", { previousResponseId: root.id });
  await turn("left, too", { previousResponseId: root.id });
  await engine.delete(root.id);
  clock.now += HOUR;
  await turn("alone", { conversation: null });
  const all = (await listed(5)).join("");
  expect(all).toContain('"alone"');
  expect(all.match(/"left/g)).toHaveLength(2);
  expect(all).not.toContain('"root"');
});
