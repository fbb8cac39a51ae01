/** Events as blocks: what streams is cut where nobody sees it, and what is held is bounded. */
import { stripVTControlCharacters } from "node:util";
import { visibleWidth } from "@earendil-works/pi-tui";
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { AnswerBlock, type Canvas, loadMarkdown, SaidBlock } from "../../src/doors/tui/block.ts";
import { briefArguments } from "../../src/doors/tui/call-block.ts";
import {
  changeOf,
  comparedWith,
  diffLines,
  diffOf,
  type FileNow,
  wholeOf,
  wrappedLine,
} from "../../src/doors/tui/change.ts";
import { clean } from "../../src/doors/tui/clean.ts";
import { showResponse } from "../../src/doors/tui/history.ts";
import { Reader } from "../../src/doors/tui/reader.ts";
import { lookFor } from "../../src/doors/tui/style.ts";
import { Transcript } from "../../src/doors/tui/transcript.ts";
import type { RunEvent } from "../../src/types/event.ts";
import type { Entry, EntryMeta, Item, McpCallItem, MessageItem } from "../../src/types/item.ts";
import type { ResponseNode } from "../../src/types/response.ts";

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

test("what cannot be read is not asked for once more in every frame", async () => {
  const transcript = new Transcript();
  let asked = 0;
  transcript.older = () => {
    asked++;
    return Promise.reject(new Error("it is damaged"));
  };
  await expect(transcript.readOlder()).rejects.toThrow("it is damaged");
  await transcript.readOlder();
  expect(asked).toBe(1);
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

describe("what steers a run", () => {
  const item = (id: string, role: "user" | "assistant", text: string): MessageItem => ({
    type: "message",
    id,
    role,
    status: "completed",
    content: [role === "user" ? { type: "input_text", text } : { type: "output_text", text, annotations: [] }],
  });
  const work: McpCallItem = {
    type: "mcp_call",
    id: "mcp_1",
    status: "completed",
    server_label: "rotunda",
    name: "bash",
    arguments: "{}",
    output: "done",
    error: null,
    approval_request_id: null,
  };
  const drawn = (transcript: Transcript) =>
    transcript.blocks.flatMap((block) => [...block.lines(canvas)]).map((line) => stripVTControlCharacters(line));
  const marks = (transcript: Transcript) => drawn(transcript).filter((line) => /^[●↪✓]/.test(line));

  test("it never cuts an answer: it waits below it, and stands where the model takes it up", () => {
    const transcript = new Transcript();
    const reader = new Reader(transcript);
    let number = 0;
    const told = (type: "response.output_item.added" | "response.output_item.done", one: Item, output_index: number) =>
      reader.read({ type, item: one, output_index, sequence_number: number++ });
    const says = (item_id: string, delta: string, output_index: number) =>
      reader.read({
        type: "response.output_text.delta",
        item_id,
        delta,
        output_index,
        content_index: 0,
        sequence_number: number++,
      });
    told("response.output_item.added", item("msg_1", "assistant", ""), 0);
    says("msg_1", "The first half of a sentence ", 0);
    told("response.output_item.added", item("msg_2", "user", "please hurry"), 1);
    told("response.output_item.done", item("msg_2", "user", "please hurry"), 1);
    expect(reader.steering.map(({ id }) => id)).toEqual(["msg_2"]);
    says("msg_1", "and the second half.", 0);
    told("response.output_item.done", item("msg_1", "assistant", ""), 0);
    told("response.output_item.added", { ...work, status: "in_progress", output: null }, 2);
    told("response.output_item.done", work, 2);
    expect(marks(transcript).join()).not.toContain("hurry");
    told("response.output_item.added", item("msg_3", "assistant", ""), 3);
    says("msg_3", "Hurried.", 3);
    const expected = [
      /^● The first half of a sentence and the second half\.$/,
      /^✓ bash/,
      /^↪ please hurry$/,
      /^● Hurried/,
    ];
    const seen = marks(transcript);
    expect(seen).toHaveLength(expected.length);
    for (const [index, pattern] of expected.entries()) expect(seen[index]).toMatch(pattern);
    expect(reader.steering).toEqual([]);
  });

  test("it is at the same place when the conversation is opened again, and in the tree", () => {
    const entry = (position: number, turn: number, one: Item, meta: EntryMeta = {}): Entry => ({
      side: "output",
      position,
      turn,
      item: one,
      meta,
    });
    const node = { endedAt: 1, error: null, status: "completed", incompleteReason: null } as ResponseNode;
    const transcript = new Transcript();
    const entries = [
      entry(0, 1, item("msg_1", "assistant", "A whole sentence.")),
      entry(1, 1, item("msg_2", "user", "please hurry"), { synthetic: "steer" }),
      entry(2, 1, work),
      entry(3, 2, item("msg_3", "assistant", "Hurried.")),
      entry(4, 2, item("msg_4", "user", "too late"), { synthetic: "steer" }),
    ];
    showResponse({ node, entries }, transcript, true);
    expect(marks(transcript).map((line) => line.replace(/^(✓ bash).*/, "$1").trim())).toEqual([
      "● A whole sentence.",
      "✓ bash",
      "↪ please hurry",
      "● Hurried.",
      "↪ too late",
    ]);
  });
});

describe("a change against what the file holds", () => {
  const text = Array.from({ length: 30 }, (_, index) => `line ${index + 1}\n`).join("");
  const compared = (tool: string, input: object, file: FileNow) => {
    const change = changeOf(tool, JSON.stringify({ file_path: "a.txt", ...input }));
    if (!change) throw new Error("no change");
    return comparedWith(change, tool, file);
  };

  test("a file that is replaced: what differs, and how much stays", () => {
    const content = text.replace("line 15\n", "");
    const { about, lines } = compared("write", { content }, { text });
    expect(about).toBe("replaces a file of 30 lines");
    expect(lines).toEqual([
      "@@ 11 lines as before",
      ...[" line 12", " line 13", " line 14", "-line 15", " line 16", " line 17", " line 18"],
      "@@ 12 lines as before",
    ]);
    expect(compared("write", { content: "a" }, { missing: true })).toMatchObject({
      about: "new file",
      lines: expect.arrayContaining(["+a"]),
    });
    expect(compared("write", { content: text }, { text }).about).toBe("the file is like this already");
  });

  test("edits that let a file grow without bound are not tried out", () => {
    const double = { old_string: "a", new_string: "aa", replace_all: true };
    const { about, fails } = compared("edit", { edits: Array.from({ length: 40 }, () => double) }, { text: "a" });
    expect([about, fails]).toEqual(["it makes the file too large to compare", false]);
  });

  test("an edit: where it takes effect, everywhere in the file, or that it cannot", () => {
    const edit = (old_string: string, new_string: string, replace_all = false) => ({
      edits: [{ old_string, new_string, replace_all }],
    });
    expect(compared("edit", edit("line 15", "other"), { text }).lines).toContain("+other");
    expect(compared("edit", edit("line 2", "other"), { text })).toMatchObject({ fails: true });
    const all = compared("edit", edit("line 2", "other", true), { text });
    expect(all.lines.filter((line) => line.startsWith("+"))).toHaveLength(11);
    const returns = compared("edit", edit("line 1\nline 2\n", "one\n"), { text: text.replaceAll("\n", "\r\n") });
    expect(returns.lines.slice(0, 3)).toEqual(["-line 1\r", "-line 2\r", "+one\r"]);
    expect(compared("edit", edit("line 1", "x"), { missing: true })).toMatchObject({ fails: true });
    expect(compared("edit", edit("gone", "x"), { text })).toMatchObject({ fails: true });
  });
});

test.each([
  ["👩\u200d👩\u200d👧", 2],
  ["🏃🏽\u200d♀️", 2],
  ["❤️\u200d🔥", 2],
])("emoji that are joined stay one: %s", (text, width) => {
  expect(clean(text)).toBe(text);
  expect(visibleWidth(clean(text))).toBe(width);
});

test.each(["a\u200db", "👩\u200d", "\u200d👩", "👩\u200d\u200d👧", "1\u200d2", "👩\u200da"])(
  "a joiner that joins no emoji is seen: %j",
  (text) => {
    expect(clean(text)).toContain("\\u{200d}");
    expect(clean(text)).not.toContain("\u200d");
  },
);

test("an answer that was cut and is said anew is marked where it was cut; one that only ended so is not", () => {
  const said = (id: string, status: "completed" | "incomplete", text: string): MessageItem => ({
    type: "message",
    id,
    role: "assistant",
    status,
    content: [{ type: "output_text", text, annotations: [] }],
  });
  const drawn = (items: readonly Item[]) => {
    const transcript = new Transcript();
    new Reader(transcript).readAll(items);
    return transcript.blocks
      .flatMap((block) => block.lines(canvas))
      .map((line) => stripVTControlCharacters(line).trim());
  };
  const cut = said("msg_1", "incomplete", "One, two");
  expect(drawn([cut, said("msg_2", "completed", "One, two, three")]).filter((line) => line !== "")).toEqual([
    "● One, two",
    "Cut off there; it goes on:",
    "● One, two, three",
  ]);
  expect(drawn([cut]).join("\n")).not.toContain("Cut off");
});
