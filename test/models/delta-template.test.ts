import fc from "fast-check";
import { expect, it } from "vitest";
import { makeTemplate, readByTemplate } from "../../src/models/delta-template.ts";

const chunk = (content: string, rest: object = {}) =>
  JSON.stringify({ id: "c", choices: [{ index: 0, delta: { content }, finish_reason: null }], ...rest });

it("reads by template exactly what parsing gives", () => {
  const text = fc.string({ unit: "binary", maxLength: 20 });
  fc.assert(
    fc.property(text, text, (one, other) => {
      const template = makeTemplate(chunk(one), "content", one);
      expect(template).not.toBeNull();
      if (template) expect(readByTemplate(template, chunk(other))).toBe(other);
    }),
  );
});

it("gives nothing for a chunk that differs in more than its string", () => {
  const template = makeTemplate(chunk("a"), "content", "a");
  if (!template) throw new Error("no template");
  for (const other of [
    chunk("b", { usage: { prompt_tokens: 1 } }),
    chunk("b").replace("null", '"stop"'),
    chunk("b").replace('"b"', '"b","refusal":"no"'),
    chunk("b").replace('"b"', '"b\\"'),
    chunk("b").replace('"b"', "null"),
    chunk("b").slice(0, -1),
    "",
  ])
    expect(readByTemplate(template, other), other).toBeUndefined();
});

it("makes no template where the place of the string is not certain", () => {
  expect(makeTemplate('{"content":"a","x":{"content":"a"}}', "content", "a")).toBeNull();
  expect(makeTemplate('{"content":"a"}', "content", "b")).toBeNull();
  expect(makeTemplate('{"other":"a"}', "content", "a")).toBeNull();
  expect(makeTemplate('{"content": "a"}', "content", "a")).not.toBeNull();
});
