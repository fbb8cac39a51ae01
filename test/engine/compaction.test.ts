/** Conversations that grow beyond their model's window, with an endpoint that refuses what is too long. */
import { afterEach, describe, expect, test } from "vitest";
import type { UpstreamRequest } from "../../src/testing/upstream.ts";
import { DEFAULT_COMPACTION } from "../../src/types/config.ts";
import type { ResponseNode } from "../../src/types/response.ts";
import { bench, closeBenches, sentMessages } from "../models/helpers.ts";
import { temporaryFolder, toolOf } from "../support.ts";
import { answer, filler, type Talk, talkWith, text, WINDOW } from "./talk.ts";
import { type Dialect, dialects, isSummary, promptTokens, withWindow } from "./window.ts";

afterEach(closeBenches);

/** Turns until something was summed up. */
async function untilCompacted({ say, items }: Talk, most = 20): Promise<ResponseNode[]> {
  const nodes: ResponseNode[] = [];
  for (let number = 0; number < most; number++) {
    const node = await say(
      filler(`question ${number}${number === 0 ? " the code word is heron" : ""}`),
      nodes.at(-1)?.id,
    );
    nodes.push(node);
    expect(node.status, node.error?.message).toBe("completed");
    if ((await items(node.id)).length > 0) return nodes;
  }
  throw new Error("nothing was summed up");
}

describe("a summary, before the window is reached", () => {
  test("G10 S54 older items become one item; the newest stay, and nothing is ever refused", async () => {
    const talk = await talkWith(withWindow(WINDOW, answer), { contextWindow: WINDOW });
    const nodes = await untilCompacted(talk);
    const last = nodes.at(-1) as ResponseNode;
    const [item] = await talk.items(last.id);
    const { upstream } = talk.bench;
    const sent = text(sentMessages(upstream));
    expect(sent).toContain("SUMMARY: the code word is heron.");
    expect(sent).not.toContain("question 0");
    expect(sent).toContain(`question ${nodes.length - 1}`);
    const first = await talk.fixture.engine.get(nodes[0]?.id ?? "");
    expect(item?.covers).toMatchObject({ from: first.input[0]?.id });
    expect(item?.covers?.items).toBeGreaterThan(2);
    // What it stands for is where it was.
    expect(text(first.input)).toContain("the code word is heron");
    const refused = upstream.requests.filter(({ body }) => promptTokens(body) > WINDOW);
    expect(refused).toEqual([]);
    // The summary's tokens are the response's own.
    const summary = upstream.requests.filter(isSummary);
    expect(summary).toHaveLength(1);
    const tokens = upstream.requests.slice(-2).reduce((sum, { body }) => sum + promptTokens(body) + 20, 0);
    expect(last.usage.total_tokens).toBe(tokens);
    const notices = talk.fixture.notices.map((notice) => notice.text).join("\n");
    expect(notices).toMatch(/summed up \d+ items of about [\d,]+ tokens/);
  });

  test("G10 a question that alone is too long is sent with a warning, once", async () => {
    const talk = await talkWith([{ text: "hm" }], { contextWindow: WINDOW });
    expect((await talk.say(filler("long", 40_000))).status).toBe("completed");
    const warnings = talk.fixture.notices.filter(({ level }) => level === "warn").map((notice) => notice.text);
    expect(warnings).toEqual([
      expect.stringMatching(/^the prompt has about 1\d,\d{3} tokens, and the model reads 4,000/),
    ]);
  });

  test("G10 is not made anew with each turn, and what follows begins with the same bytes", async () => {
    const talk = await talkWith(withWindow(WINDOW, answer), { contextWindow: WINDOW });
    const nodes = await untilCompacted(talk);
    const { requests } = talk.bench.upstream;
    const before = text(requests.at(-1)?.body.messages).slice(0, -1);
    const next = await talk.say("and now?", nodes.at(-1)?.id);
    expect(await talk.items(next.id)).toEqual([]);
    expect(requests.filter(isSummary)).toHaveLength(1);
    expect(text(requests.at(-1)?.body.messages).startsWith(before)).toBe(true);
  });

  test("G10 holds after a restart, and a branch from before it sees everything", async () => {
    const folder = temporaryFolder();
    const talk = await talkWith(withWindow(WINDOW, answer), { contextWindow: WINDOW }, { folder });
    const nodes = await untilCompacted(talk);
    await talk.fixture.engine.stop();
    await talk.fixture.store.close();
    const again = await talkWith(withWindow(WINDOW, answer), { contextWindow: WINDOW }, { folder });
    const next = await again.say("and now?", nodes.at(-1)?.id);
    expect(next.status).toBe("completed");
    const sent = text(sentMessages(again.bench.upstream));
    expect(sent).toContain("SUMMARY: the code word is heron.");
    expect(sent).not.toContain("question 0");
    const branch = await again.say("branch", nodes[0]?.id);
    expect(branch.status).toBe("completed");
    expect(text(sentMessages(again.bench.upstream))).toContain("question 0");
    expect(again.bench.upstream.requests.filter(isSummary)).toEqual([]);
  });

  test("is written by another model where one is named, and costs are counted", async () => {
    const small = await bench([
      { text: "short", usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10, cost: 0.25 } },
    ]);
    const models = {
      get: async (id?: string) => (id === "small" ? small.model : talk.bench.model),
    };
    const compaction = { ...DEFAULT_COMPACTION, model: "small" };
    const talk: Talk = await talkWith(withWindow(WINDOW, answer), { contextWindow: WINDOW }, { models, compaction });
    const nodes = await untilCompacted(talk);
    expect(talk.bench.upstream.requests.filter(isSummary)).toEqual([]);
    expect(small.upstream.requests).toHaveLength(1);
    expect(nodes.at(-1)?.usage.cost).toBe(0.25);
  });

  test("a summary that fails stops nothing that still fits", async () => {
    const script = withWindow(WINDOW, (request, number) =>
      isSummary(request) ? { status: 400, body: { error: { message: "no" } } } : answer(request, number),
    );
    const talk = await talkWith(script, { contextWindow: 3_500 });
    const nodes: ResponseNode[] = [];
    for (let number = 0; number < 8; number++) nodes.push(await talk.say(filler(`q ${number}`), nodes.at(-1)?.id));
    expect(talk.bench.upstream.requests.some(isSummary)).toBe(true);
    expect(nodes.map(({ status }) => status)).toEqual(nodes.map(() => "completed"));
    expect(talk.fixture.notices.map((notice) => notice.text).join("\n")).toContain("could not be summed up");
  });
});

