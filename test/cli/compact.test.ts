/** Compaction and following at the command line, and its logs for programs. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startUpstream, type UpstreamScript } from "../../src/testing/upstream.ts";
import { isSummary, promptTokens, withWindow } from "../engine/window.ts";
import { later } from "../support.ts";
import { startCollector } from "../telemetry/collector.ts";
import { type Home, home, type Started } from "./run.ts";

async function bench(script: UpstreamScript, config: object = {}, model: object = {}) {
  const upstream = await startUpstream(script);
  later(() => upstream.close());
  const at = home();
  const file = join(at.workspace, "..", "rotunda.yaml");
  const models = [{ id: "test-model", baseUrl: upstream.url, apiKey: "sk-test-0123456789", ...model }];
  writeFileSync(file, JSON.stringify({ models, ...config }));
  at.environment.ROTUNDA_CONFIG = file;
  return { upstream, at };
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1_000; tries++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error("it did not come true");
}

const sums: UpstreamScript = (request) => ({
  text: isSummary(request) ? "They spoke of a heron." : JSON.stringify(request.body.messages).slice(-200),
});

describe("rotunda compact", () => {
  test("sums a conversation up, which goes on from the summary; log and show tell of it", async () => {
    const { upstream, at } = await bench(sums);
    await at.run(["chat", "I saw a heron", "--conversation", "birds"]);
    const made = await at.run(["compact", "birds", "--focus", "the colours"]);
    expect(made).toMatchObject({ code: 0, out: "They spoke of a heron.\n" });
    expect(made.err).toMatch(/2 items summed up; they stay in the tree/);
    expect(JSON.stringify(upstream.requests[1]?.body.messages)).toContain("keep this: the colours");
    await at.run(["chat", "And then?", "--conversation", "birds"]);
    const told = JSON.stringify(upstream.requests[2]?.body.messages);
    expect(told).toContain("They spoke of a heron.");
    expect(told).not.toContain("I saw a heron");
    const { out } = await at.run(["log"]);
    expect(out).toContain("≡ 2 items summed up");
    expect(out).toContain("(compact)");
    const listed = JSON.parse((await at.run(["log", "--json"])).out) as { compacted: number }[];
    expect(listed.map(({ compacted }) => compacted)).toEqual([0, 2, 0]);
    const [, id = ""] = /Response ID: (\w+)/.exec(made.err) ?? [];
    expect((await at.run(["show", id])).out).toMatch(/compaction\n\[2 items, \w+ to \w+\]\nThey spoke of a heron\./);
  });

  test("without a conversation it says so; a failed summary is exit code 1 and moves nothing", async () => {
    const { at } = await bench((request) =>
      isSummary(request) ? { status: 400, body: { error: { message: "no" } } } : { text: "hello" },
    );
    expect(await at.run(["compact"])).toMatchObject({ code: 2 });
    await at.run(["chat", "one", "--conversation", "birds"]);
    expect(await at.run(["compact", "birds", "--json"])).toMatchObject({ code: 1 });
    const next = await at.run(["chat", "two", "--conversation", "birds", "--output-format", "json"]);
    expect(JSON.parse(next.out)).toMatchObject({ status: "completed" });
  });

  test("S54 a turn that outgrows its model tells what was left out", async () => {
    const window = 6_000;
    const script = withWindow(window, (request) => ({ text: isSummary(request) ? "A summary." : "ok" }));
    const { upstream, at } = await bench(script, {}, { contextWindow: window });
    const long = "heron ".repeat(900);
    let err = "";
    for (let number = 0; number < 4 && !err.includes("≡ compacted"); number++) {
      const turn = await at.run(["chat", `${number} ${long}`, "--conversation", "birds", "--agent", "plan"]);
      expect(turn.code, turn.err).toBe(0);
      err = turn.err;
    }
    expect(err).toMatch(/≡ compacted \d+ older items A summary\./);
    expect(upstream.requests.filter(({ body }) => promptTokens(body) > window)).toEqual([]);
  });

  test("P7 Polybrain's limit of messages", async () => {
    const { upstream, at } = await bench((_, number) => ({ text: `answer ${number}` }));
    at.environment.POLYBRAIN_TRUNCATE_LIMIT = "2";
    for (const word of ["one", "two"]) await at.run(["chat", word, "--conversation", "c"]);
    const told = upstream.requests.at(-1)?.body.messages as { content: string }[];
    const contents = told.slice(1).map(({ content }) => content);
    expect(contents).toEqual(["one", "[... conversation history truncated to save context ...]", "two"]);
  });
});

describe("rotunda log --follow", () => {
  async function serving(at: Home, ...flags: string[]): Promise<Started> {
    const server = at.start(["serve", "--port", "0", ...flags]);
    later(() => void server.child.kill("SIGKILL"));
    await until(() => server.out().includes("listening on"));
    return server;
  }

  test("follows a conversation that another process runs, turn after turn, until Ctrl-C", async () => {
    const { at } = await bench([{ text: ["Hel", "lo"] }, { text: "again" }]);
    await serving(at, "--quiet");
    await at.run(["chat", "one", "--conversation", "birds"]);
    const reader = at.start(["log", "--follow", "birds"]);
    await until(() => reader.out().includes("Hello"));
    await at.run(["chat", "two", "--conversation", "birds"]);
    await until(() => reader.out().includes("again"));
    expect(reader.err()).toContain("you> two");
    reader.child.kill("SIGINT");
    expect(await reader.result).toMatchObject({ code: 0 });
  });

  test("one response as events, to its end", async () => {
    const { at } = await bench([{ text: ["a ", "b ", "c "], delay: 100 }]);
    await serving(at, "--quiet");
    const chat = at.start(["chat", "go", "--output-format", "stream-json"]);
    await until(() => chat.out().includes("response_id"));
    const [, id = ""] = /"response_id":"(\w+)"/.exec(chat.out()) ?? [];
    const { code, out } = await at.run(["log", "--follow", id, "--json"]);
    expect(code).toBe(0);
    expect(out).toBe((await chat.result).out);
  });

  test("--log-format json: requests, warnings and how each response ended, with their ids", async () => {
    const collector = await startCollector();
    const { at } = await bench([{ text: "hello" }], { maxRuns: 5 });
    at.environment.OTEL_EXPORTER_OTLP_ENDPOINT = collector.url;
    const server = await serving(at, "--log-format", "json");
    const made = await at.run(["chat", "hi", "--output-format", "json"]);
    const { response_id: id } = JSON.parse(made.out) as { response_id: string };
    await until(() => server.err().includes("response completed") && server.err().includes("/rotunda/runs"));
    server.child.kill("SIGTERM");
    await server.result;
    const lines = server
      .err()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, string>);
    const request = lines.find(({ route }) => route === "/rotunda/runs");
    const ended = lines.find(({ text }) => text?.startsWith("response completed"));
    expect(ended).toMatchObject({ level: "debug", topic: "engine", response_id: id });
    expect(request).toMatchObject({ response_id: id });
    expect(request?.trace_id).toMatch(/^[\da-f]{32}$/);
    expect(ended?.trace_id).toBe(request?.trace_id);
    expect(collector.named("invoke_agent").map(({ traceId }) => traceId)).toEqual([request?.trace_id]);
  });

  test("G17 a one-shot command belongs to the trace of its environment, and sends its spans before it ends", async () => {
    const collector = await startCollector();
    const { at } = await bench([{ text: "hello" }]);
    const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    at.environment.OTEL_EXPORTER_OTLP_ENDPOINT = collector.url;
    at.environment.TRACEPARENT = `00-${trace}-00f067aa0ba902b7-01`;
    expect(await at.run(["chat", "hi"])).toMatchObject({ code: 0 });
    expect(collector.spans.map(({ name, traceId }) => [name, traceId])).toEqual([
      ["chat test-model", trace],
      ["invoke_agent general", trace],
    ]);
  });
});
