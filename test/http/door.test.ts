/** What every request passes through: tokens, scopes, hosts, origins, methods, bodies, errors. */
import { expect, test } from "vitest";
import { newId } from "../../src/util/ids.ts";
import { openDoor, post, raw } from "./door.ts";

const INVALID_KEY = {
  error: {
    message: "Incorrect or missing API key.",
    type: "invalid_request_error",
    param: null,
    code: "invalid_api_key",
  },
};

test("open routes need no token, everything else does", async () => {
  const { request } = await openDoor();
  for (const path of ["/healthz", "/readyz", "/health"]) {
    const answer = await request(path, { as: null });
    expect([answer.status, await answer.json()]).toEqual([200, { status: "ok" }]);
  }
  for (const path of ["/metrics", "/openapi.json", "/demo/who", "/nothing", "/v1/models"]) {
    expect((await request(path, { as: null })).status).toBe(401);
  }
  expect((await request("/.well-known/nothing", { as: null })).status).toBe(404);
  expect((await request("/demo/who")).status).toBe(200);
});

test("every credential that opens nothing has the same answer", async () => {
  const { request, token, app, port } = await openDoor();
  const good = await token();
  const [, id = ""] = good.split("_");
  const known = await app.store.token(id);
  if (!known) throw new Error("no token");
  const expired = await token({ expiresAt: Date.now() - 1 });
  const revoked = await token({ revokedAt: Date.now() - 1 });
  const bad = [
    null,
    "",
    "nonsense",
    `rtd_${id}_${"0".repeat(64)}`,
    `rtd_zzzzzzzzzzzz_${"0".repeat(64)}`,
    `${good}x`,
    expired,
    revoked,
  ];
  for (const as of bad) {
    const answer = await request("/demo/who", { as });
    expect([as, answer.status, await answer.json()]).toEqual([as, 401, INVALID_KEY]);
    expect(answer.headers.get("www-authenticate")).toBe("Bearer");
  }
  const basic = await request("/demo/who", { as: null, headers: { authorization: `Basic ${good}` } });
  expect(basic.status).toBe(401);
  const twice = `GET /demo/who HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${good}\r\nAuthorization: Bearer ${good}\r\n\r\n`;
  expect(await raw(port, twice)).toMatch(/^HTTP\/1\.1 401 /);
  for (const header of ["x-api-key", "api-key"]) {
    expect((await request("/demo/who", { as: null, headers: { [header]: good } })).status).toBe(200);
    expect((await request("/demo/who", { as: null, headers: { [header]: `${good}0` } })).status).toBe(401);
    expect((await request("/demo/who", { as: good, headers: { [header]: good } })).status).toBe(200);
    expect((await request("/demo/who", { as: good, headers: { [header]: "other" } })).status).toBe(401);
  }
  for (const query of [`token=${good}`, `api_key=${good}`, `access_token=${good}`, `a=1&api%5Fkey=${good}`]) {
    const answer = await request(`/demo/who?${query}`, { as: good });
    expect(answer.status).toBe(401);
    expect(((await answer.json()) as typeof INVALID_KEY).error.message).toContain("address");
  }
});

test("a token is itself, has its scopes, and stops when it is revoked", async () => {
  const { request, token, app } = await openDoor();
  const text = await token({ name: "phone", scopes: ["chat"] });
  const [, id = ""] = text.split("_");
  expect(await (await request("/demo/who", { as: text })).json()).toEqual({ owner: id, name: "phone", remote: false });
  expect((await request("/demo/echo", { as: text, ...post({ text: "a" }) })).status).toBe(200);
  const forbidden = await request(`/demo/things/${newId("resp")}`, { as: text });
  expect([forbidden.status, await forbidden.json()]).toMatchObject([403, { error: { code: "insufficient_scope" } }]);
  expect((await request("/metrics", { as: text })).status).toBe(403);
  const known = await app.store.token(id);
  if (!known) throw new Error("no token");
  await app.store.saveToken({ ...known, revokedAt: Date.now() });
  expect((await request("/demo/who", { as: text })).status).toBe(401);
});

