/** What comes late, twice or all at once: slow answers, many runs, questions of sub-agents. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { UpstreamStep } from "../../src/testing/upstream.ts";
import { drawn, hasBrowser, openPage, type PageServer, say, startPageServer, withBrowser } from "./support.ts";

const SLOW = { timeout: 120_000 };

const field = (page: Page) => page.getByLabel("Message", { exact: true });

/** Answers of these addresses are of their time and come so much later, or behind something else. */
async function delay(
  page: Page,
  server: PageServer,
  address: RegExp,
  milliseconds: number,
  behind?: Promise<unknown>,
): Promise<void> {
  await page.route(address, async (route) => {
    const request = route.request();
    const answer = await fetch(request.url(), {
      method: request.method(),
      headers: {
        authorization: `Bearer ${server.token}`,
        "content-type": "application/json",
        "idempotency-key": request.headers()["idempotency-key"] ?? randomUUID(),
      },
      ...(request.method() === "POST" && { body: request.postData() }),
    });
    const body = await answer.text();
    await behind;
    await sleep(milliseconds);
    await route.fulfill({ status: answer.status, contentType: "application/json", body }).catch(() => undefined);
  });
}

/** What was asked of the model, and whether it has called a tool since. */
function asked(body: unknown): { text: string; called: boolean } {
  const { messages } = body as { messages: { role: string; content: unknown }[] };
  const text = JSON.stringify(messages.findLast(({ role }) => role === "user")?.content);
  return { text, called: messages.at(-1)?.role === "tool" };
}

