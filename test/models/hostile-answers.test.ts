/** The rows of the fault list about answers that are none, odd or hostile, each against a real socket. */
import { afterEach, describe, expect, it } from "vitest";
import { ask, bench, called, closeBenches, node, request, said, sentMessages, user } from "./helpers.ts";

afterEach(closeBenches);

const ok = { text: "fine" };

describe("answers that are none", () => {
  it.each([
    ["as text/html", { headers: { "content-type": "text/html" } }],
    ["as an event stream", { headers: { "content-type": "text/event-stream" } }],
    ["as JSON", { headers: { "content-type": "application/json" } }],
  ])("U12 200 with a page of HTML %s", async (_, headers) => {
    const { model, upstream } = await bench([{ body: "\n<!doctype html><title>Login</title>", ...headers }]);
    const { error } = await ask(model);
    expect(error).toMatchObject({ code: "upstream_protocol", partial: false });
    expect(error?.message).toContain("HTML");
    expect(upstream.requests).toHaveLength(1);
  });

  it("U12 other JSON and an empty body are no answers either", async () => {
    const other = await bench([{ body: { status: "ok" } }]);
    expect((await ask(other.model)).error?.code).toBe("upstream_protocol");
    const empty = await bench([{ body: "" }]);
    expect((await ask(empty.model)).error?.code).toBe("upstream_protocol");
  });

  it("U14 silence before the headers ends by the header timeout", async () => {
    const { model, upstream } = await bench([{ silent: "hang" }], { timeouts: { headers: 0.2 } });
    const { error } = await ask(model);
    expect(error).toMatchObject({ code: "upstream_timeout", partial: false });
    expect(await upstream.requests[0]?.gone).toBe(true);
    expect(upstream.requests).toHaveLength(1);
  });

  it("U15 silence within a stream ends by the idle timeout and keeps what came", async () => {
    const { model, upstream } = await bench([{ text: ["half of", " it"], break: "hang" }], { timeouts: { idle: 0.2 } });
    const { error, text } = await ask(model);
    expect(text).toBe("half of it");
    expect(error).toMatchObject({ code: "upstream_timeout", partial: true });
    expect(await upstream.requests[0]?.gone).toBe(true);
  });

  it("U16 a reset within a stream keeps what came and is not repeated", async () => {
    const { model, upstream } = await bench([{ text: ["half"], break: "reset" }, ok]);
    const { error, text } = await ask(model);
    expect(text).toBe("half");
    expect(error).toMatchObject({ code: "upstream_cut", partial: true });
    expect(upstream.requests).toHaveLength(1);
  });

  it("U16 a reset before anything was said is repeated", async () => {
    const { model, upstream } = await bench([{ break: "reset" }, ok]);
    expect((await ask(model)).text).toBe("fine");
    expect(upstream.requests).toHaveLength(2);
  });

  it("U17 an end without a finish reason is a cut", async () => {
    const { model, upstream } = await bench([{ text: ["half"], finish: null, done: false }, ok]);
    const { error, finish } = await ask(model);
    expect(finish).toBeUndefined();
    expect(error).toMatchObject({ code: "upstream_cut", partial: true });
    expect(upstream.requests).toHaveLength(1);
  });

  it("U17 an end with nothing at all is repeated", async () => {
    const { model } = await bench([{ finish: null, done: false }, ok]);
    expect((await ask(model)).text).toBe("fine");
  });

  it("U17 [DONE] without a finish reason, and a finish reason without [DONE], are ends", async () => {
    const done = await bench([{ text: "all", finish: null }]);
    expect((await ask(done.model)).finish?.reason).toBe("stop");
    const calls = await bench([{ calls: [{ name: "read", arguments: {} }], finish: null }]);
    expect((await ask(calls.model)).finish?.reason).toBe("tool_calls");
    const finish = await bench([{ text: "all", done: false }]);
    expect((await ask(finish.model)).finish?.reason).toBe("stop");
  });

  it("U17 a connection that breaks after the finish reason has lost nothing", async () => {
    const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
    const write = [
      event({ choices: [{ index: 0, delta: { content: "all" }, finish_reason: null }] }),
      event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
    ];
    const { model } = await bench([{ write, break: "reset" }]);
    const { text, finish, error } = await ask(model);
    expect([text, finish?.reason, error]).toEqual(["all", "stop", undefined]);
  });

  it("an error that comes as an event is an error", async () => {
    const { model } = await bench([{ text: ["half"], events: ['{"error":{"code":502,"message":"provider died"}}'] }]);
    const { error, text } = await ask(model);
    expect(text).toBe("half");
    expect(error).toMatchObject({ code: "upstream_failed", partial: true });
    expect(error?.message).toContain("provider died");
    const early = await bench([{ events: ['{"error":{"code":429,"message":"busy"}}'] }, ok]);
    expect((await ask(early.model)).text).toBe("fine");
  });
});

