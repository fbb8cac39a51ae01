/** What holds for every client of the doors that start responses: disconnects, repetitions, owners, linear conversations. */
import { request } from "node:http";
import { describe, expect, test } from "vitest";
import { eventsOf, type Served, serve } from "./served.ts";

const model = "test-model";

/** Posts, waits until something of the answer (or of the run) is there, and tears the connection down. */
function postAndLeave(served: Served, path: string, json: object, headers: object = {}): Promise<void> {
  return new Promise((resolve) => {
    const body = JSON.stringify(json);
    const outgoing = request(`${served.url}${path}`, {
      method: "POST",
      agent: false,
      headers: {
        authorization: `Bearer ${served.token}`,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
        ...headers,
      },
    });
    outgoing.on("error", () => undefined);
    outgoing.end(body);
    const look = setInterval(() => {
      if (served.upstream.requests.length === 0) return;
      clearInterval(look);
      setTimeout(() => {
        outgoing.destroy();
        resolve();
      }, 150);
    }, 10);
  });
}

async function onlyResponse(served: Served) {
  const [node] = await served.app.store.list({});
  if (!node) throw new Error("no response was stored");
  return node;
}

describe("a client that goes away", () => {
  test.each([
    ["/v1/chat/completions", { model, messages: [{ role: "user", content: "Hi" }] }],
    ["/v1/chat/completions", { model, messages: [{ role: "user", content: "Hi" }], stream: true }],
    ["/v1/responses", { model, input: "Hi" }],
    ["/v1/responses", { model, input: "Hi", stream: true }],
    ["/chat", { message: "Hi" }],
  ])("K1 B32 %s %j: the run is cancelled, its partial text kept, the upstream let go", async (path, body) => {
    const served = await serve([{ text: ["some ", "words ", "x"], delay: 30, break: "hang" }]);
    await postAndLeave(served, path, body);
    const { id } = await onlyResponse(served);
    const node = await served.app.engine.wait(id);
    expect(node.status).toBe("cancelled");
    expect(served.app.engine.textOf(await served.app.engine.get(id))).toContain("some words");
    expect(await served.upstream.requests[0]?.gone).toBe(true);
  });

  test("K1 with an idempotency key the run goes on, and the repetition finds its answer", async () => {
    const served = await serve([{ text: ["some ", "words"], delay: 200 }]);
    const body = { model, input: "Hi" };
    const headers = { "idempotency-key": "once" };
    await postAndLeave(served, "/v1/responses", body, headers);
    const again = await served.fetch("/v1/responses", { json: body, headers });
    expect(await again.json()).toMatchObject({ status: "completed" });
    expect(served.upstream.requests).toHaveLength(1);
  });

  test("K1 a background response goes on", async () => {
    const served = await serve([{ text: ["some ", "words"], delay: 200 }]);
    await postAndLeave(served, "/v1/responses", { model, input: "Hi", background: true, stream: true });
    const node = await onlyResponse(served);
    expect((await served.app.engine.wait(node.id)).status).toBe("completed");
  });
});

