/** Attacks on the page's session and routes: links at one moment, fixation, simple requests, hosts, methods, paths. */
import { request as rawRequest } from "node:http";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { makeSession } from "../../src/doors/http/session-cookie.ts";
import { codeOf, openPage, signIn } from "../http/page-client.ts";
import { type Served, serve } from "../http/served.ts";

/** Sent as it is written: no client repairs its path. */
function ask(
  served: Served,
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body?: string,
): Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: string }> {
  const { hostname, port } = new URL(served.url);
  return new Promise((resolve, reject) => {
    const sent = rawRequest({ hostname, port, method, path, headers, agent: false }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: text }));
    });
    sent.setTimeout(5_000, () => sent.destroy(new Error(`${method} ${path} had no end`)));
    sent.on("error", reject).end(body);
  });
}

const ROUTES = [
  "/",
  "/page/nothing-here.js",
  "/rotunda/session",
  "/rotunda/sign-in",
  "/rotunda/sign-in-link",
  "/rotunda/news",
  "/v1/tree?response=x",
  "/v1/search?q=x",
  "/v1/usage",
];

test("W1 of many sign-ins with one link at one moment one succeeds, with a code that is nowhere else", async () => {
  const said: string[] = [];
  const served = await serve([], {
    door: { accessLog: true, log: (text: unknown) => said.push(String(text)) } as never,
  });
  const code = await codeOf(served);
  const answers = await Promise.all(Array.from({ length: 8 }, () => signIn(served, { code })));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(answers.filter((one) => one.headers.get("set-cookie") !== null)).toHaveLength(1);
  // A code is a code and no token, in no way of asking; and no code is in a log.
  for (const headers of [{ authorization: `Bearer ${code}` }, { "x-api-key": code }, { cookie: `rotunda=${code}` }]) {
    expect((await fetch(`${served.url}/v1/models`, { headers: headers as never })).status).toBe(401);
  }
  expect(said.join("\n")).not.toContain(code);
  for (const odd of [`${code} `, `${code}\u0000`, code.toUpperCase(), `${code}%00`, "", "a".repeat(201)]) {
    const fresh = await codeOf(served);
    expect([400, 401, 429]).toContain((await signIn(served, { code: odd.replace(code, `${fresh}x`) })).status);
  }
});

test("W1 a cookie of before the sign-in is not the session of after it, nor one of another port, host or token", async () => {
  const served = await serve([]);
  const other = await serve([]);
  const planted = makeSession("local", Buffer.alloc(32, 1), Date.now() + 1e9);
  const port = new URL(served.url).port;
  const answer = await signIn(served, { code: await codeOf(served) }, { cookie: `rotunda_${port}=${planted.cookie}` });
  const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";");
  expect(cookie).not.toContain(planted.cookie);
  const { csrf } = (await answer.json()) as { csrf: string };
  const status = async (url: string, headers: Record<string, string>) =>
    (await fetch(`${url}/v1/models`, { headers: { "sec-fetch-site": "same-origin", ...headers } })).status;
  expect(await status(served.url, { cookie, "x-rotunda-csrf": csrf })).toBe(200);
  expect(await status(served.url, { cookie, "x-rotunda-csrf": planted.csrf })).toBe(403);
  // The other server has another local token, and looks for a cookie of its own name.
  const there = cookie.replace(`rotunda_${port}`, `rotunda_${new URL(other.url).port}`);
  for (const one of [cookie, there, cookie.replace(/^[^=]+/, "__Host-rotunda")]) {
    expect([401, 403]).toContain(await status(other.url, { cookie: one, "x-rotunda-csrf": csrf }));
  }
  // Cookies of other names and broken ones in front of it, up to what a header may have, keep nobody out.
  const crowd = Array.from({ length: 40 }, (_, at) => `junk${at}=${"x".repeat(50)}`).join("; ");
  expect(await status(served.url, { cookie: `${crowd}; ${cookie}`, "x-rotunda-csrf": csrf })).toBe(200);
  for (const broken of ["", "=", ";;;;", `rotunda_${port}`, `rotunda_${port}=${"a.".repeat(3_000)}`]) {
    expect(await status(served.url, { cookie: broken, "x-rotunda-csrf": csrf })).toBe(401);
  }
});

