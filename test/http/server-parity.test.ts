/** What users of the servers before relied on at the door itself, and what a server does after crashes. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { takeUp } from "../../src/doors/http/take-up.ts";
import { startUpstream } from "../../src/testing/upstream.ts";
import { hostileScript } from "../hub/support.ts";
import { later, temporaryFolder } from "../support.ts";
import { startBackground, startServer } from "./process.ts";
import { inCluster, serve } from "./served.ts";

async function endpoint(script: Parameters<typeof startUpstream>[0]) {
  const upstream = await startUpstream(script);
  later(() => upstream.close());
  return upstream;
}

test("N1 B33 it listens whether its MCP servers start or not, and says where", async () => {
  const upstream = await endpoint([{ text: "Hello" }]);
  const dead = { command: process.execPath, args: [hostileScript, JSON.stringify({ mode: "die-at-start" })] };
  const slow = {
    command: process.execPath,
    args: [hostileScript, JSON.stringify({ mode: "slow-start", delay: 60_000 })],
  };
  const server = await startServer(temporaryFolder(), upstream.url, { mcpServers: { dead, slow } });
  expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  expect(await server.stop("SIGTERM")).toBe(0);
});

test("N21 one line for each request on stderr, without what was said and without the token", async () => {
  const lines: string[] = [];
  const served = await serve([{ text: "a private answer" }], {
    door: { accessLog: true, log: (line) => void lines.push(line) },
  });
  await served.fetch("/chat?secret=in-the-query", { json: { message: "a private question" } });
  await new Promise((resolve) => setTimeout(resolve, 50));
  const log = lines.join("\n");
  expect(log).toMatch(/"method":"POST".*"\/chat"/);
  expect(log).toMatch(/"status":200/);
  for (const secret of ["private", "in-the-query", served.token]) expect(log).not.toContain(secret);
});

describe("S1 S2 S3 start, address, token", () => {
  test("loopback and a token by default; the token is printed by the program and kept from others", async () => {
    const upstream = await endpoint([{ text: "Hello" }]);
    const folder = temporaryFolder();
    const server = await startServer(folder, upstream.url);
    expect(statSync(join(folder, "state", "token")).mode & 0o077).toBe(0);
    expect(readFileSync(join(folder, "state", "token"), "utf8").trim()).toMatch(/^[0-9a-f]{64}$/);
    const models = (headers: Record<string, string>) => fetch(`${server.url}/v1/models`, { headers });
    expect((await models({ authorization: `Bearer ${server.token}` })).status).toBe(200);
    const without = await models({});
    expect(without.status).toBe(401);
    expect(await without.json()).toMatchObject({ error: { code: "invalid_api_key" } });
    // SpeakMCP's own routes answer in SpeakMCP's words.
    expect(await (await fetch(`${server.url}/v1/profiles`)).json()).toEqual({ error: "Unauthorized" });
  });

  test("pages of listed origins may ask, delete included; others may not", async () => {
    const served = await serve([{ text: "x" }], { door: { cors: ["https://chat.example"] } });
    const preflight = (origin: string) =>
      fetch(`${served.url}/v1/conversations`, {
        method: "OPTIONS",
        headers: {
          origin,
          "access-control-request-method": "DELETE",
          "access-control-request-headers": "authorization",
        },
      });
    const allowed = await preflight("https://chat.example");
    expect(allowed.headers.get("access-control-allow-origin")).toBe("https://chat.example");
    expect(allowed.headers.get("access-control-allow-methods")).toContain("DELETE");
    expect((await preflight("https://evil.example")).headers.get("access-control-allow-origin")).toBeNull();
  });
});

test("S7 a provider that is only known by its key variable is a model", async () => {
  const served = await serve([{ text: "x" }], { config: { models: [] } });
  await served.app.settings.patchSpeakmcp({
    mcpToolsProviderId: "openai",
    mcpToolsOpenaiModel: "their-model",
    openaiBaseUrl: served.upstream.url,
    openaiApiKey: "sk-test-0123456789",
  });
  const answer = await served.fetch("/v1/chat/completions", { json: { messages: [{ role: "user", content: "Hi" }] } });
  expect(answer.status).toBe(200);
  expect(served.upstream.requests[0]?.body.model).toBe("their-model");
});

test("D13 a response that was running at every crash is ended, so that the server starts", async () => {
  const upstream = await endpoint([{ text: ["x"], delay: 60_000 }]);
  const folder = temporaryFolder();
  let server = await startServer(folder, upstream.url);
  const id = await startBackground(server, "Hi");
  for (let crash = 0; crash < 4; crash++) {
    await waitFor(() => upstream.requests.length > crash);
    await server.stop("SIGKILL");
    server = await startServer(folder, upstream.url);
  }
  const headers = { authorization: `Bearer ${server.token}` };
  await waitFor(async () => {
    const response = (await (await fetch(`${server.url}/v1/responses/${id}`, { headers })).json()) as {
      status: string;
    };
    return response.status === "incomplete";
  });
  expect(server.log()).toContain("crashes in a row");
}, 60_000);

async function waitFor(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 500; tries++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("it did not come true");
}

test("D1 what was not to be stored and was cut by a crash is erased by the next server", async () => {
  const upstream = await endpoint([{ text: ["some ", "words"], delay: 200, break: "hang" }]);
  const folder = temporaryFolder();
  const server = await startServer(folder, upstream.url);
  const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/json" };
  const body = JSON.stringify({ model: "test-model", input: "a-very-private-question", store: false });
  fetch(`${server.url}/v1/responses`, { method: "POST", headers, body }).catch(() => undefined);
  await waitFor(() => upstream.requests.length > 0);
  await server.stop("SIGKILL");
  const next = await startServer(folder, upstream.url);
  await waitFor(async () => {
    const list = (await (await fetch(`${next.url}/v1/responses`, { headers })).json()) as { data: unknown[] };
    return list.data.length === 0;
  });
  await next.stop("SIGTERM");
  for (const file of ["rotunda.db", "rotunda.db-wal"]) {
    const bytes = readOptional(join(folder, "state", file));
    expect(bytes.includes("a-very-private-question")).toBe(false);
  }
}, 30_000);

function readOptional(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

test("a run that waits for a person waits again after a restart, and goes on when it is answered", async () => {
  const script = [
    { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "hello" } }] },
    { text: "Written." },
  ];
  const upstream = await endpoint(script);
  const folder = temporaryFolder();
  const first = await startServer(folder, upstream.url);
  const id = await startBackground(first, "Write");
  const ask = async (server: typeof first, path: string, json?: object) => {
    const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/json" };
    const init = json ? { method: "POST", body: JSON.stringify(json), headers } : { headers };
    return (await (await fetch(`${server.url}${path}`, init)).json()) as Record<string, never>;
  };
  const pending = async (server: typeof first) =>
    ((await ask(server, "/v1/tool-approvals")) as unknown as { approvals: { approvalId: string }[] }).approvals;
  await waitFor(async () => (await pending(first)).length === 1);
  await first.stop("SIGTERM");
  const second = await startServer(folder, upstream.url);
  await waitFor(async () => (await pending(second)).length === 1);
  const [approval] = await pending(second);
  await ask(second, "/v1/tool-approval", { approvalId: approval?.approvalId, approved: true });
  await waitFor(async () => ((await ask(second, `/v1/responses/${id}`)) as { status?: string }).status === "completed");
  expect(readFileSync(join(folder, "workspace", "a.txt"), "utf8")).toBe("hello");
}, 30_000);

// With a queue nothing is taken up here.
test.skipIf(inCluster)("taking up: what lives elsewhere is left alone", async () => {
  const served = await serve([{ silent: "hang" }]);
  const { id } = await served.respond({ model: "test-model", input: "Hi", background: true });
  const tell = () => undefined;
  const result = await takeUp({ app: served.app, appFor: async () => served.app, tell });
  expect(result).toEqual({ resumed: 0, interrupted: 0, failed: 0 });
  expect((await served.app.store.node(id))?.status).toBe("in_progress");
});
