/** The gateway's rules: permissions, audit, profiles, tokens, searches, and results that are too long. */
import { describe, expect, test } from "vitest";
import { connect, type Era, startGateway, stdio, textOf } from "./gateway-support.ts";

const one = (folder: string) => [stdio(folder, "one")];
const two = (folder: string) => [stdio(folder, "one"), stdio(folder, "two")];

describe.each<Era>(["legacy", "auto"])("a client that speaks %s", (era) => {
  test("a rule that denies holds, and both that and each call are in the audit log", async () => {
    const gateway = await startGateway(one, ({ permissions }) => permissions.deny.push("one__echo"));
    const client = await connect(gateway, { era });
    expect(await textOf(client, "one__echo", { text: "x" })).toContain("ERROR [Tool call failed: the call is denied");
    expect(await textOf(client, "one__whoami")).toBe("one");
    expect(gateway.journal("one")).not.toContain("echo");
    const records = await gateway.app.store.audits(0, 10);
    const calls = records
      .filter(({ action }) => action === "direct_call")
      .map(({ who, door, details }) => ({ who, door, ...details }));
    expect(calls).toMatchObject(
      expect.arrayContaining([
        expect.objectContaining({ who: "local", door: "mcp", tool: "one__echo", decision: "deny" }),
        expect.objectContaining({ who: "local", door: "mcp", tool: "one__whoami", status: "completed" }),
      ]),
    );
  });

  test("a rule that asks becomes a question to the person at the client", async () => {
    const gateway = await startGateway(one, ({ permissions }) => permissions.ask.push("one__*"));
    const asked: string[] = [];
    let decision = "allow once";
    const onQuestion = (message: string) => {
      asked.push(message);
      return { decision };
    };
    const client = await connect(gateway, { era, onQuestion });
    expect(await textOf(client, "one__echo", { text: "hi\u202e" })).toBe("hi\u202e");
    expect(asked[0]).toContain('May one__echo be called with {"text":"hi\\u{202e}"}?');
    decision = "deny";
    expect(await textOf(client, "one__whoami")).toContain("ERROR [Tool call failed: the call is denied: the person");
    expect(gateway.journal("one")).not.toContain("whoami");
    const silent = await connect(gateway, { era });
    expect(await textOf(silent, "one__whoami")).toContain('permissions: {allow: ["one__whoami"]}');
    // The server asks, too: the permission is given once, and holds until the call has ended.
    decision = "allow once";
    gateway.app.onElicitation(() => undefined);
    asked.length = 0;
    await textOf(client, "one__ask_twice");
    expect(asked.map((message) => message.slice(0, 6))).toContain("May on");
    expect(asked.filter((message) => message.startsWith("May"))).toHaveLength(1);
  });

  test("a long result is cut, and read on by its owner alone", async () => {
    const gateway = await startGateway(one, ({ mcp }) => {
      mcp.gateway = { outputLimit: 1_000 };
    });
    const client = await connect(gateway, { era });
    const whole = "0123456789".repeat(250);
    const cut = await textOf(client, "one__big", { size: 2_500 });
    expect(cut.startsWith(whole.slice(0, 1_000))).toBe(true);
    const [, reference = "", from = ""] = /"reference": "([^"]+)", "from": (\d+)/.exec(cut) ?? [];
    const rest = await textOf(client, "read_output", { reference, from: Number(from) });
    expect(rest).toBe(`${whole.slice(1_000, 2_000)}\n[500 characters more, from 2000]`);
    expect(await textOf(client, "read_output", { reference, from: 2_000 })).toBe(whole.slice(2_000));
    const other = await connect(gateway, { era, token: await gateway.tokenOf("other", ["tools:call"]) });
    expect(await textOf(other, "read_output", { reference })).toContain("ERROR There is no such output");
  });

  test("where the tools are too many they are found and called", async () => {
    const gateway = await startGateway(two, (config) => {
      config.toolSearchAbove = 0;
    });
    const client = await connect(gateway, { era });
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["tool_search", "call_tool", "read_output"]);
    const found = await textOf(client, "tool_search", { query: "structured", limit: 2 });
    expect(found).toMatch(/- one__structured: It can structured/);
    expect(found).toContain('{"type":"object"');
    expect(await textOf(client, "call_tool", { name: "two__echo", arguments: { text: "found" } })).toBe("found");
    expect(await textOf(client, "two__whoami")).toBe("two");
  });

  test("a profile's address has its servers and tools alone", async () => {
    const gateway = await startGateway(two, ({ profiles }) => {
      profiles.narrow = { servers: ["two"], tools: ["two__whoami", "two__echo"] };
    });
    const client = await connect(gateway, { era, path: "/mcp/hub/narrow" });
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name).sort()).toEqual(["read_output", "two__echo", "two__whoami"]);
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual(["two__travel"]);
    await expect(textOf(client, "one__whoami")).rejects.toThrow("Unknown tool");
    await expect(textOf(client, "two__big", { size: 1 })).rejects.toThrow("Unknown tool");
    await expect(connect(gateway, { era, path: "/mcp/hub/nothing" })).rejects.toThrow();
  });
});

