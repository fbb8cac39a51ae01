/** The story of issue 6 on the page: start, stream, approve, branch in the tree, switch the model, stop, and a crash in the middle. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { UpstreamStep } from "../../src/testing/upstream.ts";
import { drawn, hasBrowser, openPage, say, startPageServer, withBrowser } from "./support.ts";

const words = Array.from({ length: 120 }, (_, number) => `word-${number} `);

/** By what was asked last. */
function answer(body: unknown, model: string): UpstreamStep {
  const messages = (body as { messages: { role: string; content: unknown }[] }).messages;
  const asked = JSON.stringify(messages.findLast(({ role }) => role === "user")?.content);
  const called = messages.at(-1)?.role === "tool";
  if (asked.includes("write the notes")) {
    if (called) return { text: "The notes are written." };
    const note = { file_path: "notes.txt", content: "first line\nsecond line\n" };
    return {
      reasoning: ["The person wants ", "a file."],
      text: "I write **them**.",
      calls: [{ name: "write", arguments: note }],
    };
  }
  if (asked.includes("count")) return { text: words, delay: 25 };
  if (asked.includes("for ever")) return { text: ["It goes ", "on "], break: "hang" };
  return { text: `This is ${model} about ${asked}.` };
}

describe.skipIf(!hasBrowser)("the story", () => {
  withBrowser();

  test("W5 start, stream, approve, branch, switch, stop; kill -9 and a new start; the page goes on", {
    timeout: 120_000,
  }, async () => {
    const server = await startPageServer((request) => answer(request.body, String(request.body.model)));
    const { page, faults } = await openPage(server);

    // Stream and approve.
    await say(page, "Please write the notes");
    const approval = page.locator(".approval");
    await approval.waitFor();
    expect(await approval.textContent()).toContain("second line");
    expect(existsSync(join(server.workspace, "notes.txt"))).toBe(false);
    await page.getByRole("button", { name: "Once" }).click();
    await drawn(page, "The notes are written.").waitFor();
    expect(readFileSync(join(server.workspace, "notes.txt"), "utf8")).toBe("first line\nsecond line\n");
    expect(await page.locator(".reasoning summary").textContent()).toContain("Thought");
    await page.locator(".call summary", { hasText: "write" }).click();
    await page.locator(".call-body", { hasText: "Successfully wrote" }).waitFor();
    const conversation = page.url();
    expect(conversation).toMatch(/\/c\/conv_/);

    // Another model, in the same conversation.
    await page.getByLabel("Model", { exact: true }).selectOption("other-model");
    await say(page, "Who are you?");
    await drawn(page, "This is other-model").waitFor();

    // A branch from the first answer, through the tree.
    await page.getByRole("link", { name: "Tree" }).first().click();
    const rows = page.getByRole("treeitem");
    await rows.nth(1).waitFor();
    expect(await rows.count()).toBe(2);
    await rows.first().click();
    await page.getByRole("button", { name: "Open, and go on from here" }).click();
    await drawn(page, "The notes are written.").waitFor();
    await say(page, "Another way, please");
    await drawn(page, "This is test-model").waitFor();
    await page.getByRole("link", { name: "Tree" }).first().click();
    await expect.poll(() => rows.count()).toBe(3);

    // Stop.
    await page.getByRole("link", { name: "New chat" }).first().click();
    await say(page, "Talk for ever");
    await drawn(page, "It goes on").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await drawn(page, "Stopped.").waitFor();

    // A crash in the middle of a stream: nobody does anything at the page.
    await page.getByRole("link", { name: "New chat" }).first().click();
    await say(page, "Please count");
    await drawn(page, "word-20").waitFor();
    await server.kill();
    await drawn(page, "The connection is lost").waitFor();
    await server.start();
    await drawn(page, "word-119").waitFor({ timeout: 60_000 });
    await page.locator(".turn-foot").waitFor();
    const said = await page.locator(".answer").allTextContents();
    // What was cut ends where it was cut, and what goes on has every word.
    expect(said.at(-1)?.trim().split(/\s+/).slice(-3)).toEqual(["word-117", "word-118", "word-119"]);
    expect(faults).toEqual([]);
  });

  test("W5 a run goes on without its tab, and is steered, queued and found again", { timeout: 60_000 }, async () => {
    const told = Promise.withResolvers<void>();
    let step = 0;
    const server = await startPageServer(async (request) => {
      const { messages } = request.body as unknown as { messages: { role: string; content: unknown }[] };
      const heard = JSON.stringify(messages);
      if (heard.includes("the queued one")) return { text: "Answer to the queued one." };
      step++;
      // The model thinks until the person has said all of it.
      if (step === 1) await told.promise;
      if (step === 1) return { calls: [{ name: "glob", arguments: { pattern: "*" } }] };
      return { text: heard.includes("be brief") ? "Brief." : "Not steered." };
    });
    const first = await openPage(server);
    await say(first.page, "Look around");
    const field = first.page.getByLabel("Message", { exact: true });
    await first.page.getByRole("button", { name: "Stop" }).waitFor();
    await field.fill("be brief");
    const steered = first.page.waitForResponse((answer) => answer.url().endsWith("/steer"));
    await first.page.keyboard.press("Enter");
    expect((await steered).status()).toBe(200);
    await field.fill("the queued one");
    await first.page.keyboard.press("Alt+Enter");
    await first.page.locator(".asked", { hasText: "the queued one" }).waitFor();
    await expect.poll(async () => (await server.ask<{ data: unknown[] }>("/v1/responses")).data.length).toBe(2);
    const address = first.page.url();
    await first.page.close();
    told.resolve();

    const again = await first.context.newPage();
    await again.goto(address);
    await drawn(again, "Answer to the queued one.").waitFor();
    await drawn(again, "Brief.").waitFor();
    await again.locator(".asked.steering", { hasText: "be brief" }).waitFor();
  });

  test("an approval is refused with a reason, which the model is told", async () => {
    const server = await startPageServer((request) => {
      const { messages } = request.body as unknown as { messages: { role: string; content: unknown }[] };
      const last = messages.at(-1);
      if (last?.role === "tool") return { text: `It said: ${JSON.stringify(last.content)}` };
      return { calls: [{ name: "write", arguments: { file_path: "secret.txt", content: "no" } }] };
    });
    const { page } = await openPage(server);
    await say(page, "Do it");
    await page.getByRole("button", { name: "No …" }).click();
    await page.getByLabel("Why not").fill("not in this folder");
    await page.getByRole("button", { name: "Refuse" }).click();
    await page.locator(".answer", { hasText: "not in this folder" }).waitFor();
    await page.locator(".decided.denied").waitFor();
    expect(existsSync(join(server.workspace, "secret.txt"))).toBe(false);
  });

  test("pictures and texts go with a message", async () => {
    const server = await startPageServer((request) => {
      const told = JSON.stringify(request.body.messages);
      return { text: `picture: ${told.includes("data:image/png")}, text: ${told.includes("alpha beta")}` };
    });
    const { page } = await openPage(server);
    const pixel = Buffer.from(
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
      "base64",
    );
    await page.locator('input[type="file"]').setInputFiles([
      { name: "dot.png", mimeType: "image/png", buffer: pixel },
      { name: "words.txt", mimeType: "text/plain", buffer: Buffer.from("alpha beta\n") },
    ]);
    await expect.poll(() => page.locator(".attachments li").count()).toBe(2);
    await say(page, "What are these?");
    await drawn(page, "picture: true, text: true").waitFor();
    await page
      .locator('input[type="file"]')
      .setInputFiles([
        { name: "data.bin", mimeType: "application/octet-stream", buffer: Buffer.from([0xff, 0xfe, 0]) },
      ]);
    await page.getByRole("alert").filter({ hasText: "neither a picture" }).waitFor();
  });
});