describe("the same request again", () => {
  test.each([
    ["/v1/chat/completions", { model, messages: [{ role: "user", content: "Hi" }] }],
    ["/v1/responses", { model, input: "Hi" }],
    ["/chat", { message: "Hi" }],
  ])(
    "K3 %s: attached while it runs, the same answer afterwards, after a restart too; 422 for another body",
    async (path, json) => {
      const served = await serve([{ text: ["Hel", "lo"], delay: 100 }]);
      const headers = { "idempotency-key": "k-1" };
      const answers = await Promise.all([1, 2, 3].map(() => served.fetch(path, { json, headers })));
      const texts = await Promise.all(answers.map((answer) => answer.text()));
      expect(new Set(texts).size).toBe(1);
      expect(served.upstream.requests).toHaveLength(1);
      const other = await served.fetch(path, { json: { ...json, more: 1 }, headers });
      expect(other.status).toBe(422);
      await served.stop();
      const restarted = await serve([{ text: "no" }], { folder: served.folder, endpoint: served.upstream });
      expect(await (await restarted.fetch(path, { json, headers })).text()).toBe(texts[0]);
      expect(served.upstream.requests).toHaveLength(1);
      // Another token's keys are its own.
      const token = await restarted.newToken();
      expect((await restarted.fetch(path, { json: { ...json, more: 1 }, headers, token })).status).toBe(200);
    },
  );

  test("K3 a stream with a key can be had again whole", async () => {
    const served = await serve([{ text: ["Hel", "lo"] }]);
    const headers = { "idempotency-key": "k-2" };
    const json = { model, input: "Hi", stream: true };
    const first = await eventsOf(await served.fetch("/v1/responses", { json, headers }));
    const second = await eventsOf(await served.fetch("/v1/responses", { json, headers }));
    expect(second).toEqual(first);
  });

  test("K5 after a turn was accepted no answer invites the SDK to post it again", async () => {
    const served = await serve([
      { status: 429, headers: { "retry-after": "100000" }, body: { error: { message: "slow" } } },
    ]);
    const answer = await served.fetch("/v1/chat/completions", {
      json: { model, messages: [{ role: "user", content: "Hi" }] },
    });
    expect(answer.status).toBe(429);
    expect(answer.headers.get("x-should-retry")).toBe("false");
  });
});

describe("owners", () => {
  test("K7 another owner's ids are answered like unknown ones, at every route", async () => {
    const served = await serve([{ text: "secret" }]);
    const [mine, theirs] = [
      await served.newToken({
        scopes: ["chat", "responses:read", "responses:write", "tools:call", "approve", "admin", "settings"],
      }),
      await served.newToken({
        scopes: ["chat", "responses:read", "responses:write", "tools:call", "approve", "admin", "settings"],
      }),
    ];
    const response = await served.respond({ model, input: "Hi" }, mine);
    const chat = await served.fetch("/v1/chat/completions", {
      json: { model, messages: [{ role: "user", content: "Hi" }], conversation_id: "my-talk" },
      token: mine,
    });
    expect(chat.status).toBe(200);
    const [conversation] = await served.app.store.conversations({ limit: 1 });
    const ids = { resp: response.id, conv: conversation?.id ?? "" };
    const unknown = { resp: `resp_${"0".repeat(26)}`, conv: `conv_${"0".repeat(26)}` };
    const routes: [string, string, object?][] = [
      ["GET", "/v1/responses/RESP"],
      ["GET", "/v1/responses/RESP?stream=true"],
      ["DELETE", "/v1/responses/RESP"],
      ["POST", "/v1/responses/RESP/cancel"],
      ["POST", "/v1/responses/RESP/resume"],
      ["POST", "/v1/responses/RESP/steer", { input: "x" }],
      ["GET", "/v1/responses/RESP/input_items"],
      ["POST", "/v1/responses", { model, input: "x", previous_response_id: "RESP" }],
      ["POST", "/v1/responses", { model, input: "x", conversation: "CONV" }],
      ["POST", "/v1/responses/compact", { model, previous_response_id: "RESP" }],
      ["POST", "/v1/responses/input_tokens", { model, previous_response_id: "RESP" }],
      ["POST", "/v1/chat/completions", { model, messages: [{ role: "user", content: "x" }], conversation_id: "CONV" }],
      ["POST", "/chat", { message: "x", conversation: "CONV" }],
      ["GET", "/v1/conversations/CONV"],
      ["POST", "/v1/conversations/CONV", { metadata: {} }],
      ["PUT", "/v1/conversations/CONV", { title: "x" }],
      ["DELETE", "/v1/conversations/CONV"],
      ["POST", "/v1/conversations/CONV/branch", {}],
      ["GET", "/v1/conversations/CONV/items"],
      ["POST", "/v1/conversations/CONV/items", { items: [{ role: "user", content: "x" }] }],
      ["POST", "/v1/tool-approval", { approvalId: "RESP", approved: true }],
    ];
    for (const [method, path, body] of routes) {
      const ask = async (with_: typeof ids, token: string) => {
        const put = (text: string) => text.replaceAll("RESP", with_.resp).replaceAll("CONV", with_.conv);
        const answer = await served.fetch(put(path), {
          method,
          token,
          ...(body && { body: put(JSON.stringify(body)), headers: { "content-type": "application/json" } }),
        });
        const text = (await answer.text()).replaceAll(with_.resp, "RESP").replaceAll(with_.conv, "CONV");
        return { route: `${method} ${path}`, status: answer.status, text };
      };
      const other = await ask(ids, theirs);
      expect(other).toEqual(await ask(unknown, theirs));
      // As in the reference: what a request goes on from is a field of it.
      expect(other.status).toBe(body && "previous_response_id" in body ? 400 : 404);
    }
    // A name is its owner's own: the other one's begins a conversation of that name, and sees nothing of the first.
    const same = await served.fetch("/v1/chat/completions", {
      json: { model, messages: [{ role: "user", content: "Hello" }], conversation_id: "my-talk" },
      token: theirs,
    });
    expect(same.status).toBe(200);
    expect(JSON.stringify(served.upstream.requests.at(-1)?.body.messages)).not.toContain("secret");
    const list = await (await served.fetch("/v1/responses", { token: theirs })).text();
    expect(list).not.toContain(response.id);
    // The operator sees all.
    expect((await served.fetch(`/v1/responses/${response.id}`)).status).toBe(200);
  });

  test("a token is bound to its profiles and scopes", async () => {
    const served = await serve([{ text: "x" }]);
    const token = await served.newToken({ profiles: ["explore"], scopes: ["chat"] });
    const messages = [{ role: "user", content: "Hi" }];
    const chat = (name: string) => served.fetch("/v1/chat/completions", { json: { model: name, messages }, token });
    expect((await chat("profile/explore")).status).toBe(200);
    expect((await chat("profile/general")).status).toBe(403);
    expect((await chat(model)).status).toBe(403);
    const listed = (await (await served.fetch("/v1/models", { token })).json()) as { data: { id: string }[] };
    expect(listed.data.map((one) => one.id)).not.toContain("profile/general");
    for (const [method, path, json] of [
      ["POST", "/v1/responses", { input: "x" }],
      ["GET", "/v1/settings", undefined],
      ["POST", "/mcp/tools/call", { name: "read", arguments: {} }],
      ["POST", "/v1/mcp/servers", { name: "x", config: { command: "x" } }],
      ["POST", "/v1/tool-approval", {}],
    ] as const) {
      const answer = await served.fetch(path, { method, token, ...(json && { json }) });
      expect({ path, status: answer.status }).toEqual({ path, status: 403 });
    }
  });
});

