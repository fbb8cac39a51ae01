/** SpeakMCP's clients and notion-open-agent's, unchanged: talking. */
import { describe, expect, test } from "vitest";
import type { UpstreamScript } from "../../src/testing/upstream.ts";
import { eventsOf, serve } from "./served.ts";
import { ask, say, withServer } from "./speakmcp.ts";

describe("chat", () => {
  test("S10 S20 S21 a conversation: its id, its history, listed and read with every message", async () => {
    const served = await serve([{ text: "Hello" }, { text: "Again" }]);
    const headers = { "x-rotunda-events": "speakmcp" };
    const first = await ask(served, "/v1/chat/completions", { json: { messages: say("Hi") }, headers });
    expect(first.body).toMatchObject({
      object: "chat.completion",
      choices: [{ message: { role: "assistant", content: "Hello" } }],
      conversation_history: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "Hello" },
      ],
    });
    expect(String(first.body.id)).toMatch(/^chatcmpl-/);
    const id = first.body.conversation_id;
    const second = await ask(served, "/v1/chat/completions", {
      json: { messages: say("And?"), conversation_id: id },
      headers,
    });
    expect(second.body.conversation_id).toBe(id);
    const list = await ask(served, "/v1/conversations");
    expect(list.body.conversations).toMatchObject([{ id, title: "Hi", messageCount: 4, lastMessage: "Again" }]);
    const read = await ask(served, `/v1/conversations/${id}`);
    expect(read.body).toMatchObject({
      id,
      title: "Hi",
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "Hello" },
        { role: "user", content: "And?" },
        { role: "assistant", content: "Again" },
      ],
    });
  });

  test("S10 missing prompt: 400; prompt and input are taken as well as messages", async () => {
    const served = await serve([{ text: "Hello" }]);
    const missing = await ask(served, "/v1/chat/completions", { json: {} });
    expect(missing).toMatchObject({ status: 400, body: { error: { message: "Missing user prompt" } } });
    for (const key of ["prompt", "input"]) {
      expect((await ask(served, "/v1/chat/completions", { json: { [key]: "Hi" } })).status).toBe(200);
    }
  });

  test("S10 a model that only the client knows is not looked at; of any other client it is a 404", async () => {
    const served = await serve([{ text: "Hello" }]);
    const json = { model: "gpt-of-the-client", messages: say("Hi") };
    const headers = { "x-rotunda-events": "speakmcp" };
    expect((await ask(served, "/v1/chat/completions", { json, headers })).status).toBe(200);
    expect((await ask(served, "/v1/chat/completions", { json })).status).toBe(404);
  });

  test("S11 the stream of progress, and one done, by header or because the token was made so", async () => {
    const served = await serve([{ calls: [{ name: "glob", arguments: { pattern: "*" } }] }, { text: "Nothing." }]);
    const token = await served.newToken({ events: "speakmcp" });
    const answer = await served.fetch("/v1/chat/completions", { json: { messages: say("Look"), stream: true }, token });
    const events = (await eventsOf(answer)).map((one) => one.data as { type: string; data: Record<string, unknown> });
    expect(events.at(-1)).toMatchObject({ type: "done", data: { content: "Nothing.", model: "test-model" } });
    expect(events.at(-1)?.data.conversation_history).toMatchObject([
      { role: "user" },
      { role: "assistant", toolCalls: [{ name: "glob", arguments: { pattern: "*" } }] },
      { role: "tool", toolResults: [{ success: true }] },
      { role: "assistant", content: "Nothing." },
    ]);
    const progress = events.filter((event) => event.type === "progress");
    expect(progress.length).toBeGreaterThan(1);
    expect(progress.at(-1)?.data).toMatchObject({ isComplete: true, finalContent: "Nothing." });
    for (const key of ["sessionId", "conversationId", "currentIteration", "maxIterations", "steps"])
      expect(progress[0]?.data).toHaveProperty(key);
  });

  test("S11 a broken model ends the stream with one error", async () => {
    const served = await serve([{ status: 400, body: { error: { message: "broken" } } }]);
    const headers = { "x-rotunda-events": "speakmcp" };
    const answer = await served.fetch("/v1/chat/completions", { json: { messages: say("Hi"), stream: true }, headers });
    const events = (await eventsOf(answer)).map((one) => one.data as { type: string });
    expect(events.at(-1)).toMatchObject({ type: "error", data: { message: expect.stringContaining("broken") } });
    expect(events.filter((event) => event.type === "done")).toEqual([]);
  });

  test("B18 ten turns store exactly 20 messages, and no more is sent than was said", async () => {
    const served = await serve([{ text: "Yes" }]);
    const headers = { "x-rotunda-events": "speakmcp" };
    let id: unknown;
    for (let turn = 0; turn < 10; turn++) {
      const json = { messages: say(`Question ${turn}`), ...(id !== undefined && { conversation_id: id }) };
      id = (await ask(served, "/v1/chat/completions", { json, headers })).body.conversation_id;
    }
    expect((await ask(served, `/v1/conversations/${id}`)).body.messages).toHaveLength(20);
    const sent = served.upstream.requests.map(({ body }) => (body.messages as unknown[]).length);
    expect(sent).toEqual(Array.from({ length: 10 }, (_, turn) => 2 + 2 * turn));
  });

  test("B19 S52 a turn with one tool makes exactly two calls of the model", async () => {
    const served = await serve([{ calls: [{ name: "glob", arguments: { pattern: "*" } }] }, { text: "Done." }]);
    await ask(served, "/v1/chat/completions", { json: { messages: say("Look") } });
    expect(served.upstream.requests).toHaveLength(2);
  });

  test("S53 B20 an upstream 500 is a 5xx within seconds, after at most four calls", async () => {
    const served = await serve([{ status: 500, body: "broken" }]);
    const began = performance.now();
    const { status, body } = await ask(served, "/v1/chat/completions", { json: { messages: say("Hi") } });
    expect(performance.now() - began).toBeLessThan(3_000);
    expect(status).toBe(502);
    expect(body).toMatchObject({ error: { code: "upstream_failed", type: "server_error" } });
    expect(served.upstream.requests.length).toBeLessThanOrEqual(4);
  });

  test("B21 an id of one's own begins a conversation, and finds it again; a path is none", async () => {
    const served = await serve([{ text: "Hello" }]);
    const json = { messages: say("Hi"), conversation_id: "my-chat" };
    const first = await ask(served, "/v1/chat/completions", { json });
    expect(first.body.conversation_id).toBe("my-chat");
    await ask(served, "/v1/chat/completions", { json });
    expect((await ask(served, "/v1/conversations/my-chat")).body.messages).toHaveLength(4);
    for (const conversation_id of ["../../../evil", "conv_00000000000000000000000000", "a/b", "a\u0000"]) {
      const evil = await ask(served, "/v1/chat/completions", { json: { ...json, conversation_id } });
      expect(evil.status).toBe(404);
    }
    expect((await ask(served, "/v1/conversations/..%2f..%2fevil")).status).toBe(404);
  });

  test("S55 results of tools go back to the model as results of its calls", async () => {
    const served = await serve([{ calls: [{ name: "glob", arguments: { pattern: "*" } }] }, { text: "Done." }]);
    const headers = { "x-rotunda-events": "speakmcp" };
    const first = await ask(served, "/v1/chat/completions", { json: { messages: say("Look") }, headers });
    const json = { messages: say("And?"), conversation_id: first.body.conversation_id };
    await ask(served, "/v1/chat/completions", { json, headers });
    const messages = served.upstream.requests.at(-1)?.body.messages as { role: string }[];
    expect(messages.map((one) => one.role)).toEqual(["system", "user", "assistant", "tool", "assistant", "user"]);
  });
});

