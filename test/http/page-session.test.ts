/** Signing in to the page, and what does not open it. */
import { expect, test } from "vitest";
import { makeSession, parseCookie } from "../../src/doors/http/session-cookie.ts";
import { later } from "../support.ts";
import { codeOf, openPage, signIn } from "./page-client.ts";
import { type Served, serve } from "./served.ts";

const codeIn = async (answer: Response) => ((await answer.json()) as { error: { code: string } }).error.code;

const asked = async (answer: Promise<Response>) => {
  const response = await answer;
  await response.arrayBuffer();
  return response.status;
};

test("W1 a one-time link signs in once; the session opens every route, survives a restart, and ends with its signing out", async () => {
  const served = await serve([{ text: "hello" }]);
  const code = await codeOf(served);
  expect(code).toMatch(/^[\w-]{43}$/);
  const answer = await signIn(served, { code });
  expect(answer.status).toBe(200);
  const line = answer.headers.get("set-cookie") ?? "";
  const port = new URL(served.url).port;
  expect(line).toMatch(new RegExp(`^rotunda_${port}=local\\.\\S+; Path=/; HttpOnly; SameSite=Strict; Max-Age=\\d+$`));
  expect(await answer.json()).toMatchObject({ name: "local", local: true, auth: "token", body_limit: 50_000_000 });
  expect(answer.headers.get("referrer-policy")).toBe("no-referrer");
  // Once.
  const again = await signIn(served, { code });
  expect(again.status).toBe(401);
  expect(again.headers.get("set-cookie")).toBeNull();

  const page = await openPage(served);
  const mine = await page.fetch("/rotunda/session");
  expect(await mine.json()).toMatchObject({ name: "local", csrf: page.csrf });
  const made = await page.fetch("/v1/responses", { json: { model: "test-model", input: "hi" } });
  expect(made.status).toBe(200);
  const { id } = (await made.json()) as { id: string };
  expect((await page.fetch(`/v1/responses/${id}?stream=true`)).headers.get("content-type")).toContain("event-stream");
  // Neither the code, nor either half, nor the local token is the same as another.
  expect(page.cookie).not.toContain(served.token);
  expect(page.csrf).not.toContain(served.token);

  await served.stop();
  const second = await serve([], { folder: served.folder, door: { port: Number(port) } });
  expect(await asked(page.fetch("/v1/models"))).toBe(200);
  const other = await openPage(second);
  const out = await page.fetch("/rotunda/session", { method: "DELETE" });
  expect(out.status).toBe(204);
  expect(out.headers.getSetCookie().every((one) => one.includes("Max-Age=0"))).toBe(true);
  expect(await asked(page.fetch("/v1/models"))).toBe(401);
  expect(await asked(other.fetch("/v1/models"))).toBe(200);
  await second.stop();
  // Also after a restart it stays signed out.
  await serve([], { folder: served.folder, door: { port: Number(port) } });
  expect(await asked(page.fetch("/v1/models"))).toBe(401);
  expect(await asked(other.fetch("/v1/models"))).toBe(200);
});

test("W1 a named token signs in with its own rights, at every node, and its end is the session's and that of its streams", async () => {
  const served = await serve([{ text: "slow", delay: 50 }, { text: "hello" }]);
  const text = await served.newToken({ name: "phone", scopes: ["responses:read", "responses:write"] });
  const page = await openPage(served, text);
  expect(page.session).toMatchObject({ name: "phone", local: false, scopes: ["responses:read", "responses:write"] });
  expect(await asked(page.fetch("/v1/responses"))).toBe(200);
  expect(await codeIn(await page.fetch("/metrics"))).toBe("insufficient_scope");
  const theirs = await served.respond({ model: "test-model", input: "not yours" });
  expect((await page.fetch(`/v1/responses/${theirs.id}`)).status).toBe(404);
  // The token's text is in neither half.
  const secret = text.split("_")[2] ?? "";
  for (const half of [page.cookie, page.csrf]) {
    expect(half).not.toContain(secret);
    for (const part of half.split(/[.=]/)) expect(Buffer.from(part, "base64url").toString("hex")).not.toContain(secret);
  }
  // Another node has the same database and another local token.
  const { createHttpDoor } = await import("../../src/doors/http/server.ts");
  const node = createHttpDoor(served.app, { port: 0, localToken: "of another machine", accessLog: false });
  const url = await node.listen();
  later(() => node.close({ seconds: 0 }));
  const there = {
    cookie: page.cookie.replace(/rotunda_\d+/, `rotunda_${new URL(url).port}`),
    "x-rotunda-csrf": page.csrf,
    "sec-fetch-site": "same-origin",
  };
  expect(await asked(fetch(`${url}/v1/responses`, { headers: there }))).toBe(200);

  const stream = await page.fetch("/v1/responses", { json: { model: "test-model", input: "x", stream: true } });
  expect(stream.status).toBe(200);
  const token = (await served.app.store.tokens()).find(({ name }) => name === "phone");
  if (!token) throw new Error("there is no such token");
  await served.app.store.saveToken({ ...token, revokedAt: Date.now() });
  await stream.text();
  expect(await asked(page.fetch("/v1/responses"))).toBe(401);
  expect(await asked(fetch(`${url}/v1/responses`, { headers: there }))).toBe(401);
  expect((await signIn(served, { token: text })).status).toBe(401);
});

