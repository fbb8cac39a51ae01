/** The loop: what a turn does, and when it ends. */
import { describe, expect, test } from "vitest";
import { ModelError, type ModelEvent } from "../../src/types/model.ts";
import { callOf, collect, engineWith, modelOf, say, temporaryFolder, toolOf } from "../support.ts";

const workspace = temporaryFolder;

const start = { door: "test", workspace: "/" };

describe("a turn", () => {
  test("B8 G19 N14 ends on the model's own stop, after its calls", async () => {
    const model = modelOf([callOf(["echo", { a: 1 }]), say("done")]);
    const echo = toolOf("echo", async (input) => ({ text: JSON.stringify(input) }));
    const { engine } = await engineWith({ model, toolList: [echo] });
    const { id } = await engine.start({ ...start, input: "go" });
    const node = await engine.wait(id);
    expect(node.status).toBe("completed");
    expect(model.requests).toHaveLength(2);
    const { output, turns } = await engine.get(id);
    expect(output.map((item) => item.type)).toEqual(["mcp_call", "message"]);
    expect(output[0]).toMatchObject({ status: "completed", output: '{"a":1}' });
    expect(turns).toBe(2);
  });

  test("the live stream and the replay are the same, from every number", async () => {
    const answer: ModelEvent[] = [
      { type: "reasoning", delta: "let " },
      { type: "reasoning", delta: "me see" },
      { type: "text", delta: "I " },
      { type: "text", delta: "look" },
      ...callOf(["echo", { a: 1 }], ["missing", {}]),
    ];
    const echo = toolOf("echo", async () => ({ text: "x".repeat(20_000) }));
    const { engine } = await engineWith({ model: modelOf([answer, say("done")]), toolList: [echo] });
    const { id } = await engine.start({ ...start, input: "go" });
    const live = await collect(engine.watch(id));
    await engine.wait(id);
    expect(live.map((event) => event.sequence_number)).toEqual(live.map((_, index) => index));
    for (let after = -1; after < live.length; after++) {
      expect(await collect(engine.watch(id, after))).toEqual(after === live.length - 1 ? [] : live.slice(after + 1));
      if (after === live.length - 2) break;
    }
  });

  test("B7 G13 U26 a failed tool and an unknown one tell the model their error", async () => {
    const model = modelOf([callOf(["broken", {}], ["nope", {}]), say("sorry")]);
    const broken = toolOf("broken", async () => {
      throw new Error("disk on fire");
    });
    const { engine } = await engineWith({ model, toolList: [broken] });
    const { id } = await engine.start({ ...start, input: "go" });
    await engine.wait(id);
    const { output } = await engine.get(id);
    expect(output[0]).toMatchObject({ status: "failed", output: "[Tool error: disk on fire]" });
    expect(output[1]).toMatchObject({ status: "failed", output: 'unknown tool "nope"; available: broken' });
  });

  test("N17 U24 arguments that are no JSON go back to the model", async () => {
    const model = modelOf([callOf(["echo", '{"a":']), say("again")]);
    const { engine } = await engineWith({ model, toolList: [toolOf("echo", async () => ({ text: "never" }))] });
    const { id } = await engine.start({ ...start, input: "go" });
    await engine.wait(id);
    const { output } = await engine.get(id);
    expect(output[0]).toMatchObject({
      status: "failed",
      output: '[Error: malformed tool call arguments — could not parse JSON: {"a":]',
    });
  });

  test("U27 arguments that are too deep or too long are refused, not run", async () => {
    let ran = 0;
    const echo = toolOf("echo", async () => {
      ran++;
      return { text: "ran" };
    });
    const deep = `{"a":${"[".repeat(20_000)}${"]".repeat(20_000)}}`;
    const long = `{"a":"${"x".repeat(2_000_000)}"}`;
    const model = modelOf([callOf(["echo", deep], ["echo", long]), say("ok")]);
    const { engine } = await engineWith({ model, toolList: [echo] });
    const { id } = await engine.start({ ...start, input: "go" });
    expect((await engine.wait(id)).status).toBe("completed");
    expect(ran).toBe(0);
    const { output } = await engine.get(id);
    expect(output.slice(0, 2)).toMatchObject([{ status: "failed" }, { status: "failed" }]);
  });

  test("U29 text and calls with stop: all kept, tools run", async () => {
    const answer: ModelEvent[] = [
      { type: "text", delta: "I look" },
      ...callOf(["echo", {}]).slice(0, 2),
      { type: "finish", reason: "stop" },
    ];
    const model = modelOf([answer, say("done")]);
    const { engine } = await engineWith({ model, toolList: [toolOf("echo", async () => ({ text: "ran" }))] });
    const { id } = await engine.start({ ...start, input: "go" });
    await engine.wait(id);
    const { output } = await engine.get(id);
    expect(output.map((item) => item.type)).toEqual(["message", "mcp_call", "message"]);
    expect(output[1]).toMatchObject({ output: "ran" });
  });

  test("U23 B8 an unknown stop reason ends the loop and is kept", async () => {
    const answer: ModelEvent[] = [
      { type: "text", delta: "hm" },
      { type: "finish", reason: "other", reasonRaw: "eos_special" },
    ];
    const model = modelOf([answer]);
    const { engine, store } = await engineWith({ model });
    const { id } = await engine.start({ ...start, input: "go" });
    expect((await engine.wait(id)).status).toBe("completed");
    expect(model.requests).toHaveLength(1);
    expect((await store.get(id))?.entries.at(-1)?.meta.finishRaw).toBe("eos_special");
  });

  test("F20 a length stop keeps the text and says why it is incomplete", async () => {
    const { engine } = await engineWith({
      model: modelOf([
        [
          { type: "text", delta: "half an ans" },
          { type: "finish", reason: "length" },
        ],
      ]),
    });
    const { id } = await engine.start({ ...start, input: "go" });
    expect(await engine.wait(id)).toMatchObject({ status: "incomplete", incompleteReason: "max_output_tokens" });
    expect(engine.textOf(await engine.get(id))).toBe("half an ans");
  });
});

