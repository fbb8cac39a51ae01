/** Bodies: the same value as JSON.parse gives, within bounds, without holding the event loop. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { MAX_VALUES, parseJsonBody } from "../../src/doors/http/json-body.ts";
import { parsePieces } from "../../src/doors/http/json-pieces.ts";
import { PIECE } from "../../src/doors/http/json-text.ts";
import { RotundaError } from "../../src/types/error.ts";
import type { Json } from "../../src/types/json.ts";
import { LONGEST, watchTurns } from "./turns.ts";

const parse = (text: string | Buffer) => parseJsonBody(Buffer.from(text));

/** A text that is longer than a piece. */
const long = (part: string) => part.repeat(Math.ceil((PIECE + 10) / part.length));

function cleaned(value: Json): Json {
  const text = JSON.stringify(value);
  return JSON.parse(text.replaceAll(/(?<!\\\\)((?:\\\\\\\\)*)\\\\u(?:0000|d[89a-f][0-9a-f]{2})/g, "$1\ufffd")) as Json;
}

test("small bodies are what JSON.parse says", async () => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue(), async (value) => {
      const text = JSON.stringify(value);
      if (/\\u(?:0000|[dD][89a-fA-F])/.test(text)) return;
      expect(await parse(text)).toEqual(JSON.parse(text));
    }),
  );
});

test("long bodies are what JSON.parse says, whatever stands beside what is long", { timeout: 120_000 }, async () => {
  const pad = fc.constantFrom("a", "é", "\\n", "\\u00e9", "\\\\", '\\"', "😀", "\\ud83d\\ude00", 'ab\\\\\\"');
  const piece: fc.Arbitrary<string> = fc.oneof(
    { weight: 3, arbitrary: fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)) },
    { weight: 2, arbitrary: pad.map((part) => `"${long(part)}"`) },
    {
      weight: 1,
      arbitrary: fc.constant(
        `[${long('"a text of more than a hundred characters, so that only few of them fit into a piece of the body, and all of them into its values",')}1]`,
      ),
    },
    {
      weight: 1,
      arbitrary: fc.constant(`{"k":[ ${long(`[true , false, "${"padding ".repeat(60)}" ] ,`)}null ] , "l":{}}`),
    },
  );
  const space = fc.constantFrom("", " ", "\n\t", "  ");
  const name = fc.constantFrom('"a"', '"b\\""', '"\\\\"', '"__proto__"', '"1"', '""', '"a"');
  const body = fc
    .tuple(fc.array(fc.tuple(piece, space, name), { minLength: 1, maxLength: 5 }), fc.boolean(), pad)
    .map(([members, isList, part]) => {
      const parts = members.map(([value, blank, key]) =>
        isList ? `${blank}${value}${blank}` : `${blank}${key}${blank}:${value}`,
      );
      const rest = isList ? `"${long(part)}"` : `"rest":"${long(part)}"`;
      return isList ? `[${[...parts, rest].join(",")}]` : `{${[...parts, rest].join(",")}}`;
    });
  await fc.assert(
    fc.asyncProperty(body, async (text) => {
      const value = await parse(text);
      const expected = JSON.parse(text) as Json;
      // Compared as text: the order of keys counts too, and nobody reads a diff of megabytes.
      expect(JSON.stringify(value) === JSON.stringify(cleaned(expected))).toBe(true);
      expect(Object.keys(value as object)).toEqual(Object.keys(expected as object));
    }),
    { numRuns: 60, verbose: 0 },
  );
});