test("W2 no simple request does anything: forms of all kinds, no type, JSON in disguise, methods in headers", async () => {
  const served = await serve([{ text: "never" }]);
  const page = await openPage(served);
  const { cookie, csrf } = page;
  const evil = { cookie, origin: "https://evil.example", "sec-fetch-site": "cross-site" };
  const body = JSON.stringify({ model: "test-model", input: "by mallory" });
  const types = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain; application/json",
    "application/json-seq",
    "application/jsonp",
    "",
  ];
  const posts = [
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/emergency-stop",
    "/v1/tool-approval",
    "/rotunda/sign-in",
  ];
  for (const path of posts) {
    for (const type of types) {
      const typed = type === "" ? {} : { "content-type": type };
      expect([path, type, (await ask(served, "POST", path, { ...evil, ...typed }, body)).status]).toEqual([
        path,
        type,
        403,
      ]);
      // From our own page, with both halves, only JSON is read.
      const own = { cookie, origin: served.url, "sec-fetch-site": "same-origin", "x-rotunda-csrf": csrf };
      const asked = await ask(served, "POST", path, { ...own, ...typed }, body);
      expect([path, type, asked.status]).toEqual([path, type, 415]);
    }
  }
  for (const method of ["GET", "HEAD"]) {
    for (const path of ["/v1/emergency-stop", "/rotunda/sign-in-link", "/rotunda/sign-in"]) {
      const headers = { ...evil, "x-http-method-override": "POST", "x-method-override": "DELETE" };
      expect((await ask(served, method, `${path}?_method=POST`, headers)).status).toBe(403);
    }
  }
  const own = { cookie, "x-rotunda-csrf": csrf, "sec-fetch-site": "same-origin", "x-http-method-override": "DELETE" };
  expect((await ask(served, "GET", "/rotunda/session?_method=DELETE", own)).status).toBe(200);
  expect((await page.fetch("/rotunda/session")).status).toBe(200);
  expect(await served.app.store.list({})).toEqual([]);
});

test("K13 W2 a name that leads here by DNS has neither the page, nor its files, nor a sign-in", async () => {
  const served = await serve([]);
  const page = await openPage(served);
  const port = new URL(served.url).port;
  const hosts = [
    `evil.example:${port}`,
    "127.0.0.1",
    `127.0.0.1:${Number(port) + 1}`,
    `localhost.:${port}`,
    `127.0.0.1.nip.io:${port}`,
    `0.0.0.0:${port}`,
    `[::ffff:127.0.0.1]:${port}`,
    `user@127.0.0.1:${port}`,
    `127.0.0.1:${port}, evil.example`,
    "",
  ];
  const session = { cookie: page.cookie, "x-rotunda-csrf": page.csrf, "sec-fetch-site": "same-origin" };
  for (const host of hosts) {
    for (const path of ROUTES) {
      for (const method of ["GET", "OPTIONS", "POST"]) {
        const answer = await ask(served, method, path, { host, ...session, origin: `http://${host}` });
        expect([host, method, path, answer.status]).toEqual([
          host,
          method,
          path,
          expect.toSatisfy((one) => one === 403 || one === 400),
        ]);
        expect(answer.headers["set-cookie"]).toBeUndefined();
      }
    }
  }
  // A path that is a whole address decides nothing: the header does.
  const proxied = await ask(served, "GET", `http://evil.example/v1/models`, session);
  expect(proxied.status).not.toBe(200);
});

