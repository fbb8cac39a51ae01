/** A server with little memory, and one in which a rejection is handled by nobody. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Build, makeBuild } from "../../reliability/build.ts";
import { eventually, makePlace, Server } from "../../reliability/server.ts";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";

const SLOW = { timeout: 120_000 };
let build: Build;

beforeAll(async () => {
  build = await makeBuild();
}, 60_000);

afterAll(() => build.remove());

test("D9 128 MB of heap and conversations of 12 MB: every turn is answered, the server lives", SLOW, async () => {
  const upstream = await startUpstream([{ text: ["word ".repeat(200)] }]);
  later(() => upstream.close());
  const place = makePlace({ build, endpoint: upstream.url, config: { mcpServers: {} } });
  later(() => place.remove());
  const server = await Server.on({ build, place, node: ["--max-old-space-size=128"] });
  later(() => server.signal("SIGKILL"));
  await server.start();
  const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/json" };
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${server.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return { status: answer.status, json: (await answer.json()) as { id: string; error: unknown } };
  };
  const talks = await Promise.all([1, 2].map(async () => (await post("/v1/conversations", {})).json.id));
  const statuses = new Map<number, number>();
  for (let turn = 0; turn < 24; turn++) {
    // What it is shown is not kept by the test either.
    upstream.requests.length = 0;
    const body = { model: "test-model", conversation: talks[turn % 2], input: `${turn} ${"x".repeat(1_000_000)}` };
    const { status } = await post("/v1/responses", body);
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  expect([...statuses.keys()]).toEqual([200]);
  const answer = await fetch(`${server.url}/v1/conversations/${talks[0]}/items?limit=100`, { headers });
  expect(answer.status).toBe(200);
  await answer.body?.cancel();
  expect((await server.stop("SIGTERM")).code).toBe(0);
});

test("D16 a rejection that nobody handles is logged and counted, and the server goes on", SLOW, async () => {
  const upstream = await startUpstream([{ text: ["well"] }]);
  later(() => upstream.close());
  const stray = `data:text/javascript,${encodeURIComponent("setTimeout(() => Promise.reject(new Error('a stray')), 1500)")}`;
  const environment = { NODE_OPTIONS: `--import ${stray}` };
  const place = makePlace({ build, endpoint: upstream.url, config: { mcpServers: {} }, environment });
  later(() => place.remove());
  const server = await Server.on({ build, place });
  later(() => server.signal("SIGKILL"));
  await server.start();
  const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/json" };
  const counted = async () =>
    (await (await fetch(`${server.url}/metrics`, { headers })).text()).match(/unhandled\w* (\d+)/)?.[1];
  expect(await eventually(async () => (await counted()) === "1")).toBe(true);
  expect(await eventually(() => server.log.includes("a stray"))).toBe(true);
  const body = JSON.stringify({ model: "test-model", input: "are you well?" });
  const answer = await fetch(`${server.url}/v1/responses`, { method: "POST", headers, body });
  expect(answer.status).toBe(200);
});
