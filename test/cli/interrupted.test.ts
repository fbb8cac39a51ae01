/** What had been said when a process was killed, and how long calls took that another one ran. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import type { FullResponse } from "../../src/types/response.ts";
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

test(
  "show has what was said of an answer that kill -9 cut, and says that it was; after resume it stays",
  SLOW,
  async () => {
    const place = await placeWith({}, { text: ["word0 ", "word1 "], break: "hang" }, { text: "all of it" });
    const chat = place.start(["chat", "--conversation", "cut", "hello"]);
    await expect.poll(chat.out, { timeout: 20_000 }).toContain("word1");
    const running = await place.run(["show", "cut"]);
    expect(running.out).toMatch(/status: in_progress\n[\s\S]*\nassistant \[so far\]\nword0 word1 \n$/);
    chat.child.kill("SIGKILL");
    await chat.result;
    const { out } = await place.run(["show", "cut"]);
    expect(out).toMatch(/status: interrupted; go on with: rotunda resume \w{8}\n/);
    expect(out).toMatch(/\nuser\nhello\n\nassistant \[cut there: its process ended\]\nword0 word1 \n$/);
    const json = JSON.parse((await place.run(["show", "cut", "--json"])).out) as FullResponse & {
      interrupted: boolean;
    };
    expect(json.interrupted).toBe(true);
    expect(json.output).toMatchObject([
      { type: "message", status: "incomplete", content: [{ type: "output_text", text: "word0 word1 " }] },
    ]);
    expect((await place.run(["resume", json.id])).out).toContain("all of it");
    expect((await place.run(["show", "cut"])).out).toMatch(
      /status: completed\n[\s\S]*assistant \[incomplete\]\nword0 word1 \n\nassistant\nall of it\n$/,
    );
  },
);

test(
  "a call that another process ran took as long as is stored; its server's name stands before it at every door",
  SLOW,
  async () => {
    const fixture = join(import.meta.dirname, "../fixtures/mcp/asking.ts");
    const place = await placeWith(
      { mcpServers: { mine: { command: process.execPath, args: [fixture, "both"] } } },
      { calls: [{ name: "bash", arguments: { command: "sleep 0.3" } }] },
      { text: "slept" },
      { calls: [{ name: "mine__link", arguments: {} }] },
      { text: "linked" },
    );
    await place.run(["chat", "--mode", "auto", "--conversation", "calls", "one"]);
    const { err } = await place.run(["log", "--follow", (await latest(place, "calls")).slice(-8)]);
    const [, took] = /✓ bash (\d+) ms/.exec(err) ?? [];
    expect(Number(took)).toBeGreaterThanOrEqual(300);
    const waiting = await place.run(["chat", "--conversation", "calls", "two"]);
    expect(waiting.code).toBe(3);
    const [, approval = ""] = /rotunda approve (\w{8})/.exec(waiting.err) ?? [];
    expect((await place.run(["approve", approval])).err).toMatch(/[✓✗] mine__link \d+ ms/);
  },
);

async function latest(place: Home, conversation: string): Promise<string> {
  return (JSON.parse((await place.run(["show", conversation, "--json"])).out) as FullResponse).id;
}
