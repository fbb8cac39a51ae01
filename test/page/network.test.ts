/** Lost networks, reloads and two tabs: what is shown is what is on the server. */
import { describe, expect, test } from "vitest";
import { drawn, hasBrowser, openPage, openTab, say, startPageServer, withBrowser } from "./support.ts";

const words = Array.from({ length: 80 }, (_, number) => `word-${number} `);
const whole = words.join("").trim();

describe.skipIf(!hasBrowser)("networks and tabs", () => {
  withBrowser();

  test("W5 a stream is whole after a lost network and a reload in the middle", { timeout: 60_000 }, async () => {
    const server = await startPageServer([{ text: words, delay: 40 }]);
    const { page, context, faults } = await openPage(server);
    await say(page, "Count");
    await drawn(page, "word-5 ").waitFor();
    await context.setOffline(true);
    await drawn(page, "The connection is lost").waitFor();
    await context.setOffline(false);
    await drawn(page, "word-25 ").waitFor();
    await page.reload();
    await drawn(page, "word-79").waitFor();
    await page.locator(".turn-foot").waitFor();
    expect((await page.locator(".answer").textContent())?.trim()).toBe(whole);
    expect(server.upstream.requests).toHaveLength(1);
    expect(faults).toEqual([]);
  });

  test("W5 what is sent while the server is away is sent once it is back, and once", { timeout: 60_000 }, async () => {
    const server = await startPageServer([{ text: "Here I am." }]);
    const { page } = await openPage(server);
    await say(page, "Begin");
    await drawn(page, "Here I am.").waitFor();
    await server.kill();
    await page.getByLabel("Message", { exact: true }).fill("Are you there?");
    await page.keyboard.press("Enter");
    await drawn(page, "The server cannot be reached").waitFor();
    await server.start();
    await expect.poll(() => page.locator(".answer").count(), { timeout: 20_000 }).toBe(2);
    const { data } = await server.ask<{ data: unknown[] }>("/v1/responses");
    expect(data).toHaveLength(2);
  });

  test("W7 two tabs show the same: a turn, its stream, its question and the answer to it", {
    timeout: 60_000,
  }, async () => {
    const server = await startPageServer((request) => {
      const { messages } = request.body as unknown as { messages: { role: string }[] };
      if (messages.at(-1)?.role === "tool") return { text: words, delay: 20 };
      return { text: "One moment.", calls: [{ name: "write", arguments: { file_path: "a.txt", content: "a" } }] };
    });
    const first = await openPage(server);
    await say(first.page, "Write it");
    await first.page.locator(".approval").waitFor();
    const second = await openTab(first.context);
    await second.page.goto(first.page.url());
    await second.page.locator(".approval").waitFor();
    await second.page.getByRole("button", { name: "Once" }).click();
    await Promise.all([first, second].map(({ page }) => drawn(page, "word-3 ").waitFor()));
    await expect.poll(() => first.page.locator(".approval").count()).toBe(0);
    await Promise.all([first, second].map(({ page }) => drawn(page, "word-79").waitFor()));

    // A turn that begins in one tab is seen in the other, without anybody's doing.
    await say(second.page, "And again");
    await first.page.locator(".asked", { hasText: "And again" }).waitFor();
    await first.page.locator(".approval").waitFor();
    await first.page.getByRole("button", { name: "Once" }).click();
    await expect.poll(() => second.page.locator(".turn-foot").count(), { timeout: 20_000 }).toBe(2);
    await expect.poll(() => first.page.locator(".turn-foot").count(), { timeout: 20_000 }).toBe(2);
    const shown = await Promise.all([first, second].map(({ page }) => page.locator(".turns").textContent()));
    expect(shown[0]).toBe(shown[1]);
  });

  test("a tab that was signed out in another one shows nothing and asks to sign in", async () => {
    const server = await startPageServer([{ text: "Yours." }]);
    const { page, context } = await openPage(server);
    await say(page, "Mine");
    await drawn(page, "Yours.").waitFor();
    const second = await openTab(context);
    await second.page.goto(`${server.url}/settings`);
    // A server that was not reached still takes the session: nothing is forgotten, and it is said.
    await second.page.route("**/rotunda/session", (route) => route.abort());
    await second.page.getByRole("button", { name: "Sign out" }).click();
    await second.page.locator(".problem").waitFor();
    await second.page.unroute("**/rotunda/session");
    await second.page.getByRole("button", { name: "Sign out" }).click();
    await drawn(second.page, "rotunda open").waitFor();
    await page.reload();
    await drawn(page, "rotunda open").waitFor();
    expect(await drawn(page, "Yours.").count()).toBe(0);
  });
});
