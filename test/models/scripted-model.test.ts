import { expect, it } from "vitest";
import { createScriptedModel } from "../../src/testing/scripted-model.ts";
import { startUpstream } from "../../src/testing/upstream.ts";
import { ModelError } from "../../src/types/model.ts";
import { ask, request } from "./helpers.ts";

it("the scripted model answers in order, repeats its last answer, and keeps what it was asked", async () => {
  const model = createScriptedModel([
    "one",
    {
      text: ["t", "wo"],
      reasoning: "hm",
      calls: [
        { name: "a", arguments: { n: 1 } },
        { name: "b", arguments: "{" },
      ],
    },
  ]);
  expect(await ask(model)).toMatchObject({ text: "one", finish: { reason: "stop", usage: { total_tokens: 15 } } });
  for (let number = 0; number < 2; number++)
    expect(await ask(model)).toMatchObject({
      text: "two",
      reasoning: "hm",
      calls: [
        { name: "a", arguments: '{"n":1}' },
        { name: "b", arguments: "{" },
      ],
      finish: { reason: "tool_calls" },
    });
  expect(model.requests).toHaveLength(3);
});

it("the scripted model answers by a function, fails, hangs and is cancelled", async () => {
  const failure = new ModelError("upstream_failed", "down");
  const model = createScriptedModel((asked, number) =>
    number === 0
      ? `${asked.instructions}!`
      : number === 1
        ? { text: "half", error: failure }
        : { text: "x", hang: true },
  );
  expect((await ask(model)).text).toBe("Be brief.!");
  expect((await ask(model)).error).toMatchObject({ code: "upstream_failed", partial: true });
  const control = new AbortController();
  setTimeout(() => control.abort(), 20);
  expect((await ask(model, request(), control.signal)).error?.code).toBe("cancelled");
});

it("the scripted endpoint refuses what strict endpoints refuse", async () => {
  const upstream = await startUpstream([{ text: "ok" }]);
  const post = async (body: object | string) => {
    const answer = await fetch(`${upstream.url}/chat/completions`, {
      method: "POST",
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
    return [answer.status, await answer.text()] as const;
  };
  const hi = { role: "user", content: "hi" };
  const call = (id: string, name = "a", given = "{}") => ({
    id,
    type: "function",
    function: { name, arguments: given },
  });
  const calls = (...list: object[]) => ({ role: "assistant", content: null, tool_calls: list });
  const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "x" });
  const bad: [string, object][] = [
    ["model", { messages: [hi] }],
    ["non-empty", { model: "m", messages: [] }],
    ["unknown role", { model: "m", messages: [{ role: "robot", content: "x" }] }],
    [
      "must come first",
      { model: "m", messages: [{ role: "system", content: "a" }, { role: "system", content: "b" }, hi] },
    ],
    ["alternate", { model: "m", messages: [hi, hi] }],
    ["content or tool_calls", { model: "m", messages: [hi, { role: "assistant", content: "" }] }],
    ["preceding tool call", { model: "m", messages: [hi, result("x")] }],
    ["missing x", { model: "m", messages: [hi, calls(call("x")), hi] }],
    ["without tool messages: x", { model: "m", messages: [hi, calls(call("x"))] }],
    [
      "duplicate tool call id",
      { model: "m", messages: [hi, calls(call("x")), result("x"), calls(call("x")), result("x")] },
    ],
    ["invalid tool call id", { model: "m", messages: [hi, calls(call("a b")), result("a b")] }],
    ["invalid function name", { model: "m", messages: [hi, calls(call("x", "a.b")), result("x")] }],
    ["holds a JSON object", { model: "m", messages: [hi, calls(call("x", "a", "{")), result("x")] }],
    ["unknown content part", { model: "m", messages: [{ role: "user", content: [{ type: "video" }] }] }],
    [
      "invalid tool name",
      {
        model: "m",
        messages: [hi],
        tools: [{ type: "function", function: { name: "a b", parameters: { type: "object" } } }],
      },
    ],
    ["object schema", { model: "m", messages: [hi], tools: [{ type: "function", function: { name: "a" } }] }],
    ["only allowed when tools", { model: "m", messages: [hi], tool_choice: "auto" }],
  ];
  for (const [reason, body] of bad) expect(await post(body), reason).toEqual([400, expect.stringContaining(reason)]);
  expect((await post("{"))[0]).toBe(400);
  expect(
    await post({ model: "m", messages: [hi, calls(call("x")), result("x"), { role: "assistant", content: "y" }, hi] }),
  ).toEqual([200, expect.stringContaining('"content":"ok"')]);
  expect(upstream.refusals).toHaveLength(bad.length + 1);
  await upstream.close();
});
