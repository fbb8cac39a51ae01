/** Answers of the server that come too late, or not at all: nothing older replaces what is newer. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Page, Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import { drawn, hasBrowser, openPage, type PageServer, say, startPageServer, withBrowser } from "./support.ts";

const SLOW = { timeout: 90_000 };

const field = (page: Page) => page.getByLabel("Message", { exact: true });

/** Answers the first request of an address as it is at that moment, but only when it is let go. */
async function hold(page: Page, server: PageServer, address: RegExp): Promise<{ held: Promise<void>; go(): void }> {
  const held = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const answer = async (route: Route) => {
    const headers = { authorization: `Bearer ${server.token}` };
    const body = JSON.stringify(await (await fetch(route.request().url(), { headers })).json());
    held.resolve();
    await gate.promise;
    await route.fulfill({ status: 200, contentType: "application/json", body }).catch(() => undefined);
  };
  await page.route(address, answer, { times: 1 });
  return { held: held.promise, go: gate.resolve };
}

describe.skipIf(!hasBrowser)("late answers", () => {
  withBrowser();

  test("a turn that could not be read is read when the server answers again", SLOW, async () => {
    const server = await startPageServer(() => ({ text: "Here." }));
    const { page, faults } = await openPage(server);
    await say(page, "Where?");
    await drawn(page, "Here.").waitFor();
    await page.route(/\/v1\/responses\/resp_/, (route) => route.abort());
    await page.reload();
    await page.locator("article .problem", { hasText: "does not answer" }).waitFor();
    await page.unroute(/\/v1\/responses\/resp_/);
    await server.ask("/v1/conversations", {});
    await page.locator(".asked", { hasText: "Where?" }).waitFor();
    await drawn(page, "Here.").waitFor();
    expect(await page.locator("article .problem").count()).toBe(0);
    expect(faults).toEqual([]);
  });

  test("what was asked of a turn before its end does not take its end back", SLOW, async () => {
    const server = await startPageServer(() => ({ text: ["He", "re", "."], delay: 150 }));
    const { page } = await openPage(server);
    const { held, go } = await hold(page, server, /\/v1\/responses\/resp_[^?]*\?durations/);
    await say(page, "Where?");
    await held;
    await page.locator("article .turn-foot").waitFor();
    // It is not asked for once more, which would mend it.
    await page.route(/\/v1\/responses\/resp_/, (route) => route.abort());
    go();
    await sleep(1_000);
    expect(await page.locator("article .turn-foot").count()).toBe(1);
    expect(await page.locator("article[aria-busy=true]").count()).toBe(0);
  });

  test("a list that was overtaken by a newer one is not shown", SLOW, async () => {
    const server = await startPageServer(() => ({ text: "Here." }));
    const { page } = await openPage(server);
    const name = async (title: string) => {
      const { id } = await server.ask<{ id: string }>("/v1/conversations", {});
      await server.ask(`/v1/conversations/${id}`, { title });
    };
    const { held, go } = await hold(page, server, /\/v1\/conversations\?/);
    await name("the first");
    await held;
    await name("the second");
    const second = page.locator(".conversations a", { hasText: "the second" });
    await second.waitFor();
    go();
    await sleep(1_000);
    expect(await second.count()).toBe(1);
  });

  test("what was searched for before does not come back into an empty search", SLOW, async () => {
    const server = await startPageServer(() => ({ text: "Here are plums." }));
    const { page } = await openPage(server);
    await say(page, "plums?");
    await drawn(page, "Here are plums.").waitFor();
    const { held, go } = await hold(page, server, /\/v1\/search\?/);
    await page.goto(`${server.url}/search?q=plums`);
    await held;
    await page.getByRole("searchbox").fill("");
    await page.keyboard.press("Enter");
    await expect.poll(() => page.getByText("Searching …").count()).toBe(0);
    go();
    await sleep(1_000);
    expect(await page.locator(".hits li").count()).toBe(0);
  });

  test(
    "whoever leaves a chat while a message is on its way stays away, and its files are not there again",
    SLOW,
    async () => {
      const server = await startPageServer(() => ({ text: "Read." }));
      const { page } = await openPage(server);
      await say(page, "first");
      await drawn(page, "Read.").waitFor();
      const file = { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("alpha\n") };
      await page.locator('input[type="file"]').setInputFiles([file]);
      await page.locator(".attachments", { hasText: "notes.txt" }).waitFor();
      await page.route(/\/v1\/responses$/, async (route) => {
        await sleep(1_000);
        await route.continue();
      });
      const posted = page.waitForResponse(/\/v1\/responses$/);
      await field(page).fill("second");
      await page.keyboard.press("Enter");
      await page.locator(".new-chat").click();
      await page.locator(".welcome").waitFor();
      await posted;
      await sleep(300);
      expect(new URL(page.url()).pathname).toBe("/");
      await page.goBack();
      await expect.poll(() => page.locator(".answer").count()).toBe(2);
      expect(await page.locator(".attachments").count()).toBe(0);
    },
  );

  test("a view that could not be loaded says so, and the others are there", SLOW, async () => {
    const server = await startPageServer(() => ({ text: "Here." }));
    const { page } = await openPage(server);
    await page.route(/\.js$/, (route) => route.abort());
    await page.getByRole("link", { name: "Usage" }).click();
    await page.getByText("This view could not be loaded").waitFor();
    await page.unroute(/\.js$/);
    await page.getByRole("link", { name: "Runs" }).click();
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    expect(await page.getByText("This view could not be loaded").count()).toBe(0);
  });

  test("an address that asks for a thousand million days of usage does not stop the page", SLOW, async () => {
    const server = await startPageServer(() => ({ text: "Here." }));
    const { page } = await openPage(server);
    await page.goto(`${server.url}/usage?days=1000000000`);
    await page.getByRole("heading", { name: "Budgets" }).waitFor({ timeout: 15_000 });
    expect(await page.getByLabel("Days").inputValue()).toBe("30");
  });

  test("what a program has brought along as the model's answer is shown as one", SLOW, async () => {
    const server = await startPageServer(() => ({ text: "Goodbye." }));
    const { page } = await openPage(server);
    const message = (role: string, text: string) => ({ type: "message", role, content: text });
    const input = [message("user", "hello"), message("assistant", "Good **day**."), message("user", "bye")];
    const { id } = await server.ask<{ id: string }>("/v1/responses", { input });
    await page.goto(`${server.url}/r/${id}`);
    await page.locator(".answer", { hasText: "Good day." }).waitFor();
    expect(await page.locator(".asked").allTextContents()).toEqual(["hello", "bye"]);
  });
});