test("W2 the cookie alone opens nothing: no header, a wrong one, another page, another site", async () => {
  const served = await serve([{ text: "hello" }]);
  const page = await openPage(served);
  const { cookie, csrf } = page;
  const good = { cookie, "x-rotunda-csrf": csrf, "sec-fetch-site": "same-origin" };
  const { "x-rotunda-csrf": _half, ...withoutHalf } = good;
  const { "sec-fetch-site": _site, ...withoutSite } = good;
  const other = await openPage(served);
  const refused: Record<string, string>[] = [
    withoutHalf,
    withoutSite,
    { ...good, "x-rotunda-csrf": "" },
    { ...good, "x-rotunda-csrf": other.csrf },
    { ...good, "x-rotunda-csrf": `${csrf}A` },
    { ...good, cookie: other.cookie },
    { ...good, "sec-fetch-site": "same-site" },
    { ...good, "sec-fetch-site": "cross-site" },
    { ...good, "sec-fetch-site": "none" },
    { ...good, origin: "http://127.0.0.1:1" },
    { ...good, origin: "null" },
    { ...good, origin: "https://evil.example" },
  ];
  const paths = ["/v1/models", "/metrics", "/v1/responses", "/rotunda/session", "/openapi.json", "/mcp/tools/list"];
  for (const headers of refused) {
    for (const path of paths) {
      const answer = await fetch(`${served.url}${path}`, { headers, method: path.startsWith("/mcp") ? "POST" : "GET" });
      expect([path, answer.status, await codeOrText(answer)], JSON.stringify(headers)).toEqual([
        path,
        403,
        path.startsWith("/mcp") ? expect.any(String) : "origin_not_allowed",
      ]);
      expect(answer.headers.get("access-control-allow-origin")).toBeNull();
    }
  }
  expect(await asked(fetch(`${served.url}/metrics`, { headers: good }))).toBe(200);
  // A post as a form of another page would make it.
  const form = { ...good, "content-type": "text/plain" };
  expect(await asked(fetch(`${served.url}/v1/responses`, { method: "POST", headers: form, body: "{}" }))).toBe(415);
});

async function codeOrText(answer: Response): Promise<string> {
  const { error } = (await answer.json()) as { error: { code: string } | string };
  return typeof error === "string" ? error : error.code;
}

test("W2 a page of an allowed foreign origin has tokens, and no session", async () => {
  const origin = "https://app.example.com";
  const served = await serve([], { door: { cors: [origin] } });
  const page = await openPage(served);
  expect((await page.fetch("/v1/models", { headers: { origin } })).status).toBe(403);
  expect((await signIn(served, { code: await codeOf(served) }, { origin })).status).toBe(403);
});

test("W2 no sign-in from elsewhere: another origin, no origin, another host, no JSON, two ways at once", async () => {
  const served = await serve([]);
  const code = await codeOf(served);
  const port = new URL(served.url).port;
  for (const headers of [
    { origin: "https://evil.example" },
    { origin: `http://127.0.0.1:${Number(port) + 1}` },
    { origin: "null" },
    { "sec-fetch-site": "cross-site" },
  ]) {
    expect((await signIn(served, { code }, headers)).status).toBe(403);
  }
  const noOrigin = { "content-type": "application/json" };
  const body = JSON.stringify({ code });
  const post = (headers: Record<string, string>) =>
    fetch(`${served.url}/rotunda/sign-in`, { method: "POST", headers, body });
  expect((await post(noOrigin)).status).toBe(403);
  expect((await post({ origin: served.url, "content-type": "text/plain" })).status).toBe(415);
  expect((await signIn(served, { code, token: served.token })).status).toBe(400);
  expect((await signIn(served, {})).status).toBe(400);
  // None of them has used the code up.
  expect((await signIn(served, { code })).status).toBe(200);
});

