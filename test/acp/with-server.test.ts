/** An editor beside a server on the same machine: turns run there, and outlive the editor. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { later } from "../support.ts";
import { openEditor, type Place, place, rotunda, until } from "./client.ts";

async function startServer(at: Place) {
  const program = join(import.meta.dirname, "..", "..", "bin", "rotunda.js");
  const child = spawn(process.execPath, [program, "serve", "--port", "0", "--quiet"], {
    cwd: at.workspace,
    env: at.environment,
  });
  later(() => void child.kill("SIGKILL"));
  const [line] = (await once(child.stdout.setEncoding("utf8"), "data")) as [string];
  expect(line).toContain("listening on");
  return child;
}

test("the editor goes, the turn comes to its end in the server", async () => {
  const at = await place([{ text: ["a ", "b ", "c ", "end"], delay: 150 }]);
  await startServer(at);
  const editor = await openEditor(at);
  const id = await editor.session();
  editor.prompt(id, "Tell").catch(() => undefined);
  await until(() => editor.texts() !== "");
  editor.program.stdin.end();
  expect(await editor.program.exit).toBe(0);
  await until(async () => (await rotunda(at, ["log", "--json"])).out.includes('"completed"'));
  const other = await openEditor(at);
  await other.agent.request("session/load", { sessionId: id, cwd: at.workspace, mcpServers: [] });
  expect(other.texts()).toBe("a b c end");
  expect(at.upstream.requests).toHaveLength(1);
});

test("questions of a turn in the server are asked at the editor", async () => {
  const write = { name: "write", arguments: { file_path: "a.txt", content: "new\n" } };
  const at = await place([{ calls: [write] }, { text: "Done." }]);
  await startServer(at);
  const editor = await openEditor(at, { answer: () => "allow-once" });
  expect(await editor.prompt(await editor.session(), "Write")).toBe("end_turn");
  expect(editor.questions).toHaveLength(1);
  expect(editor.calls()).toEqual([expect.objectContaining({ title: "Write a.txt", status: "completed" })]);
  expect(readFileSync(join(at.workspace, "a.txt"), "utf8")).toBe("new\n");
});

test("cancel reaches the server", async () => {
  const at = await place([{ text: ["a "], break: "hang" }]);
  await startServer(at);
  const editor = await openEditor(at);
  const id = await editor.session();
  const turn = editor.prompt(id, "Tell");
  await until(() => editor.texts() !== "");
  await editor.agent.notify("session/cancel", { sessionId: id });
  expect(await turn).toBe("cancelled");
  expect(await at.upstream.requests[0]?.gone).toBe(true);
});

test("the server is killed: the turn goes on in the editor's own process", async () => {
  const at = await place([{ text: ["Half "], break: "hang" }, { text: "Whole." }]);
  const server = await startServer(at);
  const editor = await openEditor(at);
  const turn = editor.prompt(await editor.session(), "Tell");
  await until(() => editor.texts() !== "");
  server.kill("SIGKILL");
  expect(await turn).toBe("end_turn");
  expect(editor.texts()).toBe("Half Whole.");
});

test("an image, which cannot be handed over, is seen to here", async () => {
  const at = await place([{ text: "A dot." }]);
  await startServer(at);
  const editor = await openEditor(at);
  const answer = editor.prompt(await editor.session(), [
    { type: "text", text: "What is it?" },
    { type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" },
  ]);
  expect(await answer).toBe("end_turn");
});

test("a turn that another door runs on the conversation is waited for", async () => {
  const at = await place([{ text: "First." }, { text: ["Slow ", "end."], delay: 500 }, { text: "Third." }]);
  await startServer(at);
  const editor = await openEditor(at);
  const id = await editor.session();
  await editor.prompt(id, "One");
  const chat = rotunda(at, ["chat", "--conversation", id, "Two"]);
  await until(() => at.upstream.requests.length === 2);
  expect(await editor.prompt(id, "Three")).toBe("end_turn");
  expect((await chat).out).toContain("Slow end.");
  expect(JSON.stringify(at.upstream.requests[2]?.body.messages)).toContain("Slow end.");
});
