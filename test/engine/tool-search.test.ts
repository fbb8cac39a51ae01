/** Too many tools: what a model is shown, and that it depends on stored items alone. */
import { describe, expect, test } from "vitest";
import type { Tool } from "../../src/types/tool.ts";
import { callOf, engineWith, modelOf, say, temporaryFolder, temporaryStore, toolOf } from "../support.ts";

const start = { door: "test", workspace: "/" };

const own = toolOf("read", async () => ({ text: "content" }));

/** 50 tools of servers, about 150 tokens each. */
const served: Tool[] = Array.from({ length: 50 }, (_, at) =>
  toolOf(`server__thing_${at}`, async () => ({ text: `thing ${at} done` }), {
    server: "server",
    serverName: `thing_${at}`,
    description: `Does thing ${at}. ${"It is described at length. ".repeat(20)}`,
  }),
);
const toolList = [own, ...served];

function shown(model: ReturnType<typeof modelOf>): string[][] {
  return model.requests.map(({ tools }) => tools.map(({ name }) => name));
}

describe("above the threshold", () => {
  test("a model is shown our own tools and tool_search, then what it has found, and can call it", async () => {
    const search = callOf(["tool_search", { query: "thing_7", limit: 1 }]);
    const model = modelOf([search, callOf(["server__thing_7", {}]), say("done")]);
    const { engine } = await engineWith({ model, toolList, toolSearchAbove: 2_000 });
    const { id } = await engine.start({ ...start, input: "go" });
    expect((await engine.wait(id)).status).toBe("completed");
    const base = ["read", "tool_search"];
    expect(shown(model)).toEqual([base, [...base, "server__thing_7"], [...base, "server__thing_7"]]);
    // Prompt caches: what was shown stays where it was, and the same list is the same array.
    expect(model.requests[2]?.tools).toBe(model.requests[1]?.tools);
    const { output } = await engine.get(id);
    expect(output.map((item) => item.type === "mcp_call" && item.output)).toEqual([
      expect.stringMatching(/^1 of 50 tools fit; you can call them from now on:\n- server__thing_7: Does thing 7\./),
      "thing 7 done",
      false,
    ]);
  });

  test("it is the history that says what is shown: on each branch, in another process, in its order", async () => {
    const folder = temporaryFolder();
    const find = (...numbers: number[]) =>
      callOf(...numbers.map((at): [string, object] => ["tool_search", { query: `thing_${at}`, limit: 1 }]));
    const model = modelOf([find(30, 4), say("found"), find(9), say("more"), say("on the other branch"), say("deeper")]);
    const { engine, store } = await engineWith({ model, toolList, toolSearchAbove: 2_000, folder });
    const run = async (input: string, previousResponseId?: string) => {
      const { id } = await engine.start({ ...start, input, ...(previousResponseId && { previousResponseId }) });
      await engine.wait(id);
      return id;
    };
    const first = await run("one");
    const second = await run("two", first);
    await run("three", first);
    await run("four", second);
    const [base, found, more] = [
      ["read", "tool_search"],
      ["read", "tool_search", "server__thing_30", "server__thing_4"],
      ["read", "tool_search", "server__thing_30", "server__thing_4", "server__thing_9"],
    ];
    expect(shown(model)).toEqual([base, found, found, more, found, more]);
    await engine.stop();
    await store.close();
    const later = modelOf([say("in another process")]);
    const other = await engineWith({
      model: later,
      toolList: toolList.map((tool) => ({ ...tool })),
      toolSearchAbove: 2_000,
      store: await temporaryStore({}, folder),
    });
    const { id } = await other.engine.start({ ...start, input: "five", previousResponseId: second });
    await other.engine.wait(id);
    expect(shown(later)).toEqual([more]);
    expect(JSON.stringify(later.requests[0]?.tools)).toBe(JSON.stringify(model.requests[5]?.tools));
  });

  test("a tool that is not shown can be called all the same, and is shown from then on", async () => {
    const model = modelOf([callOf(["server__thing_3", {}]), say("done")]);
    const { engine } = await engineWith({ model, toolList, toolSearchAbove: 2_000 });
    const { id } = await engine.start({ ...start, input: "go" });
    await engine.wait(id);
    expect(shown(model)[1]).toEqual(["read", "tool_search", "server__thing_3"]);
  });

  test("what a profile may not use is not found; what a caller demands is shown", async () => {
    const model = modelOf([callOf(["tool_search", { query: "thing", limit: 20 }]), say("done")]);
    const profile = { tools: ["read", "tool_search", "server__thing_1*"] };
    const { engine } = await engineWith({ model, toolList, toolSearchAbove: 500, profile });
    const settings = { toolChoice: { name: "server__thing_12" } };
    const { id } = await engine.start({ ...start, input: "go", settings });
    await engine.wait(id);
    expect(shown(model)[0]).toEqual(["read", "tool_search", "server__thing_12"]);
    const found = shown(model)[1]?.slice(2) ?? [];
    expect(found.length).toBe(11);
    expect(found.every((name) => /^server__thing_1\d?$/.test(name))).toBe(true);
  });

  test("a rule against it holds, and a client's own tool of that name is the client's", async () => {
    const model = modelOf([callOf(["tool_search", { query: "thing" }]), say("done")]);
    const permissions = { allow: [], ask: [], deny: ["tool_search"], mode: "auto" as const };
    const { engine } = await engineWith({ model, toolList, toolSearchAbove: 2_000, permissions });
    const { id } = await engine.start({ ...start, input: "go" });
    await engine.wait(id);
    expect((await engine.get(id)).output[0]).toMatchObject({ status: "failed" });
    expect(shown(model)[1]).toEqual(["read", "tool_search"]);
    const theirs = modelOf([say("done")]);
    const other = await engineWith({ model: theirs, toolList, toolSearchAbove: 2_000 });
    const clientTools = [{ name: "tool_search", parameters: { type: "object" } }];
    await other.engine.wait((await other.engine.start({ ...start, input: "go", settings: { clientTools } })).id);
    expect(shown(theirs)[0]).toHaveLength(52);
  });
});

describe("below it", () => {
  test("everything is shown, and nothing of a search; the threshold is 10,000 tokens unless it is set", async () => {
    const few = modelOf([say("done")]);
    const { engine } = await engineWith({ model: few, toolList });
    await engine.wait((await engine.start({ ...start, input: "go" })).id);
    expect(shown(few)[0]).toEqual(toolList.map(({ name }) => name));
    const many = modelOf([say("done")]);
    const more = [own, ...served.flatMap((tool) => [tool, { ...tool, name: `${tool.name}_b` }])];
    const crowded = await engineWith({ model: many, toolList: more });
    await crowded.engine.wait((await crowded.engine.start({ ...start, input: "go" })).id);
    expect(shown(many)[0]).toEqual(["read", "tool_search"]);
  });
});
