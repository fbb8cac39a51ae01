/** Logins that go wrong: renewal in many processes, hostile metadata, authorization servers that lie. M20. */
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createGuardedFetch } from "../../src/hub/guarded-fetch.ts";
import type { Hub } from "../../src/hub/hub-types.ts";
import { OAuthStore } from "../../src/hub/oauth-store.ts";
import type { ServerConfig } from "../../src/types/config.ts";
import { newProcessName } from "../../src/util/process-name.ts";
import { serve } from "../fixtures/mcp/http-servers.ts";
import { type Protected, type ProtectedOptions, serveProtected } from "../fixtures/mcp/oauth-server.ts";
import { call, cleanup, fixtures, openHub, temporaryDirectory } from "./support.ts";

const REDIRECT = "http://127.0.0.1:1/oauth/callback";

async function protectedServer(options: ProtectedOptions = {}): Promise<Protected> {
  const server = await serveProtected(options);
  cleanup(() => server.close());
  return server;
}

function config(server: { url: string }, more: Partial<ServerConfig> = {}): ServerConfig {
  return { name: "docs", transport: "http", url: server.url, disabled: false, origin: "test", ...more };
}

async function logIn(hub: Hub, server: Protected): Promise<void> {
  const start = await hub.beginLogin("docs", REDIRECT);
  const back = (await server.consent(start.authorizationUrl)).searchParams;
  await hub.finishLogin({ state: start.state, code: back.get("code") ?? "", iss: back.get("iss") ?? "" });
}

function grants(server: Protected): (string | null)[] {
  return server.posted.map((form) => form.get("grant_type"));
}

function callElsewhere(server: ServerConfig, stateDir: string, times: number): Promise<string[]> {
  const task = JSON.stringify({ server, stateDir, times, tool: "docs__hello" });
  const child = spawn(process.execPath, [join(fixtures, "oauth-caller.ts"), task], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let printed = "";
  child.stdout.on("data", (chunk: Buffer) => {
    printed += chunk.toString();
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", () => resolve(JSON.parse(printed) as string[]));
  });
}

describe("renewal", () => {
  it("is done before the token ends, once for many calls at the same time", async () => {
    const server = await protectedServer({ slowRefresh: 200 });
    let now = Date.now();
    const clock = { now: () => now, sleep: () => Promise.resolve() };
    const hub = openHub(temporaryDirectory(), [config(server)], { clock });
    await logIn(hub, server);
    await call(hub, "docs__hello");
    expect(grants(server)).toEqual(["authorization_code"]);
    now += 3590 * 1000;
    const results = await Promise.all(Array.from({ length: 20 }, () => call(hub, "docs__hello")));
    expect(results.every(({ text }) => text === "hello!")).toBe(true);
    expect(grants(server)).toEqual(["authorization_code", "refresh_token"]);
  });

  it("is done once for all processes, however many calls they make", async () => {
    const server = await protectedServer({ slowRefresh: 300 });
    const directory = temporaryDirectory();
    const hub = openHub(directory, [config(server)]);
    await logIn(hub, server);
    await hub.list();
    await hub.close();
    // The access token is gone; each refresh token is good for one use, and a second use ends the login.
    server.tokens.clear();
    const all = await Promise.all(Array.from({ length: 4 }, () => callElsewhere(config(server), directory, 5)));
    expect(all.flat()).toEqual(Array.from({ length: 20 }, () => "hello!"));
    expect(grants(server)).toEqual(["authorization_code", "refresh_token"]);
  }, 40_000);

  it("a refused renewal is a lost login", async () => {
    const server = await protectedServer();
    const hub = openHub(temporaryDirectory(), [config(server)]);
    await logIn(hub, server);
    await hub.list();
    server.tokens.clear();
    server.refreshTokens.clear();
    expect((await call(hub, "docs__hello")).text).toContain("rotunda hub login docs");
    expect(hub.servers()[0]?.state).toBe("needs_login");
  });

  it("an authorization server that is down costs nothing while the token is good", async () => {
    const server = await protectedServer();
    const directory = temporaryDirectory();
    let now = Date.now();
    const clock = { now: () => now, sleep: (milliseconds: number) => sleep(milliseconds, undefined, { ref: false }) };
    const hub = openHub(directory, [config(server)], { clock });
    const good = "good-token";
    server.tokens.set(good, { client: "x", scope: "", family: "x" });
    const store = new OAuthStore(directory, { name: "docs", url: server.url });
    await store.change(() => ({
      login: {
        issuer: server.issuer,
        authorizationServerUrl: server.issuer,
        metadata: {
          issuer: server.issuer,
          authorization_endpoint: `${server.issuer}/authorize`,
          token_endpoint: "http://127.0.0.1:9/token",
          response_types_supported: ["code"],
        },
        client: { client_id: "x", issuer: server.issuer },
        tokens: { access_token: good, token_type: "Bearer", refresh_token: "r", expires_in: 3600 },
        obtainedAt: now,
      },
    }));
    now += 3590 * 1000;
    expect(await call(hub, "docs__hello")).toEqual({ text: "hello!" });
    expect(store.read().login?.tokens.access_token).toBe(good);
  });

  it("the lock of a process that has died holds nobody up, and one that is held is waited for", async () => {
    const directory = temporaryDirectory();
    const store = new OAuthStore(directory, { name: "docs", url: "https://mcp.example.com/" });
    mkdirSync(join(directory, "oauth"));
    await store.change(() => ({ challenge: {} }));
    const [file = ""] = readdirSync(join(directory, "oauth"));
    const [host, , , random] = newProcessName().split("/");
    writeFileSync(join(directory, "oauth", `${file}.lock`), [host, "1", "999", random].join("/"));
    await store.change(() => ({ challenge: { scope: "a" } }));
    expect(store.read()).toEqual({ challenge: { scope: "a" } });
    const order: string[] = [];
    const slow = store.change(async () => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      order.push("first");
      return undefined;
    });
    const other = new OAuthStore(directory, { name: "docs", url: "https://mcp.example.com/" });
    await Promise.all([slow, other.change(() => void order.push("second"))]);
    expect(order).toEqual(["first", "second"]);
    expect(readdirSync(join(directory, "oauth"))).toEqual([file]);
  });
});

