/** Who can use the page: with a screen reader, by keyboard, on a phone, in the dark. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { hasBrowser, openPage, type PageServer, startPageServer, withBrowser } from "./support.ts";

const axe = readFileSync(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

interface Violation {
  id: string;
  nodes: { html: string; failureSummary: string }[];
}

/** What axe finds, in words. */
async function violations(page: Page): Promise<string[]> {
  const code = `(() => { ${axe}; return axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations); })()`;
  // The page's policy forbids foreign script; what the debugger evaluates is not the page's.
  const found = (await page.evaluate(code)) as Violation[];
  return found.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
  );
}

/** What is told comes at most every second and a half. */
const patient = { timeout: 10_000 };

const answer = `# Title

Some **text**, \`code\` and a [link](https://example.com/x).

- [x] one
- [ ] two

\`\`\`js
const a = 1;
\`\`\`

| a | b |
| - | - |
| 1 | 2 |

> quoted

![picture](https://example.com/p.png)`;

async function fill(server: PageServer): Promise<{ conversation: string; ids: string[] }> {
  const { id: conversation } = await server.ask<{ id: string }>("/v1/conversations", {});
  const post = (input: string, more: object) => server.ask<{ id: string }>("/v1/responses", { input, ...more });
  const first = await post("One", { conversation });
  const second = await post("Two", { previous_response_id: first.id, model: "other-model" });
  await post("Branch", { previous_response_id: first.id });
  await post("write it", { conversation, background: true });
  await server.ask("/v1/schedules", { name: "nightly", cron: "0 3 * * *", input: "Look" });
  await server.ask("/v1/profiles", { name: "reviewer", guidelines: "Be kind." });
  await expect
    .poll(async () => (await server.ask<{ approvals: unknown[] }>("/v1/tool-approvals")).approvals.length)
    .toBe(1);
  return { conversation, ids: [first.id, second.id] };
}

const script = (request: { body: object }) => {
  const told = JSON.stringify(request.body);
  const { messages } = request.body as { messages: { role: string; content: unknown }[] };
  if (messages.at(-1)?.role === "tool") return { text: answer };
  if (told.includes("write it")) {
    return {
      reasoning: ["I think."],
      calls: [
        {
          name: "TodoWrite",
          arguments: { todos: [{ content: "Write", status: "in_progress", activeForm: "Writing" }] },
        },
        { name: "write", arguments: { file_path: "a.txt", content: "a\n" } },
      ],
    };
  }
  return {
    reasoning: ["Thinking about it."],
    text: answer,
    usage: { prompt_tokens: 900, completion_tokens: 80, total_tokens: 980, cost: 0.02 },
  };
};

const files = fileURLToPath(
  new URL("../../node_modules/@modelcontextprotocol/server-filesystem/dist/index.js", import.meta.url),
);
const mcpServers = {
  files: { command: process.execPath, args: [files, "."] },
  away: { url: "http://127.0.0.1:9/mcp" },
};

