/** Logins to MCP servers over HTTP: S35 with SpeakMCP's shapes, and the route that a browser comes back to. */
import { expect, test } from "vitest";
import { type Protected, type ProtectedOptions, serveProtected } from "../fixtures/mcp/oauth-server.ts";
import { later } from "../support.ts";
import { type Served, serve } from "./served.ts";
import { ask } from "./speakmcp.ts";

async function withLogin(options: ProtectedOptions = {}): Promise<{ served: Served; server: Protected }> {
  const server = await serveProtected(options);
  later(() => server.close());
  const served = await serve([{ text: "x" }], { config: { mcpServers: { docs: { url: server.url } } } });
  return { served, server };
}

const initiate = (served: Served, serverName = "docs") => ask(served, "/v1/oauth/initiate", { json: { serverName } });

test("S35 B25 a login over HTTP: initiate, callback, and the server's tools are there", async () => {
  const { served, server } = await withLogin();
  await ask(served, "/mcp/tools/list", { json: {} });
  expect((await ask(served, "/v1/mcp/servers")).body).toMatchObject({
    servers: [{ name: "docs", connected: false, state: "needs_login" }],
  });
  const begun = await initiate(served);
  expect(begun.status).toBe(200);
  // Not the PKCE verifier: whoever has it and the code has the tokens.
  expect(Object.keys(begun.body).sort()).toEqual(["authorizationUrl", "state"]);
  const back = await server.consent(String(begun.body.authorizationUrl));
  expect(back.origin + back.pathname).toBe(`${served.url}/oauth/callback`);
  const answer = { code: back.searchParams.get("code"), iss: back.searchParams.get("iss") };
  const finished = await ask(served, "/v1/oauth/callback", {
    json: { serverName: "docs", state: begun.body.state, ...answer },
  });
  expect(finished).toMatchObject({
    status: 200,
    body: { success: true, server: "docs", connected: true, toolCount: 2 },
  });
  const called = await ask(served, "/mcp/tools/call", { json: { name: "docs:hello", arguments: {} } });
  expect(called.body).toMatchObject({ isError: false, content: [{ type: "text", text: "hello!" }] });
  const out = await ask(served, "/v1/oauth/logout", { json: { serverName: "docs" } });
  expect(out.body).toEqual({ success: true, server: "docs", revoked: true });
  expect(server.tokens.size + server.refreshTokens.size).toBe(0);
});

test("S35 B25 the redirect leads to a route that exists: a browser without a token finishes the login, once", async () => {
  const { served, server } = await withLogin();
  const begun = await initiate(served);
  const back = await server.consent(String(begun.body.authorizationUrl));
  const page = await fetch(back);
  expect(page.status).toBe(200);
  expect(page.headers.get("content-type")).toMatch(/^text\/html/);
  expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
  expect(page.headers.get("referrer-policy")).toBe("no-referrer");
  const text = await page.text();
  expect(text).toContain("Logged in");
  for (const [name, value] of back.searchParams) if (name !== "iss") expect(text).not.toContain(value);
  expect((await ask(served, "/v1/mcp/servers")).body).toMatchObject({
    servers: [{ connected: true, state: "healthy" }],
  });
  expect((await fetch(back)).status).toBe(400);
  const marked = new URL(back);
  marked.searchParams.set("state", "<script>alert(1)</script>");
  const refused = await fetch(marked);
  expect(refused.status).toBe(400);
  expect(await refused.text()).not.toContain("script>");
});

test("S35 what is wrong is said, and who may not is refused", async () => {
  const { served, server } = await withLogin();
  expect(await initiate(served, "nobody")).toMatchObject({ status: 404, body: { error: "Server 'nobody' not found" } });
  expect((await ask(served, "/v1/oauth/initiate", { json: {} })).status).toBe(400);
  const unknown = { serverName: "docs", code: "x", state: "guessed" };
  expect((await ask(served, "/v1/oauth/callback", { json: unknown })).status).toBe(404);
  const token = await served.newToken({ scopes: ["chat", "tools:call"] });
  expect((await ask(served, "/v1/oauth/initiate", { json: { serverName: "docs" }, token })).status).toBe(403);
  const begun = await initiate(served);
  const back = await server.consent(String(begun.body.authorizationUrl));
  const wrong = { serverName: "docs", code: "other", state: begun.body.state, iss: back.searchParams.get("iss") };
  expect((await ask(served, "/v1/oauth/callback", { json: wrong })).status).toBe(502);
  const audit = await served.app.store.audits(0, 100);
  expect(JSON.stringify(audit)).not.toContain(String(begun.body.state));
});

test("S35 tokens are in no answer, no stored response and no log", async () => {
  const { served, server } = await withLogin();
  const begun = await initiate(served);
  await fetch(await server.consent(String(begun.body.authorizationUrl)));
  const [access = ""] = server.tokens.keys();
  expect(access).toMatch(/^access-/);
  await ask(served, "/mcp/tools/call", { json: { name: "docs:hello", arguments: {} } });
  const logs = await ask(served, "/v1/mcp/servers/docs/logs");
  const servers = await ask(served, "/v1/mcp/servers");
  expect(JSON.stringify([logs, servers])).not.toContain(access);
  expect(served.app.redact(`Bearer ${access}`)).toBe("Bearer ***");
});