describe("two turns at once", () => {
  test("K4 on one parent they are siblings; in one conversation the second waits for the first", async () => {
    const served = await serve([{ text: "Root" }, { text: ["a", "b"], delay: 100 }, { text: "second" }]);
    const root = await served.respond({ model, input: "Hi" });
    const both = await Promise.all(
      ["One", "Two"].map((input) => served.respond({ model, input, previous_response_id: root.id })),
    );
    expect(both.map((one) => one.previous_response_id)).toEqual([root.id, root.id]);
    const conversation = ((await (await served.fetch("/v1/conversations", { json: {} })).json()) as { id: string }).id;
    const [first, second] = await Promise.all(
      ["One", "Two"].map((input) => served.respond({ model, input, conversation })),
    );
    expect([first?.status, second?.status]).toEqual(["completed", "completed"]);
    const parents = [first?.previous_response_id, second?.previous_response_id];
    expect(parents.filter((parent) => parent === null)).toHaveLength(1);
    expect(parents).toContain(parents[0] === null ? first?.id : second?.id);
  });

  test("a follow-up is queued behind a run, and steering reaches it in the middle", async () => {
    const served = await serve([
      { calls: [{ name: "bash", arguments: { command: "sleep 0.5" } }] },
      { text: "First done." },
      { text: "Second done." },
    ]);
    const first = await served.respond({ model, input: "Work", background: true });
    const second = await served.respond({ model, input: "Then", background: true, previous_response_id: first.id });
    expect(second.status).toBe("queued");
    const steered = await served.fetch(`/v1/responses/${first.id}/steer`, { json: { input: "Be quick" } });
    expect(steered.status).toBe(200);
    await served.app.engine.wait(second.id);
    expect(JSON.stringify(served.upstream.requests[1]?.body.messages)).toContain("Be quick");
    expect(JSON.stringify(served.upstream.requests[2]?.body.messages)).toContain("First done.");
    const running = (await (await served.fetch("/v1/responses?status=running")).json()) as { data: unknown[] };
    expect(running.data).toEqual([]);
  });
});

