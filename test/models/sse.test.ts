import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventStreamReader, LineTooLong } from "../../src/models/sse.ts";

function read(bytes: Buffer, cuts: number[] = [], limit = 1_000_000): [string, string][] {
  const events: [string, string][] = [];
  const reader = new EventStreamReader((data, name) => events.push([name, data]), limit);
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  let from = 0;
  for (const to of [...places, bytes.length]) {
    reader.push(bytes.subarray(from, to));
    from = to;
  }
  reader.end();
  return events;
}

describe("server-sent events", () => {
  it("reads data, event names, comments and fields that it does not know", () => {
    const text =
      ": hello\nid: 7\nretry: 10\nevent: ping\ndata: one\ndata:two\n\ndata: three\n\n:\n\nevent: lost\n\ndata\n\n";
    expect(read(Buffer.from(text))).toEqual([
      ["ping", "one\ntwo"],
      ["", "three"],
      ["", ""],
    ]);
  });

  it("reads a byte order mark over, and gives a last event without its blank line", () => {
    expect(read(Buffer.from("\ufeffdata: a\n\ndata: [DONE]"))).toEqual([
      ["", "a"],
      ["", "[DONE]"],
    ]);
  });

  it("keeps all but the first space, and colons in data", () => {
    expect(read(Buffer.from("data:  a: b \n\n"))).toEqual([["", " a: b "]]);
  });

  const line = fc.string({ unit: "grapheme", maxLength: 30 }).map((text) => text.replace(/[\r\n]/g, "·"));
  const event = fc.record({
    name: fc.constantFrom("", "ping", "wörld"),
    lines: fc.array(line, { minLength: 1, maxLength: 3 }),
  });

  it("U19 gives the same events wherever the bytes are split, with any line ends", () => {
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 8 }),
        fc.constantFrom("\n", "\r\n", "\r"),
        fc.boolean(),
        fc.array(fc.nat(5_000), { maxLength: 30 }),
        (events, lineEnd, mark, cuts) => {
          const blocks = events.map(({ name, lines }) =>
            [...(name ? [`event: ${name}`] : []), ": note", ...lines.map((text) => `data: ${text}`), "", ""].join(
              lineEnd,
            ),
          );
          const bytes = Buffer.from((mark ? "\ufeff" : "") + blocks.join(""));
          expect(read(bytes, cuts)).toEqual(events.map(({ name, lines }) => [name, lines.join("\n")]));
        },
      ),
      { numRuns: 300 },
    );
  });

  it("U19 gives the same events when every byte comes alone", () => {
    const bytes = Buffer.from("data: grüße 👩‍👩‍👧 €\r\n\r\ndata: 𝕏\n\n");
    const every = Array.from({ length: bytes.length }, (_, at) => at);
    expect(read(bytes, every)).toEqual([
      ["", "grüße 👩‍👩‍👧 €"],
      ["", "𝕏"],
    ]);
  });

  it("U33 holds no line and no event over its limit", () => {
    const long = Buffer.from(`data: ${"x".repeat(2_000)}`);
    expect(() => read(long, [500, 1_000, 1_500], 1_000)).toThrow(LineTooLong);
    const many = Buffer.from("data: xxxxxxxxxx\n".repeat(200));
    expect(() => read(many, [], 1_000)).toThrow(LineTooLong);
    expect(read(Buffer.from("data: short\n\n"), [], 1_000)).toHaveLength(1);
  });
});
