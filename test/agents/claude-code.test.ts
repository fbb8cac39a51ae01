/**
 * The real Claude Code as a model, offline. Opt-in, as it is large: install `@anthropic-ai/claude-code` somewhere and
 * set ROTUNDA_TEST_CLAUDE to its program (`node_modules/.bin/claude`).
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type AnthropicScript, startAnthropicUpstream } from "../../src/testing/anthropic-upstream.ts";
import type { App } from "../../src/types/app.ts";
import type { FullResponse } from "../../src/types/response.ts";
import { openApp, place } from "../app/support.ts";
import { killed } from "../models/agent-bench.ts";
import { collect, later, modelOf, say } from "../support.ts";
import { eventually } from "../util/processes.ts";
import { processesOf } from "./processes.ts";

const program = process.env.ROTUNDA_TEST_CLAUDE ?? "";
const SKIPPED = "SKIPPED: set ROTUNDA_TEST_CLAUDE to a claude program";
const real = test.skipIf(!existsSync(program));

async function bench(script: AnthropicScript, config: object = {}) {
  const upstream = await startAnthropicUpstream(script);
  later(() => upstream.close());
  const env = {
    ANTHROPIC_BASE_URL: upstream.url,
    ANTHROPIC_API_KEY: "x",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    DISABLE_TELEMETRY: "1",
  };
  const here = place();
  mkdirSync(join(here.root, "home"), { recursive: true });
  here.put("home/.config/rotunda/rotunda.yaml", { agents: { "claude-code": { command: program, env } }, ...config });
  const http = modelOf([say("from http")], "http");
  const app = await openApp(here, [http]);
  return { upstream, here, app, http };
}

async function turn(app: App, input: string, more: object = {}): Promise<FullResponse> {
  const { id } = await app.engine.start({
    input,
    model: "claude-code",
    workspace: app.workspace,
    door: "test",
    ...more,
  });
  await app.engine.wait(id);
  return app.engine.get(id);
}

real(`it answers, resumes and branches (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { app, upstream } = await bench((request) => {
    if (request.text.includes("and now left")) return { text: "went left" };
    if (request.text.includes("and now right")) return { text: "went right" };
    return { thinking: "hm", text: ["Hello ", "there"] };
  });
  const first = await turn(app, "hi there");
  expect(first).toMatchObject({ status: "completed", error: null });
  const events = await collect(app.engine.watch(first.id));
  expect(events.filter(({ type }) => type === "response.output_text.delta")).toMatchObject([
    { delta: "Hello " },
    { delta: "there" },
  ]);
  expect(app.engine.textOf(first)).toBe("Hello there");
  expect(first.usage.cost).toBeGreaterThan(0);
  const [left, right] = await Promise.all([
    turn(app, "and now left", { previousResponseId: first.id }),
    turn(app, "and now right", { previousResponseId: first.id }),
  ]);
  expect([app.engine.textOf(left), app.engine.textOf(right)]).toEqual(["went left", "went right"]);
  // The cost is that of the turn, not of the session that it took up.
  expect(left.usage.cost).toBeCloseTo(first.usage.cost ?? 0, 6);
  const leftAsked = upstream.requests.find(({ text }) => text.includes("and now left"));
  expect(leftAsked?.text).toContain("Hello there");
  expect(leftAsked?.text).not.toContain("and now right");
  expect(leftAsked?.text).not.toContain("<conversation>");
  expect(upstream.refusals).toEqual([]);
});

const MAKE = { name: "Bash", input: { command: "echo hello > made.txt", description: "make" } };

/** Makes the file as often as it is told that it may, and then says so. */
const maker: AnthropicScript = ({ text }) => {
  const ran = text.includes("completed with no output") || text.includes("DENIED") || text.includes("has been denied");
  return ran ? { text: "Done." } : { text: "I make it.", calls: [MAKE] };
};

const calls = (response: FullResponse) => response.output.filter((item) => item.type === "mcp_call");

real(`a question is answered while it waits (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { app, here, upstream } = await bench(maker);
  const approver = async () => ({ decision: "allow" as const, by: "test" });
  const ended = await turn(app, "make it", { approver });
  expect(ended).toMatchObject({ status: "completed", error: null });
  expect(calls(ended)).toMatchObject([{ server_label: "claude-code", name: "Bash", status: "completed", error: null }]);
  expect(app.engine.textOf(ended)).toBe("Done.");
  expect(readFileSync(join(here.workspace, "made.txt"), "utf8")).toBe("hello\n");
  const no = async () => ({ decision: "deny" as const, reason: "not here", by: "test" });
  const denied = await turn(app, "make it", { approver: no, conversation: "new" });
  expect(calls(denied)).toMatchObject([{ status: "failed", error: expect.stringContaining("not here") }]);
  expect(upstream.requests.at(-1)?.text).toContain("not here");
});

real(`a question is answered when nobody was there (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { app, here } = await bench(maker);
  const asked = await turn(app, "make it");
  expect(asked.status).toBe("waiting");
  expect(existsSync(join(here.workspace, "made.txt"))).toBe(false);
  const [approval] = await app.store.approvals({ status: "pending" });
  expect(approval).toMatchObject({ tool: "claude-code__Bash" });
  await app.engine.decide(approval?.id ?? "", { decision: "allow", by: "test" });
  await app.engine.goOn(approval?.id ?? "");
  await app.engine.wait(asked.id);
  const ended = await app.engine.get(asked.id);
  expect(ended).toMatchObject({ status: "completed", error: null });
  expect(calls(ended)).toMatchObject([
    { status: "incomplete" },
    { status: "completed", approval_request_id: approval?.id },
  ]);
  expect(readFileSync(join(here.workspace, "made.txt"), "utf8")).toBe("hello\n");
});