describe.skipIf(!hasBrowser)("timing", () => {
  withBrowser();

  test("runs that one has left hold no connection: after eight of them the page still answers", SLOW, async () => {
    const server = await startPageServer(() => ({ text: ["It goes ", "on "], break: "hang" }));
    const { page, faults } = await openPage(server);
    for (let number = 0; number < 8; number++) {
      await page.locator(".new-chat").click();
      await say(page, `chat ${number}`);
      await page.locator(".answer", { hasText: "It goes on" }).waitFor();
    }
    await page.locator(".conversations a").nth(5).click();
    await page.locator(".answer", { hasText: "It goes on" }).waitFor();
    await page.getByRole("link", { name: "Usage" }).click();
    await page.getByRole("heading", { name: "Budgets" }).waitFor();
    expect(faults).toEqual([]);
  });

  test("sub-agents that are closed again hold no connection", SLOW, async () => {
    const server = await startPageServer((request): UpstreamStep => {
      const { text, called } = asked(request.body);
      if (!text.includes("delegate") || called) return { text: ["Looking "], break: "hang" };
      const calls = Array.from({ length: 8 }, (_, number) => ({
        name: "task",
        arguments: { agent_type: "explore", task: `Look ${number}`, description: `Look ${number}` },
      }));
      return { calls };
    });
    const { page } = await openPage(server);
    await say(page, "delegate");
    const agents = page.locator(".sub-agent summary");
    await expect.poll(() => agents.count(), { timeout: 20_000 }).toBeGreaterThan(7);
    for (let number = 0; number < 8; number++) {
      await agents.nth(number).click();
      await page.locator(".sub-agent[open] .answer", { hasText: "Looking" }).waitFor();
      await agents.nth(number).click();
    }
    await page.getByRole("link", { name: "Usage" }).click();
    await page.getByRole("heading", { name: "Budgets" }).waitFor();
  });

  test("what is written while the first message is on its way stays where it is", SLOW, async () => {
    const server = await startPageServer(() => ({ text: "Here." }));
    const { page } = await openPage(server);
    await delay(page, server, /\/v1\/responses$/, 2_000);
    const files = page.locator('input[type="file"]');
    const file = (name: string) => [{ name, mimeType: "text/plain", buffer: Buffer.from("alpha\n") }];
    await files.setInputFiles(file("first.txt"));
    await page.locator(".attachments", { hasText: "first.txt" }).waitFor();
    await say(page, "The first");
    await field(page).pressSequentially("The second");
    await files.setInputFiles(file("second.txt"));
    await page.locator(".answer", { hasText: "Here." }).waitFor();
    const attached = page.locator(".attachments li");
    await expect.poll(() => attached.count(), { timeout: 10_000 }).toBe(1);
    expect(await attached.textContent()).toContain("second.txt");
    expect(await field(page).inputValue()).toBe("The second");
    await page.locator(".new-chat").click();
    await page.locator(".welcome").waitFor();
    expect(await field(page).inputValue()).toBe("");
    expect(await page.locator(".attachments").count()).toBe(0);
    await page.goBack();
    await page.locator(".answer", { hasText: "Here." }).waitFor();
    expect(await field(page).inputValue()).toBe("The second");
  });

  test("a tree that was asked for before something was said does not take it off the screen", SLOW, async () => {
    const server = await startPageServer(() => ({ text: ["It goes ", "on "], break: "hang" }));
    const { id } = await server.ask<{ id: string }>("/v1/conversations", {});
    const { page } = await openPage(server);
    await page.goto(`${server.url}/c/${id}`);
    await page.locator(".welcome").waitFor();
    const posted = page.waitForResponse((answer) => answer.request().method() === "POST");
    await delay(page, server, /\/v1\/tree\?/, 30, posted);
    // The next look at the tree is far away.
    const looked = page.waitForRequest(/\/v1\/tree\?/);
    await server.ask("/v1/conversations", {});
    await looked;
    await delay(page, server, /\/v1\/conversations\?/, 1_500);
    await page.evaluate(`
      window.taken = 0;
      new MutationObserver((changes) => {
        for (const { removedNodes } of changes)
          window.taken += [...removedNodes].filter((node) => node.matches?.("article[data-response]")).length;
      }).observe(document.body, { childList: true, subtree: true });
    `);
    await say(page, "Now");
    await page.locator(".answer", { hasText: "It goes on" }).waitFor();
    await sleep(2_000);
    expect(await page.evaluate("window.taken")).toBe(0);
  });

  test("a sub-agent's question is asked in the chat that it belongs to", SLOW, async () => {
    const server = await startPageServer((request): UpstreamStep => {
      const { text, called } = asked(request.body);
      if (called) return { text: text.includes("delegate") ? "All done." : "Written." };
      if (text.includes("delegate")) {
        const task = { agent_type: "general", task: "Write the notes", description: "Notes" };
        return { calls: [{ name: "task", arguments: task }] };
      }
      return { calls: [{ name: "write", arguments: { file_path: "notes.txt", content: "one\n" } }] };
    });
    const { page, faults } = await openPage(server);
    await say(page, "delegate");
    const question = page.getByRole("region", { name: "Approval needed: write" });
    await question.waitFor({ timeout: 20_000 });
    expect(await question.count()).toBe(1);
    await question.getByRole("button", { name: "Once" }).click();
    await page.locator(".answer", { hasText: "All done." }).waitFor({ timeout: 20_000 });
    await expect.poll(() => question.count()).toBe(0);
    expect(faults).toEqual([]);
  });

  test("a plan that is not done stands there in the next turn too", SLOW, async () => {
    const todo = (content: string, status: string) => ({ content, status, activeForm: content });
    const server = await startPageServer((request): UpstreamStep => {
      const { text, called } = asked(request.body);
      if (called) return { text: "So far." };
      if (text.includes("plan")) {
        const todos = [todo("Look", "completed"), todo("Tell", text.includes("end") ? "completed" : "pending")];
        return { calls: [{ name: "TodoWrite", arguments: { todos } }] };
      }
      return { text: "By the way." };
    });
    const { page } = await openPage(server);
    await say(page, "plan it");
    await page.locator(".answer", { hasText: "So far." }).waitFor();
    await say(page, "something else");
    await page.locator(".answer", { hasText: "By the way." }).waitFor();
    expect(await page.locator(".plan summary").textContent()).toContain("Plan 1/2");
    await say(page, "plan to the end");
    await page.locator(".plan summary", { hasText: "Plan 2/2" }).waitFor();
    await say(page, "something new");
    await page.locator(".turn").nth(3).locator(".answer", { hasText: "By the way." }).waitFor();
    await expect.poll(() => page.locator(".plan").count()).toBe(0);
  });

  test("a server that is busy at a reload is asked again, and nobody is signed out", SLOW, async () => {
    const server = await startPageServer([{ text: "Here." }]);
    const { page } = await openPage(server);
    let busy = true;
    await page.route(/\/rotunda\/session$/, (route) =>
      busy ? route.fulfill({ status: 503, body: '{"error":{"message":"It is starting."}}' }) : route.fallback(),
    );
    await page.reload();
    await drawn(page, "It is starting.").waitFor();
    busy = false;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".composer").waitFor();
  });
});
