/** `rotunda mcp`: the MCP door over stdin and stdout, as editors start it. */
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterEach, expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later, temporaryFolder } from "../support.ts";
import { type ClientOptions, call, idIn, newClient } from "./support.ts";

const program = fileURLToPath(new URL("../../bin/rotunda.js", import.meta.url));

interface Place {
  folder: string;
  env: Record<string, string>;
  workspace: string;
}

async function place(answer: Parameters<typeof startUpstream>[0]): Promise<Place> {
  const upstream = await startUpstream(answer);
  later(() => upstream.close());
  const folder = temporaryFolder();
  const workspace = join(folder, "workspace");
  mkdirSync(workspace);
  const model = { id: "test-model", baseUrl: upstream.url, apiKey: "sk-test-0123456789" };
  const file = join(folder, "rotunda.yaml");
  writeFileSync(file, JSON.stringify({ models: [model], server: { port: 0 } }));
  const { PATH = "" } = process.env;
  const env = { PATH, HOME: folder, ROTUNDA_HOME: join(folder, "state"), ROTUNDA_CONFIG: file, NO_COLOR: "1" };
  later(() => void spawnSync(process.execPath, [program, "stop"], { cwd: workspace, env }));
  return { folder, env, workspace };
}

async function connect({ env, workspace }: Place, args: string[] = [], options: ClientOptions = {}) {
  const client = newClient(options, options.era ?? "legacy");
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [program, "mcp", ...args],
    cwd: workspace,
    env,
    stderr: "pipe",
  });
  await client.connect(transport);
  later(() => client.close());
  return { client, pid: transport.pid ?? 0 };
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function serverOf({ folder }: Place): { pid: number } {
  return JSON.parse(readFileSync(join(folder, "state", "server.json"), "utf8"));
}

afterEach(() => undefined);

test.each(["legacy", "auto"] as const)("C1 P10: over stdio a client of %s asks, and goes on", async (era) => {
  const at = await place(() => ({ text: "an answer" }));
  const { client } = await connect(at, ["--standalone"], { era });
  expect(client.getServerVersion()).toMatchObject({ name: "rotunda" });
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      "chat",
      "list_models",
      "conversation_history",
      "ask",
      "ask_async",
      "ask_status",
      "ask_cancel",
    ]),
  );
  const answer = await call(client, "ask", { prompt: "one" });
  expect(answer.text).toMatch(/^an answer\n\nResponse ID: resp_/);
});

test("B2: the turn runs in a server that is started for it, and outlives the editor", async () => {
  const { promise: release, resolve } = Promise.withResolvers<void>();
  const at = await place(async () => {
    await release;
    return { text: "the late answer" };
  });
  const { client } = await connect(at);
  const started = await call(client, "ask_async", { prompt: "take your time" });
  const taskId = /task ID: (\S+)/.exec(started.text)?.[1] ?? "";
  await client.close();
  resolve();
  const { client: second } = await connect(at);
  expect((await call(second, "ask_wait", { taskId })).text).toBe(`the late answer\n\nResponse ID: ${taskId}`);
  expect(alive(serverOf(at).pid)).toBe(true);
});

test("several editors that begin at once share one server", async () => {
  const at = await place(() => ({ text: "yes" }));
  const clients = await Promise.all([1, 2, 3].map(() => connect(at)));
  const answers = await Promise.all(clients.map(({ client }) => call(client, "ask", { prompt: "x" })));
  expect(answers.map(({ isError }) => isError)).toEqual([false, false, false]);
  const listed = await call(clients[0]?.client as never, "list_responses", {});
  expect(listed.structured.responses).toHaveLength(3);
});

test("the bridge's promise of crashes: killed in mid-turn, ask_wait delivers the answer from a new process", async () => {
  let calls = 0;
  const at = await place(async () => {
    calls++;
    if (calls === 1) await sleep(60_000, undefined, { ref: false });
    return { text: "after all" };
  });
  const { client, pid } = await connect(at);
  const started = await call(client, "ask_async", { prompt: "x" });
  const taskId = /task ID: (\S+)/.exec(started.text)?.[1] ?? "";
  for (let waited = 0; waited < 200 && calls === 0; waited++) await sleep(25);
  process.kill(serverOf(at).pid, "SIGKILL");
  process.kill(pid, "SIGKILL");
  const { client: second } = await connect(at);
  expect((await call(second, "ask_wait", { taskId })).text).toBe(`after all\n\nResponse ID: ${taskId}`);
});

test("a call that takes long returns its id in time, and is not ended by the end of stdin", async () => {
  const at = await place(async () => {
    await sleep(1_500);
    return { text: "late" };
  });
  const child = spawn(process.execPath, [program, "mcp"], {
    cwd: at.workspace,
    env: at.env,
    stdio: ["pipe", "pipe", "pipe"],
  });
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  const say = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const clientInfo = { name: "raw", version: "1" };
  say({ id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo } });
  say({ method: "notifications/initialized" });
  say({ id: 2, method: "tools/call", params: { name: "ask", arguments: { prompt: "x" } } });
  await sleep(1_000);
  child.stdin.end();
  const code = await new Promise((resolve) => child.once("exit", resolve));
  expect(code).toBe(0);
  const messages = out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(messages.map(({ id }) => id)).toEqual([1, 2]);
  const { text } = messages[1].result.content[0];
  expect(text).toMatch(/^Still running|^late/);
  const { client } = await connect(at);
  expect((await call(client, "ask_wait", { taskId: idIn(text) })).text).toMatch(/^late\n/);
});