describe("what was taken out of the conversation", () => {
  test("is not told by an older summary either", async () => {
    const talk = await talkWith(withWindow(WINDOW, answer), { contextWindow: WINDOW });
    const nodes = await untilCompacted(talk);
    const { engine } = talk.fixture;
    const first = await engine.get(nodes[0]?.id ?? "");
    const omit = first.input.map(({ id }) => id);
    const record = { input: [], workspace: "/", door: "test", conversation: null, omit };
    const edited = await engine.record({ ...record, previousResponseId: nodes.at(-1)?.id ?? "" });
    const next = await talk.say("and now?", edited.id);
    expect(next.status).toBe("completed");
    const told = () => text(sentMessages(talk.bench.upstream));
    expect(told()).not.toContain("heron");
    expect(told()).toContain("question 1");
    // When there is too much again, it is summed up anew, from what is left.
    const before = talk.bench.upstream.requests.length;
    const later = await talk.say(filler("later"), next.id);
    await talk.say(filler("later still"), later.id);
    const made = talk.bench.upstream.requests.slice(before).filter(isSummary);
    expect(made.length).toBeGreaterThan(0);
    expect(text(made[0]?.body.messages)).not.toContain("heron");
  });
});

describe("after the endpoint has refused a prompt", () => {
  const known: Dialect[] = (Object.keys(dialects) as Dialect[]).filter((name) => name !== "plain413");

  test.each(known)("U3 %s: the window is learned, the prompt made shorter, once", async (dialect) => {
    const talk = await talkWith(withWindow(WINDOW, answer, dialect));
    expect(talk.bench.model.contextWindow).toBeUndefined();
    const nodes = await untilCompacted(talk);
    const { upstream, model } = talk.bench;
    const refused = upstream.requests.filter(({ body }) => promptTokens(body) > WINDOW);
    expect(refused).toHaveLength(1);
    expect(Math.abs((model.contextWindow ?? 0) - WINDOW)).toBeLessThan(2);
    // From now on it is known before.
    let last = nodes.at(-1);
    for (let number = 0; number < 6; number++) last = await talk.say(filler(`more ${number}`), last?.id);
    expect(last?.status).toBe("completed");
    expect(upstream.requests.filter(({ body }) => promptTokens(body) > WINDOW)).toHaveLength(1);
  });

  test("U8 a 413 that says nothing: compaction, and the size that was refused is remembered", async () => {
    const talk = await talkWith(withWindow(WINDOW, answer, "plain413"));
    const nodes = await untilCompacted(talk);
    expect(nodes.at(-1)?.status).toBe("completed");
    expect(talk.bench.upstream.requests.filter(({ body }) => promptTokens(body) > WINDOW)).toHaveLength(1);
  });

  test("U3 what is too long by itself is a clear error, after one try", async () => {
    const talk = await talkWith(withWindow(WINDOW, answer));
    const first = await talk.say("hello");
    const node = await talk.say(filler("huge", 40_000), first.id);
    expect(node.status).toBe("failed");
    expect(node.error).toMatchObject({ code: "context_length_exceeded" });
    expect(node.error?.message).toContain("maximum context length is 4000");
    const refused = talk.bench.upstream.requests.filter(({ body }) => promptTokens(body) > WINDOW);
    expect(refused.length).toBeLessThanOrEqual(2);
    // The tree is as usable as before.
    expect((await talk.say("and now?", node.id)).status).toBe("completed");
  });

  test("U3 strategy none, and a client that says so: the error itself", async () => {
    const compaction = { ...DEFAULT_COMPACTION, strategy: "none" as const };
    const none = await talkWith(withWindow(WINDOW, answer), { contextWindow: WINDOW }, { compaction });
    let last: ResponseNode | undefined;
    for (let number = 0; number < 12 && last?.status !== "failed"; number++)
      last = await none.say(filler("q"), last?.id);
    expect(last?.error).toMatchObject({ code: "context_length_exceeded" });
    expect(none.bench.upstream.requests.some(isSummary)).toBe(false);
  });
});