test("who may come in: a token without tools:call is refused, one of some profiles has their addresses alone", async () => {
  const gateway = await startGateway(one, ({ profiles }) => {
    profiles.narrow = { servers: ["one"] };
  });
  const post = async (token: string, path = "/mcp/hub") => {
    const response = await fetch(new URL(path, gateway.url), {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
    });
    await response.text();
    return response.status;
  };
  expect(await post(await gateway.tokenOf("reader", ["responses:read", "chat"]))).toBe(403);
  const narrow = await gateway.tokenOf("narrow", ["tools:call"], ["narrow"]);
  expect(await post(narrow)).toBe(403);
  expect(await post(narrow, "/mcp/hub/narrow")).toBe(200);
  expect(await post("rtd_nobody_nothing")).toBe(401);
});

test("what a client is to bring back holds for its owner and its request alone", async () => {
  const gateway = await startGateway(one);
  gateway.app.onElicitation(() => undefined);
  const theirs = await gateway.tokenOf("theirs", ["tools:call"]);
  const call = async (token: string, params: object) => {
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } },
    };
    const name = "name" in params ? String(params.name) : "";
    const response = await fetch(new URL("/mcp/hub", gateway.url), {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { ...params, _meta: meta } }),
    });
    const text = await response.text();
    return JSON.parse(text.startsWith("{") ? text : (/^data: (.*)$/m.exec(text)?.[1] ?? "null"));
  };
  const request = { name: "one__ask", arguments: { question: "who?" } };
  const { result } = await call(gateway.token, request);
  expect(result.resultType).toBe("input_required");
  const [key = ""] = Object.keys(result.inputRequests);
  const inputResponses = { [key]: { action: "accept", content: { answer: "me" } } };
  const { requestState } = result;
  const refused = { error: { code: -32_602, message: "Invalid or expired requestState" } };
  expect(await call(theirs, { ...request, inputResponses, requestState })).toMatchObject(refused);
  const changed = { ...request, arguments: { question: "other?" } };
  expect(await call(gateway.token, { ...changed, inputResponses, requestState })).toMatchObject(refused);
  const tampered = `${requestState.slice(0, -2)}AA`;
  expect(await call(gateway.token, { ...request, inputResponses, requestState: tampered })).toMatchObject(refused);
  expect(await call(gateway.token, { ...request, inputResponses, requestState })).toMatchObject({
    result: { content: [{ text: 'accept {"answer":"me"}' }] },
  });
  // It is answered once.
  expect(await call(gateway.token, { ...request, inputResponses, requestState })).toHaveProperty("error");
});

test("no secret of a server's configuration leaves with a result", async () => {
  const gateway = await startGateway(
    (folder) => [stdio(folder, "one", { env: { SERVICE_TOKEN: "very-secret-value" } })],
    ({ secrets }) => void secrets.push("very-secret-value"),
  );
  const client = await connect(gateway);
  expect(await textOf(client, "one__environment", { name: "SERVICE_TOKEN" })).toBe("***");
});