test("K19 K20 what Codex sends: unknown fields, namespaces, web_search; its own functions come back to it", async () => {
  const served = await serve([
    { reasoning: "hm", calls: [{ name: "shell", arguments: { command: ["ls"] } }] },
    { text: "Listed." },
  ]);
  const headers = { "session-id": "s", "thread-id": "t", "x-codex-turn": "1" };
  const common = {
    model,
    store: false,
    stream: true,
    instructions: "You are a coding agent.",
    include: ["reasoning.encrypted_content"],
    prompt_cache_key: "s",
    client_metadata: { a: "b" },
    parallel_tool_calls: false,
    tool_choice: "auto",
    reasoning: { effort: "medium", summary: "auto" },
    tools: [
      { type: "function", name: "shell", strict: false, parameters: { type: "object", properties: {} } },
      {
        type: "namespace",
        name: "mcp__x",
        description: "",
        tools: [{ type: "function", name: "y", parameters: { type: "object" } }],
      },
      { type: "web_search", external_web_access: false },
      { type: "custom", name: "apply_patch", format: { type: "grammar", syntax: "lark", definition: "start: x" } },
    ],
  };
  const user = { type: "message", role: "user", content: [{ type: "input_text", text: "List" }] };
  const events = await eventsOf(await served.fetch("/v1/responses", { json: { ...common, input: [user] }, headers }));
  const end = events.at(-2)?.data as { response: { output: { type: string; call_id: string }[] } };
  const call = end.response.output.find((item) => item.type === "function_call");
  expect(call).toMatchObject({ name: "shell", arguments: '{"command":["ls"]}' });
  // Codex sends the whole history again, items that we do not know among it.
  const output = { type: "function_call_output", call_id: call?.call_id, output: "a.txt" };
  const foreign = { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "x" } };
  const input = [user, ...end.response.output, output, foreign, { type: "local_shell_call", id: "x" }];
  const second = await eventsOf(await served.fetch("/v1/responses", { json: { ...common, input }, headers }));
  expect(JSON.stringify(second.at(-2)?.data)).toContain("Listed.");
  expect(served.upstream.refusals).toEqual([]);
  const messages = served.upstream.requests[1]?.body.messages as { role: string }[];
  expect(messages.map((one) => one.role)).toEqual(["system", "user", "assistant", "tool"]);
  expect(await served.app.store.list({})).toEqual([]);
});

test("S54 a context that grew too long is a clear error, and compact makes it small", async () => {
  const served = await serve(({ body }) =>
    JSON.stringify(body.messages).length > 20_000
      ? {
          status: 400,
          body: { error: { message: "maximum context length exceeded", code: "context_length_exceeded" } },
        }
      : { text: "A summary." },
  );
  const long = await served.fetch("/v1/chat/completions", {
    json: { model, messages: [{ role: "user", content: "word ".repeat(10_000) }] },
  });
  expect(long.status).toBe(400);
  expect(await long.json()).toMatchObject({ error: { code: "context_length_exceeded" } });
  const first = await served.respond({ model, input: "Remember: the sky is green." });
  const compacted = await served.fetch("/v1/responses/compact", { json: { model, previous_response_id: first.id } });
  const { output } = (await compacted.json()) as { output: { type: string }[] };
  expect(output.at(-1)?.type).toBe("compaction");
  await served.respond({ model, input: [output.at(-1), { role: "user", content: "And?" }] });
  expect(JSON.stringify(served.upstream.requests.at(-1)?.body.messages)).toContain("A summary.");
});