test("W1 what was altered opens nothing: every part of the cookie, another's name, an older one put back", async () => {
  const served = await serve([]);
  const text = await served.newToken({ name: "weak", scopes: ["responses:read"] });
  const weak = await openPage(served, text);
  const [name = "", value = ""] = weak.cookie.split("=");
  const parts = value.split(".");
  const ask = (altered: string, csrf = weak.csrf) =>
    asked(
      fetch(`${served.url}/v1/responses`, {
        headers: { cookie: `${name}=${altered}`, "x-rotunda-csrf": csrf, "sec-fetch-site": "same-origin" },
      }),
    );
  expect(await ask(value)).toBe(200);
  const altered = parts.map((part, at) => {
    const copy = [...parts];
    copy[at] = at === 0 ? "local" : at === 1 ? (Date.now() + 1e12).toString(36) : `${part.slice(0, -2)}AA`;
    return copy.join(".");
  });
  for (const one of altered) expect([401, 403]).toContain(await ask(one));
  // One that somebody makes by himself: its halves fit each other, and no token.
  for (const subject of ["local", parts[0] ?? ""]) {
    const forged = makeSession(subject, Buffer.alloc(32, 7), Date.now() + 60_000);
    expect(await ask(forged.cookie, forged.csrf)).toBe(401);
  }
  const secret = Buffer.from(text.split("_")[2] ?? "", "hex");
  const over = makeSession(parts[0] ?? "", secret, Date.now() - 1);
  expect(await ask(over.cookie, over.csrf)).toBe(401);
  // The owner of a weak token cannot make himself a session of the local one.
  const local = makeSession("local", secret, Date.now() + 60_000);
  expect(await ask(local.cookie, local.csrf)).toBe(401);
  // A cookie that another port has put in front of ours keeps nobody out.
  expect(await ask(`${altered[4]}; ${name}=${value}`)).toBe(200);
  expect(parseCookie("x".repeat(10_000))).toBeUndefined();
  // A token beside a session decides alone.
  const both = (authorization: string) =>
    asked(weak.fetch("/v1/settings", { headers: { authorization: `Bearer ${authorization}` } }));
  expect([await both(served.token), await both("wrong"), await both("")]).toEqual([200, 401, 401]);
});

test("W1 codes cannot be guessed at any rate, are made by the local token alone, and sessions make no sessions", async () => {
  const served = await serve([]);
  const named = await served.newToken({ name: "boss", scopes: ["admin"] });
  const link = (token: string) => served.fetch("/rotunda/sign-in-link", { method: "POST", token });
  expect((await link(named)).status).toBe(403);
  const page = await openPage(served);
  expect((await page.fetch("/rotunda/sign-in-link", { method: "POST" })).status).toBe(403);
  const good = await codeOf(served);
  const statuses: number[] = [];
  for (let count = 0; count < 14; count++) statuses.push((await signIn(served, { code: `wrong${count}` })).status);
  expect(statuses.slice(0, 10)).toEqual(Array(10).fill(401));
  expect(statuses.slice(-1)).toEqual([429]);
  const limited = await signIn(served, { code: good });
  expect([limited.status, limited.headers.get("retry-after")]).toEqual([429, "2"]);
  // Who is signed in already notices nothing.
  expect((await page.fetch("/v1/models")).status).toBe(200);
});

test("behind a proxy the cookie is the host's own, and only over TLS; without a token there is no session", async () => {
  const hosts = ["rotunda.example.com"];
  const served = await serve([], { door: { behindProxy: true, hosts } });
  const origin = "https://rotunda.example.com";
  const answer = await signIn(served, { token: served.token }, { origin, "x-forwarded-proto": "https" });
  expect(answer.headers.get("set-cookie")).toMatch(
    /^__Host-rotunda=\S+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+; Secure$/,
  );
  const { csrf } = (await answer.json()) as { csrf: string };
  const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";");
  const headers = { cookie, "x-rotunda-csrf": csrf, origin };
  expect((await fetch(`${served.url}/v1/models`, { headers })).status).toBe(200);
  const open: Served = await serve([], { door: { auth: "none" } });
  const session = await open.fetch("/rotunda/session", { token: null });
  expect(await session.json()).toMatchObject({ name: "local", auth: "none", csrf: "" });
});

test("behind a proxy, wrong attempts of one are no reason to refuse another", async () => {
  const served = await serve([], { door: { behindProxy: true } });
  const from = (address: string) => ({ "x-forwarded-for": `10.0.0.9, ${address}` });
  for (let tries = 0; tries < 12; tries++) await signIn(served, { code: "wrong" }, from("203.0.113.7"));
  expect((await signIn(served, { code: "wrong" }, from("203.0.113.7"))).status).toBe(429);
  expect((await signIn(served, { code: await codeOf(served) }, from("203.0.113.8"))).status).toBe(200);
  // Whoever writes his own list is known by what the proxy has put behind it.
  expect((await signIn(served, { code: "wrong" }, from("203.0.113.8, 203.0.113.7"))).status).toBe(429);
});
