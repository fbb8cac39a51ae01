/** Events as blocks: what streams is cut where nobody sees it, and what is held is bounded. */
import { stripVTControlCharacters } from "node:util";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { AnswerBlock, type Canvas, loadMarkdown, SaidBlock } from "../../src/doors/tui/block.ts";
import { briefArguments } from "../../src/doors/tui/call-block.ts";
import { changeOf, diffLines, diffOf, wholeOf, wrappedLine } from "../../src/doors/tui/change.ts";
import { Reader } from "../../src/doors/tui/reader.ts";
import { lookFor } from "../../src/doors/tui/style.ts";
import { Transcript } from "../../src/doors/tui/transcript.ts";
import type { RunEvent } from "../../src/types/event.ts";
import type { McpCallItem } from "../../src/types/item.ts";

beforeAll(loadMarkdown);

const canvas: Canvas = { width: 80, look: lookFor(false), now: 0 };

function stream(transcript: Transcript, deltas: readonly string[], reader = new Reader(transcript)): Reader {
  for (const delta of deltas) {
    const sequence_number = reader.after + 1;
    const place = { sequence_number, output_index: 0, item_id: "msg_1", content_index: 0 };
    reader.read({ type: "response.output_text.delta", ...place, delta } satisfies RunEvent);
  }
  return reader;
}

const answers = (transcript: Transcript) => transcript.blocks.filter((block) => block instanceof AnswerBlock);

describe("an answer that streams", () => {
  test("whatever its pieces, the blocks hold all of its text in order", () => {
    const line = fc.oneof(
      fc.string({ maxLength: 120 }).filter((text) => !/[`~]/.test(text)),
      fc.constant(""),
      fc.lorem({ maxCount: 30 }),
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 200 }), fc.integer({ min: 1, max: 500 }), (lines, size) => {
        const text = lines.join("\n");
        const deltas = Array.from({ length: Math.ceil(text.length / size) }, (_, index) =>
          text.slice(index * size, (index + 1) * size),
        );
        const transcript = new Transcript();
        stream(transcript, deltas);
        expect(
          answers(transcript)
            .map((block) => block.text)
            .join(""),
        ).toBe(text);
      }),
      { numRuns: 60 },
    );
  });

  test("a long block of code is cut inside its fence, and each part is drawn as code", () => {
    const transcript = new Transcript();
    const code = Array.from({ length: 900 }, (_, index) => `const line${index} = ${index};\n`);
    stream(transcript, ["Here:\n\n```js\n", ...code, "```\n\nDone."]);
    const blocks = answers(transcript);
    expect(blocks.length).toBeGreaterThan(2);
    for (const block of blocks) expect((block.text.match(/^```/gm) ?? []).length % 2).toBe(0);
    const drawn = blocks.flatMap((block) => [...block.lines(canvas)]).join("\n");
    for (const index of [0, 450, 899]) expect(drawn).toContain(`const line${index} = ${index};`);
  });

  test("V1 an hour at 200 tokens a second is held in bounded memory, and the end of it is on the screen", () => {
    const transcript = new Transcript();
    const reader = new Reader(transcript);
    const words = "The cart is empty, and nothing in it was ever bought by anybody at all. ".repeat(10);
    for (let second = 0; second < 3_600; second += 1) {
      stream(transcript, [`${second}: ${words}`, words, "\n\n"], reader);
      if (second % 60 === 0) transcript.draw(canvas, 40);
    }
    expect(transcript.blocks.reduce((sum, block) => sum + block.weight, 0)).toBeLessThan(4_200_000);
    expect(Math.max(...transcript.blocks.map((block) => block.weight))).toBeLessThan(20_000);
    expect(transcript.blocks.length).toBeLessThan(4_200);
    expect(transcript.draw(canvas, 40).join("\n")).toContain("3599: The cart is empty");
  });

  test("the window stays where a person has scrolled to while more is said", () => {
    const transcript = new Transcript();
    for (let index = 0; index < 50; index++) transcript.add(new SaidBlock(`line ${index}`));
    transcript.draw(canvas, 10);
    transcript.scroll(20, canvas);
    const before = transcript.draw(canvas, 10);
    for (let index = 0; index < 50; index++) transcript.add(new SaidBlock(`more ${index}`));
    expect(transcript.draw(canvas, 10)).toEqual(before);
    expect(transcript.following).toBe(false);
    transcript.follow();
    expect(transcript.draw(canvas, 10).join("\n")).toContain("more 49");
  });
});

