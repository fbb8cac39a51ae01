/** What a person stumbles over in a chat: stopping with something queued, saying no, links, crashes in the middle, files. */
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { UpstreamRequest, UpstreamStep } from "../../src/testing/upstream.ts";
import { drawn, hasBrowser, openPage, openTab, say, startPageServer, withBrowser } from "./support.ts";

const SLOW = { timeout: 90_000 };
const words = Array.from({ length: 400 }, (_, number) => `word-${number} `);
const pixel = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

const field = (page: Page) => page.getByLabel("Message", { exact: true });

function lastOf({ body }: UpstreamRequest): { role: string; text: string } {
  const { messages } = body as unknown as { messages: { role: string; content: unknown }[] };
  const last = messages.at(-1);
  return { role: last?.role ?? "", text: JSON.stringify(last?.content) };
}

describe.skipIf(!hasBrowser)("a walk through the chat", () => {
  withBrowser();

  test("stop ends what runs, and what waits behind it comes back into the field", SLOW, async () => {
    const server = await startPageServer((request) =>
      lastOf(request).text.includes("count") ? { text: words, delay: 60 } : { text: "The next." },
    );
    const { page, faults } = await openPage(server);
    await say(page, "count, please");
    await drawn(page, "word-3").waitFor();
    await field(page).fill("and then this");
    await page.keyboard.press("Alt+Enter");
    await page.locator(".asked", { hasText: "and then this" }).waitFor();
    await drawn(page, "In the queue").waitFor();
    await field(page).fill("being typed");
    await page.keyboard.press("Escape");
    await drawn(page, "Stopped.").waitFor();
    await expect.poll(() => field(page).inputValue()).toBe("and then this\n\nbeing typed");
    await expect.poll(() => page.locator(".asked").count()).toBe(1);
    const { data } = await server.ask<{ data: { status: string }[] }>("/v1/responses");
    expect(data.map(({ status }) => status)).toEqual(["cancelled"]);
    // It was held and not sent: the model hears it when the person sends it.
    expect(server.upstream.requests).toHaveLength(1);
    await page.keyboard.press("Enter");
    await drawn(page, "The next.").waitFor();
    await page.reload();
    await drawn(page, "The next.").waitFor();
    expect(await page.locator(".asked").allTextContents()).toEqual(["count, please", "and then this\n\nbeing typed"]);
    expect(faults).toEqual([]);
  });

  test("stop takes back what this door has queued; what another one has begins, and it says so", SLOW, async () => {
    const server = await startPageServer((request) =>
      lastOf(request).text.includes("count") ? { text: words, delay: 60 } : { text: "It rains.", break: "hang" },
    );
    const { page, faults } = await openPage(server);
    await say(page, "count, please");
    await drawn(page, "word-3").waitFor();
    await field(page).fill("before it");
    await page.keyboard.press("Alt+Enter");
    await drawn(page, "In the queue").waitFor();
    const conversation = new URL(page.url()).pathname.split("/").at(-1);
    await server.ask("/v1/schedules", { name: "rain", input: "and Friday?", conversation, delay: 1 });
    await drawn(page, "In the queue, through a schedule").waitFor();
    await field(page).fill("behind it");
    await page.keyboard.press("Alt+Enter");
    await expect.poll(() => drawn(page, "In the queue").count()).toBe(3);
    await page.keyboard.press("Escape");
    await drawn(page, "What was queued through a schedule runs now; Stop ends it.").waitFor();
    await drawn(page, "It rains.").waitFor();
    await expect.poll(() => field(page).inputValue()).toBe("before it\n\nbehind it");
    const asked = () => page.locator(".asked").allTextContents();
    await expect.poll(asked).toEqual(["count, please", "before it", "and Friday?"]);
    await page.keyboard.press("Escape");
    await expect.poll(() => drawn(page, "Stopped.").count()).toBe(3);
    expect(await page.getByText("What was queued through").count()).toBe(0);
    expect(server.upstream.requests).toHaveLength(2);
    await page.reload();
    await expect.poll(asked).toEqual(["count, please", "before it", "and Friday?"]);
    expect(faults).toEqual([]);
  });

  test("what is said while something is queued steers what runs", SLOW, async () => {
    const server = await startPageServer((request) => {
      const { role, text } = lastOf(request);
      if (text.includes("left, please")) return { text: "To the left." };
      if (text.includes("work") && role === "user")
        return { calls: [{ name: "bash", arguments: { command: "sleep 3" } }] };
      return { text: "Then that." };
    });
    const { page } = await openPage(server);
    await say(page, "work");
    await page.locator(".call-calling").waitFor();
    await field(page).fill("the one behind");
    await page.keyboard.press("Alt+Enter");
    await drawn(page, "In the queue").waitFor();
    await field(page).fill("left, please");
    await page.keyboard.press("Enter");
    await page.locator("article.turn").first().locator(".steering", { hasText: "left, please" }).waitFor();
    await drawn(page, "To the left.").waitFor();
    await drawn(page, "Then that.").waitFor();
  });

  const asksToWrite = (request: UpstreamRequest): UpstreamStep =>
    lastOf(request).role === "tool"
      ? { text: `Told: ${lastOf(request).text}` }
      : { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "a\n" } }] };

  for (const phone of [false, true]) {
    test(`no, and why: the field has the focus at once (${phone ? "by tap" : "by key"})`, SLOW, async () => {
      const server = await startPageServer(asksToWrite);
      const { page } = await openPage(server, phone ? { viewport: { width: 360, height: 740 }, hasTouch: true } : {});
      await say(page, "write it");
      const no = page.getByRole("button", { name: "No …" });
      await no.waitFor();
      const address = page.url();
      if (phone) await no.tap();
      else {
        await no.focus();
        await page.keyboard.press("Enter");
      }
      await page.keyboard.type("no thanks");
      expect(page.url()).toBe(address);
      await page.keyboard.press("Enter");
      await page.locator(".answer", { hasText: "no thanks" }).waitFor();
      expect(page.url()).toBe(address);
    });
  }

  test("W1 a sign-in link in the tab that asks to sign in: it is taken, and leaves the address", SLOW, async () => {
    const server = await startPageServer([{ text: "Hi." }]);
    const { context } = await openPage(server);
    await context.clearCookies();
    const { page } = await openTab(context);
    await page.goto(server.url);
    await page.locator(".sign-in").waitFor();
    await page.evaluate(`location.href = ${JSON.stringify(await server.link())}`);
    await page.locator(".composer").waitFor();
    expect(page.url()).toBe(`${server.url}/`);
    // One that was used says so, and leaves the address as well.
    const used = await server.link();
    const other = (await openTab(context)).page;
    await other.goto(used);
    // It signs in after it was loaded, and only then is there a cookie to take away.
    await other.locator(".composer").waitFor();
    await context.clearCookies();
    await page.reload();
    await page.locator(".sign-in").waitFor();
    await page.evaluate(`location.href = ${JSON.stringify(used)}`);
    await page.locator(".sign-in .problem").waitFor();
    expect(page.url()).toBe(`${server.url}/`);
  });

  test("W5 a server that is killed in mid-answer: the cut part goes as the answer is said anew", SLOW, async () => {
    let times = 0;
    const server = await startPageServer(() => ({ text: words.slice(0, ++times === 1 ? 400 : 60), delay: 40 }));
    const { page } = await openPage(server);
    await say(page, "count");
    await drawn(page, "word-12").waitFor();
    await field(page).fill("afterwards");
    await page.keyboard.press("Alt+Enter");
    await drawn(page, "In the queue").waitFor();
    await server.kill();
    await drawn(page, "The connection is lost").first().waitFor();
    await server.start();
    await expect.poll(() => drawn(page, "The connection is lost").count(), { timeout: 12_000 }).toBe(0);
    const first = page.locator("article.turn").first();
    // While it is being said: once, and from its beginning.
    await first.locator(".answer", { hasText: "word-20 " }).waitFor({ timeout: 30_000 });
    const said = (await first.locator(".answer").allTextContents()).join(" ").match(/word-\d+/g) ?? [];
    expect(new Set(said).size).toBe(said.length);
    await page.locator(".turn-foot").nth(1).waitFor({ timeout: 30_000 });
    expect(await first.locator(".answer").count()).toBe(1);
  });

  test(
    "W2 overwriting a file asks with the change to what is there; what may not be read is not shown",
    SLOW,
    async () => {
      const server = await startPageServer(
        (request) => {
          const { role, text } = lastOf(request);
          if (role === "tool") return { text: "Done." };
          const [, file = ""] = /write (\S+\.txt)/.exec(text) ?? [];
          if (file !== "")
            return { calls: [{ name: "write", arguments: { file_path: file, content: "one\nTWO\nthree\n" } }] };
          const edits = [{ old_string: "beta", new_string: "BETA" }];
          return { calls: [{ name: "edit", arguments: { file_path: "long.txt", edits } }] };
        },
        { permissions: { deny: ["read(secret.txt)"] } },
      );
      const put = (name: string, text: string) => writeFileSync(join(server.workspace, name), text);
      put("there.txt", "one\ntwo\nthree\n");
      put("secret.txt", "the secret of it\n");
      put("long.txt", `${"line\n".repeat(40)}beta\n${"line\n".repeat(40)}`);
      writeFileSync(join(server.folder, "outside.txt"), "from outside\n");
      symlinkSync(join(server.folder, "outside.txt"), join(server.workspace, "link.txt"));
      const { page, faults } = await openPage(server);
      const approval = page.locator(".approval");
      const lines = (kind: string) => approval.locator(`.change-note + .diff .diff-${kind}`);
      await say(page, "write there.txt");
      await drawn(page, "Replaces the file that is there").waitFor();
      expect(await lines("removed").allTextContents()).toEqual(["removed: - two\n"]);
      expect(await lines("added").allTextContents()).toEqual(["added: + TWO\n"]);
      await approval.getByText("What the call says, whole").click();
      expect(await approval.locator(".whole-change .diff-added").allTextContents()).toHaveLength(3);
      await page.getByRole("button", { name: "Once" }).click();
      await drawn(page, "Done.").waitFor();
      expect(readFileSync(join(server.workspace, "there.txt"), "utf8")).toBe("one\nTWO\nthree\n");

      await say(page, "write fresh.txt");
      await drawn(page, "A new file.").waitFor();
      await page.getByRole("button", { name: "Once" }).click();
      await expect.poll(() => page.locator(".turn-foot").count()).toBe(2);
      await say(page, "edit it");
      await drawn(page, "Changes the file").waitFor();
      expect(await lines("place").allTextContents()).toEqual([
        expect.stringContaining("37 lines as before"),
        expect.stringContaining("37 lines as before"),
      ]);
      await page.getByRole("button", { name: "Once" }).click();
      await expect.poll(() => page.locator(".turn-foot").count()).toBe(3);
      const asked = page.waitForResponse(/tool-approvals\/.*\/change$/);
      await say(page, "write secret.txt");
      expect(await (await asked).json()).toMatchObject({ exists: null, before: null });
      await approval.waitFor();
      expect(await approval.textContent()).not.toContain("secret of it");
      await page.getByRole("button", { name: "No …" }).click();
      await page.getByRole("button", { name: "Refuse" }).click();
      await approval.waitFor({ state: "detached" });
      // What lies outside is refused, and nobody is asked.
      await expect.poll(() => page.locator(".turn-foot").count()).toBe(4);
      await say(page, "write link.txt");
      await expect.poll(() => page.locator(".turn-foot").count()).toBe(5);
      expect(await approval.count()).toBe(0);
      expect(readFileSync(join(server.folder, "outside.txt"), "utf8")).toBe("from outside\n");
      expect(faults).toEqual([]);
    },
  );

  test("files that went along are chips; the title is the question; editing keeps them", SLOW, async () => {
    const server = await startPageServer((request) => {
      const told = JSON.stringify(request.body.messages);
      return { text: `picture: ${told.includes("data:image/png")}, text: ${told.includes("alpha beta")}` };
    });
    const { page, faults } = await openPage(server);
    const attach = () =>
      page.locator('input[type="file"]').setInputFiles([
        { name: "dot.png", mimeType: "image/png", buffer: pixel },
        { name: "att.txt", mimeType: "text/plain", buffer: Buffer.from("alpha beta\n") },
      ]);
    await attach();
    await expect.poll(() => page.locator(".attachments li").count()).toBe(2);
    expect(await page.locator(".attachments").textContent()).toContain("11 B");
    await say(page, "What is in them?");
    await drawn(page, "picture: true, text: true").waitFor();
    const chip = page.locator(".asked .attached-text");
    expect(await chip.locator("summary").textContent()).toMatch(/att\.txt.*10 B/);
    expect(await page.locator(".asked-text").textContent()).toBe("What is in them?");
    expect(await chip.locator("pre").isVisible()).toBe(false);
    await chip.locator("summary").click();
    await chip.getByText("alpha beta").waitFor();
    const titles = page.getByRole("navigation", { name: "Conversations" });
    await titles.getByRole("link", { name: "What is in them?" }).waitFor();
    // Also where the engine makes the title, and in lists.
    await page.getByRole("button", { name: /^Edit and ask again/ }).click();
    await expect.poll(() => page.locator(".attachments li").count()).toBe(2);
    expect(await field(page).inputValue()).toBe("What is in them?");
    await field(page).fill("And now?");
    await page.keyboard.press("Enter");
    await drawn(page, "picture: true, text: true").waitFor();
    await page.goto(`${server.url}/runs`);
    await expect.poll(() => page.locator(".run-title").allTextContents()).toEqual(["And now?", "What is in them?"]);
    expect(faults).toEqual([]);
  });

  test("a tool line says how long it took, also after a reload; a whole answer is copied", SLOW, async () => {
    const server = await startPageServer((request) =>
      lastOf(request).role === "tool"
        ? { text: "| a | b |\n| :-: | --: |\n| 1 | 2 |\n\n4. All **done**." }
        : { text: "First this.", calls: [{ name: "bash", arguments: { command: "sleep 1" } }] },
    );
    const { page, context } = await openPage(server);
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await say(page, "wait a second");
    await page.locator(".turn-foot").waitFor({ timeout: 30_000 });
    const state = page.locator(".call .call-state");
    await expect.poll(() => state.textContent()).toMatch(/\d(?:\.\d)? s$/);
    await page.reload();
    await expect.poll(() => state.textContent()).toMatch(/\d(?:\.\d)? s$/);
    await page.getByRole("button", { name: /^Copy the answer/ }).click();
    expect(await page.evaluate("navigator.clipboard.readText()")).toBe(
      "First this.\n\n| a | b |\n| :-: | --: |\n| 1 | 2 |\n\n4. All **done**.",
    );
    const aligned = await page.evaluate(
      `[...document.querySelectorAll(".said td")].map((cell) => getComputedStyle(cell).textAlign)`,
    );
    expect(aligned).toEqual(["center", "right"]);
    expect(await page.locator(".said ol").getAttribute("start")).toBe("4");
  });
});
