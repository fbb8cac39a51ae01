/**
 * Real MCP clients and a turn of minutes: Claude Code, Codex and opencode call `ask` and get the answer in the end.
 * Opt-in, as the programs are large and the turn is long: set ROTUNDA_TEST_CLAUDE, ROTUNDA_TEST_CODEX and
 * ROTUNDA_TEST_OPENCODE to them, and ROTUNDA_TEST_PATIENCE to the seconds that the turn is to take (400).
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startAnthropicUpstream } from "../../src/testing/anthropic-upstream.ts";
import { startUpstream } from "../../src/testing/upstream.ts";
import { startServer } from "../http/process.ts";
import { later, temporaryFolder } from "../support.ts";

const seconds = Number(process.env.ROTUNDA_TEST_PATIENCE ?? 0);
const SKIPPED = "SKIPPED: set ROTUNDA_TEST_PATIENCE, and the client's variable to its program";
const program = fileURLToPath(new URL("../../bin/rotunda.js", import.meta.url));
const ANSWER = "the answer after a long time";

/** What the client's own model does next: it asks, then waits as often as it is told to, then repeats the answer. */
function nextStep(heard: string): { call?: { name: string; args: Record<string, string> }; text?: string } {
  if (heard.includes(ANSWER)) return { text: `I was told: ${ANSWER}` };
  // A client shows its model the text of a result, or its structured content.
  const ids = [...heard.matchAll(/call ask_wait with taskId (resp_\w+)/gi)];
  const taskId = ids.at(-1)?.[1];
  if (taskId !== undefined) return { call: { name: "ask_wait", args: { taskId } } };
  return { call: { name: "ask", args: { prompt: "think long" } } };
}

/** The name under which a client offers a tool of ours to its model. */
function offered(tools: unknown, name: string): string | undefined {
  const names = [...JSON.stringify(tools ?? []).matchAll(/"name":"([^"]+)"/g)].map(([, one = ""]) => one);
  return names.find((one) => one.includes("rotunda") && one.endsWith(`_${name}`));
}

interface Here {
  folder: string;
  workspace: string;
  env: Record<string, string>;
}

/** An engine whose model takes its time. */
async function slowRotunda(): Promise<Here> {
  const upstream = await startUpstream(async () => {
    await sleep(seconds * 1_000);
    return { text: ANSWER };
  });
  later(() => upstream.close());
  const folder = temporaryFolder();
  const workspace = join(folder, "project");
  mkdirSync(workspace);
  const timeouts = { headers: 2 * seconds + 60, idle: 2 * seconds + 60, total: 2 * seconds + 60 };
  const model = { id: "slow", baseUrl: upstream.url, apiKey: "sk-test-0123456789", timeouts };
  writeFileSync(join(folder, "rotunda.yaml"), JSON.stringify({ models: [model], server: { port: 0 } }));
  const { PATH = "" } = process.env;
  const env = {
    PATH,
    HOME: folder,
    ROTUNDA_HOME: join(folder, "state"),
    ROTUNDA_CONFIG: join(folder, "rotunda.yaml"),
  };
  return { folder, workspace, env };
}

async function run(command: string, args: string[], { workspace, env }: Here, more: Record<string, string>) {
  const child = spawn(command, args, { cwd: workspace, env: { ...env, ...more }, stdio: ["ignore", "pipe", "pipe"] });
  later(() => void child.kill("SIGKILL"));
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  return { code, out, err };
}

const timeout = (seconds + 180) * 1_000;
const long = (variable: string) => test.skipIf(seconds === 0 || !existsSync(process.env[variable] ?? ""));

