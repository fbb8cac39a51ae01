/** What a person who looks around reads: the tree as a picture, everything said, what was used. */
import { describe, expect, test } from "vitest";
import type { Search } from "../../src/types/browsing.ts";
import type { Entry, Usage } from "../../src/types/item.ts";
import type { Store } from "../../src/types/store.ts";
import { newId } from "../../src/util/ids.ts";
import { databases } from "./databases.ts";
import { batchOf, begin, end, ended, messageEntry } from "./support.ts";

const search = async (store: Store, words: string, rest: Partial<Search> = {}) =>
  (await store.browsing()).search({
    words: words.split(" "),
    all: false,
    limit: 20,
    milliseconds: 60_000,
    ...rest,
  });

const used = (input: number, output: number, cost?: number): Usage => ({
  input_tokens: input,
  output_tokens: output,
  total_tokens: input + output,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens_details: { reasoning_tokens: 0 },
  ...(cost !== undefined && { cost }),
});

const others = (position: number): Entry[] => [
  {
    side: "output",
    position,
    turn: 1,
    item: {
      type: "reasoning",
      id: newId("rs"),
      status: "completed",
      summary: [],
      content: [{ type: "reasoning_text", text: "the lighthouse, silently" }],
    },
    meta: {},
  },
  {
    side: "output",
    position: position + 1,
    turn: 1,
    item: {
      type: "mcp_call",
      id: newId("mcp"),
      server_label: "rotunda",
      name: "read",
      arguments: '{"path":"lighthouse.txt"}',
      status: "completed",
      output: "it is 40 metres high",
      error: null,
      approval_request_id: null,
    },
    meta: {},
  },
];

