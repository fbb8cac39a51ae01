/** What the command line says of entries with a fault, of names that there are not and of servers that fail. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { type Home, home } from "./run.ts";

const SLOW = { timeout: 90_000 };
const HOSTILE = join(import.meta.dirname, "..", "fixtures", "mcp", "hostile.ts");
const serverIn = (mode: string) => ({ command: process.execPath, args: [HOSTILE, JSON.stringify({ mode })] });

async function placeWith(config: object, trusted = true): Promise<Home> {
  const place = home();
  writeFileSync(join(place.workspace, "rotunda.json"), JSON.stringify(config));
  if (trusted) await place.run(["trust", "--yes"]);
  return place;
}

test("one entry with a fault stops nothing but itself", SLOW, async () => {
  const upstream = await startUpstream([{ text: "hello" }]);
  later(() => upstream.close());
  const place = await placeWith({
    models: [
      { id: "main", baseUrl: upstream.url, apiKey: "${KEY_THAT_IS_NOT_SET}" },
      { id: "other", baseUrl: upstream.url },
    ],
    mcpServers: {
      old: { type: "sse", url: "https://mcp.example.com/sse" },
      good: serverIn("none"),
    },
  });
  const left = [
    "model main is left out: the variable KEY_THAT_IS_NOT_SET in models[0].apiKey of ",
    "MCP server old is left out: its transport sse is not supported. Give its Streamable HTTP address",
  ];
  const log = await place.run(["log"]);
  expect([log.code, log.err]).toEqual([0, expect.stringContaining(left[0] ?? "")]);
  const other = await place.run(["chat", "--model", "other", "hi"]);
  expect([other.code, other.out]).toEqual([0, "hello\n"]);
  for (const text of left) expect(other.err.split(text)).toHaveLength(2);
  for (const words of [
    ["chat", "--model", "main", "hi"],
    ["chat", "hi"],
  ]) {
    const { code, err } = await place.run(words);
    expect(code).toBe(2);
    expect(err).toMatch(
      /rotunda: the model main is left out: the variable KEY_THAT_IS_NOT_SET .* is not set\n {2}Set KEY_/,
    );
  }
  const called = await place.run(["call", "good__echo", '{"text":"yes"}']);
  expect([called.code, called.out]).toEqual([0, "yes\n"]);
  const tested = await place.run(["hub", "test", "old"]);
  expect([tested.code, tested.err]).toEqual([
    2,
    expect.stringContaining("the MCP server old is left out: its transport"),
  ]);
  expect((await place.run(["hub"])).out).toMatch(/^good {2}stdio {2}known/);
  const doctor = await place.run(["doctor"]);
  expect(doctor.out).toContain(`! config: ${left[0]}`);
  expect(doctor.out).toContain(`! config: ${left[1]}`);
  expect(doctor.out).toContain("✓ mcp good: 4 tools");
});

test("what waits for trust is not called absent", SLOW, async () => {
  const place = await placeWith({ mcpServers: { files: serverIn("none") } }, false);
  const { out, err } = await place.run(["hub"]);
  expect(out).toBe("");
  expect(err).toMatch(/MCP server files is left out until you trust it/);
  expect(err).not.toContain("No MCP server is configured");
  expect((await home().run(["hub"])).err).toContain("No MCP server is configured");
});

test("a server that fails is silent in the calls of another, and failed in the list", SLOW, async () => {
  const bad = serverIn("die-at-start");
  const away = { url: "http://127.0.0.1:9/mcp" };
  const place = await placeWith({ mcpServers: { ev: serverIn("none"), bad, away } });
  const called = await place.run(["call", "ev__echo", '{"text":"x"}']);
  expect([called.code, called.out, called.err]).toEqual([0, "x\n", ""]);
  const tools = await place.run(["tools"]);
  expect(tools.err).toContain("MCP server away failed: cannot reach http://127.0.0.1:9/mcp: connection refused\n");
  const list = (await place.run(["hub"])).out;
  expect(list).toMatch(/^bad {2}stdio {2}failed .*ended with exit code 3 before it answered: fatal: cannot open/m);
  expect(list).toMatch(/^away {2}http {2}failed .*connection refused$/m);
});

test("doctor finds names that there are not, and what was meant", SLOW, async () => {
  const model = { id: "main", baseUrl: "http://127.0.0.1:9/v1" };
  const place = await placeWith({
    models: [
      { ...model, fallback: "zz" },
      { ...model, model: "another" },
    ],
    mcpServers: { down: serverIn("die-at-start") },
    profile: "genral",
    profiles: {
      p: { extends: "zz", servers: ["dwon"] },
      q: { model: "mian", tools: ["raed", "glob", "!bash", "down__x", "task"], adminTools: ["get_setings"] },
    },
  });
  const { code, out } = await place.run(["doctor"]);
  expect(code).toBe(1);
  for (const line of [
    "two models have the id main; only the first one counts",
    "✗ names: profile: there is no profile genral: did you mean general?",
    "✗ names: profiles.p.extends: there is no profile zz; there are: general, ",
    "✗ names: fallback of model main: there is no model zz; there are: main",
    "✗ names: profiles.q.model: there is no model mian: did you mean main?",
    "! names: profiles.q.tools: raed names no tool: did you mean read?",
    "! names: profiles.p.servers: dwon names no MCP server: did you mean down?",
    "! names: profiles.q.adminTools: get_setings names no admin tool: did you mean get_settings?",
  ]) {
    expect(out).toContain(line);
  }
  expect(out.match(/names: /g)).toHaveLength(7);
});
