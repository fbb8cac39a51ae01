/** One conversation through every door: two MCP clients, an HTTP client and the command line; and a crash of all. */
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { later, temporaryFolder } from "../support.ts";
import { call, connectHttp, idIn, newClient } from "./support.ts";

const program = fileURLToPath(new URL("../../bin/rotunda.js", import.meta.url));

test("G2: two MCP clients, HTTP and the command line go on and branch; killed in mid-turn, the answer comes", async () => {
  let hang = false;
  let hung = 0;
  const upstream = await startUpstream(async ({ body }) => {
    if (hang) {
      hung++;
      await sleep(600_000, undefined, { ref: false });
    }
    const { messages } = body as { messages: { role: string; content: unknown }[] };
    const said = messages.filter(({ role }) => role === "user").map(({ content }) => JSON.stringify(content));
    return { text: `heard ${said.join(", ")}` };
  });
  later(() => upstream.close());
  const folder = temporaryFolder();
  const workspace = join(folder, "workspace");
  mkdirSync(workspace);
  const file = join(folder, "rotunda.yaml");
  const model = { id: "test-model", baseUrl: upstream.url, apiKey: "sk-test-0123456789" };
  writeFileSync(file, JSON.stringify({ models: [model], server: { port: 0 } }));
  const { PATH = "" } = process.env;
  const state = join(folder, "state");
  const env = { PATH, HOME: folder, ROTUNDA_HOME: state, ROTUNDA_CONFIG: file, NO_COLOR: "1" };
  // Not one that waits here: the endpoint lives in this process.
  const cli = (...args: string[]) =>
    new Promise<string>((resolve) => {
      const child = execFile(process.execPath, [program, ...args], { cwd: workspace, env }, (_error, stdout) =>
        resolve(stdout),
      );
      child.stdin?.end();
    });
  later(async () => void (await cli("stop")));
  const editor = async () => {
    const client = newClient({}, "legacy");
    const args = [program, "mcp"];
    const transport = new StdioClientTransport({
      command: process.execPath,
      args,
      cwd: workspace,
      env,
      stderr: "pipe",
    });
    await client.connect(transport);
    later(() => client.close());
    return { client, pid: transport.pid ?? 0 };
  };

  const one = await editor();
  const first = await call(one.client, "ask", { prompt: "one" });
  const server = () => JSON.parse(readFileSync(join(state, "server.json"), "utf8")) as { url: string; pid: number };
  const token = readFileSync(join(state, "token"), "utf8").trim();
  const two = await connectHttp(server().url, { token });
  const second = await call(two, "ask", { prompt: "two", previousResponseId: idIn(first.text) });
  expect(second.text).toContain('heard "one", "two"');
  const answer = await fetch(`${server().url}/v1/responses`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "test-model", input: "three", previous_response_id: idIn(second.text) }),
  });
  const third = (await answer.json()) as { id: string };
  const fourth = await cli("chat", "--from", third.id, "four");
  expect(fourth).toContain('heard "one", "two", "three", "four"');
  const branched = await call(one.client, "branch", { prompt: "other", previousResponseId: idIn(second.text) });
  expect(branched.text).toContain('heard "one", "two", "other"');
  expect((await cli("log")).split("\n").length).toBeGreaterThan(4);

  hang = true;
  const started = await call(one.client, "ask_async", { prompt: "five", previousResponseId: third.id });
  const taskId = /task ID: (\S+)/.exec(started.text)?.[1] ?? "";
  while (hung === 0) await sleep(20);
  hang = false;
  process.kill(server().pid, "SIGKILL");
  process.kill(one.pid, "SIGKILL");
  const three = await editor();
  const waited = await call(three.client, "ask_wait", { taskId });
  expect(waited.text).toBe(`heard "one", "two", "three", "five"\n\nResponse ID: ${taskId}`);
});
