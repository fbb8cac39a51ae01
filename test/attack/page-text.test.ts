/** Attacks on the page by text: names and titles of all kinds, addresses that lie, markdown that would stop the tab. */
import { describe, expect, test } from "vitest";
import { hasBrowser, openPage, openTab, type PageServer, say, startPageServer, withBrowser } from "../page/support.ts";

/** Told by whatever should never run. */
const RUN = "document.title='owned'";
const EVIL = `"><img src=http://127.0.0.1:9/x onerror="${RUN}"><script>${RUN}</script>'\u202e{{1}}`;

/** What is foreign in a page that has drawn only text. */
async function foreign(page: Awaited<ReturnType<typeof openPage>>["page"]): Promise<unknown> {
  return page.evaluate(`({
    owned: document.title === "owned",
    elements: document.querySelectorAll("script:not([src^='/page/']), iframe, object, embed, base, meta[http-equiv], [style*=url]").length,
    handlers: [...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => /^on/i.test(a.name))).length,
    addresses: [...document.querySelectorAll("[href], [src], [action], [formaction]")]
      .map((e) => e.href?.baseVal ?? e.href ?? e.src ?? "")
      .filter((a) => typeof a === "string" && !/^(?:https?:|mailto:|data:image\\/(?:png|jpeg|gif|webp|svg)|$)/.test(a)),
    turning: (document.title + document.body.innerText).includes("\\u202e"),
  })`);
}

const CLEAN = { owned: false, elements: 0, handlers: 0, addresses: [], turning: false };

async function hostileServer(): Promise<PageServer> {
  const server = await startPageServer(
    () => ({
      reasoning: EVIL,
      text: EVIL,
      calls: [],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    }),
    {
      profiles: { odd: { instructions: EVIL, description: EVIL } },
      mcpServers: { odd: { command: process.execPath, args: ["-e", `console.error(${JSON.stringify(EVIL)})`] } },
    },
  );
  const { id } = await server.ask<{ id: string }>("/v1/conversations", { metadata: { title: EVIL } });
  const svg = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" onload="${RUN}"><script>${RUN}</script></svg>`)}`;
  const content = [
    { type: "input_text", text: EVIL },
    { type: "input_image", image_url: svg },
  ];
  await server.ask("/v1/responses", { model: "test-model", conversation: id, input: [{ role: "user", content }] });
  return server;
}

describe.skipIf(!hasBrowser)("the page", () => {
  withBrowser();

  test("W6 names, titles, logs, pictures and addresses in every view are text", { timeout: 90_000 }, async () => {
    const server = await hostileServer();
    const { page, context, faults, requests } = await openPage(server);
    const { data } = await server.ask<{ data: { id: string; conversation: { id: string } }[] }>("/v1/responses");
    const [one] = data;
    // With a slash it would be two parts of an address.
    const odd = encodeURIComponent(EVIL.replaceAll("/", "|"));
    const views = [
      `/c/${one?.conversation.id}`,
      `/tree/${one?.id}`,
      `/compare/${one?.id}/${one?.id}`,
      "/runs",
      "/schedules",
      "/approvals",
      "/hub",
      "/hub/odd",
      "/models",
      "/usage",
      `/search?q=${encodeURIComponent("img src")}`,
      "/settings",
      `/search?q=${odd}`,
      `/c/${odd}`,
      `/r/${odd}`,
      `/hub/${odd}`,
      `/tree/${odd}`,
      `/?q=${odd}#${odd}`,
      "/#sign-in=%",
      "/runs#sign-in=javascript:1",
    ];
    for (const view of views) {
      await page.goto(server.url + view);
      await page
        .locator("#main")
        .waitFor({ timeout: 10_000 })
        .catch((error) => Promise.reject(new Error(`${view}: ${error}`)));
      await page.waitForTimeout(250);
      expect(await foreign(page), view).toEqual(CLEAN);
      expect(new URL(page.url()).hash).not.toContain("sign-in");
    }
    const tab = await openTab(context);
    await tab.page.goto(`${server.url}/c/${one?.conversation.id}`);
    await tab.page.locator(".said").first().waitFor();
    expect(requests.concat(tab.requests).filter((to) => !to.startsWith(server.url) && !to.startsWith("data:"))).toEqual(
      [],
    );
    expect(faults.concat(tab.faults)).toEqual([]);
  });

  test("W6 a link tells its host unless it says it whole", async () => {
    const links = [
      ["[https://bank.com/login](https://bank.co)", "bank.co"],
      ["[https://bank.example](https://bank.example@evil.example/)", "evil.example"],
      ["[https://bank.example:443](https://bank.example:8443/)", "bank.example:8443"],
      ["[HTTPS://BANK.EXAMPLE.evil](https://bank.example)", "bank.example"],
      [
        "[https://\u0430\u0440\u0440\u04cf\u0435.com](https://\u0430\u0440\u0440\u04cf\u0435.com)",
        "xn--80ak6aa92e.com",
      ],
      ["[//evil.example](https://evil.example)", "evil.example"],
      ["[https://honest.example/a](https://honest.example/a)", ""],
      ["<https://plain.example/?q=1>", ""],
    ] as const;
    const server = await startPageServer([{ text: links.map(([text]) => text).join("\n\n") }]);
    const { page } = await openPage(server);
    await say(page, "Links");
    await page.locator(".turn-foot").waitFor();
    const told = await page.evaluate(
      `[...document.querySelectorAll(".said p")].map((p) => p.querySelector(".link-host")?.textContent.trim() ?? "")`,
    );
    expect(told).toEqual(links.map(([, host]) => host));
  });

  test("W6 markdown that would take a parser's stack or minutes is read, as it comes and afterwards", {
    timeout: 90_000,
  }, async () => {
    const bombs = [
      `${"> ".repeat(5_000)}quotes`,
      `${"- ".repeat(5_000)}lists`,
      `${"> 1. ".repeat(3_000)}both`,
      `${"_a".repeat(30_000)} signs`,
      `${"**a".repeat(20_000)} stars`,
      `${"~~a".repeat(20_000)} strikes`,
      Array.from({ length: 600 }, (_, depth) => `${" ".repeat(depth * 2)}- x`).join("\n"),
      `${"[a](".repeat(5_000)} addresses`,
      `| ${"a |".repeat(3_000)}\n|${"-|".repeat(3_000)}\n`,
      `**bold** and _slanted_`,
    ];
    const server = await startPageServer([
      { text: bombs.flatMap((bomb) => [bomb.slice(0, 900), bomb.slice(900), "\n\n"]) },
    ]);
    const { page, context, faults } = await openPage(server);
    await say(page, "Bombs");
    await page.locator(".said strong", { hasText: "bold" }).waitFor({ timeout: 40_000 });
    expect(await page.locator(".said").textContent()).toContain("signs");
    const again = await openTab(context);
    await again.page.goto(page.url());
    await again.page.locator(".said em", { hasText: "slanted" }).waitFor({ timeout: 40_000 });
    expect(await again.page.getByText("The page has a fault").count()).toBe(0);
    expect(faults.concat(again.faults)).toEqual([]);
  });
});
