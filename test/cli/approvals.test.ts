/** What waits for a person, what an answer teaches, and what MCP servers ask. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later } from "../support.ts";
import { type Home, home } from "./run.ts";

const SLOW = { timeout: 60_000 };

async function placeWith(config: object, ...answers: Parameters<typeof startUpstream>[0] & unknown[]): Promise<Home> {
  const upstream = await startUpstream(answers);
  later(() => upstream.close());
  const place = home();
  const model = { id: "main", baseUrl: upstream.url, model: "test", retries: 0 };
  const file = join(place.workspace, "..", "rotunda.yaml");
  writeFileSync(file, JSON.stringify({ models: [model], ...config }));
  place.environment.ROTUNDA_CONFIG = file;
  return place;
}

const write = (file: string) => ({ calls: [{ name: "write", arguments: { file_path: file, content: "x" } }] });

const waitsFor = (err: string) => /rotunda approve (\w{8})/.exec(err)?.[1] ?? "";

test("an answer that holds further shows the rule that it made, and how that is taken back", SLOW, async () => {
  const place = await placeWith({}, write("a.txt"), { text: "done" }, write("a.txt"), { text: "again" });
  const first = waitsFor((await place.run(["chat", "--conversation", "work", "go"])).err);
  const listed = (await place.run(["approvals"])).out;
  const [, pattern = ""] = /--scope session or always allows: (.*)\n/.exec(listed) ?? [];
  expect(pattern).toBe("write(./a.txt)");
  const { code, err } = await place.run(["approve", first, "--scope", "always"]);
  expect(code).toBe(0);
  expect(err).toContain(`learned: ${pattern}, always in ${place.workspace}\n`);
  const [, rule = ""] = /take it back: (rotunda permissions list --forget rule_\w+)\n/.exec(err) ?? [];
  expect((await place.run(["chat", "--conversation", "work", "again"])).out).toContain("again");
  expect((await place.run(rule.split(" ").slice(1))).err).toBe("Forgotten.\n");
  expect((await place.run(["permissions", "list"])).out).not.toContain("learned");
});

test(
  "for the session it says so; a refusal, and what nothing narrow can be learned of, reach no further",
  SLOW,
  async () => {
    const odd = { calls: [{ name: "bash", arguments: { command: 'touch b.txt; eval "$(cat x)"' } }] };
    const rules = { permissions: { ask: ["bash"] } };
    const place = await placeWith(rules, write("a.txt"), write("b.txt"), odd, { text: "done" });
    const first = await place.run(["approve", waitsFor((await place.run(["chat", "go"])).err), "--scope", "session"]);
    expect(first.err).toMatch(/learned: write\(\.\/a\.txt\), for the rest of this conversation\n/);
    expect((await place.run(["approvals"])).out).toContain("allows: write(./b.txt)");
    const second = await place.run(["deny", waitsFor(first.err), "--scope", "always"]);
    expect(second.err).toContain("A refusal reaches no further than this call.\n");
    expect((await place.run(["approvals"])).out).not.toContain("--scope session");
    const third = await place.run(["approve", waitsFor(second.err), "--scope", "always"]);
    expect(third.err).toContain("Nothing narrow could be learned of it: it is allowed this once.\n");
  },
);

test("what an MCP server asks at the running server is listed, and where it is answered", SLOW, async () => {
  const fixture = join(import.meta.dirname, "../fixtures/mcp/asking.ts");
  const place = await placeWith(
    {
      mcpServers: { asking: { command: process.execPath, args: [fixture, "both"] } },
      permissions: { allow: ["asking:*"] },
    },
    { calls: [{ name: "asking__confirm", arguments: {} }] },
    { text: "done" },
  );
  const server = place.start(["serve", "--port", "0", "--quiet"]);
  later(() => void server.child.kill("SIGKILL"));
  await expect.poll(server.out, { timeout: 20_000 }).toContain("listening on");
  const chat = place.start(["chat", "go"]);
  later(() => void chat.child.kill("SIGKILL"));
  await expect
    .poll(async () => (await place.run(["approvals"])).out, { timeout: 30_000 })
    .toMatch(
      /^\w{8} {2}MCP server asking asks: Who are you\?\S*\n {4}wants: name, count, colour\n {4}answer it at: .*rotunda open/,
    );
  const [asked] = JSON.parse((await place.run(["approvals", "--json"])).out) as { kind: string; id: string }[];
  expect(asked).toMatchObject({ kind: "elicitation", server: "asking" });
  const [, url] = /(http:\/\/\S+?)[\s/]/.exec(server.out()) ?? [];
  const token = (await place.run(["token", "show"])).out.trim();
  const answer = await fetch(`${url}/v1/elicitation/${asked?.id}/resolve`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ action: "accept", content: { name: "Ada" } }),
  });
  expect(answer.status).toBe(200);
  expect((await chat.result).code).toBe(0);
  expect((await place.run(["approvals"])).err).toContain("Nothing waits");
});
