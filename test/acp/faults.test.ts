/** What goes wrong between an editor and us, and the right outcome. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { carriers, eventually, uniqueSeconds } from "../util/processes.ts";
import { openEditor, type Place, type Program, place, start, until } from "./client.ts";

const INITIALIZE = { jsonrpc: "2.0", id: 0, method: "initialize", params: { protocolVersion: 1 } };

/** Lines in, messages out. */
function raw(program: Program) {
  const messages: { id?: unknown; error?: { code: number; message: string }; result?: unknown }[] = [];
  createInterface({ input: program.stdout }).on("line", (line) => void messages.push(JSON.parse(line)));
  return {
    messages,
    write: (line: string | object) =>
      void program.stdin.write(typeof line === "string" ? line : `${JSON.stringify(line)}\n`),
    async answerTo(id: unknown) {
      await until(() => messages.some((message) => message.id === id));
      return messages.find((message) => message.id === id);
    },
  };
}

async function greeted(at: Place) {
  const program = start(at);
  const wire = raw(program);
  wire.write(INITIALIZE);
  await wire.answerTo(0);
  return { program, ...wire };
}

test("lines that are no messages are answered, and the next one is heard", async () => {
  const at = await place([]);
  const { write, messages, answerTo } = await greeted(at);
  write("{broken\n");
  write("\r\n   \n");
  write("[1,2]\n");
  write("null\n");
  write('{"jsonrpc":"2.0"}\n');
  write('{"jsonrpc":"2.0","id":7,"method":"session/dance","params":{}}\n');
  expect((await answerTo(7))?.error?.code).toBe(-32_601);
  const codes = messages.filter(({ id }) => id === null).map(({ error }) => error?.code);
  expect(codes).toEqual([-32_700, -32_600, -32_600, -32_600]);
});

test("a line without end is refused at the limit, costs no memory, and the next one is heard", async () => {
  const at = await place([]);
  const { write, answerTo, messages } = await greeted(at);
  const mebibyte = "x".repeat(1024 * 1024);
  write('{"jsonrpc":"2.0","id":1,"method":"');
  for (let sent = 0; sent < 66; sent++) write(mebibyte);
  write('"}\n');
  write({ jsonrpc: "2.0", id: 2, method: "session/list", params: {} });
  expect(await answerTo(2)).toMatchObject({ result: { sessions: [] } });
  expect(messages[1]).toMatchObject({ id: null, error: { code: -32_600, message: expect.stringContaining("longer") } });
});

test("before initialize nothing is done", async () => {
  const at = await place([]);
  const wire = raw(start(at));
  wire.write({ jsonrpc: "2.0", id: 1, method: "session/new", params: { cwd: at.workspace, mcpServers: [] } });
  expect((await wire.answerTo(1))?.error?.code).toBe(-32_600);
});

test("K6 unknown sessions and wrong parameters are named", async () => {
  const at = await place([]);
  const { agent } = await openEditor(at);
  const unknown = { code: -32_002 };
  const prompt = [{ type: "text" as const, text: "Hi" }];
  for (const sessionId of ["conv_01jd0000000000000000000000", "../../etc/passwd", "", "x".repeat(10_000)]) {
    await expect(agent.request("session/prompt", { sessionId, prompt })).rejects.toMatchObject(unknown);
    const request = { sessionId, cwd: at.workspace, mcpServers: [] };
    await expect(agent.request("session/load", request)).rejects.toMatchObject(unknown);
    await expect(agent.request("session/resume", request)).rejects.toMatchObject(unknown);
    await expect(agent.request("session/fork", request)).rejects.toMatchObject(unknown);
    await agent.notify("session/cancel", { sessionId });
  }
  const wrong = { code: -32_602 };
  for (const cwd of ["work", "/no/such/directory", "/etc/hostname"])
    await expect(agent.request("session/new", { cwd, mcpServers: [] })).rejects.toMatchObject(wrong);
  const more = { cwd: at.workspace, mcpServers: [], additionalDirectories: ["/tmp"] };
  await expect(agent.request("session/new", more)).rejects.toMatchObject(wrong);
  await expect(agent.request("session/new", { cwd: 7 } as never)).rejects.toMatchObject(wrong);
});

