/** What goes wrong, and what is too much: failed answers, sessions that end in the middle, names that attack, very many of everything. */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { drawn, hasBrowser, openPage, say, startPageServer, withBrowser } from "./support.ts";

const SLOW = { timeout: 180_000 };
const words = Array.from({ length: 100 }, (_, number) => `word-${number} `);

async function signInAgain(page: Page, token: string): Promise<void> {
  await page.locator(".sign-in").waitFor({ timeout: 30_000 });
  await page.getByLabel("Or sign in with a token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(".composer").waitFor();
}

describe.skipIf(!hasBrowser)("trouble", () => {
  withBrowser();

  test(
    "W5 a session that ends in mid-stream: signed in again, the stream goes on and the draft is there",
    SLOW,
    async () => {
      const server = await startPageServer([{ text: words, delay: 60 }]);
      const { page, faults } = await openPage(server);
      await say(page, "Please count");
      await drawn(page, "word-3").waitFor();
      const field = page.getByLabel("Message", { exact: true });
      await field.fill("half a thought");
      await page
        .locator('input[type="file"]')
        .setInputFiles([{ name: "\u202enotes.txt", mimeType: "text/plain", buffer: Buffer.from("alpha\n") }]);
      await page.locator(".attachments", { hasText: "⟨U+202E⟩notes.txt" }).waitFor();
      await page.evaluate(
        `fetch("/rotunda/session", { method: "DELETE", headers: { "x-rotunda-csrf": localStorage.getItem("rotunda.csrf") } })`,
      );
      await signInAgain(page, server.token);
      expect(await field.inputValue()).toBe("half a thought");
      await page.locator(".attachments", { hasText: "notes.txt" }).waitFor();
      await drawn(page, "word-99").waitFor({ timeout: 30_000 });
      await page.locator(".turn-foot").waitFor();
      expect(await page.locator(".problem").count()).toBe(0);
      expect((await page.locator(".answer").textContent())?.match(/word-\d+/g)).toEqual(
        words.map((word) => word.trim()),
      );
      expect(faults).toEqual([]);
    },
  );

  test("a server that comes back with another token: what was just sent is not lost", SLOW, async () => {
    const server = await startPageServer([{ text: "Here." }]);
    const { page } = await openPage(server);
    const field = page.getByLabel("Message", { exact: true });
    await field.fill("an important question");
    await server.kill();
    rmSync(join(server.folder, "state/token"));
    await server.start();
    await page.keyboard.press("Enter");
    const token = readFileSync(join(server.folder, "state/token"), "utf8").trim();
    // Either the session outlives the token, or the page asks for the new one.
    await page.locator(".turn-foot, .sign-in").first().waitFor({ timeout: 30_000 });
    if ((await page.locator(".sign-in").count()) > 0) {
      await signInAgain(page, token);
      expect(await field.inputValue()).toBe("an important question");
      await field.press("Enter");
    }
    await page.locator(".answer", { hasText: "Here." }).waitFor();
  });

  test("a failed answer says why, and is asked again", SLOW, async () => {
    let broken = true;
    const server = await startPageServer(() =>
      broken
        ? { status: 401, body: { error: { message: "Incorrect API key \u202eprovided" } } }
        : { text: "Now it is." },
    );
    const { page } = await openPage(server);
    await say(page, "Is it there?");
    const ending = page.locator(".ending.problem");
    await ending.waitFor({ timeout: 30_000 });
    expect(await ending.textContent()).not.toContain("\u202e");
    expect(await ending.textContent()).toContain("Check the key");
    // It stays where it is, also after a reload and behind answers that did not fail.
    await page.reload();
    await page.locator(".asked", { hasText: "Is it there?" }).waitFor();
    await ending.waitFor();
    broken = false;
    await ending.getByRole("button", { name: "Ask again" }).click();
    await page.locator(".answer", { hasText: "Now it is." }).waitFor();
    await expect.poll(() => page.locator(".asked").count()).toBe(1);
    const address = page.url();
    broken = true;
    await say(page, "And now?");
    await ending.waitFor({ timeout: 30_000 });
    await page.reload();
    await ending.waitFor();
    expect(await page.locator(".asked").allTextContents()).toEqual(["Is it there?", "And now?"]);
    broken = false;
    await ending.getByRole("button", { name: "Ask again" }).click();
    await expect.poll(() => page.locator(".answer", { hasText: "Now it is." }).count()).toBe(2);
    await expect.poll(() => page.locator(".asked").count()).toBe(2);
    expect(page.url()).toBe(address);
  });

  test(
    "W6 names that attack, and very long ones: shown as they are, within a phone's width, in every view",
    SLOW,
    async () => {
      const evil = `<img src=x onerror="document.title='owned'">\u202egnp.exe${"W".repeat(120)}`;
      const short = `\u202e${"M".repeat(60)}<b>`;
      const server = await startPageServer((request) => {
        const { messages } = request.body as unknown as { messages: { role: string }[] };
        if (messages.at(-1)?.role === "tool") return { text: `${evil} \`${"c".repeat(300)}\` ${"x".repeat(2_000)}` };
        return { calls: [{ name: "write", arguments: { file_path: `${short}.txt`, content: evil } }] };
      });
      const { id: conversation } = await server.ask<{ id: string }>("/v1/conversations", {});
      await server.ask(`/v1/conversations/${conversation}`, { title: evil });
      const { id } = await server.ask<{ id: string }>("/v1/responses", { input: evil, conversation, background: true });
      const timing = { cron: "0 8 * * 1", timezone: "UTC" };
      await server.ask("/v1/schedules", { name: `\u202e${"S".repeat(90)}`, input: evil, ...timing });
      await server.ask("/v1/profiles", { name: short, guidelines: evil });
      await server.ask("/v1/budgets", { for: "profile/general", per: "day", tokens: 900_000 }, "PUT");
      const { page, faults } = await openPage(server, { viewport: { width: 360, height: 740 }, hasTouch: true });
      const views = [
        "/approvals",
        `/c/${conversation}`,
        `/r/${id}`,
        "/tree",
        `/tree/${id}`,
        "/runs",
        "/schedules",
        "/search?q=img",
      ];
      for (const view of [
        ...views,
        "/usage",
        "/models",
        "/hub",
        "/settings",
        `/compare/${id}/${id}`,
        "/hub/%E2%80%AEx",
        "/hub/constructor",
      ]) {
        await page.goto(server.url + view);
        await page.locator("h1").first().waitFor();
        await expect.poll(() => page.locator("#main").textContent()).not.toContain("Loading");
        await page.locator(".view.quiet").waitFor({ state: "detached" });
        await page.evaluate(`document.querySelectorAll("details:not([open]) > summary").forEach((one) => one.click())`);
        await page.waitForTimeout(300);
        const seen = (await page.evaluate(
          `({ wide: document.documentElement.scrollWidth, main: document.querySelector("#main").scrollWidth, text: document.body.textContent, title: document.title })`,
        )) as { wide: number; main: number; text: string; title: string };
        expect([view, seen.wide, seen.main]).toEqual([view, 360, 360]);
        expect(seen.text, view).not.toContain("\u202e");
        expect(seen.title, view).not.toContain("\u202e");
        expect(seen.title, view).not.toBe("owned");
      }
      expect(faults).toEqual([]);
    },
  );

  test("W9 more conversations and more of a tree than are shown at first are a click away", SLOW, async () => {
    const server = await startPageServer([{ text: "Yes." }]);
    const post = (input: string, more: object = {}) => server.ask<{ id: string }>("/v1/responses", { input, ...more });
    const inParallel = async (count: number, one: (number: number) => Promise<unknown>) => {
      let next = 0;
      const work = async () => {
        while (next < count) await one(next++);
      };
      await Promise.all(Array.from({ length: 8 }, work));
    };
    await inParallel(150, (number) =>
      server.ask<{ id: string }>("/v1/conversations", { metadata: { number: String(number) } }),
    );
    const root = await post("The root");
    await inParallel(519, (number) => post(`Branch ${number}`, { previous_response_id: root.id }));
    const { page } = await openPage(server);
    const listed = page.getByRole("navigation", { name: "Conversations" }).getByRole("link");
    await expect.poll(() => listed.count()).toBe(60);
    await page.getByRole("button", { name: "Older", exact: true }).click();
    await expect.poll(() => listed.count()).toBe(150);
    expect(await page.getByRole("button", { name: "Older", exact: true }).count()).toBe(0);

    await page.goto(`${server.url}/tree/${root.id}`);
    const rows = page.getByRole("treeitem");
    await expect.poll(() => rows.count(), { timeout: 20_000 }).toBe(500);
    await rows.last().click();
    await page.getByRole("link", { name: "Tree around it" }).click();
    await drawn(page, "It is larger than this").waitFor();
    await page.getByRole("button", { name: "Show up to 2,000" }).click();
    await expect.poll(() => rows.count(), { timeout: 20_000 }).toBe(520);
    expect(await drawn(page, "It is larger than this").count()).toBe(0);
  });
});
