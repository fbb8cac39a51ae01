/** The page's files as they are served, its headers, and the way to it from the command line. The program was built. */
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { home } from "../cli/run.ts";
import { later } from "../support.ts";
import { openDoor, raw } from "./door.ts";
import { openPage, type PageClient, signIn } from "./page-client.ts";

const SLOW = { timeout: 60_000 };
const folder = join(import.meta.dirname, "../../dist/page");

/** As it was sent: what fetch would decompress. */
function bodyOf(said: string): { head: string; body: Buffer } {
  const at = said.indexOf("\r\n\r\n");
  return { head: said.slice(0, at).toLowerCase(), body: Buffer.from(said.slice(at + 4), "latin1") };
}

test("W2 the page is one file for all its addresses, under a policy that runs nothing but our own files", async () => {
  const { request } = await openDoor();
  const index = readFileSync(join(folder, "index.html"), "utf8");
  for (const path of ["/", "/c/conv_1", "/tree/resp_1", "/search?q=x", "/compare/a/b", "/settings"]) {
    const answer = await request(path, { as: null });
    expect([path, answer.status, await answer.text()]).toEqual([path, 200, index]);
    const { headers } = answer;
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(headers.get("cache-control")).toBe("no-cache");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
    expect(headers.get("permissions-policy")).toContain("camera=()");
    expect(headers.get("set-cookie")).toBeNull();
    const policy = headers.get("content-security-policy") ?? "";
    const directives = new Map(policy.split("; ").map((one) => [one.split(" ")[0], one.split(" ").slice(1).join(" ")]));
    expect(directives.get("default-src")).toBe("'none'");
    for (const name of ["script-src", "style-src", "connect-src"]) expect(directives.get(name)).toBe("'self'");
    for (const name of ["base-uri", "form-action", "frame-ancestors"]) expect(directives.get(name)).toBe("'none'");
    expect(directives.get("require-trusted-types-for")).toBe("'script'");
    expect(policy).not.toContain("unsafe");
  }
  const etag = (await request("/", { as: null })).headers.get("etag") ?? "";
  expect((await request("/", { as: null, headers: { "if-none-match": etag } })).status).toBe(304);
  // What the document names is there, and is ours.
  const named = [...index.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, address = ""]) => address);
  expect(named.length).toBeGreaterThan(0);
  for (const address of named) {
    expect(address).toMatch(/^\/page\//);
    expect((await request(address, { as: null })).status, address).toBe(200);
  }
  expect(index).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=/i);
});

test("W2 files are sent compressed and kept for ever, and nothing outside their folder is", async () => {
  const { request, port } = await openDoor();
  const script = readdirSync(folder).find((name) => name.endsWith(".js")) ?? "";
  const content = readFileSync(join(folder, script));
  const answer = await request(`/page/${script}`, { as: null });
  expect(answer.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
  expect(answer.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
  expect(Buffer.from(await answer.arrayBuffer()).equals(content)).toBe(true);
  const ask = (encoding: string) =>
    raw(
      port,
      `GET /page/${script} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAccept-Encoding: ${encoding}\r\nConnection: close\r\n\r\n`,
    );
  const brotli = bodyOf(await ask("gzip, deflate, br"));
  expect(brotli.head).toContain("content-encoding: br");
  expect(brotli.head).toContain("vary: accept-encoding");
  expect(brotliDecompressSync(brotli.body).equals(content)).toBe(true);
  const zipped = bodyOf(await ask("br;q=0, gzip"));
  expect(zipped.head).toContain("content-encoding: gzip");
  expect(gunzipSync(zipped.body).equals(content)).toBe(true);
  expect(bodyOf(await ask("identity")).head).not.toContain("content-encoding");
  for (const path of [
    "/page/index.html",
    "/page/../main.js",
    "/page/..%2fmain.js",
    "/page/%2e%2e%2fmain.js",
    "/page/..%5cmain.js",
    "/page/.env",
    "/page/",
    `/page/${script}.br`,
    `/page/${script}%00`,
    "/page/nothing.js",
  ]) {
    const said = await raw(port, `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`, 100);
    expect(said.slice(0, 12), path).toMatch(/HTTP\/1.1 40[14]/);
    expect(said, path).toContain('"error"');
  }
  const rebound = await raw(port, `GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n`, 100);
  expect(rebound.slice(0, 12)).toBe("HTTP/1.1 403");
});

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

test(
  "W1 rotunda open makes a link that signs in once; the session outlives a server that is killed",
  SLOW,
  async () => {
    const place = home();
    const none = await place.run(["open", "--print"]);
    expect([none.code, none.out]).toEqual([1, ""]);
    expect(none.err).toContain("rotunda start");
    const port = String(await freePort());
    const begin = async () => {
      const started = place.start(["serve", "--port", port]);
      later(() => void started.child.kill("SIGKILL"));
      await expect.poll(started.out, { timeout: 20_000 }).toContain("listening");
      return started;
    };
    const first = await begin();
    const printed = await place.run(["open", "--print"]);
    const url = `http://127.0.0.1:${port}`;
    const [, code = ""] = new RegExp(`^${url}/#sign-in=([\\w-]{43})\\n$`).exec(printed.out) ?? [];
    const answer = await signIn({ url }, { code });
    expect(answer.status).toBe(200);
    const { csrf } = (await answer.json()) as PageClient["session"];
    const [cookie = ""] = (answer.headers.get("set-cookie") ?? "").split(";");
    const headers = { cookie, "x-rotunda-csrf": csrf, "sec-fetch-site": "same-origin" };
    expect((await fetch(`${url}/rotunda/session`, { headers })).status).toBe(200);
    // The fragment of a link stays in the browser, and a log that is no terminal has no link at all.
    for (const secret of [code, cookie, csrf]) expect(first.err() + first.out()).not.toContain(secret);
    expect(first.err() + first.out()).not.toContain("sign-in=");
    first.child.kill("SIGKILL");
    await first.result;
    await begin();
    expect((await fetch(`${url}/v1/responses`, { headers })).status).toBe(200);
    const token = readFileSync(join(place.environment.ROTUNDA_HOME ?? "", "token"), "utf8").trim();
    expect((await openPage({ url, token })).session.name).toBe("local");
  },
);