describe("conversations", () => {
  test("S22 S32 created with messages, renamed, deleted; wrong ones in SpeakMCP's words", async () => {
    const served = await serve([{ text: "x" }]);
    const made = await ask(served, "/v1/conversations", {
      json: { title: "Old talk", messages: [...say("Hi"), { role: "assistant", content: "Hello" }] },
    });
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({ title: "Old talk", messages: [{ content: "Hi" }, { content: "Hello" }] });
    const path = `/v1/conversations/${made.body.id}`;
    await ask(served, path, { json: { title: "New name" }, method: "PUT" });
    expect((await ask(served, path)).body.title).toBe("New name");
    expect(await ask(served, path, { method: "DELETE" })).toMatchObject({ status: 200, body: { success: true } });
    expect((await ask(served, path)).status).toBe(404);
    for (const [messages, message] of [
      [undefined, "Missing or invalid messages array"],
      [[{ role: "robot", content: "x" }], "Invalid role in message 0: expected one of user, assistant, tool"],
      [[...say("x"), { role: "user" }], "Invalid content in message 1: expected string"],
    ] as const) {
      const wrong = await ask(served, "/v1/conversations", { json: { title: "x", messages } });
      expect(wrong).toMatchObject({ status: 400, body: { error: { message } } });
    }
  });

  test("a branch is a second pointer at the same place", async () => {
    const served = await serve([{ text: "One" }, { text: "Two" }]);
    await ask(served, "/v1/chat/completions", { json: { messages: say("Hi"), conversation_id: "trunk" } });
    const branch = await ask(served, "/v1/conversations/trunk/branch", { json: {} });
    expect(branch.status).toBe(201);
    const json = { messages: say("And?"), conversation_id: branch.body.id };
    await ask(served, "/v1/chat/completions", { json });
    expect((await ask(served, "/v1/conversations/trunk")).body.messages).toHaveLength(2);
    expect((await ask(served, `/v1/conversations/${branch.body.id}`)).body.messages).toHaveLength(4);
  });
});

