/** Event streams: order, back-pressure, limits, revocation, the end. And what else lives as long as a request. */
import { readdirSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { open, openDoor, raw } from "./door.ts";

async function textOf(answer: Response): Promise<string> {
  return answer.text();
}

test("a stream has its events in order, each in one piece, and ends", async () => {
  const { request } = await openDoor();
  const answer = await request("/demo/stream?count=1000");
  expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  expect(answer.headers.get("cache-control")).toBe("no-store, no-transform");
  expect(answer.headers.get("x-accel-buffering")).toBe("no");
  const text = await textOf(answer);
  const expected = Array.from({ length: 1_000 }, (_, index) => `event: demo\ndata: {"index":${index}}\n\n`);
  expect(text).toBe(expected.join(""));
  const failed = await textOf(await request("/demo/stream?count=1&fail"));
  expect(failed).toContain(
    'event: error\ndata: {"type":"error","code":"upstream_cut","message":"cut","param":null}\n\n',
  );
});

test("chunks on the wire hold whole events", async () => {
  const { port, local } = await openDoor();
  const head = `GET /demo/stream?count=500 HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${local}\r\nConnection: close\r\n\r\n`;
  const text = await raw(port, head);
  let rest = text.slice(text.indexOf("\r\n\r\n") + 4);
  let chunks = 0;
  for (;;) {
    const size = Number.parseInt(rest, 16);
    if (size === 0) break;
    const from = rest.indexOf("\r\n") + 2;
    const chunk = rest.slice(from, from + size);
    expect(chunk.startsWith("event: ")).toBe(true);
    expect(chunk.endsWith("\n\n")).toBe(true);
    rest = rest.slice(from + size + 2);
    chunks++;
  }
  expect(chunks).toBeGreaterThan(0);
});

test("a reader that does not read suspends the source", async () => {
  const { port, local, demo, door } = await openDoor();
  const socket = await open(port);
  socket.pause();
  socket.write(`GET /demo/flood HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${local}\r\n\r\n`);
  await expect.poll(() => demo.pulled).toBeGreaterThan(10);
  let before = -1;
  while (before !== demo.pulled) {
    before = demo.pulled;
    await wait(300);
  }
  // What the system's own buffers on both ends take is not ours to bound.
  expect(demo.flood?.writableLength).toBeLessThan(1_000_000);
  expect(demo.pulled * 10_000).toBeLessThan(40_000_000);
  socket.resume();
  await expect.poll(() => demo.pulled).toBeGreaterThan(before + 100);
  socket.destroy();
  await expect.poll(() => door.services.streams.count).toBe(0);
});

test("a silent stream says that it still lives", async () => {
  const { request } = await openDoor({ streamComment: 0.3 });
  const answer = await request("/demo/stream?stay&count=1");
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes(": keep-alive\n\n")) text += (await reader?.read())?.value ?? "";
  expect(text).toBe('event: demo\ndata: {"index":0}\n\n: keep-alive\n\n');
  await reader?.cancel();
});

test("a client that leaves aborts the signal, and frees its place", async () => {
  const { request, demo, door } = await openDoor();
  const controller = new AbortController();
  const answer = await request("/demo/stream?stay", { signal: controller.signal });
  await answer.body?.getReader().read();
  expect(door.services.streams.count).toBe(1);
  controller.abort();
  await expect.poll(() => demo.aborted).toEqual(["client_gone"]);
  await expect.poll(() => door.services.streams.count).toBe(0);
});

test("K11 a token that is taken back loses its streams within a second, and nobody else does", async () => {
  const { request, token, app, door, demo } = await openDoor();
  const [mine, other] = [await token(), await token()];
  const streams = await Promise.all([mine, mine, other].map((as) => request("/demo/stream?stay&count=1", { as })));
  const expiring = await token({ expiresAt: Date.now() + 700 });
  const last = await request("/demo/stream?stay&count=1", { as: expiring });
  const known = await app.store.token(mine.split("_")[1] ?? "");
  if (!known) throw new Error("no token");
  await app.store.saveToken({ ...known, revokedAt: Date.now() });
  const started = performance.now();
  expect(await textOf(streams[0] as Response)).toContain('event: bye\ndata: "revoked"\n\n');
  await textOf(streams[1] as Response);
  // A second, and a little for a machine with other work.
  expect(performance.now() - started).toBeLessThan(2_000);
  expect(await textOf(last)).toContain("revoked");
  expect(door.services.streams.count).toBe(1);
  expect(demo.aborted).toEqual(["revoked", "revoked", "revoked"]);
  await (streams[2] as Response).body?.cancel();
});

