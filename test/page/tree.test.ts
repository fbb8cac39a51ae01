/** The tree on the page: where nodes stand, and what a person does with them. */
import { describe, expect, test } from "vitest";
import { layOut } from "../../src/page/views/tree-layout.ts";
import type { TreeNode } from "../../src/page/wire.ts";
import { drawn, hasBrowser, openPage, say, startPageServer, withBrowser } from "./support.ts";

function node(id: string, previous: string | null, at: number, more: Partial<TreeNode> = {}): TreeNode {
  const texts = { prompt: id, answer: "", profile: "general", model: "m", door: "http" };
  const times = { created_at: at, ended_at: at + 1 };
  return {
    ...{ id, previous_response_id: previous, caller: null, conversation_id: null, status: "completed", ...texts },
    ...{ ...times, usage: null, cost: null, ...more },
  };
}

describe("where nodes stand", () => {
  test("W9 the path keeps its lane, branches stand right of it, above what goes on", () => {
    const nodes = [node("a", null, 1), node("b", "a", 2), node("c", "b", 3), node("x", "a", 4), node("y", "x", 5)];
    const { rows, lanes } = layOut(nodes, "c");
    expect(rows.map(({ node: { id }, lane, parent, level }) => [id, lane, parent, level])).toEqual([
      ["a", 0, -1, 1],
      ["x", 1, 0, 2],
      ["y", 1, 1, 3],
      ["b", 0, 0, 2],
      ["c", 0, 3, 3],
    ]);
    expect(lanes).toBe(2);
    expect(rows.filter(({ current }) => current).map((row) => row.node.id)).toEqual(["a", "b", "c"]);
  });

  test("W9 without a path the newest goes on; a sub-agent hangs aside", () => {
    const called = node("s", null, 3, { caller: { response_id: "a", item_id: "i" } });
    const { rows } = layOut([node("a", null, 1), node("b", "a", 2), called, node("c", "a", 4)], null);
    expect(rows.map(({ node: { id }, lane, called: aside }) => [id, lane, aside])).toEqual([
      ["a", 0, false],
      ["b", 1, false],
      ["s", 1, true],
      ["c", 0, false],
    ]);
  });

  test("a chain of 20,000 is laid out, and a part without its root too", () => {
    const nodes = Array.from({ length: 20_000 }, (_, at) => node(`n${at}`, at === 0 ? "gone" : `n${at - 1}`, at));
    const { rows, lanes } = layOut(nodes, "n19999");
    expect([rows.length, lanes, rows.at(-1)?.level]).toEqual([20_000, 1, 20_000]);
  });
});

describe.skipIf(!hasBrowser)("the tree in a browser", () => {
  withBrowser();

  test("W9 branches, models, costs and sub-agents; walked by keys, compared side by side", {
    timeout: 90_000,
  }, async () => {
    const server = await startPageServer((request) => {
      const { messages } = request.body as unknown as { messages: { role: string; content: unknown }[] };
      const asked = JSON.stringify(messages.findLast(({ role }) => role === "user")?.content);
      const usage = { prompt_tokens: 1_000, completion_tokens: 200, total_tokens: 1_200, cost: 0.25 };
      if (messages.at(-1)?.role !== "tool" && asked.includes("delegate")) {
        const task = { agent_type: "explore", task: "Look for the needle", description: "Find the needle" };
        return { calls: [{ name: "task", arguments: task }], usage };
      }
      return { text: `Answer of ${String(request.body.model)} to ${asked}`, usage };
    });
    const { id: conversation } = await server.ask<{ id: string }>("/v1/conversations", {});
    const post = (input: string, more: object) => server.ask<{ id: string }>("/v1/responses", { input, ...more });
    const root = await post("The root", { conversation });
    const main = await post("delegate this", { conversation });
    const branch = await post("The branch", { previous_response_id: root.id, model: "other-model" });
    const { page, faults } = await openPage(server);
    await page.goto(`${server.url}/tree/${main.id}`);
    const rows = page.getByRole("treeitem");
    await expect.poll(() => rows.count(), { timeout: 10_000 }).toBe(4);
    const texts = await rows.allTextContents();
    expect(texts.map((text) => /The root|The branch|sub-agent|delegate/.exec(text)?.[0])).toEqual([
      "The root",
      "The branch",
      "delegate",
      "sub-agent",
    ]);
    expect(texts[1]).toContain("other-model");
    expect(texts[0]).toContain("$0.25");
    expect(await page.locator(".tree-lines path").count()).toBe(3);

    // The chosen one is the one that was asked for; up to its parent, down to its first child.
    const chosen = () => page.locator("[aria-selected=true]").getAttribute("data-response");
    expect(await chosen()).toBe(main.id);
    await page.locator("[aria-selected=true]").focus();
    await page.keyboard.press("ArrowLeft");
    expect(await chosen()).toBe(root.id);
    await page.keyboard.press("ArrowRight");
    expect(await chosen()).toBe(branch.id);
    await page.keyboard.press("c");
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("c");
    await page.locator(".side .answer").nth(1).waitFor();
    expect(page.url()).toContain(`/compare/${branch.id}/${main.id}`);
    expect(await page.locator(".side").first().textContent()).toContain("other-model");
    await drawn(page, "What differs between the answers").click();
    await page.locator(".diff .diff-added").first().waitFor();

    // Sub-agents stand within the call that started them.
    await page.goto(`${server.url}/r/${main.id}`);
    await page.locator(".sub-agent summary").click();
    await page.locator(".sub-agent .answer", { hasText: "needle" }).waitFor();

    // And a branch from the page is in the tree of another tab at once.
    const other = await page.context().newPage();
    await other.goto(`${server.url}/tree/${root.id}`);
    await expect.poll(() => other.getByRole("treeitem").count(), { timeout: 10_000 }).toBe(4);
    await page.goto(`${server.url}/r/${root.id}`);
    await page.locator(".turn-foot").waitFor();
    await say(page, "One more branch");
    await expect.poll(() => other.getByRole("treeitem").count(), { timeout: 10_000 }).toBe(5);
    expect(faults).toEqual([]);
  });
});