test("K13 only our own host names are answered", async () => {
  const { port, local } = await openDoor({ hosts: ["rotunda.example"] });
  const ask = (host: string, path = "/demo/who") =>
    raw(port, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${local}\r\nConnection: close\r\n\r\n`);
  for (const host of [
    `127.0.0.1:${port}`,
    `localhost:${port}`,
    `[::1]:${port}`,
    `LOCALHOST:${port}`,
    "rotunda.example",
  ]) {
    expect([host, (await ask(host)).slice(0, 12)]).toEqual([host, "HTTP/1.1 200"]);
  }
  for (const host of [
    "evil.example",
    `evil.example:${port}`,
    "127.0.0.1",
    "localhost:1",
    `127.0.0.1:${port}.evil.example`,
    "",
  ]) {
    for (const path of ["/demo/who", "/readyz", "/health", "/.well-known/x", "/nothing"]) {
      expect([host, (await ask(host, path)).slice(0, 12)]).toEqual([host, "HTTP/1.1 403"]);
    }
    expect((await ask(host, "/healthz")).slice(0, 12)).toBe("HTTP/1.1 200");
  }
  const two = `GET /demo/who HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nHost: evil.example\r\nAuthorization: Bearer ${local}\r\n\r\n`;
  expect(await raw(port, two)).toMatch(/^HTTP\/1\.1 4/);
  const old = `GET /demo/who HTTP/1.0\r\nAuthorization: Bearer ${local}\r\n\r\n`;
  expect(await raw(port, old)).toMatch(/^HTTP\/1\.1 403/);
  const none = `GET /demo/who HTTP/1.1\r\nAuthorization: Bearer ${local}\r\n\r\n`;
  expect(await raw(port, none)).toMatch(/^HTTP\/1\.1 400/);
});

test("K15 only listed origins, exactly, and never a wildcard", async () => {
  const { request, port } = await openDoor({ cors: ["https://app.example"] });
  const from = (origin: string, init: RequestInit = {}) =>
    request("/demo/who", { ...init, headers: { ...init.headers, origin } });
  const listed = await from("https://app.example");
  expect(listed.status).toBe(200);
  expect(listed.headers.get("access-control-allow-origin")).toBe("https://app.example");
  expect(listed.headers.get("vary")).toBe("Origin");
  expect(listed.headers.get("access-control-allow-credentials")).toBeNull();
  const own = await from(`http://127.0.0.1:${port}`);
  expect([own.status, own.headers.get("access-control-allow-origin")]).toEqual([200, null]);
  for (const origin of [
    "https://evil.example",
    "null",
    "https://app.example.evil.example",
    "http://app.example",
    "*",
  ]) {
    const refused = await from(origin);
    expect([origin, refused.status]).toEqual([origin, 403]);
    expect(refused.headers.get("access-control-allow-origin")).toBeNull();
    const preflight = await from(origin, { method: "OPTIONS", headers: { "access-control-request-method": "POST" } });
    expect(preflight.status).toBe(403);
  }
  const headers = {
    "access-control-request-method": "DELETE",
    "access-control-request-headers": "authorization, content-type, x-stainless-os",
  };
  const preflight = await request("/demo/echo", {
    as: null,
    method: "OPTIONS",
    headers: { ...headers, origin: "https://app.example" },
  });
  expect(preflight.status).toBe(204);
  expect(Object.fromEntries(preflight.headers)).toMatchObject({
    "access-control-allow-origin": "https://app.example",
    "access-control-allow-headers": "authorization, content-type, x-stainless-os",
    vary: "Origin",
  });
  for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"]) {
    expect(preflight.headers.get("access-control-allow-methods")).toContain(method);
  }
});

test("K21 unknown paths and wrong methods are JSON, HEAD and OPTIONS make sense", async () => {
  const { request, port, local } = await openDoor();
  const unknown = await request("/v1/none");
  expect([unknown.status, await unknown.json()]).toMatchObject([404, { error: { code: "not_found" } }]);
  const wrong = await request("/demo/echo", { method: "DELETE" });
  expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
  expect(await wrong.json()).toMatchObject({ error: { code: "method_not_allowed" } });
  const plain = await request("/demo/effects");
  expect([plain.status, await plain.json()]).toMatchObject([405, { error: expect.any(String) }]);
  const head = await request("/demo/who", { method: "HEAD" });
  expect([head.status, await head.text()]).toEqual([200, ""]);
  expect(Number(head.headers.get("content-length"))).toBeGreaterThan(10);
  const stream = await request("/demo/stream?stay", { method: "HEAD" });
  expect([stream.status, await stream.text()]).toEqual([200, ""]);
  const options = await request("/demo/who", { method: "OPTIONS", as: null });
  expect([options.status, options.headers.get("allow")]).toEqual([204, "GET, HEAD, OPTIONS"]);
  for (const method of ["TRACE", "BREW", "PROPFIND"]) {
    const line = `${method} /demo/who HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${local}\r\n\r\n`;
    expect([method, (await raw(port, line)).slice(0, 10)]).toEqual([method, "HTTP/1.1 4"]);
  }
  const connect = `CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n`;
  expect(await raw(port, connect)).toMatch(/^HTTP\/1\.1 405 /);
  const upgrade = `GET /demo/who HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${local}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`;
  expect(await raw(port, upgrade)).toMatch(/^HTTP\/1\.1 (200|4\d\d) /);
  expect(await raw(port, `OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`)).toMatch(/^HTTP\/1\.1 204 /);
});

