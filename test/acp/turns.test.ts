/** Turns at an editor: what it is told, asked and answered. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openEditor, place, rotunda, until } from "./client.ts";

const file = { name: "write", arguments: { file_path: "a.txt", content: "new\n" } };

test("text and thoughts come in pieces with the id of their message", async () => {
  const at = await place([{ reasoning: ["hm", "m"], text: ["Hel", "lo."], delay: 40 }]);
  const editor = await openEditor(at);
  const id = await editor.session();
  expect(await editor.prompt(id, "Say hello")).toBe("end_turn");
  expect([editor.texts("agent_thought_chunk"), editor.texts()]).toEqual(["hmm", "Hello."]);
  const ids = editor.updates.flatMap((update) => ("messageId" in update ? [update.messageId] : []));
  expect(new Set(ids).size).toBe(2);
  expect(editor.updates).toContainEqual(
    expect.objectContaining({ sessionUpdate: "session_info_update", title: "Say hello" }),
  );
  expect(editor.updates.at(-1)).toEqual({ sessionUpdate: "usage_update", used: 15, size: 1000 });
  // Nothing but the protocol.
  for (const line of editor.lines()) expect(JSON.parse(line)).toMatchObject({ jsonrpc: "2.0" });
});

test("B17 a write is shown as a difference, asked about with its whole arguments, and made once allowed", async () => {
  const at = await place([{ calls: [file] }, { text: "Done." }]);
  writeFileSync(join(at.workspace, "a.txt"), "old\n");
  const editor = await openEditor(at, { answer: () => "allow-once" });
  expect(await editor.prompt(await editor.session(), "Write it")).toBe("end_turn");
  const path = join(at.workspace, "a.txt");
  const difference = { type: "diff", path, oldText: "old\n", newText: "new\n" };
  const [question] = editor.questions;
  expect(question?.toolCall).toMatchObject({ kind: "edit", title: "Write a.txt", locations: [{ path }] });
  expect(question?.toolCall.content?.[0]).toEqual(difference);
  expect(question?.options.map(({ kind }) => kind)).toEqual([
    "allow_once",
    "allow_always",
    "allow_always",
    "reject_once",
  ]);
  expect(editor.calls()).toEqual([
    expect.objectContaining({ name: "write", status: "completed", content: [difference], rawInput: file.arguments }),
  ]);
  expect(readFileSync(path, "utf8")).toBe("new\n");
  expect(editor.texts()).toBe("Done.");
});

test("an edit is shown without a question where none is needed", async () => {
  const edit = { file_path: "a.txt", edits: [{ old_string: "old", new_string: "new" }] };
  const at = await place([{ calls: [{ name: "edit", arguments: edit }] }, { text: "Done." }]);
  writeFileSync(join(at.workspace, "a.txt"), "old\n");
  const editor = await openEditor(at, { flags: ["--mode", "accept-edits"] });
  await editor.prompt(await editor.session(), "Edit it");
  expect(editor.questions).toEqual([]);
  const path = join(at.workspace, "a.txt");
  expect(editor.calls()).toEqual([
    expect.objectContaining({
      kind: "edit",
      title: "Edit a.txt",
      status: "completed",
      content: [{ type: "diff", path, oldText: "old", newText: "new" }],
    }),
  ]);
});

test("a refusal reaches the model, and nothing is done", async () => {
  const at = await place([{ calls: [file] }, { text: "Then not." }]);
  const editor = await openEditor(at, { answer: () => "reject-once" });
  expect(await editor.prompt(await editor.session(), "Write it")).toBe("end_turn");
  expect(editor.calls()).toEqual([expect.objectContaining({ status: "failed" })]);
  expect(existsSync(join(at.workspace, "a.txt"))).toBe(false);
  expect(JSON.stringify(at.upstream.requests[1]?.body.messages)).toMatch(/denied|refused/i);
});

test("G5 always is a rule by the pattern: it is not asked again, in no other process either", async () => {
  const at = await place((_, number) => (number % 2 === 0 ? { calls: [file] } : { text: "Done." }));
  const first = await openEditor(at, { answer: () => "allow-always" });
  await first.prompt(await first.session(), "Write it");
  expect(first.questions).toHaveLength(1);
  const second = await openEditor(at, { answer: () => "reject-once" });
  await second.prompt(await second.session(), "Write it again");
  expect(second.questions).toEqual([]);
  expect((await rotunda(at, ["permissions", "list"])).out).toContain("write(");
});

test("G5 K22 another door answers first: the question is taken back, and the turn goes on", async () => {
  const at = await place([{ calls: [file] }, { text: "Done." }]);
  const editor = await openEditor(at);
  const turn = editor.prompt(await editor.session(), "Write it");
  await until(() => editor.questions.length === 1);
  const [approval] = JSON.parse((await rotunda(at, ["approvals", "--json"])).out);
  expect((await rotunda(at, ["approve", approval.id, "--no-resume"])).code).toBe(0);
  expect(await turn).toBe("end_turn");
  expect(editor.withdrawn).toHaveLength(1);
  expect(readFileSync(join(at.workspace, "a.txt"), "utf8")).toBe("new\n");
});

test("cancel ends the turn at once; what was said stays", async () => {
  const at = await place([{ text: ["Once ", "upon "], break: "hang" }, { text: "Yes." }]);
  const editor = await openEditor(at);
  const id = await editor.session();
  const turn = editor.prompt(id, "Tell");
  await until(() => editor.texts() === "Once upon ");
  await editor.agent.notify("session/cancel", { sessionId: id });
  expect(await turn).toBe("cancelled");
  expect(await at.upstream.requests[0]?.gone).toBe(true);
  const other = await openEditor(at);
  await other.agent.request("session/load", { sessionId: id, cwd: at.workspace, mcpServers: [] });
  expect([other.texts("user_message_chunk"), other.texts()]).toEqual(["Tell", "Once upon "]);
  expect(await editor.prompt(id, "Are you there?")).toBe("end_turn");
});

test("cancel while a question is open takes it back", async () => {
  const at = await place([{ calls: [file] }, { text: "No." }]);
  const editor = await openEditor(at);
  const id = await editor.session();
  const turn = editor.prompt(id, "Write it");
  await until(() => editor.questions.length === 1);
  await editor.agent.notify("session/cancel", { sessionId: id });
  expect(await turn).toBe("cancelled");
  await until(() => editor.withdrawn.length === 1);
  expect(editor.calls()).toEqual([expect.objectContaining({ status: "failed" })]);
  expect(existsSync(join(at.workspace, "a.txt"))).toBe(false);
});

test("a client that answers a question with cancelled has cancelled the turn", async () => {
  const at = await place([{ calls: [file] }, { text: "No." }]);
  const editor = await openEditor(at, { answer: () => "cancelled" });
  expect(await editor.prompt(await editor.session(), "Write it")).toBe("cancelled");
  expect(at.upstream.requests).toHaveLength(1);
});

test("the request itself can be taken back", async () => {
  const at = await place([{ text: ["a "], break: "hang" }]);
  const editor = await openEditor(at);
  const sessionId = await editor.session();
  const back = new AbortController();
  const turn = editor.prompt(sessionId, "Tell", { cancellationSignal: back.signal });
  await until(() => editor.texts() !== "");
  back.abort();
  expect(await turn).toBe("cancelled");
});

test("the plan is a plan, not a call", async () => {
  const todos = [
    { content: "Read", status: "completed", activeForm: "Reading" },
    { content: "Write", status: "in_progress", activeForm: "Writing" },
  ];
  const at = await place([{ calls: [{ name: "TodoWrite", arguments: { todos } }] }, { text: "Planned." }]);
  const editor = await openEditor(at);
  const id = await editor.session();
  await editor.prompt(id, "Plan");
  const plan = {
    sessionUpdate: "plan",
    entries: [
      { content: "Read", priority: "medium", status: "completed" },
      { content: "Write", priority: "medium", status: "in_progress" },
    ],
  };
  expect(editor.updates).toContainEqual(plan);
  expect(editor.calls()).toEqual([]);
  const other = await openEditor(at);
  await other.agent.request("session/load", { sessionId: id, cwd: at.workspace, mcpServers: [] });
  expect(other.updates).toContainEqual(plan);
});

test("kinds, titles and places of reading calls; results as they are", async () => {
  const calls = [
    { name: "read", arguments: { files: [{ file_path: "src/a.ts", from: 2 }] } },
    { name: "grep", arguments: { pattern: "x" } },
    { name: "bash", arguments: { command: "echo '```'" } },
  ];
  const at = await place([{ calls }, { text: "Done." }]);
  mkdirSync(join(at.workspace, "src"));
  writeFileSync(join(at.workspace, "src", "a.ts"), "x\ny\n");
  const editor = await openEditor(at, { flags: ["--mode", "auto"] });
  await editor.prompt(await editor.session(), "Look");
  const [read, grep, bash] = editor.calls();
  const locations = [{ path: join(at.workspace, "src", "a.ts"), line: 2 }];
  expect(read).toMatchObject({ kind: "read", title: "Read src/a.ts", locations, status: "completed" });
  expect(grep).toMatchObject({ kind: "search", title: "Search x" });
  expect(bash).toMatchObject({ kind: "execute", title: "echo '```'" });
  // A fence that the output cannot end.
  expect(JSON.stringify(bash?.content)).toContain("````\\n```\\n````");
});

test("a sub-agent's question is asked here, and its call has an end", async () => {
  const task = { agent_type: "execute", task: "Write it", description: "writes a file" };
  const at = await place([
    { calls: [{ name: "task", arguments: task }] },
    { calls: [file] },
    { text: "It is written." },
    { text: "All done." },
  ]);
  const editor = await openEditor(at, { answer: () => "allow-once" });
  expect(await editor.prompt(await editor.session(), "Delegate")).toBe("end_turn");
  expect(editor.questions).toHaveLength(1);
  expect(editor.calls()).toEqual([
    expect.objectContaining({ title: "execute: writes a file", status: "completed" }),
    expect.objectContaining({ title: "Write a.txt", status: "completed" }),
  ]);
});

test("a profile that returns for approval: the answer starts the next response, in the same prompt", async () => {
  const at = await place([{ calls: [file] }, { text: "Done." }], { profiles: { strict: { onApproval: "return" } } });
  const editor = await openEditor(at, { answer: () => "allow-once", flags: ["--agent", "strict"] });
  expect(await editor.prompt(await editor.session(), "Write it")).toBe("end_turn");
  expect(editor.questions).toHaveLength(1);
  expect(readFileSync(join(at.workspace, "a.txt"), "utf8")).toBe("new\n");
  expect(editor.texts()).toBe("Done.");
});

test("images, links and files reach the model; what it cannot be shown is refused", async () => {
  const at = await place([{ text: "I see." }]);
  const editor = await openEditor(at);
  const sessionId = await editor.session();
  const image = { type: "image" as const, mimeType: "image/png", data: "iVBORw0KGgo=" };
  await editor.agent.request("session/prompt", {
    sessionId,
    prompt: [
      { type: "text", text: "Look at " },
      { type: "resource_link", name: "b.ts", uri: "file:///w/b.ts" },
      { type: "resource", resource: { uri: "file:///w/c.ts", text: "let c;" } },
      image,
    ],
  });
  const said = JSON.stringify(at.upstream.requests[0]?.body.messages);
  expect(said).toContain("Look at [@b.ts](file:///w/b.ts)[@c.ts](file:///w/c.ts)");
  expect(said).toContain("data:image/png;base64,iVBORw0KGgo=");
  expect(said).toContain("let c;");
  const audio = { type: "audio" as const, mimeType: "audio/wav", data: "AAAA" };
  for (const block of [audio, { ...image, mimeType: "image/svg+xml" }, { ...image, data: "<script>" }]) {
    await expect(editor.agent.request("session/prompt", { sessionId, prompt: [block] })).rejects.toMatchObject({
      code: -32_602,
    });
  }
  await expect(editor.agent.request("session/prompt", { sessionId, prompt: [] })).rejects.toThrow("empty");
  expect(at.upstream.requests).toHaveLength(1);
});

test("a prompt of two megabytes", async () => {
  const at = await place([{ text: "Long." }]);
  const editor = await openEditor(at);
  const long = "é".repeat(1_000_000);
  expect(await editor.prompt(await editor.session(), long)).toBe("end_turn");
  expect(JSON.stringify(at.upstream.requests[0]?.body.messages)).toContain(long);
});

test("a model's failure is an error that names it; the session lives on", async () => {
  const at = await place([{ status: 401, body: { error: { message: "bad key" } } }, { text: "Better." }]);
  const editor = await openEditor(at);
  const id = await editor.session();
  await expect(editor.prompt(id, "Hi")).rejects.toMatchObject({ code: -32_603, data: { code: "upstream_auth" } });
  expect(await editor.prompt(id, "Again")).toBe("end_turn");
});

test("limits have the protocol's names", async () => {
  const again = { calls: [{ name: "glob", arguments: { pattern: "*" } }] };
  const at = await place([again, { text: "Enough." }], { profiles: { short: { maxTurns: 1 } } });
  const editor = await openEditor(at, { flags: ["--agent", "short"] });
  expect(await editor.prompt(await editor.session(), "Look")).toBe("max_turn_requests");
  const cut = await place([{ text: "Half an ans", finish: "length" }]);
  const other = await openEditor(cut);
  expect(await other.prompt(await other.session(), "Tell")).toBe("max_tokens");
});

test("how far a command has come, and what the person should know, where the editor shows it", async () => {
  const command = "echo step one; until [ -e go ]; do sleep 0.05; done; echo step two";
  const at = await place([{ status: 503 }, { calls: [{ name: "bash", arguments: { command } }] }, { text: "Done." }]);
  const capabilities = { session: { notices: {} } };
  const editor = await openEditor(at, { capabilities, flags: ["--mode", "auto"] });
  const turn = editor.prompt(await editor.session(), "Run");
  await until(() => JSON.stringify(editor.calls()[0]?.content ?? "").includes("step one"));
  expect(editor.calls()[0]).toMatchObject({ status: "in_progress" });
  writeFileSync(join(at.workspace, "go"), "");
  expect(await turn).toBe("end_turn");
  expect(JSON.stringify(editor.calls()[0]?.content)).toContain("step one\\nstep two");
  expect(editor.updates).toContainEqual(expect.objectContaining({ sessionUpdate: "notice", severity: "warning" }));
});

test("a skill is a command", async () => {
  const at = await place([{ text: "Done." }]);
  const folder = join(at.workspace, ".agents", "skills", "release");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "SKILL.md"), "---\nname: release\ndescription: Makes a release\n---\nDo it.\n");
  const editor = await openEditor(at);
  const id = await editor.session();
  await until(() => editor.updates.some(({ sessionUpdate }) => sessionUpdate === "available_commands_update"));
  expect(editor.updates).toContainEqual({
    sessionUpdate: "available_commands_update",
    availableCommands: [{ name: "release", description: "Makes a release", input: { hint: "what to do" } }],
  });
  await editor.prompt(id, "/release 1.2");
  expect(JSON.stringify(at.upstream.requests[0]?.body.messages)).toMatch(/Use the skill .*release.*1\.2/);
});
