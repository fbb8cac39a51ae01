/** Logging in to servers over HTTP: the flow, what is stored, renewal, logout; M20 and B25. */
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Hub } from "../../src/hub/hub-types.ts";
import type { LoginStart } from "../../src/types/app.ts";
import type { ServerConfig } from "../../src/types/config.ts";
import { serve, serveModern } from "../fixtures/mcp/http-servers.ts";
import { type Protected, type ProtectedOptions, serveProtected } from "../fixtures/mcp/oauth-server.ts";
import { call, cleanup, openHub, temporaryDirectory, until } from "./support.ts";

async function protectedServer(options: ProtectedOptions = {}): Promise<Protected> {
  const server = await serveProtected(options);
  cleanup(() => server.close());
  return server;
}

function config(server: { url: string }, more: Partial<ServerConfig> = {}): ServerConfig {
  return { name: "docs", transport: "http", url: server.url, disabled: false, origin: "test", ...more };
}

/** The person at a browser; resolves with the status of the page that they end at. */
async function logIn(hub: Hub, server: Protected, name = "docs"): Promise<{ start: LoginStart; page: number }> {
  let start: LoginStart | undefined;
  let page: Promise<number> = Promise.resolve(0);
  await hub.login(
    name,
    (shown) => {
      start = shown;
      page = server.consent(shown.authorizationUrl).then(async (to) => (await fetch(to)).status);
    },
    AbortSignal.timeout(20_000),
  );
  if (!start) throw new Error("no address was shown");
  return { start, page: await page };
}

function stateFiles(directory: string): string[] {
  return readdirSync(join(directory, "oauth"));
}

function stored(directory: string): string {
  return readFileSync(join(directory, "oauth", stateFiles(directory)[0] ?? ""), "utf8");
}

