/** M17, S36 over HTTP: a server's question in the middle of a call is pending, is answered, and the call goes on. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Upkeep } from "../../src/doors/http/upkeep.ts";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import type { Elicitation } from "../../src/types/elicitation.ts";
import { type Scope, scopes } from "../../src/types/token.ts";
import { later } from "../support.ts";
import { inCluster, type Served, type ServedOptions, serve } from "./served.ts";

const SLOW = { timeout: 60_000 };
const fixture = join(import.meta.dirname, "../fixtures/mcp/asking.ts");
const server = (era: string) => ({ command: process.execPath, args: [fixture, era] });

/** Calls the tool, then says what it gave. */
const calls =
  (...names: string[]): UpstreamScript =>
  ({ body }) => {
    const messages = body.messages as { role: string; content: string }[];
    const given = messages.filter(({ role }) => role === "tool").map(({ content }) => content);
    if (given.length > 0) return { text: given.join(" and ") };
    return { calls: names.map((name) => ({ name, arguments: {} })) };
  };

async function attended(era: string, script: UpstreamScript, options: ServedOptions = {}): Promise<Served> {
  const served = await serve(script, {
    ...options,
    config: { mcpServers: { asking: server(era) }, permissions: { allow: ["asking:*"] }, ...options.config },
  });
  const upkeep = new Upkeep(served.door.services);
  later(() => upkeep.close());
  await upkeep.prepare();
  await upkeep.start(() => undefined);
  return served;
}

async function pendingOf(served: Served, token?: string): Promise<Elicitation[]> {
  const answer = await served.fetch("/v1/elicitation/pending", token === undefined ? {} : { token });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { pending: Elicitation[] }).pending;
}

async function firstPending(served: Served): Promise<Elicitation> {
  await expect.poll(async () => (await pendingOf(served)).length, { timeout: 20_000 }).toBeGreaterThan(0);
  const [first] = await pendingOf(served);
  if (!first) throw new Error("the question is gone");
  return first;
}

const resolve = (served: Served, id: string, json: object, token?: string) =>
  served.fetch(`/v1/elicitation/${id}/resolve`, { json, ...(token !== undefined && { token }) });

async function start(served: Served, token?: string): Promise<string> {
  const json = { model: "test-model", input: "ask", background: true };
  const answer = await served.fetch("/v1/responses", { json, ...(token !== undefined && { token }) });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { id: string }).id;
}

async function textOf(served: Served, id: string): Promise<string> {
  await served.app.engine.wait(id);
  return served.app.engine.textOf(await served.app.engine.get(id));
}

