/** What a person manages on the page, each thing once in a real browser: questions of servers, the hub, schedules, budgets, settings, profiles, conversations, rules. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { serveProtected } from "../fixtures/mcp/oauth-server.ts";
import { later } from "../support.ts";
import { drawn, hasBrowser, openPage, type PageServer, say, startPageServer, withBrowser } from "./support.ts";

const SLOW = { timeout: 120_000 };
const asking = fileURLToPath(new URL("../fixtures/mcp/asking.ts", import.meta.url));
const mcpServers = { asking: { command: process.execPath, args: [asking, "both"] } };
const permissions = { allow: ["asking:*"] };

/** Calls the tool that is named in what was asked, then says what it gave. */
const script: UpstreamScript = ({ body }) => {
  const messages = body.messages as { role: string; content: unknown }[];
  const last = messages.at(-1);
  if (last?.role === "tool") return { text: `It gave ${String(last.content)}` };
  const asked = JSON.stringify(last?.content);
  const [, name] = /call (\w+)/.exec(asked) ?? [];
  if (name !== undefined) return { calls: [{ name, arguments: {} }] };
  const [, file] = /write (\w+)/.exec(asked) ?? [];
  if (file !== undefined) return { calls: [{ name: "write", arguments: { file_path: `${file}.txt`, content: file } }] };
  return { text: "Just an answer." };
};

async function open(config: object = {}): Promise<{ server: PageServer; page: Page; faults: string[] }> {
  const server = await startPageServer(script, config);
  const { page, faults } = await openPage(server);
  page.on("dialog", (dialog) => dialog.accept().catch(() => undefined));
  return { server, page, faults };
}