describe("limits", () => {
  const echo = () => toolOf("echo", async (input) => ({ text: JSON.stringify(input) }));

  test("N14 F20 U28 at the limit of turns the model is asked once for an answer, and the work is returned", async () => {
    let n = 0;
    const model = modelOf([
      (request) => (request.toolChoice === "none" ? say("what I know") : callOf(["echo", { n: n++ }])),
    ]);
    const { engine } = await engineWith({ model, toolList: [echo()] });
    const { id } = await engine.start({ ...start, input: "go", settings: { limits: { turns: 3 } } });
    expect(await engine.wait(id)).toMatchObject({ status: "incomplete", incompleteReason: "max_turns" });
    expect(model.requests).toHaveLength(4);
    expect(engine.textOf(await engine.get(id))).toBe("what I know");
  });

  test("U28 the same call with the same result three times in a row", async () => {
    const model = modelOf([
      (request) => (request.toolChoice === "none" ? say("I stop") : callOf(["echo", { same: true }])),
    ]);
    const { engine } = await engineWith({ model, toolList: [echo()] });
    const { id } = await engine.start({ ...start, input: "go" });
    expect(await engine.wait(id)).toMatchObject({ status: "incomplete", incompleteReason: "repeated_calls" });
    expect(model.requests).toHaveLength(4);
  });

  test("U30 of 200 calls in one answer the first are run, the rest answered", async () => {
    let ran = 0;
    const count = toolOf("count", async () => ({ text: String(ran++) }));
    const many = callOf(...Array.from({ length: 200 }, (_, n): [string, object] => ["count", { n }]));
    const model = modelOf([(request) => (request.toolChoice === "none" ? say("enough") : many)]);
    const { engine } = await engineWith({ model, toolList: [count] });
    const { id } = await engine.start({ ...start, input: "go" });
    expect(await engine.wait(id)).toMatchObject({ status: "incomplete", incompleteReason: "max_calls" });
    expect(ran).toBe(64);
    const { output } = await engine.get(id);
    expect(output[199]).toMatchObject({ status: "incomplete", error: "not run: more than 64 calls in one answer" });
  });

  test("B34 G7 wall time ends a model that hangs, and the partial text is kept", async () => {
    const model = modelOf([
      async function* (_request, signal) {
        yield { type: "text", delta: "beginning" } as const;
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
      },
    ]);
    const { engine } = await engineWith({ model });
    const { id } = await engine.start({ ...start, input: "go", settings: { limits: { seconds: 0.2 } } });
    expect(await engine.wait(id)).toMatchObject({ status: "incomplete", incompleteReason: "max_time" });
    expect(engine.textOf(await engine.get(id))).toBe("beginning");
  });

  test("tokens end it without another question", async () => {
    const usage = {
      input_tokens: 60,
      output_tokens: 60,
      total_tokens: 120,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    };
    const answer = callOf(["echo", {}]).map((event) => (event.type === "finish" ? { ...event, usage } : event));
    const model = modelOf([answer]);
    const { engine } = await engineWith({ model, toolList: [echo()] });
    const { id } = await engine.start({ ...start, input: "go", settings: { limits: { tokens: 100 } } });
    expect(await engine.wait(id)).toMatchObject({ status: "incomplete", incompleteReason: "max_tokens", usage });
    expect(model.requests).toHaveLength(1);
  });

  test("U21 an empty answer is nudged once, then it is an error", async () => {
    const empty: ModelEvent[] = [{ type: "finish", reason: "stop" }];
    const model = modelOf([empty]);
    const { engine } = await engineWith({ model });
    const { id } = await engine.start({ ...start, input: "go" });
    expect(await engine.wait(id)).toMatchObject({ status: "failed", error: { code: "empty_response" } });
    expect(model.requests).toHaveLength(2);
    const nudged = modelOf([empty, say("here")]);
    const second = await engineWith({ model: nudged });
    const again = await second.engine.start({ ...start, input: "go" });
    expect((await second.engine.wait(again.id)).status).toBe("completed");
  });
});

