/** Sessions of editors: they are conversations of the tree, and every other door sees them. */
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openEditor, place, rotunda, until } from "./client.ts";

test("what is promised at the beginning", async () => {
  const at = await place([]);
  const editor = await openEditor(at);
  const { agentCapabilities, authMethods, protocolVersion, agentInfo } = await editor.agent.request("initialize", {
    protocolVersion: 7,
  });
  expect({ protocolVersion, authMethods, name: agentInfo?.name }).toEqual({
    protocolVersion: 1,
    authMethods: [],
    name: "rotunda",
  });
  expect(agentCapabilities).toEqual({
    loadSession: true,
    promptCapabilities: { image: true, audio: false, embeddedContext: true },
    mcpCapabilities: { http: true, sse: false },
    sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {}, fork: {} },
  });
});

test("a session is loaded by another process as it was told, and goes on", async () => {
  const edit = { name: "edit", arguments: { file_path: "none.txt", edits: [{ old_string: "a", new_string: "b" }] } };
  const at = await place([
    { reasoning: "hm", text: "I will look.", calls: [{ name: "glob", arguments: { pattern: "*" } }] },
    { calls: [edit] },
    { text: "Nothing there." },
    { text: "You said: look." },
  ]);
  const editor = await openEditor(at, { answer: () => "allow-once" });
  const id = await editor.session();
  await editor.prompt(id, "Look");
  editor.program.stdin.end();
  expect(await editor.program.exit).toBe(0);
  const other = await openEditor(at);
  await other.agent.request("session/load", { sessionId: id, cwd: at.workspace, mcpServers: [] });
  const told = (one: typeof editor) =>
    [one.texts("user_message_chunk"), one.texts("agent_thought_chunk"), one.texts()].join("|");
  expect(told(other)).toBe(`Look|${told(editor).slice(1)}`);
  const shown = (one: typeof editor) => one.calls().map(({ title, kind, status }) => ({ title, kind, status }));
  expect(shown(other)).toEqual(shown(editor));
  expect(shown(other)).toEqual([
    { title: "Find *", kind: "search", status: "completed" },
    { title: "Edit none.txt", kind: "edit", status: "failed" },
  ]);
  expect(await other.prompt(id, "What did I say?")).toBe("end_turn");
  expect(JSON.stringify(at.upstream.requests.at(-1)?.body.messages)).toContain("Nothing there.");
});

test("G2 B31 turns of other doors are in its history, and other doors go on with it", async () => {
  const at = await place((_, number) => ({ text: `Answer ${number}.` }));
  const editor = await openEditor(at);
  const id = await editor.session();
  await editor.prompt(id, "First");
  expect((await rotunda(at, ["chat", "--conversation", id, "Second"])).out).toContain("Answer 1.");
  await editor.prompt(id, "Third");
  const messages = JSON.stringify(at.upstream.requests[2]?.body.messages);
  for (const text of ["First", "Answer 0.", "Second", "Answer 1.", "Third"]) expect(messages).toContain(text);
  const other = await openEditor(at);
  await other.agent.request("session/load", { sessionId: id, cwd: at.workspace, mcpServers: [] });
  expect(other.texts("user_message_chunk")).toBe("FirstSecondThird");
});

test("lists those of a directory, by whatever door they began, the last used first", async () => {
  const at = await place([{ text: "Hi." }]);
  const editor = await openEditor(at);
  const empty = await editor.session();
  const id = await editor.session();
  await editor.prompt(id, "First");
  await rotunda(at, ["chat", "At the terminal"]);
  const link = join(at.workspace, "..", "link");
  symlinkSync(at.workspace, link);
  const { sessions } = await editor.agent.request("session/list", { cwd: link });
  expect(sessions.map(({ title }) => title)).toEqual(["At the terminal", "First"]);
  expect(sessions[1]).toMatchObject({ sessionId: id, cwd: at.workspace });
  expect(sessions.map(({ sessionId }) => sessionId)).not.toContain(empty);
  expect((await editor.agent.request("session/list", { cwd: "/nowhere" })).sessions).toEqual([]);
  await expect(editor.agent.request("session/list", { cursor: "../x" })).rejects.toMatchObject({ code: -32_602 });
});

test("resume goes on without telling again; with who answered last", async () => {
  const at = await place([{ text: "Found." }]);
  const editor = await openEditor(at);
  const id = await editor.session();
  await editor.agent.request("session/set_mode", { sessionId: id, modeId: "explore" });
  await editor.prompt(id, "Look");
  const other = await openEditor(at);
  const { modes } = await other.agent.request("session/resume", { sessionId: id, cwd: at.workspace });
  expect(modes?.currentModeId).toBe("explore");
  expect([other.texts("user_message_chunk"), other.texts()]).toEqual(["", ""]);
  expect(await other.prompt(id, "And now?")).toBe("end_turn");
  expect(JSON.stringify(at.upstream.requests[1]?.body.messages)).toContain("Found.");
});