describe("within one long turn", () => {
  const reading = (request: UpstreamRequest, number: number) => {
    if (isSummary(request)) return { text: "SUMMARY: files were read." };
    return number < 12 ? { calls: [{ name: "look", arguments: { number } }] } : { text: "done" };
  };
  const look = toolOf("look", async (input) => ({ text: filler(`page ${input.number}`, 1_800) }));

  test("G10 old results of tools are cut first, and can be read whole", async () => {
    const script = withWindow(WINDOW, (request, number) => (number < 8 ? reading(request, number) : { text: "done" }));
    const talk = await talkWith(script, { contextWindow: WINDOW }, { toolList: [look], profile: { tools: ["*"] } });
    const node = await talk.say("read them all");
    expect(node.status, node.error?.message).toBe("completed");
    const [item] = await talk.items(node.id);
    expect(item?.summary).toContain("read_output");
    const sent = sentMessages(talk.bench.upstream);
    const results = sent.filter(({ role }) => role === "tool").map(({ content }) => String(content));
    expect(results[0]).toMatch(/^page 0 .*left out here\. Read any part with read_output/s);
    expect(results.at(-1)).not.toContain("left out here");
    expect(results.at(-1)?.length).toBeGreaterThan(1_800);
    // All of them are still there.
    const stored = await talk.fixture.engine.get(node.id);
    const outputs = stored.output.flatMap((one) => (one.type === "mcp_call" ? one.output : []));
    expect(outputs.every((output) => (output?.length ?? 0) >= 1_800)).toBe(true);
  });

  test("G10 then the steps themselves are summed up; the question stays, no call loses its result", async () => {
    const talk = await talkWith(
      withWindow(WINDOW, reading),
      { contextWindow: WINDOW },
      {
        toolList: [look],
        profile: { limits: { turns: 50, seconds: 600, tokens: 1e9, callsPerAnswer: 8 } },
      },
    );
    const node = await talk.say("read them all, the code word is heron");
    expect(node.status, node.error?.message).toBe("completed");
    expect((await talk.items(node.id)).some(({ summary }) => summary === "SUMMARY: files were read.")).toBe(true);
    const sent = text(sentMessages(talk.bench.upstream));
    expect(sent).toContain("SUMMARY: files were read.");
    expect(sent).toContain("read them all, the code word is heron");
    // The endpoint answers 400 to a result without its call, and to a call without its result.
    expect(talk.bench.upstream.refusals).toEqual([]);
    expect(talk.bench.upstream.requests.filter(({ body }) => promptTokens(body) > WINDOW)).toEqual([]);
    expect(node.usage.total_tokens).toBeGreaterThan(0);
  });

  test("G10 results that the model has not seen yet are cut where nothing else can go", async () => {
    const many = { calls: Array.from({ length: 12 }, (_, number) => ({ name: "look", arguments: { number } })) };
    const script = withWindow(WINDOW, (_, number) => (number === 0 ? many : { text: "done" }));
    const talk = await talkWith(script, { contextWindow: WINDOW }, { toolList: [look] });
    const node = await talk.say("read them all");
    expect(node.status, node.error?.message).toBe("completed");
    expect(talk.bench.upstream.requests.filter(({ body }) => promptTokens(body) > WINDOW)).toEqual([]);
    expect(text(sentMessages(talk.bench.upstream)).includes("left out here")).toBe(true);
  });
});