describe("many calls in a row", () => {
  const call = (index: number, name: string, input: object): McpCallItem => ({
    type: "mcp_call",
    id: `mcp_${index}`,
    status: "completed",
    server_label: "rotunda",
    name,
    arguments: JSON.stringify(input),
    output: "done",
    error: null,
    approval_request_id: null,
  });

  test("those that lie back become one line, which opens; changes of files stay", () => {
    const transcript = new Transcript();
    const items = Array.from({ length: 200 }, (_, index) =>
      index === 100
        ? call(index, "write", { file_path: "a.txt", content: "one\n" })
        : call(index, "grep", { pattern: `cart${index}` }),
    );
    new Reader(transcript).readAll(items);
    expect(transcript.blocks.length).toBeLessThan(60);
    const shown = stripVTControlCharacters(transcript.draw(canvas, 100).join("\n"));
    expect(shown).toMatch(/✓ 100 calls grep 100\n✓ write a\.txt {2}\+1\n {2}│ \+ one\n✓ \d+ calls grep/);
    expect(shown).toContain("✓ grep cart199");
    transcript.toggleAll();
    const opened = stripVTControlCharacters(transcript.blocks.flatMap((block) => block.lines(canvas)).join("\n"));
    for (const index of [0, 99, 101, 199]) expect(opened).toContain(`✓ grep cart${index}`);
  });
});

test("a call's arguments are shown as a change where they are nothing else", () => {
  const edits = [
    { old_string: "a\nb\nc\n", new_string: "a\nB\nc\n" },
    { old_string: "x", new_string: "y", replace_all: true },
  ];
  const edit = changeOf("edit", JSON.stringify({ file_path: "f.js", edits }));
  expect(edit && diffLines(diffOf(edit), canvas, 50).map(stripVTControlCharacters)).toEqual(
    ["  a", "- b", "+ B", "  c", "⋯ everywhere", "- x", "+ y"].map((line) => `  │ ${line}`.trimEnd()),
  );
  expect(edit && wholeOf(edit)).toEqual([" a", "-b", "+B", " c", "@@ everywhere in the file", "-x", "+y"]);
  const write = changeOf("write", '{"content":"+one\\n-two","file_path":"f"}');
  expect(write && wholeOf(write)).toEqual(["++one", "+-two", "@@ without a line break at its end"]);
  const ending = changeOf("edit", '{"file_path":"f","old_string":"a\\n","new_string":"a"}');
  expect(ending && wholeOf(ending)).toEqual([" a", "@@ without a line break at its end"]);
  // What it does not know is not left out: then all of it is shown as it is.
  expect(changeOf("write", '{"content":"x","file_path":"f","mode":"0777"}')).toBeUndefined();
  expect(changeOf("files__write", '{"content":"x","file_path":"f"}')).toBeUndefined();
});

test("a long line of a change never looks like two", () => {
  const rows = wrappedLine(`+${"word ".repeat(30)}- and no line of its own`, 40, canvas.look).map(
    stripVTControlCharacters,
  );
  expect(rows.length).toBeGreaterThan(3);
  expect(rows.filter((row) => /^[+-]/.test(row))).toHaveLength(1);
});

test("a call is told by the arguments that say most", () => {
  expect(briefArguments('{"pattern":"TODO","path":"src"}', 80)).toBe("TODO src");
  expect(briefArguments('{"files":[{"file_path":"a.js"},{"file_path":"b.js"}]}', 80)).toBe("a.js b.js");
  expect(briefArguments('{"todos":[{"status":"completed"},{"status":"pending"}]}', 80)).toBe("1 of 2 done");
  expect(briefArguments('{"amount":3}', 80)).toBe('{"amount":3}');
  expect(briefArguments('{"amou', 80)).toBe('{"amou');
  expect(briefArguments("{}", 80)).toBe("");
});
