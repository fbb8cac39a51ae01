/** Clients that mean harm: slow ones, endless ones, what is no HTTP, and everything else by chance. */
import type { Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import { open, openDoor, post, raw } from "./door.ts";
import { LONGEST, watchTurns } from "./turns.ts";

test("K8 a body beyond the limit is refused at once, and not held", async () => {
  const { port, local, door, request } = await openDoor({ bodyLimit: 1_000_000 });
  const head = (framing: string) =>
    `POST /demo/echo HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${local}\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`;
  const announced = await raw(port, head("Content-Length: 1000000000"));
  expect(announced).toMatch(/^HTTP\/1\.1 413 /);
  expect(announced.toLowerCase()).toContain("connection: close");
  expect(JSON.parse(announced.slice(announced.indexOf("\r\n\r\n")))).toMatchObject({
    error: { code: "body_too_large" },
  });

  // Chunked and endless: the answer comes while we still send.
  const socket = await open(port);
  let said = "";
  socket.setEncoding("latin1").on("data", (part: string) => {
    said += part;
  });
  const memory = process.memoryUsage().rss;
  socket.write(head("Transfer-Encoding: chunked"));
  const chunk = `10000\r\n${"x".repeat(65_536)}\r\n`;
  let sent = 0;
  while (said === "" && sent < 2_000 && !socket.destroyed) {
    if (!socket.write(chunk)) await wait(1);
    sent++;
  }
  await expect.poll(() => said).toMatch(/^HTTP\/1\.1 413 /);
  expect(door.services.bodies.held).toBe(0);
  expect(process.memoryUsage().rss - memory).toBeLessThan(200_000_000);
  await expect.poll(() => socket.destroyed || socket.readableEnded, { timeout: 5_000 }).toBe(true);
  socket.destroy();
  // A program that sends it all first gets the answer too.
  const big = await request("/demo/echo", post({ text: "x".repeat(3_000_000) })).catch(() => undefined);
  if (big) expect(big.status).toBe(413);
  expect((await request("/demo/echo", post({ text: "x".repeat(900_000) }))).status).toBe(200);
});

test("K8 without a token no body is read at all", async () => {
  const { port, door } = await openDoor();
  const text = `POST /demo/echo HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
  const socket = await open(port);
  let said = "";
  socket.on("data", (part) => {
    said += String(part);
  });
  socket.write(text);
  for (let index = 0; index < 200 && !socket.destroyed; index++) socket.write(`10000\r\n${"x".repeat(65_536)}\r\n`);
  await expect.poll(() => said).toMatch(/^HTTP\/1\.1 401 /);
  expect(door.services.bodies.held).toBe(0);
  socket.destroy();
});

test("a 2 MB message works, a 50 MB one too, and neither stops the others", { timeout: 60_000 }, async () => {
  const { request } = await openDoor();
  expect(await (await request("/demo/echo", post({ text: "ä".repeat(1_000_000) }))).json()).toMatchObject({
    length: 1_000_000,
  });
  // As bytes: to make them of a text would hold this thread for longer than the server does.
  const body = Buffer.from(JSON.stringify({ text: "x".repeat(49_000_000) }));
  await wait(50);
  const turns = watchTurns();
  const big = request("/demo/echo", { method: "POST", headers: { "content-type": "application/json" }, body });
  const others: number[] = [];
  while (others.length < 20) {
    const started = performance.now();
    await (await request("/demo/who")).text();
    others.push(performance.now() - started);
  }
  expect((await big).status).toBe(200);
  const longest = turns.stop();
  // Where others fill the memory's bus, every byte costs more: to copy the body once says how much.
  const copying = watchTurns();
  Buffer.concat([body, Buffer.alloc(1)]);
  const copy = copying.stop();
  process.stdout.write(
    `longest turn with a body of 49 MB: ${longest.toFixed(0)} ms; its copy: ${copy.toFixed(0)} ms\n`,
  );
  expect(longest).toBeLessThan(Math.max(LONGEST, 12 * copy));
});

test("K8 1,000 slow sockets do not stop the others, and are closed in time", { timeout: 60_000 }, async () => {
  const { port, local, request, door } = await openDoor({ timeouts: { headers: 2, request: 3 } });
  const sockets: Socket[] = [];
  const kinds = [
    "",
    "GET / HT",
    `GET /demo/who HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nX-A: `,
    `POST /demo/echo HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${local}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"te`,
  ];
  for (let index = 0; index < 1_000; index++) {
    const socket = await open(port);
    socket.on("data", () => undefined);
    socket.write(kinds[index % kinds.length] ?? "");
    sockets.push(socket);
  }
  const dripping = setInterval(() => {
    for (const socket of sockets) if (!socket.destroyed) socket.write("x");
  }, 500);
  const turns = watchTurns();
  for (let index = 0; index < 50; index++) expect((await request("/demo/who")).status).toBe(200);
  await expect.poll(() => sockets.filter((socket) => !socket.destroyed).length, { timeout: 20_000 }).toBe(0);
  clearInterval(dripping);
  expect(turns.stop()).toBeLessThan(LONGEST);
  await expect.poll(() => door.services.connections()).toBeLessThan(5);
});