real(`rules of ours hold for its tools (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { app, here } = await bench(maker, { permissions: { deny: ["bash(echo *)"] } });
  const ended = await turn(app, "make it", { settings: { mode: "auto" } });
  expect(calls(ended)).toMatchObject([
    { status: "failed", error: expect.stringMatching(/rule deny: |has been denied/) },
  ]);
  expect(existsSync(join(here.workspace, "made.txt"))).toBe(false);
});

real(`in mode auto it asks nobody (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { app, here } = await bench(maker);
  const ended = await turn(app, "make it", { settings: { mode: "auto" } });
  expect(ended.status).toBe("completed");
  expect(existsSync(join(here.workspace, "made.txt"))).toBe(true);
});

real(`a conversation goes from an HTTP model to it and back (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { app, upstream, http } = await bench([{ text: "from claude" }]);
  const first = await turn(app, "the word is plum", { model: "http" });
  const second = await turn(app, "and now you", { previousResponseId: first.id });
  expect(app.engine.textOf(second)).toBe("from claude");
  expect(upstream.requests[0]?.text).toContain("the word is plum");
  expect(upstream.requests[0]?.text).toContain("from http");
  const third = await turn(app, "back again", { model: "http", previousResponseId: second.id });
  expect(third.status).toBe("completed");
  expect(JSON.stringify(http.requests.at(-1)?.history)).toContain("from claude");
});

real(`a session that is gone (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { app, upstream, here } = await bench([{ text: "the word was plum" }]);
  const first = await turn(app, "remember");
  rmSync(join(here.root, "home", ".claude"), { recursive: true, force: true });
  const second = await turn(app, "and?", { previousResponseId: first.id });
  expect(second.status).toBe("completed");
  expect(upstream.requests.at(-1)?.text).toContain("the word was plum");
});

real(`what the endpoint refuses (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { app } = await bench([{ status: 400, error: "invalid x-api-key" }]);
  const ended = await turn(app, "hi");
  expect(ended).toMatchObject({ status: "failed", error: { code: "upstream_failed" } });
  expect(ended.error?.message).toMatch(/^Claude Code failed with exit code 1: Invalid API key/);
});

real(`a prompt of 2 MB (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { app, upstream } = await bench([{ text: "long" }]);
  const ended = await turn(app, "x".repeat(2_000_000));
  expect(ended.status).toBe("completed");
  expect(upstream.requests[0]?.text.length).toBeGreaterThan(2_000_000);
});

real(`it is cancelled, and nothing of it is left (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const { app, here } = await bench([{ text: ["Let me ", "think"], hang: true }]);
  const { id } = await app.engine.start({ input: "hi", model: "claude-code", workspace: app.workspace, door: "test" });
  for await (const event of app.engine.watch(id)) if (event.type === "response.output_text.delta") break;
  expect(processesOf(here)).not.toEqual([]);
  await app.engine.cancel(id, "enough");
  expect(await app.engine.get(id)).toMatchObject({ status: "cancelled" });
  expect(processesOf(here)).toEqual([]);
});

real(`kill -9 of ours in the middle of its tool (${SKIPPED})`, { timeout: 90_000 }, async () => {
  const again = { name: "Bash", input: { command: "echo x >> made.txt; sleep 1000", description: "make" } };
  const script: AnthropicScript = ({ text }) =>
    text.includes("outcome unknown") ? { text: "I look first." } : { text: "I make it.", calls: [again] };
  const { app, here, upstream } = await bench(script, { permissions: { mode: "auto" } });
  const file = join(here.workspace, "made.txt");
  const id = await killed(here, "make it", () => existsSync(file));
  expect(await eventually(() => processesOf(here).length === 0)).toBe(true);
  await app.engine.resume(id);
  await app.engine.wait(id);
  const ended = await app.engine.get(id);
  expect(ended).toMatchObject({ status: "completed", error: null });
  expect(app.engine.textOf(ended)).toBe("I look first.");
  expect(calls(ended)).toMatchObject([{ status: "incomplete", error: expect.stringContaining("outcome unknown") }]);
  expect(readFileSync(file, "utf8")).toBe("x\n");
  expect(upstream.refusals).toEqual([]);
});