describe.skipIf(!hasBrowser)("managing", () => {
  withBrowser();

  test("S36 a server's form is answered in the chat and in the approvals, its link too", SLOW, async () => {
    const { server, page, faults } = await open({ mcpServers, permissions });
    await say(page, "call asking__confirm");
    const form = page.getByRole("form", { name: "Question of asking" });
    await form.waitFor({ timeout: 30_000 });
    expect(await form.textContent()).toContain("Who are you?");
    // Only the name must be given: what is left empty is not said.
    await form.getByLabel("name").fill("Ada");
    await form.getByRole("button", { name: "Answer" }).click();
    await page.locator(".answer", { hasText: '"name":"Ada"' }).waitFor();
    expect(await page.locator(".answer").last().textContent()).not.toMatch(/count|colour/);

    await say(page, "call asking__confirm");
    await form.waitFor();
    await page.getByRole("link", { name: /^Approvals/ }).click();
    await form.getByLabel("name").fill("Eve");
    await form.getByLabel("count").fill("3");
    await form.getByLabel("colour").selectOption("green");
    await form.getByRole("button", { name: "Answer" }).click();
    await drawn(page, "Nothing waits for you.").waitFor();
    await page.goBack();
    await page.locator(".answer", { hasText: '"colour":"green"' }).waitFor();
    expect(await page.locator(".answer").last().textContent()).toContain('"count":3');

    await say(page, "call asking__link");
    await form.waitFor();
    expect(await form.getByRole("link").getAttribute("href")).toBe("https://sign-in.example.com/start?x=1");
    await form.getByRole("button", { name: "I have done it" }).click();
    await page.locator(".answer", { hasText: '"action":"accept"' }).last().waitFor();
    expect((await server.ask<{ pending: unknown[] }>("/v1/elicitation/pending")).pending).toEqual([]);
    expect(faults).toEqual([]);
  });

  test("the hub: off and on, restart, stop, log, login, add", SLOW, async () => {
    const docs = await serveProtected({});
    later(() => docs.close());
    const { page, faults } = await open({ mcpServers: { ...mcpServers, docs: { url: docs.url } } });
    await page.getByRole("link", { name: "Hub" }).click();
    const card = page.locator(".card", { hasText: "asking" });
    await card.getByText("healthy").waitFor({ timeout: 30_000 });
    await card.getByRole("button", { name: "asking is on" }).click();
    await card.getByText("disabled").waitFor();
    expect(await card.getByRole("button", { name: "Restart asking" }).isDisabled()).toBe(true);
    await card.getByRole("button", { name: "asking is off" }).click();
    await card.getByRole("button", { name: "asking is on" }).waitFor();
    await card.getByRole("button", { name: "Restart asking" }).click();
    await card.getByText("healthy").waitFor();
    await card.getByRole("button", { name: "Stop asking" }).click();
    await card.getByText("stopped").waitFor();
    await card.getByRole("button", { name: "Test asking" }).click();
    await card.getByText("healthy").waitFor();

    const away = page.locator(".card", { hasText: "docs" });
    await away.getByText("needs login").waitFor();
    await away.getByRole("button", { name: "Log in" }).click();
    const link = away.getByRole("link", { name: "Log in at" });
    const back = await docs.consent((await link.getAttribute("href")) ?? "");
    expect((await fetch(back)).status).toBe(200);
    await away.getByText("healthy").waitFor();
    await expect.poll(() => link.count()).toBe(0);
    await away.getByRole("button", { name: "Forget login: docs" }).click();
    await away.getByText("needs login").waitFor();

    await card.getByRole("link", { name: "asking" }).click();
    await page.getByRole("heading", { name: "Log", exact: true }).waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    await drawn(page, "It has said nothing.").waitFor();
    await page.getByRole("link", { name: "All servers" }).click();

    await drawn(page, "Add a server").click();
    await page.getByLabel("Name").fill("second");
    await page.getByLabel("Configuration").fill("{ not json");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await drawn(page, "The configuration is no JSON").waitFor();
    await page.getByLabel("Configuration").fill(JSON.stringify(mcpServers.asking));
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.waitForURL("**/hub/second");
    await drawn(page, "2 tools · stdio").waitFor({ timeout: 30_000 });
    await page.getByRole("button", { name: "Remove second" }).click();
    await page.waitForURL("**/hub");
    await expect.poll(() => page.locator(".card", { hasText: "second" }).count()).toBe(0);
    expect(faults).toEqual([]);
  });

  test("schedules: made, switched off, kept, removed; once too", SLOW, async () => {
    const { page, server } = await open();
    await page.getByRole("link", { name: "Schedules" }).click();
    await page.getByLabel("Name").fill("Morning");
    await page.getByLabel("Cron", { exact: true }).fill("not a cron");
    await page.getByLabel("Prompt").fill("What is new?");
    await page.getByRole("button", { name: "Schedule", exact: true }).click();
    await page.locator(".form .problem").waitFor();
    await page.getByLabel("Cron", { exact: true }).fill("0 8 * * 1-5");
    await page.getByRole("button", { name: "Schedule", exact: true }).click();
    const card = page.locator(".card", { hasText: "Morning" });
    await card.getByRole("button", { name: "Morning is on" }).click();
    await card.getByRole("button", { name: "Morning is off" }).waitFor();
    await page.getByLabel("Name").fill("Later");
    await page.getByLabel("When").selectOption("at");
    await page.getByLabel("Moment").fill("2099-01-02T03:04");
    await page.getByLabel("Prompt").fill("And now?");
    await page.getByRole("button", { name: "Schedule", exact: true }).click();
    await page.locator(".card", { hasText: "Later" }).waitFor();
    // The form is as it was: what is chosen is what is shown.
    expect(await page.getByLabel("When").inputValue()).toBe("cron");
    await page.getByLabel("Cron", { exact: true }).waitFor();
    await page.reload();
    await card.getByRole("button", { name: "Morning is off" }).waitFor();
    await card.getByRole("button", { name: "Remove Morning" }).click();
    await expect.poll(() => card.count()).toBe(0);
    const { data } = await server.ask<{ data: { name: string }[] }>("/v1/schedules");
    expect(data.map(({ name }) => name)).toEqual(["Later"]);
  });

  test("a response waits for its budget, is told how to go on, and goes on when it is raised", SLOW, async () => {
    const { page, server } = await open({ budgets: [{ for: "all", tokens: 10, per: "day" }] });
    await say(page, "First");
    await page.locator(".turn-foot").waitFor();
    await say(page, "Second");
    await page.locator(".ending", { hasText: "budget of all is used up" }).waitFor();
    await page.getByRole("link", { name: "Raise the budget" }).click();
    const tokens = page.getByLabel("and tokens");
    await expect.poll(() => tokens.inputValue()).toBe("10");
    expect(await page.getByRole("button", { name: "Remove the budget for all" }).count()).toBe(0);
    await tokens.fill("100000");
    await page.getByRole("button", { name: "Set" }).click();
    await drawn(page, "of 100k tokens").waitFor();
    await page.goBack();
    await expect.poll(() => page.locator(".answer", { hasText: "Just an answer." }).count()).toBe(2);
    const { data } = await server.ask<{ data: { per: string }[] }>("/v1/budgets");
    expect(data[0]?.per).toBe("day");
    await page.getByRole("link", { name: "Usage" }).click();
    await page.getByRole("button", { name: "Remove the budget for all" }).click();
    await expect.poll(() => page.getByRole("button", { name: "Remove the budget for all" }).count()).toBe(0);
  });

  test("settings are kept; profiles are made, changed, chosen and deleted", SLOW, async () => {
    const { page, server } = await open();
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByLabel("Max iterations").fill("33");
    await page.getByRole("button", { name: "Save" }).click();
    await drawn(page, "Saved.").waitFor();
    await page.reload();
    expect(await page.getByLabel("Max iterations").inputValue()).toBe("33");

    await page.getByRole("link", { name: "Models", exact: true }).click();
    await drawn(page, "A new profile").click();
    await page.getByLabel("Name").fill("Pirate");
    await page.getByLabel("Guidelines").fill("Talk like a pirate");
    await page.getByRole("button", { name: "Create" }).click();
    const card = page.locator(".card", { hasText: "Pirate" });
    await card.getByRole("button", { name: "Make default: Pirate" }).click();
    await card.getByText("default", { exact: true }).waitFor();
    await card.getByRole("button", { name: "Edit Pirate" }).click();
    await card.getByLabel("Guidelines").fill("Talk like a parrot");
    await card.getByRole("button", { name: "Save" }).click();
    await expect.poll(() => card.getByLabel("Guidelines").count()).toBe(0);
    await page.getByRole("link", { name: "New chat" }).first().click();
    await say(page, "Hello");
    await page.locator(".turn-foot").waitFor();
    expect(JSON.stringify(server.upstream.requests.at(-1)?.body)).toContain("Talk like a parrot");
    await page.getByRole("link", { name: "Models", exact: true }).click();
    await page.getByRole("button", { name: "Make default: general" }).click();
    await card.getByRole("button", { name: "Delete Pirate" }).click();
    await expect.poll(() => card.count()).toBe(0);
  });

  test(
    "a conversation is renamed and removed; a question is answered for always, and the rule taken back",
    SLOW,
    async () => {
      const { page, server } = await open();
      await say(page, "write one");
      await page.locator(".approval").waitFor();
      await page.getByRole("link", { name: /^Approvals/ }).click();
      await page.getByRole("button", { name: /^Always/ }).click();
      await drawn(page, "Nothing waits for you.").waitFor();
      await drawn(page, "always in this workspace").waitFor();
      await expect.poll(() => existsSync(join(server.workspace, "one.txt"))).toBe(true);
      await page.goBack();
      await page.locator(".turn-foot").waitFor();
      await say(page, "write one again");
      await expect.poll(() => page.locator(".turn-foot").count()).toBe(2);
      await page.getByRole("link", { name: /^Approvals/ }).click();
      await page.getByRole("button", { name: /^Take back/ }).click();
      await expect.poll(() => drawn(page, "always in this workspace").count()).toBe(0);
      await page.goBack();

      await page.getByRole("heading", { level: 1 }).getByRole("button").click();
      await page.getByLabel("Name of the conversation").fill("Of another name");
      await page.getByRole("button", { name: "Save" }).click();
      const listed = page.getByRole("navigation", { name: "Conversations" }).getByText("Of another name");
      await listed.waitFor();
      await page.getByRole("heading", { level: 1 }).getByRole("button").click();
      await page.getByRole("button", { name: "Remove", exact: true }).click();
      await page.locator(".welcome").waitFor();
      await expect.poll(() => listed.count()).toBe(0);
    },
  );

  test("a call that no rule fits is allowed once or not at all", SLOW, async () => {
    const server = await startPageServer(
      [{ calls: [{ name: "bash", arguments: { command: 'echo "$(date)" && (echo two' } }] }, { text: "Done." }],
      { permissions: { mode: "ask", ask: ["bash"] } },
    );
    const { page } = await openPage(server);
    await say(page, "tell the time");
    const approval = page.locator(".approval");
    await approval.waitFor();
    const { approvals } = await server.ask<{ approvals: { pattern: string }[] }>("/v1/tool-approvals");
    expect(approvals[0]?.pattern).toBe("bash()");
    expect(await approval.getByRole("button").allTextContents()).toEqual(["Once", "No …"]);
  });

  test("what nobody chose is not said; a sum that is not whole says so", SLOW, async () => {
    const server = await startPageServer([{ text: "Here." }]);
    const { page } = await openPage(server);
    const properties = { tags: { type: "array", items: { type: "string", enum: ["red", "green"] } } };
    const question = { ...{ id: "eli_1", server: "far", mode: "form", message: "Which?", url: null }, responseIds: [] };
    const elicitations = [{ ...question, requestedSchema: { type: "object", properties } }];
    let told: unknown;
    await page.route(/elicitation\/pending$/, (route) => route.fulfill({ json: { elicitations } }));
    await page.route(/elicitation\/eli_1\/resolve$/, (route) => {
      told = route.request().postDataJSON();
      return route.fulfill({ json: {} });
    });
    await page.goto(`${server.url}/approvals`);
    await page.getByRole("button", { name: "Answer" }).click();
    await expect.poll(() => told).toEqual({ action: "accept", content: {} });
    await page.getByLabel("green").check();
    await page.getByRole("button", { name: "Answer" }).click();
    await expect.poll(() => told).toEqual({ action: "accept", content: { tags: ["green"] } });

    await page.route(/v1\/usage\?/, (route) => route.fulfill({ json: { rows: [], truncated: true } }));
    await page.goto(`${server.url}/usage`);
    await drawn(page, "the older days are too low").waitFor();
  });
});