test("fork is a branch: both go on from the same response, and nothing is copied", async () => {
  const at = await place((_, number) => ({ text: `Answer ${number}.` }));
  const editor = await openEditor(at);
  const id = await editor.session();
  await editor.prompt(id, "Root");
  const { sessionId } = await editor.agent.request("session/fork", { sessionId: id, cwd: at.workspace });
  expect(sessionId).not.toBe(id);
  await editor.prompt(id, "Left");
  await editor.prompt(sessionId, "Right");
  const right = JSON.stringify(at.upstream.requests[2]?.body.messages);
  expect(right).toContain("Root");
  expect(right).not.toContain("Left");
  const nodes = JSON.parse((await rotunda(at, ["log", "--json"])).out) as { previousResponseId: string | null }[];
  const parents = nodes.map(({ previousResponseId }) => previousResponseId);
  expect(parents.filter((parent) => parent === null)).toHaveLength(1);
  expect(new Set(parents).size).toBe(2);
});

test("profile, model and permissions are chosen, and hold from the next prompt on", async () => {
  const at = await place([
    { calls: [{ name: "write", arguments: { file_path: "a", content: "b" } }] },
    { text: "Done." },
  ]);
  const editor = await openEditor(at);
  const { sessionId, modes, configOptions } = await editor.agent.request("session/new", {
    cwd: at.workspace,
    mcpServers: [],
  });
  expect(modes?.availableModes.map(({ id }) => id)).toEqual(["general", "explore", "plan", "execute"]);
  expect(configOptions?.map(({ id, currentValue }) => [id, currentValue])).toEqual([
    ["profile", "general"],
    ["model", "test-model"],
    ["permissions", "profile"],
  ]);
  const set = (configId: string, value: string) =>
    editor.agent.request("session/set_config_option", { sessionId, configId, value });
  await set("profile", "execute");
  expect(editor.updates).toContainEqual({ sessionUpdate: "current_mode_update", currentModeId: "execute" });
  const { configOptions: after } = await set("permissions", "accept-edits");
  expect(after.map(({ currentValue }) => currentValue)).toEqual(["execute", "test-model", "accept-edits"]);
  await editor.agent.request("session/set_mode", { sessionId, modeId: "general" });
  expect(editor.updates.at(-1)).toMatchObject({ sessionUpdate: "config_option_update" });
  await editor.prompt(sessionId, "Write");
  expect(editor.questions).toEqual([]);
  await expect(set("model", "nope")).rejects.toThrow(/nope.*test-model/);
  await expect(set("colour", "red")).rejects.toMatchObject({ code: -32_602 });
  await expect(editor.agent.request("session/set_mode", { sessionId, modeId: "nobody" })).rejects.toMatchObject({
    code: -32_602,
  });
});

test("close cancels what runs and forgets the session; an empty one leaves nothing behind", async () => {
  const at = await place([{ text: ["a "], break: "hang" }]);
  const editor = await openEditor(at);
  const id = await editor.session();
  const turn = editor.prompt(id, "Tell");
  await until(() => editor.texts() !== "");
  await editor.agent.request("session/close", { sessionId: id });
  expect(await turn).toBe("cancelled");
  await expect(editor.prompt(id, "Again")).rejects.toMatchObject({ code: -32_002 });
  const empty = await editor.session();
  await editor.agent.request("session/close", { sessionId: empty });
  await expect(editor.agent.request("session/resume", { sessionId: empty, cwd: at.workspace })).rejects.toMatchObject({
    code: -32_002,
  });
  await editor.agent.request("session/resume", { sessionId: id, cwd: at.workspace });
});

test("delete takes it off the list; its responses stay in the tree", async () => {
  const at = await place([{ text: "Hi." }]);
  const editor = await openEditor(at);
  const id = await editor.session();
  await editor.prompt(id, "Hello");
  await editor.agent.request("session/delete", { sessionId: id });
  expect((await editor.agent.request("session/list", {})).sessions).toEqual([]);
  await expect(editor.prompt(id, "Again")).rejects.toMatchObject({ code: -32_002 });
  expect((await rotunda(at, ["log"])).out).toContain("Hello");
});

test("each session works in its own directory, with that directory's configuration", async () => {
  const at = await place([{ calls: [{ name: "bash", arguments: { command: "pwd" } }] }, { text: "There." }]);
  const other = join(at.workspace, "..", "other");
  mkdirSync(other);
  const editor = await openEditor(at, { flags: ["--mode", "auto"] });
  const { sessionId } = await editor.agent.request("session/new", { cwd: other, mcpServers: [] });
  await editor.prompt(sessionId, "Where?");
  expect(JSON.stringify(editor.calls()[0]?.content)).toContain(other);
});
