/**
 * A real ACP agent, opencode, as a model, offline. Opt-in, as it is large: install `opencode-ai` somewhere and set
 * ROTUNDA_TEST_OPENCODE to its program (`node_modules/.bin/opencode`).
 */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startUpstream, type UpstreamRequest, type UpstreamStep } from "../../src/testing/upstream.ts";
import type { App } from "../../src/types/app.ts";
import type { FullResponse } from "../../src/types/response.ts";
import { openApp, place } from "../app/support.ts";
import { later, modelOf, say } from "../support.ts";
import { processesOf } from "./processes.ts";

const program = process.env.ROTUNDA_TEST_OPENCODE ?? "";
const SKIPPED = "SKIPPED: set ROTUNDA_TEST_OPENCODE to an opencode program";
const real = test.skipIf(!existsSync(program));

const textOf = (request: UpstreamRequest) => JSON.stringify(request.body.messages);

async function bench(script: (request: UpstreamRequest) => UpstreamStep, permission: object = {}) {
  const asked: string[] = [];
  const upstream = await startUpstream((request) => {
    // It names its sessions by the same endpoint.
    if (!Array.isArray(request.body.tools)) return { text: "a title" };
    asked.push(textOf(request));
    return script(request);
  });
  later(() => upstream.close());
  const here = place({ OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1" });
  mkdirSync(join(here.root, "home"), { recursive: true });
  const options = { baseURL: upstream.url, apiKey: "x" };
  const models = { "test-model": { name: "Test", limit: { context: 100_000, output: 10_000 } } };
  here.put("home/.config/opencode/opencode.json", {
    $schema: "https://opencode.ai/config.json",
    model: "scripted/test-model",
    small_model: "scripted/test-model",
    provider: { scripted: { npm: "@ai-sdk/openai-compatible", name: "Scripted", options, models } },
    permission,
  });
  here.put("home/.config/rotunda/rotunda.yaml", { agents: { opencode: { command: program, args: ["acp"] } } });
  const app = await openApp(here, [modelOf([say("from http")], "http")]);
  return { app, here, asked, upstream };
}

async function turn(app: App, input: string, more: object = {}): Promise<FullResponse> {
  const { id } = await app.engine.start({ input, model: "opencode", workspace: app.workspace, door: "test", ...more });
  await app.engine.wait(id);
  return app.engine.get(id);
}

const calls = (response: FullResponse) => response.output.filter((item) => item.type === "mcp_call");

real(`it answers, goes on and branches (${SKIPPED})`, { timeout: 120_000 }, async () => {
  const { app, asked } = await bench((request) => {
    const text = textOf(request);
    if (text.includes("and now left")) return { text: "went left" };
    if (text.includes("and now right")) return { text: "went right" };
    return { reasoning: "hm", text: ["Hello ", "there"] };
  });
  const first = await turn(app, "hi there");
  expect(first).toMatchObject({ status: "completed", error: null });
  expect(app.engine.textOf(first)).toBe("Hello there");
  const left = await turn(app, "and now left", { previousResponseId: first.id });
  const right = await turn(app, "and now right", { previousResponseId: first.id });
  expect([app.engine.textOf(left), app.engine.textOf(right)]).toEqual(["went left", "went right"]);
  const heard = asked.find((text) => text.includes("and now right"));
  expect(heard).toContain("Hello there");
  expect(heard).not.toContain("and now left");
  expect(heard).not.toContain("<conversation>");
});

real(`its tools and its questions (${SKIPPED})`, { timeout: 120_000 }, async () => {
  const { app, here } = await bench(
    (request) =>
      textOf(request).includes('"role":"tool"')
        ? { text: "Done." }
        : {
            text: "I make it.",
            calls: [{ name: "bash", arguments: { command: "echo hello > made.txt", description: "make" } }],
          },
    { bash: "ask" },
  );
  const approver = async () => ({ decision: "allow" as const, by: "test" });
  const ended = await turn(app, "make it", { approver });
  expect(ended).toMatchObject({ status: "completed", error: null });
  expect(calls(ended)).toMatchObject([{ server_label: "opencode", status: "completed", error: null }]);
  expect(ended.output.map(({ type }) => type)).toContain("mcp_approval_request");
  expect(readFileSync(join(here.workspace, "made.txt"), "utf8")).toBe("hello\n");
  const no = async () => ({ decision: "deny" as const, reason: "not here", by: "test" });
  const denied = await turn(app, "make it", { approver: no, conversation: "new" });
  expect(calls(denied)).toMatchObject([{ status: "failed" }]);
});

real(`it is cancelled, and nothing of it is left (${SKIPPED})`, { timeout: 120_000 }, async () => {
  const { app, here } = await bench(() => ({ text: ["Let me ", "think"], break: "hang" }));
  const { id } = await app.engine.start({ input: "hi", model: "opencode", workspace: app.workspace, door: "test" });
  for await (const event of app.engine.watch(id)) if (event.type === "response.output_text.delta") break;
  expect(processesOf(here)).not.toEqual([]);
  await app.engine.cancel(id, "enough");
  expect(await app.engine.get(id)).toMatchObject({ status: "cancelled" });
  expect(processesOf(here)).toEqual([]);
});

real(`a conversation goes from an HTTP model to it (${SKIPPED})`, { timeout: 120_000 }, async () => {
  const { app, asked } = await bench(() => ({ text: "from opencode" }));
  const first = await turn(app, "the word is plum", { model: "http" });
  const second = await turn(app, "and now you", { previousResponseId: first.id });
  expect(app.engine.textOf(second)).toBe("from opencode");
  expect(asked[0]).toContain("the word is plum");
  expect(asked[0]).toContain("from http");
});
