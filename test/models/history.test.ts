import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { HistoryRenderer, safeArguments } from "../../src/models/chat-completions-history.ts";
import { findProblem } from "../../src/testing/request-problem.ts";
import type { Entry, Item } from "../../src/types/item.ts";
import type { JsonObject } from "../../src/types/json.ts";
import type { HistoryNode } from "../../src/types/model.ts";
import { called, input, message, node, output, said, user } from "./helpers.ts";

afterEach(() => vi.restoreAllMocks());

const options = { key: "here|model", reasoningBack: "own", shortCallIds: false, toolImages: true } as const;

function render(history: HistoryNode[], renderer = new HistoryRenderer(options)): JsonObject[] {
  return JSON.parse(`[${renderer.render(history).messages}]`) as JsonObject[];
}

function functionCall(id: string, callId: string, side: "input" | "output" = "output"): Entry {
  const item: Item = { type: "function_call", id, call_id: callId, name: "look", arguments: "{}", status: "completed" };
  return side === "input" ? input(item) : output(1, item, { finish: "tool_calls" });
}

function functionOutput(callId: string, text: string): Entry {
  return input({
    type: "function_call_output",
    id: `fco_${callId}`,
    call_id: callId,
    output: text,
    status: "completed",
  });
}

describe("rendering", () => {
  it("makes one assistant message of a turn, then its results in call order", () => {
    const reasoning: Item = {
      type: "reasoning",
      id: "rs_1",
      status: "completed",
      summary: [],
      content: [{ type: "reasoning_text", text: "hm" }],
    };
    const history = [
      node(
        [
          user("look"),
          output(1, reasoning),
          said(1, "I look.", {}),
          called(1, "read", '{"a":1}', "first", { callId: "call_a" }),
          called(1, "grep", '{"b":2}', "second", { callId: "call_b", finish: "tool_calls" }),
          said(2, "Done."),
        ],
        true,
      ),
      node([user("thanks")]),
    ];
    expect(render(history)).toEqual([
      { role: "user", content: "look" },
      {
        role: "assistant",
        content: "I look.",
        tool_calls: [
          { id: "call_a", type: "function", function: { name: "read", arguments: '{"a":1}' } },
          { id: "call_b", type: "function", function: { name: "grep", arguments: '{"b":2}' } },
        ],
      },
      { role: "tool", tool_call_id: "call_a", content: "first" },
      { role: "tool", tool_call_id: "call_b", content: "second" },
      { role: "assistant", content: "Done." },
      { role: "user", content: "thanks" },
    ]);
  });

  it("says what became of calls without an output", () => {
    const interrupted = called(1, "bash", "{}", null, { callId: "a" });
    const denied = called(1, "bash", "{}", null, { callId: "b", finish: "tool_calls" });
    if (denied.item.type === "mcp_call") denied.item.error = "denied by a person";
    const messages = render([node([user("go"), interrupted, denied])]);
    expect(messages.slice(2).map(({ content }) => content)).toEqual([
      "interrupted, outcome unknown",
      "denied by a person",
    ]);
  });

  it("takes the model's call id where it is unique and safe, else the item's", () => {
    const first = called(1, "read", "{}", "1", { callId: "call_0" });
    const history = [
      node([user("a"), first, said(2, "x")], true),
      node(
        [
          user("b"),
          called(1, "read", "{}", "2", { callId: "call_0" }),
          called(1, "read", "{}", "3", { callId: "read:1" }),
          said(2, "y"),
        ],
        true,
      ),
      node([
        user("c"),
        called(1, "read", "{}", "4", { callId: "" }),
        called(1, "read", "{}", "5", { callId: "call_9" }),
      ]),
    ];
    const ids = render(history).flatMap(({ tool_calls: calls }) =>
      ((calls as JsonObject[] | undefined) ?? []).map(({ id }) => id),
    );
    expect(ids[0]).toBe("call_0");
    expect(ids[1]).toMatch(/^mcp_/);
    expect(ids[2]).toMatch(/^mcp_/);
    expect(ids[3]).toMatch(/^mcp_/);
    expect(ids[4]).toBe("call_9");
    expect(new Set(ids).size).toBe(5);
  });

  it("makes ids of nine letters and digits where the endpoint wants them", () => {
    const renderer = new HistoryRenderer({ ...options, shortCallIds: true, toolImages: true });
    const history = [
      node([
        user("a"),
        called(1, "read", "{}", "1", { callId: "call_0" }),
        called(1, "read", "{}", "2", { callId: "abcDEF123" }),
      ]),
    ];
    const [, assistant] = render(history, renderer);
    const ids = ((assistant?.tool_calls ?? []) as JsonObject[]).map(({ id }) => id);
    expect(ids[0]).toMatch(/^[A-Za-z0-9]{9}$/);
    expect(ids[1]).toBe("abcDEF123");
    expect(render(history, new HistoryRenderer({ ...options, shortCallIds: true, toolImages: true }))[1]).toEqual(
      assistant,
    );
  });

  it("waits with the results of a client's calls for the next input, in call order", () => {
    const history = [
      node(
        [
          user("go"),
          functionCall("fc_1", "call_x"),
          called(1, "read", "{}", "ours", { callId: "call_y" }),
          functionCall("fc_2", "call_z"),
        ],
        true,
      ),
      node([functionOutput("call_z", "last"), functionOutput("call_x", "first"), user("and now?")]),
    ];
    expect(render(history).slice(2)).toEqual([
      { role: "tool", tool_call_id: "call_x", content: "first" },
      { role: "tool", tool_call_id: "call_y", content: "ours" },
      { role: "tool", tool_call_id: "call_z", content: "last" },
      { role: "user", content: "and now?" },
    ]);
  });

  it("makes up the results that never came, and keeps those that nobody asked for", () => {
    const history = [
      node([user("go"), functionCall("fc_1", "call_x")], true),
      node([functionOutput("call_other", "stray"), user("hi")]),
    ];
    expect(render(history).slice(2)).toEqual([
      { role: "tool", tool_call_id: "call_x", content: "no output was given" },
      { role: "user", content: "Output of the call call_other:\nstray\n\nhi" },
    ]);
  });

  it("takes a whole history that came as input", () => {
    const history = [
      node([
        input(message("developer", "Be kind.")),
        user("look"),
        functionCall("fc_1", "call_1", "input"),
        functionOutput("call_1", "seen"),
        input(message("assistant", "I saw it.")),
        input(message("system", "Be short.")),
        user("and?"),
      ]),
    ];
    const rendered = new HistoryRenderer(options).render(history);
    expect(rendered.system).toBe("Be kind.");
    expect((JSON.parse(`[${rendered.messages}]`) as JsonObject[]).map(({ role, content }) => [role, content])).toEqual([
      ["user", "look"],
      ["assistant", null],
      ["tool", "seen"],
      ["assistant", "I saw it."],
      ["user", "<system>\nBe short.\n</system>\n\nand?"],
    ]);
  });

  it("merges users across nodes, and renders images, refusals and summaries", () => {
    const image: Item = {
      type: "message",
      id: "msg_i",
      role: "user",
      status: "completed",
      content: [
        { type: "input_text", text: "what is this?" },
        { type: "input_image", image_url: "data:image/png;base64,AA", detail: "low" },
      ],
    };
    const refusal: Item = {
      type: "message",
      id: "msg_r",
      role: "assistant",
      status: "completed",
      content: [{ type: "refusal", refusal: "I will not." }],
    };
    const history = [
      node([input({ type: "compaction", id: "cmp_1", summary: "They talked." }), user("one")], true),
      node([user("two")], true),
      node([user("three"), output(1, refusal, { finish: "stop" })], true),
      node([input(image)]),
    ];
    expect(render(history)).toEqual([
      { role: "user", content: "Summary of the conversation so far:\n\nThey talked.\n\none\n\ntwo\n\nthree" },
      { role: "assistant", content: "I will not." },
      {
        role: "user",
        content: [
          { type: "text", text: "what is this?" },
          { type: "image_url", image_url: { url: "data:image/png;base64,AA", detail: "low" } },
        ],
      },
    ]);
  });

  it("leaves out what a crash cut off in a response that runs again, but not in one that ended", () => {
    const cut = said(1, "half", {});
    if (cut.item.type === "message") cut.item.status = "incomplete";
    expect(render([node([user("go"), cut])])).toEqual([{ role: "user", content: "go" }]);
    expect(render([node([user("go"), cut], true), node([user("on")])])).toHaveLength(3);
  });

  it("gives data of a fallback's answer to the fallback only", () => {
    const raw = { from: "there|model", raw: { reasoning_content: "secret" } };
    const history = [
      node([user("go"), said(1, "x", { model: "here|model", raw, finish: "stop" })], true),
      node([user("on")]),
    ];
    expect(render(history)[1]).toEqual({ role: "assistant", content: "x" });
    const there = new HistoryRenderer({ ...options, key: "there|model" });
    expect(render(history, there)[1]).toEqual({ role: "assistant", content: "x", reasoning_content: "secret" });
  });
});