describe("M20 hostile metadata", () => {
  it("M20 addresses of this machine and its networks are not asked for a server elsewhere", async () => {
    const trap = await serve((_request, response) => void response.end("{}"));
    cleanup(() => trap.close());
    const fetch = createGuardedFetch("https://mcp.example.com/mcp");
    const { port } = new URL(trap.url);
    for (const address of [
      trap.url,
      `https://127.0.0.1:${port}/`,
      `http://localhost:${port}/`,
      `http://[::ffff:127.0.0.1]:${port}/`,
      `https://${hostname()}:${port}/`,
      "https://169.254.169.254/latest/meta-data/",
      "http://169.254.169.254/",
      "https://10.0.0.1/",
      "https://[fd00::1]/",
      "https://0.0.0.0/",
      "http://mcp.other.example/",
      "file:///etc/passwd",
      "https://user:password@mcp.example.com/",
    ]) {
      await expect(fetch(address), address).rejects.toThrow(/not public|not https|web address|password/);
    }
    expect(trap.requests).toEqual([]);
    const allowed = createGuardedFetch("https://mcp.example.com/mcp", ["localhost"]);
    expect((await allowed(`http://localhost:${port}/`)).status).toBe(200);
    const home = createGuardedFetch("http://127.0.0.1:1/mcp");
    expect((await home(trap.url)).status).toBe(200);
    await expect(home("http://10.0.0.1/")).rejects.toThrow(/not https|not public/);
    await expect(home("https://169.254.169.254/")).rejects.toThrow(/not public/);
  });

  it("M20 a redirect elsewhere is not followed, a long answer is cut", async () => {
    const trap = await serve((_request, response) => void response.end("{}"));
    const server = await serve((request, response) => {
      if (request.url === "/long") response.end("x".repeat(2_000_000));
      else if (request.url === "/here") response.writeHead(302, { location: "/found" }).end();
      else if (request.url === "/found") response.end("found");
      else response.writeHead(302, { location: trap.url }).end();
    });
    cleanup(() => Promise.all([trap.close(), server.close()]).then(() => undefined));
    const fetch = createGuardedFetch(server.url);
    expect((await fetch(server.url)).status).toBe(302);
    expect(trap.requests).toEqual([]);
    expect(await (await fetch(new URL("/here", server.url))).text()).toBe("found");
    expect((await fetch(new URL("/here", server.url), { method: "POST", body: "{}" })).status).toBe(302);
    await expect(fetch(new URL("/long", server.url))).rejects.toThrow(/mebibyte/);
  });

  it.each([
    ["resource_metadata at a metadata service", { challenge: 'Bearer resource_metadata="http://169.254.169.254/x"' }],
    ["an authorization server there", { resource: { authorization_servers: ["https://169.254.169.254/"] } }],
    ["a registration endpoint there", { metadata: { registration_endpoint: "http://169.254.169.254/register" } }],
    ["another issuer in the metadata", { issuerClaim: "https://issuer.example.com" }],
    ["the resource of somebody else", { resource: { resource: "https://other.example.com/mcp" } }],
    ["an authorization endpoint that is a script", { metadata: { authorization_endpoint: "javascript:alert(1)" } }],
    ["one that is a file", { metadata: { authorization_endpoint: "file:///etc/passwd" } }],
    ["no PKCE", { metadata: { code_challenge_methods_supported: ["plain"] } }],
  ] as [string, ProtectedOptions][])("M20 %s: no login is begun", async (_what, options) => {
    const server = await protectedServer(options);
    const hub = openHub(temporaryDirectory(), [config(server)]);
    await hub.list();
    expect(hub.servers()[0]?.state).toBe("needs_login");
    await expect(hub.beginLogin("docs", REDIRECT)).rejects.toMatchObject({ code: "hub_unreachable" });
    expect(grants(server)).toEqual([]);
  });

  it("M20 an answer of another issuer, or of none where one was promised, is not exchanged", async () => {
    const server = await protectedServer({ iss: "https://evil.example.com" });
    const hub = openHub(temporaryDirectory(), [config(server)]);
    await hub.list();
    await expect(logIn(hub, server)).rejects.toMatchObject({ code: "hub_unreachable" });
    const start = await hub.beginLogin("docs", REDIRECT);
    const code = (await server.consent(start.authorizationUrl)).searchParams.get("code") ?? "";
    await expect(hub.finishLogin({ state: start.state, code })).rejects.toMatchObject({ code: "hub_unreachable" });
    expect(grants(server)).toEqual([]);
    expect(hub.servers()[0]?.state).toBe("needs_login");
  });

  it("M20 a configured client is given to no other authorization server than before, or than is configured", async () => {
    const client = { id: "ours", secret: "s3cret-value" };
    const honest = await protectedServer({ client });
    const evil = await protectedServer({ client });
    const oauth = { clientId: client.id, clientSecret: client.secret };
    const directory = temporaryDirectory();
    const hub = openHub(directory, [config(honest, { oauth })]);
    await hub.list();
    await logIn(hub, honest);
    const store = new OAuthStore(directory, { name: "docs", url: honest.url });
    // The server has changed hands: it names another authorization server from now on.
    const login = store.read().login;
    if (!login) throw new Error("not logged in");
    const moved = new OAuthStore(directory, { name: "docs", url: evil.url });
    await moved.change(() => ({ login }));
    const later = openHub(directory, [config(evil, { oauth })]);
    await expect(later.beginLogin("docs", REDIRECT)).rejects.toThrow(/in place of .* rotunda hub logout docs/);
    const pinned = openHub(directory, [config(evil, { name: "pinned", oauth: { ...oauth, issuer: honest.issuer } })]);
    await expect(pinned.beginLogin("pinned", REDIRECT)).rejects.toThrow(/in place of/);
    expect(JSON.stringify([evil.posted.map(String), evil.seen])).not.toContain("s3cret");
    expect(JSON.stringify(store.read())).not.toContain("s3cret");
  });
});