describe("odd and hostile answers", () => {
  it("U18 broken JSON in an event ends the stream as an error, never as a throw of another kind", async () => {
    const { model, upstream } = await bench([{ text: ["one"], events: ['{"choices":[{"delta":{"content":"tw'] }]);
    const { error, text } = await ask(model);
    expect(text).toBe("one");
    expect(error).toMatchObject({ code: "upstream_protocol", partial: true });
    expect(upstream.requests).toHaveLength(1);
  });

  it("U18 events that are no JSON at all are passed over", async () => {
    const { model } = await bench([{ text: ["one"], events: ["", "ping", "null", "123"] }]);
    const { error, text } = await ask(model);
    expect([error, text]).toEqual([undefined, "one"]);
  });

  it.each([1, 2, 3, 5])("U19 characters that are split every %s bytes arrive whole", async (pieces) => {
    const text = ["grüße ", "👩‍👩‍👧 ", '"quoted" \\ and\n', "€𝕏"];
    const { model } = await bench([{ text, reasoning: "öä", pieces }]);
    const outcome = await ask(model);
    expect(outcome.text).toBe(text.join(""));
    expect(outcome.reasoning).toBe("öä");
  });

  it("U21 empty choices, empty deltas and nulls are passed over", async () => {
    const events = [
      '{"choices":[]}',
      '{"choices":[{}]}',
      '{"choices":[null]}',
      '{"choices":null}',
      '{"choices":[{"index":0,"delta":null}]}',
      '{"choices":[{"index":0,"delta":{"content":null,"tool_calls":null,"reasoning":null}}]}',
      '{"choices":[{"index":0,"delta":{"tool_calls":[null,{}]}}]}',
      "{}",
    ];
    const { model } = await bench([{ events }]);
    const { events: got, finish, error } = await ask(model);
    expect(error).toBeUndefined();
    expect(got).toHaveLength(1);
    expect(finish?.reason).toBe("stop");
  });

  it("U23 an unknown finish reason is kept", async () => {
    const { model } = await bench([
      { text: "x", finish: "galaxy_ended" },
      { text: "x", finish: "constructor" },
    ]);
    expect((await ask(model)).finish).toMatchObject({ reason: "other", reasonRaw: "galaxy_ended" });
    expect((await ask(model)).finish).toMatchObject({ reason: "other", reasonRaw: "constructor" });
  });

  it("U24 invalid arguments come through as they are, and go back in a form that parses", async () => {
    const broken = '{"path": "a", oops';
    const { model, upstream } = await bench([{ calls: [{ name: "read", arguments: broken }] }, ok]);
    const { calls } = await ask(model);
    expect(calls[0]?.arguments).toBe(broken);
    const error = `[Error: malformed tool call arguments — could not parse JSON: ${broken}]`;
    await ask(model, request([node([user("go"), called(1, "read", broken, error, { finish: "tool_calls" })])]));
    expect(upstream.refusals).toEqual([]);
    expect(sentMessages(upstream)[2]).toMatchObject({ tool_calls: [{ function: { arguments: "{}" } }] });
    expect(sentMessages(upstream)[3]).toMatchObject({ role: "tool", content: error });
  });

  it("U27 arguments of 5 MB end the stream at the limit", async () => {
    const huge = Array.from({ length: 80 }, () => "x".repeat(64 * 1024));
    const { model, upstream } = await bench([{ calls: [{ name: "write", arguments: ['{"a":"', ...huge, '"}'] }] }]);
    const { error } = await ask(model);
    expect(error).toMatchObject({ code: "output_limit", partial: true });
    expect(await upstream.requests[0]?.gone).toBe(true);
  });

  it("U27 arguments nested 20,000 deep overflow nothing, there and back", async () => {
    const deep = `{"a":${"[".repeat(20_000)}${"]".repeat(20_000)}}`;
    const { model, upstream } = await bench([{ calls: [{ name: "write", arguments: deep }] }, ok]);
    const { calls, error } = await ask(model);
    expect(error).toBeUndefined();
    expect(calls[0]?.arguments).toBe(deep);
    await ask(model, request([node([user("go"), called(1, "write", deep, "too deep", { finish: "tool_calls" })])]));
    expect(upstream.refusals).toEqual([]);
  });

  it("U27 an event of very many fragments with objects in them is read in one go", async () => {
    const fragment = { index: 0, function: { arguments: {} } };
    const first = { index: 0, id: "c1", function: { name: "read", arguments: {} } };
    const tool_calls = [first, ...Array.from({ length: 90_000 }, () => fragment)];
    const { model } = await bench([{ events: [JSON.stringify({ choices: [{ delta: { tool_calls } }] })], text: "ok" }]);
    const began = performance.now();
    expect((await ask(model)).error).toBeUndefined();
    // Looked at anew for each fragment, its depth takes the better part of an hour.
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  it("U27 deep provider-bound data is refused", async () => {
    const deep = `{"choices":[{"index":0,"delta":{"reasoning_details":[{"x":${"[".repeat(20_000)}${"]".repeat(20_000)}}]}}]}`;
    const { model } = await bench([{ events: [deep] }], { retries: 0 });
    expect((await ask(model)).error?.code).toBe("upstream_protocol");
  });

  it("U29 text, calls and stop together: all is kept", async () => {
    const { model } = await bench([
      { text: "I look.", calls: [{ name: "read", arguments: { a: 1 } }], finish: "stop" },
    ]);
    const { text, calls, finish } = await ask(model);
    expect(text).toBe("I look.");
    expect(calls).toMatchObject([{ name: "read", arguments: '{"a":1}' }]);
    expect(finish?.reason).toBe("stop");
  });

  it("U30 200 calls in one answer, in fragments that alternate", async () => {
    const calls = Array.from({ length: 200 }, (_, at) => ({ name: `tool_${at}`, arguments: [`{"n":`, `${at}`, "}"] }));
    const { model } = await bench([{ calls, interleave: true }]);
    const outcome = await ask(model);
    expect(outcome.calls).toHaveLength(200);
    expect(outcome.calls.map((call) => [call.name, call.arguments])).toEqual(
      calls.map(({ name }, at) => [name, `{"n":${at}}`]),
    );
    expect(new Set(outcome.calls.map(({ callId }) => callId)).size).toBe(200);
  });

  it("U33 one line of 50 MB ends at the limit, without holding it", async () => {
    const piece = Buffer.alloc(1024 * 1024, "x");
    const write = [
      'data: {"choices":[{"index":0,"delta":{"content":"',
      ...Array.from({ length: 50 }, () => piece),
      '"}}]}\n\n',
    ];
    const { model, upstream } = await bench([{ write }]);
    const { error } = await ask(model);
    expect(error).toMatchObject({ code: "output_limit", partial: false });
    expect(await upstream.requests[0]?.gone).toBe(true);
  });

  it("U33 an answer of many pieces ends at 32 MiB", async () => {
    const data = JSON.stringify({ choices: [{ index: 0, delta: { content: "y".repeat(1024 * 1024) } }] });
    const { model } = await bench([{ write: Array.from({ length: 40 }, () => `data: ${data}\n\n`) }]);
    const { error, text } = await ask(model);
    expect(error).toMatchObject({ code: "output_limit", partial: true });
    expect(text.length).toBeLessThanOrEqual(32 * 1024 * 1024);
  });
});

describe("U32 F19 reasoning", () => {
  it.each(["reasoning_content", "reasoning", "thinking"] as const)(
    "%s is told, kept, and sent back to its own model only",
    async (field) => {
      const { model, upstream } = await bench([
        { reasoning: ["let me ", "see"], reasoningField: field, calls: [{ name: "read", arguments: {} }] },
        ok,
      ]);
      const { reasoning, finish } = await ask(model);
      expect(reasoning).toBe("let me see");
      expect(finish?.raw).toEqual({ [field]: "let me see" });
      const history = (owner: string) => [
        node([
          user("go"),
          called(1, "read", "{}", "text", { model: owner, raw: finish?.raw ?? null, finish: "tool_calls" }),
        ]),
      ];
      await ask(model, request(history(model.key)));
      expect(sentMessages(upstream)[2]).toMatchObject({ [field]: "let me see" });
      await ask(model, request(history("elsewhere|other")));
      expect(sentMessages(upstream)[2]).not.toHaveProperty(field);
    },
  );

  it("reasoning_details are merged by index and type, with unknown fields and signatures, and told once", async () => {
    const reasoningDetails = [
      { type: "reasoning.text", text: "first ", index: 0, format: "f1", odd: { a: 1 } },
      { type: "reasoning.text", text: "second", index: 0, signature: null },
      { type: "reasoning.text", text: "", index: 0, signature: "c2ln" },
      { type: "reasoning.encrypted", data: "AAA", index: 1, id: "e1" },
      { type: "reasoning.encrypted", data: "BBB", index: 2, id: "e2" },
    ];
    const { model, upstream } = await bench([{ reasoningDetails, text: "done" }, ok]);
    const { reasoning, finish } = await ask(model);
    expect(reasoning).toBe("first second");
    const merged = [
      { type: "reasoning.text", text: "first second", index: 0, format: "f1", odd: { a: 1 }, signature: "c2ln" },
      { type: "reasoning.encrypted", data: "AAA", index: 1, id: "e1" },
      { type: "reasoning.encrypted", data: "BBB", index: 2, id: "e2" },
    ];
    expect(finish?.raw).toEqual({ reasoning_details: merged });
    const meta = { model: model.key, raw: finish?.raw ?? null, finish: "stop" as const };
    await ask(model, request([node([user("go"), said(1, "done", meta)], true), node([user("on")])]));
    expect(sentMessages(upstream)[2]).toEqual({ role: "assistant", content: "done", reasoning_details: merged });
  });

  it("the same text in two fields is told once and kept twice", async () => {
    const events = ["th", "ink"].map((piece) =>
      JSON.stringify({
        choices: [
          {
            index: 0,
            delta: { reasoning: piece, reasoning_details: [{ type: "reasoning.text", text: piece, index: 0 }] },
          },
        ],
      }),
    );
    const { model } = await bench([{ events, text: "ok" }]);
    const { reasoning, finish } = await ask(model);
    expect(reasoning).toBe("think");
    expect(finish?.raw).toEqual({
      reasoning: "think",
      reasoning_details: [{ type: "reasoning.text", text: "think", index: 0 }],
    });
  });

  it("signatures on a call and on the message go back where they were", async () => {
    const extra = { extra_content: { google: { thought_signature: "abc" } } };
    const { model, upstream } = await bench([
      {
        calls: [
          { name: "a", arguments: {} },
          { name: "b", arguments: {}, extra },
        ],
      },
      ok,
    ]);
    const { finish } = await ask(model);
    const last = { model: model.key, raw: finish?.raw ?? null, finish: "tool_calls" as const };
    await ask(model, request([node([user("go"), called(1, "a", "{}", "1"), called(1, "b", "{}", "2", last)])]));
    const calls = sentMessages(upstream)[2]?.tool_calls as object[];
    expect(calls[0]).not.toHaveProperty("extra_content");
    expect(calls[1]).toMatchObject(extra);
  });
});
