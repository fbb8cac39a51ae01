/** What other pages and other servers of the same machine can do to a browser that is signed in: nothing. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { chromium } from "playwright-core";
import { expect, test } from "vitest";
import { browserPath, hasBrowser } from "../page/support.ts";
import { later } from "../support.ts";
import { codeOf, openPage } from "./page-client.ts";
import { serve } from "./served.ts";

/** Another program on this machine, with a page of its own and no good intentions. */
async function startMallory(answer: (request: IncomingMessage) => { html: string; cookie?: string }) {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(request.headers.cookie ?? "");
    const { html, cookie } = answer(request);
    response.writeHead(200, { "content-type": "text/html", ...(cookie !== undefined && { "set-cookie": cookie }) });
    response.end(html);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  later(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

/** In the browser: what a page can try, and what became of it. */
const ATTEMPTS = `async (target) => {
  const attempts = {};
  const attempt = async (name, init, path = "/v1/responses") => {
    const answer = await fetch(target + path, { credentials: "include", ...init }).catch(() => undefined);
    attempts[name] = answer ? answer.type + " " + answer.status : "refused";
  };
  const body = JSON.stringify({ model: "test-model", input: "by mallory" });
  await attempt("read", {});
  await attempt("read without CORS", { mode: "no-cors" });
  await attempt("write as a form would", { method: "POST", mode: "no-cors", body });
  await attempt("write as JSON", { method: "POST", headers: { "content-type": "application/json" }, body });
  await attempt("with the header", { headers: { "x-rotunda-csrf": "A".repeat(43) } });
  await attempt("sign out", { method: "DELETE" }, "/rotunda/session");
  await attempt("sign in", { method: "POST", mode: "no-cors", body: '{"token":"x"}' }, "/rotunda/sign-in");
  const frame = document.createElement("iframe");
  frame.src = target;
  document.body.append(frame);
  await new Promise((resolve) => {
    frame.onload = resolve;
  });
  const form = document.createElement("form");
  form.method = "post";
  form.enctype = "text/plain";
  form.action = target + "/v1/emergency-stop";
  form.target = "elsewhere";
  document.body.append(form);
  form.submit();
  return attempts;
}`;

test.runIf(hasBrowser)(
  "W2 a page on another port of this machine, in a browser that is signed in",
  { timeout: 120_000 },
  async () => {
    const served = await serve([{ text: "hello" }]);
    const { url } = served;
    const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
    const browser = await chromium.launch({ executablePath: browserPath ?? "", args });
    later(() => browser.close());
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${url}/#sign-in=${await codeOf(served)}`);
    const signedIn = () => page.evaluate('localStorage.getItem("rotunda.csrf")');
    await expect.poll(signedIn, { timeout: 20_000 }).toBeTruthy();
    expect(page.url()).not.toContain("sign-in");
    expect(await page.evaluate("document.cookie")).toBe("");

    // A token of Mallory's own, in a session that he would like others to use.
    const theirs = await served.newToken({ name: "mallory", scopes: ["responses:read", "responses:write"] });
    const session = await openPage(served, theirs);
    let cookie: string | undefined;
    const mallory = await startMallory(() => ({ html: "<!doctype html><title>x</title>", ...(cookie && { cookie }) }));
    const evil = await context.newPage();
    await evil.goto(mallory.url);
    const outcome = (await evil.evaluate(`(${ATTEMPTS})(${JSON.stringify(url)})`)) as Record<string, string>;
    for (const [name, result] of Object.entries(outcome))
      expect([name, result]).toEqual([name, expect.stringMatching(/^(refused|opaque 0)$/)]);
    expect(evil.frames().some((frame) => frame.url().startsWith(url))).toBe(false);
    expect(await served.app.store.list({})).toEqual([]);

    // The program behind that page is sent our cookie, and can put on a request what it likes. It lacks the other half.
    const stolen = mallory.seen.find((one) => one.includes("rotunda_")) ?? "";
    expect(stolen).toContain(`rotunda_${new URL(url).port}=local.`);
    for (const path of ["/rotunda/session", "/v1/responses", "/v1/settings", "/metrics", "/openapi.json"]) {
      const headers = { cookie: stolen, origin: url, "sec-fetch-site": "same-origin", referer: `${url}/` };
      expect([path, (await fetch(url + path, { headers })).status]).toEqual([path, 403]);
      const guess = { ...headers, "x-rotunda-csrf": session.csrf };
      expect([path, (await fetch(url + path, { headers: guess })).status]).toEqual([path, 403]);
    }
    const link = await fetch(`${url}/rotunda/sign-in-link`, {
      method: "POST",
      headers: { cookie: stolen, origin: url },
    });
    expect(link.status).toBe(403);

    // He puts his own session in the place of ours: nobody works in it.
    cookie = `${session.cookie}; Path=/; HttpOnly; SameSite=Strict`;
    await evil.goto(mallory.url);
    const answers: number[] = [];
    page.on("response", (response) => {
      if (response.url().startsWith(`${url}/rotunda/session`)) answers.push(response.status());
    });
    await page.reload();
    await expect.poll(() => answers.length, { timeout: 20_000 }).toBeGreaterThan(0);
    expect(answers.every((status) => status === 403)).toBe(true);
    expect(await page.content()).not.toContain("mallory");
  },
);
