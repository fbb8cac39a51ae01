/** Single blocks and panels: what they leave out they say, and what they hold is bounded. */
import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import type { Ask } from "../../src/doors/tui/asks.ts";
import { type Block, type Canvas, headOf, SaidBlock } from "../../src/doors/tui/block.ts";
import { CallBlock, callOf, pretty } from "../../src/doors/tui/call-block.ts";
import { QuestionPanel } from "../../src/doors/tui/question-panel.ts";
import { Reader } from "../../src/doors/tui/reader.ts";
import { durationText, lookFor } from "../../src/doors/tui/style.ts";
import { Transcript } from "../../src/doors/tui/transcript.ts";
import type { ElicitationAnswer } from "../../src/types/elicitation.ts";
import type { McpCallItem } from "../../src/types/item.ts";

const canvas: Canvas = { width: 80, look: lookFor(false), now: 0 };
const textOf = (block: Block) => stripVTControlCharacters(block.lines(canvas).join("\n"));

function call(index: number, given = "{}", output = "done"): McpCallItem {
  return {
    type: "mcp_call",
    id: `mcp_${index}`,
    status: "completed",
    server_label: "docs",
    name: "look",
    arguments: given,
    output,
    error: null,
    approval_request_id: null,
  };
}

test("lines that are left out are counted as lines, however many rows one takes", () => {
  const text = Array.from({ length: 12 }, (_, index) => `${index} ${"word ".repeat(20)}`).join("\n");
  const { lines, hidden } = headOf(text, 40, 10);
  expect(lines).toHaveLength(10);
  expect(hidden).toBe(9);
});

test("what a person said opens where something of it is left out, and only there", () => {
  const list = new SaidBlock(Array.from({ length: 15 }, (_, index) => `line ${index}`).join("\n"));
  expect(textOf(list)).toContain("… 5 more lines");
  expect(list.foldable).toBe(true);
  list.toggle();
  expect(textOf(list)).toContain("line 14");
  expect(list.foldable).toBe(true);
  const paragraph = new SaidBlock("word ".repeat(100));
  expect(textOf(paragraph)).not.toContain("more");
  expect(paragraph.foldable).toBe(false);
});

test("the arguments of an opened call say how much of them is left out", () => {
  const given = JSON.stringify(Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`key${index}`, index])));
  const block = new CallBlock(callOf(call(1, given), undefined));
  block.toggle();
  const shown = textOf(block);
  expect(shown).toContain('"key58": 58');
  expect(shown).not.toContain('"key59"');
  expect(shown).toContain("… 42 more lines: rotunda show");
});

test("V9 arguments that lie in each other thousands deep are shown as they are: to indent them would fill the memory", () => {
  const deep = `${"[".repeat(3_000)}1${"]".repeat(3_000)}`;
  expect(pretty(deep)).toBe(deep);
  expect(pretty('{"a":[{"b":1}]}')).toBe('{\n  "a": [\n    {\n      "b": 1\n    }\n  ]\n}');
});

test("V1 the calls of a long run are not held when the transcript has dropped them, and keep their times", () => {
  const transcript = new Transcript();
  const reader = new Reader(transcript);
  const items = Array.from({ length: 3_000 }, (_, index) => call(index, "{}", "x".repeat(10_000)));
  reader.readAll(items, new Map(items.map(({ id }) => [id, 61_000])));
  expect(reader.calls.size).toBeLessThan(1_000);
  expect(transcript.blocks.reduce((sum, { weight }) => sum + weight, 0)).toBeLessThan(6_000_000);
  transcript.toggleAll();
  const shown = transcript.blocks.map(textOf).join("\n");
  expect(shown).toMatch(/✓ 2980 calls docs__look 2980\n {2}… 2\d{3} before: rotunda show/);
  const times = shown.split("\n").filter((line) => /✓ docs__look/.test(line));
  expect(times.length).toBeGreaterThan(50);
  expect(times.filter((line) => !line.includes("1m 01s"))).toEqual([]);
});

test("a question that is longer than its window is read page by page, whatever was hit before", async () => {
  const message = Array.from({ length: 60 }, (_, index) => `line ${index}.`).join("\n");
  const elicitation = { id: "eli_1", server: "srv", message, mode: "form", requestedSchema: null, url: null };
  const answers: (ElicitationAnswer | undefined)[] = [];
  const panel = new QuestionPanel(
    { kind: "question", elicitation } as unknown as Extract<Ask, { kind: "question" }>,
    async (answer) => {
      answers.push(answer);
      return undefined;
    },
  );
  const drawn = () => stripVTControlCharacters(panel.draw(canvas, 16).join("\n"));
  expect(drawn()).toMatch(/line 0\.[\s\S]*lines 1–13 of 60/);
  for (let page = 0; page < 20; page++) panel.key("\u001b[6~");
  expect(drawn()).toMatch(/line 59\.[\s\S]*lines 48–60 of 60/);
  panel.key("\u001b[5~");
  expect(drawn()).toContain("lines 35–47 of 60");
  await sleep(400);
  panel.key("\r");
  expect(answers).toEqual([{ action: "accept" }]);
});

test("a time is never a minute short", () => {
  expect([59_700, 119_700, 3_599_800].map(durationText)).toEqual(["1m 00s", "2m 00s", "60m 00s"]);
});