describe("failures of the model", () => {
  const rejected = () => {
    throw new ModelError("upstream_bad_request", "tool_calls_end", { status: 400 });
  };

  test("N18 U2 a 400 after tool results: one repair, then an answer made of the results", async () => {
    const found = toolOf("find", async () => ({ text: "the needle" }));
    const model = modelOf([callOf(["find", {}]), rejected]);
    const { engine } = await engineWith({ model, toolList: [found] });
    const { id } = await engine.start({ ...start, input: "where is it?" });
    expect(await engine.wait(id)).toMatchObject({ status: "completed", degraded: true });
    expect(model.requests).toHaveLength(3);
    expect(engine.textOf(await engine.get(id))).toBe('Here\'s what I found for "where is it?":\n\n## find\nthe needle');
    const repaired = model.requests[2]?.history.at(-1)?.entries.map((entry) => entry.item.type);
    expect(repaired).toEqual(["message", "message", "message"]);
  });

  test("U1 a 400 at the first question is an error, and the tree stays usable", async () => {
    const model = modelOf([rejected, say("fine now")]);
    const { engine } = await engineWith({ model });
    const { id } = await engine.start({ ...start, input: "go" });
    expect(await engine.wait(id)).toMatchObject({ status: "failed", error: { code: "upstream_bad_request" } });
    const next = await engine.start({ ...start, input: "again", previousResponseId: id });
    expect((await engine.wait(next.id)).status).toBe("completed");
    // What failed with nothing said is not told again: no two user messages in a row (promise 6).
    const told = model.requests[1]?.history.flatMap((node) => node.entries.map((entry) => entry.item));
    expect(told).toHaveLength(1);
  });

  test("U16 U17 a cut answer is incomplete, with its text", async () => {
    const model = modelOf([
      async function* () {
        yield { type: "text", delta: "half" } as const;
        throw new ModelError("upstream_cut", "the stream ended in the middle", { partial: true });
      },
    ]);
    const { engine } = await engineWith({ model });
    const { id } = await engine.start({ ...start, input: "go" });
    expect(await engine.wait(id)).toMatchObject({
      status: "incomplete",
      incompleteReason: "stream_cut",
      error: { code: "upstream_cut" },
    });
    const { output } = await engine.get(id);
    expect(output[0]).toMatchObject({ status: "incomplete", content: [{ text: "half" }] });
  });
});