long("ROTUNDA_TEST_CLAUDE")(`Claude Code gets the answer (${SKIPPED})`, { timeout }, async () => {
  const here = await slowRotunda();
  const upstream = await startAnthropicUpstream(({ body, text }) => {
    const { call, text: said } = nextStep(text);
    const name = call && offered(body.tools, call.name);
    if (!call || name === undefined) return { text: said ?? "ok" };
    return { calls: [{ name, input: call.args }] };
  });
  later(() => upstream.close());
  const config = join(here.folder, "mcp.json");
  const server = { command: process.execPath, args: [program, "mcp"], env: here.env };
  writeFileSync(config, JSON.stringify({ mcpServers: { rotunda: server } }));
  const flags = ["-p", "ask it", "--mcp-config", config, "--strict-mcp-config", "--allowedTools", "mcp__rotunda"];
  const { code, out } = await run(process.env.ROTUNDA_TEST_CLAUDE ?? "", flags, here, {
    ANTHROPIC_BASE_URL: upstream.url,
    ANTHROPIC_API_KEY: "x",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    DISABLE_TELEMETRY: "1",
  });
  expect({ code, out: out.trim() }).toEqual({ code: 0, out: `I was told: ${ANSWER}` });
});

/** The client's model speaks chat completions. */
async function scriptedModel() {
  const upstream = await startUpstream(({ body }) => {
    const { call, text } = nextStep(JSON.stringify(body.messages));
    const name = call && offered(body.tools, call.name);
    if (!call || name === undefined) return { text: text ?? "a title" };
    return { calls: [{ name, arguments: call.args }] };
  });
  later(() => upstream.close());
  return upstream;
}

long("ROTUNDA_TEST_CODEX")(`Codex gets the answer (${SKIPPED})`, { timeout }, async () => {
  const here = await slowRotunda();
  const upstream = await scriptedModel();
  // Codex speaks the Responses API: another Rotunda stands between it and the scripted model.
  const between = await startServer(temporaryFolder(), upstream.url);
  const home = join(here.folder, "codex");
  mkdirSync(home);
  const environment = Object.entries(here.env).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  writeFileSync(
    join(home, "config.toml"),
    `model = "test-model"
model_provider = "rotunda"
[model_providers.rotunda]
name = "Rotunda"
base_url = "${between.url}/v1"
env_key = "ROTUNDA_TOKEN"
wire_api = "responses"
[mcp_servers.rotunda]
command = ${JSON.stringify(process.execPath)}
args = ${JSON.stringify([program, "mcp"])}
tool_timeout_sec = 600
[mcp_servers.rotunda.env]
${environment.join("\n")}
`,
  );
  const flags = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "ask it"];
  const more = { CODEX_HOME: home, ROTUNDA_TOKEN: between.token };
  const { code, out } = await run(process.env.ROTUNDA_TEST_CODEX ?? "", flags, here, more);
  expect({ code, out: out.trim() }).toEqual({ code: 0, out: `I was told: ${ANSWER}` });
});

long("ROTUNDA_TEST_OPENCODE")(`opencode gets the answer (${SKIPPED})`, { timeout }, async () => {
  const here = await slowRotunda();
  const upstream = await scriptedModel();
  const options = { baseURL: upstream.url, apiKey: "x" };
  const models = { "test-model": { name: "Test", limit: { context: 100_000, output: 10_000 } } };
  const command = [process.execPath, program, "mcp"];
  const config = {
    $schema: "https://opencode.ai/config.json",
    model: "scripted/test-model",
    small_model: "scripted/test-model",
    provider: { scripted: { npm: "@ai-sdk/openai-compatible", name: "Scripted", options, models } },
    mcp: { rotunda: { type: "local", command, environment: here.env, enabled: true } },
  };
  mkdirSync(join(here.folder, ".config", "opencode"), { recursive: true });
  writeFileSync(join(here.folder, ".config", "opencode", "opencode.json"), JSON.stringify(config));
  const more = { OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1" };
  const { code, out } = await run(process.env.ROTUNDA_TEST_OPENCODE ?? "", ["run", "ask it"], here, more);
  expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining(`I was told: ${ANSWER}`) });
});