test("K21 W2 every method on every route of the page ends, and only what is public is for nobody", async () => {
  const served = await serve([]);
  const page = await openPage(served);
  const session = { cookie: page.cookie, "x-rotunda-csrf": page.csrf, "sec-fetch-site": "same-origin" };
  for (const path of ROUTES) {
    for (const method of ["GET", "HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "PROPFIND", "QUERY"]) {
      if (method === "GET" && path === "/rotunda/news") continue;
      for (const who of [{}, session]) {
        const { status, headers } = await ask(served, method, path, who);
        const isOpen = path === "/" || path.startsWith("/page/") || method === "OPTIONS";
        if (who !== session && !isOpen && path !== "/rotunda/sign-in")
          expect([method, path, status]).toEqual([method, path, 401]);
        expect([method, path, status < 500]).toEqual([method, path, true]);
        expect(headers["x-content-type-options"]).toBe("nosniff");
        expect(headers["content-security-policy"]).toContain("frame-ancestors 'none'");
        if (!isOpen)
          expect([method, path, headers["cache-control"]]).toEqual([method, path, expect.stringContaining("no-store")]);
        expect(headers["access-control-allow-origin"]).toBeUndefined();
        expect(headers["access-control-allow-credentials"]).toBeUndefined();
      }
    }
  }
  // A stream that is asked for by HEAD is none, and holds no place.
  await expect.poll(() => served.app.store.list({})).toEqual([]);
  const news = await fetch(`${served.url}/rotunda/news`, { method: "HEAD", headers: session });
  expect([news.status, await news.text()]).toEqual([200, ""]);
});

test("W2 no path leads out of the page's folder, in no writing; ranges and workers get nothing special", async () => {
  const served = await serve([]);
  const secrets = ["../main.js", "..%2fmain.js", "%2e%2e%2fmain.js", "%252e%252e%252fmain.js", "..%5cmain.js"];
  const more = ["....//main.js", "..%c0%afmain.js", "%u002e%u002e/main.js", "index.html", "index.html.br", ".", ".."];
  const last = ["%00index.js", "x.js%00.png", "x.js/..", "/etc/passwd", "%2fetc%2fpasswd", "x".repeat(300), "con", "~"];
  for (const name of [...secrets, ...more, ...last]) {
    const { status, body } = await ask(served, "GET", `/page/${name}`);
    expect([name, [400, 401, 404].includes(status)]).toEqual([name, true]);
    expect(body).toMatch(/^\{/);
  }
  for (const path of [
    "//page/x",
    "/page",
    "/page/",
    "/./",
    "/..",
    "/%2e",
    "/page/../v1/models",
    "/PAGE/x.js",
    "/c/../../x",
  ]) {
    expect([path, (await ask(served, "GET", path)).status]).toEqual([
      path,
      expect.toSatisfy((one) => one >= 400 && one < 500),
    ]);
  }
  const { headers, status } = await ask(served, "GET", "/", { range: "bytes=0-1", "service-worker": "script" });
  expect([status, headers["content-range"], headers["service-worker-allowed"]]).toEqual([200, undefined, undefined]);
  expect(headers["content-security-policy"]).not.toMatch(/worker-src|unsafe|\*/);
});

test("W1 a revoked token, one with less rights and one of a profile do through a session what they do without", async () => {
  const served = await serve([{ text: "ok" }]);
  const text = await served.newToken({ name: "reader", scopes: ["responses:read"], profiles: ["explore"] });
  const page = await openPage(served, text);
  const forbidden: [string, object | undefined, string?][] = [
    ["/v1/responses", { model: "test-model", input: "x" }],
    ["/v1/tool-approval", { approvalId: "x", approved: true }],
    ["/v1/elicitation/x/resolve", { action: "accept" }],
    ["/v1/settings", undefined],
    ["/v1/settings", { x: 1 }, "PATCH"],
    ["/v1/mcp/servers", { name: "x", config: { command: "true" } }],
    ["/v1/mcp/servers/x/logs", undefined],
    ["/v1/oauth/initiate", { serverName: "x" }],
    ["/v1/rules", undefined],
    ["/v1/emergency-stop", {}],
    ["/rotunda/sign-in-link", {}],
    ["/mcp/tools/call", { name: "read", arguments: {} }],
  ];
  for (const [path, json, method] of forbidden) {
    const answer = await page.fetch(path, {
      ...(json !== undefined && { json }),
      ...(method !== undefined && { method }),
    });
    expect([path, answer.status]).toEqual([path, expect.toSatisfy((one) => one === 403 || one === 404)]);
  }
  expect(page.session.scopes).toEqual(["responses:read"]);
  const [token] = (await served.app.store.tokens()).filter(({ name }) => name === "reader");
  if (!token) throw new Error("there is no such token");
  await served.app.store.saveToken({ ...token, scopes: [] });
  expect((await page.fetch("/v1/search?q=x")).status).toBe(403);
  await served.app.store.saveToken({ ...token, revokedAt: Date.now() });
  for (const path of ["/rotunda/session", "/v1/search?q=x", "/v1/usage", "/rotunda/news", "/v1/tree?response=x"]) {
    expect([path, (await page.fetch(path)).status]).toEqual([path, 401]);
  }
});

test("K17 W2 two requests in one, and headers twice, are no way to a session", async () => {
  const served = await serve([]);
  const page = await openPage(served);
  const { port } = new URL(served.url);
  const head = `Host: 127.0.0.1:${port}\r\nCookie: ${page.cookie}\r\nSec-Fetch-Site: same-origin\r\n`;
  const raw = (text: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), "127.0.0.1", () => socket.write(text));
      let said = "";
      socket.setEncoding("utf8").on("data", (part: string) => {
        said += part;
      });
      socket.on("close", () => resolve(said)).on("error", reject);
    });
  for (const half of [
    "",
    `X-Rotunda-Csrf: ${page.csrf}\r\nX-Rotunda-Csrf: x\r\n`,
    `X-Rotunda-Csrf : ${page.csrf}\r\n`,
  ]) {
    const said = await raw(`GET /v1/models HTTP/1.1\r\n${head}${half}Connection: close\r\n\r\n`);
    expect(said).toMatch(/^HTTP\/1\.1 40[013]/);
  }
  const twoHosts = await raw(`GET / HTTP/1.1\r\nHost: evil.example\r\n${head}Connection: close\r\n\r\n`);
  expect(twoHosts).toMatch(/^HTTP\/1\.1 40[03]/);
  const good = await raw(`GET /v1/models HTTP/1.1\r\n${head}X-Rotunda-Csrf: ${page.csrf}\r\nConnection: close\r\n\r\n`);
  expect(good).toMatch(/^HTTP\/1\.1 200/);
});