describe("the flow", () => {
  it("B25 M20 a server that needs a login says so; a person logs in, and its tools work", async () => {
    const server = await protectedServer();
    const directory = temporaryDirectory();
    const hub = openHub(directory, [config(server)]);
    expect(await hub.list()).toEqual([]);
    expect(hub.servers()[0]).toMatchObject({
      state: "needs_login",
      connected: false,
      error: expect.stringContaining("rotunda hub login docs"),
    });
    const { start, page } = await logIn(hub, server);
    expect(page).toBe(200);
    const authorization = new URL(start.authorizationUrl).searchParams;
    expect(Object.fromEntries(authorization)).toMatchObject({
      response_type: "code",
      code_challenge_method: "S256",
      resource: server.url,
      scope: "tools:read",
      state: start.state,
    });
    expect(start.redirectUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/oauth\/callback$/);
    expect(server.registrations).toMatchObject([
      { client_name: "Rotunda", redirect_uris: [start.redirectUrl], token_endpoint_auth_method: "none" },
    ]);
    expect(hub.servers()[0]).toMatchObject({ state: "healthy", connected: true, toolCount: 2 });
    expect(await call(hub, "docs__hello")).toEqual({ text: "hello!" });
    const [folder, file] = [join(directory, "oauth"), stateFiles(directory)];
    expect(file).toHaveLength(1);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, file[0] ?? "")).mode & 0o777).toBe(0o600);
  });

  it("another process finds the login, and that one is needed", async () => {
    const server = await protectedServer();
    const directory = temporaryDirectory();
    const first = openHub(directory, [config(server)]);
    const second = openHub(directory, [config(server)]);
    await first.list();
    expect(second.servers()[0]).toMatchObject({ state: "needs_login" });
    await logIn(second, server);
    expect(first.servers()[0]?.state).not.toBe("needs_login");
    expect(await call(first, "docs__hello")).toEqual({ text: "hello!" });
    await first.close();
    expect(await call(openHub(directory, [config(server)]), "docs__hello")).toEqual({ text: "hello!" });
  });

  it("a call that needs a login tells the remedy, and asks the server no further", async () => {
    const server = await protectedServer();
    const directory = temporaryDirectory();
    const hub = openHub(directory, [config(server)]);
    await logIn(hub, server);
    await hub.list();
    server.tokens.clear();
    server.refreshTokens.clear();
    const refused = await call(hub, "docs__hello");
    expect(refused).toMatchObject({ isError: true, text: expect.stringContaining("rotunda hub login docs") });
    expect(hub.servers()[0]).toMatchObject({ state: "needs_login", toolCount: 2 });
    server.seen.length = 0;
    expect((await call(hub, "docs__hello")).text).toContain("rotunda hub login docs");
    expect(server.seen).toEqual([]);
    expect(server.calls).toEqual([]);
    await logIn(hub, server);
    expect(await call(hub, "docs__hello")).toEqual({ text: "hello!" });
    // The client is known there already.
    expect(server.registrations).toHaveLength(1);
  });

  it("a state is good once, for ten minutes, and for its own server", async () => {
    const server = await protectedServer();
    let now = Date.now();
    const clock = { now: () => now, sleep: () => Promise.resolve() };
    const hub = openHub(temporaryDirectory(), [config(server), config(server, { name: "other" })], { clock });
    const begin = async () => {
      const start = await hub.beginLogin("docs", "http://127.0.0.1:1/oauth/callback");
      const parameters = (await server.consent(start.authorizationUrl)).searchParams;
      const [code = "", iss = ""] = [parameters.get("code") ?? "", parameters.get("iss") ?? ""];
      return { state: start.state, code, iss };
    };
    const late = await begin();
    now += 11 * 60_000;
    await expect(hub.finishLogin(late)).rejects.toMatchObject({ code: "not_found" });
    await expect(hub.finishLogin({ ...(await begin()), server: "other" })).rejects.toMatchObject({ code: "not_found" });
    await expect(hub.finishLogin({ state: "guessed", code: "x" })).rejects.toMatchObject({ code: "not_found" });
    const good = await begin();
    expect(await hub.finishLogin(good)).toBe("docs");
    await expect(hub.finishLogin(good)).rejects.toMatchObject({ code: "not_found" });
    const refused = await begin();
    await expect(hub.finishLogin({ state: refused.state, error: "access_denied" })).rejects.toMatchObject({
      code: "hub_unreachable",
      message: expect.stringContaining("access_denied"),
    });
  });

  it("the loopback listener answers nothing but its own path and state, and ends with the login", async () => {
    const server = await protectedServer();
    const hub = openHub(temporaryDirectory(), [config(server)]);
    let redirect = "";
    const statuses: number[] = [];
    await hub.login(
      "docs",
      ({ redirectUrl, authorizationUrl }) => {
        redirect = redirectUrl;
        void (async () => {
          for (const wrong of ["", "?state=guessed&code=x", "/more", "?code=x"]) {
            statuses.push((await fetch(`${redirectUrl}${wrong}`)).status);
          }
          statuses.push((await fetch(await server.consent(authorizationUrl))).status);
        })();
      },
      AbortSignal.timeout(20_000),
    );
    expect(statuses).toEqual([404, 404, 404, 404, 200]);
    await expect(fetch(redirect)).rejects.toThrow();
    const given = new AbortController();
    const waiting = hub.login("docs", () => given.abort(), given.signal);
    await expect(waiting).rejects.toMatchObject({ code: "cancelled" });
  });

  it("a configured client, its port and its secret are used as they are", async () => {
    const server = await protectedServer({ client: { id: "ours", secret: "s3cret-value" } });
    const probe = await serve(() => undefined);
    const redirectPort = Number(new URL(probe.url).port);
    const oauth = { clientId: "ours", clientSecret: "s3cret-value", scopes: ["tools:write"], redirectPort };
    const hub = openHub(temporaryDirectory(), [config(server, { oauth })]);
    await hub.list();
    await expect(hub.login("docs", () => undefined, AbortSignal.timeout(5000))).rejects.toMatchObject({
      code: "usage",
    });
    await probe.close();
    const { start } = await logIn(hub, server);
    expect(start.redirectUrl).toBe(`http://127.0.0.1:${redirectPort}/oauth/callback`);
    expect(new URL(start.authorizationUrl).searchParams.get("scope")).toBe("tools:write tools:read");
    expect(server.registrations).toEqual([]);
    expect(await call(hub, "docs__hello")).toEqual({ text: "hello!" });
  });

  it("client credentials need no person, and are renewed the same way", async () => {
    const server = await protectedServer({ client: { id: "machine", secret: "s3cret-value" } });
    const oauth = { clientId: "machine", clientSecret: "s3cret-value", flow: "client_credentials" as const };
    const hub = openHub(temporaryDirectory(), [config(server, { oauth })]);
    expect(await call(hub, "docs__hello")).toEqual({ text: "hello!" });
    server.tokens.clear();
    expect(await call(hub, "docs__hello")).toEqual({ text: "hello!" });
    expect(server.posted.map((form) => form.get("grant_type"))).toEqual(["client_credentials", "client_credentials"]);
    await expect(hub.beginLogin("docs", "http://127.0.0.1:1/")).rejects.toMatchObject({ code: "usage" });
  });

  it("a tool that wants more scopes says so; the next login asks for them and keeps the others", async () => {
    const server = await protectedServer({ adminScope: "tools:admin" });
    const hub = openHub(temporaryDirectory(), [config(server)]);
    await hub.list();
    await logIn(hub, server);
    expect((await call(hub, "docs__admin")).text).toMatch(/further permission \(tools:admin\): rotunda hub login docs/);
    expect(hub.servers()[0]?.state).toBe("healthy");
    expect(await call(hub, "docs__hello")).toEqual({ text: "hello!" });
    const { start } = await logIn(hub, server);
    expect(new URL(start.authorizationUrl).searchParams.get("scope")).toBe("tools:read tools:admin");
    expect(await call(hub, "docs__admin")).toEqual({ text: "admin!" });
  });

  it("a server that wants no login any more is found out without one", async () => {
    const server = await protectedServer();
    const directory = temporaryDirectory();
    const hub = openHub(directory, [config(server)]);
    await hub.list();
    const port = Number(new URL(server.url).port);
    await server.close();
    const open = await serveModern("stateless", port);
    cleanup(() => open.close());
    // The first attempt may go to a connection that the old server has just closed.
    await until(async () => (await hub.test("docs")).ok);
    expect(stateFiles(directory)).toEqual([]);
  });

  it("oauth: false and a configured Authorization header leave a 401 an error", async () => {
    const server = await protectedServer();
    const hub = openHub(temporaryDirectory(), [
      config(server, { oauth: false, name: "never" }),
      config(server, { headers: { authorization: "Bearer fixed" }, name: "fixed" }),
    ]);
    await hub.list();
    for (const { state, error } of hub.servers()) {
      expect(state).toBe("failed");
      expect(error).toMatch(/401/);
    }
    await expect(hub.beginLogin("never", "http://127.0.0.1:1/")).rejects.toMatchObject({ code: "usage" });
    await expect(hub.beginLogin("unknown", "http://127.0.0.1:1/")).rejects.toMatchObject({ code: "not_found" });
  });
});

