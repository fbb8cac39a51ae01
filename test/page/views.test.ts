/** What a person stumbles over beside the chat: the tree's keys, approvals, settings, models, runs, addresses. */
import { describe, expect, test } from "vitest";
import { plainText, SentenceReader } from "../../src/page/plain.ts";
import { hasBrowser, openPage, openTab, startPageServer, withBrowser } from "./support.ts";

const SLOW = { timeout: 90_000 };

describe("words without marks", () => {
  test("W8 what a screen reader is told of a table has no rules of it", () => {
    const text = "Here:\n\n| a | b |\n|---:|:---:|\n| 1 | 2 |\n\nThe **end** of [it](https://example.com/x).";
    expect(new SentenceReader(0).read(text, true).replace(/\s+/g, " ")).toBe("Here: a b 1 2 The end of it.");
    let told = "";
    const reader = new SentenceReader(0);
    for (let at = 0; at <= text.length; at += 3) told += reader.read(text.slice(0, at), false);
    told += reader.read(text, true);
    expect(told).not.toMatch(/-{2,}|\|/);
  });

  test("plain text keeps what is no mark", () => {
    expect(plainText("# A `b` **c** | d")).toBe("A b c d");
    expect(plainText("2 * 3 * 4 and a_b_c, -1 - 2")).toBe("2 * 3 * 4 and a_b_c, -1 - 2");
    expect(plainText("| a | b | | --- | :-: | | 1 | 2 |")).toBe("a b 1 2");
  });
});

describe.skipIf(!hasBrowser)("a walk through the views", () => {
  withBrowser();

  test("W4 the tree takes keys at once, and says in plain words what was said and why it failed", SLOW, async () => {
    const server = await startPageServer((request) => {
      const told = JSON.stringify(request.body.messages);
      if (told.includes("break it")) return { status: 401, body: { error: { message: "Incorrect API key" } } };
      return { text: "## The **answer** is `42`" };
    });
    const first = await server.ask<{ id: string }>("/v1/responses", { input: "**What** is it?" });
    const behind = { previous_response_id: first.id };
    const second = await server.ask<{ id: string }>("/v1/responses", { input: "And then?", ...behind });
    await server.ask("/v1/responses", { input: "break it", ...behind });
    const { page, faults } = await openPage(server);
    await page.goto(`${server.url}/tree/${second.id}`);
    await page.getByRole("treeitem").nth(2).waitFor();
    const focused = () => page.evaluate("document.activeElement.dataset.response") as Promise<string>;
    expect(await focused()).toBe(second.id);
    await page.keyboard.press("ArrowLeft");
    expect(await focused()).toBe(first.id);
    const row = page.locator(`[data-response="${first.id}"]`);
    expect(await row.locator(".tree-prompt").textContent()).toContain("What is it?");
    expect(await row.locator(".tree-answer").textContent()).toBe("The answer is 42");
    const failed = page.locator(".tree-answer.problem");
    expect(await failed.textContent()).toContain("Check the key");
    expect(await page.getByRole("button", { name: "Branch from here" }).count()).toBe(0);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/r/${first.id}`);
    expect(faults).toEqual([]);
  });

  test("W2 an approval says what was asked, where, and through which door", SLOW, async () => {
    const server = await startPageServer(() => ({
      calls: [{ name: "write", arguments: { file_path: "a.txt", content: "a" } }],
    }));
    await server.ask("/v1/responses", { input: "Please **write** the first letter", background: true });
    const { page } = await openPage(server);
    await page.goto(`${server.url}/approvals`);
    const origin = page.locator(".origin");
    await origin.waitFor();
    expect(await origin.getByRole("link").textContent()).toBe("Please write the first letter");
    expect(await origin.textContent()).toContain(server.workspace);
    expect(await origin.textContent()).toContain("through HTTP");
    await page.goto(`${server.url}/runs`);
    await page.locator(".run-facts", { hasText: "workspace" }).waitFor();
  });

  test(
    "what is in force stands in the settings, the models and below the input; addresses lead somewhere",
    SLOW,
    async () => {
      const models = [{ id: "first", contextWindow: 64_000, price: { input: 2, output: 8 } }, { id: "second" }].map(
        (one) => ({ ...one, baseUrl: "http://127.0.0.1:9/v1", model: one.id, apiKey: "sk-test-0123456789" }),
      );
      const server = await startPageServer([{ text: "Yes." }], { models });
      const { page, faults } = await openPage(server);
      const model = page.getByLabel("Model", { exact: true });
      await expect.poll(() => model.locator("option").first().textContent()).toBe("first");
      expect(await page.getByLabel("Agent").locator("option").first().textContent()).toBe("general");
      await page.goto(`${server.url}/profiles`);
      await page.waitForURL("**/models");
      const first = page.locator(".list li").first();
      await first.getByText("default").waitFor();
      expect(await first.textContent()).toContain("127.0.0.1:9");
      expect(await first.textContent()).toContain("64k tokens of context");
      expect(await first.textContent()).toContain("$2 in, $8 out");
      await page.goto(`${server.url}/settings`);
      await page.getByRole("heading", { name: "SpeakMCP's settings" }).waitFor();
      const facts = await page.locator(".facts").textContent();
      for (const fact of ["general", "first", server.workspace, "SQLite"]) expect(facts).toContain(fact);
      const { version } = await server.ask<{ version: string }>("/rotunda/session");
      expect(facts).toContain(version);
      await page.goto(`${server.url}/help`);
      await page.locator("dialog").waitFor();
      expect(new URL(page.url()).pathname).toBe("/");
      expect(faults).toEqual([]);
    },
  );

  test("runs go on beyond a hundred; a schedule is of the browser's time zone", SLOW, async () => {
    const server = await startPageServer([{ text: "Yes." }]);
    let next = 0;
    const work = async () => {
      while (next < 130) await server.ask("/v1/responses", { input: `Question ${next++}` });
    };
    await Promise.all(Array.from({ length: 8 }, work));
    const { page, context } = await openPage(server, { timezoneId: "Asia/Kathmandu" });
    await page.goto(`${server.url}/runs`);
    const runs = page.locator(".run");
    await expect.poll(() => runs.count()).toBe(50);
    const more = page.getByRole("button", { name: "Show more" });
    await more.click();
    await expect.poll(() => runs.count()).toBe(100);
    await more.click();
    await expect.poll(() => runs.count()).toBe(130);
    expect(await more.count()).toBe(0);
    expect(new Set(await page.locator(".run-title").allTextContents()).size).toBe(130);
    const { page: other } = await openTab(context);
    await other.goto(`${server.url}/schedules`);
    expect(await other.getByLabel("Time zone").inputValue()).toMatch(/^Asia\/Kat(?:h)?mandu$/);
  });
});