describe.each(databases)("on $name", ({ fresh }) => {
  test("W4 the whole tree that a response stands in: branches, sub-agents, excerpts; a deleted one is not shown", async () => {
    const store = await (await fresh()).open();
    const root = await ended(store, { input: "the\n  first question" }, "the first answer");
    const left = await ended(store, { previousResponseId: root, input: "left" });
    const right = await ended(
      store,
      { previousResponseId: root, input: "right", model: "other" },
      `long ${"x".repeat(500)}`,
    );
    const agent = await ended(store, { caller: { responseId: right, itemId: "mcp_1" }, depth: 1, input: "a task" });
    const below = await ended(store, { previousResponseId: agent, input: "goes on below" });
    const deleted = await ended(store, { previousResponseId: left, input: "gone" });
    const child = await ended(store, { previousResponseId: deleted, input: "below what is gone" });
    await ended(store, { input: "another tree" });
    await store.delete(deleted);
    const browsing = await store.browsing();
    for (const id of [root, left, right, agent, below, child]) {
      const view = await browsing.tree(id, { limit: 500 });
      expect(view).toMatchObject({ root, truncated: false });
      expect(view?.nodes.map(({ node }) => node.id)).toEqual([root, left, right, agent, below, child]);
    }
    const view = await browsing.tree(below, { limit: 500 });
    expect(view?.nodes[0]).toMatchObject({ prompt: "the first question", answer: "the first answer" });
    expect(view?.nodes[2]?.answer).toMatch(/^long x{194}…$/);
    expect(view?.nodes[3]?.node.caller).toEqual({ responseId: right, itemId: "mcp_1" });
    expect(await browsing.tree("resp_nothing", { limit: 500 })).toBeUndefined();
  });

  test("W4 of a long tree what is nearest is given, and said to be a part; another owner's is not", async () => {
    const store = await (await fresh()).open();
    const ids: string[] = [];
    for (let index = 0; index < 30; index++) {
      const above = ids.at(-1);
      ids.push(
        await ended(store, { input: `turn ${index}`, ...(above !== undefined && { previousResponseId: above }) }),
      );
    }
    const theirs = await ended(store, { previousResponseId: ids[3] ?? "", owner: "alice", input: "hers" });
    const browsing = await store.browsing();
    const view = await browsing.tree(ids[12] ?? "", { limit: 10 });
    expect(view).toMatchObject({ root: ids[0], truncated: true });
    const given = view?.nodes.map(({ node }) => node.id) ?? [];
    expect(given).toHaveLength(10);
    expect(given).toEqual(expect.arrayContaining(ids.slice(8, 13)));
    expect(given).toContain(ids[29]);
    const hers = await browsing.tree(theirs, { limit: 500, owner: "alice" });
    expect(hers).toMatchObject({ root: theirs, nodes: [{ node: { id: theirs } }] });
    expect((await browsing.tree(ids[5] ?? "", { limit: 500, owner: "local" }))?.nodes).toHaveLength(30);
  });

  test("W3 everything said is found by its words, newest first, in pages; reasoning and tools when asked", async () => {
    const store = await (await fresh()).open();
    const { node } = await begin(store, { input: "Where is the LIGHTHOUSE of Westerhever?" });
    await end(store, node.id, 'At the sea: 40\u00a0metres, "red" and white, 100% sure_', {
      entries: [
        ...others(0),
        messageEntry("output", 'The lighthouse stands at the sea: Größe 40, "red\\white", 100% sure_x', 2),
      ],
    });
    const many: string[] = [];
    for (let index = 0; index < 7; index++) many.push(await ended(store, { input: `needle number ${index}` }));
    const found = await search(store, "lighthouse");
    expect(found.next).toBeNull();
    expect(found.found.map(({ role, responseId }) => [role, responseId])).toEqual([
      ["assistant", node.id],
      ["user", node.id],
    ]);
    expect(found.found[1]?.excerpt).toBe("Where is the LIGHTHOUSE of Westerhever?");
    for (const words of [
      "sea LIGHTHOUSE",
      "GRÖSSE".replace("SS", "ß"),
      'lighthouse "red\\white",',
      "100% sure_x",
      "%",
      "westerhever",
    ]) {
      expect((await search(store, words)).found, words).toHaveLength(1);
    }
    for (const words of [
      "lighthouse moon",
      "light_house",
      "sure%x",
      "'; DROP TABLE",
      "assistant",
      "output_text",
      "silently",
      "metres",
    ]) {
      expect((await search(store, words)).found, words).toEqual([]);
    }
    expect((await search(store, "lighthouse", { all: true })).found.map(({ role }) => role)).toEqual([
      "assistant",
      "tool",
      "reasoning",
      "user",
    ]);
    // Page by page.
    const seen: string[] = [];
    let before: string | undefined;
    do {
      const page = await search(store, "NEEDLE number", { limit: 3, ...(before !== undefined && { before }) });
      seen.push(...page.found.map(({ responseId }) => responseId));
      before = page.next ?? undefined;
    } while (before !== undefined);
    expect(seen).toEqual(many.toReversed());
    await expect(search(store, "x", { before: "1.2.3 OR 1" })).rejects.toMatchObject({ code: "usage" });
    // Out of time it says how far it has come, and comes to the end all the same.
    let rounds = 0;
    let hits = 0;
    for (let next: string | null | undefined; next !== null && rounds < 1_000; rounds++) {
      const page = await search(store, "lighthouse", { milliseconds: -1, ...(next && { before: next }) });
      hits += page.found.length;
      next = page.next;
    }
    expect(hits).toBe(2);
  });

  test("W3 nothing is found that is deleted, another owner's, or the engine's own", async () => {
    const store = await (await fresh()).open();
    const gone = await ended(store, { input: "a secret word" });
    const hers = await ended(store, { input: "a secret word", owner: "alice" });
    const { node } = await begin(store, { input: "something else" });
    const synthetic = { ...messageEntry("input", "a secret word", 1), meta: { synthetic: "nudge" } };
    await end(store, node.id, "fine", { entries: [synthetic] });
    await store.delete(gone);
    expect((await search(store, "secret")).found.map(({ responseId }) => responseId)).toEqual([hers]);
    expect((await search(store, "secret", { owner: "alice" })).found).toHaveLength(1);
    expect((await search(store, "secret", { owner: "bob" })).found).toEqual([]);
    expect((await search(store, "something", { owner: "alice" })).found).toEqual([]);
  });

  test("W4 tokens and money by day, model and profile, of one owner or of all", async () => {
    const store = await (await fresh()).open();
    const day = (text: string) => Date.parse(`${text}T12:00:00Z`);
    const make = async (createdAt: number, usage: Usage, rest = {}) => {
      const { node } = await begin(store, { createdAt, ...rest });
      const done = { status: "completed", endedAt: createdAt + 5, hash: "due", usage } as const;
      await store.append(batchOf(node.id, { node: done }), true);
    };
    await make(day("2030-01-01"), used(1, 1));
    await make(day("2030-01-10"), used(100, 10, 0.5));
    await make(day("2030-01-10"), used(50, 5, 0.25));
    await make(day("2030-01-10"), used(7, 3), { model: "other", profile: "explore" });
    await make(day("2030-01-11"), used(1, 2, 0.1), { owner: "alice" });
    const browsing = await store.browsing();
    const range = {
      from: Date.parse("2030-01-10T00:00:00Z"),
      to: Date.parse("2030-01-12T00:00:00Z"),
      milliseconds: 60_000,
    };
    const { sums, truncated } = await browsing.usage(range);
    expect(truncated).toBe(false);
    expect(sums.sort((a, b) => (a.day + a.model).localeCompare(b.day + b.model))).toEqual([
      { day: "2030-01-10", model: "other", profile: "explore", responses: 1, inputTokens: 7, outputTokens: 3, cost: 0 },
      {
        day: "2030-01-10",
        model: "scripted",
        profile: "general",
        responses: 2,
        inputTokens: 150,
        outputTokens: 15,
        cost: 0.75,
      },
      {
        day: "2030-01-11",
        model: "scripted",
        profile: "general",
        responses: 1,
        inputTokens: 1,
        outputTokens: 2,
        cost: 0.1,
      },
    ]);
    expect((await browsing.usage({ ...range, owner: "alice" })).sums).toHaveLength(1);
    expect((await browsing.usage({ ...range, owner: "bob" })).sums).toEqual([]);
  });
});
