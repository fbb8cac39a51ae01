/** Long histories and long streams: typing stays quick, memory does not grow beyond what was said. */
import type { CDPSession, Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { drawn, hasBrowser, openPage, say, startPageServer, withBrowser } from "./support.ts";

/** Bytes in use by the page's JavaScript, and nodes of its document, after a collection. */
async function inUse(session: CDPSession): Promise<{ heap: number; nodes: number }> {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  const value = (name: string) => metrics.find((metric) => metric.name === name)?.value ?? 0;
  return { heap: value("JSHeapUsedSize"), nodes: value("Nodes") };
}

interface Typing {
  /** Milliseconds from a key to behind the frame that shows it, sorted. */
  times: number[];
  /** Milliseconds of work of the page's main thread for one key: what no waiting for frames or processors is part of. */
  work: number;
}

async function typing(page: Page, session: CDPSession, text: string): Promise<Typing> {
  await page.locator("#composer").focus();
  await page.keyboard.type("warm");
  await page.evaluate(`(() => {
    window.times = [];
    const field = document.getElementById("composer");
    field.addEventListener("keydown", () => { window.begun = performance.now(); }, true);
    field.addEventListener("input", () => {
      const begun = window.begun;
      requestAnimationFrame(() => setTimeout(() => window.times.push(performance.now() - begun), 0));
    });
  })()`);
  const before = await worked(session);
  for (const key of text) await page.keyboard.press(key);
  await expect.poll(() => page.evaluate("window.times.length")).toBe(text.length);
  const work = ((await worked(session)) - before) / text.length;
  return { times: ((await page.evaluate("window.times")) as number[]).sort((a, b) => a - b), work };
}

/** Milliseconds that the main thread has worked so far. */
async function worked(session: CDPSession): Promise<number> {
  const { metrics } = await session.send("Performance.getMetrics");
  return (metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0) * 1_000;
}

describe.skipIf(!hasBrowser)("long histories and streams", () => {
  withBrowser();

  test("typing at a history of 2,000 items", { timeout: 120_000 }, async () => {
    const server = await startPageServer([{ text: "Never asked." }]);
    const { id } = await server.ask<{ id: string }>("/v1/conversations", {});
    for (let turn = 0; turn < 20; turn++) {
      const items = Array.from({ length: 100 }, (_, at) => ({
        type: "message",
        role: at % 2 === 0 ? "user" : "assistant",
        content: [
          {
            type: at % 2 === 0 ? "input_text" : "output_text",
            text: `Item ${turn * 100 + at}: **words** and \`code\`\n\n- a\n- b`,
          },
        ],
      }));
      await server.ask(`/v1/conversations/${id}/items`, { items });
    }
    const { page, context } = await openPage(server);
    const session = await context.newCDPSession(page);
    await session.send("Performance.enable");
    const typed = "the quick brown fox jumps over the lazy dog";
    await page.locator(".welcome").waitFor();
    const empty = await typing(page, session, typed);
    await page.goto(`${server.url}/c/${id}`);
    await drawn(page, "Item 1998").first().waitFor();
    await drawn(page, "Item 0:").first().waitFor({ state: "attached" });
    expect(await page.locator(".asked, .answer").count()).toBe(2_000);
    const full = await typing(page, session, typed);
    const told = ({ times, work }: Typing) => {
      const at = (part: number) => (times[Math.floor(times.length * part)] ?? 0).toFixed(1);
      return `key to frame p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, work ${work.toFixed(1)} ms a key`;
    };
    process.stdout.write(`typing at 2,000 items: ${told(full)}; in an empty chat: ${told(empty)}\n`);
    // No figure of a quick machine: what it must not do is grow with the history.
    expect(full.work).toBeLessThan(3 * empty.work + 5);
  });

  test("memory stays flat over a long stream, but for its text", { timeout: 180_000 }, async () => {
    // An hour at 20 tokens a second, as fast as it goes: 72,000 pieces, a paragraph every fifty.
    const pieces = Array.from({ length: 72_000 }, (_, at) => (at % 50 === 49 ? "end.\n\n" : `w${at} `));
    let release: (() => void) | undefined;
    const half = new Promise<void>((resolve) => {
      release = resolve;
    });
    let step = 0;
    const server = await startPageServer(async () => {
      step++;
      if (step > 1) await half;
      const part = pieces.slice((step - 1) * 24_000, step * 24_000);
      const last = step === 3;
      return { text: part, ...(!last && { calls: [{ name: "glob", arguments: { pattern: `none-${step}` } }] }) };
    });
    const { page, context } = await openPage(server);
    const session = await context.newCDPSession(page);
    await session.send("Performance.enable");
    await say(page, "Talk for an hour");
    await page.locator(".call").first().waitFor({ timeout: 60_000 });
    // The answer itself: what a screen reader is told has the same words, a moment later.
    await page.locator(".answer", { hasText: "w23998" }).waitFor({ state: "attached", timeout: 60_000 });
    const first = await inUse(session);
    release?.();
    await page.locator(".answer", { hasText: "w71998" }).waitFor({ state: "attached", timeout: 120_000 });
    await page.locator(".turn-foot").waitFor({ timeout: 60_000 });
    const last = await inUse(session);
    const megabytes = (bytes: number) => (bytes / 1_000_000).toFixed(1);
    process.stdout.write(
      `a stream of 72,000 pieces: ${megabytes(first.heap)} MB and ${first.nodes} nodes after a third, ${megabytes(last.heap)} MB and ${last.nodes} nodes at its end\n`,
    );
    // Text and its nodes are three times as many; events, had they been kept, would be 72,000 objects.
    expect(last.heap - first.heap).toBeLessThan(12_000_000);
    expect(last.nodes).toBeLessThan(first.nodes * 4);
  });
});