test("what is no JSON is refused, in long bodies too", async () => {
  const tail = `"${long("x")}"`;
  const bad = [
    "",
    "{",
    "[1,]",
    "{a:1}",
    "nul",
    '"\n"',
    "[1 2]",
    "\u0000",
    "\ufeff{}",
    "01",
    '{"a":1,}',
    "[]]",
    "}{",
    `[${tail}`,
    `[${tail},]`,
    `[,${tail}]`,
    `[1,,${tail}]`,
    `[1 ${tail}]`,
    `[${tail} 1]`,
    `{${tail}}`,
    `{"a" ${tail}}`,
    `{"a":${tail},}`,
    `{"a":1 "b":${tail}}`,
    `{,"a":${tail}}`,
    `{1:${tail}}`,
    `{"a":"b":${tail}}`,
    `[${tail}}`,
    `{"a":${tail}]`,
    `${tail}1`,
    `1${tail}`,
    `[${long('"a text of more than a hundred characters, so that only few of them fit into a piece of the body, and all of them into its values",')}]`,
    `[${long('"a text of more than a hundred characters, so that only few of them fit into a piece of the body, and all of them into its values",')},1]`,
    `{"a":[${long('"a text of more than a hundred characters, so that only few of them fit into a piece of the body, and all of them into its values",')}1],,"b":1}`,
    `"${long("\\q")}"`,
    `"${long("x")}\n"`,
    `"${long("x")}\\"`,
    `"${long("x")}\\u12"`,
    `[${long("    ")}`,
    `[1,2],${tail}`,
    `{"a":1},"b":${tail}`,
    `[[1],[2],${tail}`,
  ];
  for (const text of bad) {
    expect(() => JSON.parse(text), text.slice(0, 30)).toThrow();
    await expect(parse(text), text.slice(0, 30)).rejects.toMatchObject({ code: "usage" });
  }
  // Valid, and yet nothing that anybody sends.
  for (const text of [long("1"), `[${long(" ").repeat(4)}]`, `[${long("1").repeat(4)}]`]) {
    await expect(parse(text)).rejects.toMatchObject({ code: "usage" });
  }
  await expect(parse(long(" "))).rejects.toMatchObject({ code: "usage" });
  for (const bytes of [
    Buffer.from([34, 0xff, 34]),
    Buffer.from([34, 0xed, 0xa0, 0x80, 34]),
    Buffer.from([34, 0xc3, 34]),
  ]) {
    await expect(parse(bytes)).rejects.toMatchObject({ code: "usage" });
  }
  const damaged = Buffer.from(tail);
  damaged[PIECE] = 0xff;
  await expect(parse(damaged)).rejects.toMatchObject({ code: "usage" });
});

test("a wrong outline never leads to another value", async () => {
  const text = `["${long("x")}",[1,2]]`;
  const end = text.length;
  for (const big of [
    [[0, end - 1]],
    [
      [0, end],
      [1, 5],
    ],
    [
      [0, end],
      [2, 9],
    ],
    [
      [0, end],
      [1, end],
    ],
    [],
  ] as [number, number][][]) {
    const value = await parsePieces(Buffer.from(text), new Map(big)).catch((error: unknown) => error);
    if (value instanceof RotundaError) expect(value.code).toBe("usage");
    else expect(JSON.stringify(value) === text).toBe(true);
  }
});

test("depth and number of values are bounded before anything is parsed", async () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  expect(await parse(nested(100))).toBeDefined();
  await expect(parse(nested(101))).rejects.toMatchObject({ code: "usage" });
  await expect(parse("[".repeat(20_000_000))).rejects.toMatchObject({ code: "usage" });
  await expect(parse(`[${"1,".repeat(MAX_VALUES)}1]`)).rejects.toMatchObject({ code: "body_too_large" });
  await expect(parse(`[${"[],".repeat(MAX_VALUES / 2)}1]`)).rejects.toMatchObject({ code: "body_too_large" });
  expect(await parse(`["${"[[".repeat(300)}"]`)).toEqual(["[[".repeat(300)]);
});

test("NUL and lone surrogates become U+FFFD, pairs stay", async () => {
  expect(
    await parse('{"a\\u0000":["\\ud800","\\ud83d\\ude00","\\udc00\\ud800","x\\u0000"],"__proto__":"\\u0000"}'),
  ).toEqual(JSON.parse('{"a\ufffd":["\ufffd","😀","\ufffd\ufffd","x\ufffd"],"__proto__":"\ufffd"}'));
  const text = `["${"\\ud83d\\ude00".repeat(60_000)}\\ud800${"\\u0000".repeat(10)}"]`;
  expect(await parse(text)).toEqual([`${"😀".repeat(60_000)}\ufffd${"\ufffd".repeat(10)}`]);
});

test("50 MB of any kind do not hold the event loop", { timeout: 120_000 }, async () => {
  const size = 50_000_000;
  const bodies = {
    text: `["${"x".repeat(size)}"]`,
    escapes: `["${"\\u0041".repeat(size / 6)}"]`,
    wide: `["${"é😀".repeat(size / 6)}"]`,
    objects: `[${Array.from({ length: 11_000 }, (_, index) => `{"role":"user","content":"${"y".repeat(4_500)}${index}"}`).join(",")}]`,
    keys: `{${Array.from({ length: 49_000 }, (_, index) => `"${index}${"k".repeat(1_000)}":1`).join(",")}}`,
    blank: `[${" ".repeat(size)}]`,
    brackets: "[".repeat(size),
    quotes: '"'.repeat(size),
    numbers: `[${"1".repeat(size)}]`,
  };
  for (const [name, text] of Object.entries(bodies)) {
    const bytes = Buffer.from(text);
    const turns = watchTurns();
    await parseJsonBody(bytes).catch(() => undefined);
    expect(turns.stop(), name).toBeLessThan(LONGEST);
  }
});