test("F14 reading calls run together; a write waits for those before it, and those behind wait for it", async () => {
  const log: string[] = [];
  const slow = (name: string, access: "read" | "write") =>
    toolOf(
      name,
      async (input) => {
        log.push(`+${name}${input.n}`);
        await new Promise((resolve) => setTimeout(resolve, 30));
        log.push(`-${name}${input.n}`);
        return { text: "ok" };
      },
      { access },
    );
  const calls = callOf(["r", { n: 1 }], ["r", { n: 2 }], ["w", { n: 3 }], ["r", { n: 4 }]);
  const toolList = [slow("r", "read"), slow("w", "write")];
  const { engine } = await engineWith({ model: modelOf([calls, say("ok")]), toolList });
  const { id } = await engine.start({ ...start, input: "go", workspace: workspace() });
  await engine.wait(id);
  expect(log.slice(0, 2)).toEqual(["+r1", "+r2"]);
  expect(log.slice(2, 4).sort()).toEqual(["-r1", "-r2"]);
  expect(log.slice(4)).toEqual(["+w3", "-w3", "+r4", "-r4"]);
});

test("T14 a sub-agent's tokens count against its caller's limit, and it gets no more than is left", async () => {
  const usage = {
    input_tokens: 50,
    output_tokens: 10,
    total_tokens: 60,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  };
  const task = toolOf("task", async (input, context) => {
    const { text, error } = await context.delegate({ profile: "execute", task: String(input.task), description: "s" });
    return { text: error ?? text };
  });
  let children = 0;
  const model = modelOf([
    (request) => {
      const isChild = JSON.stringify(request.history[0]?.entries[0]?.item).includes("child work");
      if (isChild) children++;
      const events = isChild ? say("child done") : callOf(["task", { task: `child work ${children}` }]);
      return events.map((event) => (event.type === "finish" ? { ...event, usage } : event));
    },
  ]);
  const { engine } = await engineWith({ model, toolList: [task] });
  const { id } = await engine.start({ ...start, input: "go", settings: { limits: { tokens: 200 } } });
  expect(await engine.wait(id)).toMatchObject({ status: "incomplete", incompleteReason: "max_tokens" });
  expect(children).toBe(2);
});

test("B11 what the caller may not read is hidden from its sub-agents' commands too", async () => {
  let hidden: readonly string[] | undefined;
  const peek = toolOf("peek", async (_input, context) => {
    hidden = context.hiddenPaths;
    return { text: "seen" };
  });
  const task = toolOf("task", async (_input, context) => {
    const { text } = await context.delegate({ profile: "execute", task: "child work", description: "s" });
    return { text };
  });
  const model = modelOf([callOf(["task", {}]), callOf(["peek", {}]), say("child done"), say("done")]);
  const { parts } = await engineWith({});
  const profiles = {
    list: () => parts.profiles.list(),
    get: async (name = "general") => ({
      ...(await parts.profiles.get(name)),
      ...(name === "general" && { permissions: { allow: [], ask: [], deny: ["read(private.txt)"] } }),
    }),
  };
  const { engine } = await engineWith({ model, toolList: [peek, task], profiles });
  const { id } = await engine.start({ ...start, input: "go" });
  expect((await engine.wait(id)).status).toBe("completed");
  expect(hidden).toEqual(["private.txt"]);
});