describe("arguments", () => {
  it.each(["", "[]", '"x"', "null", "{", "{'a':1}", `{"a":${"[".repeat(200)}${"]".repeat(200)}}`, "{} {}"])(
    "%s becomes {}",
    (text) => {
      expect(safeArguments(text)).toBe("{}");
    },
  );

  it("text of an object stays as it was written", () => {
    expect(safeArguments(' {"b": 1, "a": "ü"}')).toBe(' {"b": 1, "a": "ü"}');
  });
});

describe("the cache", () => {
  const turn = (number: number) =>
    node(
      [
        user(`question ${number}`),
        called(1, "read", `{"n":${number}}`, `result ${number} ${"x".repeat(300)}`, {
          callId: `c${number}`,
          finish: "tool_calls",
        }),
        said(2, `answer ${number}`),
      ],
      true,
    );

  it("serialises each ended node once: turn 2,000 costs what turn 2 costs", () => {
    const renderer = new HistoryRenderer(options);
    const history = Array.from({ length: 2_000 }, (_, number) => turn(number));
    renderer.render([...history, node([user("now")])]);
    const stringify = vi.spyOn(JSON, "stringify");
    const again = renderer.render([...history, node([user("now")])]).messages;
    const calls = stringify.mock.calls.length;
    stringify.mockRestore();
    expect(calls).toBeLessThan(10);
    expect(again).toBe(new HistoryRenderer(options).render([...history, node([user("now")])]).messages);
  });

  it("gives for any order of branches what a fresh renderer gives", () => {
    const pool = Array.from({ length: 12 }, (_, number) => {
      const shared = `c${number % 3}`;
      return number % 4 === 3
        ? node([user(`open ${number}`), functionCall(`fc_${number}`, `client_${number}`)], true)
        : node(
            [
              user(`q${number}`),
              called(1, "read", "{}", `r${number}`, { callId: shared, finish: "tool_calls" }),
              said(2, "a"),
            ],
            true,
          );
    });
    const path = fc.array(fc.integer({ min: 0, max: 11 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(fc.array(path, { minLength: 1, maxLength: 10 }), (paths) => {
        const renderer = new HistoryRenderer(options);
        for (const places of paths) {
          const history = places.flatMap((place) => pool[place] ?? []);
          expect(renderer.render(history)).toEqual(new HistoryRenderer(options).render(history));
        }
      }),
      { numRuns: 100 },
    );
  });
});

describe("whatever the items are, the strictest endpoint accepts them", () => {
  const text = fc.string({ unit: "binary", maxLength: 12 });
  const callId = fc.constantFrom("call_0", "call_1", "", "a b", "x".repeat(80), "functions.read:0");
  const entry: fc.Arbitrary<Entry> = fc.oneof(
    text.map((value) => user(value)),
    text.map((value) => input(message("assistant", value))),
    fc
      .tuple(fc.constantFrom("system" as const, "developer" as const), text)
      .map(([role, value]) => input(message(role, value))),
    fc.tuple(fc.nat(3), text).map(([turn, value]) => said(turn + 1, value)),
    fc
      .tuple(fc.nat(3), text, text, callId, fc.boolean())
      .map(([turn, name, given, id, done]) => called(turn + 1, name, given, done ? given : null, { callId: id })),
    fc.tuple(callId, fc.boolean()).map(([id, side]) => functionCall("not an id", id, side ? "input" : "output")),
    fc.tuple(callId, text).map(([id, value]) => functionOutput(id, value)),
    text.map((summary) => input({ type: "compaction", id: "cmp_1", summary })),
  );
  it("property", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.array(entry, { maxLength: 8 }), fc.boolean()), { maxLength: 5 }), (nodes) => {
        const history = nodes.map(([entries, ended]) => node(entries, ended));
        const messages = [...render(history), { role: "user", content: "end" }];
        // The last one would be merged with a user before it.
        if (messages.at(-2)?.role === "user") messages.pop();
        expect(findProblem({ model: "m", messages })).toBeNull();
      }),
      { numRuns: 500 },
    );
  });
});
