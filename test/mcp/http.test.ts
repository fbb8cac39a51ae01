/** The MCP door over HTTP: Polybrain's and the bridge's tools, for clients of both generations. */
import { describe, expect, test } from "vitest";
import { startUpstream } from "../../src/testing/upstream.ts";
import { startServer } from "../http/process.ts";
import { later, temporaryFolder } from "../support.ts";
import { call, connectHttp, type Era, idIn } from "./support.ts";

async function serving(answer: Parameters<typeof startUpstream>[0], more: object = {}) {
  const upstream = await startUpstream(answer);
  later(() => upstream.close());
  const folder = temporaryFolder();
  const server = await startServer(folder, upstream.url, more);
  return { upstream, folder, server };
}

const echo = ({ body }: { body: unknown }) => {
  const { messages } = body as { messages: { role: string; content: unknown }[] };
  const users = messages.filter(({ role }) => role === "user").map(({ content }) => JSON.stringify(content));
  return { text: `heard ${users.join(" and ")}` };
};

describe.each<Era>(["legacy", "auto"])("a client that speaks %s", (era) => {
  test("P1 P2 P3 P6: chats, goes on, and switches the model", async () => {
    const { server, upstream } = await serving(echo, {});
    const client = await connectHttp(server.url, { era, token: server.token });
    const { models } = JSON.parse((await call(client, "list_models")).text);
    expect(models[0]).toEqual({ id: "test-model", modelName: "test-model", baseUrl: upstream.url });
    const first = JSON.parse((await call(client, "chat", { message: "one" })).text);
    expect(first).toMatchObject({ modelId: "test-model", response: 'heard "one"' });
    const second = JSON.parse(
      (await call(client, "chat", { message: "two", conversationId: first.conversationId })).text,
    );
    expect(second.conversationId).toBe(first.conversationId);
    expect(second.response).toBe('heard "one" and "two"');
    const history = JSON.parse(
      (await call(client, "conversation_history", { conversationId: first.conversationId })).text,
    );
    expect(history).toEqual({
      conversationId: first.conversationId,
      modelId: "test-model",
      messages: [
        { role: "user", content: "one" },
        { role: "assistant", content: 'heard "one"' },
        { role: "user", content: "two" },
        { role: "assistant", content: 'heard "one" and "two"' },
      ],
    });
    const switched = JSON.parse(
      (await call(client, "chat", { message: "three", conversationId: first.conversationId, modelId: "demo" })).text,
    );
    expect(switched.conversationId).not.toBe(first.conversationId);
    expect(switched.modelId).toBe("demo");
  });

  test("C1 C2 C3 C4: asks, in the background too, and goes on from any answer", async () => {
    const { server } = await serving(echo);
    const client = await connectHttp(server.url, { era, token: server.token });
    const first = await call(client, "ask", { prompt: "one" });
    expect(first.text).toMatch(/^heard "one"\n\nResponse ID: resp_\w+$/);
    expect(first.structured).toMatchObject({ status: "completed", result: 'heard "one"' });
    const started = await call(client, "ask_async", { prompt: "two", previousResponseId: idIn(first.text) });
    const [, taskId = ""] = /^Task started successfully\. Use ask_status with task ID: (\S+)$/.exec(started.text) ?? [];
    const waited = await call(client, "ask_wait", { taskId });
    expect(waited.text).toBe(`heard "one" and "two"\n\nResponse ID: ${taskId}`);
    const status = await call(client, "ask_status", { taskId });
    expect(status.text).toMatch(/^Task resp_\w+:\nStatus: completed\nProgress: 100%\nCreated: .*Z\nUpdated: .*Z\n/);
    expect(status.text).toContain(`\nResult: heard "one" and "two"\nResponse ID: ${taskId}\nDuration: `);
    expect((await call(client, "ask_cancel", { taskId })).text).toBe(
      `Task ${taskId} could not be cancelled (may not exist or already completed)`,
    );
    const again = await call(client, "branch", { prompt: "other", previousResponseId: idIn(first.text) });
    expect(again.text).toContain('heard "one" and "other"');
    expect(again.structured.conversationId).not.toBe(first.structured.conversationId);
    const listed = await call(client, "list_responses", { limit: 2 });
    expect(listed.structured.responses.map((one: { title: string }) => one.title)).toEqual(["other", "two"]);
  });

  test("P4: what goes wrong is told in Polybrain's words, with isError", async () => {
    const { server } = await serving(() => ({ status: 400, body: { error: { message: "no such thing" } } }));
    const client = await connectHttp(server.url, { era, token: server.token });
    const unknown = await call(client, "chat", { message: "x", conversationId: "abcd" });
    expect(unknown).toMatchObject({ text: "Error: Conversation not found: abcd", isError: true });
    const model = await call(client, "chat", { message: "x", modelId: "none" });
    expect(model).toMatchObject({ text: "Error: Model not configured: none", isError: true });
    const failed = await call(client, "chat", { message: "x" });
    expect(failed).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^Error: Failed to get response from .*no such thing/),
    });
    const missing = await call(client, "chat", {});
    expect(missing).toMatchObject({ isError: true, text: expect.stringContaining("Input validation error") });
    expect(await call(client, "ask_status", { taskId: "nope" })).toMatchObject({
      isError: true,
      text: "Task nope not found",
    });
  });

  test("an approval is put to the person at the client, and the call goes on with the answer", async () => {
    let asked = 0;
    const { server } = await serving(({ body }) => {
      const { messages } = body as { messages: { role: string; content: string }[] };
      const last = messages.at(-1);
      if (last?.role === "tool") return { text: `tool said: ${last.content}` };
      return { calls: [{ name: "write", arguments: { file_path: "made.txt", content: "hello" } }] };
    });
    const client = await connectHttp(server.url, {
      era,
      token: server.token,
      onQuestion: (message) => {
        asked++;
        expect(message).toContain("write");
        return { action: "accept", content: { decision: "allow once" } };
      },
    });
    const answer = await call(client, "ask", { prompt: "write it" });
    expect(answer.text).toContain("Successfully wrote 5 bytes");
    expect(asked).toBe(1);
  });

  test("where nobody can be asked, the handle says what waits", async () => {
    const { server } = await serving(() => ({
      calls: [{ name: "write", arguments: { file_path: "made.txt", content: "hello" } }],
    }));
    const client = await connectHttp(server.url, { era, token: server.token });
    const answer = await call(client, "ask", { prompt: "write it" });
    expect(answer.text).toMatch(/^Waiting for a person to allow a call:\n- write .*rotunda approve/);
    expect(answer.structured).toMatchObject({ status: "waiting", waitsFor: [{ tool: "write" }] });
    const cancelled = await call(client, "ask_cancel", { taskId: idIn(answer.text) });
    expect(cancelled.text).toBe(`Task ${idIn(answer.text)} cancelled successfully`);
  });

  test("G15 consensus asks several models at once and has their answers compared", async () => {
    const { server } = await serving(echo);
    const client = await connectHttp(server.url, { era, token: server.token });
    const answer = await call(client, "consensus", { prompt: "why?", modelIds: ["test-model", "demo", "none"] });
    expect(answer.structured.answers).toHaveLength(3);
    expect(answer.structured.answers[0]).toMatchObject({ status: "completed", model: "test-model" });
    expect(answer.structured.answers[2]).toMatchObject({ model: "none", error: expect.stringContaining("none") });
    expect(answer.structured.comparison).toMatchObject({ status: "completed" });
    expect(answer.text).toContain("## Compared");
  });

  test("conversations and responses can be read as resources, profiles are prompts", async () => {
    const { server } = await serving(echo);
    const client = await connectHttp(server.url, { era, token: server.token });
    const { structured } = await call(client, "ask", { prompt: "one" });
    const { resources } = await client.listResources();
    const uri = `rotunda://conversations/${structured.conversationId}`;
    expect(resources.map((one) => one.uri)).toEqual([uri]);
    const [read] = (await client.readResource({ uri })).contents as { text: string }[];
    expect(JSON.parse(read?.text ?? "").messages).toHaveLength(2);
    await expect(client.readResource({ uri: "rotunda://responses/nope" })).rejects.toThrow();
    const { prompts } = await client.listPrompts();
    expect(prompts.map((one) => one.name)).toContain("explore");
    const prompt = await client.getPrompt({ name: "explore", arguments: { task: "look around" } });
    expect(JSON.stringify(prompt.messages)).toContain("look around");
  });
});