test("K6 what is no id is never looked up", async () => {
  const { request } = await openDoor();
  const id = newId("resp");
  expect((await request(`/demo/things/${id}`)).status).toBe(404);
  const bad = [
    "..%2f..%2fetc%2fpasswd",
    "resp_%00",
    `resp_${"a".repeat(10_000)}`,
    `${id.slice(0, -1)}%D0%B0`,
    "%ff",
    "%zz",
    `${id}%20`,
    "resp_",
  ];
  for (const one of bad) {
    const answer = await request(`/demo/things/${one}`);
    expect([one, answer.status, await answer.json()]).toMatchObject([one, 404, { error: { code: "invalid_id" } }]);
  }
  for (const one of ["%2e%2e", "a%2fb", "a%5cb", "%00", "a".repeat(257), "%0a", "%ed%a0%80"]) {
    expect([one, (await request(`/demo/names/${one}`)).status]).toEqual([one, 404]);
  }
  expect(await (await request("/demo/names/echo%20server%C3%A4")).json()).toEqual({ name: "echo serverä" });
});

test("K10 a form cannot post here, and has no effect", async () => {
  const { request, demo } = await openDoor();
  const types = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "",
    "application/jsonp",
    "text/json",
    "application/json; charset=utf-16",
  ];
  for (const type of types) {
    for (const path of ["/demo/effects", "/demo/press"]) {
      const answer = await request(path, {
        method: "POST",
        body: Buffer.from("{}"),
        headers: { "content-type": type },
      });
      expect([type, answer.status]).toEqual([type, 415]);
    }
  }
  const zipped = await request("/demo/effects", { ...post({}), headers: { "content-encoding": "gzip" } });
  expect(zipped.status).toBe(415);
  expect((await request("/demo/effects", { method: "POST" })).status).toBe(400);
  expect(demo.effects).toBe(0);
  for (const type of [
    "application/json",
    "Application/JSON; charset=UTF-8",
    'application/json;charset="utf-8"',
    "application/vnd.x+json",
  ]) {
    expect((await request("/demo/effects", { ...post({}), headers: { "content-type": type } })).status).toBe(201);
  }
  expect((await request("/demo/press", { method: "POST" })).status).toBe(200);
});

test("errors have the route's style, hide our own faults, and name the request", async () => {
  const { request, lines } = await openDoor();
  const broken = await request("/demo/broken", { headers: { "x-request-id": "my.request-1" } });
  expect([broken.status, await broken.json()]).toEqual([
    500,
    { error: { message: "Internal Server Error", type: "server_error", param: null, code: "internal" } },
  ]);
  expect(broken.headers.get("x-request-id")).toBe("my.request-1");
  const fault = lines.find((line) => line.includes('"fault"')) ?? "";
  expect(JSON.parse(fault)).toMatchObject({ level: "error", request_id: "my.request-1", route: "/demo/broken" });
  expect(fault).toContain("the secret is ***");
  expect((await request("/demo/silent")).status).toBe(500);
  const strange = await request("/demo/who", { headers: { "x-request-id": "a b\tc" } });
  expect(strange.headers.get("x-request-id")).toMatch(/^req_/);
  const late = await request("/demo/accepted", { method: "POST" });
  expect([late.status, late.headers.get("x-should-retry")]).toEqual([502, "false"]);
  expect(broken.headers.get("x-should-retry")).toBeNull();
  const invalid = await request("/demo/echo", post({ text: 7 }));
  expect([invalid.status, await invalid.json()]).toMatchObject([
    400,
    { error: { param: "text", type: "invalid_request_error" } },
  ]);
  const headers = Object.fromEntries(invalid.headers);
  expect(headers).toMatchObject({
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
  });
  expect(headers.server).toBeUndefined();
  expect(headers["x-powered-by"]).toBeUndefined();
});

test("the access log has one line a request, without query and secrets", async () => {
  const { request, lines, local } = await openDoor();
  await (await request("/demo/names/anna?note=private-words")).text();
  await (await request("/nothing/at/all?note=private-words", { as: null })).text();
  await expect.poll(() => lines.length).toBe(2);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({
    method: "GET",
    route: "/demo/names/:name",
    status: 200,
    ms: expect.any(Number),
    bytes: expect.any(Number),
    token: "local",
  });
  expect(JSON.parse(lines[1] ?? "")).toMatchObject({ route: null, status: 401, token: "nobody" });
  for (const word of ["private-words", "anna", local]) expect(lines.join("\n")).not.toContain(word);
});