// With a queue the server that asks stands behind a worker, whose questions only that worker lists.
describe.skipIf(inCluster).each(["both", "modern"])("a server that speaks %s", (era) => {
  test("its question is listed, answered over HTTP, and the tool goes on", SLOW, async () => {
    const served = await attended(era, calls("asking__confirm"));
    const id = await start(served);
    const question = await firstPending(served);
    expect(question).toMatchObject({
      server: "asking",
      mode: "form",
      message: "Who are you?\\u{202e}",
      requestedSchema: { type: "object", required: ["name"] },
      responseIds: [id],
    });
    const wrong = await resolve(served, question.id, { action: "accept", content: { name: "x" } });
    expect(wrong.status).toBe(400);
    expect(JSON.stringify(await wrong.json())).toContain("shorter than 2");
    const answer = await resolve(served, question.id, { action: "accept", content: { name: "Ada" } });
    expect(await answer.json()).toEqual({ success: true });
    expect(JSON.parse(await textOf(served, id))).toMatchObject({ action: "accept", content: { name: "Ada" } });
    expect((await resolve(served, question.id, { action: "accept", content: { name: "Eve" } })).status).toBe(404);
    expect(await pendingOf(served)).toEqual([]);
    const records = (await served.app.store.audits(0, 100)).filter(({ action }) => action === "elicitation");
    expect(records).toMatchObject([
      { who: "local", door: "http", responseId: id, details: { server: "asking", decision: "accept" } },
    ]);
    expect(JSON.stringify(records)).not.toContain("Ada");
  });

  test("a question that nobody answers in time counts as cancelled", SLOW, async () => {
    const served = await attended(era, calls("asking__confirm"), { app: { elicitationPatience: 300 } });
    const id = await start(served);
    expect(JSON.parse(await textOf(served, id))).toMatchObject({ action: "cancel" });
    expect(await pendingOf(served)).toEqual([]);
  });

  test("a token with approve sees the questions of its own calls, and of nobody else's", SLOW, async () => {
    const served = await attended(era, calls("asking__confirm"));
    const may = { scopes: ["chat", "responses:read", "responses:write", "tools:call", "approve"] as Scope[] };
    const [own, other] = [await served.newToken(may), await served.newToken(may)];
    const admin = await served.newToken({ scopes: [...scopes] });
    const id = await start(served, own);
    const question = await firstPending(served);
    expect((await pendingOf(served, own)).map((one) => one.id)).toEqual([question.id]);
    expect((await pendingOf(served, admin)).map((one) => one.id)).toEqual([question.id]);
    expect(await pendingOf(served, other)).toEqual([]);
    const foreign = await resolve(served, question.id, { action: "decline" }, other);
    const unknown = await resolve(served, `${question.id.slice(0, -4)}0000`, { action: "decline" }, other);
    const bodies = [await foreign.text(), await unknown.text()].map((text) => text.replace(/eli_\w+/, "ID"));
    expect([foreign.status, unknown.status]).toEqual([404, 404]);
    expect(bodies[0]).toBe(bodies[1]);
    const plain = await served.newToken();
    expect((await served.fetch("/v1/elicitation/pending", { token: plain })).status).toBe(403);
    expect((await resolve(served, question.id, { action: "decline" }, own)).status).toBe(200);
    expect(await textOf(served, id)).toContain("decline");
  });

  test("where it could be for two owners' calls, only whoever holds the machine sees it", SLOW, async () => {
    const served = await attended(era, calls("asking__confirm"));
    const may = { scopes: ["responses:read", "responses:write", "approve"] as Scope[] };
    const [first, second] = [await served.newToken(may), await served.newToken(may)];
    const one = await start(served, first);
    const before = await firstPending(served);
    const two = await start(served, second);
    await expect.poll(async () => (await pendingOf(served)).length, { timeout: 20_000 }).toBe(2);
    const after = (await pendingOf(served)).find(({ id }) => id !== before.id);
    expect(after?.responseIds?.toSorted()).toEqual([one, two].toSorted());
    expect(await pendingOf(served, second)).toEqual([]);
    expect((await pendingOf(served, first)).map(({ id }) => id)).toEqual([before.id]);
    for (const { id } of await pendingOf(served)) await resolve(served, id, { action: "decline" });
    expect(await textOf(served, one)).toContain("decline");
    expect(await textOf(served, two)).toContain("decline");
  });
});

test("a call without a response asks whoever holds the machine", SLOW, async () => {
  const served = await attended("both", calls("asking__confirm"));
  const own = await served.newToken({ scopes: ["tools:call", "approve"] });
  const calling = served.fetch("/mcp/tools/call", { token: own, json: { name: "asking:confirm", arguments: {} } });
  const question = await firstPending(served);
  expect(await pendingOf(served, own)).toEqual([]);
  await resolve(served, question.id, { action: "accept", content: { name: "Ada" } });
  expect(await (await calling).text()).toContain("Ada");
});

test(
  "servers are connected after it listens, without a request; without one nothing of it is loaded",
  SLOW,
  async () => {
    const served = await attended("both", calls("asking__confirm"));
    const listed = async () => {
      const answer = await served.fetch("/v1/mcp/servers");
      const { servers } = (await answer.json()) as { servers: { connected: boolean; toolCount: number }[] };
      return servers[0];
    };
    await expect.poll(listed, { timeout: 20_000 }).toMatchObject({ connected: true, toolCount: 2 });
    const none = await attended("both", [{ text: "hi" }], { config: { mcpServers: {} } });
    expect(await none.app.hub()).toBeUndefined();
  },
);

test("a server that cannot be started delays neither listening nor a turn without it", SLOW, async () => {
  const broken = { command: process.execPath, args: ["-e", "setTimeout(() => {}, 60_000)"], startTimeout: 0.2 };
  const served = await attended("both", [{ text: "hi" }], { config: { mcpServers: { broken } } });
  expect((await served.respond({ model: "test-model", input: "hi" })).status).toBe("completed");
});
