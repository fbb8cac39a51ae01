/** Retention: what is old goes, unless something that is kept goes on from it. */
import { expect, test } from "vitest";
import { ModelError } from "../../src/types/model.ts";
import { engineWith, modelOf, say } from "../support.ts";

const DAY = 86_400_000;

async function fixture(options: { keep?: number; profileKeep?: string } = {}) {
  const clock = { now: Date.UTC(2030, 0, 1) };
  const { engine, store } = await engineWith({
    model: modelOf([say("done")]),
    now: () => clock.now,
    ...(options.keep !== undefined && { keep: options.keep }),
    ...(options.profileKeep !== undefined && { profile: { keep: options.profileKeep } }),
  });
  const turn = async (rest = {}) => {
    const { id } = await engine.start({ input: "hello", workspace: "/work", door: "test", ...rest });
    return engine.wait(id);
  };
  return { clock, engine, store, turn };
}

test("G23 what is older than it is kept is deleted; its id and hash remain while something goes on from it", async () => {
  const { clock, engine, store, turn } = await fixture({ keep: 30 * DAY });
  const old = await turn();
  const root = await turn();
  clock.now += 20 * DAY;
  const child = await turn({ previousResponseId: root.id });
  clock.now += 15 * DAY;
  expect(await engine.upkeep.prune({ dryRun: true })).toEqual({ deleted: 1, conversations: 1 });
  expect(await engine.upkeep.prune()).toEqual({ deleted: 1, conversations: 1 });
  await expect(engine.get(old.id)).rejects.toMatchObject({ code: "not_found" });
  expect((await engine.get(root.id)).output).not.toEqual([]);
  expect((await store.path(child.id)).map(({ node }) => node.id)).toEqual([root.id, child.id]);
  clock.now += 20 * DAY;
  expect(await engine.upkeep.prune()).toEqual({ deleted: 2, conversations: 1 });
  expect(await store.list({})).toEqual([]);
});

test("the word of a conversation beats its profile's, that of the profile the configuration's", async () => {
  const { clock, engine, store, turn } = await fixture({ keep: 1_000 * DAY, profileKeep: "7d" });
  const gone = await turn();
  const kept = await turn();
  const conversation = await store.conversation(kept.conversationId ?? "");
  if (!conversation) throw new Error("no conversation");
  expect(await store.conversations({ limit: 1, kept: true })).toEqual([]);
  await store.saveConversation({ ...conversation, metadata: { keep: "forever" } });
  expect(await store.conversations({ limit: 5, kept: true })).toHaveLength(1);
  clock.now += 8 * DAY;
  expect(await engine.upkeep.prune()).toEqual({ deleted: 1, conversations: 1 });
  await expect(engine.get(gone.id)).rejects.toMatchObject({ code: "not_found" });
  expect((await engine.get(kept.id)).status).toBe("completed");
  expect(await engine.upkeep.prune({ olderThan: DAY })).toEqual({ deleted: 1, conversations: 1 });
});

test("without a word nothing is ever deleted", async () => {
  const { clock, engine, turn } = await fixture();
  await turn();
  clock.now += 100_000 * DAY;
  expect(await engine.upkeep.prune()).toEqual({ deleted: 0, conversations: 0 });
});

test("what would be deleted is what is deleted: a first turn that failed, a branch, what was deleted before", async () => {
  const clock = { now: Date.UTC(2030, 0, 1) };
  const refuse = () => {
    throw new ModelError("upstream_bad_request", "no", { status: 400 });
  };
  const { engine, store } = await engineWith({
    model: modelOf([say("once"), refuse, refuse, say("done")]),
    now: () => clock.now,
  });
  const turn = async (rest = {}) => {
    const { id } = await engine.start({ input: "hello", workspace: "/work", door: "test", ...rest });
    return engine.wait(id);
  };
  const first = await turn();
  const failed = await turn();
  const another = await turn();
  expect(failed.status).toBe("failed");
  expect((await store.conversation(failed.conversationId ?? ""))?.head).toBeNull();
  // A conversation whose first answer is kept, for a branch goes on from it: it goes back there.
  const root = await turn();
  const own = root.conversationId ?? "";
  const gone = await turn({ conversation: own });
  const middle = await turn({ conversation: own });
  await engine.delete(gone.id);
  clock.now += 20 * DAY;
  await turn({ previousResponseId: root.id });
  clock.now += 15 * DAY;
  const told = await engine.upkeep.prune({ dryRun: true, olderThan: 30 * DAY });
  expect(told).toEqual({ deleted: 4, conversations: 3 });
  expect(await engine.upkeep.prune({ olderThan: 30 * DAY })).toEqual(told);
  for (const { id } of [first, failed, another, middle]) expect(await store.node(id)).toBeUndefined();
  expect((await store.conversation(own))?.head).toBe(root.id);
});