test("K17 what is no HTTP, or two requests at once, is a 400 and the end", async () => {
  const { port, local, demo } = await openDoor();
  const lines = `Host: 127.0.0.1:${port}\r\nAuthorization: Bearer ${local}\r\nContent-Type: application/json\r\n`;
  const inner = `POST /demo/effects HTTP/1.1\r\n${lines}Content-Length: 2\r\n\r\n{}`;
  const bad: [name: string, bytes: string | Buffer][] = [
    [
      "CL and TE",
      `POST /demo/echo HTTP/1.1\r\n${lines}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inner}`,
    ],
    [
      "TE and CL",
      `POST /demo/echo HTTP/1.1\r\n${lines}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n${inner}`,
    ],
    [
      "two CL",
      `POST /demo/echo HTTP/1.1\r\n${lines}Content-Length: 0\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
    ],
    ["unknown TE", `POST /demo/echo HTTP/1.1\r\n${lines}Transfer-Encoding: xchunked\r\n\r\n${inner}`],
    [
      "TE twice",
      `POST /demo/echo HTTP/1.1\r\n${lines}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${inner}`,
    ],
    ["negative CL", `POST /demo/echo HTTP/1.1\r\n${lines}Content-Length: -1\r\n\r\n${inner}`],
    ["CL with plus", `POST /demo/echo HTTP/1.1\r\n${lines}Content-Length: +2\r\n\r\n{}`],
    ["obs-fold", `GET /demo/who HTTP/1.1\r\nX-A: b\r\n c: d\r\n${lines}\r\n`],
    ["space before colon", `GET /demo/who HTTP/1.1\r\nHost : 127.0.0.1:${port}\r\n${lines}\r\n`],
    ["bare LF", `GET /demo/who HTTP/1.1\nHost: 127.0.0.1:${port}\nAuthorization: Bearer ${local}\n\n`],
    ["NUL in a header", `GET /demo/who HTTP/1.1\r\nX-A: a\0b\r\n${lines}\r\n`],
    ["bad chunk", `POST /demo/echo HTTP/1.1\r\n${lines}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n`],
    ["HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["HTTP/9", `GET /demo/who HTTP/9.9\r\n${lines}\r\n`],
    ["TLS hello", Buffer.from("16030100c8010000c40303", "hex")],
    ["noise", Buffer.from("00ff0a0d00ff", "hex")],
    ["spaces in the path", `GET /demo/who x HTTP/1.1\r\n${lines}\r\n`],
  ];
  for (const [name, bytes] of bad) {
    const answer = await raw(port, bytes);
    expect([name, answer.slice(0, 12)]).toEqual([name, "HTTP/1.1 400"]);
    expect([name, answer.match(/^HTTP\/1\.1 /gm)?.length]).toEqual([name, 1]);
    const body = JSON.parse(answer.slice(answer.indexOf("\r\n\r\n"))) as { error: { type: string } };
    expect([name, body.error.type]).toEqual([name, "invalid_request_error"]);
  }
  expect(demo.effects).toBe(0);
  const huge = await raw(port, `GET /demo/who HTTP/1.1\r\n${lines}X-A: ${"a".repeat(20_000)}\r\n\r\n`);
  expect(huge).toMatch(/^HTTP\/1\.1 431 /);
  // A good request and noise behind it: never noise's answer within the good one's.
  const mixed = await raw(port, `GET /demo/who HTTP/1.1\r\n${lines}\r\nGET /demo/who HTTP/1.1\r\n${lines}\r\n\0\0\0`);
  for (const part of mixed.split(/^(?=HTTP\/1\.1 )/m))
    expect(part === "" || /^HTTP\/1\.1 (200|400) /.test(part)).toBe(true);
  const absolute = await raw(port, `GET http://evil.example/demo/who HTTP/1.1\r\n${lines}\r\n`);
  expect(absolute).toMatch(/^HTTP\/1\.1 4/);
});

test("K12 a refusal takes as long whatever the token was", { timeout: 60_000 }, async () => {
  const { request, token } = await openDoor({ accessLog: false });
  const good = await token();
  const known = good.slice(0, 17);
  const bad = [
    `${known}${"0".repeat(64)}`,
    `rtd_zzzzzzzzzzzz_${"0".repeat(64)}`,
    await token({ revokedAt: 1 }),
    "nonsense",
  ];
  const times: number[][] = bad.map(() => []);
  for (let round = 0; round < 300; round++) {
    for (const [index, as] of bad.entries()) {
      const started = performance.now();
      await (await request("/demo/who", { as })).text();
      if (round >= 20) times[index]?.push(performance.now() - started);
    }
  }
  for (const one of times.slice(1)) expect(Math.abs(standardScore(times[0] ?? [], one))).toBeLessThan(5);
});

/** Mann and Whitney's test: how many standard deviations two samples are apart. */
function standardScore(a: readonly number[], b: readonly number[]): number {
  const ranks = [...a.map((value) => ({ value, first: true })), ...b.map((value) => ({ value, first: false }))];
  ranks.sort((one, other) => one.value - other.value);
  const sum = ranks.reduce((total, { first }, index) => total + (first ? index + 1 : 0), 0);
  const u = sum - (a.length * (a.length + 1)) / 2;
  const mean = (a.length * b.length) / 2;
  return (u - mean) / Math.sqrt((a.length * b.length * (a.length + b.length + 1)) / 12);
}

test("bytes by chance, cut anywhere: the door stays up", { timeout: 60_000 }, async () => {
  const { port, local, request } = await openDoor({ accessLog: false });
  const whole = `POST /demo/echo HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${local}\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{"text":"abcd"}`;
  const change = fc.record({
    at: fc.nat(whole.length - 1),
    cut: fc.nat(20),
    put: fc.string({ unit: "binary", maxLength: 12 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 4 }), async (changes) => {
      let text = whole;
      for (const { at, cut, put } of changes) text = text.slice(0, at) + put + text.slice(at + cut);
      const socket = await open(port);
      socket.write(Buffer.from(text, "latin1"));
      await wait(1);
      socket.destroy();
    }),
    { numRuns: 1_000 },
  );
  expect((await request("/demo/who")).status).toBe(200);
});