describe("approvals", () => {
  test("S33 K22 listed and answered from another door; exactly one answer wins", async () => {
    const script: UpstreamScript = [
      { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] },
      { text: "Written." },
    ];
    const served = await serve(script);
    const first = await served.respond({ model: "test-model", input: "Write", background: true });
    const approvals = async () => (await ask(served, "/v1/tool-approvals")).body.approvals as { approvalId: string }[];
    let pending = await approvals();
    for (let tries = 0; pending.length === 0 && tries < 100; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      pending = await approvals();
    }
    const waiting = await (await served.fetch(`/v1/responses/${first.id}`)).json();
    expect(waiting).toMatchObject({ status: "in_progress" });
    const approvalId = pending[0]?.approvalId ?? "";
    const answers = await Promise.all(
      [true, false, true].map((approved) => ask(served, "/v1/tool-approval", { json: { approvalId, approved } })),
    );
    expect(answers.map((one) => one.status).sort()).toEqual([200, 409, 409]);
    await served.app.engine.wait(first.id);
    expect(await approvals()).toEqual([]);
    const unknown = { approvalId: "mcpr_00000000000000000000000000", approved: true };
    expect(await ask(served, "/v1/tool-approval", { json: unknown })).toEqual({
      status: 404,
      body: { error: "Approval not found or already resolved" },
    });
  });

  test("a chat completion denies after ten seconds, and the model learns why", { timeout: 30_000 }, async () => {
    const served = await serve([
      { calls: [{ name: "write", arguments: { file_path: "a.txt", content: "x" } }] },
      { text: "I was not allowed." },
    ]);
    const { body } = await ask(served, "/v1/chat/completions", { json: { messages: say("Write") } });
    expect(body).toMatchObject({ choices: [{ message: { content: "I was not allowed." } }] });
    expect(JSON.stringify(served.upstream.requests[1]?.body.messages)).toContain("nobody answered within 10 seconds");
  });
});

describe("notion-open-agent", () => {
  test("N4 B31 a message, an answer; with a history or a conversation it goes on", async () => {
    const served = await serve([{ text: "Hello" }]);
    expect((await ask(served, "/chat", { json: { message: "Hi" } })).body).toMatchObject({ response: "Hello" });
    expect(await ask(served, "/chat", { json: {} })).toEqual({ status: 400, body: { error: "message is required" } });
    await ask(served, "/chat", {
      json: { message: "And?", history: [...say("Hi"), { role: "assistant", content: "Hello" }] },
    });
    expect(served.upstream.requests.at(-1)?.body.messages).toHaveLength(4);
    const first = await ask(served, "/chat", { json: { message: "One", conversation: "talk" } });
    expect(first.body.conversation).toBe("talk");
    await ask(served, "/chat", { json: { message: "Two", conversation: "talk" } });
    expect(served.upstream.requests.at(-1)?.body.messages).toHaveLength(4);
  });

  test("N4 a broken model is a 502 with its words", async () => {
    const served = await serve([{ status: 400, body: { error: { message: "broken" } } }]);
    const { status, body } = await ask(served, "/chat", { json: { message: "Hi" } });
    expect(status).toBe(502);
    expect(body.error).toContain("broken");
  });

  test("N5 N6 tools by their namespaced names", async () => {
    const served = await serve([{ text: "x" }], withServer());
    const tools = (await (await served.fetch("/tools")).json()) as {
      name: string;
      namespacedName: string;
      serverName: string;
    }[];
    const own = tools.find((one) => one.serverName === "echo");
    expect(own?.namespacedName).toBe(`echo__${own?.name}`);
    const called = await ask(served, `/tool/${own?.namespacedName}`, { json: { args: { text: "hi" } } });
    expect(called.body.content).toMatchObject([{ type: "text" }]);
    expect(await ask(served, "/tool/x", { json: {} })).toEqual({
      status: 502,
      body: { error: 'Invalid tool name "x" — expected format: serverName__toolName' },
    });
  });

  test("N7 B29 a body of 2 MB works; one over the limit is a 413, in JSON", async () => {
    const served = await serve([{ text: "Read." }], { door: { bodyLimit: 3_000_000 } });
    const big = await ask(served, "/chat", { json: { message: "x".repeat(2_000_000) } });
    expect(big.body).toMatchObject({ response: "Read." });
    const over = await ask(served, "/chat", { json: { message: "x".repeat(4_000_000) } });
    expect(over.status).toBe(413);
    expect(over.body.error).toEqual(expect.any(String));
    const bad = await ask(served, "/chat", {
      method: "POST",
      body: "{",
      headers: { "content-type": "application/json" },
    });
    expect(bad).toMatchObject({ status: 400, body: { error: expect.any(String) } });
  });
});