describe("first-last", () => {
  test("P7 the first half of the messages, the mark, the last half; then the prompt only grows for a while", async () => {
    const compaction = { ...DEFAULT_COMPACTION, strategy: "first-last" as const, messages: 8 };
    const talk = await talkWith((_, number) => ({ text: `answer ${number}` }), {}, { compaction });
    const nodes: ResponseNode[] = [];
    for (let number = 0; number < 5; number++) nodes.push(await talk.say(`question ${number}`, nodes.at(-1)?.id));
    const told = () =>
      sentMessages(talk.bench.upstream)
        .slice(1)
        .map(({ content }) => content);
    const mark = "[... conversation history truncated to save context ...]";
    const head = ["question 0", "answer 0", "question 1", "answer 1"];
    // Nine messages with the newest question: one over the limit.
    expect(told()).toEqual([...head, mark, "answer 2", "question 3", "answer 3", "question 4"]);
    expect(sentMessages(talk.bench.upstream)[5]?.role).toBe("assistant");
    const before = JSON.stringify(told()).slice(0, -1);
    nodes.push(await talk.say("question 5", nodes.at(-1)?.id));
    expect(JSON.stringify(told()).startsWith(before)).toBe(true);
    for (let number = 6; number < 9; number++) nodes.push(await talk.say(`question ${number}`, nodes.at(-1)?.id));
    expect(told().slice(0, 5)).toEqual([...head, mark]);
    expect(told().at(-1)).toBe("question 8");
    expect(told().length).toBeLessThanOrEqual(11);
    const made = await Promise.all(nodes.map(({ id }) => talk.items(id)));
    expect(made.flat().length).toBeLessThanOrEqual(3);
  });

  test("P7 fewer where even those are too many for the window", async () => {
    const compaction = { ...DEFAULT_COMPACTION, strategy: "first-last" as const };
    const talk = await talkWith(withWindow(WINDOW, answer), { contextWindow: WINDOW }, { compaction });
    await untilCompacted(talk);
    expect(talk.bench.upstream.requests.some(isSummary)).toBe(false);
    expect(talk.bench.upstream.requests.filter(({ body }) => promptTokens(body) > WINDOW)).toEqual([]);
    expect(text(sentMessages(talk.bench.upstream))).toContain("truncated to save context");
  });
});

describe("recall", () => {
  test("G10 is offered once something was summed up, finds it, and reads it in pieces", async () => {
    const script = withWindow(WINDOW, (request, number) => {
      const said = text(request.body.messages);
      if (isSummary(request)) return { text: "SUMMARY" };
      if (said.includes("what was the code word") && !said.includes("older items fit")) {
        return { calls: [{ name: "recall", arguments: { query: "CODE word" } }] };
      }
      return { text: filler(`answer ${number}`, 600) };
    });
    const talk = await talkWith(
      script,
      { contextWindow: WINDOW },
      { toolList: [toolOf("look", async () => ({ text: "x" }))] },
    );
    const nodes = await untilCompacted(talk);
    const names = ({ body }: UpstreamRequest) =>
      (body.tools as { function: { name: string } }[] | undefined)?.map((tool) => tool.function.name);
    expect(names(talk.bench.upstream.requests[0] as UpstreamRequest)).toEqual(["look"]);
    expect(names(talk.bench.upstream.requests.at(-1) as UpstreamRequest)).toEqual(["look", "recall"]);
    const node = await talk.say("what was the code word?", nodes.at(-1)?.id);
    expect(node.status).toBe("completed");
    const { output } = await talk.fixture.engine.get(node.id);
    const call = output.find((item) => item.type === "mcp_call");
    expect(call).toMatchObject({ name: "recall", status: "completed" });
    const found = call?.type === "mcp_call" ? (call.output ?? "") : "";
    expect(found).toContain("the code word is heron");
    expect(found).toMatch(/1 of \d+ older items fit/);
  });
});
