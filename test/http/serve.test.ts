/** `rotunda serve`, `start`, `stop`, `restart` and `status`, as processes. */

import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Home, home, type Started } from "../cli/run.ts";
import { later } from "../support.ts";
import { open } from "./door.ts";

const SLOW = { timeout: 60_000 };

async function serve(place: Home, ...flags: string[]): Promise<{ started: Started; url: string }> {
  const started = place.start(["serve", "--port", "0", ...flags]);
  later(() => void started.child.kill("SIGKILL"));
  await expect.poll(started.out, { timeout: 20_000 }).toContain("\n");
  const [, url = ""] = /^Rotunda listening on (http:\/\/127\.0\.0\.1:\d+)\n$/.exec(started.out()) ?? [];
  expect(url, started.out() + started.err()).not.toBe("");
  return { started, url };
}

const stateOf = (place: Home) => place.environment.ROTUNDA_HOME ?? "";

function serverFile(place: Home): { pid: number; url: string; process: string; flags: string[] } {
  return JSON.parse(readFileSync(join(stateOf(place), "server.json"), "utf8"));
}

/** A request that is never whole. */
async function holdDrain(url: string, token: string): Promise<void> {
  const socket = await open(Number(new URL(url).port));
  later(() => void socket.destroy());
  const host = new URL(url).host;
  socket.write(`POST /v1/responses HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n`);
  socket.write("Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{");
  await wait(500);
}

