/** Wherever a path may be parted, what is left is a prompt that the strictest endpoint takes. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { elementsOf, goesUpTo, partings, placeOf } from "../../src/engine/compact-plan.ts";
import { compacted, countRange, droppedFrom, inForce } from "../../src/engine/compacted.ts";
import { HistoryRenderer } from "../../src/models/chat-completions-history.ts";
import { findProblem } from "../../src/testing/request-problem.ts";
import type { Entry, Item } from "../../src/types/item.ts";
import type { JsonObject } from "../../src/types/json.ts";
import type { HistoryNode } from "../../src/types/model.ts";

let count = 0;
const id = (kind: string) => `${kind}_${String(++count).padStart(26, "0")}`;

function message(role: "user" | "assistant" | "system", text: string): Item {
  const content =
    role === "assistant"
      ? { type: "output_text" as const, text, annotations: [] }
      : { type: "input_text" as const, text };
  return { type: "message", id: id("msg"), role, status: "completed", content: [content] };
}

interface Turn {
  system: boolean;
  steps: number[];
  client: number;
  text: string;
}

/** One response: a question, steps with calls of ours, then an answer, or calls that the client answers in the next. */
function nodesOf(turns: readonly Turn[]): HistoryNode[] {
  let owed: string[] = [];
  return turns.map(({ system, steps, client, text }): HistoryNode => {
    const entries: Entry[] = [];
    const add = (side: Entry["side"], turn: number, item: Item, last = false) => {
      const position = entries.filter((entry) => entry.side === side).length;
      entries.push({ side, position, turn, item, meta: last ? { finish: "stop", model: "m" } : {} });
    };
    for (const call_id of owed)
      add("input", 0, { type: "function_call_output", id: id("fco"), call_id, output: "o", status: "completed" });
    owed = [];
    if (system) add("input", 0, message("system", "Be kind."));
    add("input", 0, message("user", text));
    for (const [index, calls] of steps.entries()) {
      if (calls % 2 === 1) add("output", index + 1, message("assistant", `step ${index}`));
      for (let number = 0; number < calls; number++) {
        add(
          "output",
          index + 1,
          {
            type: "mcp_call",
            id: id("mcp"),
            server_label: "rotunda",
            name: "look",
            arguments: "{}",
            status: "completed",
            output: text.repeat(3),
            error: null,
            approval_request_id: null,
          },
          number === calls - 1,
        );
      }
    }
    const turn = steps.length + 1;
    for (let number = 0; number < client; number++) {
      const call_id = id("call");
      owed.push(call_id);
      add(
        "output",
        turn,
        { type: "function_call", id: id("fc"), call_id, name: "ask", arguments: "{}", status: "completed" },
        number === client - 1,
      );
    }
    if (client === 0) add("output", turn, message("assistant", "an answer"), true);
    return { responseId: id("resp"), ended: true, entries };
  });
}

const turn = fc.record({
  system: fc.boolean(),
  steps: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 3 }),
  client: fc.integer({ min: 0, max: 2 }),
  text: fc.string({ minLength: 1, maxLength: 20 }).map((text) => `q${text}`),
});

const paths = fc.array(turn, { minLength: 1, maxLength: 6 });

function problemOf(nodes: readonly HistoryNode[]): string | null {
  const renderer = new HistoryRenderer({ key: "m", reasoningBack: "own", shortCallIds: false, toolImages: true });
  const question: HistoryNode = {
    responseId: "now",
    ended: false,
    entries: [{ side: "input", position: 0, turn: 0, item: message("user", "and now?"), meta: {} }],
  };
  const { system, messages } = renderer.render([...nodes, question]);
  const head = system === "" ? [] : [{ role: "system", content: system }];
  return findProblem({ model: "m", messages: [...head, ...(JSON.parse(`[${messages}]`) as JsonObject[])] });
}

/** The path with a summary of everything before a place. */
function summedUp(nodes: readonly HistoryNode[], up: number): HistoryNode[] {
  const gone = elementsOf(nodes, inForce(nodes)).slice(0, up);
  const [first] = gone.filter(({ standsIn }) => !standsIn);
  const last = gone.findLast(({ standsIn }) => !standsIn);
  if (!first || !last) return [...nodes];
  const before = gone[0]?.standsIn ? inForce(nodes)?.drop?.compaction.from : undefined;
  const range = { from: before ?? placeOf(first), to: placeOf(last) };
  const kept = gone.filter(({ entry: { item } }) => item.type === "message" && item.role === "system");
  const compaction = {
    strategy: "summary" as const,
    ...range,
    items: countRange(nodes, range),
    kept: kept.map(({ entry }) => entry.item.id),
  };
  const entry: Entry = {
    side: "output",
    position: 0,
    turn: 0,
    item: { type: "compaction", id: id("cmp"), summary: "a summary" },
    meta: { compaction },
  };
  return [...nodes, { responseId: id("resp"), ended: true, entries: [entry] }];
}

/** Calls without their outputs, and answers, of which a part stays and a part goes. */
function tornIn(nodes: readonly HistoryNode[], dropped: ReadonlySet<string>): string[] {
  const groups = new Map<string, boolean[]>();
  for (const { responseId, entries } of nodes) {
    for (const { item, side, turn: step, meta } of entries) {
      if (meta.compaction) continue;
      const belongsTo = side === "output" ? [`${responseId} ${step}`] : [];
      if (item.type === "function_call" || item.type === "function_call_output") belongsTo.push(item.call_id);
      for (const key of belongsTo) groups.set(key, [...(groups.get(key) ?? []), dropped.has(item.id)]);
    }
  }
  return [...groups].filter(([, gone]) => new Set(gone).size > 1).map(([key]) => key);
}

test("G10 at every place where a path may be parted, once and once more: no orphan, nothing doubled, nothing lost", () => {
  fc.assert(
    fc.property(paths, fc.nat(), fc.nat(), (turns, one, other) => {
      let nodes: HistoryNode[] = nodesOf(turns);
      const all = nodes.flatMap(({ entries }) => entries.map(({ item }) => item.id));
      for (const choice of [one, other]) {
        const places = partings(elementsOf(nodes, inForce(nodes)));
        const place = places[choice % Math.max(1, places.length)];
        if (place === undefined) continue;
        nodes = summedUp(nodes, place);
        const shown = compacted(nodes).flatMap(({ entries }) => entries.map(({ item }) => item.id));
        const dropped = droppedFrom(nodes).map(({ item }) => item.id);
        const real = shown.filter((shownId) => all.includes(shownId));
        expect(new Set([...real, ...dropped])).toEqual(new Set(all));
        expect(real.length + dropped.length).toBe(all.length);
        expect(problemOf(compacted(nodes))).toBeNull();
        expect(tornIn(nodes, new Set(dropped))).toEqual([]);
      }
    }),
    { numRuns: 300 },
  );
});

test("G10 what goes leaves as much as is wanted, or as little more as can be; the same nodes keep their identity", () => {
  fc.assert(
    fc.property(paths, fc.integer({ min: 0, max: 60 }), (turns, keep) => {
      const nodes = nodesOf(turns);
      const elements = elementsOf(nodes, undefined);
      const up = goesUpTo(elements, elements.length, keep);
      expect(up === 0 || partings(elements).includes(up)).toBe(true);
      const cut = summedUp(nodes, up);
      const once = compacted(cut);
      expect(compacted(cut).map(({ entries }) => entries)).toEqual(once.map(({ entries }) => entries));
      for (const [index, node] of compacted(cut).entries()) expect(node).toBe(once[index]);
    }),
    { numRuns: 200 },
  );
});
