/** A conversation that is summed up because somebody wants it. */
import { afterEach, describe, expect, test } from "vitest";
import type { Entry } from "../../src/types/item.ts";
import { bench, closeBenches, sentMessages } from "../models/helpers.ts";
import { engineWith, temporaryFolder } from "../support.ts";
import { answer, talkWith, text, WINDOW } from "./talk.ts";
import { isSummary, withWindow } from "./window.ts";

afterEach(closeBenches);

describe("by hand", () => {
  test("the whole path becomes one summary, and the conversation goes on from it", async () => {
    const talk = await talkWith(withWindow(WINDOW, answer));
    const { engine, store } = talk.fixture;
    const request = { workspace: "/", door: "test" };
    const first = await engine.start({ ...request, input: "the code word is heron", conversation: "new" });
    await engine.wait(first.id);
    const conversation = first.conversationId ?? "";
    const made = await engine.start({ ...request, input: [], conversation, settings: { compact: { focus: "birds" } } });
    expect(await engine.wait(made.id)).toMatchObject({ status: "completed", previousResponseId: first.id });
    expect(text(talk.bench.upstream.requests.at(-1)?.body.messages)).toContain("keep this: birds");
    expect((await store.conversation(conversation))?.head).toBe(made.id);
    const [item] = await talk.items(made.id);
    expect(item).toMatchObject({ summary: "SUMMARY: the code word is heron.", covers: { items: 2 } });
    const next = await engine.start({ ...request, input: "and now?", conversation });
    expect((await engine.wait(next.id)).status).toBe("completed");
    expect(sentMessages(talk.bench.upstream).slice(1)).toEqual([
      { role: "user", content: "Summary of the conversation so far:\n\nSUMMARY: the code word is heron.\n\nand now?" },
    ]);
    // Once more: there is nothing new in it but what came since.
    const again = await engine.start({ ...request, input: [], conversation, settings: { compact: {} } });
    expect((await engine.wait(again.id)).status).toBe("completed");
    const summaries = talk.bench.upstream.requests.filter(isSummary);
    expect(text(summaries.at(-1)?.body.messages)).toContain("<summary>");
    expect((await talk.items(again.id))[0]?.covers?.items).toBe(4);
  });

  test("a summary is a model call like any other: beyond a budget it waits, and goes on when that is raised", async () => {
    const talk = await talkWith(withWindow(WINDOW, answer), {}, { budgets: [{ for: "all", tokens: 30 }] });
    const { engine, store } = talk.fixture;
    const first = await talk.say("hello");
    expect(first.usage.total_tokens).toBeGreaterThan(30);
    const request = { workspace: "/", door: "test", conversation: null, previousResponseId: first.id };
    const { id } = await engine.start({ ...request, input: [], settings: { compact: {} } });
    expect(await engine.wait(id)).toMatchObject({ status: "waiting", error: { code: "budget_reached" } });
    expect(talk.bench.upstream.requests.some(isSummary)).toBe(false);
    await store.saveBudget("all", { tokens: 100_000 }, "total", Date.now());
    await engine.resume(id);
    expect(await engine.wait(id)).toMatchObject({ status: "completed" });
    expect(await talk.items(id)).toHaveLength(1);
  });

  test("a crash in the middle leaves nothing half done: it is made again", async () => {
    const folder = temporaryFolder();
    const talk = await talkWith(withWindow(WINDOW, answer), {}, { folder });
    const first = await talk.say("hello");
    const { store } = talk.fixture;
    const hanging = await bench([{ silent: "hang" }]);
    const other = await engineWith({ model: hanging.model, store });
    const request = { workspace: "/", door: "test", conversation: null, previousResponseId: first.id };
    const { id } = await other.engine.start({ ...request, input: [], settings: { compact: {} } });
    while (hanging.upstream.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await other.engine.stop();
    const stored = await store.get(id);
    expect(stored?.entries.filter(({ side }: Entry) => side === "output")).toEqual([]);
    await talk.fixture.engine.resume(id);
    expect((await talk.fixture.engine.wait(id)).status).toBe("completed");
    expect(await talk.items(id)).toHaveLength(1);
    const events = await store.events(id, -1, 100);
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index));
  });
});