test("one line on stdout, the rest on stderr; the server file is there as long as it serves", SLOW, async () => {
  const place = home();
  const { started, url } = await serve(place);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect((await fetch(`${url}/v1/models`)).status).toBe(401);
  const token = readFileSync(join(stateOf(place), "token"), "utf8").trim();
  expect((await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(200);
  expect(serverFile(place)).toMatchObject({ pid: started.child.pid, url, flags: ["--port", "0"] });
  expect(statSync(join(stateOf(place), "server.json")).mode & 0o777).toBe(0o600);
  const status = await place.run(["status", "--json"]);
  expect([status.code, JSON.parse(status.out)]).toMatchObject([
    0,
    { running: true, state: "ok", url, pid: started.child.pid },
  ]);
  started.child.kill("SIGTERM");
  const ended = await started.result;
  expect([ended.code, ended.signal]).toEqual([0, null]);
  expect(ended.out).toBe(`Rotunda listening on ${url}\n`);
  const lines = ended.err
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { route: string; status: number });
  expect(lines.map(({ route, status: code }) => `${route} ${code}`)).toEqual([
    "/healthz 200",
    "/v1/models 401",
    "/v1/models 200",
    "/readyz 200",
  ]);
  expect(existsSync(join(stateOf(place), "server.json"))).toBe(false);
  expect((await place.run(["status"])).code).toBe(1);
});

test("D11 the second signal ends it at once", SLOW, async () => {
  const place = home();
  const { started, url } = await serve(place, "--quiet");
  const token = readFileSync(join(stateOf(place), "token"), "utf8").trim();
  await holdDrain(url, token);
  started.child.kill("SIGTERM");
  await wait(300);
  expect(started.child.exitCode).toBeNull();
  const before = performance.now();
  started.child.kill("SIGTERM");
  expect((await started.result).code).toBe(143);
  expect(performance.now() - before).toBeLessThan(3_000);
});

test("D11 what holds the drain is ended within ten seconds, and the exit code is 0", SLOW, async () => {
  const place = home();
  const { started, url } = await serve(place, "--quiet");
  const token = readFileSync(join(stateOf(place), "token"), "utf8").trim();
  await holdDrain(url, token);
  const before = performance.now();
  started.child.kill("SIGINT");
  expect((await started.result).code).toBe(0);
  const took = performance.now() - before;
  expect(took).toBeGreaterThan(2_000);
  expect(took).toBeLessThan(12_000);
});

test("D14 a port that is in use: one clear line, exit code 1", SLOW, async () => {
  const blocker = createServer().listen(0, "127.0.0.1");
  later(() => void blocker.close());
  await new Promise((resolve) => blocker.once("listening", resolve));
  const { port } = blocker.address() as { port: number };
  const ended = await home().run(["serve", "--port", String(port)]);
  expect([ended.code, ended.out]).toEqual([1, ""]);
  expect(ended.err).toContain(`Port ${port} is in use`);
});

test("it does not open wider than was meant", SLOW, async () => {
  const place = home();
  for (const flags of [
    ["--host", "0.0.0.0"],
    ["--auth", "none", "--behind-proxy"],
    ["--cors", "*"],
    ["--port", "70000"],
    ["--database", "mysql://x"],
  ]) {
    const ended = await place.run(["serve", ...flags]);
    expect([flags, ended.code, ended.out]).toEqual([flags, 2, ""]);
  }
  const { started, url } = await serve(place, "--auth", "none");
  expect((await fetch(`${url}/v1/models`)).status).toBe(200);
  expect(started.err()).toContain("Warning: no token is asked for");
  started.child.kill("SIGTERM");
  await started.result;
});

test("start, status, restart with the same flags, stop", SLOW, async () => {
  const place = home();
  later(async () => void (await place.run(["stop"])));
  const first = await place.run(["start", "--port", "0", "--quiet"]);
  expect([first.code, first.err]).toEqual([0, ""]);
  expect(first.out).toMatch(/^Rotunda listening on http:\/\/127\.0\.0\.1:\d+ \(pid \d+, log .*server\.log\)\n$/);
  const { pid, url } = serverFile(place);
  expect((await place.run(["start"])).out).toContain(`Rotunda runs already on ${url} (pid ${pid})`);
  expect((await fetch(`${url}/readyz`)).status).toBe(200);
  expect((await place.run(["restart"])).code).toBe(0);
  const again = serverFile(place);
  expect(again.pid).not.toBe(pid);
  expect(again.flags).toEqual(["--port", "0", "--quiet"]);
  expect((await place.run(["stop"])).out).toBe(`Stopped (pid ${again.pid})\n`);
  expect(existsSync(join(stateOf(place), "server.json"))).toBe(false);
  expect((await place.run(["stop"])).out).toBe("No server is running\n");
  expect(statSync(join(stateOf(place), "server.log")).mode & 0o777).toBe(0o600);
  const failed = await place.run(["start", "--host", "0.0.0.0"]);
  expect(failed.code).toBe(1);
  expect(failed.err).toContain("To listen on 0.0.0.0");
});

test("D14 a stale server file: another's process is never touched", SLOW, async () => {
  const place = home();
  const { started } = await serve(place);
  const stale = serverFile(place);
  started.child.kill("SIGKILL");
  await started.result;
  expect((await place.run(["status"])).code).toBe(1);
  // The pid belongs to somebody else by now: this process.
  const [machine, , start, random] = stale.process.split("/");
  const text = { ...stale, pid: process.pid, process: [machine, process.pid, start, random].join("/") };
  writeFileSync(join(stateOf(place), "server.json"), JSON.stringify(text));
  expect((await place.run(["stop"])).out).toBe("No server is running\n");
  writeFileSync(join(stateOf(place), "server.json"), "{ not json");
  expect((await place.run(["status", "--json"])).out).toBe('{"running":false}\n');
  const { started: next } = await serve(place);
  expect(serverFile(place).pid).toBe(next.child.pid);
});

test("a reader of stderr who went away, or does not read, stops nothing", SLOW, async () => {
  const place = home();
  const { started, url } = await serve(place);
  started.child.stderr?.pause();
  for (let index = 0; index < 1_500; index++) await (await fetch(`${url}/healthz`)).text();
  started.child.stderr?.destroy();
  for (let index = 0; index < 200; index++) await (await fetch(`${url}/healthz`)).text();
  started.child.kill("SIGTERM");
  await expect.poll(() => started.child.exitCode, { timeout: 15_000 }).toBe(0);
});
