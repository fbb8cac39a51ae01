/** MCP servers that an editor brings along, and what they ask. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { serveModern } from "../fixtures/mcp/http-servers.ts";
import { later, temporaryFolder } from "../support.ts";
import { carriers, eventually } from "../util/processes.ts";
import { openEditor, place } from "./client.ts";

const fixtures = join(import.meta.dirname, "..", "fixtures", "mcp");

function stdio(name: string, script: string, ...args: string[]) {
  return { name, command: process.execPath, args: [join(fixtures, script), ...args], env: [] };
}

test("stdio and http: their tools are the session's, asked about, and gone with it", async () => {
  const http = await serveModern("stateless");
  later(() => http.close());
  const at = await place([
    {
      calls: [
        { name: "near__echo", arguments: { text: "one" } },
        { name: "far__echo", arguments: { text: "two" } },
      ],
    },
    { text: "Done." },
  ]);
  const marker = `marker=${temporaryFolder()}`;
  const editor = await openEditor(at, { answer: () => "allow-once" });
  const sessionId = await editor.session([
    stdio("near", "hostile.ts", '{"mode":"none"}', marker),
    { type: "http", name: "far", url: http.url, headers: [{ name: "x-token", value: "let-me-in-please" }] },
  ]);
  expect(await editor.prompt(sessionId, "Echo")).toBe("end_turn");
  expect(editor.questions.map(({ toolCall }) => toolCall.title)).toEqual(["near: echo", "far: echo"]);
  const contents = editor.calls().map(({ status, content }) => [status, JSON.stringify(content)]);
  expect(contents).toEqual([
    ["completed", expect.stringContaining("one")],
    ["completed", expect.stringContaining("two")],
  ]);
  expect(http.requests.some(({ headers }) => headers["x-token"] === "let-me-in-please")).toBe(true);
  expect(carriers(marker)).not.toEqual([]);
  // Another session of the same directory knows nothing of them.
  const other = await editor.session();
  await editor.prompt(other, "Anything there?");
  expect(JSON.stringify(at.upstream.requests.at(-1)?.body.tools)).not.toContain("near__echo");
  await editor.agent.request("session/close", { sessionId });
  expect(await eventually(() => carriers(marker).length === 0)).toBe(true);
});

test("their processes end with the editor, the stubborn ones too", async () => {
  const at = await place([{ calls: [{ name: "near__echo", arguments: { text: "x" } }] }, { text: "Done." }]);
  const marker = `marker=${temporaryFolder()}`;
  const editor = await openEditor(at, { answer: () => "allow-once" });
  const sessionId = await editor.session([stdio("near", "hostile.ts", '{"mode":"stubborn"}', marker)]);
  await editor.prompt(sessionId, "Echo");
  expect(carriers(marker)).not.toEqual([]);
  editor.program.stdin.end();
  expect(await editor.program.exit).toBe(0);
  expect(await eventually(() => carriers(marker).length === 0)).toBe(true);
});

test("M13 a name that the configuration has stays its own", async () => {
  const configured = { near: { command: process.execPath, args: [join(fixtures, "hostile.ts"), '{"mode":"none"}'] } };
  const at = await place([{ text: "Done." }], { mcpServers: configured });
  const editor = await openEditor(at);
  const same = { name: "near", command: process.execPath, args: configured.near.args, env: [] };
  const mcpServers = [stdio("rotunda", "hostile.ts", '{"mode":"none"}'), same];
  const sessionId = await editor.session(mcpServers);
  await editor.prompt(sessionId, "What is there?");
  const tools = JSON.stringify(at.upstream.requests[0]?.body.tools);
  expect([
    tools.includes('"near__echo"'),
    tools.includes('"near-2__echo"'),
    tools.includes('"rotunda-2__echo"'),
  ]).toEqual([true, false, true]);
});

test("what cannot be used is refused with a reason", async () => {
  const at = await place([]);
  const { agent } = await openEditor(at);
  const refused = async (server: object, reason: string) => {
    const request = { cwd: at.workspace, mcpServers: [server] } as never;
    await expect(agent.request("session/new", request)).rejects.toMatchObject({ code: -32_602 });
    await expect(agent.request("session/new", request)).rejects.toThrow(reason);
  };
  await refused({ type: "sse", name: "old", url: "http://127.0.0.1:9/sse", headers: [] }, "sse");
  await refused({ type: "http", name: "file", url: "file:///etc/passwd", headers: [] }, "no http address");
  await refused({ name: "near", command: "./server", args: [], env: [] }, "absolute");
});

test("B17 a server's question reaches the person at the editor", async () => {
  const at = await place([{ calls: [{ name: "asking__confirm", arguments: {} }] }, { text: "Done." }], {
    permissions: { allow: ["asking:*"] },
  });
  const asked: unknown[] = [];
  const editor = await openEditor(at, {
    capabilities: { elicitation: { form: {} } },
    elicit(params) {
      asked.push(params);
      return { action: "accept", content: { name: "Ada" } };
    },
  });
  const sessionId = await editor.session([stdio("asking", "asking.ts", "both")]);
  await editor.prompt(sessionId, "Ask me");
  expect(asked).toEqual([
    expect.objectContaining({ mode: "form", sessionId, message: expect.stringContaining("asking: Who are you?") }),
  ]);
  expect(JSON.stringify(editor.calls())).toContain("Ada");
});

test("an editor that can show no question is not said to answer any", async () => {
  const at = await place([{ calls: [{ name: "asking__confirm", arguments: {} }] }, { text: "Done." }], {
    permissions: { allow: ["asking:*"] },
  });
  const editor = await openEditor(at);
  const mcpServers = [stdio("asking", "asking.ts", "both")];
  const sessionId = await editor.session(mcpServers);
  expect(await editor.prompt(sessionId, "Ask me")).toBe("end_turn");
  expect(editor.calls()).toEqual([expect.objectContaining({ status: "failed" })]);
});
