/** `rotunda mcp`: the MCP door over stdin and stdout, as editors start it. */
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, test } from "vitest";
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

test("B2 G3 P15: the turn runs in a server that is started for it, and outlives the editor", async () => {
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

test.each(["legacy", "auto"] as const)(
  "G5 a client of %s answers a question of a turn in the server, and gets the end",
  async (era) => {
    const at = await place(({ body }) =>
      (body as { messages: { role: string }[] }).messages.at(-1)?.role === "tool"
        ? { text: "it is written" }
        : { calls: [{ name: "write", arguments: { file_path: "out.txt", content: "x\n" } }] },
    );
    const onQuestion = () => ({ action: "accept", content: { decision: "allow once" } }) as const;
    const { client } = await connect(at, [], { era, onQuestion });
    for (let turn = 0; turn < 3; turn++) {
      const { text } = await call(client, "ask", { prompt: "write it" });
      expect(text).toMatch(/^it is written\n\nResponse ID: resp_/);
    }
  },
);

test("several editors that begin at once share one server", async () => {
  const at = await place(() => ({ text: "yes" }));
  const clients = await Promise.all([1, 2, 3].map(() => connect(at)));
  const answers = await Promise.all(clients.map(({ client }) => call(client, "ask", { prompt: "x" })));
  expect(answers.map(({ isError }) => isError)).toEqual([false, false, false]);
  const listed = await call(clients[0]?.client as never, "list_responses", {});
  expect(listed.structured.responses).toHaveLength(3);
});

test("C8: killed in mid-turn, ask_wait delivers the answer from a new process", async () => {
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

/** A client of raw lines; resolves with what stdout had when the process has ended. */
async function raw(
  { workspace, env }: Place,
  messages: (object | string)[],
  more: Record<string, string> = {},
): Promise<string[]> {
  const child = spawn(process.execPath, [program, "mcp", "--standalone"], { cwd: workspace, env: { ...env, ...more } });
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
  });
  const lines = messages.map((one) => (typeof one === "string" ? one : JSON.stringify({ jsonrpc: "2.0", ...one })));
  child.stdin.end(lines.map((line) => `${line}\n`).join(""));
  expect(await new Promise((resolve) => child.once("exit", resolve))).toBe(0);
  return out.trim().split("\n");
}

test("P16 C9: stdout has the protocol and nothing else, with debugging too", async () => {
  const at = await place(() => ({ text: "yes" }));
  const clientInfo = { name: "raw", version: "1" };
  const lines = await raw(
    at,
    [
      { id: 1, method: "initialize", params: { protocolVersion: "2024-11-05", capabilities: {}, clientInfo } },
      { method: "notifications/initialized" },
      { id: 2, method: "tools/call", params: { name: "list_models", arguments: {} } },
      { id: 3, method: "no/such" },
    ],
    { POLYBRAIN_DEBUG: "true", MCP_CLAUDE_DEBUG: "true" },
  );
  const answers = lines.map((line) => JSON.parse(line)).sort((a, b) => a.id - b.id);
  expect(answers).toMatchObject([
    { id: 1, result: {} },
    { id: 2, result: {} },
    { id: 3, error: { code: -32_601 } },
  ]);
});

test("a line that is no JSON, and JSON that is no request, are answered; what is between them is too", async () => {
  const at = await place(() => ({ text: "yes" }));
  const clientInfo = { name: "raw", version: "1" };
  const params = { protocolVersion: "2024-11-05", capabilities: {}, clientInfo, padding: "ä".repeat(100_000) };
  const lines = await raw(at, [
    "hello?",
    { id: 1, method: "initialize", params },
    "",
    '{"half":',
    "[1, 2]",
    "null",
    { id: 7, method: 8 },
    '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}',
    { id: 2, method: "ping" },
  ]);
  const answers = lines.map((line) => JSON.parse(line) as { id: number | null; error?: { code: number } });
  const refused = answers.filter(({ error }) => error).map(({ id, error }) => [id, error?.code]);
  expect(refused).toEqual([
    [null, -32_700],
    [null, -32_700],
    [null, -32_600],
    [null, -32_600],
    [7, -32_600],
  ]);
  expect(answers.filter(({ error }) => !error)).toMatchObject([
    { id: 1, result: {} },
    { id: 2, result: {} },
  ]);
});

test("C10: a working directory that does not exist is said so; another one is worked in", async () => {
  const at = await place(() => ({ text: "yes" }));
  const { client } = await connect(at, ["--standalone"]);
  const wrong = await call(client, "ask", { prompt: "x", workingDirectory: "/no/such/place" });
  expect(wrong).toMatchObject({ isError: true, text: "Error: Working directory does not exist: /no/such/place" });
  const other = join(at.folder, "other");
  mkdirSync(other);
  const right = await call(client, "ask", { prompt: "x", workingDirectory: other });
  expect((await call(client, "ask_status", { taskId: idIn(right.text) })).text).toContain(
    `Working Directory: ${other}`,
  );
});

function command(at: Place, ...args: string[]) {
  return spawnSync(process.execPath, [program, ...args], { cwd: at.workspace, env: at.env, encoding: "utf8" });
}

test("B3 P14 P17: nobody but our own server is ended: not who has the port, not who is connected", async () => {
  const at = await place(() => ({ text: "yes" }));
  const listener = spawn(process.execPath, [
    "-e",
    "const s = require('node:http').createServer().listen(0, '127.0.0.1', () => console.log(s.address().port))",
  ]);
  later(() => void listener.kill("SIGKILL"));
  const port = String(await new Promise((resolve) => listener.stdout.once("data", resolve))).trim();
  const refused = command(at, "restart", "--port", port);
  expect(refused.status).toBe(1);
  expect(refused.stderr).toContain("in use");
  expect(alive(listener.pid ?? 0)).toBe(true);
  const { client, pid } = await connect(at);
  await call(client, "ask", { prompt: "x" });
  const first = serverOf(at).pid;
  const second = command(at, "start");
  expect([second.status, second.stdout]).toEqual([0, expect.stringContaining("runs already")]);
  expect(command(at, "restart").status).toBe(0);
  expect(serverOf(at).pid).not.toBe(first);
  expect([alive(first), alive(pid), alive(listener.pid ?? 0)]).toEqual([false, true, true]);
  expect((await call(client, "ask", { prompt: "again" })).text).toMatch(/^yes/);
});

test("P18: its help has the line that sets it up", async () => {
  const at = await place(() => ({ text: "yes" }));
  expect(command(at, "mcp", "--help").stdout).toContain("claude mcp add -s user rotunda -- rotunda mcp");
});