test("K18 streams, runs and requests are bounded for each token, and others are served", async () => {
  const { request, token } = await openDoor();
  const greedy = await token({ limits: { streams: 3, concurrentRuns: 2 } });
  const open = await Promise.all([1, 2, 3].map(() => request("/demo/stream?stay&count=1", { as: greedy })));
  const refused = await request("/demo/stream?stay", { as: greedy });
  expect([refused.status, await refused.json()]).toMatchObject([
    429,
    { error: { type: "rate_limit_error", code: "rate_limited" } },
  ]);
  expect(refused.headers.get("retry-after")).toBe("1");
  expect((await request("/demo/stream", { as: await token() })).status).toBe(200);
  await (open[0] as Response).body?.cancel();
  await expect.poll(async () => (await request("/demo/stream", { as: greedy })).status).toBe(200);
  for (const one of open.slice(1)) await one.body?.cancel();

  const controller = new AbortController();
  const runs = [1, 2].map(() => request("/demo/run", { as: greedy, signal: controller.signal }).catch(() => undefined));
  await wait(100);
  expect((await request("/demo/run", { as: greedy })).status).toBe(429);
  controller.abort();
  await Promise.all(runs);

  const hasty = await token({ limits: { requestsPerSecond: 5 } });
  const answers = await Promise.all(Array.from({ length: 20 }, () => request("/demo/who", { as: hasty })));
  const statuses = answers.map(({ status }) => status);
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(5);
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThanOrEqual(10);
  await expect.poll(async () => (await request("/demo/who", { as: hasty })).status, { timeout: 3_000 }).toBe(200);
});

test("a day's use is bounded", async () => {
  const used = { tokens: 0, cost: 0 };
  const { request, token, demo } = await openDoor({ usageToday: async () => ({ ...used }) });
  demo.go();
  const as = await token({ limits: { tokensPerDay: 100 } });
  expect((await request("/demo/run", { as })).status).toBe(200);
  used.tokens = 100;
  const poor = await token({ limits: { tokensPerDay: 100 } });
  const refused = await request("/demo/run", { as: poor });
  expect(refused.status).toBe(429);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  expect((await request("/demo/run")).status).toBe(200);
});

test("D11 at the end streams are told, the rest is answered, and nothing new is taken", async () => {
  const { request, door, port, local } = await openDoor();
  const stream = await request("/demo/stream?stay&count=1");
  const blocked = request("/demo/run");
  const kept = await open(port);
  await wait(50);
  const closing = door.close({ seconds: 1 });
  kept.write(`GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
  await expect(fetch(`${door.address}/healthz`)).rejects.toThrow();
  expect(await textOf(stream)).toContain('event: bye\ndata: "shutting_down"\n\n');
  const answer = await blocked;
  expect([answer.status, await answer.json()]).toMatchObject([503, { error: { code: "shutting_down" } }]);
  await closing;
  expect(local).toBeTruthy();
});

test("K1 10,000 abrupt disconnects leave nothing behind", { timeout: 120_000 }, async () => {
  const { port, local, door } = await openDoor();
  const descriptors = () => readdirSync("/proc/self/fd").length;
  const head = `GET /demo/stream?stay&count=1 HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${local}\r\n\r\n`;
  const once = (): Promise<void> =>
    new Promise((resolve) => {
      open(port).then((socket) => {
        socket.on("close", () => resolve());
        socket.once("data", () => socket.resetAndDestroy());
        socket.write(head);
      }, resolve);
    });
  const round = async (count: number) => {
    for (let index = 0; index < count; index += 50) await Promise.all(Array.from({ length: 50 }, once));
    await expect.poll(() => door.services.streams.count).toBe(0);
  };
  await round(2_000);
  globalThis.gc?.();
  const [fds, memory] = [descriptors(), process.memoryUsage().rss];
  await round(8_000);
  globalThis.gc?.();
  expect(descriptors()).toBeLessThan(fds + 20);
  expect(process.memoryUsage().rss - memory).toBeLessThan(120_000_000);
  expect(door.services.limits.running).toBe(0);
});

test("a keep-alive connection is used again, also by another token", async () => {
  const { port, local } = await openDoor();
  const ask = (token: string) =>
    `GET /demo/who HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n\r\n`;
  const text = await raw(port, ask(local) + ask("wrong") + ask(local));
  expect([...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual(["200", "401", "200"]);
});

test("expect: 100-continue is answered before the body is sent", async () => {
  const { port, local, door } = await openDoor();
  const send = (length: number, token: string): Promise<[number, boolean]> =>
    new Promise((resolve, reject) => {
      const request = httpRequest(`${door.address}/demo/echo`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          "content-length": length,
          expect: "100-continue",
        },
      });
      let continued = false;
      request.on("continue", () => {
        continued = true;
        request.end('{"text":"hi"}');
      });
      request.on("response", (answer) => resolve([answer.resume().statusCode ?? 0, continued]));
      request.on("error", reject);
      request.flushHeaders();
    });
  expect(await send(13, local)).toEqual([200, true]);
  expect(await send(13, "wrong")).toEqual([401, false]);
  expect(await send(1_000_000_000, local)).toEqual([413, false]);
  const strange = `POST /demo/echo HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nExpect: dragons\r\nContent-Length: 0\r\n\r\n`;
  expect(await raw(port, strange)).toMatch(/^HTTP\/1\.1 417 /);
});