test("a configuration that cannot be read is an error that names the file, not an end", async () => {
  const at = await place([]);
  const broken = join(at.workspace, "..", "broken.json");
  at.environment.ROTUNDA_CONFIG = broken;
  const editor = await openEditor(at);
  await expect(editor.session()).rejects.toThrow("broken.json");
  await editor.agent.request("initialize", { protocolVersion: 1 });
});

test("K4 two prompts at once on one session: the second is refused, nothing of the first is lost", async () => {
  const at = await place([{ text: ["a ", "b ", "c"], delay: 100 }, { text: "Next." }]);
  const editor = await openEditor(at);
  const id = await editor.session();
  const first = editor.prompt(id, "One");
  await until(() => editor.texts() !== "");
  await expect(editor.prompt(id, "Two")).rejects.toMatchObject({ code: -32_600 });
  expect(await first).toBe("end_turn");
  expect(editor.texts()).toBe("a b c");
  expect(await editor.prompt(id, "Two")).toBe("end_turn");
});

test("two sessions run beside each other", async () => {
  const at = await place([{ text: ["a ", "b"], delay: 100 }]);
  const editor = await openEditor(at);
  const [one, two] = [await editor.session(), await editor.session()];
  expect(await Promise.all([editor.prompt(one, "One"), editor.prompt(two, "Two")])).toEqual(["end_turn", "end_turn"]);
});

test("the editor goes in mid-turn: the turn is left, and the next prompt ends it before its own", async () => {
  const at = await place([{ text: ["Half "], break: "hang" }, { text: "Whole." }, { text: "Second." }]);
  const editor = await openEditor(at);
  const id = await editor.session();
  const lost = editor.prompt(id, "First").catch(() => "lost");
  await until(() => editor.texts() !== "");
  editor.program.stdin.end();
  expect(await editor.program.exit).toBe(0);
  expect(await lost).toBe("lost");
  const other = await openEditor(at);
  await other.agent.request("session/load", { sessionId: id, cwd: at.workspace, mcpServers: [] });
  expect([other.texts("user_message_chunk"), other.texts()]).toEqual(["First", "Half "]);
  expect(await other.prompt(id, "Second")).toBe("end_turn");
  expect(other.texts()).toBe("Half Whole.Second.");
});

test("whoever no longer reads has gone", async () => {
  const at = await place([{ text: ["a ", "b ", "c"], delay: 50 }]);
  const editor = await openEditor(at);
  editor.prompt(await editor.session(), "Tell").catch(() => undefined);
  await until(() => editor.texts() !== "");
  editor.program.stdout.destroy();
  expect(await editor.program.exit).toBe(0);
});

test("after kill -9 in the middle of a question it is asked again, and done once", async () => {
  const ask = { permissions: { ask: ["bash"] } };
  const call = { name: "bash", arguments: { command: "echo x >> log.txt" } };
  const at = await place([{ calls: [call] }, { text: "Done." }, { text: "Second." }], ask);
  const editor = await openEditor(at);
  const id = await editor.session();
  editor.prompt(id, "First").catch(() => undefined);
  await until(() => editor.questions.length === 1);
  editor.program.kill("SIGKILL");
  await editor.program.exit;
  const other = await openEditor(at, { answer: () => "allow-once" });
  await other.agent.request("session/load", { sessionId: id, cwd: at.workspace, mcpServers: [] });
  expect(await other.prompt(id, "Second")).toBe("end_turn");
  expect(other.questions).toHaveLength(1);
  expect(other.texts()).toBe("Done.Second.");
  expect(readFileSync(join(at.workspace, "log.txt"), "utf8")).toBe("x\n");
});

for (const [how, code] of [
  ["end of stdin", 0],
  ["SIGTERM", 143],
  ["SIGINT", 130],
] as const) {
  test(`${how} in the middle of a tool: everything that was started ends`, async () => {
    const seconds = uniqueSeconds();
    const command = `touch started; setsid sleep ${seconds} & sleep ${seconds}`;
    const at = await place([{ calls: [{ name: "bash", arguments: { command } }] }]);
    const editor = await openEditor(at, { flags: ["--mode", "auto"] });
    const id = await editor.session();
    editor.prompt(id, "Sleep").catch(() => undefined);
    await until(() => existsSync(join(at.workspace, "started")));
    if (how === "end of stdin") editor.program.stdin.end();
    else editor.program.kill(how);
    expect(await editor.program.exit).toBe(code);
    expect(await eventually(() => carriers(seconds).length === 0)).toBe(true);
    expect(editor.program.errors()).not.toContain("internal fault");
  });
}