describe.skipIf(!hasBrowser)("access", () => {
  withBrowser();

  for (const colorScheme of ["light", "dark"] as const) {
    test(`W8 axe finds nothing on any view (${colorScheme})`, { timeout: 180_000 }, async () => {
      const server = await startPageServer(script, { mcpServers });
      const { conversation, ids } = await fill(server);
      const { page, faults } = await openPage(server, { colorScheme, reducedMotion: "reduce" });
      const views: [string, string][] = [
        ["/", ".welcome"],
        [`/c/${conversation}`, ".approval"],
        [`/r/${ids[0]}`, ".turn-foot"],
        ["/tree", ".list li"],
        [`/tree/${ids[0]}`, ".tree-row"],
        [`/compare/${ids[0]}/${ids[1]}`, ".side .answer"],
        ["/runs", ".run"],
        ["/schedules", ".card"],
        ["/approvals", ".approval"],
        ["/search?q=text", ".hits li"],
        ["/usage", ".chart"],
        ["/models", ".card"],
        ["/hub", ".card"],
        ["/hub/files", ".section"],
        ["/settings", ".form"],
      ];
      for (const [path, wait] of views) {
        await page.goto(server.url + path);
        await page.locator(wait).first().waitFor();
        await page.evaluate(
          `document.querySelectorAll("main details:not([open]) > summary").forEach((one) => one.click())`,
        );
        expect(await violations(page), path).toEqual([]);
        expect(faults, path).toEqual([]);
      }
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Keys and help" }).click();
      await page.locator("dialog").waitFor();
      expect(await violations(page), "help").toEqual([]);
      await page.keyboard.press("Escape");
      await page.goto(`${server.url}/settings`);
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.locator(".sign-in").waitFor();
      expect(await violations(page), "sign-in").toEqual([]);
      expect(faults).toEqual([]);
    });
  }

  test("W8 everything is reached by keyboard alone, and an answer is told in whole sentences", {
    timeout: 60_000,
  }, async () => {
    const server = await startPageServer((request) => {
      const { messages } = request.body as unknown as { messages: { role: string }[] };
      if (messages.at(-1)?.role === "tool") return { text: ["It is ", "written. ", "All is ", "well."], delay: 50 };
      return { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "a\n" } }] };
    });
    const { page } = await openPage(server);
    const keys = page.keyboard;
    const focused = () =>
      page.evaluate("document.activeElement?.textContent?.trim() || document.activeElement?.id") as Promise<string>;
    // The first stop is the way past the navigation.
    await page.goto(`${server.url}/runs`);
    await page.locator(".empty").waitFor();
    await keys.press("Tab");
    expect(await focused()).toBe("Skip to the content");
    await keys.press("Enter");
    expect(await page.evaluate("document.activeElement.id")).toBe("main");
    await keys.press("n");
    await page.locator(".welcome").waitFor();
    await keys.press("Tab");
    await page.evaluate("document.activeElement.blur()");
    await keys.press("i");
    expect(await page.evaluate("document.activeElement.id")).toBe("composer");
    await keys.type("write a file");
    await keys.press("Enter");
    await page.locator(".approval").waitFor();
    await expect.poll(() => page.locator("[role=log]").textContent(), patient).toContain("Approval needed: write");
    await page.evaluate("document.activeElement.blur()");
    await keys.press("a");
    expect(await focused()).toBe("Once");
    await keys.press("Enter");
    await page.locator(".turn-foot").waitFor();
    await expect.poll(() => page.locator("[role=log]").textContent(), patient).toContain("All is well.");
    await expect.poll(() => page.locator("[role=log]").textContent(), patient).toContain("The answer is complete.");
    await page.evaluate("document.activeElement.blur()");
    await keys.press("g");
    await keys.press("t");
    await page.locator(".tree-row").waitFor();
    expect(page.url()).toContain("/tree/");
    await keys.press("?");
    await page.locator("dialog").waitFor();
    await keys.press("Escape");
    await expect.poll(() => page.locator("dialog").count()).toBe(0);
    // A single key does nothing while somebody types.
    await keys.press("/");
    await page.locator("#search").waitFor();
    await keys.type("n?/");
    expect(page.url()).toContain("/search");
    expect(await page.locator("#search").inputValue()).toBe("n?/");
  });

  test("W8 on a phone nothing is wider than the screen, and the drawer opens and closes", {
    timeout: 60_000,
  }, async () => {
    const server = await startPageServer(script);
    const { conversation, ids } = await fill(server);
    const { page } = await openPage(server, { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
    const paths = ["/", `/c/${conversation}`, `/r/${ids[0]}`, `/tree/${ids[0]}`, `/compare/${ids[0]}/${ids[1]}`];
    for (const path of [
      ...paths,
      "/runs",
      "/schedules",
      "/approvals",
      "/search?q=text",
      "/usage",
      "/models",
      "/hub",
      "/settings",
    ]) {
      await page.goto(server.url + path);
      await page.locator("main h1, main h2").first().waitFor();
      await page.waitForTimeout(200);
      expect(await page.evaluate("document.scrollingElement.scrollWidth"), path).toBeLessThanOrEqual(360);
      const wide = await page.evaluate(
        `(() => { const m = document.getElementById("main"); return m.scrollWidth - m.clientWidth; })()`,
      );
      expect(wide, path).toBeLessThanOrEqual(0);
    }
    await page.goto(`${server.url}/c/${conversation}`);
    await page.locator(".approval").waitFor();
    const send = await page.getByRole("button", { name: "Steer" }).boundingBox();
    expect((send?.x ?? 999) + (send?.width ?? 0)).toBeLessThanOrEqual(360);
    await page.getByRole("button", { name: "Menu" }).click();
    await page.getByRole("link", { name: "Runs" }).click();
    await page.locator(".run").first().waitFor();
    await expect.poll(() => page.locator(".sidebar").isVisible()).toBe(false);
  });
});
