/** `rotunda restart` and `start` where something about the configuration is not as it was thought. */
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { later } from "../support.ts";
import { type Home, home } from "./run.ts";

const SLOW = { timeout: 60_000 };

async function started(configuration: string): Promise<{ place: Home; pid: number; write: (text: string) => void }> {
  const place = home();
  const write = (text: string) => writeFileSync(join(place.workspace, "rotunda.yaml"), text);
  write(configuration);
  later(async () => void (await place.run(["stop"])));
  const { code, out } = await place.run(["start", "--port", "0", "--quiet"]);
  expect([code, out]).toEqual([0, expect.stringContaining("Rotunda listening on")]);
  return { place, pid: await pidOf(place), write };
}

async function pidOf(place: Home): Promise<number> {
  return (JSON.parse((await place.run(["status", "--json"])).out) as { pid: number }).pid;
}

test("a restart that would not start again leaves the old server as it is", SLOW, async () => {
  const { place, pid, write } = await started("server: {}\n");
  write("models: 3\n");
  const faulty = await place.run(["restart"]);
  expect([faulty.code, faulty.out]).toEqual([2, ""]);
  expect(faulty.err).toMatch(/goes on as it was: a new one would not start\n.*rotunda\.yaml.* models /);
  expect(await pidOf(place)).toBe(pid);
  write("server: {}\n");
  const open = await place.run(["restart", "--host", "0.0.0.0"]);
  expect([open.code, open.err]).toEqual([2, expect.stringContaining("To listen on 0.0.0.0")]);
  expect(await pidOf(place)).toBe(pid);
  expect((await place.run(["restart"])).code).toBe(0);
  expect(await pidOf(place)).not.toBe(pid);
});

test("a restart whose port is taken brings the old server back", SLOW, async () => {
  const { place, pid } = await started("server: {}\n");
  const blocker = createServer().listen(0, "127.0.0.1");
  later(() => void blocker.close());
  await new Promise((resolve) => blocker.once("listening", resolve));
  const { port } = blocker.address() as { port: number };
  const { code, out, err } = await place.run(["restart", "--port", String(port)]);
  expect(code).toBe(1);
  expect(err).toContain(`Port ${port} is in use`);
  expect(err).toContain("the old one is started again");
  expect(out).toContain("Rotunda listening on");
  const status = JSON.parse((await place.run(["status", "--json"])).out) as { pid: number; flags: string[] };
  expect(status.pid).not.toBe(pid);
  expect(status.flags).toEqual(["--port", "0", "--quiet"]);
});

test("what a server is started without is said at the terminal, not in its log alone", SLOW, async () => {
  const place = home();
  writeFileSync(join(place.workspace, "rotunda.yaml"), "mcpServers:\n  files: { command: node, args: [x.js] }\n");
  later(async () => void (await place.run(["stop"])));
  for (const words of [["start", "--port", "0"], ["restart"]]) {
    const { code, out, err } = await place.run(words);
    expect([code, out]).toEqual([0, expect.stringContaining("Rotunda listening on")]);
    expect(err).toMatch(/^[^\n]*MCP server files is left out until you trust it: rotunda trust\n$/);
  }
});
