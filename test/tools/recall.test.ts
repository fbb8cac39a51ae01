/** recall: what is no longer in the prompt is found and read, in pieces. */
import { expect, test } from "vitest";
import type { Entry, Item } from "../../src/types/item.ts";
import { recallTool } from "../../src/util/recall.ts";
import { context } from "./context.ts";

function entry(item: Item): Entry {
  return { side: "input", position: 0, turn: 0, item, meta: {} };
}

const said = (id: string, text: string): Entry =>
  entry({ type: "message", id, role: "user", status: "completed", content: [{ type: "input_text", text }] });

const entries = [
  said("msg_00000000000000000000000001", "The heron is grey."),
  said("msg_00000000000000000000000002", `The grey area: ${"lorem ipsum ".repeat(2_000)}end.`),
  said("msg_00000000000000000000000003", "A heron that is GREY (.*)+$ and tall"),
];

const ask = (input: Record<string, string | number>, of = entries) =>
  recallTool.run(input, context("/", { recall: async () => of }));

test("G10 the phrase first, then all words, newest first; plain text, never an expression", async () => {
  const { text } = await ask({ query: "heron is grey" });
  const lines = text.split("\n");
  expect(lines[0]).toMatch(/^2 of 3 older items fit/);
  expect(lines[1]).toContain("00000001 user: The heron is grey.");
  expect(lines[2]).toContain("00000003");
  expect((await ask({ query: "(.*)+$" })).text).toContain("1 of 3");
  expect((await ask({ query: "pelican" })).text).toBe("No matches found in 3 older items");
});

test("G10 a long item in pieces that join to the whole", async () => {
  let whole = "";
  for (let from = 0; ; ) {
    const { text } = await ask({ item: "00000002", from });
    const [, end, length] = /characters \d+ to (\d+) of (\d+)/.exec(text) ?? [];
    whole += text.slice(text.indexOf("\n") + 1).replace(/\n\[go on with from: \d+\]$/, "");
    from = Number(end);
    if (end === length) break;
  }
  const [, second] = entries;
  const content = second?.item.type === "message" ? second.item.content[0] : undefined;
  expect(whole).toBe(content && "text" in content ? content.text : "");
});

test("what is not there, and nothing at all", async () => {
  expect(await ask({ item: "zzzz" })).toMatchObject({ isError: true });
  expect(await ask({ item: "0" })).toMatchObject({ isError: true });
  expect(await ask({})).toMatchObject({ isError: true });
  expect((await ask({ query: "heron" }, [])).text).toBe("Nothing of this conversation was left out.");
});