describe("what is stored", () => {
  it("tokens are in the one file and nowhere else; what a server repeats of them is redacted", async () => {
    const server = await protectedServer();
    const directory = temporaryDirectory();
    const hub = openHub(directory, [config(server)]);
    await hub.list();
    await logIn(hub, server);
    await call(hub, "docs__hello");
    const [access = ""] = server.tokens.keys();
    const [refresh = ""] = server.refreshTokens.keys();
    expect(stored(directory)).toContain(access);
    for (const secret of [access, refresh]) {
      expect(hub.redact(`it was ${secret}!`)).toBe("it was ***!");
      const told = JSON.stringify([hub.notices, hub.servers(), hub.logs("docs")]);
      expect(told).not.toContain(secret);
    }
    await hub.close();
    for (const name of readdirSync(join(directory, "hub"))) {
      expect(readFileSync(join(directory, "hub", name), "utf8")).not.toContain(access);
    }
  });

  it("another address or name of a server gets no token; a file that cannot be read counts as none", async () => {
    const server = await protectedServer();
    const directory = temporaryDirectory();
    const hub = openHub(directory, [config(server)]);
    await logIn(hub, server);
    const thief = await serve((_request, response) => void response.writeHead(401).end());
    cleanup(() => thief.close());
    const elsewhere = openHub(directory, [config(thief)]);
    await elsewhere.list();
    expect(thief.requests.length).toBeGreaterThan(0);
    for (const { headers } of thief.requests) expect(headers.authorization).toBeUndefined();
    for (const name of stateFiles(directory)) writeFileSync(join(directory, "oauth", name), "{broken");
    const again = openHub(directory, [config(server)]);
    expect((await call(again, "docs__hello")).text).toContain("rotunda hub login docs");
    expect(again.servers()[0]?.state).toBe("needs_login");
  });

  it("logout has the tokens revoked and forgets them", async () => {
    const server = await protectedServer();
    const directory = temporaryDirectory();
    const hub = openHub(directory, [config(server)]);
    await logIn(hub, server);
    expect(await hub.logout("docs")).toEqual({ revoked: true });
    expect([...server.tokens.keys(), ...server.refreshTokens.keys()]).toEqual([]);
    expect(stored(directory)).not.toMatch(/access-|refresh-/);
    expect(hub.servers()[0]?.state).toBe("needs_login");
    expect(await hub.logout("docs")).toEqual({ revoked: false });
  });
});
